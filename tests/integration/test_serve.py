"""playbooks/serve.yml on this machine, real HAProxy, torch and HTTP: asked, refused, killed, replaced."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import processes
from support import checkout, haproxy, playbooks
from support.local_cluster import installed_here
from support.served import free_ports

SERVE, STOP = checkout.ROOT / "playbooks/serve.yml", checkout.ROOT / "playbooks/stop.yml"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, environment: Path) -> Path:
    place = tmp_path_factory.mktemp("served")
    installed_here(place)
    subprocess.run(
        [
            f"{environment}/bin/python",
            "-B",
            str(checkout.ROOT / "tests/integration/inference/save_models.py"),
            str(place),
            "distilbert",
        ],
        env={**os.environ, "PYTHONPATH": checkout.importable(checkout.ROOT / "runtime")},
        check=True,
        capture_output=True,
    )
    return place


def serve(folder: Path, port: int, *options: str) -> subprocess.CompletedProcess[str]:
    request = [f"amx_model=head:{folder}/distilbert", f"amx_serve_port={port}"]
    given = [word for one in (*request, "{amx_override: {ranks_per_node: 2}}", *options) for word in ("-e", one)]
    return playbooks.play(folder, SERVE, *given)


def test_a_port_in_use(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = serve(folder, port, "amx_serve_name=other")
    assert done.returncode != 0
    assert f"port {port} of 127.0.0.1 cannot be used on " in " ".join(done.stdout.split())


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[tuple[int, str]]:
    """Return the port, and what the playbook printed."""
    haproxy.path()
    port = free_ports()
    done = serve(folder, port)
    assert done.returncode == 0, done.stdout[-8000:]
    yield port, done.stdout
    stopped = playbooks.play(folder, STOP, "-e", "amx_job=distilbert-serve")
    assert stopped.returncode == 0, stopped.stdout[-8000:]
    with pytest.raises(urllib.error.URLError):
        ask(port, "/health")


def ask(port: int, path: str, content: Any = None) -> Any:
    data = None if content is None else content if isinstance(content, bytes) else json.dumps(content).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", data, timeout=60) as answer:
        body = answer.read().decode()
    return json.loads(body) if answer.headers["content-type"] == "application/json" else body


def refused(port: int, content: Any) -> tuple[int, str]:
    with pytest.raises(urllib.error.HTTPError) as raised:
        ask(port, "/predict", content)
    return raised.value.code, json.loads(raised.value.read())["error"]


def test_it_says_where_and_how(served: tuple[int, str], folder: Path) -> None:
    port, printed = served
    assert "is served by 2 instances:" in printed
    assert f'curl -s http://127.0.0.1:{port}/predict -d \'{{"text": "..."}}\'' in printed
    assert "playbooks/stop.yml -e amx_job=distilbert-serve" in printed
    status = playbooks.play(folder, checkout.ROOT / "playbooks/status.yml", "-e", "amx_job=distilbert-serve")
    assert "2 of 2 instances on 1 host answer" in " ".join(status.stdout.split())


def test_requests(served: tuple[int, str]) -> None:
    port = served[0]
    assert ask(port, "/health") == "ok\n"
    one = ask(port, "/predict", {"text": "the cat sat", "number": 3})
    assert list(one) == ["predicted_label", "predicted_score"]
    assert ask(port, "/predict", b"\xef\xbb\xbf" + json.dumps({"text": "the cat sat"}).encode()) == one
    both = ask(port, "/predict", [{"text": "a dog ."}, {"text": "the cat sat"}])
    # Some CPUs round the products of two rows otherwise than those of one.
    assert both[1] == {**one, "predicted_score": pytest.approx(one["predicted_score"], abs=1e-5)}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _number: ask(port, "/predict", {"text": "the cat sat"}), range(40)))
    assert all(answer["predicted_label"] == one["predicted_label"] for answer in answers)
    ranks = {ask(port, "/")["rank"] for _connection in range(40)}
    assert ranks == {0, 1}  # new connections are divided among the instances


def test_refusals(served: tuple[int, str]) -> None:
    port = served[0]
    code, told = refused(port, b"{")
    assert (code, told.partition(":")[0]) == (400, "the body of the request is not JSON")
    assert refused(port, [])[0] == 422
    assert refused(port, ["text"]) == (422, 'row 0 is not an object such as {"text": "..."}')
    assert refused(port, [{"text": "a"}, {"txt": "b"}]) == (422, "row 1 has no column text")
    code, told = refused(port, {"text": 3})
    assert code == 422 and told.startswith("row 0 has 3 in the column text")
    assert refused(port, [{"text": "a"}] * 1025)[0] == 413
    with ThreadPoolExecutor(4) as pool:  # those that send too much get the answer too, also of a busy instance
        codes = list(pool.map(lambda _number: refused(port, b'"' + b"a" * (9 << 20) + b'"')[0], range(24)))
    assert set(codes) <= {413, 429}, codes
    assert ask(port, "/predict", {"text": "the cat sat"})  # it goes on


def test_connections_have_time_limits_and_are_kept(served: tuple[int, str]) -> None:
    """A balancer's idle ones outlive 5 s; those on which no head or no whole body comes are closed."""
    kept = http.client.HTTPConnection("127.0.0.1", served[0])
    slow = [socket.create_connection(("127.0.0.1", served[0])) for _number in range(2)]
    slow[0].sendall(b"GET /he")
    slow[1].sendall(b'POST /predict HTTP/1.1\r\nhost: a\r\ncontent-length: 99\r\n\r\n{"text"')
    kept.request("GET", "/health")
    assert kept.getresponse().read() == b"ok\n"
    local = kept.sock.getsockname()
    for one in slow:
        one.settimeout(60)
        assert one.recv(4096).startswith(b"HTTP/1.1 408 ")
    kept.request("GET", "/health")
    assert kept.getresponse().read() == b"ok\n"
    assert kept.sock.getsockname() == local


def test_the_same_command_again_and_another_setting(served: tuple[int, str], folder: Path) -> None:
    port = served[0]
    again = serve(folder, port, "{amx_format: json, amx_output: served.json}")
    assert again.returncode == 0, again.stdout[-8000:]
    found = json.loads((folder / "served.json").read_text())
    assert (found["instances"], found["urls"]) == (2, {"localhost": f"http://127.0.0.1:{port}"})
    other = serve(folder, port, "{amx_setting: {batch_size: 2}}")
    assert other.returncode != 0
    refused = "job distilbert-serve serves another model, with another setting or on other hosts"
    assert refused in " ".join(other.stdout.split())


def test_an_instance_that_is_killed_is_started_again(served: tuple[int, str], folder: Path) -> None:
    port, job = served[0], folder / "prefix/jobs/distilbert-serve"

    def ranks() -> set[int]:
        return {ask(port, "/")["rank"] for _request in range(20)}

    until(lambda: ranks() == {0, 1})
    killed = next(
        process["pid"]
        for process in processes.find(job)
        if process["rank"] == 1 and "-m amx_cluster.inference.server" in process["command"]
    )
    os.kill(killed, signal.SIGKILL)
    assert ranks() == {0}  # no request fails: the other one answers meanwhile
    until(lambda: ranks() == {0, 1})
    # Its memory is checked as that of one: the others have theirs already.
    again = {process["rank"]: "--again" in process["command"] for process in processes.find(job)}
    assert again == {0: False, 1: True}
    assert "instance 1 ended " in (job / "log").read_text()


def test_a_model_is_replaced_while_requests_are_answered(served: tuple[int, str], folder: Path) -> None:
    port = served[0]
    answered: list[Any] = []

    def keep_asking() -> None:
        while not done:
            answered.append(ask(port, "/predict", {"text": "the cat sat"}))

    done: list[bool] = []
    with ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(keep_asking) for _number in range(4)]
        try:
            other = serve(folder, port, "{amx_setting: {batch_size: 2}, amx_serve_replace: true}")
        finally:
            done.append(True)
        assert other.returncode == 0, other.stdout[-8000:]
        for each in asking:
            each.result()
    assert {ask(port, "/")["batch_size"] for _request in range(20)} == {2}
    assert {answer["predicted_label"] for answer in answered} == {answered[0]["predicted_label"]}


def test_load(served: tuple[int, str], folder: Path) -> None:
    load, port = checkout.ROOT / "playbooks/load.yml", served[0]
    wanted = [f"amx_server={name}" for name in ("distilbert-serve", f"http://127.0.0.1:{port}")]
    for server, name in zip(wanted, ("distilbert", f"127.0.0.1-{port}")):
        options = [
            server,
            "amx_rates=20",
            "amx_duration=3",
            "amx_p99_ms=20000",
            "amx_format=json",
            "amx_output=load.json",
        ]
        done = playbooks.play(folder, load, *(word for option in options for word in ("-e", option)))
        assert done.returncode == 0, done.stdout[-8000:]
        run = json.loads((folder / "load.json").read_text())
        assert (run["job"], run["model"], run["path"]) == (name, "distilbert", "/predict")
        (step,) = run["steps"]
        assert (step["requests"], step["codes"], step["instances"]) == (60, {"200": 60}, [2, 2])
        assert 0 < step["latency_seconds"]["p50"] <= step["latency_seconds"]["p99"]
        assert (folder / f"results/{name}-load/load.json").exists()
    (folder / "wrong.csv").write_text("id,sentence\n1,a\n")
    refused = playbooks.play(folder, load, "-e", wanted[0], "-e", "amx_rows=wrong.csv")
    assert "row 1 (line 2) has no column text" in " ".join(refused.stdout.split())
    missing = playbooks.play(folder, load, "-e", "amx_server=nobody")
    assert "no job nobody-serve was started on this cluster" in " ".join(missing.stdout.split())


def test_a_training_job_leaves_the_cores_of_a_server(served: tuple[int, str], folder: Path) -> None:
    plan = playbooks.play(folder, checkout.ROOT / "playbooks/plan.yml", "-e", f"job={checkout.ROOT}/jobs/smoke.yml")
    assert plan.returncode != 0
    assert "no core is left" in " ".join(plan.stdout.split())
    assert "used by a served model, distilbert-serve" in " ".join(plan.stdout.split())


def until(is_so: Callable[[], bool]) -> None:
    for _look in range(3000):
        if is_so():
            return
        time.sleep(0.1)
    raise AssertionError("it never came to that")
