"""A plain torch.distributed script, unmodified for any launcher: steps that all ranks take together, and checkpoints.

It finds RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment. FAULT makes it fail in the way named, at step
30 of its first run. With UNTIL it goes on until there is a file of that name, instead of making so many STEPS.
"""

import json
import os
import time
from pathlib import Path

import torch
from torch import distributed

STEPS = int(os.environ.get("STEPS", "60"))
RANK = int(os.environ["RANK"])
FAULT = os.environ.get("FAULT", "")
UNTIL = os.environ.get("UNTIL", "")
OUTPUT = Path("output")


def checkpoint(step: int, weight: torch.Tensor) -> None:
    """Write a checkpoint, and mark it when it is complete."""
    folder = OUTPUT / f"checkpoint-{step}"
    folder.mkdir(parents=True, exist_ok=True)  # what an end in its midst has left is written over
    torch.save({"step": step, "weight": weight, "ballast": torch.zeros(2_000_000)}, folder / "state.pt")
    (folder / "complete.json").write_text(json.dumps({"state.pt": (folder / "state.pt").stat().st_size}))


def resume() -> tuple[int, torch.Tensor]:
    """Return the step and the weight to go on from."""
    whole = [path.parent for path in OUTPUT.glob("checkpoint-*/complete.json")]
    last = max(whole, key=lambda folder: int(folder.name.split("-")[1]), default=None)
    if last is None:
        return 0, torch.zeros(4)
    state = torch.load(last / "state.pt")
    return state["step"], state["weight"]


def fail(step: int) -> None:
    """Fail as FAULT says."""
    if step != 30 or Path("failed-once").exists():
        return
    if FAULT == "raise" and RANK == 1:
        raise ValueError("the label of sample 1234 is missing")
    if FAULT == "stall" and RANK == 2:
        time.sleep(3600)
    if FAULT == "memory" and RANK == 1:
        Path("failed-once").touch()
        hoard = []
        while True:
            hoard.append(torch.ones(16_000_000))


def main() -> None:
    distributed.init_process_group("gloo")
    parameter = torch.nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    first, weight = resume()
    parameter.data.copy_(weight)
    step, last = first, STEPS
    while step < last:
        step += 1
        fail(step)
        # The last number is how many ranks see the file UNTIL: they end at the same step.
        reduced = torch.cat([-torch.ones(4) / distributed.get_world_size(), torch.ones(1) * Path(UNTIL).is_file()])
        distributed.all_reduce(reduced)
        if UNTIL:
            last = step if reduced[-1] else step + 1
        parameter.grad = reduced[:-1]
        optimizer.step()
        if RANK == 0:
            print(f"step {step} of {STEPS}: {parameter[0].item():.0f}", flush=True)
            if step % 10 == 0:
                checkpoint(step, parameter.data)
        time.sleep(0.2)
    if RANK == 0:
        OUTPUT.mkdir(exist_ok=True)
        result = {"steps": step, "weight": parameter[0].item(), "resumed_from": first}
        (OUTPUT / "all_results.json").write_text(json.dumps(result))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
