"""The variables of wandb: which jobs have them, and what wins over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import trackers
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job

EVERY = {"WANDB_MODE": "offline", "WANDB_DIR": "output", "WANDB_RUN_ID": "s1", "WANDB_RESUME": "allow"}


def variables(**fields: Any) -> dict[str, str]:
    return trackers.variables(Job(file=Path("a.yml"), name="a", script=Path("a.py"), **fields), "s1")


@pytest.mark.parametrize(
    "fields",
    [
        {"args": {"report_to": "wandb"}},
        {"args": {"report_to": ["tensorboard", "wandb"]}},
        {"args": {"report_to": "all"}},
        {"requirements": ["wandb==0.31.0"]},
        {"requirements": ["wandb[media]==0.31.0"]},
    ],
)
def test_jobs_that_use_it(fields: dict[str, Any]) -> None:
    assert variables(**fields) == EVERY


@pytest.mark.parametrize(
    "fields", [{}, {"args": {"report_to": "none"}}, {"requirements": ["wandb-core==1", "mlflow==3"]}]
)
def test_other_jobs(fields: dict[str, Any]) -> None:
    assert variables(**fields) == {}


def test_what_the_inventory_has_wins() -> None:
    assert "WANDB_RUN_ID" not in variables(args={"report_to": "wandb"}, env_from=["WANDB_RUN_ID"])
