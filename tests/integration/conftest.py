"""What the integration tests need from the machine they run on.

AMX_CLUSTER_ENV: a Python environment with Intel MPI (impi-rt), libiomp5 (intel-openmp) and huggingface_hub. `make
integration` has site.yml install one in .cluster/env and names that.
AMX_CLUSTER_TREES: further machines to judge, captured /sys and /proc trees: folders separated by colons, each with
`=CPUS` behind it if only those may be used.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT / "tests", ROOT / "tools", ROOT / ".collections"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from support import at_length
from support.intel_mpi import IntelMpi
from support.isolation import isolation
from support.local_cluster import LocalCluster


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Run these tests in a process namespace of their own, beside whatever other jobs there are on this machine."""
    if config.option.collectonly or not (words := isolation()):
        return None
    command = [*words, sys.executable, "-m", "pytest", *config.invocation_params.args]
    return subprocess.run(command, cwd=config.invocation_params.dir, check=False).returncode


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "at_length(reason): runs only in make test-all")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    at_length.select(config, items)


@pytest.fixture(scope="session")
def environment() -> Path:
    prefix = Path(os.environ.get("AMX_CLUSTER_ENV") or ROOT / ".cluster/env")
    if not (prefix / "bin/mpirun").exists():
        pytest.fail(f"{prefix} (AMX_CLUSTER_ENV) has no Intel MPI: run these tests with `make integration`")
    return prefix


@pytest.fixture(scope="session")
def intel_mpi(environment: Path) -> IntelMpi:
    return IntelMpi(environment)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> LocalCluster:
    """A cluster on which a job, mine, has run; for tests that only read what it has left there."""
    made = LocalCluster(tmp_path_factory.mktemp("trained"))
    job = made.write_job("mine", "import os; os.makedirs('output', exist_ok=True)")
    made.succeed("train", made.play("train", "-e", f"job={job}"))
    return made
