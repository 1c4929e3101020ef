from __future__ import annotations

import io
import math
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._data import pass_on, relay
from ansible_collections.amx.cluster.plugins.module_utils._data.pass_on import FROM_HEAD, Spread, Transfers, spread
from hypothesis import given
from hypothesis import strategies as st


def workers(count: int) -> list[str]:
    return [f"w{place}" for place in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 9, 15, 99, 127])
def test_rounds(count: int) -> None:
    plan = Spread("head", [], workers(count))
    assert spread(plan, lambda source, target: "") == math.ceil(math.log2(count + 1))
    assert sorted(plan.sources) == sorted(["head", *workers(count)])
    assert (plan.waiting, plan.failed) == ([], {})


def test_who_serves_whom() -> None:
    plan = Spread("head", ["w1"], ["w0", "w2", "w3", "w1"])
    assert plan.round() == [("head", "w0"), ("w1", "w2")]
    plan.note("head", "w0", "")
    plan.note("w1", "w2", "broken pipe")
    # w2 waits for another source, and w1 may be what is broken.
    assert plan.round() == [("head", "w3"), ("w0", "w2")]
    plan.note("head", "w3", "")
    plan.note("w0", "w2", "broken pipe")
    # Two workers could not serve it: now it is the head's.
    plan.waiting.insert(0, "w4")
    assert plan.round() == [("head", "w2"), ("w3", "w4")]


def test_a_host_that_does_not_answer_is_given_up() -> None:
    plan = Spread("head", [], ["w0", "w1", "w2", "w3"])
    asked: list[str] = []

    def transfer(source: str, target: str) -> str:
        asked.append(target)
        return "No route to host" if target == "w1" else ""

    spread(plan, transfer, pause=0)
    assert plan.failed == {"w1": "No route to host"}
    assert {"w0", "w2", "w3"} < set(asked)
    assert asked.count("w1") <= FROM_HEAD + pass_on.FROM_WORKERS


@pytest.mark.slow
@given(st.integers(1, 40), st.sets(st.integers(0, 39)), st.sets(st.integers(0, 39)))
def test_every_host_that_the_head_can_serve_is_served(count: int, no_sources: set[int], dead: set[int]) -> None:
    plan = Spread("head", [], workers(count))
    bad = {f"w{place}" for place in no_sources}
    down = {f"w{place}" for place in dead if place < count}
    spread(plan, lambda source, target: "x" if source in bad or target in down else "", pause=0)
    assert set(plan.failed) == down
    assert not plan.waiting


def fill(directory: Path) -> None:
    (directory / "data" / "deep").mkdir(parents=True)
    (directory / "big").write_bytes(os.urandom(3_000_000))
    (directory / "big").chmod(0o750)
    (directory / "data" / "a b").write_text("a b")
    (directory / "data" / "deep" / "c").write_text("c")
    (directory / "data" / "link").symlink_to("deep/c")
    (directory / "data" / "empty").mkdir()


def contents(directory: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None for path in directory.rglob("*")
    }


def packed(directory: Path, *names: str) -> io.BytesIO:
    stream = io.BytesIO()
    relay.pack(stream, directory, names)
    return io.BytesIO(stream.getvalue())


def test_a_stream_of_files(tmp_path: Path) -> None:
    fill(tmp_path / "from")
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "big").write_text("of before")
    stream = packed(tmp_path / "from", "big", "data")
    assert relay.unpack(stream, tmp_path / "to", ["big", "data"]) == 4
    assert contents(tmp_path / "to") == contents(tmp_path / "from")
    assert stat.S_IMODE((tmp_path / "to" / "big").stat().st_mode) == 0o750
    assert not (tmp_path / "to" / "data" / "link").is_symlink()


def test_only_what_was_requested_is_written(tmp_path: Path) -> None:
    fill(tmp_path / "from")
    with pytest.raises(ValueError, match=r"^big was sent and not requested$"):
        relay.unpack(packed(tmp_path / "from", "big"), tmp_path / "to", ["data"])
    with pytest.raises(ValueError, match=r"^data/\.\./big was sent and not requested$"):
        relay.unpack(packed(tmp_path / "from", "data/../big"), tmp_path / "to", ["data"])
    assert not (tmp_path / "to").exists()


def test_half_a_file_is_not_written(tmp_path: Path) -> None:
    fill(tmp_path / "from")
    half = io.BytesIO(packed(tmp_path / "from", "big").getvalue()[:1_000_000])
    with pytest.raises(Exception, match="unexpected end of data"):
        relay.unpack(half, tmp_path / "to", ["big"])
    assert not list((tmp_path / "to").iterdir())


def test_a_listener_serves_who_knows_the_token(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path / "from")
    token = "t" * relay.TOKEN_BYTES
    counts: list[int] = []

    def listen() -> None:
        counts.append(relay.listen("127.0.0.1", token, tmp_path / "to", ["big"], 20))

    thread = threading.Thread(target=listen)
    thread.start()
    port = 0
    while not port:
        port = int(capfd.readouterr().out or 0)
    with socket.create_connection(("127.0.0.1", port)):
        pass  # somebody who looks which ports are open
    with pytest.raises((OSError, ValueError)):
        relay.send("127.0.0.1", port, "f" * relay.TOKEN_BYTES, tmp_path / "from", ["big"], 5)
    assert relay.send("127.0.0.1", port, token, tmp_path / "from", ["big"], 5) == 1
    thread.join()
    assert counts == [1]


# STAND-IN for ssh (no real hosts here, molecule has those): each host is a directory of this machine.
SSH = """#!/bin/bash
while [ "$1" != "${1#-}" ]; do if [ "$1" = -o ]; then shift; fi; shift; done
echo "$1" >> "$HOSTS/logins"
[ ! -e "$HOSTS/$1.down" ] || { echo "ssh: connect to host $1 port 22: No route to host" >&2; exit 255; }
cd "$HOSTS/$1" || exit
exec bash -c "$2"
"""


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a directory for each host, in which `files` is what is passed on; the head has them."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ssh").write_text(SSH)
    (tmp_path / "bin" / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("HOSTS", str(tmp_path))
    fill(tmp_path / "head" / "files")
    for host in workers(5):
        (tmp_path / host / "files").mkdir(parents=True)
    return tmp_path


def transfers(hosts: Path) -> Transfers:
    each = {"address": "127.0.0.1", "python": sys.executable, "names": ["big", "data"]}
    return Transfers("head", dict.fromkeys(workers(5), each), hosts / "head" / "files", Path("files"), 5)


@pytest.mark.slow
def test_hosts_pass_files_on(hosts: Path) -> None:
    plan = Spread("head", [], workers(5))
    assert spread(plan, transfers(hosts)) == 3
    assert plan.failed == {}
    for host in workers(5):
        assert contents(hosts / host / "files") == contents(hosts / "head" / "files")
    # The head sends three times, in one login each; a transfer between two others takes a login on both.
    assert len((hosts / "logins").read_text().split()) == 3 + 2 * 2


@pytest.mark.slow
def test_a_host_is_down_and_another_has_no_room(hosts: Path) -> None:
    (hosts / "w1.down").touch()
    (hosts / "w3" / "files").rmdir()
    (hosts / "w3" / "files").write_text("no directory")
    plan = Spread("head", [], workers(5))
    spread(plan, transfers(hosts), pause=0)
    assert plan.failed["w1"] == "w1: ssh: connect to host w1 port 22: No route to host"
    assert plan.failed["w3"] == "w3: [Errno 17] File exists: 'files'"
    assert set(plan.failed) == {"w1", "w3"}
    for host in ("w0", "w2", "w4"):
        assert contents(hosts / host / "files") == contents(hosts / "head" / "files")


def test_a_worker_that_lost_its_files_serves_nobody(hosts: Path) -> None:
    plan = Spread("head", ["w0"], ["w1", "w2"])
    spread(plan, transfers(hosts), pause=0)
    assert plan.failed == {}
    assert contents(hosts / "w2" / "files") == contents(hosts / "head" / "files")


def test_a_python_that_is_not_there(hosts: Path) -> None:
    transfer = transfers(hosts)
    transfer.hosts = {"w0": {**transfer.hosts["w0"], "python": "/none/python3"}}
    assert "No such file or directory" in transfer("head", "w0")


def test_the_program_needs_no_more_than_the_standard_library() -> None:
    ran = subprocess.run(
        [sys.executable, "-I", "-S", relay.__file__],
        input='{"task": "receive", "directory": "/none", "names": []}\n',
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "empty file\n"
