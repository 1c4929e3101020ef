# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the collection has made on a host, in pieces that can be removed, and whether a job needs them.

Only what carries the collection's mark counts: what lies beside it in the same directories is not its own.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._hosts import firewall, ssh_mesh, tuning
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, processes
from ansible_collections.amx.cluster.plugins.module_utils._stacks import venv
from ansible_collections.amx.cluster.plugins.module_utils._text import columns, count, names, words

# What each piece is, in the order in which they are removed. The last ones keep the connection of Ansible and of jobs.
PIECES = {
    "jobs": "job directories without results, such as those of workers, and those of derived jobs",
    "results": "job directories with results: models, checkpoints, metrics and logs",
    "data": "models, datasets, examples, packages and files of projects that jobs were provided with",
    "downloads": "what the control node has downloaded for all of its clusters, in cluster_cache",
    "environments": "virtual environments and wheels",
    "tuning": "kernel settings, limits, and tcmalloc where the collection installed it",
    "firewall": "the rules of the role firewall",
    "ssh": "key pairs, keys in authorized_keys, pinned host keys and the SSH configuration between hosts",
}
# What `all` leaves out: results cannot be made again for nothing, and downloads are of other clusters, too.
NOT_ALL = ("results", "downloads")
# Those whose files lie in a directory of the user that runs jobs.
OF_FILES = ("jobs", "results", "data", "downloads", "environments")
# The files of the roles host_tuning and firewall, below the root.
SYSTEM_FILES = {
    "tuning": (
        "etc/tmpfiles.d/amx-cluster.conf",
        "etc/sysctl.d/90-amx-cluster.conf",
        "etc/security/limits.d/90-amx-cluster.conf",
        "etc/systemd/system/amx-cluster-shm.service",
        "var/lib/amx-cluster/kernel_settings.json",
        "var/lib/amx-cluster/tcmalloc_package",
    ),
    "firewall": (
        "etc/amx-cluster/firewall.nft",
        "etc/amx-cluster/firewall_rollback.sh",
        "etc/systemd/system/amx-cluster-firewall.service",
        "var/lib/amx-cluster/firewall.json",
    ),
}
# Files of a job directory that a run writes besides those that its directory was created with, and its results.
OF_A_RUN = re.compile(
    r"(lock\..*|supervisor\.lock|supervise\.log|(status|progress|world|ranks|resumed|parts|secrets|observed|verified)\.json"
    r"|ranks|__pycache__|host|\.amx-cluster\.json)"
)
# The directories in which the files of a piece lie, below cluster_prefix or cluster_cache. Only what carries the
# collection's mark counts there.
PLACES = {
    "jobs": ("jobs",),
    "results": ("jobs",),
    "data": ("cache",),
    "downloads": ("wheelhouse", "git_wheels", "fetched", "transformers", "images"),
    "environments": ("envs", "wheels"),
    "wheels": ("wheels",),  # of the environments, what hosts beside the head need no longer
}
LINKS = ("env", "examples")
CONTROL = "the control node"


def requested(text: str | Sequence[str]) -> list[str]:
    """Return the pieces that are named, in the order in which they are removed. Raises ValueError.

    text: names separated by commas, or a list of them; "all" stands for all but NOT_ALL.
    """
    named = words(text)
    unknown = sorted({word for word in named if word != "all" and word not in PIECES})
    if unknown:
        raise ValueError(
            f"reset: {', '.join(unknown)} is not one of {', '.join(PIECES)} or all (all but {' and '.join(NOT_ALL)})"
        )
    return [piece for piece in PIECES if piece in named or ("all" in named and piece not in NOT_ALL)]


def paths(base: Path, piece: str) -> list[Path]:
    """Return the files, directories and links of a piece that carry the collection's mark.

    base: cluster_prefix on a host; of downloads cluster_cache on the control node. Raises OSError.
    """
    links = [base / name for name in LINKS if piece == "environments" and (base / name).is_symlink()]
    found = [*links, *(path for name in PLACES[piece] for path in _made(base / name))]
    if piece in ("jobs", "results"):
        found = [path for path in found if has_results(path) == (piece == "results")]
    return sorted(path for path in found if _ownership.is_own(path))


def unmarked(base: Path, piece: str) -> list[Path]:
    """Return what lies beside the paths of a piece and carries no mark, so that it stays. Raises OSError."""
    return sorted(path for name in PLACES[piece] for path in _made(base / name) if not _ownership.is_own(path))


def _entries(folder: Path) -> list[Path]:
    """The entries of a directory, none where it is missing; a link to one counts as a file."""
    return sorted(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []


def _made(folder: Path) -> Iterator[Path]:
    """The entries of a directory but for marks, and instead of a container those in it."""
    for path in _entries(folder):
        if _ownership.read(path).get("what") == _ownership.CONTAINER:
            yield from _made(path)
        elif not path.name.endswith(_ownership.MARK):
            yield path


def has_results(job: Path) -> bool:
    """Whether a directory is that of a job and has a log or results, or any file that a script has written."""
    mark = _ownership.read(job)
    if mark.get("what") != directory.JOB:
        return False
    if (job / "results.json").exists() or (job / "log").exists():
        return True
    known = set(mark.get("names", []))
    for path in _entries(job):
        if path.is_symlink() or path.name in known or OF_A_RUN.fullmatch(path.name):
            continue
        if path.is_file() or any(one.is_file() for one in path.rglob("*")):
            return True
    return False


def size(found: Iterable[Path]) -> int:
    """Return the bytes of files and of what is in directories; links are not followed, a file with two names is one."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for path in found:
        inside = path.rglob("*") if path.is_dir() and not path.is_symlink() else [path]
        for one in inside:
            try:
                status = one.lstat()
            except OSError:  # it went meanwhile
                continue
            if (status.st_dev, status.st_ino) not in seen and not one.is_dir():
                seen.add((status.st_dev, status.st_ino))
                total += min(status.st_size, 512 * status.st_blocks)  # a log may have holes
    return total


def remove(base: Path, found: Iterable[Path]) -> list[Path]:
    """Remove what carries the mark, and the collection's directories between that are empty then; return what went.

    Raises OSError.
    """
    removed = []
    for path in found:
        if _ownership.is_own(path) and not path.is_symlink() and (path / venv.MARKER).exists():
            (path / venv.MARKER).unlink()  # half of one must not pass for a complete one
        if _ownership.remove(path):
            removed.append(path)
        for parent in path.parents:
            if parent == base or base not in parent.parents or not _remove_empty(parent):
                break
    return removed


def remove_empty(base: Path) -> None:
    """Remove the directories that the collection has made in `base`, where they are empty. Raises OSError."""
    for name in sorted({name for places in PLACES.values() for name in places}):
        _remove_empty(base / name)


def _remove_empty(path: Path) -> bool:
    return _ownership.read(path).get("what") == _ownership.CONTAINER and _ownership.remove(path)


def system_files(piece: str, root: Path = Path("/")) -> list[str]:
    """Return those of SYSTEM_FILES that carry the mark, as absolute paths."""
    return [f"/{name}" for name in SYSTEM_FILES[piece] if _ownership.is_own(root / name)]


def kernel_settings(root: Path = Path("/")) -> int:
    """Return how many kernel settings have a previous value that would be restored."""
    with contextlib.suppress(OSError, ValueError):
        return len(tuning.load(root / "var/lib/amx-cluster/kernel_settings.json"))
    return 0


def firewall_rules(root: Path = Path("/")) -> dict[str, str]:
    """Return the rules of the role firewall, and by which mark each is known."""
    record = read_json(root / "var/lib/amx-cluster/firewall.json")
    return firewall.marked(record) if record else {}


def ssh_files(folder: Path, name: str) -> dict[str, Any]:
    """Return {files: of the mesh in a user's .ssh directory, keys: how many of its authorized_keys are the mesh's}."""
    keys = 0
    with contextlib.suppress(OSError):
        content = (folder / "authorized_keys").read_text(encoding="utf-8", errors="replace")
        keys = len(ssh_mesh.stale_keys(content, [], name, [], exclusive=True))
    return {"files": [str(path) for path in ssh_mesh.files(folder, name)], "keys": keys}


def in_use(base: Path, host: str) -> list[dict[str, Any]]:
    """Return what runs in `base` now: [{job, hosts, why}], the job's name empty for a process of no job.

    host: this host's name in the inventory. hosts: those of the job, as far as they are known here.
    """
    jobs = base / "jobs"
    found: dict[str, str] = {}
    mine = processes.find_in(jobs)
    running = {Path(job).name for job in processes.running_jobs(jobs, mine)}
    for job in sorted(running):
        status = read_json(jobs / job / "status.json") or {}
        found[job] = f"runs since {status['started']}" if "started" in status else "runs"
    for lock in directory.locked_by(jobs, host):
        found.setdefault(lock["job"], f"runs since {lock['since']}")
    for process in mine:
        found.setdefault(Path(process["job"]).name, f"has processes on {host} (such as {process['pid']})")
    for folder in starting(jobs):
        found.setdefault(folder.name, "is being started")
    used = [{"job": job, "hosts": _hosts_of(jobs / job) or [host], "why": why} for job, why in found.items()]
    if not used:
        envs = [path for path in paths(base, "environments") if (path / "bin").is_dir() and not path.is_symlink()]
        busy = [path for path in envs if venv.busy(path)]
        used = [{"job": "", "hosts": [host], "why": f"a process uses the virtual environment {path}"} for path in busy]
    return used


def starting(jobs: Path) -> Iterator[Path]:
    """Yield the job directories that were created a moment ago and whose run has not begun yet."""
    for path in jobs.glob("*/job.json"):
        if not (path.parent / "status.json").exists() and is_head(path.parent):
            with contextlib.suppress(OSError):
                if 0 <= time.time() - path.stat().st_mtime < directory.STARTING:
                    yield path.parent


def is_head(job: Path) -> bool:
    """Whether a job directory is that of its head, from which the job is started."""
    settings = (read_json(job / "job.json") or {}).get("settings", {})
    with contextlib.suppress(OSError):
        return bool(settings.get("head") == (job / "host").read_text(encoding="utf-8").strip())
    return False


def environments_in_use(jobs: Path) -> list[str]:
    """Return the names of the virtual environments of running jobs that were started on this host, sorted.

    jobs: the directory of the job directories. Between two attempts of a job no process of it is on its other hosts.
    """
    folders = {Path(job) for job in processes.running_jobs(jobs, processes.find_in(jobs))} | set(starting(jobs))
    plans = (read_json(folder / "plan.json") or {} for folder in folders)
    return sorted({Path(plan["environment"]).name for plan in plans if plan.get("environment")})


def _hosts_of(job: Path) -> list[str]:
    plan = read_json(job / "plan.json") or {}
    return [str(one["host"]) for one in plan.get("hosts", [])]


def bytes_text(number: int) -> str:
    """Return a size as 12 KiB, 3.4 MiB or 1.2 GiB."""
    for unit, least in (("GiB", 2**30), ("MiB", 2**20)):
        if number >= least:
            return f"{number / least:.1f} {unit}"
    return f"{-(-number // 1024)} KiB"


def cell(piece: str, entry: Mapping[str, Any]) -> str:
    """Return what a host has of a piece, for a table. entry: as the module reset_info returns it."""
    if piece in OF_FILES:
        return bytes_text(entry["bytes"]) if entry["paths"] else "-"
    things = [count(len(entry["paths"]), "file")] if entry["paths"] else []
    if entry.get("rules"):
        things.append(count(len(entry["rules"]), "rule"))
    if entry.get("keys"):
        things.append(count(entry["keys"], "key"))
    if entry.get("settings"):
        things.append(count(entry["settings"], "setting"))
    return ", ".join(things) or "-"


def table(hosts: Mapping[str, Mapping[str, Any]], control: Mapping[str, Any] | None, chosen: Sequence[str]) -> str:
    """Return what each piece would take away, or takes away, a line for each host.

    hosts: {host: what the module reset_info returned}. control: that of the control node, for downloads. chosen: the
    pieces to remove; empty to show all.
    """
    pieces = [piece for piece in PIECES if piece != "downloads" and (not chosen or piece in chosen)]
    rows = [("host", *pieces)] if pieces else []
    for host, found in hosts.items() if pieces else ():
        rows.append((host, *(cell(piece, found["pieces"][piece]) for piece in pieces)))
    lines = columns(rows)
    if control and (not chosen or "downloads" in chosen):
        lines.append(f"downloads on the control node: {cell('downloads', control['pieces']['downloads'])}")
    return "\n".join(lines)


def listed(hosts: Mapping[str, Mapping[str, Any]], control: Mapping[str, Any] | None, chosen: Sequence[str]) -> str:
    """Return each path that is to be removed with the mark by which it is known, and what stays as it has none.

    hosts, control, chosen: as for table.
    """
    found: dict[tuple[str, str, str], list[str]] = {}
    everything = {**hosts, **({CONTROL: control} if control else {})}
    for host, of_host in everything.items():
        for piece in chosen:
            entry = of_host["pieces"].get(piece) if (piece == "downloads") == (host == CONTROL) else None
            for path, mark in (entry or {}).get("marks", {}).items():
                found.setdefault((piece, path, mark), []).append(host)
            for path in (entry or {}).get("unmarked", []):
                on = found.setdefault(("stays", path, "it has no mark of the collection"), [])
                on += [host] if host not in on else []  # jobs and results lie in one place
    return "\n".join(columns([(piece, path, mark, names(on)) for (piece, path, mark), on in found.items()]))


def how_to() -> str:
    """Return how pieces are asked for, where none was."""
    width = max(map(len, PIECES))
    lines = [f"  {piece.ljust(width)}  {what}" for piece, what in PIECES.items()]
    return "\n".join(
        [
            "Nothing was removed. Name what to remove, such as playbooks/reset.yml -e reset=environments,data",
            *lines,
            f"  {'all'.ljust(width)}  all of these but {' and '.join(NOT_ALL)}",
            "Other packages of the distribution, lingering of the user (loginctl), and files that the collection has "
            "not made, stay.",
        ]
    )


def refusal(hosts: Mapping[str, Mapping[str, Any]], played: Sequence[str], chosen: Sequence[str]) -> str:
    """Return why nothing may be removed now, with what to do; an empty string when it may.

    hosts: {host: what reset_info returned}, with the head's where it is not played. played: the hosts of this run.
    chosen: the pieces to remove.
    """
    jobs: dict[str, tuple[str, list[str]]] = {}
    lines = []
    for host, found in hosts.items():
        for one in found["in_use"]:
            if not set(one["hosts"]) & set(played):
                continue
            if not one["job"]:
                if "environments" in chosen:
                    lines.append(f"- {host}: {one['why']}: end it, or leave out environments")
                continue
            on = jobs.setdefault(one["job"], (one["why"], []))[1]
            on += [name for name in one["hosts"] if name not in on]
    for job, (why, on) in jobs.items():
        lines.append(f"- job {job} {why} on {names(on)}: wait for its end, or stop it: playbooks/stop.yml -e job={job}")
    return "\n".join(["Nothing was removed on any host, because something still runs:", *lines]) if lines else ""


def would_refuse(refused: str) -> str:
    """Return the lines of a refusal for a run that removes nothing anyway."""
    return "\n".join(["A reset would be refused now, because something still runs:", *refused.splitlines()[1:]])
