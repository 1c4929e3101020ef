# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks whether a project that cannot be built works from its directory and its src/, without metadata.

A build may fail for a reason that no rank has: no package index is reached, or setup.py imports what only hosts have.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._stacks.packaging_files import (
    INSTALLABLE,
    PYPROJECT,
    read_pyproject,
)

# What asks for the metadata of an installation, in the code of a project.
ASKS = re.compile(r"\bimportlib[._]metadata\b|\bpkg_resources\b|\bfrom importlib import .*\bmetadata\b")
# What builds or writes something that ranks may import.
MAKES = re.compile(
    r"\b(ext_modules|ext-modules|cffi_modules|rust_extensions|cmdclass|write_text|write_bytes|writelines|write_to|"
    r"version_file|version-file|subprocess)\b|\.write\(|os\.system"
)
BACKENDS = ("setuptools", "hatchling", "flit_core", "poetry", "pdm", "uv_build")
# Arguments of setup() and its like that name directories.
PLACES = {"package_dir", "where"}


def is_certain(directory: Path, files: Collection[str], is_plain: bool) -> bool:
    """Return whether nothing that an installation adds can be missing: packages lie beside the script or in src, no
    build makes modules, and no module asks for metadata. files: the paths of what goes to the hosts. is_plain: whether
    that is so by pyproject.toml."""
    if not is_plain or any(Path(name).suffix in (".pyx", ".c", ".cc", ".cpp", ".cu", ".rs") for name in files):
        return False
    texts = {
        name: (directory / name).read_text("utf-8", "replace") for name in files if name.endswith((".py", ".ipynb"))
    }
    if any(ASKS.search(text) for name, text in texts.items() if name != "setup.py"):
        return False
    written = {name: (directory / name).read_text("utf-8", "replace") for name in INSTALLABLE if name in files}
    if any(map(MAKES.search, written.values())):
        return False
    system = read_pyproject(directory).get("build-system", {}) if PYPROJECT in written else {}
    backend = str(system.get("build-backend", "setuptools")).partition(".")[0]
    return (
        backend in BACKENDS
        and "backend-path" not in system
        and not re.search(r"^\s*(package_dir|where)\b", written.get("setup.cfg", ""), re.MULTILINE)
        and _is_plain_setup(written.get("setup.py", ""))
    )


def _is_plain_setup(text: str) -> bool:
    """Return whether a setup.py names packages where they lie anyway, all of it written out."""
    try:
        calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    except (SyntaxError, ValueError):
        return False
    for call in calls:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        if name == "setup" and None in given:
            return False
        if name.startswith("find_") and call.args:
            given["where"] = call.args[0]
        for argument in PLACES & set(given):
            try:
                value = ast.literal_eval(given[argument])
            except ValueError:
                return False
            places = value if isinstance(value, dict) else {"": value}
            if set(places) - {""} or any(str(place).strip("./") not in ("", "src") for place in places.values()):
                return False
    return True
