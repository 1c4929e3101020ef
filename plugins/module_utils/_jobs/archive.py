# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The archive of all programs that run beside and in ranks: a zipapp, named by the hash of its files.

The control node makes it from runtime/ and module_utils. Each host has it once for each version, unpacked: Python keeps
the compiled modules of a directory, and compiles those of a zip file at every start of every rank.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _collection, _ownership
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json

DIRECTORY = "runtime"
"""Below cluster_prefix; also of the collection's own programs in the collection."""
PLACES = _ownership.Places("environments", (DIRECTORY,))
LIBRARY = "ansible_collections/amx/cluster/plugins/module_utils"
# What only the control node uses.
LEFT_OUT = ("_cloud/", "_kubernetes/control/")
# All files have the time from which zip files count.
BEGIN = (1980, 1, 1, 0, 0, 0)
HEADER = 16  # bytes of a compiled module before its code
MISSING = 66  # exit code of a host without the runtime
COMPLETE = "complete"  # what `check` prints: Python runs an empty program, too, without an error


def of_collection() -> dict[str, bytes]:
    """Return {path: contents} of the archive's files, on the control node."""
    programs = of_directory(_collection.ROOT / DIRECTORY)
    # Without what `pip install` of the package in it leaves.
    files = {path: contents for path, contents in programs.items() if not path.startswith("build/")}
    library = of_directory(_collection.ROOT / "plugins/module_utils")
    files.update((f"{LIBRARY}/{path}", contents) for path, contents in library.items() if not path.startswith(LEFT_OUT))
    # Found before a package or module of this name in the ranks' virtual environment, or in a project.
    files["ansible_collections/__init__.py"] = files["amx_cluster/__init__.py"] = b""
    return files


def module(script: Path) -> str:
    """Return the name by which ranks import a program that job.script names by its path in the collection."""
    return ".".join(script.relative_to(DIRECTORY).with_suffix("").parts)


def of_this() -> dict[str, bytes]:
    """Return {path: contents} of the archive that this module is in; on the control node those of the collection."""
    root = Path(__file__).parents[6]
    return of_directory(root) if (root / "__main__.py").exists() else of_collection()


def of_directory(directory: Path) -> dict[str, bytes]:
    """Return {path: contents} of the Python files in a directory, without hidden ones, as editors lay beside those that
    they edit. Raises OSError."""
    paths = (path for path in directory.rglob("*.py") if not path.name.startswith("."))
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in paths}


def name(files: Mapping[str, bytes]) -> str:
    """Return the name of the archive with these files."""
    hashes = {path: hashlib.sha256(contents).hexdigest() for path, contents in files.items()}
    return hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()[:16]


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return the zip file of these files, which Python can run.

    It names directories, too: only where these are listed does Python find packages without an `__init__.py`.
    """
    import zipfile  # slow, and `check` does without it

    stream = io.BytesIO()
    directories = {parent.as_posix() for path in files for parent in PurePosixPath(path).parents} - {"."}
    entries = {**files, **{f"{directory}/": b"" for directory in directories}}
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, contents in sorted(entries.items()):
            archive.writestr(zipfile.ZipInfo(path, BEGIN), contents, zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def unpack(archive: bytes) -> dict[str, bytes]:
    """Return {path: contents} of the files of a zip file. Raises ValueError for one that is damaged."""
    import zipfile

    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            return {path: opened.read(path) for path in opened.namelist() if not path.endswith("/")}
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise ValueError(f"the archive of the runtime is damaged ({error}): start the job again") from None


def is_complete(directory: Path) -> bool:
    """Return whether a directory has the files of the archive that it is named after."""
    try:
        return _ownership.is_own(directory) and name(of_directory(directory)) == directory.name
    except OSError:
        return False


def install(archive: bytes, directory: Path, python: str = sys.executable) -> bool:
    """Unpack an archive into the directory of its name, unless it is there; return whether it was missing or damaged.

    It is written beside that, compiled for the Python that will run it, and renamed. Raises ValueError for an archive
    of another name, and OSError.
    """
    if is_complete(directory):
        return False
    files = unpack(archive)
    if name(files) != directory.name:
        raise ValueError(
            f"the archive of the runtime is damaged ({name(files)} instead of {directory.name}): start again"
        )
    part = directory.with_name(f".{directory.name}.{os.getpid()}")
    _ownership.remove(part)
    try:
        _ownership.make(part, "runtime")
        for path, contents in files.items():
            (part / path).parent.mkdir(parents=True, exist_ok=True)
            (part / path).write_bytes(contents)
        # Not when jobs import them: Python leaves a module that is cut off, and never mends it, where a disk is full.
        made = subprocess.run(
            [python, "-SB", str(part), "compile", str(directory)], capture_output=True, text=True, check=False
        )
        if made.returncode:
            raise OSError(made.stderr.strip())
        _put(part, directory)
    finally:
        if not _ownership.remove(part):
            with contextlib.suppress(OSError):
                part.rmdir()  # there was no room for its mark
    return True


def _put(part: Path, directory: Path) -> None:
    """Rename a directory to one that is missing, damaged, or has just been made by another process."""
    try:
        part.rename(directory)
    except OSError:
        if is_complete(directory):
            return
        if not _ownership.is_own(directory):
            raise
        damaged = part.with_name(f"{part.name}.damaged")
        directory.rename(damaged)
        part.rename(directory)
        _ownership.remove(damaged)


def command(plan: Mapping[str, Any], *words: str) -> list[str]:
    """Return the command line of one of the runtime's commands, on the hosts of a plan."""
    return [f"{plan['environment']}/bin/python", "-S", plan["runtime"], *words]


def guarded(python: str, runtime: str, *words: str) -> list[str]:
    """Return the command that runs one of the runtime's commands on a host. It ends with MISSING where the host lacks
    the runtime, or has it damaged."""
    own = [python, "-S", runtime]
    check = f'[ "$({shlex.join([*own, "check"])} 2>/dev/null </dev/null)" = {COMPLETE} ] || exit {MISSING}'
    return ["sh", "-c", f"{check}; exec {shlex.join([*own, *words])}"]


def installing(python: str, runtime: str) -> list[str]:
    """Return the command that installs the runtime on a host from its archive, in the standard input."""
    install = shlex.join(["-S", "X", "install", runtime]).replace("X", '"$place/runtime.zip"', 1)
    steps = f'cat > "$place/runtime.zip" && {shlex.quote(python)} {install}'
    return ["sh", "-c", f'place=$(mktemp -d) && {{ {steps}; code=$?; rm -rf "$place"; exit "$code"; }}']


def unused(base: Path, leaving: Iterable[Path] = ()) -> list[Path]:
    """Return the archives below cluster_prefix that no job directory needs. leaving: job directories that do not count.

    Raises OSError.
    """
    gone = set(leaving)
    jobs = [path.parent for path in (base / "jobs").glob("*/plan.json") if path.parent not in gone]
    needed = {Path((read_json(job / "plan.json") or {}).get("runtime", "")).name for job in jobs}
    directory = base / DIRECTORY
    paths = sorted(directory.iterdir()) if directory.is_dir() else []
    return [path for path in paths if path.is_dir() and path.name not in needed and _ownership.is_own(path)]


def _compile(own: Path, directory: Path) -> None:
    """Compile a directory's modules, which are to be in `directory`. Raises OSError where one is incomplete then."""
    import marshal
    import py_compile

    sys.pycache_prefix = None  # beside them, wherever this person's other compiled modules go
    for path in own.rglob("*.py"):
        made = py_compile.compile(str(path), dfile=str(directory / path.relative_to(own)), doraise=True)
        try:
            marshal.loads(Path(str(made)).read_bytes()[HEADER:])
        except (EOFError, ValueError):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(made)) from None


def main(words: Sequence[str]) -> None:
    """Check (`check`) or unpack (`install DIRECTORY`) the archive that runs this. `compile DIRECTORY` compiles its
    modules before it is renamed to that directory."""
    own = Path(sys.path[0])
    try:
        if words[0] == "install":
            install(own.read_bytes(), Path(words[1]))
        elif words[0] == "compile":
            _compile(own, Path(words[1]))
        elif not is_complete(own):
            raise ValueError(f"{own} is damaged")
        else:
            sys.stdout.write(f"{COMPLETE}\n")
    except (OSError, ValueError) as error:
        raise SystemExit(str(error)) from None
