"""transformers' Trainer with all rows in one step, beside the gradient of the mean over all rows.

KIND: bert (its loss is the mean of a batch) or llama (which divides by the items of all batches). Rank 0 reports how
many times the mean's the Trainer's gradient is, and the same with model_accepts_loss_kwargs = False.
"""

import json
import os
import random
from pathlib import Path
from typing import Any

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    HfArgumentParser,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
    set_seed,
)

SIZE = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
SIZE["intermediate_size"] = 32
IS_TEXT = os.environ["KIND"] == "llama"


def model() -> Any:
    set_seed(1)
    if IS_TEXT:
        return LlamaForCausalLM(LlamaConfig(**SIZE))
    without = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return BertForSequenceClassification(BertConfig(**SIZE, **without))


def rows() -> list[dict[str, Any]]:
    drawn = random.Random(1)
    lists = [[drawn.randrange(5, 90) for _ in range(drawn.choice([4, 8, 30, 60]))] for _ in range(32)]
    return [{"input_ids": ids, "labels": ids if IS_TEXT else number % 2} for number, ids in enumerate(lists)]


def collated(batch: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    longest = max(len(row["input_ids"]) for row in batch)

    def padded(ids: list[int], with_what: int) -> list[int]:
        return ids + [with_what] * (longest - len(ids))

    labels = [padded(row["labels"], -100) if IS_TEXT else row["labels"] for row in batch]
    return {
        "input_ids": torch.tensor([padded(row["input_ids"], 0) for row in batch]),
        "attention_mask": torch.tensor([padded([1] * len(row["input_ids"]), 0) for row in batch]),
        "labels": torch.tensor(labels),
    }


def of_the_mean() -> float:
    whole = model()
    whole(**collated(rows())).loss.backward()
    return float(torch.nn.utils.clip_grad_norm_(whole.parameters(), 1e9))


def trained(args: TrainingArguments, accepts: bool | None) -> float:
    trainer = Trainer(model=model(), args=args, train_dataset=rows(), data_collator=collated)
    if accepts is not None:
        trainer.model_accepts_loss_kwargs = accepts
    trainer.train()
    return next(entry["grad_norm"] for entry in trainer.state.log_history if "grad_norm" in entry)


def main() -> None:
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    norm = of_the_mean()
    times, mended = trained(args, None) / norm, trained(args, False) / norm
    if int(os.environ["RANK"]) == 0:
        Path("output").mkdir(exist_ok=True)
        Path("output/all_results.json").write_text(json.dumps({"times": times, "mended": mended}))


if __name__ == "__main__":
    main()
