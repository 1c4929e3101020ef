"""A rank that is killed together with the process that would report it, beside another one of its host."""

import os
import signal
import time

if os.environ["RANK"] == "1":
    os.kill(os.getppid(), signal.SIGKILL)
time.sleep(600)
