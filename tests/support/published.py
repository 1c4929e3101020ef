"""Stand-ins for what the jobs of published articles take from the hub: python published.py DIRECTORY [--rows SHARE]

Models have the architecture and the vocabulary's size of the real ones, with random weights; datasets have the columns,
the number of rows and texts as long, of words that mean nothing. To be run with a stack's Python. The directory gets
model/, dataset/ and space/, with the repositories by their names on the hub.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# Rows of each split, as the cards of the datasets say. Without QQP's test, which is as large as its train.
ROWS = {
    "squad": {"train": 87599, "validation": 10570},
    "mrpc": {"train": 3668, "validation": 408, "test": 1725},
    "qqp": {"train": 363846, "validation": 40430},
    "sst2": {"train": 67349, "validation": 872, "test": 1821},
    "mnli": {
        "train": 392702,
        "validation_matched": 9815,
        "validation_mismatched": 9832,
        "test_matched": 9796,
        "test_mismatched": 9847,
    },
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "distilbert/distilbert-base-uncased": ("distilbert", {"vocab_size": 30522}),
    "google-bert/bert-base-cased": ("bert", {"vocab_size": 28996}),
    "google-bert/bert-large-uncased": (
        "bert",
        {
            "vocab_size": 30522,
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "intermediate_size": 4096,
        },
    ),
}
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = 4000
# What run_qa.py and run_glue.py load and compute by these names.
METRIC = '''
import datasets
import evaluate


class Metric(evaluate.Metric):
    """A stand-in: the share of predictions that are right."""

    def _info(self):
        features = datasets.Features({"predictions": %(predictions)s, "references": %(references)s})
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)

    def _compute(self, predictions, references):
        right = [%(right)s for predicted, reference in zip(predictions, references)]
        return {%(result)s}
'''
ANSWERS = """datasets.Sequence({"text": datasets.Value("string"), "answer_start": datasets.Value("int32")})"""
ACCURACY = {
    "predictions": 'datasets.Value("int32")',
    "references": 'datasets.Value("int32")',
    "right": "predicted == reference",
    "result": '"accuracy": sum(right) / len(right)',
}
METRICS = {
    "accuracy": ACCURACY,
    "glue": ACCURACY,
    "squad": {
        "predictions": '{"id": datasets.Value("string"), "prediction_text": datasets.Value("string")}',
        "references": f'{{"id": datasets.Value("string"), "answers": {ANSWERS}}}',
        "right": 'predicted["prediction_text"] in reference["answers"]["text"]',
        "result": '"exact_match": 100 * sum(right) / len(right), "f1": 100 * sum(right) / len(right)',
    },
}


def sentence(chance: random.Random, words: float) -> str:
    """Return about so many words: lengths are spread as those of SQuAD's contexts are, with few that are very long."""
    count = max(3, round(chance.lognormvariate(0, 0.5) * words))
    return " ".join(f"w{chance.randrange(WORDS)}" for _word in range(count))


def squad(chance: random.Random, number: int) -> dict[str, Any]:
    context = sentence(chance, 110)
    words = context.split(" ")
    place = chance.randrange(len(words))
    answer = " ".join(words[place : place + 3])
    start = len(" ".join(words[:place])) + (place > 0)
    return {
        "id": f"{number:024x}",
        "title": "words",
        "context": context,
        "question": sentence(chance, 11),
        "answers": {"text": [answer], "answer_start": [start]},
    }


def texts(*names: str) -> Callable[[random.Random, int], dict[str, Any]]:
    """Return what makes a row of one or two sentences."""

    def row(chance: random.Random, number: int) -> dict[str, Any]:
        return {**{name: sentence(chance, 20) for name in names}, "label": chance.randrange(2), "idx": number}

    return row


MAKERS = {
    "squad": squad,
    "mrpc": texts("sentence1", "sentence2"),
    "qqp": texts("question1", "question2"),
    "sst2": texts("sentence"),
    "mnli": texts("premise", "hypothesis"),
}


def write_dataset(directory: Path, name: str, share: float) -> None:
    """Write the splits of a dataset as Parquet files into a directory."""
    from datasets import ClassLabel, Dataset

    directory.mkdir(parents=True, exist_ok=True)
    for split, count in ROWS[name].items():
        chance = random.Random(f"{name} {split}")
        made = Dataset.from_list([MAKERS[name](chance, number) for number in range(round(count * share))])
        if "label" in made.features:
            made = made.cast_column("label", ClassLabel(names=["no", "yes"]))
        made.to_parquet(directory / f"{split}-00000-of-00001.parquet")


def write_glue(directory: Path, tasks: Sequence[str], share: float) -> None:
    """Write tasks of GLUE as configurations of one dataset."""
    configs = []
    for name in tasks:
        write_dataset(directory / name, name, share)
        files = [{"split": split, "path": f"{name}/{split}-*"} for split in ROWS[name]]
        configs.append({"config_name": name, "data_files": files})
    # The header of a dataset's card is YAML, and so is JSON.
    (directory / "README.md").write_text(f"---\n{json.dumps({'configs': configs})}\n---\n", encoding="utf-8")


def write_metric(directory: Path, name: str) -> None:
    """Write a metric, as evaluate.load reads it."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.py").write_text(METRIC % METRICS[name], encoding="utf-8")


def write_model(directory: Path, kind: str, settings: dict[str, Any]) -> None:
    """Write a model with random weights for masked words, as the real ones are, and its tokenizer."""
    from transformers import AutoConfig, AutoModelForMaskedLM, BertTokenizer

    config = AutoConfig.for_model(kind, **settings)
    AutoModelForMaskedLM.from_config(config).save_pretrained(directory)
    known = [*SPECIAL, *(f"w{number}" for number in range(WORDS))]
    vocabulary = {word: number for number, word in enumerate(known)}
    for number in range(len(known), settings["vocab_size"]):
        vocabulary[f"[unused{number}]"] = number
    BertTokenizer(vocab=vocabulary, model_max_length=512).save_pretrained(directory)


def main() -> None:
    """Write everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=float, default=1.0, help="the share of the rows that is made")
    options = parser.parse_args()
    for name, (kind, settings) in MODELS.items():
        write_model(options.folder / "model" / name, kind, settings)
    write_dataset(options.folder / "dataset/rajpurkar/squad/plain_text", "squad", options.rows)
    write_glue(options.folder / "dataset/nyu-mll/glue", ("mrpc", "qqp"), options.rows)
    for name in METRICS:
        write_metric(options.folder / "space/evaluate-metric" / name, name)


if __name__ == "__main__":
    main()
