from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._data import project


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    for name in ("train.py", "pkg/__init__.py", "pkg/empty.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("" if name.startswith("pkg") else "import pkg\n")
    (folder / "run.sh").write_text("echo\n")
    (folder / "run.sh").chmod(0o755)
    return folder


def problem(folder: Path, max_mb: int = 1) -> str:
    with pytest.raises(ValueError, match=str(folder)) as caught:
        project.scan(folder, max_mb)
    return str(caught.value)


def test_a_tree_and_its_copy(folder: Path, tmp_path: Path) -> None:
    (folder / "link.py").symlink_to("train.py")
    (folder / "pkg/up").symlink_to(folder / "pkg")
    found = project.scan(folder, 1)
    train = hashlib.sha256(b"import pkg\n").hexdigest()
    assert {entry["file"]: (entry["bytes"], entry["executable"]) for entry in found.files} == {
        "pkg/__init__.py": (0, False),
        "pkg/empty.py": (0, False),
        "run.sh": (5, True),
        "train.py": (11, False),
    }
    assert found.links == {"link.py": "train.py", "pkg/up": "."}
    contents = found.contents()
    assert len(contents) == 3  # two files are empty
    assert {"file": train, "sha256": train, "bytes": 11, "source": str(folder / "train.py")} in contents
    summary = found.summary()
    assert summary == {"directory": str(folder), "digest": found.digest(), "files": 4, "bytes": 16}
    assert project.describe(summary) == f"mine {found.digest()[:12]} (4 files, 0.0 kB)"

    store = tmp_path / "store"
    store.mkdir()
    for entry in contents:
        (store / entry["file"]).write_bytes(Path(entry["source"]).read_bytes())
    copy = tmp_path / "copy"
    project.make(found.to_json(), store, copy)
    assert project.scan(copy, 1).digest() == found.digest()
    (copy / "train.py").write_text("changed by the script\n")
    assert (store / train).read_text() == "import pkg\n"


def test_the_digest_changes_with_everything(folder: Path) -> None:
    digests = [project.scan(folder, 1).digest()]
    for change in (
        lambda: (folder / "train.py").write_text("other"),
        lambda: (folder / "train.py").rename(folder / "other.py"),
        lambda: (folder / "run.sh").chmod(0o644),
        lambda: (folder / "link").symlink_to("pkg"),
    ):
        change()
        digests.append(project.scan(folder, 1).digest())
    assert len(set(digests)) == 5


def test_too_large(folder: Path) -> None:
    for name, size in (("runs/1/weights.bin", 900_000), ("runs/1/log", 1000), ("data/a", 300_000), ("data/b", 250_000)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(bytes(size))
    assert problem(folder) == (
        f"{folder} has 1.5 MB in 8 files, more than project_max_mb (1): runs/1/weights.bin 0.9 MB, data/ 0.6 MB. "
        "Name what is not needed in .clusterignore (the syntax of "
        ".gitignore), provide data and models by `data` and `models`, or set project_max_mb"
    )
    assert project.scan(folder, 2).size() == 1_451_016
    (folder / ".clusterignore").write_text("runs/\n")
    assert project.scan(folder, 1).size() == 550_022


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("../secret", "link in {folder} is a symbolic link to ../secret, outside of the project: copy the file"),
        ("/etc/hostname", "link in {folder} is a symbolic link to /etc/hostname, outside of the project"),
        ("none.py", "link in {folder} is a symbolic link to none.py, which does not exist"),
        ("venv/bin/python", "link in {folder} is a symbolic link to venv/bin/python, which is not copied"),
    ],
)
def test_links_that_lead_to_what_stays_here(folder: Path, target: str, said: str) -> None:
    (folder.parent / "secret").touch()
    (folder / "venv/bin").mkdir(parents=True)
    (folder / "venv/pyvenv.cfg").touch()
    (folder / "venv/bin/python").touch()
    (folder / "link").symlink_to(target)
    assert problem(folder).startswith(said.format(folder=folder))
    (folder / ".clusterignore").write_text("link")
    assert project.scan(folder, 1).links == {}


def test_what_is_no_file(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(folder / "socket"))
        assert problem(folder).startswith(f"socket in {folder} is neither a file nor a directory: name what")


def test_nothing_to_copy(folder: Path) -> None:
    (folder / ".gitignore").write_text("*")
    assert problem(folder) == f"{folder} has no files, or its ignore files leave out all of them"


def test_an_ignore_file_that_is_no_text(folder: Path) -> None:
    (folder / ".gitignore").write_bytes(b"\xff\xfe*")
    assert problem(folder).startswith(f"an ignore file in {folder} is not UTF-8")


def test_files_that_cannot_be_read(as_another_user: Path) -> None:
    folder = as_another_user
    for name in ("a", "b", "inside/c"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    (folder / "a").chmod(0)
    assert problem(folder).startswith(f"a in {folder} cannot be read: change the permissions, or name what is not")
    (folder / "inside").chmod(0)
    assert problem(folder).startswith(f"{folder}/inside cannot be read (Permission denied): change its permissions")
    (folder / "inside").chmod(0o700)


def test_names_of_the_job_directory(folder: Path) -> None:
    found = project.scan(folder, 1)
    assert project.taken(found, ["output", "data", "models/bert"]) == ""
    for name in ("output/old.txt", "models"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    found = project.scan(folder, 1)
    assert project.taken(found, ["output"]) == (
        f"{folder} has output, where the job directory has one of its own: rename it, or write /output into "
        ".clusterignore"
    )
    assert "has models/bert, where" in project.taken(found, ["models/bert"])
    assert project.taken(found, ["models2/bert", "out"]) == ""
