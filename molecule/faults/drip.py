"""Keep the port busy on which the supervisor of the job in a directory listens: drip.py JOB_DIRECTORY

For twenty seconds: some connections that send a byte now and then, and many that send nothing.
"""

import socket
import sys
import time
from pathlib import Path


def endpoint(job: str) -> tuple[str, int]:
    """Return where the supervisor listens, from the environment of a process that works in the job directory."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str((process / "cwd").readlink()) != job:
                continue
            words = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for word in words:
            if word.startswith(b"AMX_CLUSTER_BEAT="):
                address, port, _token = word.partition(b"=")[2].decode().split(":")
                return address, int(port)
    raise SystemExit(f"no process of {job} has a supervisor")


def main() -> None:
    target = endpoint(sys.argv[1])
    slow = [socket.create_connection(target) for _client in range(20)]
    end = time.monotonic() + 20
    while time.monotonic() < end:
        for number, client in enumerate(slow):
            try:
                client.sendall(b"x")
            except OSError:
                slow[number] = socket.create_connection(target)
        for _client in range(50):
            socket.create_connection(target).close()
        time.sleep(0.3)


if __name__ == "__main__":
    main()
