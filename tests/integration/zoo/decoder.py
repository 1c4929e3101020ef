"""transformers' Trainer with a small decoder: a script that knows nothing of sharding.

HIDDEN, LAYERS: its size. DIES_AT: the step at which the last rank is killed in its first run. Rank 0 reports the
losses, the parameters that it has itself and the most memory that it has had until the end of the training.
"""

import json
import os
import resource
import signal
from pathlib import Path

import torch
from torch.utils.data import Dataset
from transformers import (
    HfArgumentParser,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainerCallback,
    TrainerState,
    TrainingArguments,
)

VOCABULARY = 256


class Words(Dataset):
    def __init__(self) -> None:
        self.words = torch.randint(0, VOCABULARY, (64, 16), generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.words[place], "labels": self.words[place]}


class Dying(TrainerCallback):
    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, *_arguments: object, **_others: object
    ) -> None:
        last = args.process_index == args.world_size - 1
        if last and state.global_step + 1 == int(os.environ.get("DIES_AT", "0")) and not Path("died").exists():
            Path("died").touch()
            os.kill(os.getpid(), signal.SIGKILL)


def peak() -> float:
    """Return the most memory that this process has had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    torch.manual_seed(1)
    hidden = int(os.environ.get("HIDDEN", "64"))
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=int(os.environ.get("LAYERS", "2")),
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    words = Words()
    trainer = Trainer(
        model=LlamaForCausalLM(config), args=args, train_dataset=words, eval_dataset=words, callbacks=[Dying()]
    )
    before = trainer.evaluate()["eval_loss"]
    # accelerate 1.15 would train a model that was evaluated without DistributedDataParallel.
    trainer.accelerator.free_memory()
    vars(trainer.model).pop("_is_accelerate_prepared", None)
    loaded = peak()
    trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    trained = peak()
    trainer.save_model()
    evaluated = [before, trainer.evaluate()["eval_loss"]]
    own = sum(getattr(part, "_local_tensor", part).numel() for part in trainer.model.parameters())
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    print(f"rank {args.process_index}: {loaded:.0f} MiB at the start, {trained:.0f} MiB at most", flush=True)
    if args.process_index == 0:
        results = {
            "losses": losses,
            "evaluated": evaluated,
            "own_parameters": own,
            "peak_mib": trained,
            "ranks": args.world_size,
        }
        Path(args.output_dir, "all_results.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
