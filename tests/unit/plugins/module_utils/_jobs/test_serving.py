"""A served model as a job: what is refused, what tells two servers apart, and what a person is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import job_file, predictions, progress, serving
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import (
    INT8,
    PREDICTION,
    SERVER,
    Serving,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.servers import front, states
from ansible_collections.amx.cluster.plugins.module_utils._screen import Screen

CONFIG = {"architectures": ["DistilBertForSequenceClassification"]}
MODEL = {"config": CONFIG, "args": {}, "trained_on": ["text", "label"], "sha256": "1234", "directory": "/m"}


def request(setting: dict[str, Any] | None = None, model: dict[str, Any] = MODEL, **options: Any) -> Serving:
    cell = predictions.cell(setting or {}, "text-classification", "job csv", model["args"], model["config"])
    given = {"columns": [], "hosts": ["node0"], "override": {}, **options}
    names = ("columns", "hosts", "override")
    interface = {"address": "", "port": 8000, **{name: options[name] for name in options if name not in names}}
    return serving.request(cell, model, given["columns"], given["hosts"], interface, given["override"])


@pytest.mark.parametrize("given", ["80", "65536", "http", "-1", "8000.5", 0.5])
def test_ports_that_are_none(given: object) -> None:
    with pytest.raises(ValueError, match=f"serve_port: {given} is not a port from 1024 to 65535"):
        serving.read_port(given)


def test_ports_and_addresses() -> None:
    assert [serving.read_port(given) for given in (None, "", 9000, "9000")] == [8000, 8000, 9000, 9000]
    assert [serving.read_address(given) for given in ("", "0.0.0.0", "fd00::1")] == ["", "0.0.0.0", "fd00::1"]
    with pytest.raises(ValueError, match="serve_address: 'node0' is no IP address"):
        serving.read_address("node0")


def test_two_servers_are_told_apart() -> None:
    digests = [
        request().digest,
        request({"batch_size": 2}).digest,
        request(columns=["body"]).digest,
        request(port=8001).digest,
        request(hosts=["node0", "node1"]).digest,
        request(address="0.0.0.0").digest,
        request(cores=8).digest,
        request(override={"ranks_per_node": 2}).digest,
        request(keys=["AB"]).digest,
        request(certificate="/c.pem").digest,
        request(model={**MODEL, "sha256": "5678"}).digest,
    ]
    assert len(set(digests)) == len(digests)
    assert request().digest == digests[0]


def test_columns_are_those_of_the_training() -> None:
    assert request().columns == []
    assert request().trained_on == ["text", "label"]
    assert request(model={**MODEL, "args": {"text_column_name": "body"}}).columns == ["body"]
    assert request(columns=["mail"], model={**MODEL, "args": {"text_column_name": "body"}}).columns == ["mail"]


def test_vllm_serves_decoders_alone() -> None:
    assert serving.read_engine("vllm", "/opt/vllm") == ("vllm", "/opt/vllm")
    assert serving.read_engine("vllm", "") == ("vllm", "")  # that of the stack
    for engine, environment, message in (
        ("tgi", "", "serve_engine: tgi is not one of amx, vllm"),
        ("vllm", "vllm", "serve_environment: vllm is not the absolute path of an environment"),
        ("amx", "/opt/vllm", "serve_environment: is for serve_engine: vllm"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            serving.read_engine(engine, environment)
    with pytest.raises(
        ValueError, match=r"^serve_engine: vllm serves decoders .* and job csv does text-classification"
    ):
        request(engine="vllm", environment="/opt/vllm")


def test_static_int8_needs_its_ranges() -> None:
    setting = {"precision": "int8", "int8": "static"}
    with pytest.raises(ValueError, match="static int8 needs rows from which"):
        request(setting)
    saved = {**MODEL, "config": {**CONFIG, INT8: {"inputs": "static"}}}
    assert request(setting, saved).cell["int8"] == "static"


def test_its_job_is_a_job(tmp_path: Path) -> None:
    made = serving.job_fields("csv-serve", request(), {"directory": "/m", "at": "head"}, {}, ["node0"])
    (tmp_path / "job.yml").write_text(json.dumps(made))
    loaded = job_file.load(tmp_path / "job.yml")
    assert (loaded.kind, loaded.launcher, loaded.hosts) == ("ranks", "instances", ["node0"])
    assert Serving.from_json(loaded.request) == request()


def status(*states: str, front: bool = True) -> dict[str, Any]:
    return {"state": "running", "front": front, "instances": [{"state": state} for state in states]}


def test_it_is_ready_when_all_instances_are() -> None:
    assert states.is_ready(status("ready", "ready"))
    assert not states.is_ready(status("ready", "starting"))
    assert states.is_ready(status())  # of a head that only accepts requests
    assert not states.is_ready({**status(), "reason": "HAProxy does not answer"})


def test_only_the_server_has_its_launcher(tmp_path: Path) -> None:
    for fields in ({"launcher": "instances"}, {"script": str(SERVER)}):
        made = {"name": "mine", "kind": "ranks", "script": str(PREDICTION), "request": {"a": 1}, **fields}
        with pytest.raises(job_file.JobFileError, match=r"instances is for playbooks/serve\.yml"):
            job_file.parse(made, tmp_path / "job.yml")


def test_keys_and_certificate(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("0123456789abcdef0\n")
    given = dict.fromkeys(("serve_address", "serve_port", "serve_limits", "serve_cores", "serve_certificate"), "")
    given |= dict.fromkeys(("serve_engine", "serve_environment"), "")
    read = serving.read_options({**given, "serve_key_file": str(tmp_path / "keys")})
    assert read == {
        "address": "",
        "port": 8000,
        "limits": {},
        "cores": 0,
        "keys": [front.hashed("0123456789abcdef0")],
        "certificate": "",
        "engine": "amx",
        "environment": "",
    }
    with pytest.raises(ValueError, match=r"^serve_key_file: .*/none: No such file or directory$"):
        serving.read_options({**given, "serve_key_file": str(tmp_path / "none")})
    with pytest.raises(ValueError, match=r"^serve_certificate: c.pem is not the absolute path"):
        serving.read_options({**given, "serve_key_file": "", "serve_certificate": "c.pem"})
    with pytest.raises(ValueError, match=r"^serve_cores: half is no number of cores, such as 8$"):
        serving.read_options({**given, "serve_key_file": "", "serve_cores": "half"})


def test_how_far_it_is() -> None:
    served = {"rows": 2, "of": None, "first": 0, "began": 1.0, "time": 9.0}
    so_far = progress.of_rows({"0": {"rows": served}, "1": {"rows": {**served, "rows": 1}}})
    assert progress.describe(so_far) == "serving, 3 rows so far"
    assert progress.left(so_far) == ""
    assert progress.line("csv-serve", so_far, None, Screen(columns=80)) == "csv-serve  serving, 3 rows so far"


def test_what_a_person_is_told() -> None:
    urls = serving.urls({"node0": "10.0.0.1", "node10": "fd00::2"}, "", 8000)
    assert urls == {"node0": "http://10.0.0.1:8000", "node10": "http://[fd00::2]:8000"}
    assert serving.urls({"node0": "10.0.0.1"}, "0.0.0.0", 80) == {"node0": "http://10.0.0.1:80"}
    assert serving.urls({"node0": "10.0.0.1"}, "192.0.2.1", 80) == {"node0": "http://192.0.2.1:80"}
    assert serving.urls({"node0": "10.0.0.1"}, "", 80, "/c.pem") == {"node0": "https://10.0.0.1:80"}
    hosts = {"node0": status("ready", "ready"), "node10": status("ready", "ended")}
    served = serving.served("csv-serve", request(), urls, hosts)
    assert (served["instances"], served["urls"], served["columns"], served["key"]) == (3, urls, ["text"], False)
    assert served["hosts"]["node10"] == {
        "instances": 2,
        "answering": 1,
        "front": True,
        "state": "running",
        "reason": "",
    }
    assert serving.text(served).splitlines() == [
        "job csv (text-classification, fp32) is served by 3 instances:",
        "  node0   http://10.0.0.1:8000",
        "  node10  http://[fd00::2]:8000  (1 of 2 do not answer)",
        "Whoever reaches these addresses can use it: --serve-key-file FILE asks for a key.",
        'Ask it:   curl -s http://10.0.0.1:8000/predict -d \'{"text": "..."}\'',
        "Stop it:  playbooks/stop.yml -e job=csv-serve",
    ]
    embedder = {**served, "task": "feature-extraction", "model": "/models/minilm"}
    assert 'v1/embeddings -H \'Content-Type: application/json\' -d \'{"model": "minilm", "input": "..."}\'' in (
        serving.text(embedder)
    )
    with_key = serving.served("csv-serve", request(keys=["AB"]), urls, hosts)
    assert "/predict -H 'Authorization: Bearer KEY' -d" in serving.text(with_key)
    without = serving.text(serving.served("csv-serve", request(), urls, {"node0": status("ready", front=False)}))
    assert "Without HAProxy on node0: each host answers with its own instances alone" in without


@pytest.mark.parametrize(
    "given", [{"health": 0}, {"hung": "soon"}, {"helth": 3}, {"request": "nan"}, {"request": "inf"}]
)
def test_limits_that_are_none(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"^serve_limits: .* is not seconds above 0 for health, hung, request, load$"):
        serving.read_limits(given)


def test_limits() -> None:
    assert serving.read_limits({"health": "10", "hung": 60}) == {"health": 10.0, "hung": 60.0}
