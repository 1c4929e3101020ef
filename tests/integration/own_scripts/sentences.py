"""sentence-transformers: an embedding model, with its own Trainer."""

import os

import torch
from datasets import Dataset
from report import report
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

BATCH = 16  # of all ranks


def main() -> None:
    model = SentenceTransformer("models/encoder")
    torch.manual_seed(0)
    pairs = [[" ".join(f"w{n}" for n in row) for row in torch.randint(0, 40, (64, 8)).tolist()] for _ in range(2)]
    rows = Dataset.from_dict({"sentence1": pairs[0], "sentence2": pairs[1], "score": [0.0, 1.0] * 32})
    args = SentenceTransformerTrainingArguments(
        output_dir="output",
        per_device_train_batch_size=BATCH // int(os.environ["WORLD_SIZE"]),
        num_train_epochs=2,
        learning_rate=0.1,
        optim="sgd",
        logging_steps=1,
        report_to="none",
    )
    trainer = SentenceTransformerTrainer(model, args, train_dataset=rows, loss=CosineSimilarityLoss(model))
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    report(model, first=losses[0], loss=losses[-1], precision=args.mixed_precision)


if __name__ == "__main__":
    main()
