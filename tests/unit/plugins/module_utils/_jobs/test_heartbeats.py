from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import heartbeats
from support import runtimes
from support.clock import SetClock
from support.patience import until

pytestmark = pytest.mark.slow


MESSAGE: dict[str, Any] = {"rank": 1, "host": "node1", "idle": 0.5, "files": {}, "oom_kills": 0}


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def receiver(clock: SetClock) -> Iterator[heartbeats.Receiver]:
    with heartbeats.Receiver("127.0.0.1", clock) as made:
        yield made


def connect(receiver: heartbeats.Receiver) -> socket.socket:
    address, port, _token = receiver.endpoint.split(":")
    client = socket.create_connection((address, int(port)))
    client.settimeout(10)
    return client


def token(receiver: heartbeats.Receiver) -> bytes:
    return receiver.endpoint.split(":")[2].encode() + b"\n"


def line(**other: Any) -> bytes:
    return json.dumps({**MESSAGE, **other}).encode() + b"\n"


def is_closed(client: socket.socket) -> bool:
    """Whether the other side has closed the connection; that it has not, shows in that nothing comes."""
    client.settimeout(0.2)
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def test_messages_of_one_connection(receiver: heartbeats.Receiver) -> None:
    with connect(receiver) as client:
        client.sendall(token(receiver) + line() + line(rank=2)[:20])
        assert receiver.receive(0) == [MESSAGE]
        client.sendall(line(rank=2)[20:] + line(rank=3) + line(rank=4))
        assert [message["rank"] for message in receiver.receive(0)] == [2, 3, 4]
        assert receiver.receive(0) == []


def test_which_rank_ended_first(receiver: heartbeats.Receiver) -> None:
    clients = {rank: connect(receiver) for rank in (0, 1, 2)}
    for rank, client in clients.items():
        client.sendall(token(receiver) + line(rank=rank))
    told: list[dict[str, Any]] = []
    while len(told) < 3:
        told += receiver.receive(0.1)
    assert receiver.ended == []
    for rank in (2, 0, 1):
        clients[rank].close()
        receiver.receive(0.1)
    stranger = connect(receiver)
    stranger.close()
    receiver.receive(0.1)
    assert receiver.ended == [2, 0, 1]


def test_a_connection_for_one_message(receiver: heartbeats.Receiver) -> None:
    for number in range(3):
        with connect(receiver) as client:
            client.sendall(token(receiver) + line(rank=number))
    assert [message["rank"] for message in receiver.receive(0)] == [0, 1, 2]


def test_it_listens_where_it_was_told_only(receiver: heartbeats.Receiver) -> None:
    port = int(receiver.endpoint.split(":")[1])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port))
    with pytest.raises(OSError, match="Cannot assign requested address"):
        heartbeats.Receiver("192.0.2.1")


def test_the_token_comes_first(receiver: heartbeats.Receiver) -> None:
    wrong = b"0" * (len(token(receiver)) - 1) + b"\n"
    with connect(receiver) as without, connect(receiver) as other, connect(receiver) as slow:
        without.sendall(line() * 3)
        other.sendall(wrong + line())
        slow.sendall(token(receiver)[:5])
        assert receiver.receive(0) == []
        assert is_closed(without)
        assert is_closed(other)
        assert not is_closed(slow)
        slow.sendall(token(receiver)[5:] + line())
        assert receiver.receive(0) == [MESSAGE]


@pytest.mark.parametrize(
    "text",
    [b"\n", b"[]\n", b"{\n", b"3\n", b"\xff\n", line(rank="1"), line(files=None), line(host=None), line(idle="long")],
)
def test_what_is_no_message_is_passed_over(receiver: heartbeats.Receiver, text: bytes) -> None:
    with connect(receiver) as client:
        client.sendall(token(receiver) + text + line())
        assert receiver.receive(0) == [MESSAGE]


def test_how_long_clients_may_take(receiver: heartbeats.Receiver, clock: SetClock) -> None:
    with connect(receiver) as stranger, connect(receiver) as half, connect(receiver) as rank:
        stranger.sendall(b"abc")
        half.sendall(token(receiver) + line()[:10])
        rank.sendall(token(receiver) + line())
        assert receiver.receive(0) == [MESSAGE]
        clock.now += heartbeats.TOKEN_SECONDS + 1
        stranger.sendall(b"d")  # a byte now and then does not help
        half.sendall(line()[10:11])
        assert receiver.receive(0) == []
        assert [is_closed(client) for client in (stranger, half, rank)] == [True, False, False]
        clock.now += heartbeats.MESSAGE_SECONDS - heartbeats.TOKEN_SECONDS
        half.sendall(line()[11:12])
        assert receiver.receive(0) == []
        assert [is_closed(client) for client in (half, rank)] == [True, False]
        clock.now += heartbeats.IDLE_SECONDS
        assert receiver.receive(0) == []
        assert is_closed(rank)


def test_how_much_a_message_may_be(receiver: heartbeats.Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    large = line(files={"world.json": {"text": "x" * 400_000}})
    with connect(receiver) as client:
        sender = threading.Thread(target=client.sendall, args=[token(receiver) + large])
        sender.start()
        received = until(lambda: receiver.receive(0.1))
        assert [len(message["files"]["world.json"]["text"]) for message in received] == [400_000]
        sender.join()
        monkeypatch.setattr(heartbeats, "LARGEST", 1000)
        client.sendall(b"x" * 2000)
        assert receiver.receive(0) == []
        assert is_closed(client)


def test_strangers_do_not_use_up_what_a_process_may_open(
    receiver: heartbeats.Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "STRANGERS", 5)
    with connect(receiver) as rank:
        rank.sendall(token(receiver) + line())
        receiver.receive(0)
        strangers = [connect(receiver) for _number in range(8)]
        receiver.receive(0)
        assert [is_closed(stranger) for stranger in strangers] == [True] * 3 + [False] * 5
        assert not is_closed(rank)
        for stranger in strangers:
            stranger.close()


def test_too_many_open_files_are_no_reason_to_fail(receiver: heartbeats.Receiver) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with connect(receiver) as rank, connect(receiver) as late:
        rank.sendall(token(receiver) + line(rank=0))
        late.sendall(token(receiver) + line(rank=9))
        held = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, hard))  # noqa: PTH208
        try:
            with pytest.raises(OSError, match="Too many open files"):
                while True:
                    held.append(os.dup(0))
            assert receiver.receive(0.3) == []
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for descriptor in held:
                os.close(descriptor)
        assert sorted(message["rank"] for message in receiver.receive(0.3)) == [0, 9]


# 800 ranks of 100 hosts, each with its own connection and the message that its observer makes, every two seconds.
RANKS = """
import json, os, socket, sys, time
sys.path.insert(0, sys.argv[1])
from amx_cluster.observer.activity import Activity
from amx_cluster.observer.heartbeat import Heartbeat
from amx_cluster.observer.notices import Notices
from amx_cluster.observer.rank import Rank

address, port, token = sys.argv[2].split(":")
ranks, rounds = int(sys.argv[3]), int(sys.argv[4])
observed = dict(pid=os.getpid(), rank=0, size=ranks, together=[], host="node0", interface="lo", job="", watch={})
me = Rank(observed, sys.argv[2])
beat = Heartbeat(me, Activity(me), Notices(me))
beat.gradient = {"step": 1, "parameters": 199, "sum": 0.1234567, "norm": 1.0}
# Most wait for the others at any time, which takes the longest to tell.
beat.activity.active -= 100
about = {"pid": 4000000, "cpus": list(range(88, 100)), "threads": 12, "libraries": ["/opt/amx/lib/libiomp5.so"] * 2}
world = [{"rank": rank, "host": f"node{rank // 8}", **about} for rank in range(ranks)]
connections = []
for _rank in range(ranks):
    connections.append(socket.create_connection((address, int(port))))
    connections[-1].sendall(f"{token}\\n".encode())
for number in range(rounds):
    began = time.monotonic()
    for rank, connection in enumerate(connections):
        files = {"world.json": {"size": ranks, "backend": "gloo", "ranks": world}} if number == rank == 0 else {}
        message = {**beat.message(), "rank": rank, "host": f"node{rank // 8}", "files": files}
        text = json.dumps(message).encode() + b"\\n"
        connection.sendall(text)
        time.sleep(max(0, began + rank * 2 / ranks - time.monotonic()))  # spread over the two seconds
    time.sleep(max(0, began + 2 - time.monotonic()))
print(len(text))
"""


def drip(receiver: heartbeats.Receiver, seconds: float) -> None:
    """Send a byte every half second, of what might be a token, and come again when that is refused."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError), connect(receiver) as client:
            while time.monotonic() < end:
                client.sendall(b"a")
                time.sleep(0.5)


def test_800_ranks_and_a_client_that_drips(capsys: pytest.CaptureFixture[str]) -> None:
    ranks, rounds = 800, 4
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * ranks)), hard))
    try:
        with heartbeats.Receiver("127.0.0.1") as receiver:
            arguments = [str(runtimes.installed()), receiver.endpoint, str(ranks), str(rounds)]
            command = [sys.executable, "-c", RANKS, *arguments]
            dripping = threading.Thread(target=drip, args=[receiver, 2 * rounds])
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as clients:
                dripping.start()
                heard: dict[int, int] = {}
                longest, world, memory, most = 0.0, 0, resident(), 0
                began, used = time.monotonic(), time.thread_time()
                while clients.poll() is None:
                    before = time.monotonic()
                    for message in receiver.receive(0.2):
                        heard[message["rank"]] = heard.get(message["rank"], 0) + 1
                        world = max(world, len(message["files"].get("world.json", {}).get("ranks", [])))
                    longest, most = max(longest, time.monotonic() - before), max(most, resident())
                for message in receiver.receive(0.2):
                    heard[message["rank"]] += 1
                used, elapsed = time.thread_time() - used, time.monotonic() - began
                assert clients.stdout
                size = int(clients.stdout.read())
            dripping.join()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with capsys.disabled():
        print(
            f"\n{ranks} ranks, {sum(heard.values())} messages of {size} bytes in {elapsed:.1f} s: {used:.2f} s of "
            f"processor time, {(most - memory) / 2**20:.1f} MiB of memory; a look of 0.2 s took at most "
            f"{longest:.2f} s"
        )
    assert heard == dict.fromkeys(range(ranks), rounds)
    assert world == ranks
    assert used < elapsed / 2
    assert longest < 5


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
