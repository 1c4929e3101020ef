# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheels that were collected elsewhere: a directory of them with its manifest, or a tar file of one."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._data import file_set
from ansible_collections.amx.cluster.plugins.module_utils._stacks import wheels
from ansible_collections.amx.cluster.plugins.module_utils._stacks.requirements import canonical


def read(archive: Path) -> dict[str, Any]:
    """Return the manifest of an archive. Raises ValueError when it has none."""
    try:
        if archive.is_dir():
            return dict(json.loads((archive / wheels.MANIFEST).read_text(encoding="utf-8")))
        with tarfile.open(archive) as tar:
            member = next((item for item in tar if Path(item.name).name == wheels.MANIFEST), None)
            source = tar.extractfile(member) if member else None
            if source:
                return dict(json.load(source))
    except FileNotFoundError:
        pass
    except (OSError, tarfile.TarError, ValueError) as error:
        raise ValueError(f"the archive {archive} cannot be read: {error}") from error
    raise ValueError(
        f"the archive {archive} has no {wheels.MANIFEST}: copy a complete directory that a control node with network "
        "access collected (in torch_stack_wheelhouse), or a tar file of it"
    )


def check(manifest: Mapping[str, Any], requested: Iterable[str], python: str, glibc: str) -> None:
    """Raise ValueError when the wheels of an archive are not those that are requested, or not for these hosts.

    manifest: its manifest. requested: requirements, pinned. python, glibc: the hosts'.
    """
    have = wheels.versions(manifest["wheels"])
    missing = []
    for requirement in requested:
        name, _sep, version = requirement.partition("==")
        included = have.get(canonical(name))
        # As pip sees it: a pin without a local version (+cpu) takes any.
        if included is None or version not in (included, included.partition("+")[0]):
            missing.append(f"{requirement} (it has {included or 'none'})")
    if missing:
        raise ValueError(f"the archive does not have {', '.join(missing)}: collect it again for this stack")
    unfit = wheels.unfit(manifest["wheels"], python, glibc)
    if unfit:
        raise ValueError(
            f"the archive was collected for other hosts: these have Python {python} and glibc {glibc}, which "
            f"cannot use {', '.join(unfit)}"
        )


def unpack(archive: Path, directory: Path, manifest: Mapping[str, Any]) -> None:
    """Put the archive's wheels into a new `directory`. Raises ValueError when one is not as the manifest has it."""
    _ownership.remove(directory)
    _ownership.claim(directory, "wheels")
    names = {wheel["file"] for wheel in manifest["wheels"]}
    if archive.is_dir():
        for name in names & {path.name for path in archive.iterdir()}:
            shutil.copy2(archive / name, directory / name)
    else:
        with tarfile.open(archive) as tar:
            for member in tar:
                source = tar.extractfile(member) if Path(member.name).name in names else None
                if source:
                    with (directory / Path(member.name).name).open("wb") as stream:
                        shutil.copyfileobj(source, stream, 1 << 20)
    differences = file_set.differences(directory, manifest["wheels"])
    if differences:
        raise ValueError(
            f"the archive {archive} failed verification: {file_set.describe(differences)}; copy it here again"
        )
