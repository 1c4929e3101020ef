"""The inference benchmark as it runs on a host: real torch, real models (small ones), two instances at once.

How fast they are is up to the machine: nothing here says.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.at_length import only_at_length
from support.checkout import ROOT, importable

RUNTIME = {**os.environ, "PYTHONPATH": importable(ROOT / "runtime")}
RUNNER = ("-m", "amx_cluster.inference.run_benchmark")
# Seconds in which all of it has to come to its end, whatever else the machine does.
LIMIT = 600
TASKSET = shutil.which("taskset") or "taskset"
BF16 = {"avx512_bf16", "amx_bf16"} & set(Path("/proc/cpuinfo").read_text().split())
SMALL = {
    "distilbert": "text-classification",
    "bert-base": "question-answering",
    "vit-base": "image-classification",
    "resnet-50": "image-classification",
    "llama-1b": "text-generation",
}
PRECISIONS = ("fp32", "bf16", "int8")
CELL: dict[str, Any] = {
    "path": None,
    "configured": None,
    "int8": None,
    "engine": "eager",
    "channels_last": False,
    "batch_size": 2,
    "sequence_length": 16,
    "new_tokens": 3,
    "rates": [],
    "seconds": 0.2,
    "warmup": 1,
    "emulation": True,
    "evaluation": None,
}


def cell(number: int, small: str, precision: str = "fp32", **changes: Any) -> dict[str, Any]:
    own = {"id": f"c{number:02}", "model": f"{small}-small", "small": small, "task": SMALL[small]}
    return {**CELL, **own, "precision": precision, **changes}


class Instances:
    """Instances of one host in a job directory, each on a CPU of its own where there are as many."""

    def __init__(self, environment: Path, job: Path, count: int) -> None:
        self.python, self.job, self.count = f"{environment}/bin/python", job, count
        self.cpus = sorted(os.sched_getaffinity(0))
        self.processes: list[subprocess.Popen[str]] = []

    def request(self, cells: Sequence[Mapping[str, Any]], **more: object) -> None:
        (self.job / "job.json").write_text(json.dumps({"job": {"request": {"cells": list(cells), **more}}}))

    def start(self, cells: Sequence[Mapping[str, Any]], env: Mapping[str, str] | None = None) -> None:
        self.request(cells, limit_seconds=LIMIT)
        for rank in range(self.count):
            place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": self.count, "LOCAL_WORLD_SIZE": self.count}
            self.processes.append(
                subprocess.Popen(
                    [TASKSET, "--cpu-list", str(self.cpus[rank % len(self.cpus)]), self.python, *RUNNER],
                    env={
                        **RUNTIME,
                        **{name: str(value) for name, value in place.items()},
                        "AMX_CLUSTER_JOB": str(self.job),
                        "AMX_CLUSTER_HOST": "node0",
                        "OMP_NUM_THREADS": "1",
                        "PYTHONDONTWRITEBYTECODE": "1",
                        **(env or {}),
                    },
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )

    def end(self) -> dict[str, list[dict[str, Any]]]:
        """Return the results by cell, in the order of the ranks."""
        for process in self.processes:
            log = process.communicate(timeout=LIMIT)[0]
            assert process.returncode == 0, log
        found: dict[str, list[dict[str, Any]]] = {}
        for path in sorted((self.job / "output/inference").glob("*.json")):
            found.setdefault(path.stem.rpartition("-")[0], []).append(json.loads(path.read_text()))
        return found

    def child(self, rank: int) -> int:
        """Return the process that measures a cell for this rank, as soon as it has loaded its model."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            parent = self.processes[rank].pid
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
            if children and any((self.job / "inference/node0").glob(f"*.closed.{rank}")):
                return int(children[0])
            time.sleep(0.02)
        raise AssertionError("no process measures a cell")


def run(environment: Path, job: Path, cells: Sequence[Mapping[str, Any]], count: int = 1, **env: str) -> dict[str, Any]:
    instances = Instances(environment, job, count)
    instances.start(cells, env)
    return instances.end()


@pytest.mark.parametrize(
    "precisions",
    [
        pytest.param({"distilbert": PRECISIONS, "llama-1b": PRECISIONS}, id="two tasks in all precisions"),
        pytest.param(
            dict.fromkeys(SMALL, PRECISIONS),
            id="all tasks in all precisions",
            marks=only_at_length("beside it, two of them are measured in all precisions, and the others in fp32"),
        ),
    ],
)
def test_two_instances_measure(environment: Path, tmp_path: Path, precisions: dict[str, Sequence[str]]) -> None:
    cells: list[dict[str, Any]] = []
    for small in SMALL:
        for precision in PRECISIONS:
            if precision not in precisions.get(small, ("fp32",)):
                continue
            kind = {"int8": "static" if small == "resnet-50" else "dynamic"} if precision == "int8" else {}
            cells.append(cell(len(cells), small, precision, **kind))
    cells.append(cell(90, "distilbert", "int8", int8="static"))
    cells.append(cell(91, "distilbert", "fp32", rates=[50]))
    cells.append(cell(92, "distilbert", "bf16", engine="trace"))
    cells.append(cell(93, "resnet-50", "bf16", engine="trace", channels_last=True))
    cells.append(cell(94, "distilbert", "bf16", autocast=True))
    cells.append(cell(95, "bert-base", "bf16", task="feature-extraction"))
    cells.append(cell(96, "bert-base", "int8", int8="dynamic", task="feature-extraction"))
    cells.append(cell(97, "distilbert", "bf16", task="text-ranking"))
    results = run(environment, tmp_path, cells, count=2)
    assert set(results) == {one["id"] for one in cells}
    for one in cells:
        found = results[one["id"]]
        assert [result["rank"] for result in found] == [0, 1]
        for result in found:
            assert (result["version"], result["host"], result["cell"]) == (1, "node0", one["id"])
            assert result["state"] == "measured", (one, result["reason"])
            assert result["together"], one
            latencies = result["latencies_us"]
            assert latencies == sorted(latencies)
            assert len(latencies) == result["count"] >= 3
            assert result["samples"] == 2 * result["count"]
            assert result["throughput"]["value"] == pytest.approx(result["samples"] / result["seconds"])
            assert result["peak_memory_bytes"] > 100 << 20
            assert result["first_call_seconds"] > 0
            assert 0 <= result["overhead"] < 1
            assert (result["int8_route"] or "").startswith("oneDNN" if one["precision"] == "int8" else "")
            assert result["emulated"] == (one["precision"] == "bf16" and not BF16) or one["precision"] == "int8"
            if one["task"] == "text-generation":
                generation = result["generation"]
                assert len(generation["prefill_us"]) == result["count"]
                assert len(generation["per_token_us"]) == 2 * result["count"]
        plain = one["precision"] == "fp32" and one["engine"] == "eager"
        first, second = found
        assert second["agreement"] is None
        assert (first["agreement"] is None) == plain
        if not plain:
            assert first["agreement"]["data"] == "random inputs"
            # Batches of 2, as many as the reference answered in the seconds of the cell.
            assert first["agreement"]["samples"] in range(2, 65, 2)
            # Of another precision they are never quite the same numbers.
            assert one["task"] == "text-generation" or first["agreement"]["largest_difference"] > 0
        assert first["isa"]
    if BF16:
        # oneDNN names what multiplies bf16: avx512_core_bf16, or AMX.
        assert any(name in results["c01"][0]["isa"] for name in ("bf16", "amx"))
    assert "dynamic" in results["c02"][0]["int8_route"]
    assert "static" in results["c90"][0]["int8_route"]
    assert results["c95"][0]["agreement"]["tolerance"] == results["c97"][0]["agreement"]["tolerance"] == 0.05
    (rate,) = results["c91"][1]["open_loop"]
    assert rate["rate"] == 50
    assert rate["count"] <= rate["offered"]
    assert rate["seconds"] >= 0.2
    assert not list((tmp_path / "inference").glob("compiled.*"))


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGSEGV, marks=only_at_length("as a process that is killed by another signal")),
    ],
)
def test_a_process_that_is_killed_fails_its_cell_only(
    environment: Path, tmp_path: Path, number: signal.Signals
) -> None:
    instances = Instances(environment, tmp_path, 2)
    instances.start([cell(1, "distilbert", seconds=4, rates=[1]), cell(2, "distilbert")])
    os.kill(instances.child(0), number)
    results = instances.end()
    killed, other = results["c01"]
    assert killed["state"] == "failed"
    assert number.name in killed["reason"]
    assert other["state"] == "measured"
    assert [result["state"] for result in results["c02"]] == ["measured", "measured"]
    assert all(result["together"] for result in results["c02"])


def test_what_cannot_run_is_refused_and_the_rest_goes_on(environment: Path, tmp_path: Path) -> None:
    cells = [
        cell(1, "distilbert", task="image-classification"),
        cell(2, "distilbert", path="models/none"),
        cell(3, "distilbert", engine="compile"),
        cell(4, "distilbert", engine="ipex"),
        cell(5, "llama-1b", engine="trace"),
        cell(6, "distilbert", channels_last=True),
        cell(7, "distilbert", sequence_length=4096),
        cell(8, "resnet-50", "int8", int8="dynamic"),
        cell(12, "distilbert", "int8", int8="dynamic", engine="trace"),
        cell(13, "distilbert", "int8", autocast=True),
        cell(9, "distilbert", task="singing"),
        cell(10, "llama-1b", batch_size=10**6),
        cell(11, "distilbert"),
    ]
    results = run(environment, tmp_path, cells, count=2, PATH="/nonexistent", CXX="")
    reasons = {name: {result["reason"] for result in found} for name, found in results.items()}
    assert {result["state"] for name in reasons if name != "c11" for result in results[name]} == {"refused"}
    for name, reason in {
        "c01": "distilbert-small does text-classification, question-answering, feature-extraction, text-ranking: "
        "not image-classification",
        "c02": f"the model distilbert-small is missing: there is no directory {tmp_path}/models/none",
        "c03": "torch.compile needs a C++ compiler, and this host has none: install g++ (or set CXX)",
        "c04": "this stack has no IPEX: use a stack that has it, such as ipex-2.8",
        "c05": "a trace cannot generate text, whose cache grows with each token: use eager or compile",
        "c06": "channels_last is for image-classification, not for text-classification",
        "c07": "distilbert-small takes at most 512 tokens, and sequence_length is 4096",
        "c08": "dynamic int8 is for linear layers, and this model is made of convolutions: use static int8",
        "c12": "the packed weights of int8 are not for the engine trace: use eager for int8",
        "c13": "autocast is for bf16 and fp16, by eager or compile",
        "c11": "",
    }.items():
        assert reasons[name] == {reason}, name
    assert all("singing is not one of the tasks" in reason for reason in reasons["c09"])
    (memory,) = reasons["c10"]
    assert memory.startswith("llama-1b-small in fp32 needs about ")
    assert "for each of 2 instances, " in memory


def test_cells_after_the_deadline_are_skipped(environment: Path, tmp_path: Path) -> None:
    instances = Instances(environment, tmp_path, 1)
    instances.request([cell(1, "distilbert")], deadline=1)
    command = [instances.python, *RUNNER]
    env = {**RUNTIME, "AMX_CLUSTER_JOB": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(command, check=True, env=env, timeout=LIMIT)
    (found,) = instances.end()["c01"]
    assert (found["state"], found["reason"]) == ("skipped", "the time budget was used up before this cell")


@only_at_length("it compiles")
def test_compiled_models_answer_as_they_did(environment: Path, tmp_path: Path) -> None:
    cells = [cell(1, "distilbert", engine="compile"), cell(2, "resnet-50", engine="compile", channels_last=True)]
    for name, (found,) in run(environment, tmp_path, cells).items():
        assert found["state"] == "measured", (name, found["reason"])
        assert found["agreement"]["equal"] == 1


def test_answers_are_the_same_one_by_one_and_in_batches(environment: Path, tmp_path: Path) -> None:
    script = ROOT / "tests/integration/inference/answers.py"
    ran = subprocess.run(
        [f"{environment}/bin/python", str(script), str(tmp_path)],
        env={**RUNTIME, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    for name, column in (
        ("texts", "predicted_label"),
        ("questions", "predicted_answer"),
        ("generated", "generated_text"),
    ):
        one, batches = found[name]["one by one"], found[name]["in batches"]
        assert [row[column] for row in one] == [row[column] for row in batches], name
        scores = [row.get("predicted_score", 0) for row in batches]
        assert scores == pytest.approx([row.get("predicted_score", 0) for row in one], abs=1e-4)
    texts = found["texts"]
    assert [row["predicted_label"] for row in texts["traced"]] == [
        row["predicted_label"] for row in texts["in batches"]
    ]
    assert len({row["predicted_score"] for row in texts["in batches"]}) == len(texts["in batches"])
    questions = found["questions"]
    # Long contexts have several parts, and each answer is words of its own context.
    assert questions["entries"] == sorted(questions["entries"])
    assert questions["entries"].count(1) > 2
    assert questions["entries"].count(0) == 1
    for context, row in zip(questions["contexts"], questions["in batches"]):
        assert row["predicted_answer"]
        assert row["predicted_answer"] in context
    assert len({row["generated_text"] for row in found["generated"]["in batches"]}) > 1
    labelled = "\n".join(["text,label", *(f"{text},0" for text in ("the cat sat", "a dog ran", "what is under"))])
    (tmp_path / "validation.csv").write_text(labelled + "\n")
    own = {"path": "distilbert", "small": None, "engine": "trace", "batch_size": 3, "evaluation": "validation.csv"}
    (result,) = run(environment, tmp_path, [{**cell(1, "distilbert"), **own}])["c01"]
    assert result["state"] == "measured", result["reason"]
    assert result["new_weights"] == []
    assert result["agreement"]["data"] == "evaluation data"
    assert (result["agreement"]["equal"], result["agreement"]["samples"]) == (1, 3)
    assert found["another task"] == (
        "texts is a DistilBertForSequenceClassification, which is not a model for question-answering"
    )
    assert found["too long"] == "texts takes at most 512 tokens, and sequence_length is 9999"


ONE_LOGIT = """
import json, sys
import torch
from amx_cluster.inference import agreement

def outputs(*values):
    return [{"logits": torch.tensor([[value] for value in values])}]

reference = outputs(-2.0, -1.0, 0.01, 2.0)
cases = {
    "near": outputs(-2.03, -1.02, 0.02, 2.04),
    "a sign differs": outputs(-2.0, -1.0, -0.01, 2.0),
    "far": outputs(-2.0, -1.0, 0.01, 2.5),
    "not a number": outputs(-2.0, -1.0, 0.01, float("nan")),
}
found = {name: agreement.compare("text-classification", reference, other) for name, other in cases.items()}
found["alike"] = agreement.compare("text-classification", outputs(1.0, 1.0), outputs(1.0, 1.0))
labels = [{"logits": torch.tensor([[1.0, 2.0], [3.0, 1.0]])}]
found["labels"] = agreement.compare("text-classification", labels, labels)
print(json.dumps(found))
"""


def test_a_single_logit_is_compared_by_its_value_and_its_sign(environment: Path) -> None:
    python = [f"{environment}/bin/python", "-B", "-c", ONE_LOGIT]
    done = subprocess.run(python, env=RUNTIME, stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT)
    found = json.loads(done.stdout)
    equal = {name: (one["equal"], one["tolerance"]) for name, one in found.items()}
    assert equal == {
        "near": (1.0, 0.05),
        "a sign differs": (0.75, 0.05),
        "far": (0.75, 0.05),
        "not a number": (0.75, 0.05),
        "alike": (None, 0.05),
        "labels": (1.0, None),
    }
