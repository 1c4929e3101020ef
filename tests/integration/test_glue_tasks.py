"""Tasks of GLUE in a job directory: what run_glue.py loads by name, offline, by the stack's datasets and evaluate.

The script itself is in transformers' repository, not in its wheel; molecule/jobs runs it where a checkout is named.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, provided
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import load
from support.checkout import ROOT

MAKE = """
import sys
from pathlib import Path
import published
folder = Path(sys.argv[1])
published.write_glue(folder / "datasets/glue", ("mrpc", "sst2", "mnli"), 0.01)
for name in published.METRICS:
    published.write_metric(folder / "metrics" / name, name)
"""
# What run_glue.py of transformers 4.40 and newer does with task_name.
LOAD = """
import json, sys
import evaluate
from datasets import load_dataset
task = sys.argv[1]
sets = load_dataset("nyu-mll/glue", task, cache_dir=None, token=None)
score = evaluate.load("glue", task).compute(predictions=[0, 1], references=[0, 0])
print(json.dumps({"splits": list(sets), "columns": sets["train"].column_names, "score": score}))
"""
COLUMNS = {
    "mrpc": ["sentence1", "sentence2", "label", "idx"],
    "sst2": ["sentence", "label", "idx"],
    "mnli": ["premise", "hypothesis", "label", "idx"],
}


def test_every_task_is_a_parameter_away(tmp_path: Path) -> None:
    python = f"{os.environ.get('AMX_CLUSTER_ENV') or ROOT / '.cluster/env'}/bin/python"
    environ = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home"), "CUDA_VISIBLE_DEVICES": ""}
    cache = tmp_path / "cache"
    support = {**environ, "PYTHONPATH": str(ROOT / "tests/support")}
    subprocess.run([python, "-c", MAKE, str(cache)], env=support, check=True, capture_output=True)
    job = load(ROOT / "jobs/mrpc-bert.yml", {"args": {"task_name": "sst2"}}).to_json()
    cached = {name: str(cache / name) for field in ("data", "metrics") for name in provided.sources(job, field)}
    made = tmp_path / "jobs/mine"
    made.parent.mkdir()
    directory.create(made, {}, provided.links(job, cached, {}))
    for task, columns in COLUMNS.items():
        ran = subprocess.run(
            [python, "-c", LOAD, task], cwd=made, env=environ, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        loaded = json.loads(ran.stdout.splitlines()[-1])
        assert loaded["columns"] == columns
        assert ("validation_matched" in loaded["splits"]) == (task == "mnli")
        assert loaded["score"] == {"accuracy": 0.5}
