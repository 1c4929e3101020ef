"""HAProxy with the configuration that is rendered, before instances that are small programs on Unix sockets."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import re
import socket
import socketserver
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs.servers import front
from support import haproxy
from support.served import ask, free_ports

KEY = "0123456789abcdef"


class Instance(http.server.BaseHTTPRequestHandler):
    """Answers with the number of its instance; /predict with the length of the body, or it ends with all of its own."""

    number, breaks = 0, False
    ended: ClassVar[list[int]]

    def do_GET(self) -> None:
        self.answer({"instance": self.number, "path": self.path})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"] or 0))
        if self.breaks:  # as when its process is killed
            self.ended.append(self.number)
            self.server.server_close()
            self.close_connection = True
            return
        self.answer({"instance": self.number, "bytes": len(body)})

    def answer(self, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_arguments: object) -> None:
        return


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64


@contextmanager
def instance(path: Path, number: int, *, breaks: bool = False, ended: list[int] | None = None) -> Iterator[None]:
    handler = type(
        "Handler", (Instance,), {"number": number, "breaks": breaks, "ended": [] if ended is None else ended}
    )
    with Server(str(path), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        if not breaks:
            server.shutdown()


def front_of(tmp_path: Path, count: int = 2, **fields: Any) -> front.Front:
    sockets = [str(tmp_path / f"i{number}") for number in range(count)]
    return front.Front(str(tmp_path), "127.0.0.1", free_ports(), "127.0.0.1", sockets, **fields)


@contextmanager
def running(made: front.Front, text: str = "") -> Iterator[None]:
    """Run HAProxy. text: its configuration, by default the one that is rendered."""
    file = Path(made.directory) / f"{made.port}.cfg"
    file.write_text(text or front.render(made))
    with subprocess.Popen([haproxy.path(), "-db", "-f", str(file)], stderr=subprocess.PIPE, text=True) as process:
        try:
            for _look in range(100):
                with closing(socket.socket()) as tried:
                    if tried.connect_ex(("127.0.0.1", made.port)) == 0:
                        break
                assert process.poll() is None, process.stderr.read() if process.stderr else ""
                time.sleep(0.1)
            yield
        finally:
            process.terminate()


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("f")  # a path of a socket has at most 107 characters


@pytest.mark.slow
def test_requests_are_divided_among_instances(short: Path) -> None:
    made = front_of(short)
    with instance(short / "i0", 0), instance(short / "i1", 1), running(made):
        answers = [ask(made.port, "/predict", b"{}") for _request in range(20)]
        assert {status for status, _content, _headers in answers} == {200}
        assert {content["instance"] for _status, content, _headers in answers} == {0, 1}


@pytest.mark.slow
def test_a_request_whose_instance_ends_is_sent_to_another(short: Path) -> None:
    made = front_of(short)
    with instance(short / "i0", 0, breaks=True), instance(short / "i1", 1), running(made):
        answers = [ask(made.port, "/predict", b"x" * 50_000) for _request in range(10)]
        assert {(status, content.get("instance")) for status, content, _headers in answers} == {(200, 1)}


@pytest.mark.parametrize("is_of_another_host", [False, True])  # which then tries others itself
def test_a_request_that_ends_instances_is_not_sent_to_all(short: Path, is_of_another_host: bool) -> None:
    made = front_of(short, 8)
    ended: list[int] = []
    with contextlib.ExitStack() as living:
        for number in range(8):
            living.enter_context(instance(short / f"i{number}", number, breaks=True, ended=ended))
        with running(made):
            status, _content, headers = ask(made.port + is_of_another_host, "/predict", b"{}")
            assert (status, headers["retry-after"]) == (502, "1")
            assert len(ended) == (1 if is_of_another_host else 1 + front.RETRIES)


def test_without_instances_it_says_so_and_when_to_come_back(short: Path) -> None:
    made = front_of(short)
    with running(made):
        status, content, headers = ask(made.port, "/predict", b"{}")
        assert (status, headers["retry-after"]) == (503, "1")
        assert content["error"]["message"] == "no instance can answer now: try again"


@pytest.mark.slow
def test_paths_that_are_none_of_the_interface_do_not_pass(short: Path) -> None:
    made = front_of(short, 1)
    with instance(short / "i0", 0), running(made):
        for path in ("/", "/health", "/predict", "/v1/models", "/rerank", "/v2/rerank"):
            assert ask(made.port, path)[1]["path"] == path
        assert ask(made.port, "/metrics/0")[1]["path"] == "/metrics"
        assert "haproxy_frontend_http_requests_total" in ask(made.port, "/metrics")[1]
        for path in ("/load_model", "/invocations", "/docs", "/v2", "/%2e%2e/docs", "/predict/../load_model"):
            assert ask(made.port, path)[0] == 404


@pytest.mark.slow
def test_a_request_that_announces_too_much_reaches_no_instance(short: Path) -> None:
    made = front_of(short, count=1)
    ended: list[int] = []
    with instance(Path(made.sockets[0]), 0, ended=ended), running(made):
        with closing(http.client.HTTPConnection("127.0.0.1", made.port, timeout=30)) as connection:
            connection.putrequest("POST", "/v1/completions")
            connection.putheader("Content-Length", str(front.MOST_BYTES + 1))
            connection.endheaders()
            connection.send(b"a" * front.BUFFER)
            answer = connection.getresponse()
            assert (answer.status, json.loads(answer.read())["error"]["code"]) == (413, "too_large")
        # One in chunks announces nothing: it passes where all of it has arrived.
        for size, code in ((front.WHOLE - 3000, 200), (front.WHOLE + 3000, 411), (4 * front.BUFFER, 411)):
            with closing(http.client.HTTPConnection("127.0.0.1", made.port, timeout=30)) as connection:
                with contextlib.suppress(OSError):  # it is refused while it is sent
                    connection.request("POST", "/v1/completions", (b"a" * 1000 for _kb in range(size // 1000 + 1)))
                assert connection.getresponse().status == code, size
        # Nor where headers fill the buffer.
        with closing(http.client.HTTPConnection("127.0.0.1", made.port, timeout=30)) as connection:
            with contextlib.suppress(OSError):
                rows = (b"a" * 1000 for _kb in range(200))
                connection.request("POST", "/v1/completions", rows, {"X-Long": "a" * 45000})
            assert connection.getresponse().status == 431
        assert ask(made.port, "/v1/models")[0] == 200


@pytest.mark.slow
def test_keys(short: Path) -> None:
    made = front_of(short, 1, keys=[front.hashed(KEY), front.hashed("fedcba9876543210")])
    with instance(short / "i0", 0), running(made):
        for path in ("/", "/predict", "/v1/models", "/metrics", "/metrics/0"):
            for value in ("", f"Bearer {KEY}x", KEY):
                status, content, answered = ask(made.port, path, Authorization=value)
                assert (status, content["error"]["code"], answered["www-authenticate"]) == (
                    401,
                    "invalid_api_key",
                    "Bearer",
                )
            assert ask(made.port, path, Authorization=f"Bearer {KEY}")[0] == 200
        assert ask(made.port, "/v1/models", Authorization="Bearer fedcba9876543210")[0] == 200
        assert ask(made.port, "/health")[0] == 200
        # Nor past it, by the port of the other hosts.
        assert ask(made.port + 1, "/predict", b"{}")[0] == 401
        assert ask(made.port + 1, "/predict", b"{}", Authorization=f"Bearer {KEY}")[0] == 200
    assert KEY not in front.render(made)


@contextmanager
def two_hosts(place: Path, instances: int) -> Iterator[tuple[front.Front, front.Front]]:
    """Run HAProxy of a host with so many instances, which has a peer with one, and that of the peer."""
    (place / "g").mkdir()
    first, second = front_of(place, instances), front_of(place / "g", 1)
    # One machine has both, so that the peer's port is another one than a host would have.
    first = replace(first, peers=[front.Peer("node1", "127.0.0.1", 1)])
    text = front.render(first).replace(f"node1 127.0.0.1:{first.port + 1}", f"node1 127.0.0.1:{second.port + 1}")
    with running(second), running(first, text):
        yield first, second


@pytest.mark.slow
def test_hosts_pass_requests_to_each_other_but_no_further(short: Path) -> None:
    with two_hosts(short, 0) as (first, second):
        assert until(lambda: ask(first.port, "/predict", b"{}")[0] == 503)
        assert until(lambda: ask(second.port + 1, "/health")[0] == 503)  # it has no instance that could answer
        with instance(short / "g/i0", 7):
            assert until(lambda: ask(first.port, "/predict", b"{}")[0] == 200)
            assert ask(first.port, "/predict", b"{}")[1]["instance"] == 7
            assert ask(first.port + 1, "/predict", b"{}")[0] == 503  # asked by another host, it asks no third one


@pytest.mark.slow
def test_a_host_whose_instance_has_just_ended_costs_no_request(short: Path) -> None:
    with instance(short / "i0", 0), two_hosts(short, 1) as (first, _second):
        with instance(short / "g/i0", 7):
            both = {0, 7}
            assert until(lambda: {ask(first.port, "/predict", b"{}")[1]["instance"] for _ in range(8)} == both)
        answers, ended = [], 0
        for _request in range(20):
            try:
                answers.append(ask(first.port, "/predict", b"{}"))
            except http.client.RemoteDisconnected:  # it was there when the host was marked as down
                ended += 1
        assert {(status, document.get("instance")) for status, document, _headers in answers} == {(200, 0)}
        assert ended <= 1


def until(is_so: Any) -> bool:
    for _look in range(150):
        try:
            if is_so():
                return True
        except OSError:
            pass
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("key", ["short", "with blanks in it, long", "", "ä" * 20])
def test_keys_that_are_none(key: str) -> None:
    with pytest.raises(ValueError, match="a key has at least 16 characters"):
        front.hashed(key)


def test_a_key_file() -> None:
    assert front.read_keys(f"# ours\n\n  {KEY}  \n") == [front.hashed(KEY)]
    with pytest.raises(ValueError, match="there is no key in it"):
        front.read_keys("# none\n")


def test_ipv6_and_tls() -> None:
    text = front.render(
        front.Front("/d", "fd00::1", 8000, "fd00::1", ["/d/i0"], [front.Peer("b", "fd00::2", 3)], certificate="/c.pem")
    )
    assert "    bind [fd00::1]:8000 ssl crt /c.pem alpn http/1.1\n" in text
    assert re.search(r"server b \[fd00::2\]:8001 check weight 3 ", text)
    assert "    bind [fd00::1]:8001\n" in text


def test_many_keys_and_keys_with_commas_are_matched_whole() -> None:
    keys = [front.hashed(f"key,{number:020d}") for number in range(1000)]
    text = front.render(front.Front("/tmp", "127.0.0.1", 8000, "127.0.0.1", ["/tmp/i0"], (), keys))
    lines = [line for line in text.splitlines() if line.strip().startswith("acl key")]
    assert len(lines) == 2000  # of both frontends
    assert all("req.fhdr(authorization)" in line and len(line.split()) < 64 for line in lines)


@pytest.mark.slow
def test_tls(short: Path) -> None:
    pem = short / "c.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*words, "-keyout", f"{short}/key", "-out", f"{short}/cert"], check=True, capture_output=True)
    pem.write_text((short / "cert").read_text() + (short / "key").read_text())
    made = front_of(short, 1, certificate=str(pem))
    with instance(short / "i0", 0), running(made):
        context = ssl.create_default_context(cafile=str(short / "cert"))
        with closing(http.client.HTTPSConnection("localhost", made.port, context=context, timeout=30)) as connection:
            connection.request("GET", "/v1/models")
            assert connection.getresponse().status == 200
        with pytest.raises(http.client.RemoteDisconnected):  # without TLS
            ask(made.port, "/v1/models")
