"""A model that FSDP shards over the ranks, with checkpoints of torch.distributed.checkpoint: each rank writes its part.

Every other checkpoint is saved in the background (async_save). The script resumes from the last complete one by itself.
With OWN_SHARDS each rank saves a file of its own instead. FAULT=N: rank 1 is killed in its first run, while it writes
its part of checkpoint N, when rank 0 has written its own.
"""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import distributed, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

RANK, LOCAL_RANK = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
FAULT = int(os.environ.get("FAULT", "0"))
OWN_SHARDS = bool(os.environ.get("OWN_SHARDS"))
STEPS, EVERY = 8, 2
OUTPUT = Path("output")


class DyingWriter(dcp.FileSystemWriter):
    """Writes a part of a file, and is killed, when the other rank has written all of its own."""

    def write_data(self, plan: Any, planner: Any) -> Any:
        die(Path(self.path, f"__{RANK}_0.distcp"))


def die(path: Path) -> None:
    """Write a half of a file, and be killed; with LOSES the host is lost as well."""
    path.write_bytes(b"half")
    # The other rank comes to the end of its own, and a heartbeat goes out.
    time.sleep(2.5)
    if os.environ.get("LOSES"):
        Path(os.environ["LOSES"]).touch()
    os.kill(os.getpid(), signal.SIGKILL)


def state_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict:
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments}


def mark(folder: Path) -> None:
    """Mark what this host has of a checkpoint: one rank of each does, when all have written."""
    if LOCAL_RANK == 0:
        name = "complete.json" if RANK == 0 else "part.json"
        marks = ("complete.json", "part.json")
        sizes = {path.name: path.stat().st_size for path in folder.iterdir() if path.name not in marks}
        (folder / name).write_text(json.dumps(sizes))


def save(step: int, state: dict, group: distributed.ProcessGroup) -> None:
    folder = OUTPUT / f"checkpoint-{step}"
    folder.mkdir(parents=True, exist_ok=True)
    dies = RANK == 1 and step == FAULT and not Path("failed-once").exists()
    if dies:
        Path("failed-once").touch()
    if OWN_SHARDS:
        if dies:
            die(folder / f"shard-{RANK}.pt")
        torch.save(state, folder / f"shard-{RANK}.pt")
        mark(folder)  # it does not wait for the others
        return
    writer = (DyingWriter if dies else dcp.FileSystemWriter)(folder)
    if step % (2 * EVERY) == 0:
        dcp.save(state, storage_writer=writer)
    else:
        dcp.async_save(state, storage_writer=writer, process_group=group).result()
    distributed.barrier()
    mark(folder)


def load(state: dict) -> tuple[int, dict]:
    """Return the step to go on from, and the state there."""
    complete = [path.parent for path in OUTPUT.glob("checkpoint-*/complete.json")]
    last = max(complete, key=lambda folder: int(folder.name.split("-")[1]), default=None)
    if last is None:
        return 0, state
    if OWN_SHARDS:
        state = torch.load(last / f"shard-{RANK}.pt", weights_only=False)
    else:
        dcp.load(state, checkpoint_id=last)
    return int(last.name.split("-")[1]), state


def main() -> None:
    distributed.init_process_group("gloo")
    background = distributed.new_group()
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    fully_shard(model, mesh=distributed.init_device_mesh("cpu", (distributed.get_world_size(),)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    first, state = load(state_of(model, optimizer))
    if first:
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    for step in range(first + 1, STEPS + 1):
        inputs = torch.randn(16, 8, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        loss = (model(inputs).squeeze(-1) - inputs.sum(1)).square().mean()
        loss.backward()
        optimizer.step()
        if step % EVERY == 0:
            save(step, state_of(model, optimizer), background)
    total = sum(parameter.full_tensor().double().sum().item() for parameter in model.parameters())
    if RANK == 0:
        result = {"steps": STEPS, "resumed_from": first, "weights": total}
        (OUTPUT / "all_results.json").write_text(json.dumps(result))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
