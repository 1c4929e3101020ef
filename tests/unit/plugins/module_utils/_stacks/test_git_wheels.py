"""Wheels of packages in Git repositories, with the real git and pip."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._stacks import git_wheels

BACKEND = """
import zipfile
def build_wheel(directory, config_settings=None, metadata_directory=None):
    name = "losses-0.1-TAG.whl"
    with zipfile.ZipFile(f"{directory}/{name}", "w") as wheel:
        wheel.writestr("losses.py", open("losses.py").read())
        wheel.writestr("losses-0.1.dist-info/METADATA", METADATA)
        wheel.writestr("losses-0.1.dist-info/WHEEL", "Wheel-Version: 1.0\\nTag: TAG\\n")
        wheel.writestr("losses-0.1.dist-info/RECORD", "")
    return name
METADATA = "Metadata-Version: 2.1\\nName: losses\\nVersion: 0.1\\nRequires-Dist: torch==2.0.0\\n"
"""
BUILD = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=tests", "-c", "user.email=tests@example.com"]
    ran = subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True)
    return ran.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "losses"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit(folder, "py3-none-any")
    git(folder, "tag", "-a", "v1", "-m", "1")
    return folder


def commit(folder: Path, tag: str) -> None:
    (folder / "losses.py").write_text("NAME = 'focal'\n")
    (folder / "pyproject.toml").write_text(BUILD)
    (folder / "backend.py").write_text(BACKEND.replace("TAG", tag))
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", tag)


def run(command: list[str], variables: Mapping[str, str]) -> tuple[int, str, str]:
    ran = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout, ran.stderr


def build(tmp_path: Path, requirement: str) -> tuple[dict[str, Any], bool]:
    options = {
        "path": str(tmp_path / "kept"),
        "python": "3.11",
        "index_url": "none",
        "index_urls": [],
        "find_links": [],
        "index_timeout": 5,
        "ca_certificate": None,
        "proxy": None,
        "credentials": [],
    }
    return git_wheels.build(requirement, options, "2.36", run, lambda *_words, **_more: "")


def test_a_commit_is_built_once(tmp_path: Path, repository: Path) -> None:
    url = f"git+{repository.as_uri()}"
    made, new = build(tmp_path, f"losses @ {url}@v1")
    assert new
    assert (made["name"], made["version"], made["requires"]) == ("losses", "0.1", ["torch==2.0.0"])
    head = git(repository, "rev-parse", "HEAD")
    assert git_wheels.commit(f"{url}@v1", run) == git_wheels.commit(f"{url}@main", run) == head
    assert build(tmp_path, f"losses @ {url}@main") == (made, False)
    assert build(tmp_path, f"losses @ {url}@{head}") == (made, False)
    commit(repository, "py3-none-linux_x86_64")
    again, new = build(tmp_path, f"losses @ {url}@main")
    assert new
    assert again["path"] != made["path"]


def test_what_cannot_be_built(tmp_path: Path, repository: Path) -> None:
    url = f"git+{repository.as_uri()}"
    with pytest.raises(ValueError, match=r"losses has no branch or tag v2; a commit is named with 40 digits$"):
        build(tmp_path, f"{url}@v2")
    with pytest.raises(ValueError, match=r"none cannot be read: fatal"):
        build(tmp_path, f"git+{(tmp_path / 'none').as_uri()}@v1")
    commit(repository, "cp39-cp39-linux_x86_64")
    with pytest.raises(
        ValueError, match=r"main has compiled parts: losses-0.1-cp39-cp39-linux_x86_64.whl does not fit"
    ):
        build(tmp_path, f"{url}@main")
    (repository / "backend.py").write_text("def build_wheel(*a, **b):\n    raise SystemExit('no compiler')\n")
    git(repository, "commit", "--quiet", "-am", "broken")
    with pytest.raises(ValueError, match=r"could not be built"):
        build(tmp_path, f"{url}@main")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [_ownership.MARK]


def test_a_ref_names_a_branch_or_a_tag_exactly(tmp_path: Path, repository: Path) -> None:
    """Not a longer name that ends like it, which `git ls-remote` lists as well; nor a pattern."""
    url = f"git+{repository.as_uri()}"
    first = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "--quiet", "-b", "dev/main")
    commit(repository, "py2-none-any")
    second = git(repository, "rev-parse", "HEAD")
    git(repository, "tag", "-a", "old/v1", "-m", "annotated")
    git(repository, "tag", "light", first)
    git(repository, "tag", "-a", "of/a/tag", "v1", "-m", "a tag of a tag")
    git(repository, "update-ref", "refs/remotes/origin/refs/heads/main", second)
    refs = {
        "main": first, "dev/main": second, "v1": first, "old/v1": second, "light": first, "of/a/tag": first,
        "refs/heads/main": first, "refs/heads/dev/main": second, "refs/tags/v1": first, "HEAD": second,
        first: first, first.upper(): first,
    }  # fmt: skip
    assert {ref: git_wheels.commit(f"{url}@{ref}", run) for ref in refs} == refs
    for ref in ("in", "ev/main", "a/tag", "ma*", "m[a]in", "heads/main", first[:12], "refs/remotes/origin/main"):
        with pytest.raises(ValueError, match=r"losses has no branch or tag \S+; a commit is named with 40 digits$"):
            git_wheels.commit(f"{url}@{ref}", run)
    git(repository, "branch", "-D", "main")
    with pytest.raises(ValueError, match="has no branch or tag main"):
        git_wheels.commit(f"{url}@main", run)


def test_a_branch_and_a_tag_of_one_name(tmp_path: Path, repository: Path) -> None:
    url = f"git+{repository.as_uri()}"
    first = git(repository, "rev-parse", "HEAD")
    git(repository, "branch", "v1")
    assert git_wheels.commit(f"{url}@v1", run) == first
    git(repository, "checkout", "--quiet", "refs/heads/v1")
    commit(repository, "py2-none-any")
    second = git(repository, "rev-parse", "HEAD")
    git(repository, "update-ref", "refs/heads/v1", second)
    with pytest.raises(ValueError, match="losses has a branch and a tag v1, at different commits") as caught:
        git_wheels.commit(f"{url}@v1", run)
    assert str(caught.value).endswith(f"write refs/heads/v1 ({second[:12]}) or refs/tags/v1 ({first[:12]}) instead")
    assert git_wheels.commit(f"{url}@refs/heads/v1", run) == second
    assert git_wheels.commit(f"{url}@refs/tags/v1", run) == first
