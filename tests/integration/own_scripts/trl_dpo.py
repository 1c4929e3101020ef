"""TRL: preferences (DPO) of a decoder."""

import os

import torch
from datasets import Dataset
from report import report
from trl import DPOConfig, DPOTrainer

BATCH = 16  # of all ranks


def main() -> None:
    torch.manual_seed(0)
    texts = [" ".join(f"w{n}" for n in row) for row in torch.randint(0, 40, (64, 8)).tolist()]
    rows = Dataset.from_list([{"prompt": f"{text} ", "chosen": text, "rejected": texts[-1]} for text in texts])
    args = DPOConfig(
        output_dir="output",
        per_device_train_batch_size=BATCH // int(os.environ["WORLD_SIZE"]),
        num_train_epochs=2,
        learning_rate=0.1,
        optim="sgd",
        logging_steps=1,
        report_to="none",
        bf16=False,
    )
    trainer = DPOTrainer("models/llama", args=args, train_dataset=rows)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    report(trainer.model, first=losses[0], loss=losses[-1], precision=args.mixed_precision)


if __name__ == "__main__":
    main()
