# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requirements of a project and the places of its packages, from requirements.txt and pyproject.toml.

Read on the control node, whose Python has tomllib.
"""

from __future__ import annotations

import re
import shlex
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from ansible_collections.amx.cluster.plugins.module_utils._stacks import indexes, package_sources
from ansible_collections.amx.cluster.plugins.module_utils._stacks.package_sources import Source
from ansible_collections.amx.cluster.plugins.module_utils._stacks.requirements import canonical
from ansible_collections.amx.cluster.plugins.module_utils._text import masked

REQUIREMENTS, PYPROJECT = "requirements.txt", "pyproject.toml"
# Files by which pip knows a directory that it can install.
INSTALLABLE = (PYPROJECT, "setup.py", "setup.cfg")
# A package of a Git repository: [NAME @] git+URL@REF[#subdirectory=DIRECTORY].
GIT = re.compile(
    r"(?:(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*@\s*)?"
    r"git\+(?P<url>[a-z][a-z0-9+.-]*://[^/\s]*/[^\s#]+?)@(?P<ref>[^\s@#]+)(?:#(?P<fragment>\S+))?"
)


# What is at once a path for pip: anything with a slash in the place of a name, and files of packages.
PATH = re.compile(r"(?![a-z+]+://)[^\s@;<>=!~\[]*/|\.{1,2}(?:$|\[)|file:|\S+\.(?:whl|zip|tar\.\w+|tgz)(?:$|\s|\[)")
# Options in requirements files: their short names, those with a value, those that are always so, as only wheels are
# taken, and what to do instead of others.
LONG = {
    "-i": "--index-url", "--pypi-url": "--index-url", "-f": "--find-links", "--requirement": "-r",
    "--constraint": "-c", "--editable": "-e",
}  # fmt: skip
WITH_VALUE = (*indexes.VARIABLES, "-r", "-c", "-e", "--hash", "--only-binary", "--no-binary", "--trusted-host")
ONLY_WHEELS = ("--only-binary", "--prefer-binary")
INSTEAD = {
    "-c": "write these versions as requirements, NAME==VERSION, or remove it",
    "--hash": "remove it, or name a wheel that you have verified under `wheels` in the job file",
    "--require-hashes": "remove it, or name wheels that you have verified under `wheels` in the job file",
    "--pre": "write the version of the pre-release, NAME==VERSION",
    "--trusted-host": "set torch_stack_index_ca in the inventory to the certificate of its authority, or remove it",
    "--no-binary": "name a wheel that you have built under `wheels` in the job file",
}
# Files with requirements that are not read. pip takes those of setup.py and setup.cfg, others are of other tools.
UNREAD = (
    "requirements*.txt", "requirements*.in", "requirements/*.txt", "Pipfile", "pylock*.toml", "environment.y*ml",
    "setup.py", "setup.cfg",
)  # fmt: skip


@dataclass(frozen=True)
class Requirement:
    """A requirement as it is written, and where."""

    text: str
    origin: str


Declared = Union[Requirement, Source]


def is_git(text: str) -> bool:
    """Return whether a requirement is a Git URL, with or without a ref."""
    return re.match(r"(?:[A-Za-z0-9][A-Za-z0-9._\[\],-]*\s*@\s*)?git\+", text) is not None


def read_requirements(project: Path, file: str = REQUIREMENTS, above: tuple[str, ...] = ()) -> list[Declared]:
    """Return what a project's requirements file and those that it includes declare; nothing without the file.

    `-e .` is the project itself, which every rank can import; of `-e .[EXTRA]` there are the requirements of the extra.
    Raises ValueError for options that would have no effect, for directories and for files that cannot be read.
    """
    path = project / file
    if not path.is_file() and not above:
        return []
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from error
    entries: list[Declared] = []
    joined = ""
    for number, line in enumerate(lines, 1):
        joined += re.sub(r"(^|\s)#.*$", "", line)
        if joined.endswith("\\"):
            joined = joined[:-1] + " "
            if number < len(lines):
                continue
        words, joined = joined.strip(), ""
        origin = f"{file}, line {number}"
        location = masked(f"{origin}: {words}")
        options = re.search(r"(^|\s)-{1,2}[A-Za-z]", words)
        wanted = words[: options.start()].strip() if options else words
        for option, value in _options(words[options.start() :], origin) if options else []:
            if option == "-r":
                inside = str(Path(file).parent / value)
                if inside in (*above, file):
                    raise ValueError(f"{location}: the file includes itself")
                if "://" in value:
                    raise ValueError(f"{location} is a URL: copy the file into the project")
                entries += read_requirements(project, inside, (*above, file))
            elif option == "-e":
                wanted = value
            elif option == "--find-links" and "://" not in value:
                entries.append(Source(option, str((path.parent / value).resolve()), origin))
            elif option in indexes.VARIABLES or option == indexes.NO_INDEX:
                entries.append(Source(option, value, origin))
            elif option not in ONLY_WHEELS:
                raise ValueError(f"{location}: {option} has no effect here: {INSTEAD.get(option, 'remove it')}")
        own = re.fullmatch(r"(.*?)(?:\[([^\]]*)\])?", wanted)
        if not wanted:
            continue
        if "${" in wanted:
            raise ValueError(f"{location}: variables are not replaced: write what is meant")
        if own and PATH.match(wanted):
            if (path.parent / own[1]).resolve() != project.resolve():
                raise ValueError(f"{location} is a path: add the wheel of that package to `wheels` in the job file")
            entries += _extras(project, own[2] or "", location)
        else:
            entries.append(Requirement(wanted, origin))
    return entries


def _options(words: str, origin: str) -> list[tuple[str, str]]:
    """Return the options of a line of a requirements file: [(name, value)]."""
    try:
        rest = shlex.split(words)
    except ValueError as error:
        raise ValueError(f"{origin}: {masked(words)} cannot be read: {error}") from error
    options = []
    while rest:
        word = rest.pop(0)
        name, given, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
        name = LONG.get(name, name)
        if not given and name in WITH_VALUE and rest:
            value = rest.pop(0)
        options.append((name, value))
    return options


def _extras(project: Path, names: str, location: str, above: tuple[str, ...] = ()) -> list[Requirement]:
    """Return the requirements of extras of the project itself."""
    table = read_pyproject(project).get("project", {})
    there = {canonical(name): texts for name, texts in table.get("optional-dependencies", {}).items()}
    required = []
    for name in map(canonical, map(str.strip, names.split(","))):
        if not name or name in above:
            continue
        if name not in there:
            raise ValueError(
                f"{location}: {PYPROJECT} has no {name} among [project.optional-dependencies]: list its packages in "
                f"{REQUIREMENTS}"
            )
        for text in there[name]:
            again = re.fullmatch(r"([\w.-]+)\s*\[([^\]]*)\]", text.strip())
            if again and canonical(again[1]) == canonical(str(table.get("name", ""))):
                required += _extras(project, again[2], location, (*above, name))
            else:
                required.append(Requirement(text, _origin(project / PYPROJECT, text)))
    return required


def read_pyproject(project: Path) -> dict[str, Any]:
    """Return the content of a project's pyproject.toml; an empty mapping without the file. Raises ValueError."""
    path = project / PYPROJECT
    if not path.is_file():
        return {}
    import tomllib

    try:
        pyproject = dict(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    package_sources.check_shapes(pyproject, str(path))
    return pyproject


def declared(project: Path) -> list[Declared]:
    """Return what a project requires, and where it says that packages come from. Raises ValueError.

    From requirements.txt, [project] in pyproject.toml, and what uv, poetry and pdm have there of package indexes.
    """
    listed = read_requirements(project)
    pyproject = read_pyproject(project)
    table = pyproject.get("project", {})
    given = (project / REQUIREMENTS).is_file()
    if "dependencies" in table.get("dynamic", []):
        dynamic = pyproject.get("tool", {}).get("setuptools", {}).get("dynamic", {})
        named = dynamic.get("dependencies", {}).get("file", [])
        files = [named] if isinstance(named, str) else list(named)
        if not files and not given:
            raise ValueError(
                f"{PYPROJECT}: dependencies are dynamic, so that only a build knows them: list them in {REQUIREMENTS}"
            )
        for file in files:
            if file != REQUIREMENTS:
                listed += read_requirements(project, file, (PYPROJECT,))
    elif "project" not in pyproject and not given:
        _check_unread(project, pyproject)
    listed += [Requirement(text, _origin(project / PYPROJECT, text)) for text in table.get("dependencies", [])]
    return [*listed, *package_sources.read(project, pyproject)]


def _check_unread(project: Path, pyproject: Mapping[str, Any]) -> None:
    """Raise ValueError for a project whose requirements are only where they are not read."""
    if "poetry" in pyproject.get("tool", {}):
        raise ValueError(
            f"{PYPROJECT}: dependencies of tool.poetry are in a syntax of its own: list them under [project] "
            f"(poetry 2 reads that, too) or in {REQUIREMENTS}"
        )
    files = sorted(path for pattern in UNREAD for path in project.glob(pattern) if path.is_file())
    for path in files:
        if path.suffix in (".py", ".cfg") and "install_requires" not in path.read_text("utf-8", "replace"):
            continue
        raise ValueError(
            f"{path.relative_to(project)} is not read: list what the job requires in {REQUIREMENTS}, which may be empty"
        )


def _origin(path: Path, text: str) -> str:
    """Return a file's name with the line that has a text in quotes."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if f'"{text}"' in line or f"'{text}'" in line:
            return f"{path.name}, line {number}"
    return path.name


def import_paths(project: Path) -> list[str]:
    """Return the directories in a project from which its modules are imported, itself ("") first.

    That of a src layout is one only where the project is an installable package.
    """
    is_package = any((project / name).is_file() for name in INSTALLABLE)
    return ["", *(["src"] if is_package and (project / "src").is_dir() else [])]


def distribution_files(project: Path) -> dict[str, str]:
    """Return the files by which importlib.metadata finds a project, as an installation in editable mode leaves them:
    {path: content}. Empty for a project without a name, or whose version only a build knows."""
    table = read_pyproject(project).get("project", {})
    name, version = table.get("name"), table.get("version")
    if not isinstance(name, str) or not isinstance(version, str):
        return {}
    groups = {"console_scripts": table.get("scripts", {}), **table.get("entry-points", {})}
    lines = [
        line
        for group, entries in groups.items()
        if entries
        for line in (f"[{group}]", *(f"{key} = {value}" for key, value in entries.items()), "")
    ]
    info = f"{re.sub(r'[-_.]+', '_', name)}-{version}.dist-info"
    files = {f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"}
    return {**files, f"{info}/entry_points.txt": "\n".join(lines)} if lines else files


def wheel(path: Path) -> dict[str, Any]:
    """Return {path, name, version, requires} of a wheel. Raises ValueError for what is none."""
    parts = path.name.removesuffix(".whl").split("-")
    if path.suffix != ".whl" or len(parts) not in (5, 6):
        raise ValueError(f"{path} is not named as wheels are, NAME-VERSION-PYTHON-ABI-PLATFORM.whl")
    try:
        with zipfile.ZipFile(path) as archive:
            metadata = next(name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
            header = archive.read(metadata).decode("utf-8").partition("\n\n")[0]
    except (OSError, ValueError, StopIteration, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not a complete wheel: {error or 'it has no METADATA'}") from error
    requires = re.findall(r"^Requires-Dist: *(.*?)\r?$", header, re.MULTILINE)
    return {"path": str(path), "name": canonical(parts[0]), "version": parts[1], "requires": requires}


def wheels(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the wheels at these paths and in these directories. Raises ValueError where there are none, or two of
    one package."""
    by_name: dict[str, Mapping[str, Any]] = {}
    for path in paths:
        files = sorted(path.glob("*.whl")) if path.is_dir() else [path]
        if not files:
            raise ValueError(f"{path} has no wheels")
        for file in files:
            entry = wheel(file)
            if entry["name"] in by_name:
                raise ValueError(
                    f"{by_name[entry['name']]['path']} and {file} are both of {entry['name']}: keep one of them"
                )
            by_name[entry["name"]] = entry
    return [dict(entry) for entry in by_name.values()]
