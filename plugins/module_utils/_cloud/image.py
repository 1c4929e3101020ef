# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must not be in an image of a host, moved out of the way for the moment in which the image is made.

It is moved to a directory that is in memory (/run), so that it is in no snapshot of the disk, and back. Until then the
host accepts no new connection of SSH; a process of its own moves all back when nobody does.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._io import read_json, write_text

MACHINE_ID = "etc/machine-id"
# Relative to the root: host keys, the identity of the machine, and what users of the host have of keys and tokens.
PATTERNS = ("etc/ssh/ssh_host_*", MACHINE_ID, "var/lib/dbus/machine-id")
OF_A_HOME = (
    ".ssh",
    ".aws",
    ".netrc",
    ".bash_history",
    ".python_history",
    ".git-credentials",
    ".cache/huggingface/token",
)
OF_A_JOB = "jobs/*/secrets.json"
_RESTORE = "restore.sh"


def paths(root: Path, homes: list[str], prefix: str) -> list[Path]:
    """Return what is there of all that must not be in an image. homes, prefix: as the host has them, below its root."""
    found = [path for pattern in PATTERNS for path in root.glob(pattern)]
    for home in homes:
        found += [root / home.strip("/") / name for name in OF_A_HOME]
    found += (root / prefix.strip("/")).glob(OF_A_JOB)
    return sorted({path for path in found if path.is_symlink() or path.exists()})


def running(root: Path, prefix: str) -> list[str]:
    """Return the jobs that run on this host, by what their directories say."""
    states = {path.parent.name: read_json(path) for path in (root / prefix.strip("/")).glob("jobs/*/status.json")}
    return sorted(name for name, status in states.items() if (status or {}).get("state") == "running")


def hide(root: Path, homes: list[str], prefix: str, keep: Path, seconds: int) -> list[str]:
    """Move it all to the directory `keep`, and return what was moved; after so many seconds it is moved back anyway.

    Raises ValueError while a job runs, OSError and CalledProcessError.
    """
    jobs = running(root, prefix)
    if jobs:
        raise ValueError(f"job {', '.join(jobs)} is running: wait for its end, or stop it with playbooks/stop.yml")
    restore(keep)  # of a run that was interrupted
    keep.mkdir(mode=0o700, parents=True)
    moved = [path.relative_to(root) for path in paths(root, homes, prefix)]
    pairs = [(shlex.quote(str(keep / path)), shlex.quote(str(root / path))) for path in moved]
    lines = [f"[ ! -e {kept} ] || mv -fT {kept} {back}" for kept, back in pairs]
    script = shlex.quote(str(keep / _RESTORE))
    write_text(keep / _RESTORE, "\n".join(["set -e", *lines, f"rm -rf {shlex.quote(str(keep))}", ""]), 0o700)
    command = f"sleep {seconds}; [ ! -e {script} ] || sh {script}"
    quiet = subprocess.DEVNULL
    subprocess.Popen(["sh", "-c", command], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    for path in moved:
        (keep / path).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mv", "-T", str(root / path), str(keep / path)], check=True, capture_output=True)
    if Path(MACHINE_ID) in moved:
        write_text(root / MACHINE_ID, "", 0o444)  # empty: systemd makes a new one at the first start
    subprocess.run(["sync"], check=True)
    return [f"/{path}" for path in moved]


def restore(keep: Path) -> bool:
    """Move all back; return whether there was something. Raises OSError and CalledProcessError."""
    if not (keep / _RESTORE).exists():
        shutil.rmtree(keep, ignore_errors=True)
        return False
    subprocess.run(["sh", str(keep / _RESTORE)], check=True, capture_output=True)
    return True
