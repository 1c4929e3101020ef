# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a project says that its packages come from, in the tables of uv, poetry and pdm, in terms of pip's options.

Read on the control node, whose Python has tomllib.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._stacks import indexes
from ansible_collections.amx.cluster.plugins.module_utils._stacks.requirements import canonical

UV = "uv.toml"


@dataclass(frozen=True)
class Source:
    """An index, or something else, that packages come from.

    option: of pip (indexes.VARIABLES, indexes.NO_INDEX), or indexes.ELSEWHERE. package: the only one that does, in
    canonical form; empty for all.
    """

    option: str
    url: str
    origin: str
    package: str = ""


def read(project: Path, pyproject: Mapping[str, Any]) -> list[Source]:
    """Return the sources in pyproject.toml, whose content is given, and in uv.toml.

    Raises ValueError, also for constraints and overrides there, which would have no effect.
    """
    tools = pyproject.get("tool", {})
    uv = project / UV
    found = [*_uv(tools.get("uv", {}), "pyproject.toml, [tool.uv]")]
    if uv.is_file():
        import tomllib

        try:
            found += _uv(tomllib.loads(uv.read_text(encoding="utf-8")), UV)
        except (OSError, ValueError) as error:
            raise ValueError(f"{UV} cannot be read: {error}") from error
    return [*found, *_poetry(tools.get("poetry", {})), *_pdm(tools.get("pdm", {}))]


def _uv(table: Mapping[str, Any], origin: str) -> Iterator[Source]:
    for name in ("constraint-dependencies", "override-dependencies"):
        _refuse_versions(table.get(name), f"{origin}: {name}")
    named = {}
    for index in table.get("index", []):
        named[index.get("name", "")] = index["url"]
        if index.get("format") == "flat":
            option = "--find-links"
        else:
            option = "--index-url" if index.get("default") else "--extra-index-url"
        if not index.get("explicit"):
            yield Source(option, index["url"], origin)
    for settings in (table, table.get("pip", {})):
        if settings.get("index-url"):
            yield Source("--index-url", settings["index-url"], origin)
        for key in ("extra-index-url", "find-links"):
            for url in settings.get(key, []):
                yield Source(f"--{key}", url, origin)
        if settings.get("no-index"):
            yield Source(indexes.NO_INDEX, "", origin)
    yield from _of_packages(table.get("sources", {}), "index", named, origin)


def _poetry(table: Mapping[str, Any]) -> Iterator[Source]:
    origin = "pyproject.toml, [tool.poetry]"
    named, main = {}, False
    for index in table.get("source", []):
        name, url, priority = index.get("name", ""), index.get("url", indexes.PYPI), index.get("priority", "primary")
        named[name] = url
        if priority != "explicit":
            is_main = priority in ("primary", "default") and not main
            main = main or is_main
            yield Source("--index-url" if is_main else "--extra-index-url", url, origin)
    yield from _of_packages(table.get("dependencies", {}), "source", named, origin)


def _pdm(table: Mapping[str, Any]) -> Iterator[Source]:
    origin = "pyproject.toml, [tool.pdm]"
    _refuse_versions(table.get("resolution", {}).get("overrides"), f"{origin}: overrides")
    for index in table.get("source", []):
        option = "--index-url" if index.get("name") == "pypi" else "--extra-index-url"
        if index.get("type") == "find_links":
            option = "--find-links"
        if index.get("url"):
            yield Source(option, index["url"], origin)


def _of_packages(table: Mapping[str, Any], key: str, named: Mapping[str, str], origin: str) -> Iterator[Source]:
    """Yield the sources of single packages: {name: {key: the name of an index, or git, path, url, workspace}}."""
    for name, values in table.items():
        for value in values if isinstance(values, list) else [values]:
            if not isinstance(value, Mapping):
                continue
            if key in value:
                url = named.get(value[key], value[key])
                yield Source("--extra-index-url", url, origin, canonical(name))
            other = next((word for word in ("git", "path", "url", "file", "workspace") if word in value), "")
            if other:
                yield Source(indexes.ELSEWHERE, f"{other} = {value[other]}", origin, canonical(name))


def _refuse_versions(value: object, where: str) -> None:
    if value:
        raise ValueError(f"{where} have no effect here: write these versions as requirements, or remove them")
