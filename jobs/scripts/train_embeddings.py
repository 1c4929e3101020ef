# Copyright (c) 2026 The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fine-tune embeddings, or with --reranker a cross-encoder, on texts that belong together, by sentence-transformers.

Files are CSV, TSV, JSON, JSON lines or Parquet with the columns query, document and, optionally, negative: a document
that does not belong to the query. Takes every argument of SentenceTransformerTrainingArguments or
CrossEncoderTrainingArguments, and those of Arguments. Rank 0 writes the model and all_results.json to --output_dir.
Runs on one rank or on many, as train_text.py. A wrong input gives one message and exit code 2.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from train_text import (
    InputError,
    agreed,
    be_quiet,
    begin_results,
    check_finite,
    check_steps,
    check_trained,
    ended,
    gather,
    parser,
    parts_of,
    write_results,
)

from ansible_collections.amx.cluster.plugins.module_utils._data import model_files, row_checks, sentence_models  # isort: skip (as above)


@dataclass
class Arguments:
    """Model, data and settings of the training."""

    model_name_or_path: str = field(metadata={"help": "model of the hub, or a local directory"})
    reranker: bool = field(default=False, metadata={"help": "train a cross-encoder, which scores pairs"})
    train_file: str = field(default="", metadata={"help": "CSV, JSON, JSON lines or Parquet"})
    validation_file: str = field(default="", metadata={"help": "CSV, JSON, JSON lines or Parquet"})
    max_seq_length: int = field(default=0, metadata={"help": "tokens of a text or pair; 0: what the model has"})
    negatives: int = field(default=4, metadata={"help": "documents of other rows for each row of a reranker"})
    gather_across_devices: bool = field(default=False, metadata={"help": "documents of all ranks are negatives, too"})
    candidates: int = field(default=100, metadata={"help": "documents among which an evaluation looks for a row's own"})
    max_train_samples: int = field(default=0, metadata={"help": "use only the first so many; 0: all"})
    max_eval_samples: int = field(default=0, metadata={"help": "use only the first so many; 0: all"})
    eval_before: bool = field(default=True, metadata={"help": "evaluate before training too"})


def read(data: Arguments) -> dict[str, dict[str, list[str]]]:
    """Return {split: {column: texts}} of the files, all rows checked. Raises InputError."""
    files = {"train": data.train_file, "validation": data.validation_file}
    most = {"train": data.max_train_samples, "validation": data.max_eval_samples}
    return {split: row_checks.related_texts(Path(path), most[split]) for split, path in files.items() if path}


def pairs(texts: dict[str, list[str]], negatives: int, seed: int) -> dict[str, list[Any]]:
    """Return rows of a reranker: each row's own document has the label 1, others 0.

    Those are the row's own negative, and so many documents of other rows that do not belong to the query.
    """
    draw, documents = random.Random(seed), sorted(set(texts["document"]))
    belong = row_checks.documents_by_query(texts)
    made = []
    for query, document, *own in zip(*texts.values()):
        left_out = {*belong[query], *own}
        drawn = draw.sample(documents, min(len(documents), negatives + len(left_out)))
        others = [*own, *[other for other in drawn if other not in left_out][:negatives]]
        made += [(query, document, 1.0), *((query, other, 0.0) for other in others)]
    return dict(zip(("query", "document", "label"), map(list, zip(*made))))


def check_settings(data: Arguments, training: Any, splits: dict[str, dict[str, list[str]]]) -> None:
    """Raise InputError for settings with which nothing would be learned or compared."""
    texts = splits.get("train", {})
    if data.candidates < 2:
        raise InputError(f"--candidates {data.candidates} are none to compare a row's own document with: 2 or more")
    if data.reranker and texts and data.negatives < (0 if row_checks.NEGATIVE in texts else 1):
        raise InputError(
            f"--negatives {data.negatives}: a reranker needs documents that do not answer a query: 1 or more"
        )
    if data.reranker or not texts:
        return
    is_distinct = str(getattr(training.batch_sampler, "value", "")) == "no_duplicates"
    problem = row_checks.batch_problem(texts, training.train_batch_size, is_distinct, data.gather_across_devices)
    if problem:
        raise InputError(f"--{problem}")


def load_model(data: Arguments) -> Any:
    """Return the model. Raises InputError for one that lacks weights, or whose result would not be served."""
    from sentence_transformers import CrossEncoder, SentenceTransformer
    from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

    name = data.model_name_or_path
    kind = AutoModelForSequenceClassification if data.reranker else AutoModel
    try:
        config = AutoConfig.from_pretrained(name, **({"num_labels": 1} if data.reranker else {}))
        sentence_models.described(Path(name), config.to_dict())
        model_files.load_weights(kind, name, config, new_head=data.reranker, without_pooler=not data.reranker)
        length = {"max_length" if data.reranker else "max_seq_length": data.max_seq_length or None}
        if data.reranker:
            return CrossEncoder(name, num_labels=1, device="cpu", local_files_only=True, **length)
        model = SentenceTransformer(name, device="cpu", local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"model {name}: {error}") from error
    model.max_seq_length = data.max_seq_length or model.max_seq_length
    return model


def quality(model: Any, texts: dict[str, list[str]], data: Arguments, training: Any) -> dict[str, float]:
    """Return at which place of candidates a row's own document is: the share at the first, and the mean of 1 / place.

    Candidates are documents that do not belong to the row's query. Each rank evaluates a part of the rows.
    """
    documents, places, belong = list(dict.fromkeys(texts["document"])), [], row_checks.documents_by_query(texts)
    mine = list(zip(*(texts[name] for name in row_checks.RELATED)))[training.process_index :: training.world_size]
    queries = [
        (query, [own, *islice((text for text in documents if text not in belong[query]), data.candidates - 1)])
        for query, own in mine
    ]
    if data.reranker:
        scores = iter(model.predict([(query, text) for query, among in queries for text in among]))
    else:
        import torch

        distinct = list(dict.fromkeys(text for query, among in queries for text in (query, *among)))
        vectors = dict(zip(distinct, model.encode(distinct, convert_to_tensor=True)))
    for query, among in queries:
        if data.reranker:
            own, *others = (float(next(scores)) for _text in among)
        else:
            near = model.similarity(vectors[query][None], torch.stack([vectors[text] for text in among]))[0]
            own, *others = near.tolist()
        places.append(sum(not other < own for other in others) + 1)  # also of what is no number
    placed = [place for part in gather(places) for place in part]
    return {
        "accuracy": sum(place == 1 for place in placed) / len(placed),
        "mrr": sum(1 / place for place in placed) / len(placed),
    }


def run(data: Arguments, training: Any) -> None:
    """Evaluate, train, evaluate, and write model and results on rank 0. Raises InputError on every rank alike."""
    import transformers
    from datasets import Dataset
    from sentence_transformers import CrossEncoderTrainer, SentenceTransformerTrainer
    from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    be_quiet(training)
    splits = agreed(lambda: read(data))
    will_train, will_evaluate = parts_of(training, splits)
    check_settings(data, training, splits)
    transformers.set_seed(training.seed)
    model = agreed(lambda: load_model(data))
    sets = {
        split: Dataset.from_dict(pairs(texts, data.negatives, training.seed) if data.reranker else texts)
        for split, texts in splits.items()
    }
    if will_train:
        check_steps(training, len(sets["train"]))
    if data.reranker and training.ddp_find_unused_parameters is None:
        # DistributedDataParallel finds no tensor in what a CrossEncoder returns, and takes all parameters for unused.
        training.ddp_find_unused_parameters = False
    kind: Any = CrossEncoderTrainer if data.reranker else SentenceTransformerTrainer
    loss = (
        BinaryCrossEntropyLoss(model)
        if data.reranker
        else MultipleNegativesRankingLoss(model, gather_across_devices=data.gather_across_devices)
    )
    trainer = kind(
        model=model, args=training, train_dataset=sets.get("train"), eval_dataset=sets.get("validation"), loss=loss
    )
    results = begin_results(trainer)

    def evaluate(prefix: str) -> None:
        measured = quality(model, splits["validation"], data, training)
        results.update({f"{prefix}_{name}": value for name, value in measured.items()})

    if will_evaluate and will_train and data.eval_before:
        evaluate("eval_before")
    if will_train:
        results.update(trainer.train(resume_from_checkpoint=training.resume_from_checkpoint).metrics)
        results["train_samples"] = len(splits["train"]["query"])
        agreed(lambda: check_trained(trainer, results))
        trainer.accelerator.unwrap_model(trainer.model_wrapped, keep_fp32_wrapper=False)
    if will_evaluate:
        evaluate("eval")
        results["eval_samples"] = len(splits["validation"]["query"])
    agreed(lambda: check_finite(results))
    if will_train and trainer.is_world_process_zero():
        model.save_pretrained(training.output_dir, create_model_card=False)
    write_results(trainer, results)


def training_arguments(words: Sequence[str]) -> Any:
    """Return the class of the arguments of a training. words: the command line. Raises InputError."""
    try:
        from sentence_transformers import CrossEncoderTrainingArguments, SentenceTransformerTrainingArguments
    except ImportError as error:
        raise InputError(f"the job needs requirements: [sentence-transformers==6.2.0]: {error}") from error
    reranker = parser(Arguments).parse_args_into_dataclasses(list(words), return_remaining_strings=True)[0].reranker
    return CrossEncoderTrainingArguments if reranker else SentenceTransformerTrainingArguments


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code, 2 for an input error."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    return ended("train_embeddings", run, Arguments, words, lambda: training_arguments(words))


if __name__ == "__main__":
    sys.exit(main())
