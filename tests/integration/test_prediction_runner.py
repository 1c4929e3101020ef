"""Batch prediction as it runs on hosts: real torch, real (small) models, rows of all formats, rank after rank."""

from __future__ import annotations

import csv
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import known_models
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import Prediction
from support.at_length import AT_LENGTH, only_at_length
from support.checkout import ROOT, importable

# Seconds in which all of it has to come to its end, whatever else the machine does.
LIMIT = 600
HOSTS = ["node0", "node1"]
# The first is that of the test which always runs.
NAMES = ["llama-1b", "distilbert", "bert-base"]
TEXTS = ["the cat sat", "who ran under the big red mat ?", "a dog .", "where is the rug"]


@pytest.fixture(scope="module")
def models(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the models: one, or one for each task."""
    place = tmp_path_factory.mktemp("models")
    run(
        environment,
        str(ROOT / "tests/integration/inference/save_models.py"),
        str(place),
        *(NAMES if AT_LENGTH else NAMES[:1]),
    )
    return place


def run(environment: Path, *words: str, fails: bool = False, **variables: str) -> str:
    ran = subprocess.run(
        [f"{environment}/bin/python", "-B", *words],
        env={**os.environ, "PYTHONPATH": importable(ROOT / "runtime"), "OMP_NUM_THREADS": "1", **variables},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert (ran.returncode != 0) is fails, ran.stderr
    return ran.stderr if fails else ran.stdout


class Job:
    """A job directory that two hosts share, each with one rank."""

    def __init__(self, environment: Path, folder: Path, model: Path, data: Path, task: str, **cell: Any) -> None:
        self.environment, self.folder = environment, folder
        request = Prediction(
            digest="d1",
            data=str(data),
            columns=list(known_models.COLUMNS[task][0]) if task != "text-classification" else ["text"],
            predicted=list(known_models.PREDICTED[task]),
            chunk_rows=3,
            hosts=HOSTS,
            cell={
                "model": "model",
                "task": task,
                "path": str(model),
                "precision": "fp32",
                "engine": "eager",
                "batch_size": 2,
                "sequence_length": 32,
                "new_tokens": 4,
                **cell,
            },
        )
        folder.mkdir()
        plan = {"hosts": [{"host": host, "ranks": [{}]} for host in HOSTS], "environment": str(environment)}
        (folder / "plan.json").write_text(json.dumps(plan))
        (folder / "job.json").write_text(json.dumps({"job": {"request": request.to_json()}}))

    def rank(self, rank: int) -> str:
        """Run a rank to its end; return what it printed."""
        return run(
            self.environment,
            *("-m", "amx_cluster.inference.run_prediction"),
            AMX_CLUSTER_JOB=str(self.folder),
            AMX_CLUSTER_HOST=HOSTS[rank],
            RANK=str(rank),
            LOCAL_RANK="0",
        )

    def merge(self, fails: bool = False) -> str:
        return run(self.environment, "-m", "amx_cluster.inference.shards", str(self.folder), fails=fails)


@only_at_length("test_predict.py goes on with JSON lines, by the playbook; Parquet files have rejected rows")
def test_texts_in_json_lines_go_on_where_they_stopped(environment: Path, models: Path, tmp_path: Path) -> None:
    data = tmp_path / "rows.jsonl"
    texts = [TEXTS[number % 4] for number in range(20)]
    lines = [json.dumps({"number": number, "text": text}) for number, text in enumerate(texts)]
    lines[4], lines[5], lines[11] = "{", '{"number": 5}', '{"number": 11, "text": 7}'
    data.write_text("\n".join(lines))
    job = Job(environment, tmp_path / "job", models / "distilbert", data, "text-classification")
    assert "4 of 4 chunks are left" in job.rank(0)
    assert "3 of 7 chunks are missing: 1, 3, 5" in job.merge(fails=True)
    assert "3 of 3 chunks are left" in job.rank(1)
    summary = json.loads(job.merge())
    assert (summary["rows"], summary["predicted"], summary["rejected"]) == (20, 17, 3)
    assert "0 of 4 chunks are left" in job.rank(0)
    output = [json.loads(line) for line in (job.folder / "output/predictions.jsonl").read_text().splitlines()]
    assert [row["number"] for row in output] == [number for number in range(20) if number not in (4, 5, 11)]
    # One text has one label, in whatever batch it was.
    of_text = {row["text"]: row["predicted_label"] for row in output}
    assert all(row["predicted_label"] == of_text[row["text"]] for row in output)
    rejected = [
        json.loads(line) for line in (job.folder / "output/predictions.rejected.jsonl").read_text().splitlines()
    ]
    assert [row["line"] for row in rejected] == [5, 6, 12]
    assert rejected[1]["reason"] == "has no column text"
    assert rejected[2]["reason"].startswith("has 7 in the column text")


@only_at_length("traces are measured, and answer as models without one, in test_inference_runner.py")
def test_a_trace_predicts_the_same(environment: Path, models: Path, tmp_path: Path) -> None:
    """With a fixed shape for each call, as a trace needs it."""
    data = tmp_path / "rows.jsonl"
    data.write_text("\n".join(json.dumps({"text": TEXTS[number % 4]}) for number in range(20)))
    job = Job(environment, tmp_path / "job", models / "distilbert", data, "text-classification")
    job.rank(0)
    job.rank(1)
    job.merge()
    output = [json.loads(line) for line in (job.folder / "output/predictions.jsonl").read_text().splitlines()]
    traced = Job(environment, tmp_path / "traced", models / "distilbert", data, "text-classification", engine="trace")
    traced.rank(0)
    traced.rank(1)
    traced.merge()
    again = [json.loads(line) for line in (traced.folder / "output/predictions.jsonl").read_text().splitlines()]
    assert [row["predicted_label"] for row in again] == [row["predicted_label"] for row in output]


@only_at_length("answers to questions are in test_inference_runner.py, the other formats here")
def test_questions_in_csv(environment: Path, models: Path, tmp_path: Path) -> None:
    data = tmp_path / "rows.csv"
    # Contexts longer than the model reads at once.
    contexts = [" ".join([text] * repeat) for text, repeat in zip(TEXTS, (1, 9, 30, 2))]
    with data.open("w", newline="") as stream:
        csv.writer(stream).writerows(
            [("context", "question"), *((context, "where is the cat ?") for context in contexts)]
        )
    job = Job(environment, tmp_path / "job", models / "bert-base", data, "question-answering")
    job.rank(0)
    job.rank(1)
    job.merge()
    with (job.folder / "output/predictions.csv").open(newline="") as stream:
        output = list(csv.DictReader(stream))
    assert [row["context"] for row in output] == contexts
    assert all(row["predicted_answer"] in row["context"] and row["predicted_answer"] for row in output)


def test_prompts_in_parquet(environment: Path, models: Path, tmp_path: Path) -> None:
    data = tmp_path / "rows.parquet"
    columns = {"number": [0, 1, 2, 3], "prompt": [TEXTS[0], None, *TEXTS[2:]]}
    write = "import json, sys, pyarrow as a, pyarrow.parquet as p; "
    write += "p.write_table(a.table(json.loads(sys.argv[1])), sys.argv[2])"
    subprocess.run([f"{environment}/bin/python", "-c", write, json.dumps(columns), str(data)], check=True)
    job = Job(environment, tmp_path / "job", models / "llama-1b", data, "text-generation", stop_at_end=True)
    job.rank(0)
    job.rank(1)
    summary = json.loads(job.merge())
    assert (summary["predicted"], summary["rejected"]) == (3, 1)
    read = "import json, sys, pyarrow.parquet as p; print(json.dumps(p.read_table(sys.argv[1]).to_pylist()))"
    path = str(job.folder / "output/predictions.parquet")
    ran = subprocess.run([f"{environment}/bin/python", "-c", read, path], check=True, capture_output=True, text=True)
    output = json.loads(ran.stdout)
    assert [row["number"] for row in output] == [0, 2, 3]
    assert all(isinstance(row["generated_text"], str) for row in output)
    (rejected,) = (job.folder / "output/predictions.rejected.jsonl").read_text().splitlines()
    assert json.loads(rejected)["reason"] == "has no value in the column prompt"
