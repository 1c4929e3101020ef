"""Train some steps with DataLoader workers by fork and by spawn; each rank writes what the kernel has of it meanwhile.

output/kernel-RANK.json is {tasks: the threads of the rank; fork, spawn: the threads of each worker; memory: pages that
belong to no file, by NUMA node}, a thread being [its name, its Cpus_allowed_list].
"""

import json
import multiprocessing
import re
from collections import Counter
from pathlib import Path

import torch
from torch import distributed, nn
from torch.utils.data import DataLoader, TensorDataset

STEPS, WORKERS = 3, 2


def tasks(pid: object) -> list[list[str]]:
    """Return the threads of a process, as proc(5) has them."""
    found = []
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
        found.append([fields["Name"], fields["Cpus_allowed_list"]])
    return found


def memory() -> Counter[str]:
    """Return this process's pages by NUMA node: heap, stacks and other memory of its own, not what files are mapped."""
    pages = Counter[str]()
    for line in Path("/proc/self/numa_maps").read_text().splitlines():
        if "anon=" in line and "file=" not in line:
            pages.update({node: int(count) for node, count in re.findall(r" N(\d+)=(\d+)", line)})
    return pages


def main() -> None:
    distributed.init_process_group()
    ballast = torch.ones(64 * 2**20 // 4) + 1  # 64 MiB, written by the threads that compute
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(64, 256), torch.randn(64, 1))
    kernel: dict[str, object] = {}
    for context in ("fork", "spawn"):
        for step, (inputs, targets) in enumerate(
            DataLoader(data, 16, num_workers=WORKERS, multiprocessing_context=context), 1
        ):
            nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
            optimizer.zero_grad()
            if step == STEPS:
                kernel[context] = [tasks(worker.pid) for worker in multiprocessing.active_children()]
            print(f"{context}: step {step}", flush=True)
    kernel |= {"tasks": tasks("self"), "memory": memory(), "ballast": ballast.numel()}
    Path("output").mkdir(exist_ok=True)
    Path(f"output/kernel-{distributed.get_rank()}.json").write_text(json.dumps(kernel))
    if distributed.get_rank() == 0:
        Path("output/all_results.json").write_text(json.dumps({"steps": 2 * STEPS}))
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
