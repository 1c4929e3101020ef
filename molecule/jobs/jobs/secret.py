"""Write down the SHA-256 of the variables named, and the umask; then wait for the file `finish`."""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

NAMES = sys.argv[sys.argv.index("--names") + 1 :]

umask = os.umask(0o077)
os.umask(umask)
digests = {name: hashlib.sha256(os.environ.get(name, "").encode()).hexdigest() for name in NAMES}
part = Path(f"part-{os.environ['RANK']}")
part.write_text(json.dumps({"digests": digests, "umask": f"{umask:04o}", "pid": os.getpid()}))
part.replace("seen.json")
end = time.monotonic() + 600
while not Path("finish").exists() and time.monotonic() < end:
    time.sleep(0.5)
