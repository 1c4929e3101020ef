# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheels: which of them a host can use, and the manifest of a directory of them.

A manifest is {"wheels": [{file, name, version, sha256, bytes, unpacked}]}; bytes, unpacked: the size of the wheel, and
of what is in it, where the wheel itself is there.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import file_set
from ansible_collections.amx.cluster.plugins.module_utils._stacks.requirements import canonical

MANIFEST = "manifest.json"


def platforms(glibc: str) -> list[str]:
    """Return the wheel platforms that an x86-64 host with this glibc ("2.36") can use, the newest first.

    pip expands no manylinux tag by itself (PEP 600 tags are exact), so each older one is named.
    """
    major, minor = (int(part) for part in glibc.split(".")[:2])
    if major != 2:
        raise ValueError(f"glibc {glibc} is not known: 2.x is expected")
    legacy = {17: "manylinux2014_x86_64", 12: "manylinux2010_x86_64", 5: "manylinux1_x86_64"}
    names = []
    for number in range(minor, 4, -1):
        names.append(f"manylinux_2_{number}_x86_64")
        if number in legacy:
            names.append(legacy[number])
    return [*names, "linux_x86_64"]


def oldest(versions: Iterable[str]) -> str:
    """Return the oldest of these versions of dotted numbers.

    Raises ValueError where there is none, or one is not such a version.
    """
    try:
        return min(versions, key=lambda version: [int(part) for part in version.split(".")])
    except ValueError:
        raise ValueError(f"{list(versions)} are not versions of the GNU C library such as 2.36") from None


def unfit(wheels: Iterable[Mapping[str, Any]], python: str, glibc: str) -> list[str]:
    """Return the files of wheels that an x86-64 host with this Python ("3.11") and glibc ("2.36") cannot use."""
    own = f"cp{python.replace('.', '')}"
    number = [int(part) for part in python.split(".")]
    usable = {"any", *platforms(glibc)}
    files = []
    for wheel in wheels:
        pythons, abis, names = (part.split(".") for part in wheel["file"][: -len(".whl")].rsplit("-", 3)[1:])
        # abi3, and py37: for this version of Python or any later one.
        since = {tag[:2] for tag in pythons if tag[2:3] == "3" and [3, int(tag[3:] or 0)] <= number}
        stable = "abi3" in abis and "cp" in since
        plain = "none" in abis and (own in pythons or "py" in since)
        if not (plain or stable or (own in pythons and own in abis)) or not usable & set(names):
            files.append(str(wheel["file"]))
    return files


def versions(wheels: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return {name: version} of a manifest's wheels."""
    return {wheel["name"]: wheel["version"] for wheel in wheels}


def manifest(directory: Path) -> dict[str, Any]:
    """Describe the wheels in `directory`, sorted by file. Raises ValueError for a file that is no complete wheel."""
    wheels = []
    for path in sorted(directory.glob("*.whl")):
        name, version = path.name.split("-")[:2]
        try:
            with zipfile.ZipFile(path) as archive:
                unpacked = sum(item.file_size for item in archive.infolist())
        except zipfile.BadZipFile as error:
            raise ValueError(f"{path} is not a complete wheel ({error}): remove it and run again") from error
        wheels.append(
            {
                "file": path.name,
                "name": canonical(name),
                "version": version,
                "sha256": file_set.sha256(path),
                "bytes": path.stat().st_size,
                "unpacked": unpacked,
            }
        )
    return {"wheels": wheels}
