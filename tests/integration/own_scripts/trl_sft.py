"""TRL: supervised fine-tuning of a decoder."""

import torch
from datasets import Dataset
from report import SETTINGS, report_trainer
from trl import SFTConfig, SFTTrainer


def main() -> None:
    torch.manual_seed(0)
    texts = [" ".join(f"w{n}" for n in row) for row in torch.randint(0, 40, (64, 8)).tolist()]
    rows = Dataset.from_list(
        [
            {"prompt": [{"role": "user", "content": text}], "completion": [{"role": "assistant", "content": text}]}
            for text in texts
        ]
    )
    args = SFTConfig(**SETTINGS, bf16=False)
    trainer = SFTTrainer("models/llama", args, train_dataset=rows)
    trainer.train()
    report_trainer(trainer)


if __name__ == "__main__":
    main()
