"""TRL: preferences (DPO) of a decoder."""

import torch
from datasets import Dataset
from report import SETTINGS, report_trainer
from trl import DPOConfig, DPOTrainer


def main() -> None:
    torch.manual_seed(0)
    texts = [" ".join(f"w{n}" for n in row) for row in torch.randint(0, 40, (64, 8)).tolist()]
    rows = Dataset.from_list([{"prompt": f"{text} ", "chosen": text, "rejected": texts[-1]} for text in texts])
    args = DPOConfig(**SETTINGS, bf16=False)
    trainer = DPOTrainer("models/llama", args=args, train_dataset=rows)
    trainer.train()
    report_trainer(trainer)


if __name__ == "__main__":
    main()
