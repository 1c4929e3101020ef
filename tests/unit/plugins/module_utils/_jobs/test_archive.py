from __future__ import annotations

import ast
import json
import marshal
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._jobs import archive
from support import runtimes

FILES = {"__main__.py": b"print('here')\n", "a/b.py": b"B = 1\n"}
NAME = archive.name(FILES)


@pytest.mark.slow
def test_the_archive_of_the_same_files_is_the_same() -> None:
    files = archive.of_collection()
    assert archive.pack(files) == archive.pack(dict(reversed(files.items())))
    assert archive.unpack(archive.pack(files)) == files
    assert archive.name({**files, "amx_cluster/rank.py": b""}) != archive.name(files)
    assert {"__main__.py", "sitecustomize.py", "amx_cluster_mpi/group.py", f"{archive.LIBRARY}/_jobs/wire.py"} <= set(
        files
    )


@pytest.mark.slow
def test_its_files_import_nothing_of_the_collection_that_it_lacks() -> None:
    files = archive.of_collection()
    package = f"{archive.LIBRARY}/".replace("/", ".")
    there = {path.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".") for path in files}
    for path, contents in files.items():
        for node in ast.walk(ast.parse(contents)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith((package, "amx_cluster")):
                assert node.module in there or all(f"{node.module}.{name.name}" in there for name in node.names), path


@pytest.mark.slow
def test_it_is_installed_once(tmp_path: Path) -> None:
    folder = tmp_path / "a prefix/runtime" / NAME
    assert archive.install(archive.pack(FILES), folder)
    assert not archive.install(archive.pack(FILES), folder)
    assert archive.of_directory(folder) == FILES
    assert _ownership.read(folder)["what"] == "runtime"
    assert {path.name for path in folder.parent.iterdir()} == {NAME, _ownership.MARK}


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["a file is cut off", "a file is missing", "a file is in the way"])
def test_a_damaged_one_is_replaced(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "runtime" / NAME
    archive.install(archive.pack(FILES), folder)
    if damage == "a file is cut off":
        (folder / "a/b.py").write_text("B")
    elif damage == "a file is missing":
        (folder / "a/b.py").unlink()
    else:
        (folder / "a/c.py").touch()
    assert not archive.is_complete(folder)
    assert archive.install(archive.pack(FILES), folder)
    assert archive.is_complete(folder)
    assert {path.name for path in folder.parent.iterdir()} == {NAME, _ownership.MARK}


@pytest.mark.parametrize("packed", [b"", archive.pack(FILES)[:-40], archive.pack({**FILES, "a/b.py": b"C = 1\n"})])
def test_a_damaged_archive_is_not_installed(tmp_path: Path, packed: bytes) -> None:
    folder = tmp_path / "runtime" / NAME
    with pytest.raises(ValueError, match=r"^the archive of the runtime is damaged"):
        archive.install(packed, folder)
    assert not folder.exists()


@pytest.mark.slow
def test_what_is_not_its_own_stays(tmp_path: Path) -> None:
    folder = tmp_path / "runtime" / NAME
    folder.mkdir(parents=True)
    (folder / "mine").touch()
    with pytest.raises(OSError):
        archive.install(archive.pack(FILES), folder)
    assert [path.name for path in folder.iterdir()] == ["mine"]


@pytest.mark.slow
def test_an_archive_unpacks_and_checks_itself(tmp_path: Path) -> None:
    files = archive.of_directory(runtimes.installed())
    packed, folder = tmp_path / "packed.zip", tmp_path / "runtime" / archive.name(files)
    packed.write_bytes(archive.pack(files))

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-S", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)

    assert run(packed, "install", folder).returncode == 0
    assert run(folder, "check").returncode == 0
    (folder / "amx_cluster/rank.py").write_text("")
    assert (run(folder, "check").returncode, run(folder, "check").stderr) == (1, f"{folder} is damaged\n")
    packed.write_bytes(packed.read_bytes()[:-100])
    assert run(packed, "install", folder).returncode == 1
    assert run(folder, "nothing").stderr.startswith("The collection's programs on hosts:")


def test_hidden_files_are_not_in_it(tmp_path: Path) -> None:
    archive.install(archive.pack(FILES), tmp_path / NAME)
    (tmp_path / NAME / ".#b.py").symlink_to("somebody@node0.123")  # of Emacs
    (tmp_path / NAME / "._b.py").write_bytes(b"\0")  # of macOS
    assert archive.of_directory(tmp_path / NAME) == FILES


@pytest.mark.slow
def test_a_module_of_a_project_does_not_stand_before_it(tmp_path: Path) -> None:
    (tmp_path / "amx_cluster.py").write_text("")
    command = [sys.executable, "-c", "import amx_cluster.cpus"]
    path = f"{runtimes.installed()}:{tmp_path}"
    subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, cwd="/", check=True)


@pytest.mark.slow
@pytest.mark.parametrize("elsewhere", [False, True])
def test_its_modules_are_compiled_before_jobs_import_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    if elsewhere:
        monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "elsewhere"))
    folder = tmp_path / "runtime" / runtimes.installed().name
    archive.install(archive.pack(archive.of_directory(runtimes.installed())), folder)
    compiled = {path: path.stat().st_ino for path in folder.rglob("*.pyc")}
    assert len(compiled) == len(list(folder.rglob("*.py")))
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    subprocess.run([sys.executable, "-S", str(folder), "check"], check=True)
    assert {path: path.stat().st_ino for path in folder.rglob("*.pyc")} == compiled
    code = marshal.loads(next(folder.glob("amx_cluster/__pycache__/rank.*")).read_bytes()[archive.HEADER :])
    assert code.co_filename == str(folder / "amx_cluster/rank.py")


# As on a disk that is full: Python writes no more of a module than there is room for, and does not notice.
FULL = """import marshal, runpy, sys
del sys.argv[0]
whole = marshal.dumps
marshal.dumps = lambda code: whole(code)[:20]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
def test_no_archive_is_installed_whose_compiled_modules_are_cut_off(tmp_path: Path) -> None:
    script, python = tmp_path / "full.py", tmp_path / "python"
    script.write_text(FULL)
    python.write_text(f'#!/bin/sh\nshift\nexec {sys.executable} -SB {script} "$@"\n')
    python.chmod(0o755)
    files = archive.of_directory(runtimes.installed())
    folder = tmp_path / "runtime" / archive.name(files)
    with pytest.raises(OSError, match="No space left on device"):
        archive.install(archive.pack(files), folder, str(python))
    assert [path.name for path in folder.parent.iterdir()] == [_ownership.MARK]


@pytest.mark.slow
def test_those_that_no_job_needs(tmp_path: Path) -> None:
    versions = {name: {**FILES, "a.py": f"'{name}'".encode()} for name in ("used", "previous", "unused")}
    folders = {name: tmp_path / "runtime" / archive.name(files) for name, files in versions.items()}
    for name, files in versions.items():
        archive.install(archive.pack(files), folders[name])
        (tmp_path / "jobs" / name).mkdir(parents=True)
        (tmp_path / "jobs" / name / "plan.json").write_text(json.dumps({"runtime": str(folders[name])}))
    (tmp_path / "jobs/unused/plan.json").write_text("{}")
    (tmp_path / "runtime/of a person").mkdir()
    assert archive.unused(tmp_path) == [folders["unused"]]
    leaving = [tmp_path / "jobs/previous"]
    assert archive.unused(tmp_path, leaving) == sorted([folders["previous"], folders["unused"]])
    assert archive.unused(tmp_path / "none") == []
