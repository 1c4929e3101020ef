from __future__ import annotations

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs.requests import submitted
from support.runs import run


def test_the_same_job_file_is_submitted() -> None:
    assert submitted(run().job, {}).launcher == "slurm"
    assert submitted(run(launcher="slurm").job, {"partition": "cpu"}).launcher == "slurm"
    assert submitted(run(launcher="kubernetes").job, {}).launcher == "kubernetes"
    assert submitted(run().job, None).launcher == "mpirun"


def test_launchers_that_an_inventory_does_not_have() -> None:
    with pytest.raises(
        ValueError, match=r"^launcher: slurm in /somewhere/demo.yml needs cluster_slurm in the inventory"
    ):
        submitted(run(launcher="slurm").job, None)
    with pytest.raises(ValueError, match=r"^launcher: torchrun in /somewhere/demo.yml starts ranks by SSH"):
        submitted(run(launcher="torchrun").job, {})
