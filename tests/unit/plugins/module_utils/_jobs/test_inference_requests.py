"""Requests to the programs of inference: what a rank reads of job.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import inference_requests
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import Benchmark, Prediction, Serving
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import JobFileError, parse
from support.checkout import ROOT

SERVING = Serving({"task": "text-classification"}, [], ["text"], "", 8000, {"hung": 3.0}, 8, ["AB"], "/c.pem", "1f")
JOB = {
    "name": "csv-serve",
    "kind": "ranks",
    "launcher": "instances",
    "script": str(inference_requests.SERVER),
    "request": SERVING.to_json(),
}


def test_a_rank_reads_what_the_job_file_requests(tmp_path: Path) -> None:
    job = parse(JOB, tmp_path / "job.yml")
    (tmp_path / "job.json").write_text(json.dumps({"job": job.to_json()}))
    assert Serving.from_json(inference_requests.of_job(tmp_path)) == SERVING
    assert Job.from_json(job.to_json()) == job
    assert inference_requests.of_job(tmp_path / "none") == {}


def test_a_request_that_is_not_complete_is_refused() -> None:
    with pytest.raises(ValueError, match=r"this is no prediction: it lacks .*hosts"):
        Prediction.from_json({**vars(SERVING), "data": "rows.csv", "predicted": [], "chunk_rows": 16, "cell": None})
    with pytest.raises(ValueError, match="this is no benchmark: it lacks cells"):
        Benchmark.from_json({})


@pytest.mark.parametrize("cells", [[{}], [{"id": "a"}, {"id": "a"}]])
def test_cells_have_ids_of_their_own(cells: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match=r"^each cell of the request needs an `id` of its own$"):
        Benchmark.from_json({"cells": cells})


def test_only_programs_of_the_collection_have_requests(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    with pytest.raises(JobFileError, match="request: is for programs of the collection: pass args to a script"):
        parse({**JOB, "script": "train.py"}, tmp_path / "job.yml")
    with pytest.raises(JobFileError, match=r"script: there is no file .*shards.py"):
        parse({**JOB, "script": str(inference_requests.PROGRAMS / "shards.py")}, tmp_path / "job.yml")


def test_the_programs_are_there() -> None:
    programs = inference_requests
    for path in (programs.BENCHMARK, programs.PREDICTION, programs.SERVER, programs.QUANTIZE):
        assert (ROOT / path).is_file()
