from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, reset
from ansible_collections.amx.cluster.plugins.module_utils._stacks import venv
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.slow


KEY = "0123456789ab"
# The names that the collection itself gives, which anybody may give.
NAMES = {
    "jobs": ("demo", "verify", "+verify", "demo+tune-1", ".demo.lock", ".demo.part", "demo.20260101T000000Z"),
    "cache": ("projects", "fetched", "models", f"bert-{KEY}", f"bert-{KEY}.read.json", f".bert-{KEY}.part"),
    "envs": (f"native-cp311-{KEY}", f".native-cp311-{KEY}.lock", "mine"),
    "wheels": (f"cp311-{KEY}", f"cp311-{KEY}.partial"),
    "wheelhouse": (f"cp311-{KEY}-lock", f"cp311-{KEY}.partial"),
    "git_wheels": ("credential", "0123456789abcdef"),
    "fetched": ("hub", "packages", "0123456789abcdef.read.json"),
    "transformers": (f"5-{KEY}",),
    "images": (f"native-{KEY}",),
}
FOREIGN = ("directory", "empty", "file", "venv", "no mark", "link out", "link to own", "moved link", "another user's")
OWN = ("directory", "results", "derived", "file", "link", "container")


def snapshot(top: Path) -> dict[str, tuple[Any, ...]]:
    """What a tree has, links not followed."""
    found: dict[str, tuple[Any, ...]] = {}
    for path in [top, *([] if top.is_symlink() else sorted(top.rglob("*")))]:
        status = path.lstat()
        link = stat.S_ISLNK(status.st_mode)
        content = str(path.readlink()) if link else path.read_bytes() if path.is_file() else b""
        found[str(path)] = (stat.S_IFMT(status.st_mode), status.st_uid, content)
    return found


def write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("theirs")


def make_foreign(path: Path, kind: str, out: Path, own: Path) -> None:
    if kind == "directory":
        write(path / "results/model")
    elif kind == "empty":
        path.mkdir()
    elif kind == "file":
        write(path)
    elif kind == "venv":
        write(path / venv.MARKER)
        write(path / "bin/python")
    elif kind == "no mark":  # a file of that name, which is not the mark
        write(path / _ownership.MARK)
        write(path / "job.json")
    elif kind == "link out":
        path.symlink_to(out)
    elif kind == "link to own":
        path.symlink_to(own)
    elif kind == "moved link":  # the collection's own, which somebody has pointed elsewhere
        _ownership.link(path, own)
        path.unlink()
        path.symlink_to(out)
    else:
        write(path / "log")
        for one in (path, path / "log"):
            os.lchown(one, 12345, 12345)


def make_own(path: Path, kind: str, out: Path) -> None:
    if kind in ("directory", "results", "derived"):
        what = directory.DERIVED if kind == "derived" else directory.JOB
        directory.create(path, {"job.json": "{}", "lib/a.py": ""}, {"data/out": str(out)}, kind=what)
        if kind != "directory":
            (path / "log").write_text("step 1")
    elif kind == "file":
        _ownership.write_file(path)
    elif kind == "link":
        _ownership.link(path, out)
    else:
        make_own(path / "inner", "directory", out)


def pieces_of(place: str, name: str, kind: str, tree: list[tuple[str, str, bool, str]]) -> set[str]:
    """The pieces with which something of the collection goes."""
    if place == "jobs" and kind == "results":
        has_later = ("jobs", name.partition(".")[0], True, "results") in tree
        return {"previous"} if name.endswith("Z") and has_later else {"results"}
    if place == "jobs":
        return {"jobs"}
    return {piece for piece in reset.OF_FILES if any(place in owner.directories for owner in reset.places(piece))}


@st.composite
def trees(draw: st.DrawFn) -> list[tuple[str, str, bool, str]]:
    """What lies where: (place, name, whether it is the collection's, kind)."""
    made = []
    for place, names in NAMES.items():
        for name in draw(st.sets(st.sampled_from(names))):
            own = draw(st.booleans())
            made.append((place, name, own, draw(st.sampled_from(OWN if own else FOREIGN))))
    return made


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for another user's files")
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    trees(),
    st.sets(st.sampled_from(sorted(NAMES))),
    st.sets(st.sampled_from(sorted(NAMES))),
    st.sets(st.sampled_from(reset.OF_FILES), min_size=1),
    st.sampled_from(["", *FOREIGN, "own"]),
)
def test_a_reset_removes_what_is_own_and_requested_and_nothing_else(
    tree: list[tuple[str, str, bool, str]], given_places: set[str], linked: set[str], pieces: set[str], env: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        base, out = Path(folder, "prefix"), Path(folder, "theirs")
        base.mkdir()
        write(out / "model")
        before = Path(folder, "before")
        _ownership.make(before, "of another cluster")
        kept: list[Path] = []
        gone: list[Path] = []
        for place in given_places:  # where somebody has made the directory
            (base / place).mkdir()
        for place in linked - given_places:
            write(out / place / NAMES[place][0] / "log")
            (base / place).symlink_to(out / place)
        for place, name, own, kind in sorted(tree, key=lambda made: (not made[2], made[1][0] == ".")):
            if (base / place).is_symlink():
                continue
            path = base / place / name
            if kind == "container" and place in ("jobs", "envs"):
                kind = "directory"
            _ownership.make(path.parent, _ownership.CONTAINER)
            if own:
                make_own(path, kind, out)
                (gone if pieces & pieces_of(place, name, kind, tree) else kept).append(path)
            else:
                make_foreign(path, kind, out, before)
                kept.append(path)
        if env == "own":
            _ownership.link(base / "env", out)
            (gone if "environments" in pieces else kept).append(base / "env")
        elif env:
            make_foreign(base / "env", env, out, before)
            kept.append(base / "env")
        seen = {**snapshot(out), **snapshot(before)}
        for path in kept:
            seen.update(snapshot(path))

        for piece in sorted(pieces, key=[*reset.PIECES].index):
            reset.remove(base, reset.paths(base, piece))
        reset.remove_empty(base)

        now = snapshot(Path(folder))
        assert {path: what for path, what in seen.items() if now.get(path) != what} == {}
        assert [place for place in given_places if not (base / place).is_dir()] == []
        assert [path for path in gone if os.path.lexists(path)] == []


def test_what_is_in_the_way_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes").touch()
    with pytest.raises(ValueError, match="mine was not made by this collection, which needs that place: rename it"):
        _ownership.claim(tmp_path / "mine", "wheels")
    with pytest.raises(ValueError, match="mine was not made by this collection, which needs that place"):
        _ownership.link(tmp_path / "mine", tmp_path)
    assert not _ownership.remove(tmp_path / "mine")
    (tmp_path / "lock").touch()
    _ownership.write_file(tmp_path / "lock")
    assert not _ownership.is_own(tmp_path / "lock")


def test_what_an_interrupted_run_left_before_its_mark(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / f"part/.{_ownership.MARK}.abc").touch()
    _ownership.claim(tmp_path / "part", "wheels")
    assert _ownership.remove(tmp_path / "part")


def test_a_right_link_without_a_mark_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "env").symlink_to(tmp_path / "a")
    assert not _ownership.link(tmp_path / "env", tmp_path / "a")
    assert not _ownership.is_own(tmp_path / "env")
    for check in (True, False):
        with pytest.raises(ValueError, match="env was not made by this collection"):
            _ownership.link(tmp_path / "env", tmp_path / "b", check)


def test_a_directory_is_claimed_again(tmp_path: Path) -> None:
    for _ in range(2):
        _ownership.claim(tmp_path / "a/b", "wheels")
    assert _ownership.described(tmp_path / "a/b") == "wheels, by .amx-cluster.json in it"
    assert _ownership.read(tmp_path / "a")["what"] == _ownership.CONTAINER
    assert not _ownership.remove(tmp_path / "a")
    assert _ownership.remove(tmp_path / "a/b")
    assert _ownership.remove(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_pointed_elsewhere(tmp_path: Path) -> None:
    link = tmp_path / "env"
    assert _ownership.link(link, tmp_path / "a", check=True)
    assert list(tmp_path.iterdir()) == []
    assert _ownership.link(link, tmp_path / "a")
    assert not _ownership.link(link, tmp_path / "a")
    assert _ownership.link(link, tmp_path / "b")
    assert link.readlink() == tmp_path / "b"
    assert _ownership.described(link) == "link, recorded in .env.amx-cluster.json"
    assert _ownership.remove(link)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_removal_is_finished_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _ownership.claim(tmp_path / "a", "wheels")
    (tmp_path / "a/full").mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", lambda _path: (_ for _ in ()).throw(OSError("busy")))
        with pytest.raises(OSError, match="busy"):
            _ownership.remove(tmp_path / "a")
    assert _ownership.remove(tmp_path / "a")
    assert not (tmp_path / "a").exists()


# Locks a file, starts a process that inherits the lock, and waits.
LOCKS = """
import json, subprocess, sys, time
sys.path[:0] = json.loads(sys.argv[1])
from pathlib import Path
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
with _ownership.locked(Path(sys.argv[2]), 0) as descriptor:
    print(subprocess.Popen(["sleep", "100"], pass_fds=[descriptor], stdout=subprocess.DEVNULL).pid, flush=True)
    time.sleep(100)
"""


def test_a_lock_ends_with_those_that_have_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", LOCKS, json.dumps(sys.path), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        child = int(process.stdout.readline())
        try:
            for _living in range(2):
                error = f"^{path} is locked by another process, .* or end it .fuser {path} shows it.$"
                with pytest.raises(TimeoutError, match=error), _ownership.locked(path, 0):
                    pass
                process.kill()
                process.wait()
        finally:
            os.kill(child, signal.SIGKILL)
    with _ownership.locked(path, 60):
        pass
