"""Wheels of packages in Git repositories, with the real git and pip."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._stacks import git_wheels

pytestmark = pytest.mark.slow


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


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip builds in its cache: in the user's, it fails when another process clears that, and leaves wheels there."""
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "pip"))


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


def run(command: list[str], variables: Mapping[str, str], pass_fds: Sequence[int] = ()) -> tuple[int, str, str]:
    given = {**os.environ, **variables}
    ran = subprocess.run(command, env=given, pass_fds=pass_fds, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout, ran.stderr


def build(tmp_path: Path, requirement: str) -> tuple[dict[str, Any], bool]:
    options = {
        "path": str(tmp_path / "kept"),
        "python": "3.11",
        "index_url": "none",
        "index_urls": [],
        "find_links": [],
        "sources": [],
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
    assert all(path.name == _ownership.MARK or path.suffix == ".lock" for path in (tmp_path / "kept").iterdir())


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


# Another process that builds a requirement, as a second play does: what build() returned is its last line.
OTHER = """
import json
import sys
sys.path[:0] = json.loads(sys.argv[1])
from pathlib import Path
import test_git_wheels
print(json.dumps(test_git_wheels.build(Path(sys.argv[2]), sys.argv[3])))
"""


def other(tmp_path: Path, requirement: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-c",
        OTHER,
        json.dumps([str(Path(__file__).parent), *sys.path]),
        str(tmp_path),
        requirement,
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def slow(repository: Path, marks: Path) -> str:
    """Make the build write a file into `marks`, and wait until there is a file `go`. Returns the requirement."""
    marks.mkdir()
    waiting = f"""
import os, pathlib, time
marks = pathlib.Path({str(marks)!r})
(marks / f"build.{{os.getpid()}}").touch()
while not (marks / "go").exists():
    time.sleep(0.05)
"""
    (repository / "backend.py").write_text(waiting + BACKEND.replace("TAG", "py3-none-any"))
    git(repository, "commit", "--quiet", "-am", "slow")
    return f"losses @ git+{repository.as_uri()}@main"


def begun(marks: Path, process: subprocess.Popen[str]) -> list[Path]:
    """Wait until a build has begun. Returns the files of those that have."""
    while not (found := list(marks.glob("build.*"))):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    return found


def waits(process: subprocess.Popen[str], lock: Path) -> bool:
    """Tell whether a process has the file open that it is to lock."""
    assert process.poll() is None, process.communicate()
    return any(os.path.realpath(path) == str(lock) for path in Path(f"/proc/{process.pid}/fd").iterdir())


def test_two_that_build_one_commit_at_the_same_time(tmp_path: Path, repository: Path) -> None:
    marks = tmp_path / "marks"
    requirement = slow(repository, marks)
    first, second = other(tmp_path, requirement), other(tmp_path, requirement)
    try:
        begun(marks, first)
        (lock,) = (tmp_path / "kept").glob(".*.lock")
        while not (waits(first, lock) and waits(second, lock)):
            time.sleep(0.05)
        (marks / "go").touch()
        results = [(process.communicate(timeout=100), process.returncode) for process in (first, second)]
    finally:
        (marks / "go").touch()
    assert [code for _said, code in results] == [0, 0], results
    made = [json.loads(said[0].splitlines()[-1]) for said, _code in results]
    assert made[0][0] == made[1][0]
    assert sorted(new for _wheel, new in made) == [False, True]
    assert Path(made[0][0]["path"]).is_file()
    there = {path.name for path in (tmp_path / "kept").iterdir()}
    assert there == {_ownership.MARK, lock.name, lock.name[1:-5]}


def test_after_one_that_was_killed(tmp_path: Path, repository: Path) -> None:
    """Its pip may go on; the next builds when that has ended, and takes nothing that it left for complete."""
    marks = tmp_path / "marks"
    requirement = slow(repository, marks)
    first = other(tmp_path, requirement)
    second = None
    try:
        (build_of_first,) = begun(marks, first)
        first.kill()
        first.wait()
        (lock,) = (tmp_path / "kept").glob(".*.lock")
        (tmp_path / "kept" / f"{lock.name[1:-5]}.partial/half-0-py3-none-any.whl").touch()
        second = other(tmp_path, requirement)
        while not waits(second, lock):
            time.sleep(0.05)
        assert list(marks.glob("build.*")) == [build_of_first]
    finally:
        (marks / "go").touch()
    said = second.communicate(timeout=100)
    assert second.returncode == 0, said
    made, new = json.loads(said[0].splitlines()[-1])
    assert new
    there = {path.name for path in Path(made["path"]).parent.iterdir()}
    assert there == {_ownership.MARK, "losses-0.1-py3-none-any.whl"}
