"""The JSON Schema of job files accepts the jobs of this checkout, and what the code accepts.

That it refuses what the code refuses is in the tests of the code.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import job_schema
import jsonschema
import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import FIELDS, parse
from support.checkout import ROOT, tracked

JOBS = tracked("jobs/*.yml", "molecule/*/jobs/*.yml", "roles/job/files/defaults.yml")
VALIDATOR = jsonschema.Draft202012Validator(job_schema.schema())


def errors(job: Any) -> list[str]:
    """The messages of the validator."""
    return [error.message for error in VALIDATOR.iter_errors(job)]


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(job_schema.schema())
    assert json.loads(job_schema.text()) == job_schema.schema()


def test_it_has_every_field_with_a_description() -> None:
    properties = job_schema.schema()["properties"]
    assert set(properties) == {*FIELDS, "trainer"}
    assert [name for name, form in properties.items() if not form["description"]] == []


@pytest.mark.parametrize("name", JOBS)
def test_a_job_of_this_checkout(name: str) -> None:
    assert errors(yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("name", [name for name in JOBS if name.startswith("jobs/")])
def test_a_shipped_job_names_the_schema(name: str) -> None:
    first = (ROOT / name).read_text(encoding="utf-8").splitlines()[0]
    named = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert named
    assert ((ROOT / name).parent / named[1]).resolve() == job_schema.FILE


@pytest.mark.parametrize(
    "field",
    [
        "threads_per_core: all",
        "ranks_per_node: <=2",
        "hosts: [a, b]",
        "comm_cores: auto",
        "env: {A: 1, B: x, C: 0.5}",
        "args: {lr: 1.0e-4, flag: true, many: [1, a]}",
        "models: {a: {package: a==1, path: b}, b: {hub: x/y, files: ['*.json'], at: head}, c: {directory: .}}",
        "checkpoints: {steps: 5, keep: 1}",
        "trainer: false",
    ],
)
def test_what_the_code_accepts(field: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    job = {"name": "a", "script": "train.py", **yaml.safe_load(field)}
    parse(job, tmp_path / "job.yml")
    assert errors(job) == []


def test_required_fields() -> None:
    assert errors({}) == ["'name' is a required property", "'script' is a required property"]
    assert errors([]) == ["[] is not of type 'object'"]
    assert errors({"name": "A b", "script": "train.py"})


@pytest.mark.parametrize(
    "row",
    [
        "- `stall_seconds` (a number, default 600): seconds without",
        "- `precision` (**`auto`**, `fp32`, `bf16`, `fp16`, `int8`): ",
        "- `wait` (`true`, **`false`**): ",
        "- `hosts` (a number or a list of names, default all, on Slurm 1): ",
    ],
)
def test_the_list_of_the_docs(row: str) -> None:
    assert row in job_schema.fields()


def test_the_list_says_what_pods_do_not_have() -> None:
    (row,) = (line for line in job_schema.fields().splitlines() if line.startswith("- `env_launcher` "))
    assert row.endswith("; not on [Kubernetes](kubernetes.md)")
