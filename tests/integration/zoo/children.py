"""joblib's workers, shared memory with its tracker, and a Python that computes for longer than a job may stall."""

import json
import subprocess
import sys
import time
from multiprocessing import shared_memory
from pathlib import Path

import joblib
import torch
from torch import distributed, nn

SECONDS = 7
COMPUTES = f"import time\nend = time.monotonic() + {SECONDS}\nwhile time.monotonic() < end: pass"


def square(number: int) -> int:
    return number**2


def main() -> None:
    distributed.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    memory = shared_memory.SharedMemory(create=True, size=1024)  # its tracker is a Python of its own
    workers = joblib.Parallel(n_jobs=2)  # which stay, for a next call
    squares = workers(joblib.delayed(square)(number) for number in range(10))
    steps = 0
    for _step in range(2 * SECONDS):
        model(torch.randn(4, 8)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        steps += 1
        time.sleep(0.5)
    subprocess.run([sys.executable, "-c", COMPUTES], check=True)
    memory.close()
    memory.unlink()
    if distributed.get_rank() == 0:
        Path("output").mkdir()
        Path("output/all_results.json").write_text(json.dumps({"steps": steps, "squares": sum(squares)}))
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
