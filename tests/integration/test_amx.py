"""What a user sees of AMX: real runs of the playbooks, with captured machines in place of this one's CPU."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.checkout import ROOT
from support.local_cluster import LocalCluster

CAPTURED = ROOT / "tests/unit/fixtures/proc"
LOST = "WARNING: AMX cannot be used on node0, "


def machine(folder: Path, name: str, release: str) -> str:
    """A captured machine under another kernel."""
    root = folder / "captured"
    shutil.copytree(CAPTURED / name, root)
    (root / "proc/sys/kernel/osrelease").write_text(release + "\n")
    return str(root)


def output(cluster: LocalCluster, name: str, *options: str, code: int = 0) -> str:
    """What a playbook prints, as one line."""
    assert cluster.play(name, *options).wait(300) == code, cluster.output(name)[-8000:]
    return " ".join(cluster.output(name).split())


@pytest.mark.parametrize("playbook", ["preflight", "plan"])
def test_an_old_kernel_on_sapphire_rapids(tmp_path: Path, playbook: str) -> None:
    root = machine(tmp_path, "sapphire_rapids_5.10", "5.15.0-94-generic")
    cluster = LocalCluster(tmp_path, {"preflight_amx_root": root})
    said = output(cluster, playbook)
    assert said.count(LOST) == (2 if playbook == "plan" else 1)
    assert "kernel: 5.15.0-94-generic, which does not meet" in said
    assert "linux-generic-hwe-22.04" in said
    if playbook == "plan":
        assert "bf16 runs as avx512_bf16 on node0" in said
        assert ": ansible-playbook -i hosts.yml playbooks/preflight.yml shows why" in said


def test_amx_is_required(tmp_path: Path) -> None:
    root = machine(tmp_path, "sapphire_rapids_5.10", "5.15.0-94-generic")
    cluster = LocalCluster(tmp_path, {"preflight_amx_root": root, "preflight_require": "amx"})
    said = output(cluster, "plan", code=2)
    assert "Nothing was changed, because node0 cannot be used: - node0: Intel(R) Xeon(R) Platinum 8480+" in said
    assert "(kernel 5.15.0-94-generic, " in said


def test_explicit_bf16_without_instructions_for_it(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, {"preflight_amx_root": str(CAPTURED / "ice_lake")})
    job = cluster.write_job("mine", "", precision="bf16")
    said = output(cluster, "plan", "-e", f"job={job}")
    assert "in fp32 (best instruction set: avx512_vnni)." in said
    assert "precision to bf16, and the CPUs of node0 " in said


def test_settings_that_do_not_fit(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path)
    job = cluster.write_job("mine", "", threads_per_core=64)
    said = output(cluster, "plan", "-e", f"job={job}", code=2)
    assert "- node0: threads_per_core=64 is more than " in said
    job = cluster.write_job("mine", "", env_launcher={"I_MPI_HYDRA_BOOTSTRAP": "slurm"})
    said = output(cluster, "plan", "-e", f"job={job}", code=2)
    assert "env_launcher: I_MPI_HYDRA_BOOTSTRAP is set to ssh" in said
