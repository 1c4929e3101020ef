# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that must not be in an image of a host, moved elsewhere while the image is made.

It is moved to a directory that is in memory (/run), so that it is in no snapshot of the disk, and back. Until then the
host accepts no new connection of SSH; a process of its own moves all back when nobody does.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._io import read_json, write_text
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, in_use

MACHINE_ID = "etc/machine-id"
# Relative to the root: host keys, the identity of the machine, and what users of the host have of keys and tokens.
PATTERNS = ("etc/ssh/ssh_host_*", MACHINE_ID, "var/lib/dbus/machine-id", "etc/pip.conf", "etc/docker/config.json")
OF_A_HOME = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".config/gcloud", ".oci", ".s3cfg", ".boto", ".config/rclone", ".kube"),
    *(".docker", ".config/containers", ".netrc", ".pypirc", ".config/pip", ".pip", ".condarc", ".npmrc", ".wgetrc"),
    *(".git-credentials", ".config/git/credentials", ".config/gh", ".config/hub", ".vault-token", ".terraform.d"),
    *(".config/wandb", ".mlflow", ".kaggle", ".cache/huggingface/token", ".cache/huggingface/stored_tokens"),
    *(".huggingface", ".pgpass", ".my.cnf", ".*_history", ".local/share/fish/fish_history", ".lesshst", ".viminfo"),
)
OF_A_JOB = "jobs/*/secrets.json"
_RESTORE = "restore.sh"
# Copies of authorized_keys, and what restores them at boot.
LOGINS, BOOT = "var/lib/amx-cluster-image", "boot.sh"
UNIT = "etc/systemd/system/amx-cluster-image.service"
WANTED = "etc/systemd/system/multi-user.target.wants/amx-cluster-image.service"
UUID = "/sys/class/dmi/id/product_uuid"
_UNIT = """[Unit]
Description=Restore authorized_keys of an image that was interrupted (amx.cluster)
Before=ssh.service sshd.service
[Service]
Type=oneshot
ExecStart=/bin/sh {script}
[Install]
WantedBy=multi-user.target
"""
# Each path by itself: what is in its way is moved aside, and files that are there alone are kept in a directory beside.
_SCRIPT = """left=0
back() {{
  [ -e "$1" ] || [ -L "$1" ] || return 0
  mkdir -p "$(dirname "$2")"
  if [ -d "$2" ] && [ ! -L "$2" ]; then
    aside=$(mktemp -d "$2.made-during-image.XXXXXX") && mv -fT "$2" "$aside/was" || true
  fi
  mv -fT "$1" "$2" || {{ echo "$2 could not be restored, and is in $1" >&2; left=1; }}
}}
{lines}
[ "$left" = 1 ] || rm -rf {logins} {keep}
exit "$left"
"""


def paths(root: Path, homes: list[str], prefix: str) -> list[Path]:
    """Return what is there of all that must not be in an image.

    homes: further ones than those of the users. homes, prefix: as the host has them, below its root.
    """
    matches = [path for pattern in PATTERNS for path in root.glob(pattern)]
    for home in sorted({*homes, *_homes(root)}):
        matches += [path for name in OF_A_HOME for path in (root / home.strip("/")).glob(name)]
    matches += (root / prefix.strip("/")).glob(OF_A_JOB)
    return sorted({path for path in matches if path.is_symlink() or path.exists()})


def _homes(root: Path) -> list[str]:
    """Return the homes of all users: of passwd, and what is in /home."""
    with contextlib.suppress(OSError):
        users = (root / "etc/passwd").read_text(encoding="utf-8", errors="replace").splitlines()
        fields = [line.split(":") for line in users]
        own = [field[5] for field in fields if len(field) > 5 and field[5].strip("/")]
        return [*own, *(f"/{path.relative_to(root)}" for path in root.glob("home/*"))]
    return [f"/{path.relative_to(root)}" for path in root.glob("home/*")]


def running(root: Path, prefix: str, host: str = "") -> list[str]:
    """Return the jobs that run on this host: by its processes and locks, and by what their directories say."""
    jobs = root / prefix.strip("/") / "jobs"
    states = {path.parent.name: read_json(path) for path in jobs.glob("*/status.json")}
    names = {name for name, status in states.items() if (status or {}).get("state") == "running"}
    locked = {path.parent.name for path in jobs.glob("*/lock.*") if directory.is_in_use(path.parent, host)}
    return sorted(names | locked | {job["job"] for job in in_use.in_use(jobs, host)})


def hide(root: Path, homes: list[str], prefix: str, keep: Path, seconds: int, host: str = "") -> list[str]:
    """Move it all to the directory `keep`, and return what was moved; after so many seconds it is moved back anyway.

    `keep` may be in memory: a reboot meanwhile restores authorized_keys from a copy on the disk (LOGINS). host: its
    name in the inventory. Raises ValueError while a job runs, OSError and CalledProcessError.
    """
    jobs = running(root, prefix, host)
    if jobs:
        raise ValueError(f"job {', '.join(jobs)} is running: wait for its end, or stop it with playbooks/stop.yml")
    restore(keep)  # of a run that was interrupted
    keep.mkdir(mode=0o700, parents=True)
    moved = [path.relative_to(root) for path in paths(root, homes, prefix)]
    pairs = [(shlex.quote(str(keep / path)), shlex.quote(str(root / path))) for path in moved]
    script = shlex.quote(str(keep / _RESTORE))
    lines = [f"back {kept} {back}" for kept, back in pairs]
    logins = " ".join(shlex.quote(str(root / path)) for path in (LOGINS, UNIT, WANTED))
    text = _SCRIPT.format(lines="\n".join(lines), keep=shlex.quote(str(keep)), logins=logins)
    write_text(keep / _RESTORE, text, 0o700)
    command = f"for n in 1 2 3 4 5; do sleep {seconds}; [ ! -e {script} ] || sh {script} && exit; done"
    quiet = subprocess.DEVNULL
    subprocess.Popen(["sh", "-c", command], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    _keep_logins(root, moved)
    for path in moved:
        (keep / path).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mv", "-T", str(root / path), str(keep / path)], check=True, capture_output=True)
    if Path(MACHINE_ID) in moved:
        write_text(root / MACHINE_ID, "", 0o444)  # empty: systemd makes a new one at the first start
    subprocess.run(["sync"], check=True)
    # What was moved away is still in free blocks; where the disk cannot discard them, a snapshot has them.
    if root == Path("/") and shutil.which("fstrim"):
        subprocess.run(["fstrim", "-a"], check=False, capture_output=True)
    return [f"/{path}" for path in moved]


def _keep_logins(root: Path, moved: list[Path]) -> None:
    """Copy authorized_keys, which are public, to the disk, and have them restored at the next boot of this machine.

    A host that is made of the image removes the copies at its first boot: its UUID is another.
    """
    copies, unit = root / LOGINS, root / UNIT
    shutil.rmtree(copies, ignore_errors=True)
    copies.mkdir(mode=0o700, parents=True)
    lines = []
    for number, path in enumerate(place for place in moved if (root / place / "authorized_keys").is_file()):
        home, copy = root / path, copies / str(number)
        shutil.copytree(home, copy, symlinks=True, ignore=lambda _top, names: {*names} - {"authorized_keys"})
        for source, target in ((home, copy), (home / "authorized_keys", copy / "authorized_keys")):
            os.chown(target, source.stat().st_uid, source.stat().st_gid)
        there, kept = shlex.quote(str(home)), shlex.quote(str(copy))
        lines.append(f"[ -d {there} ] || cp -a {kept} {there}; cp -an {kept}/. {there}/")
    this, of_host = shlex.quote(_uuid()), f'"$(cat {UUID} 2>/dev/null)"'
    body = "\n  ".join(lines) or ":"
    clean = f"rm -rf {shlex.quote(str(copies))} {shlex.quote(str(unit))} {shlex.quote(str(root / WANTED))}"
    write_text(copies / BOOT, f"if [ {of_host} = {this} ]; then\n  {body}\nfi\n{clean}\n", 0o700)
    unit.parent.mkdir(parents=True, exist_ok=True)
    write_text(unit, _UNIT.format(script=copies / BOOT))
    wanted = root / WANTED
    wanted.parent.mkdir(parents=True, exist_ok=True)
    wanted.unlink(missing_ok=True)
    wanted.symlink_to(f"/{UNIT}")


def _uuid() -> str:
    with contextlib.suppress(OSError):
        return Path(UUID).read_text(encoding="utf-8").strip()
    return ""


def restore(keep: Path) -> bool:
    """Move all back; return whether there was something. Raises OSError and CalledProcessError, with what is left."""
    if not (keep / _RESTORE).exists():
        shutil.rmtree(keep, ignore_errors=True)
        return False
    subprocess.run(["sh", str(keep / _RESTORE)], check=True, capture_output=True)
    return True
