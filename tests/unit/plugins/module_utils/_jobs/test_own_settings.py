from __future__ import annotations

from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import own_settings
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Checkpoints
from support.runs import run

STATUS = {"ranks": 4, "accumulation": 2, "per_device": 8}
AS_PLANNED = {"global_batch": 64, "precision": "bf16", "checkpoints": 10}


def note(seen: dict[str, Any], status: dict[str, Any] = STATUS, **job: Any) -> str:
    fields = {"kind": "trainer", "checkpoints": Checkpoints(10, 2), **job}
    return own_settings.note({"settings": {**AS_PLANNED, **seen}}, run(**fields).job, status, "bf16")


def test_nothing_is_noted_of_a_script_that_reads_its_arguments() -> None:
    assert note({}) == own_settings.note({}, run().job, STATUS, "bf16") == ""
    assert note({"checkpoints": 500}, checkpoints=None) == ""
    assert note({"global_batch": 7}, {**STATUS, "per_device": 0}) == "", "what the job does not set"
    assert note({"global_batch": None}) == "", "a size that the Trainer finds"
    assert note({"precision": "fp32"}, args={"bf16": False}) == ""
    assert note({"precision": "fp32"}, kind="torch") == ""
    assert note({"precision": None}) == "", "fp16, which CPUs do not train in"


def test_settings_of_the_script_are_named_with_those_of_the_job() -> None:
    said = note({"global_batch": 16, "precision": "fp32", "checkpoints": 0})
    assert said.startswith(
        "the script trained with a global batch of 16 samples and not 64, fp32 and not bf16, no checkpoint each 10 "
        "steps: it sets these itself."
    )
    assert "a checkpoint each 500 steps and not 10:" in note({"checkpoints": 500})
