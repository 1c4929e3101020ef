"""transformers' Trainer with its settings in the script, which reads no arguments."""

import os

import torch
from datasets import Dataset
from report import report
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

BATCH = 16  # of all ranks


def main() -> None:
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained("models/encoder")
    tokenizer = AutoTokenizer.from_pretrained("models/encoder")
    numbers = torch.randint(0, 40, (64, 8)).tolist()
    rows = Dataset.from_dict({"text": [" ".join(f"w{n}" for n in row) for row in numbers], "label": [0, 1] * 32})
    args = TrainingArguments(
        output_dir="output",
        per_device_train_batch_size=BATCH // int(os.environ["WORLD_SIZE"]),
        num_train_epochs=2,
        learning_rate=0.1,
        optim="sgd",
        logging_steps=1,
        report_to="none",
    )
    trainer = Trainer(
        model,
        args,
        train_dataset=rows.map(lambda row: tokenizer(row["text"]), batched=True),
        processing_class=tokenizer,
    )
    trainer.model_accepts_loss_kwargs = False
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    report(model, first=losses[0], loss=losses[-1], precision=args.mixed_precision)


if __name__ == "__main__":
    main()
