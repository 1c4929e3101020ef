"""transformers' Trainer with a small BERT and dropout: the SHA-256 of its weights at the end is in all_results.json.

Only dropout depends on --seed: the weights at the beginning, the rows and their order are the same with every seed. The
first attempt ends itself before step FAULT + 1, without a chance to save. What is saved can be loaded to the device
cpu:0, which the Trainer has with backend ccl.
"""

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    HfArgumentParser,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

LENGTH = 64
SIZE = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256}


class Rows(Dataset):
    def __init__(self) -> None:
        self.rows = torch.randint(5, 1000, (256, LENGTH), generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        row = self.rows[place]
        return {"input_ids": row, "attention_mask": torch.ones_like(row), "labels": row[0] % 2}


class Fault(TrainerCallback):
    """Ends the rank that has begun at the beginning, whose steps take long enough to be reported before."""

    def on_step_begin(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
        if args.resume_from_checkpoint or "FAULT" not in os.environ:
            return
        time.sleep(0.3)
        if state.global_step == int(os.environ["FAULT"]):
            os.kill(os.getpid(), signal.SIGKILL)


def digest(model: torch.nn.Module) -> str:
    """Return the SHA-256 of all weights."""
    found = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        found.update(name.encode() + tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def main() -> None:
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(vocab_size=1000, max_position_embeddings=LENGTH, **SIZE))
    torch.manual_seed(args.seed)
    trainer = Trainer(model=model, args=args, train_dataset=Rows(), callbacks=[Fault()])
    trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    if args.process_index == 0:
        saved = torch.load(f"{args.output_dir}/checkpoint-12/optimizer.pt", map_location=torch.device("cpu:0"))
        assert saved["state"]
        found = {
            "weights": digest(model),
            "steps": trainer.state.global_step,
            "from": args.resume_from_checkpoint,
            "world": args.world_size,
            "threads": torch.get_num_threads(),
            "optimized": sorted(name for name in sys.modules if name.startswith("amx_cluster.optimize.")),
        }
        Path("output").mkdir(exist_ok=True)
        Path("output/all_results.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
