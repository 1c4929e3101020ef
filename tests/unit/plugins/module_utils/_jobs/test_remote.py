from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import remote

# A login with the banner of sshd and a complaint of stty, which ssh shows as errors.
SSH = """#!/bin/sh
echo "Authorised users only" >&2
echo "stty: 'standard input': Inappropriate ioctl for device" >&2
shift 7
exec sh -c "$1"
"""


REAL_SSH = shutil.which("ssh")


@pytest.fixture(autouse=True)
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ssh").write_text(SSH)
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


@pytest.mark.slow
def test_a_banner_is_no_output() -> None:
    assert remote.on_every_host(["echo", '{"a": 1}'], ["node1"], "node0") == {"node1": (0, '{"a": 1}\n')}


@pytest.mark.slow
def test_a_failure_comes_with_its_errors() -> None:
    assert "none: No such file" in remote.on_every_host(["cat", "none"], ["node1"], "node0")["node1"][1]


@pytest.mark.slow
@pytest.mark.skipif(REAL_SSH is None, reason="without ssh")
def test_a_host_whose_sshd_does_not_answer_is_late_and_one_without_sshd_is_not(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        (tmp_path / "ssh").write_text(f'#!/bin/sh\nexec {REAL_SSH} -F /dev/null -p {port} -o ConnectTimeout=1 "$@"\n')
        assert remote.unreachable(["127.0.0.1"], "node0") == {"127.0.0.1": remote.LATE}
    assert "Connection refused" in remote.unreachable(["127.0.0.1"], "node0")["127.0.0.1"]
