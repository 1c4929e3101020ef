# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requirements of Python packages: names, pins, hashes, and which of them a set of installed packages meets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any


def canonical(name: str) -> str:
    """Return a package's name as indexes write it (PEP 503): lower case, with single dashes."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(packages: Mapping[str, str]) -> list[str]:
    """Return pip's pinned requirements ("NAME==VERSION"), sorted, of the packages {name: version}."""
    return sorted(f"{name}=={version}" for name, version in packages.items())


def hashed(wheels: Iterable[Mapping[str, Any]]) -> str:
    """Return a requirements file that names every wheel {name, version, sha256} with its hash, for --require-hashes."""
    return "".join(f"{wheel['name']}=={wheel['version']} --hash=sha256:{wheel['sha256']}\n" for wheel in wheels)


def _packaging() -> tuple[Any, Any]:
    try:
        from packaging import requirements
    except ImportError:
        from pip._vendor.packaging import requirements  # type: ignore[no-redef]
    return requirements.InvalidRequirement, requirements.Requirement


def compare(
    lines: Iterable[str], installed: Mapping[str, str], origins: Mapping[str, str] | None = None
) -> dict[str, list[str]]:
    """Compare a requirements file's lines with what is installed ({name: version}).

    Returns {"missing": names and versions of packages of which nothing is installed, "conflicts": why others cannot be
    met: they would change an installed package, or are no names and versions}. origins: {line: where it is written},
    for messages. Markers are evaluated for the running
    Python. Raises ImportError without the library packaging and without pip, which brings it along.
    """
    InvalidRequirement, Requirement = _packaging()
    here = {canonical(name): version for name, version in installed.items()}
    missing, conflicts = [], []
    for line in lines:
        where = (origins or {}).get(line, "")
        words = line.partition("#")[0].strip()
        if not words or words.startswith("-"):
            continue
        try:
            wanted = Requirement(words)
        except InvalidRequirement:
            wanted = None
        if wanted is None or wanted.url:
            conflicts.append(f"{where and where + ': '}{words} is not a name and versions: pin it as NAME==VERSION")
            continue
        if wanted.marker and not wanted.marker.evaluate():
            continue
        name = canonical(wanted.name)
        version = here.get(name)
        if version is None:
            missing.append(words)
        elif not wanted.specifier.contains(version, prereleases=True):
            advice = f" by the stack: write {name} without a version there, or remove it" if where else ""
            conflicts.append(
                f"{where and where + ': '}{words} conflicts with {name} {version}, which is installed{advice}"
            )
    return {"missing": missing, "conflicts": conflicts}
