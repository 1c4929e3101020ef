"""transformers' Trainer with small encoders of several architectures, one after the other.

Rank 0 reports {architecture: {"losses", "evaluated", "own"}}; own is the share of the parameters that it has itself.
"""

import json
from dataclasses import replace
from pathlib import Path

import torch
import transformers
from torch.utils.data import Dataset
from transformers import AutoConfig, AutoModelForSequenceClassification, HfArgumentParser, Trainer, TrainingArguments

SIZE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
NAMES = ("bert", "roberta", "electra", "distilbert", "albert", "xlm-roberta", "deberta-v2", "mpnet", "modernbert")
OTHERS = {"distilbert": {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64}}


class Rows(Dataset):
    def __init__(self) -> None:
        self.words = torch.randint(5, 200, (32, 16), generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.words[place], "labels": self.words[place, 0] % 2}


def main() -> None:
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    rows, report = Rows(), {}
    for name in NAMES:
        torch.manual_seed(1)
        size = {**OTHERS.get(name, SIZE), "vocab_size": 256, "pad_token_id": 0}
        model = AutoModelForSequenceClassification.from_config(AutoConfig.for_model(name, **size))
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        whole = sum(parameter.numel() for parameter in model.parameters())
        trainer = Trainer(model=model, args=replace(args), train_dataset=rows, eval_dataset=rows)
        trainer.model_accepts_loss_kwargs = False  # the mean of each rank's batch
        trainer.train()
        # After an evaluation, FSDP keeps the root's parameters whole until the next backward pass.
        own = sum(getattr(each, "_local_tensor", each).numel() for each in trainer.model.parameters())
        report[name] = {
            "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
            "evaluated": trainer.evaluate()["eval_loss"],
            "own": own / whole,
        }
        trainer.accelerator.free_memory()
    if args.process_index == 0:
        Path("output").mkdir(exist_ok=True)
        Path("output/all_results.json").write_text(json.dumps(report))


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    main()
