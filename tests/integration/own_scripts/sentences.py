"""sentence-transformers: an embedding model, with its own Trainer."""

import torch
from datasets import Dataset
from report import SETTINGS, report_trainer
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss


def main() -> None:
    model = SentenceTransformer("models/encoder")
    torch.manual_seed(0)
    pairs = [[" ".join(f"w{n}" for n in row) for row in torch.randint(0, 40, (64, 8)).tolist()] for _ in range(2)]
    rows = Dataset.from_dict({"sentence1": pairs[0], "sentence2": pairs[1], "score": [0.0, 1.0] * 32})
    args = SentenceTransformerTrainingArguments(**SETTINGS)
    trainer = SentenceTransformerTrainer(model, args, train_dataset=rows, loss=CosineSimilarityLoss(model))
    trainer.train()
    report_trainer(trainer)


if __name__ == "__main__":
    main()
