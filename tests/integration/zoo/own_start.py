"""A job with a sitecustomize and modules of its own, whose script starts itself anew and then holds Python's lock.

While the lock is held no other thread of the process runs: the rank sends nothing for longer than a job may stall.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

SECONDS = 10


def hold_the_lock() -> int:
    """Add up numbers, in calls that let no other thread run, the second for about SECONDS. Returns how many calls."""
    began, count = time.monotonic(), 10_000_000
    sum(range(count))
    sum(range(int(count * SECONDS / (time.monotonic() - began))))
    return 2


def main() -> None:
    import of_the_job  # of the job's PYTHONPATH
    import torch
    from torch import distributed, nn

    distributed.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _step in range(3):
        model(torch.randn(4, 8)).mean().backward()
        optimizer.step()
    calls = hold_the_lock()
    child = subprocess.run([sys.executable, "-c", "print(OWN)"], capture_output=True, text=True, check=True)
    if distributed.get_rank() == 0:
        own = OWN + of_the_job.OWN + int(child.stdout)  # type: ignore[name-defined]  # noqa: F821
        Path("output").mkdir()
        Path("output/all_results.json").write_text(json.dumps({"own": own, "calls": calls}))
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    if "again" not in sys.argv:
        os.environ["OMP_WAIT_POLICY"] = "passive"  # which counts only from the start of a process
        os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
    main()
