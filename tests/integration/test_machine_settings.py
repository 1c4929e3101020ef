"""What a user sees of NUMA nodes, memory and kernel settings: a real run of the doctor, on a made-up Xeon Max."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.checkout import ROOT
from support.local_cluster import LocalCluster
from support.machine_settings import captured


def test_a_xeon_max_in_flat_mode(tmp_path: Path) -> None:
    root = tmp_path / "captured"
    shutil.copytree(ROOT / "tests/unit/fixtures/proc/sapphire_rapids", root)
    cpuinfo = root / "proc/cpuinfo"
    cpuinfo.write_text(cpuinfo.read_text().replace("Intel(R) Xeon(R) Platinum 8480+", "Intel(R) Xeon(R) CPU Max 9480"))
    governor = {"cpufreq/scaling_governor": "powersave"}
    captured(root, [(0, 256), (1, 256), (None, 64), (None, 64)], governor, balancing="1")
    cluster = LocalCluster(tmp_path, {"preflight_amx_root": str(root)})
    cluster.play("doctor").wait(300)  # there is no libfabric, which fails
    said = " ".join(cluster.output("doctor").split())
    assert "node0 2 sockets, 1 node each (SNC off) HBM, flat (nodes 2-3, 128.0 GiB) on (1) - powersave -" in said
    assert "kernel.numa_balancing is 1, with 4 NUMA nodes" in said
    assert "the CPU governor is powersave" in said
