"""transformers' Trainer with its settings in the script, which reads no arguments."""

import torch
from datasets import Dataset
from report import SETTINGS, report_trainer
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments


def main() -> None:
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained("models/encoder")
    tokenizer = AutoTokenizer.from_pretrained("models/encoder")
    numbers = torch.randint(0, 40, (64, 8)).tolist()
    rows = Dataset.from_dict({"text": [" ".join(f"w{n}" for n in row) for row in numbers], "label": [0, 1] * 32})
    args = TrainingArguments(**SETTINGS)
    trainer = Trainer(
        model,
        args,
        train_dataset=rows.map(lambda row: tokenizer(row["text"]), batched=True),
        processing_class=tokenizer,
    )
    trainer.model_accepts_loss_kwargs = False
    trainer.train()
    report_trainer(trainer)


if __name__ == "__main__":
    main()
