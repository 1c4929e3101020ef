"""Where a project says that its packages come from, in tables of uv, poetry and pdm."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._stacks import packaging_files
from ansible_collections.amx.cluster.plugins.module_utils._stacks.package_sources import Source

PROJECT = '[project]\nname = "mine"\ndependencies = []\n'


def sources(project: Path, text: str) -> list[tuple[str, str, str]]:
    (project / "pyproject.toml").write_text(PROJECT + text)
    found = packaging_files.declared(project)
    assert all(isinstance(one, Source) for one in found)
    return [(one.option, one.url, one.package) for one in found if isinstance(one, Source)]


UV = """
index-url = "https://main.example/simple"
extra-index-url = ["https://more.example/simple"]
find-links = ["https://links.example"]
[[tool.uv.index]]
name = "all"
url = "https://all.example/simple"
[[tool.uv.index]]
url = "https://first.example/simple"
default = true
[[tool.uv.index]]
name = "flat"
url = "https://flat.example"
format = "flat"
[[tool.uv.index]]
name = "torch"
url = "https://torch.example/cpu"
explicit = true
[tool.uv.sources]
Torch_Vision = {index = "torch"}
many = [{index = "torch", marker = "a"}, {path = "../many"}]
code = {git = "https://u:p@example.com/code", tag = "v1"}
one = {workspace = true}
[tool.uv.pip]
no-index = true
"""


def test_uv(tmp_path: Path) -> None:
    assert sources(tmp_path, "[tool.uv]" + UV) == [
        ("--extra-index-url", "https://all.example/simple", ""),
        ("--index-url", "https://first.example/simple", ""),
        ("--find-links", "https://flat.example", ""),
        ("--index-url", "https://main.example/simple", ""),
        ("--extra-index-url", "https://more.example/simple", ""),
        ("--find-links", "https://links.example", ""),
        ("--no-index", "", ""),
        ("--extra-index-url", "https://torch.example/cpu", "torch-vision"),
        ("--extra-index-url", "https://torch.example/cpu", "many"),
        ("elsewhere", "path = ../many", "many"),
        ("elsewhere", "git = https://u:p@example.com/code", "code"),
        ("elsewhere", "workspace = True", "one"),
    ]
    # The same in a file of its own.
    (tmp_path / "uv.toml").write_text(UV.replace("tool.uv.", ""))
    assert sources(tmp_path, "") == sources(tmp_path, "[tool.uv]" + UV)[:12]
    (tmp_path / "uv.toml").write_text("[")
    with pytest.raises(ValueError, match=r"^uv\.toml cannot be read: "):
        sources(tmp_path, "")


def test_poetry(tmp_path: Path) -> None:
    text = """
    [[tool.poetry.source]]
    name = "PyPI"
    priority = "supplemental"
    [[tool.poetry.source]]
    name = "first"
    url = "https://first.example/simple"
    [[tool.poetry.source]]
    name = "second"
    url = "https://second.example/simple"
    priority = "primary"
    [[tool.poetry.source]]
    name = "torch"
    url = "https://torch.example/cpu"
    priority = "explicit"
    [tool.poetry.dependencies]
    python = "^3.11"
    torch = {source = "torch"}
    code = {git = "https://example.com/code", tag = "v1"}
    """
    assert sources(tmp_path, text) == [
        ("--extra-index-url", "https://pypi.org/simple", ""),
        ("--index-url", "https://first.example/simple", ""),
        ("--extra-index-url", "https://second.example/simple", ""),
        ("--extra-index-url", "https://torch.example/cpu", "torch"),
        ("elsewhere", "git = https://example.com/code", "code"),
    ]


def test_pdm(tmp_path: Path) -> None:
    text = """
    [[tool.pdm.source]]
    name = "pypi"
    url = "https://main.example/simple"
    [[tool.pdm.source]]
    name = "more"
    url = "https://more.example/simple"
    [[tool.pdm.source]]
    url = "https://links.example"
    type = "find_links"
    """
    assert sources(tmp_path, text) == [
        ("--index-url", "https://main.example/simple", ""),
        ("--extra-index-url", "https://more.example/simple", ""),
        ("--find-links", "https://links.example", ""),
    ]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('[tool.uv]\nconstraint-dependencies = ["peft<1"]', "[tool.uv]: constraint-dependencies"),
        ('[tool.uv]\noverride-dependencies = ["peft<1"]', "[tool.uv]: override-dependencies"),
        ('[tool.pdm.resolution.overrides]\npeft = "1"', "[tool.pdm]: overrides"),
    ],
)
def test_constraints(tmp_path: Path, text: str, where: str) -> None:
    with pytest.raises(ValueError, match="have no effect here: write these versions as requirements") as caught:
        sources(tmp_path, text)
    assert str(caught.value).startswith(f"pyproject.toml, {where} have")
