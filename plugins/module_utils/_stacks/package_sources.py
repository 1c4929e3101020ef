# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Package sources of a project, from the tables of uv, poetry and pdm, in terms of pip's options.

Read on the control node, whose Python has tomllib.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._stacks import indexes
from ansible_collections.amx.cluster.plugins.module_utils._stacks.requirements import canonical

UV = "uv.toml"


# What is read of pyproject.toml, as the packaging standard and each tool have it; * stands for every key.
TABLES = (
    "project", "project.optional-dependencies", "project.scripts", "project.entry-points", "project.entry-points.*",
    "build-system", "tool", "tool.setuptools", "tool.setuptools.packages.find", "tool.setuptools.package-dir",
    "tool.setuptools.dynamic", "tool.setuptools.dynamic.*", "tool.hatch", "tool.hatch.build",
    "tool.hatch.build.targets", "tool.hatch.build.targets.wheel", "tool.poetry", "tool.poetry.dependencies", "tool.pdm",
    "tool.pdm.build", "tool.pdm.resolution", "tool.uv", "tool.uv.pip", "tool.uv.sources",
)  # fmt: skip
OF_TABLES = ("tool.uv.index", "tool.poetry.source", "tool.poetry.packages", "tool.pdm.source")
OF_TEXTS = (
    "project.dependencies", "project.dynamic", "project.optional-dependencies.*", "tool.uv.extra-index-url",
    "tool.uv.find-links", "tool.uv.pip.extra-index-url", "tool.uv.pip.find-links",
    "tool.hatch.build.targets.wheel.packages", "tool.setuptools.packages.find.where",
)  # fmt: skip


def check_shapes(document: Mapping[str, Any], file: str) -> None:
    """Raise ValueError where a file like pyproject.toml has another type of value than what is read of it."""
    for names, wanted, of in (
        (TABLES, "table", None),
        (OF_TABLES, "list of tables", dict),
        (OF_TEXTS, "list of texts", str),
    ):
        for name in names:
            for key, value in _values(document, name.split(".")):
                is_list = isinstance(value, list) and all(isinstance(item, of or object) for item in value)
                if not (is_list if of else isinstance(value, dict)):
                    raise ValueError(f"{file}: {key} is {value!r}, and a {wanted} is expected")


def _values(document: Any, keys: Sequence[str], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what is at a path in a file, with its name. What is no table on the way is reported by its own name."""
    if not keys:
        yield above.removeprefix("."), document
    elif isinstance(document, Mapping):
        for key in document if keys[0] == "*" else {keys[0]} & set(document):
            yield from _values(document[key], keys[1:], f"{above}.{key}")


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
    sources = [*_uv(tools.get("uv", {}), "pyproject.toml, [tool.uv]")]
    if uv.is_file():
        import tomllib

        try:
            document = tomllib.loads(uv.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"{UV} cannot be read: {error}") from error
        check_shapes({"tool": {"uv": document}}, UV)
        sources += _uv(document, UV)
    return [*sources, *_poetry(tools.get("poetry", {})), *_pdm(tools.get("pdm", {}))]


def _uv(table: Mapping[str, Any], origin: str) -> Iterator[Source]:
    for name in ("constraint-dependencies", "override-dependencies"):
        _refuse_versions(table.get(name), f"{origin}: {name}")
    named = {}
    for index in table.get("index", []):
        named[index.get("name", "")] = str(index.get("url", ""))
        if index.get("format") == "flat":
            option = "--find-links"
        else:
            option = "--index-url" if index.get("default") else "--extra-index-url"
        if not index.get("explicit"):
            yield Source(option, str(index.get("url", "")), origin)
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
            yield Source(option, str(index.get("url", "")), origin)


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
