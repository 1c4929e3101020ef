"""The network is measured: two ranks of this machine by the playbook, and three that pose as hosts by its script."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory
from support import checkout, playbooks, runtimes
from support.at_length import only_at_length
from support.local_cluster import installed_here

OPERATIONS = {"all_reduce", "broadcast", "reduce", "reduce_scatter", "all_gather", "all_to_all"}
HERE = [f"{checkout.ROOT}/roles/network/files/measure_network.py", f"{checkout.ROOT}/plugins/module_utils"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, environment: Path) -> Path:
    """A directory with an inventory of this machine and the file of a job with two ranks."""
    folder = tmp_path_factory.mktemp("cluster")
    installed_here(folder)
    (folder / "two.py").touch()
    job = {"name": "two", "script": "two.py", "kind": "torch", "ranks_per_node": 2, "reserved_cores": 0}
    (folder / "two.yml").write_text(yaml.safe_dump(job))
    return folder


def play(folder: Path, *settings: str) -> subprocess.CompletedProcess[str]:
    words = [word for setting in settings for word in ("-e", setting)]
    return playbooks.play(folder, checkout.ROOT / "playbooks/network.yml", *words)


def test_two_ranks_of_one_host(cluster: Path) -> None:
    own = [cluster / "prefix/jobs" / name for name in ("network", "network-imb", "verify")]
    for path in own:
        directory.create(path, {"job.json": "{}"}, {})
        (path / "log").write_text("of a job of this name")
    done = play(cluster, "job=two.yml", "minutes=0.05", "largest=1MB", "parameters=1M", "step_compute_seconds=1")
    assert done.returncode == 0, done.stdout[-8000:]
    assert "There is one host: " in done.stdout
    assert "changed=0" in done.stdout
    network = json.loads((cluster / "results/network/network.json").read_text())
    assert (network["version"], network["job"], network["pairs"], network["findings"]) == (1, "two", [], [])
    rows = {(row["tool"], row["backend"], row["operation"]) for row in network["collectives"]}
    assert rows == {(*tool, operation) for tool in (("torch", "mpi"), ("imb", "mpi")) for operation in OPERATIONS}
    assert all(0 <= row["low"] <= row["microseconds"] <= row["high"] for row in network["collectives"])
    assert {row["ranks"] for row in network["collectives"]} == {2}
    reduced = [row["bytes"] for row in network["collectives"] if row["operation"] == "all_reduce"]
    assert reduced == [4096, 65536, 1 << 20] * 2
    assert network["prediction"]["bytes"] == 4_000_000
    assert 0 < network["prediction"]["share"] < 1
    assert network["started"] <= network["ended"]
    assert {path: (path / "log").read_text() for path in own} == dict.fromkeys(own, "of a job of this name")
    assert {path.name for path in (cluster / "prefix/jobs").glob("[!.]*")} == {
        *("+network", "+network-imb", "network", "network-imb", "verify")
    }


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("largest=1GB", "largest: 1GB is not a size"),
        ("model=nobody/knows", "model: nobody/knows is neither a directory"),
    ],
)
def test_refused_before_a_host_is_contacted(cluster: Path, setting: str, message: str) -> None:
    done = play(cluster, "job=two.yml", setting)
    assert done.returncode == 2
    assert message in " ".join(done.stdout.split())
    assert "Gather facts about hardware" not in done.stdout


def as_hosts(environment: Path, folder: Path, ranks: int, backend: str, *, mpi: bool) -> Mapping[str, Any]:
    """Run the script with ranks that pose as hosts, started by mpirun or as a launcher without MPI does."""
    (folder / "plan.json").write_text(json.dumps({"backend": backend}))
    names = {"RANK": "$PMI_RANK", "WORLD_SIZE": "$PMI_SIZE", "LOCAL_RANK": "$MPI_LOCALRANKID"}
    names |= {"LOCAL_WORLD_SIZE": "1", "AMX_CLUSTER_HOST": "node$PMI_RANK"}
    become = "export " + " ".join(f"{name}={value}" for name, value in names.items())
    forget = "" if mpi else "unset PMI_SIZE; "
    start = "import sys, runpy; sys.argv = sys.argv[1:]; "
    start += "import amx_cluster_mpi; " if backend == "mpi" else ""
    start += "runpy.run_module('amx_cluster.network.measure_network', run_name='__main__')"
    done = subprocess.run(
        [
            *(f"{environment}/bin/mpirun", "-n", str(ranks), "bash", "-c", f'{become}; {forget}exec "$@"', "rank"),
            *(f"{environment}/bin/python", "-c", start, "measure_network.py", "--largest", "65536", "--seconds", "1"),
        ],
        cwd=folder,
        env={
            "PATH": f"{environment}/bin:/usr/bin:/bin",
            "HOME": str(folder),
            "I_MPI_ROOT": str(environment),
            "I_MPI_PIN": "0",
            "LD_LIBRARY_PATH": f"{environment}/lib",
            "FI_PROVIDER_PATH": f"{environment}/lib",
            "FI_PROVIDER": "tcp",
            "PYTHONPATH": str(runtimes.installed()),
            "OMP_NUM_THREADS": "1",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29711" if mpi else "29712",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    found: dict[str, Any] = json.loads((folder / "output/measured.json").read_text())
    return found


@pytest.mark.parametrize(
    ("backend", "mpi", "transport"),
    [
        ("mpi", True, "mpi"),
        pytest.param("gloo", False, "gloo", marks=only_at_length("pairs and collectives are counted as with mpi")),
    ],
)
def test_every_pair_of_three(environment: Path, tmp_path: Path, backend: str, mpi: bool, transport: str) -> None:
    found = as_hosts(environment, tmp_path, 3, backend, mpi=mpi)
    assert found["transport"] == transport
    pairs = sorted(pair["hosts"] for pair in found["pairs"])
    assert pairs == [["node0", "node1"], ["node0", "node2"], ["node1", "node2"]]
    for pair in found["pairs"]:
        assert pair["state"] == "measured", pair["reason"]
        assert pair["latency_us"] > 0
        assert pair["bandwidth_mbyte_s"] > 0
    assert {row["operation"] for row in found["collectives"]} == OPERATIONS
    if mpi:
        assert found["imb"]["sizes"] == [4096, 65536]
    else:
        assert found["imb"] == {"reason": "the job's ranks were not started by mpirun"}
        assert any(line.startswith("pairs over MPI: ") for line in found["left_out"])
