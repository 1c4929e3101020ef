from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _io


def test_a_half_written_file_is_as_none(tmp_path: Path) -> None:
    assert _io.read_json(tmp_path / "none.json") is None
    (tmp_path / "half.json").write_text('{"a":')
    assert _io.read_json(tmp_path / "half.json") is None
    (tmp_path / "list.json").write_text("[]")
    assert _io.read_json(tmp_path / "list.json") is None


def test_a_file_is_replaced_at_once(tmp_path: Path) -> None:
    path = tmp_path / "secret.json"
    path.write_text("before")
    _io.write_json(path, {"a": 1}, 0o600)
    assert json.loads(path.read_text()) == {"a": 1}
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["secret.json"]


def test_what_cannot_be_written_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text("before")
    with pytest.raises(UnicodeEncodeError):
        _io.write_text(path, "\udcff")
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]


# Locks a file, starts a process that inherits the lock, and waits.
LOCKS = """
import json, subprocess, sys, time
sys.path[:0] = json.loads(sys.argv[1])
from pathlib import Path
from ansible_collections.amx.cluster.plugins.module_utils import _io
with _io.locked(Path(sys.argv[2]), 0) as descriptor:
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
                with pytest.raises(TimeoutError, match=error), _io.locked(path, 0):
                    pass
                process.kill()
                process.wait()
        finally:
            os.kill(child, signal.SIGKILL)
    with _io.locked(path, 60):
        pass
