"""Each rank fits something of its own before the group forms, and something else within it, before it trains with the
others, without the launcher's variables from then on and with all that it may open used up."""

import json
import os
import resource
import time
from pathlib import Path

import torch
from torch import distributed, nn


def fit(seed: int, steps: int, pause: float) -> float:
    """Fit a line to numbers of this rank's own."""
    torch.manual_seed(seed)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters())
    for _step in range(steps):
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(pause)
    return float(loss)


def main() -> None:
    fit(int(os.environ["RANK"]), steps=200, pause=0.03)
    distributed.init_process_group("gloo")
    fit(10 + distributed.get_rank(), steps=20, pause=0)
    for name in [name for name in os.environ if name.startswith(("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "AMX_"))]:
        del os.environ[name]
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    steps = 0
    held: list[int] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
    while len(held) < 128:
        try:
            held.append(os.dup(1))
        except OSError:
            break
    for _step in range(14):
        model(torch.randn(4, 8)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        steps += 1
        time.sleep(0.5)
    for descriptor in held:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if distributed.get_rank() == 0:
        Path("output").mkdir()
        Path("output/all_results.json").write_text(json.dumps({"steps": steps}))
    distributed.destroy_process_group()


if __name__ == "__main__":
    # Not the minute that a rank is patient for without its supervisor: this need not take that long.
    from amx_cluster.observer.heartbeat import Heartbeat

    Heartbeat.PATIENCE = 4
    main()
