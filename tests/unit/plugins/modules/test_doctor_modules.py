from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.modules import host_info, peer_info, peer_listener
from support.modules import documented, run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("check_mode", [False, True])
def test_host_info_returns_what_it_documents(tmp_path: Path, check_mode: bool) -> None:
    answer = run(host_info, prefix=str(tmp_path), slurm=True, _ansible_check_mode=check_mode)
    assert answer["changed"] is False
    assert set(answer["host"]) == set(documented(host_info)["host"]["contains"])


def test_host_info_tells_what_it_cannot_read(tmp_path: Path) -> None:
    answer = run(host_info, prefix=str(tmp_path), python=["/nonexistent/python"])
    assert answer["failed"]
    begin = "facts about the host cannot be gathered: the interpreter /nonexistent/python cannot be run: [Errno 2] "
    assert answer["msg"].startswith(begin)


def test_two_hosts_that_meet() -> None:
    """The listener outlives the module that started it, and ends when its visitor has been there."""
    listener = run(peer_listener, address="127.0.0.1", visitors=1, seconds=20)
    peer = {"name": "localhost", "address": "127.0.0.1", "port": listener["port"]}
    seen = run(peer_info, peers=[peer, {"name": "silent.invalid"}])
    assert seen["changed"] is False
    assert seen["connections"]["localhost"]["error"] == ""
    assert list(seen["connections"]) == ["localhost"]
    assert seen["logins"] == {}


def test_an_address_of_another_host() -> None:
    answer = run(peer_listener, address="192.0.2.77", visitors=1)
    assert answer["msg"].startswith("cannot listen on 192.0.2.77: [Errno 99] Cannot assign requested address")
