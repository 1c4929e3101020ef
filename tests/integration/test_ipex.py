"""Intel's extension for PyTorch for real: installed as the stack ipex-2.8-gloo pins it, a BERT trained on two ranks.

Downloads some 4 GB and needs 8 GB of disk, because the main package index has torch only as its CUDA build, so it runs
only where AMX_CLUSTER_TEST_IPEX=1 is set. The CUDA build does not matter to what is tested here, the packages together
on a CPU; the role refuses it (see test_pip.py). oneccl_bind_pt is not on the main index and is not tested.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = yaml.safe_load((ROOT / "roles/torch_stack/vars/stacks.yml").read_text())["__torch_stack_catalogue"]
STACK = CATALOGUE["ipex-2.8-gloo"]
CONSTRAINTS = ROOT / "roles/torch_stack/files" / STACK["constraints"]
# What a rank needs; Intel MPI is not used here.
WANTED = ("torch", "intel-extension-for-pytorch", "transformers", "intel-openmp", "tbb")


@pytest.mark.skipif(
    os.environ.get("AMX_CLUSTER_TEST_IPEX") != "1",
    reason="downloads 4 GB, because torch 2.8.0 is on the main index only as its CUDA build; AMX_CLUSTER_TEST_IPEX=1 "
    "runs it (10 minutes)",
)
def test_training_with_ipex(tmp_path: Path) -> None:
    packages = {name: STACK["packages"][name].partition("+")[0] for name in WANTED}
    env = tmp_path / "env"
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "venv", str(env)], check=True)
    pins = [f"{name}=={version}" for name, version in packages.items()]
    pip = [str(env / "bin/python"), "-m", "pip", "install", "--quiet", "--no-cache-dir"]
    subprocess.run([*pip, "--constraint", str(CONSTRAINTS), *pins], check=True)
    installed = time.monotonic()
    ran = subprocess.run(
        [str(env / "bin/torchrun"), "--standalone", "--nproc_per_node=2", str(Path(__file__).parent / "ipex_ranks.py")],
        env={**os.environ, "OMP_NUM_THREADS": "1", "LD_PRELOAD": str(env / "lib/libiomp5.so")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    print(f"installed in {installed - started:.0f} s, trained in {time.monotonic() - installed:.0f} s:")
    print("\n".join(f"  {line}" for line in lines))
    for engine in ("torch bf16", "torch fp32", "ipex bf16", "ipex fp32"):
        ranks = [line for line in lines if line["engine"] == engine]
        assert sorted(line["rank"] for line in ranks) == [0, 1]
        assert len({line["digest"] for line in ranks}) == 1, f"{engine}: the ranks have trained models of their own"
        for line in ranks:
            assert line["torch"].partition("+")[0] == packages["torch"]
            assert line["last"] < line["first"] / 2, line
            # What ipex.optimize does to a model for bf16; the optimizer keeps the rest of each weight.
            assert line["weights"] == ("torch.bfloat16" if engine == "ipex bf16" else "torch.float32"), line
            if engine.startswith("ipex"):
                assert line["ipex"].partition("+")[0] == packages["intel-extension-for-pytorch"]
