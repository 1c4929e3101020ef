# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of what the collection has made on a host, each of which can be removed, and whether anything needs them.

Only what carries the collection's mark counts: what lies beside it in the same directories is not its own. Who makes
something lists its places (_ownership.Places), and is one of OWNERS.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._data import file_set
from ansible_collections.amx.cluster.plugins.module_utils._hosts import firewall, tuning
from ansible_collections.amx.cluster.plugins.module_utils._jobs import archive, directory, in_use
from ansible_collections.amx.cluster.plugins.module_utils._ownership import Places
from ansible_collections.amx.cluster.plugins.module_utils._stacks import venv, wheelhouse
from ansible_collections.amx.cluster.plugins.module_utils._text import names, words

# What each piece is, in the order in which they are removed. The last ones keep the connection of Ansible and of jobs.
PIECES = {
    "jobs": "job directories without results, such as those of workers, and those of derived jobs",
    "previous": "job directories with results, of previous runs, but the last model of a job without a later one; also "
    "programs of previous versions that no job needs",
    "results": "job directories with results: models, checkpoints, metrics and logs; of previous runs, too",
    "data": "models, datasets, examples, packages and files of projects that jobs were provided with",
    "downloads": "what the control node has downloaded for all of its clusters, in cluster_cache",
    "environments": "virtual environments, wheels, and the programs that run jobs",
    "tuning": "kernel settings, limits, and tcmalloc where the collection installed it",
    "firewall": "the rules of the role firewall",
    "ssh": "key pairs, keys in authorized_keys, pinned host keys and the SSH configuration between hosts",
}
# What `all` leaves out: results cannot be made again for nothing, and downloads are of other clusters, too.
NOT_ALL = ("previous", "results", "downloads")
# Those whose files lie in a directory of the user that runs jobs.
OF_FILES = ("jobs", "previous", "results", "data", "downloads", "environments")
OWNERS = (
    directory.PLACES,
    file_set.PLACES,
    file_set.DOWNLOADS,
    archive.PLACES,
    venv.PLACES,
    wheelhouse.WHEELS,
    wheelhouse.DOWNLOADS,
    Places("downloads", ("images",)),  # of the role image
    tuning.PLACES,
    firewall.PLACES,
)
# Pieces whose places are those of others: results lie among job directories, wheels are of the environments.
PARTS = {"previous": ("jobs",), "results": ("jobs",), "environments": ("environments", "wheels")}
# All that a directory can be asked for. Hosts beside the head no longer need the wheels once they are installed.
REMOVABLE = (*OF_FILES, "wheels")


def places(part: str) -> list[Places]:
    """Return the places of all owners of files of a part."""
    return [owner for owner in OWNERS if owner.piece in PARTS.get(part, (part,))]


def requested(text: str | Sequence[str]) -> list[str]:
    """Return the pieces that are named, in the order in which they are removed. Raises ValueError.

    text: names separated by commas, or a list of them; "all" stands for all but NOT_ALL, and results has those of
    previous runs.
    """
    named = words(text)
    named += ["previous"] if "results" in named else []
    unknown = sorted({word for word in named if word != "all" and word not in PIECES})
    if unknown:
        raise ValueError(
            f"reset: {', '.join(unknown)} is not one of {', '.join(PIECES)} or all (all but {names(NOT_ALL)})"
        )
    return [part for part in PIECES if part in named or ("all" in named and part not in NOT_ALL)]


def paths(base: Path, part: str) -> list[Path]:
    """Return the files, directories and links of a part that carry the collection's mark.

    base: cluster_prefix on a host; of downloads cluster_cache on the control node. Raises OSError.
    """
    links = [base / name for owner in places(part) for name in owner.links if (base / name).is_symlink()]
    candidates = [*links, *_inside(base, part)]
    if PARTS.get(part, (part,)) == ("jobs",):
        candidates = [path for path in candidates if _of_a_job(path) == part]
    if part == "previous":
        candidates += archive.unused(base, candidates)
    return sorted(path for path in candidates if _ownership.is_own(path))


def _of_a_job(path: Path) -> str:
    """Return the piece to which what lies among the job directories belongs."""
    if not directory.has_results(path):
        return "jobs"
    return "previous" if directory.is_previous(path) and not directory.is_last_model(path) else "results"


def unmarked(base: Path, part: str) -> list[Path]:
    """Return what lies beside the paths of a part and carries no mark, so that it stays. Raises OSError."""
    return sorted(path for path in _inside(base, part) if not _ownership.is_own(path))


def system_files(part: str, root: Path = Path("/")) -> list[Path]:
    """Return the files of a part outside the user's directories that carry the mark."""
    return [root / name for owner in places(part) for name in owner.files if _ownership.is_own(root / name)]


def _inside(base: Path, part: str) -> Iterator[Path]:
    for owner in places(part):
        for name in owner.directories:
            yield from _made(base / name)


def _made(parent: Path) -> Iterator[Path]:
    """Yield the entries of a directory but for marks, and instead of a container those in it; a link is a file."""
    for path in parent.iterdir() if parent.is_dir() and not parent.is_symlink() else ():
        if _ownership.read(path).get("what") == _ownership.CONTAINER:
            yield from _made(path)
        elif not path.name.endswith(_ownership.MARK):
            yield path


def size(paths: Iterable[Path]) -> int:
    """Return the bytes of files and of what is in directories; links are not followed, a file with two names is one."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for path in paths:
        inside = path.rglob("*") if path.is_dir() and not path.is_symlink() else [path]
        for file in inside:
            try:
                status = file.lstat()
            except OSError:  # it went meanwhile
                continue
            if (status.st_dev, status.st_ino) not in seen and not file.is_dir():
                seen.add((status.st_dev, status.st_ino))
                total += min(status.st_size, 512 * status.st_blocks)  # a log may have holes
    return total


def remove(base: Path, paths: Iterable[Path]) -> list[Path]:
    """Remove what carries the mark, and the collection's directories between that are empty then; return what went.

    Raises OSError.
    """
    removed = []
    for path in paths:
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
    for name in sorted({name for owner in OWNERS for name in owner.directories}):
        _remove_empty(base / name)


def _remove_empty(path: Path) -> bool:
    return _ownership.read(path).get("what") == _ownership.CONTAINER and _ownership.remove(path)


def used(base: Path, host: str) -> list[dict[str, Any]]:
    """Return what runs in `base` now: [{job, hosts, why}], the job's name empty for a process of no job.

    host: this host's name in the inventory.
    """
    jobs = in_use.in_use(base / "jobs", host)
    envs = [path for path in paths(base, "environments") if (path / "bin").is_dir() and not path.is_symlink()]
    return jobs or [
        {"job": "", "hosts": [host], "why": f"a process uses the virtual environment {path}"}
        for path in envs
        if venv.busy(path)
    ]
