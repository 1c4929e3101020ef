"""Loads on real HTTP servers here: they stall, refuse, close connections, speak TLS, stream, or never answer."""

from __future__ import annotations

import contextlib
import json
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._measure.load import open_loop, results, served, steps
from ansible_collections.amx.cluster.plugins.module_utils._measure.load.client import Answer, Client

pytestmark = pytest.mark.slow


Reply = Callable[["Handler", int], None]
ABOUT = {"model": "job demo", "task": "text-classification", "columns": ["text"], "precision": "fp32", "instances": 2}
ROW = b'{"text": "a"}'


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_GET(self) -> None:
        document = self.server.paths.get(self.path)
        body = document if isinstance(document, str) else json.dumps(document)
        self.answer(404 if document is None else 200, body)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            number = len(self.server.asked)
            self.server.asked.append(body)
            self.server.keys.add(self.headers.get("Authorization"))
        self.server.reply(self, number)

    def answer(self, code: int, body: str = "{}", kind: str = "application/json") -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_words: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, reply: Reply) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.reply, self.lock, self.connections = reply, threading.Lock(), 0
        self.asked: list[Any] = []
        self.keys: set[str | None] = set()
        self.paths: dict[str, Any] = {"/": ABOUT}
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def serving() -> Iterator[Callable[[Reply], Server]]:
    made: list[Server] = []

    def make(reply: Reply) -> Server:
        made.append(Server(reply))
        return made[-1]

    yield make
    for server in made:
        server.shutdown()
        server.server_close()


def fine(handler: Handler, _number: int) -> None:
    handler.answer(200)


def waiting_for(event: threading.Event) -> Reply:
    def reply(handler: Handler, _number: int) -> None:
        event.wait(20)
        with contextlib.suppress(OSError):
            handler.answer(200)

    return reply


def loaded(client: Client, times: list[float], patience: float = 5.0, **options: Any) -> open_loop.Loop:
    return open_loop.run(
        times, lambda number: client.post(number, "/predict", ROW), patience, client.give_up, **options
    )


def wanted(**fields: Any) -> steps.Wanted:
    return steps.Wanted(**{"rates": [], "seconds": 0.0, "limit": 1.0, "even": True, "tokens": 8, **fields})


def test_requests_that_wait_behind_a_stall_are_in_the_percentiles(serving: Callable[[Reply], Server]) -> None:
    """A stall of two seconds at 20/s, once in six: a third of the requests wait for its end, a second each."""
    one = threading.Lock()

    def stalling(handler: Handler, number: int) -> None:
        with one:  # as one instance
            time.sleep(2.0 if number == 20 else 0)
        handler.answer(200)

    client = Client([serving(stalling).url])
    loop = loaded(client, open_loop.arrivals(20, 6, even=True))
    step = steps.summary(20, 6, loop, limit=0.2)
    latency = step["latency_seconds"]
    assert step["codes"] == {"200": 120}
    waited = sum(request.answer.ended - request.due > 0.2 for request in loop.requests)
    assert waited > 0.15 * 120, "those behind it, and not the stalled one alone"
    assert latency["p90"] > 0.3
    assert latency["p50"] < 0.3 * latency["p90"]
    assert not step["held"]


def test_a_latency_begins_when_the_request_was_due() -> None:
    request = open_loop.Request(due=1.0, sent=3.0, answer=Answer("200", 3.5))
    step = steps.summary(1, 1, open_loop.Loop(1.0, [request], False), limit=10)
    assert step["latency_seconds"]["max"] == 2.5
    assert step["lateness_seconds"]["max"] == 2.0
    assert (step["state"], step["held"]) == ("not measured", True), "late, and nevertheless within the limit"


def test_refusals_are_counted_and_are_no_latencies(serving: Callable[[Reply], Server]) -> None:
    def busy(handler: Handler, number: int) -> None:
        handler.answer(429 if number % 2 else 200)

    client = Client([serving(busy).url])
    step = steps.summary(50, 1, loaded(client, open_loop.arrivals(50, 1, even=False)), limit=10)
    assert step["codes"] == {"200": 25, "429": 25}
    assert step["achieved"] == pytest.approx(25 / step["seconds"])
    assert not step["held"], "half of the requests have no answer in time"
    assert "429: 25" in steps.remark({**step, "instances": [2, 1]})
    assert "instances: 2, then 1" in steps.remark({**step, "instances": [2, 1]})


def test_connections_are_kept_and_their_idle_end_is_no_error(serving: Callable[[Reply], Server]) -> None:
    server = serving(fine)
    client = Client([server.url])
    assert {client.post(number, "/predict", ROW).code for number in range(10)} == {"200"}
    assert server.connections == 1
    kept = client._kept[0][0]
    assert kept.sock is not None
    kept.sock.shutdown(2)  # as a server that closes an idle connection
    assert client.post(0, "/predict", ROW).code == "200"
    assert server.connections == 2


def test_connections_that_are_closed_without_an_answer(serving: Callable[[Reply], Server]) -> None:
    def close(handler: Handler, number: int) -> None:
        what = handler.server.asked[number]
        if what == "half":
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf")
        if what == "fine":
            handler.answer(200)
        handler.close_connection = what != "fine"

    server = serving(close)
    client = Client([server.url])
    words = ["close", "half", "fine", "half", "fine", "close"]
    codes = [client.post(0, "/predict", json.dumps(word).encode()).code for word in words]
    assert codes == ["connection closed", "connection closed", "200", "connection closed", "200", "connection closed"]
    assert server.asked == [*words, "close"], "a kept connection may have been closed before: it is asked once more"


def test_a_server_that_never_answers(serving: Callable[[Reply], Server]) -> None:
    ended = threading.Event()
    server = serving(waiting_for(ended))
    client = Client([server.url], seconds=30)
    loop = loaded(client, [0.0, 0.1, 0.2], patience=0.5)
    assert [request.answer.code for request in loop.requests] == ["no answer"] * 3
    assert time.monotonic() - loop.began < 5
    assert not client._open, "the server is left, and need not go on"
    with pytest.raises(ValueError, match=r"a request to /predict of demo is not answered: no answer: .* within 0.3 s"):
        next(steps.measure(Client([server.url], seconds=0.3), served.Served("demo", "/predict", []), [ROW], wanted()))
    ended.set()


def test_a_step_ends_with_too_many_requests_under_way(serving: Callable[[Reply], Server]) -> None:
    ended = threading.Event()
    client = Client([serving(waiting_for(ended)).url])
    began = time.monotonic()
    loop = loaded(client, open_loop.arrivals(200, 20, even=True), most=20)
    assert loop.overloaded
    assert len(loop.requests) == 20
    assert time.monotonic() - began < 5
    ended.set()
    assert steps.summary(200, 20, loop, 1.0)["state"] == "overloaded"


def test_a_step_begins_once_a_server_has_recovered(
    serving: Callable[[Reply], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "PAUSE", 0.01)
    codes = [200, 200, 429, 503, 200, 200]  # three requests, of which the last is refused at first, and one of the step
    server = serving(lambda handler, number: handler.answer(codes[number] if number < len(codes) else 500))
    what = served.Served("job demo", "/predict", ["text"])
    asked = steps.Wanted([1.0, 1.0], 1.0, 1.0, True, 8)
    made = steps.measure(Client([server.url]), what, [ROW], asked)
    assert next(made)["codes"] == {"500": 1}
    monkeypatch.setattr(steps, "PATIENCE", 0.0)
    with pytest.raises(ValueError, match="of job demo is not answered: 500"):
        next(made)


def test_tls_is_verified(tmp_path: Path, serving: Callable[[Reply], Server], monkeypatch: pytest.MonkeyPatch) -> None:
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    files = ["-keyout", f"{tmp_path}/key", "-out", f"{tmp_path}/certificate"]
    subprocess.run([*words.split(), *files], check=True, capture_output=True)
    server = serving(fine)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    url = server.url.replace("http", "https")
    with pytest.raises(ValueError, match=r"its certificate is not trusted \(self.signed certificate\): SSL_CERT_FILE="):
        served.look(Client([url]), "")
    monkeypatch.setenv("SSL_CERT_FILE", f"{tmp_path}/certificate")
    client = Client([url], key="secret")
    assert served.look(client, "").about["instances"] == 2
    assert {request.answer.code for request in loaded(client, [0.0, 0.1]).requests} == {"200"}
    assert server.keys == {"Bearer secret"}


def event(**fields: Any) -> str:
    return f"data: {json.dumps(fields)}\n\n"


def test_a_decoder_streams(serving: Callable[[Reply], Server], tmp_path: Path) -> None:
    """Tokens come every 0.1 s, the first one after 0.3 s; every fourth stream breaks off after the first ones."""

    def stream(handler: Handler, number: int) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream; charset=utf-8")
        handler.send_header("Connection", "close")
        handler.end_headers()
        time.sleep(0.2)
        for _token in range(3):
            time.sleep(0.1)
            handler.wfile.write(event(choices=[{"text": "a"}], usage=None).encode())
        if number < 4 or number % 4 != 3:
            handler.wfile.write((event(choices=[], usage={"completion_tokens": 3}) + "data: [DONE]\n\n").encode())

    server = serving(stream)
    server.paths = {"/v1/models": {"data": [{"id": "chat"}, {"id": "other"}]}}
    with pytest.raises(ValueError, match=r"load_model: .* serves several models: name one of chat, other"):
        served.look(Client([f"{server.url}/v1"]), "")
    client = Client([f"{server.url}/v1"])
    what = served.look(client, "chat")
    (tmp_path / "rows.jsonl").write_text('{"id": 1, "text": "Hello"}\n')
    bodies = served.bodies(what, str(tmp_path / "rows.jsonl"), 8)
    (step,) = steps.measure(client, what, bodies, wanted(rates=[4.0], seconds=2.0, limit=10))
    assert server.asked[0]["prompt"] == "Hello"
    assert (server.asked[0]["model"], server.asked[0]["max_tokens"]) == ("chat", 8)
    assert step["codes"] == {"200": 6, "broken stream": 2}
    assert step["instances"] == [None, None]
    first, whole = step["first_token_seconds"]["p50"], step["latency_seconds"]["p50"]
    assert 1.3 < whole / first < 2.0, "0.5 s and 0.3 s"
    assert step["seconds_per_token"]["p50"] == pytest.approx((whole - first) / 2, rel=0.3)
    assert step["tokens_per_second"] == pytest.approx(18 / step["seconds"])


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ("data: [1]\n\n", "broken stream"),
        (event(error={"message": "out of memory"}), "broken stream"),
        (event(error=None, choices=[{"text": "a"}], usage={"completion_tokens": None}), "200"),
        (event(choices=[{"text": "a"}], usage=3), "200"),
    ],
)
def test_events_of_any_form_are_an_outcome(serving: Callable[[Reply], Server], sent: str, code: str) -> None:
    def stream(handler: Handler, _number: int) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(f"{sent}data: [DONE]\n\n".encode())

    assert Client([serving(stream).url]).post(0, "/v1/completions", b"{}").code == code


def test_addresses_are_asked_in_turn_and_instances_are_counted(serving: Callable[[Reply], Server]) -> None:
    first, second = serving(fine), serving(fine)
    up = 'haproxy_backend_active_servers{proxy="all"} 5\nhaproxy_backend_active_servers{proxy="local"} %d\n'
    first.paths["/metrics"], second.paths["/metrics"] = up % 2, up % 1
    client = Client([first.url, second.url])
    what = served.look(client, "")
    assert (what.path, what.columns) == ("/predict", ["text"])
    loaded(client, [0.0, 0.01, 0.02, 0.03])
    assert [len(server.asked) for server in (first, second)] == [2, 2]
    assert served.instances(client, what) == 3
    second.paths = {}
    first.paths = {"/": ABOUT}
    assert served.instances(client, what) is None, "the second one does not say it"
    assert served.instances(Client([first.url]), what) == 2, "without HAProxy"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rates": "1,0"}, "rates: 0 is not a number above 0"),
        ({"rates": "fast"}, "rates: fast is not"),
        ({"duration": "-1"}, "duration: -1 is not"),
        ({"p99_ms": "inf"}, "p99_ms: inf is not"),
    ],
)
def test_options(options: dict[str, str], message: str) -> None:
    given = {"rates": "", "duration": "", "p99_ms": "", "even": False, "tokens": "", **options}
    with pytest.raises(ValueError, match=message):
        steps.read(given)


def test_what_cannot_be_asked(serving: Callable[[Reply], Server], tmp_path: Path) -> None:
    def refusal(call: Callable[..., Any], *arguments: Any) -> str:
        with pytest.raises(ValueError) as raised:
            call(*arguments)
        return str(raised.value)

    assert refusal(Client, ["host:8000"]) == "host:8000 is no URL such as http://HOST:8000"
    assert "me:secret" not in refusal(Client, ["http://me:secret@host"])
    server = serving(lambda handler, _number: handler.answer(422, '{"error": "row 0 has no text"}'))
    server.paths["/"] = None
    assert "it lists no model" in refusal(served.look, Client([server.url]), "")
    server.server_close()
    assert refusal(served.look, Client([server.url]), "") == f"{server.url}: Connection refused"
    what = served.Served("job demo", "/predict", ["text"])
    rows = tmp_path / "rows.csv"
    rows.write_text("id,sentence\n1,a\n")
    assert refusal(served.bodies, what, str(rows), 8) == (
        f"rows: {rows}, row 1 (line 2) has no column text, which job demo reads; it has id, sentence"
    )
    (tmp_path / "keys").write_text("# mine\nsecret key\n")
    assert "there is no key of ASCII without blanks" in refusal(served.key_of, str(tmp_path / "keys"))
    (tmp_path / "keys").write_text("# mine\n\nsecret\nother\n")
    assert served.key_of(str(tmp_path / "keys")) == "secret"


def searched(first: float, most: float, late: float = 1e9) -> list[float]:
    search = steps.searched(first)
    rates = [next(search)]
    while True:
        state = "not measured" if rates[-1] > late else "measured"
        try:
            rates.append(search.send({"state": state, "held": rates[-1] <= most}))
        except StopIteration:
            return rates


def test_the_search_for_the_highest_rate() -> None:
    rates = searched(1, 13)
    assert rates == [1, 2, 4, 8, 16, 11, 13, 14]
    assert searched(1, 13, late=3) == [1, 2, 4, 8, 16, 16], "where the generator is the limit"
    assert searched(8, 2.2) == [8, 4, 2, 2.8, 2.4]
    assert searched(8, 0.1) == [8, 4, 2, 1], "none is"


def test_arrivals() -> None:
    even = open_loop.arrivals(10, 2, even=True)
    assert even == [number / 10 for number in range(20)]
    chance = open_loop.arrivals(100, 20, even=False)
    assert chance == open_loop.arrivals(100, 20, even=False) == sorted(chance)
    assert len(chance) == 2000
    gaps = [after - before for before, after in zip(chance, chance[1:])]
    assert sum(gap > 0.01 for gap in gaps) / len(gaps) == pytest.approx(2.718**-1, abs=0.04), "exponential"
    assert len(open_loop.arrivals(0.01, 1, even=False)) == 1


def test_runs_are_kept_from_their_first_step_on(tmp_path: Path) -> None:
    what = served.Served("job demo", "/predict", ["text"], ABOUT)
    step = {"rate": 2.0, "held": True, "instances": [2, 2], "latency_seconds": {"p99": 0.5}, "state": "measured"}
    for number in (1, 2):
        kept = results.Results(tmp_path / "demo-load", "demo")
        kept.begin(["http://a"], what, wanted(), "")
        with pytest.raises(ValueError, match="another run of it is under way"):
            results.Results(tmp_path / "demo-load", "demo").begin(["http://a"], what, wanted(), "")
        kept.add(step)
        runs = json.loads((tmp_path / "demo-load/load.json").read_text())["runs"]
        assert [len(runs), runs[-1]["state"], runs[-1]["steps"]] == [number, "incomplete", [step]]
        kept.end()
    assert results.sentence(kept.run) == (
        "2 instances of demo hold 2 requests/s: 99 % of the answers come within 1 s (p99 0.500 s)."
    )
    kept.run["steps"] += [{**step, "rate": rate, "held": False, "state": "not measured"} for rate in (1.0, 9.0, 8.0)]
    assert results.sentence(kept.run).endswith(" (p99 0.500 s). This machine cannot send 8 in time.")
    (tmp_path / "demo-load/load.json").write_text("{")
    with pytest.raises(ValueError, match="is no JSON: move it away"):
        results.Results(tmp_path / "demo-load", "demo")
    for other in ({"version": 1}, {"version": 1, "runs": {}}, {"version": 99, "runs": []}, {}):
        (tmp_path / "demo-load/load.json").write_text(json.dumps(other))
        with pytest.raises(ValueError, match="is not what this version of the collection writes"):
            results.Results(tmp_path / "demo-load", "demo")
