from __future__ import annotations

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import fabrics
from ansible_collections.amx.cluster.plugins.module_utils._stacks import intel_mpi, libfabric


def test_tcp_has_no_variables_of_its_own() -> None:
    assert intel_mpi.fabric_environment("tcp", "mpi") == {}
    assert intel_mpi.fabric_environment("tcp", "ccl") == {}


@pytest.mark.parametrize("fabric", fabrics.FABRICS)
def test_variables_of_every_fabric(fabric: str) -> None:
    variables = intel_mpi.fabric_environment(fabric, "mpi")
    assert variables["FI_PROVIDER"] == variables["I_MPI_OFI_PROVIDER"] == fabric
    assert variables["I_MPI_FABRICS"] == "shm:ofi"
    assert "I_MPI_FABRICS" not in intel_mpi.fabric_environment(fabric, "ccl")
    # As libfabric was asked for it.
    assert libfabric.MORE.get(fabric, {}).items() <= variables.items()


def test_fabrics_that_data_loaders_would_break() -> None:
    assert intel_mpi.fabric_environment("efa", "mpi")["FI_EFA_FORK_SAFE"] == "1"
    assert intel_mpi.fabric_environment("verbs", "mpi")["IBV_FORK_SAFE"] == "1"
