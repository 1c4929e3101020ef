"""Intel's extension for PyTorch for real: installed as the stack ipex-2.8 pins it, and trained with in bf16.

Downloads some 4 GB and needs 8 GB of disk, because the main package index has torch only as its CUDA build, so it runs
only where AMX_CLUSTER_TEST_IPEX=1 is set. The CUDA build does not matter to what is tested here, the two packages
together on a CPU; the role refuses it (see test_pip.py). oneccl_bind_pt is not on the main index and is not tested.
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
STACK = yaml.safe_load((ROOT / "roles/torch_stack/vars/stacks.yml").read_text())["__torch_stack_catalogue"]["ipex-2.8"]
CONSTRAINTS = ROOT / "roles/torch_stack/files" / STACK["constraints"]
STEPS = """
import json, torch
import intel_extension_for_pytorch as ipex

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
inputs = torch.randn(256, 64)
labels = inputs[:, :4].argmax(dim=1)
model.train()
model, optimizer = ipex.optimize(model, optimizer=optimizer, dtype=torch.bfloat16)
losses = []
for step in range(40):
    optimizer.zero_grad()
    with torch.amp.autocast("cpu", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(json.dumps({
    "torch": torch.__version__, "ipex": ipex.__version__, "weights": str(model[0].weight.dtype),
    "layer": type(model[0]).__name__, "first": losses[0], "last": losses[-1],
}))
"""


@pytest.mark.skipif(
    os.environ.get("AMX_CLUSTER_TEST_IPEX") != "1",
    reason="downloads 4 GB, because torch 2.8.0 is on the main index only as its CUDA build; AMX_CLUSTER_TEST_IPEX=1 "
    "runs it (2 minutes)",
)
def test_training_with_ipex(tmp_path: Path) -> None:
    packages = STACK["packages"]
    python = tmp_path / "env" / "bin" / "python"
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    torch = packages["torch"].partition("+")[0]
    wanted = [f"torch=={torch}", f"intel-extension-for-pytorch=={packages['intel-extension-for-pytorch']}"]
    subprocess.run(
        [str(python), "-m", "pip", "install", "--quiet", "--no-cache-dir", "--constraint", str(CONSTRAINTS), *wanted],
        check=True,
    )
    installed = time.monotonic()
    ran = subprocess.run([str(python), "-c", STEPS], capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout.splitlines()[-1])
    print(f"installed in {installed - started:.0f} s, trained in {time.monotonic() - installed:.0f} s: {told}")
    assert told["torch"].partition("+")[0] == torch
    assert told["ipex"].partition("+")[0] == packages["intel-extension-for-pytorch"]
    # What ipex.optimize does to a model: weights in bf16 (the optimizer keeps the rest), layers of its own.
    assert told["weights"] == "torch.bfloat16"
    assert told["last"] < told["first"] / 2
