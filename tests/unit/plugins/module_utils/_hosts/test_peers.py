from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts.peers import connect, listen, look, resolve, serve
from support.patience import until


def test_a_listener_tells_its_clock_and_ends() -> None:
    port = listen("127.0.0.1", 20, visitors=1)
    told = connect("127.0.0.1", port, 5)
    assert told["error"] == ""
    assert abs(told["offset"]) <= told["uncertainty"] + 0.05
    assert 0 < told["uncertainty"] < 1
    until(lambda: connect("127.0.0.1", port, 1)["error"] == "Connection refused")  # all its visitors have been there


def test_a_listener_ends_when_its_time_is_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        began = time.monotonic()
        serve(server, 0.2, visitors=5)
        assert 0.15 < time.monotonic() - began < 3


def test_a_clock_that_is_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        real = time.time
        served = threading.Thread(target=serve, args=(server, 5, 1))
        monkeypatch.setattr(time, "time", lambda: real() + (3600 if threading.current_thread() is served else 0))
        served.start()
        told = connect("127.0.0.1", server.getsockname()[1], 5)
        served.join()
    assert told["offset"] == pytest.approx(3600, abs=1)


def test_an_address_of_another_host() -> None:
    with pytest.raises(OSError, match="assign requested address"):
        listen("192.0.2.77", 1, visitors=1)


@pytest.mark.parametrize("said", [b"SSH-2.0-OpenSSH\r\n", b"amx.cluster late\n", b""])
def test_something_else_answers(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _address = server.accept()
            with connection:
                connection.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        assert connect("127.0.0.1", server.getsockname()[1], 5) == {"error": "something else answers on that port"}
        thread.join()


def test_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert connect("127.0.0.1", port, 0.2) == {"error": "no answer"}  # connected, and not a word
    assert connect("127.0.0.1", port, 5) == {"error": "Connection refused"}


def test_names() -> None:
    found = resolve(["localhost", "does-not-exist.invalid", "no name"])
    assert found["localhost"] == ["127.0.0.1"]
    assert found["does-not-exist.invalid"] == found["no name"] == []


def test_a_name_service_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()

    def hang(*_arguments: object) -> list[object]:
        answered.wait(30)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    began = time.monotonic()
    assert resolve(["node1", "node2"], seconds=0.2) == {"node1": [], "node2": []}
    assert time.monotonic() - began < 5
    answered.set()


def fake_ssh(folder: Path, text: str) -> None:
    (folder / "ssh").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "ssh").chmod(0o755)


def test_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    fake_ssh(tmp_path, "exit 0")
    port = listen("127.0.0.1", 20, visitors=1)
    peers: list[dict[str, Any]] = [
        {"name": "localhost", "address": "127.0.0.1", "port": port},
        {"name": "silent.invalid", "address": None, "port": None},
    ]
    seen = look(peers, True, 5)
    assert seen["names"] == {"localhost": ["127.0.0.1"], "silent.invalid": []}
    assert [(name, one["error"]) for name, one in seen["connections"].items()] == [("localhost", "")]
    assert seen["logins"] == {"localhost": "", "silent.invalid": ""}
    assert look([], False, 5) == {"names": {}, "connections": {}, "logins": {}}
