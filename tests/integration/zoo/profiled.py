"""A small BERT with random weights, or a wide linear model in a plain loop: MODEL is bert or wide.

With OWN=1 the plain loop has torch's profiler itself from the fifth step on.
"""

import json
import os
from pathlib import Path

import torch
from torch import distributed, nn
from torch.utils.data import DataLoader

STEPS = 12
DROPOUT = float(os.environ.get("DROPOUT", "0"))


def bert() -> None:
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256}
    dropout = {"hidden_dropout_prob": DROPOUT, "attention_probs_dropout_prob": DROPOUT}
    model = BertForSequenceClassification(BertConfig(vocab_size=500, **sizes, **dropout))
    rows = [{"input_ids": torch.randint(500, (64,)), "labels": place % 2} for place in range(2 * 16 * STEPS)]
    args = TrainingArguments(
        "output", max_steps=STEPS, per_device_train_batch_size=16, use_cpu=True, save_strategy="no", report_to="none"
    )
    trainer = Trainer(model, args, train_dataset=rows)
    trainer.model_accepts_loss_kwargs = False
    trainer.train()


def wide() -> None:
    distributed.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    for step, batch in enumerate(DataLoader(torch.ones(256 * STEPS, 1024), batch_size=256)):
        if step == 4 and os.environ.get("OWN"):
            profiler.start()
        model(batch).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    if os.environ.get("OWN"):
        profiler.stop()
        assert any(event.name == "aten::mm" for event in profiler.events())
    distributed.destroy_process_group()


if __name__ == "__main__":
    bert() if os.environ["MODEL"] == "bert" else wide()
    if os.environ["RANK"] == "0":
        Path("output").mkdir(exist_ok=True)
        Path("output/all_results.json").write_text(json.dumps({"steps": STEPS}))
