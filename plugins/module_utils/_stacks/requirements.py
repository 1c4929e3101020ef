# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requirements of Python packages: names, pins, hashes, and which of them a set of installed packages meets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def canonical(name: str) -> str:
    """Return a package's name as indexes write it (PEP 503): lower case, with single dashes."""
    return re.sub(r"[-_.]+", "-", name).lower()


def name(requirement: str) -> str:
    """Return the canonical name of the package that a requirement begins with, such as "torch >= 2"."""
    match = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", requirement)
    return canonical(match[1]) if match else ""


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
    lines: Iterable[str],
    installed: Mapping[str, str],
    origins: Mapping[str, str] | None = None,
    requires: Callable[[str], Iterable[str]] = lambda name: (),
) -> dict[str, list[str]]:
    """Compare a requirements file's lines with what is installed ({name: version}).

    Returns {"missing": names and versions of packages of which nothing is installed, "conflicts": why others cannot be
    met: they would change an installed package, or are no names and versions}. origins: {line: where it is written},
    for messages. requires: gives what an installed package requires, as its metadata has it, for its extras. Markers
    are evaluated for the running Python. Raises ImportError without the library packaging and without pip, which
    brings it along.
    """
    InvalidRequirement, Requirement = _packaging()
    here = {canonical(name): version for name, version in installed.items()}
    missing, conflicts = [], []
    waiting = [(line, (origins or {}).get(line, "")) for line in lines]
    for line, where in waiting:
        words = re.sub(r"(^|\s)#.*$", "", line).strip()
        if not words:
            continue
        if words.startswith("-"):
            conflicts.append(f"{where and where + ': '}{words} has no effect here, as an option of pip: remove it")
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
        elif wanted.extras:
            of_extras = _of_extras(map(Requirement, requires(name)), wanted.extras)
            seen = {text for text, _where in waiting}
            waiting += [(text, where or words) for text in of_extras if text not in seen]
    return {"missing": missing, "conflicts": conflicts}


def _of_extras(requires: Iterable[Any], extras: Iterable[str]) -> list[str]:
    """Return those of a package's requirements, of the library packaging, that it has only with these extras."""
    texts = []
    for required in requires:
        marker, required.marker = required.marker, None
        if marker and not marker.evaluate({"extra": ""}) and any(marker.evaluate({"extra": name}) for name in extras):
            texts.append(str(required))
    return texts
