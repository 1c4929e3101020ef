# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What requirements.txt and pyproject.toml of a project say: what it requires, and where its packages lie.

Read on the control node, whose Python has tomllib.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._stacks.requirements import canonical

REQUIREMENTS, PYPROJECT = "requirements.txt", "pyproject.toml"
# Files by which pip knows a directory that it can install.
INSTALLABLE = (PYPROJECT, "setup.py", "setup.cfg")
# A package of a Git repository: [NAME @] git+URL@REF[#subdirectory=DIRECTORY].
GIT = re.compile(
    r"(?:(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*@\s*)?"
    r"git\+(?P<url>[a-z][a-z0-9+.-]*://[^/\s]*/[^\s#]+?)@(?P<ref>[^\s@#]+)(?:#(?P<fragment>\S+))?"
)


@dataclass(frozen=True)
class Requirement:
    """A requirement as it is written, and where."""

    text: str
    origin: str


def is_git(text: str) -> bool:
    """Tell whether a requirement is a Git URL, with or without a ref."""
    return re.match(r"(?:[A-Za-z0-9][A-Za-z0-9._\[\],-]*\s*@\s*)?git\+", text) is not None


def read_requirements(project: Path, file: str = REQUIREMENTS, above: tuple[str, ...] = ()) -> list[Requirement]:
    """Return the requirements of a project's requirements file and of those that it includes; none without the file.

    Options of pip (indexes, hashes, constraints) are left out: the stack decides about them. `-e .` is the project
    itself, which every rank can import. Raises ValueError for directories and for files that cannot be read.
    """
    path = project / file
    if not path.is_file() and not above:
        return []
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from error
    found: list[Requirement] = []
    joined = ""
    for number, line in enumerate(lines, 1):
        joined += re.sub(r"(^|\s)#.*$", "", line)
        if joined.endswith("\\"):
            joined = joined[:-1] + " "
            continue
        words, joined = joined.strip(), ""
        origin = f"{file}, line {number}"
        included = re.fullmatch(r"(?:-r\s*|--requirement(?:\s+|=))(\S+)", words)
        editable = re.fullmatch(r"(?:-e\s*|--editable(?:\s+|=))(\S+)", words)
        wanted = editable[1] if editable else re.sub(r"\s--\w.*$", "", words)
        if included:
            inside = str(Path(file).parent / included[1])
            if inside in (*above, file):
                raise ValueError(f"{origin}: {words}: the file includes itself")
            found += read_requirements(project, inside, (*above, file))
        elif not wanted or (wanted.startswith("-") and not editable):
            continue
        elif re.match(r"\.{0,2}/|\.{1,2}$|\.\[|file:", wanted):
            if (path.parent / wanted.partition("[")[0]).resolve() != project.resolve():
                raise ValueError(
                    f"{origin}: {words} is a path: add the wheel of that package to `wheels` in the job file"
                )
        else:
            found.append(Requirement(wanted, origin))
    return found


def read_pyproject(project: Path) -> dict[str, Any]:
    """Return the content of a project's pyproject.toml; an empty mapping without the file. Raises ValueError."""
    path = project / PYPROJECT
    if not path.is_file():
        return {}
    import tomllib

    try:
        return dict(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def requirements(project: Path) -> list[Requirement]:
    """Return what a project requires, from requirements.txt and from [project] in pyproject.toml. Raises ValueError."""
    listed = read_requirements(project)
    content = read_pyproject(project)
    table = content.get("project", {})
    declared = table.get("dependencies", [])
    if "dependencies" in table.get("dynamic", []):
        given = content.get("tool", {}).get("setuptools", {}).get("dynamic", {}).get("dependencies", {}).get("file", [])
        files = [given] if isinstance(given, str) else list(given)
        if not files and not listed:
            raise ValueError(
                f"{PYPROJECT}: dependencies are dynamic, so that only a build knows them: list them in {REQUIREMENTS}"
            )
        for file in files:
            if file != REQUIREMENTS:
                listed += read_requirements(project, file, (PYPROJECT,))
    elif "project" not in content and "poetry" in content.get("tool", {}) and not listed:
        raise ValueError(
            f"{PYPROJECT}: dependencies of tool.poetry are in a syntax of its own: list them under [project] "
            f"(poetry 2 reads that, too) or in {REQUIREMENTS}"
        )
    return listed + [Requirement(text, _origin(project / PYPROJECT, text)) for text in declared]


def _origin(path: Path, text: str) -> str:
    """Return a file's name with the line that has a text in quotes."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if f'"{text}"' in line or f"'{text}'" in line:
            return f"{path.name}, line {number}"
    return path.name


def import_paths(project: Path) -> list[str]:
    """Return the directories in a project from which its modules are imported, itself ("") first.

    Those of a src layout are there only where the project is an installable package.
    """
    tool = read_pyproject(project).get("tool", {})
    setuptools = tool.get("setuptools", {})
    packages = setuptools.get("packages", {})
    places = ["", *(packages.get("find", {}).get("where", []) if isinstance(packages, dict) else [])]
    places.append(setuptools.get("package-dir", {}).get("", ""))
    places += [item.get("from", "") for item in tool.get("poetry", {}).get("packages", [])]
    wheel = tool.get("hatch", {}).get("build", {}).get("targets", {}).get("wheel", {})
    places += [str(Path(item).parent) for item in wheel.get("packages", [])]
    places.append(tool.get("pdm", {}).get("build", {}).get("package-dir", ""))
    if any((project / name).is_file() for name in INSTALLABLE):
        places.append("src")
    clean = (Path(path).as_posix().removeprefix(".") for path in places)
    return [path for path in dict.fromkeys(clean) if ".." not in path.split("/") and (project / path).is_dir()]


def distribution_files(project: Path) -> dict[str, str]:
    """Return the files by which importlib.metadata finds a project that has a name and a version, as an installation
    in editable mode leaves them: {path: content}. Empty for a project whose version only a build knows."""
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
        with zipfile.ZipFile(path) as content:
            metadata = next(name for name in content.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
            header = content.read(metadata).decode("utf-8").partition("\n\n")[0]
    except (OSError, ValueError, StopIteration, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not a complete wheel: {error or 'it has no METADATA'}") from error
    requires = re.findall(r"^Requires-Dist: *(.*?)\r?$", header, re.MULTILINE)
    return {"path": str(path), "name": canonical(parts[0]), "version": parts[1], "requires": requires}


def wheels(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the wheels at these paths and in these directories. Raises ValueError where there are none, or two of
    one package."""
    found: dict[str, Mapping[str, Any]] = {}
    for path in paths:
        files = sorted(path.glob("*.whl")) if path.is_dir() else [path]
        if not files:
            raise ValueError(f"{path} has no wheels")
        for file in files:
            one = wheel(file)
            if one["name"] in found:
                raise ValueError(f"{found[one['name']]['path']} and {file} are both of {one['name']}: keep one of them")
            found[one["name"]] = one
    return [dict(one) for one in found.values()]
