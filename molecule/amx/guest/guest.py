"""The first process of the emulated machine: runs the commands of commands.json, and prints each answer on the console.

Knows nothing of what they are for; tests/support/amx_machine.py has both ends of this.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).parent
ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "HOME": "/root",
    "PYTHONPATH": str(HERE / "lib"),
}

os.environ.update(ENV)
subprocess.run(["ip", "link", "set", "lo", "up"], stderr=subprocess.DEVNULL, check=False)
for name, command in json.loads((HERE / "commands.json").read_text(encoding="utf-8")).items():
    began = time.monotonic()
    ran = subprocess.run(
        command["argv"],
        input=command.get("stdin", ""),
        env={**ENV, **command.get("env", {})},
        cwd="/run",
        capture_output=True,
        text=True,
        check=False,
    )
    answer = {"name": name, "code": ran.returncode, "output": ran.stdout, "errors": ran.stderr[-4000:]}
    answer["seconds"] = round(time.monotonic() - began, 1)
    print(f"\namx-test: {json.dumps(answer)}", flush=True)
print("\namx-test ends", flush=True)
while "AMX_TEST_ENDS" not in os.environ:  # until the machine is stopped
    time.sleep(3600)
