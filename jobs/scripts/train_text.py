# Copyright (c) 2026 The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fine-tune a transformer on text classification (one sentence or a pair) or on extractive question answering.

Takes every argument of Hugging Face TrainingArguments, and those of Arguments below. Data come
from GLUE (--task_name), the hub or a local directory (--dataset_name), or CSV and JSON files (--train_file,
--validation_file) with the columns sentence1, sentence2 (optional), label; or question, context, answers, as SQuAD's.
Without --do_train and --do_eval it does both. Rank 0 writes the model and all_results.json to --output_dir.

Runs on one rank, or on as many as RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT say (on CPUs with
--use_cpu --ddp_backend gloo). Ranks share no file system: each host needs its own copy of the input files.
A wrong input gives one message and exit code 2 before the model is loaded.
"""

from __future__ import annotations

import collections
import csv
import io
import json
import math
import os
import re
import socket
import string
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Columns of each GLUE task's sentences, as https://huggingface.co/datasets/nyu-mll/glue has them.
GLUE_COLUMNS: dict[str, tuple[str, ...]] = {
    "cola": ("sentence",),
    "mnli": ("premise", "hypothesis"),
    "mrpc": ("sentence1", "sentence2"),
    "qnli": ("question", "sentence"),
    "qqp": ("question1", "question2"),
    "rte": ("sentence1", "sentence2"),
    "sst2": ("sentence",),
    "stsb": ("sentence1", "sentence2"),
    "wnli": ("sentence1", "sentence2"),
}
QA_COLUMNS = ("question", "context", "answers")
# Pairs first: a table with both sentences is about both.
TEXT_COLUMNS = sorted({*GLUE_COLUMNS.values(), ("sentence1",), ("text",)}, key=lambda columns: (-len(columns), columns))


class InputError(ValueError):
    """Something that the person who started the job has to change."""


@dataclass
class Arguments:
    """What to train, and on what."""

    model_name_or_path: str = field(metadata={"help": "model of the hub, or a local directory"})
    from_scratch: bool = field(default=False, metadata={"help": "new weights from the model's configuration"})
    config_overrides: str = field(
        default="",
        metadata={"help": "changes to its configuration, such as hidden_dropout_prob=0"},
    )
    task: str = field(
        default="auto", metadata={"choices": ["auto", "classification", "qa"], "help": "auto: by columns"}
    )
    task_name: str = field(default="", metadata={"help": f"GLUE task: {', '.join(GLUE_COLUMNS)}"})
    dataset_name: str = field(default="", metadata={"help": "dataset of the hub, or a local directory"})
    dataset_config_name: str = field(default="", metadata={"help": "its configuration"})
    train_file: str = field(default="", metadata={"help": "CSV, JSON or JSON lines"})
    validation_file: str = field(default="", metadata={"help": "CSV, JSON or JSON lines"})
    max_seq_length: int = field(
        default=128, metadata={"help": "tokens; longer texts are cut (classification) or split"}
    )
    doc_stride: int = field(default=64, metadata={"help": "tokens that two parts of a split context share"})
    max_answer_length: int = field(default=30, metadata={"help": "tokens of a predicted answer"})
    max_train_samples: int = field(default=0, metadata={"help": "use only the first so many; 0: all"})
    max_eval_samples: int = field(default=0, metadata={"help": "use only the first so many; 0: all"})
    eval_before: bool = field(default=True, metadata={"help": "evaluate before training too"})


# ---------------------------------------------------------------------------------------------------------- metrics


def classification_metrics(task: str, predictions: Sequence[Any], labels: Sequence[Any]) -> dict[str, float]:
    """The metrics of a GLUE task; for other data (task "") accuracy and F1, or correlations for task "regression".

    `predictions` and `labels` are label numbers of shape (samples,), or values for stsb and regression. F1 is that of
    label 1 when there are no labels but 0 and 1, else the mean over the labels. What would be a division by zero is 0.
    """
    if task in ("stsb", "regression"):
        return {
            "pearson": pearson(predictions, labels),
            "spearmanr": pearson(ranking(predictions), ranking(labels)),
        }
    if task == "cola":  # Matthews' coefficient of two classes is the correlation of their numbers.
        return {"matthews_correlation": pearson(predictions, labels)}
    hits = [label for prediction, label in zip(predictions, labels) if prediction == label]
    metrics = {"accuracy": len(hits) / len(labels)}
    if task in ("mrpc", "qqp", ""):
        names = {*labels, *predictions}
        names = {1} if names <= {0, 1} else names
        scores = [2 * hits.count(x) / max(1, predictions.count(x) + labels.count(x)) for x in names]
        metrics["f1"] = sum(scores) / len(scores)
    return metrics


def pearson(one: Sequence[float], other: Sequence[float]) -> float:
    """Pearson's correlation of two equally long sequences; 0 if one of them is constant."""
    mean, other_mean = sum(one) / len(one), sum(other) / len(other)
    x, y = [value - mean for value in one], [value - other_mean for value in other]
    scale = math.sqrt(sum(value * value for value in x) * sum(value * value for value in y))
    return sum(a * b for a, b in zip(x, y)) / scale if scale else 0.0


def ranking(values: Sequence[float]) -> list[float]:
    """The rank of each value from 1; equal values share the mean of their ranks (Spearman's convention)."""
    ordered = sorted(values)
    first = {value: place for place, value in reversed(list(enumerate(ordered, 1)))}
    count = collections.Counter(values)
    return [first[value] + (count[value] - 1) / 2 for value in values]


def normalise_answer(text: str) -> str:
    """Lower case without punctuation, articles and superfluous blanks, as SQuAD's evaluation script compares."""
    text = "".join(character for character in text.lower() if character not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def exact_match(prediction: str, answer: str) -> float:
    """1.0 if the two are the same after `normalise_answer`, else 0.0."""
    return float(normalise_answer(prediction) == normalise_answer(answer))


def answer_f1(prediction: str, answer: str) -> float:
    """F1 over the words that the two have in common; with an empty one, 1.0 only if both are."""
    found, wanted = normalise_answer(prediction).split(), normalise_answer(answer).split()
    common = sum((collections.Counter(found) & collections.Counter(wanted)).values())
    if not found or not wanted:
        return float(found == wanted)
    return 2 * common / (len(found) + len(wanted))


def qa_metrics(predictions: dict[str, str], answers: dict[str, list[str]]) -> dict[str, float]:
    """Exact match and F1 in percent, each prediction against the best of its answers; none means no answer ("")."""
    totals = {"exact_match": 0.0, "f1": 0.0}
    for name, wanted in answers.items():
        for metric, score in (("exact_match", exact_match), ("f1", answer_f1)):
            totals[metric] += max(score(predictions[name], answer) for answer in wanted or [""])
    return {metric: 100 * total / len(answers) for metric, total in totals.items()}


def best_span(
    start: Sequence[float],
    end: Sequence[float],
    offsets: Sequence[Sequence[int] | None],
    max_length: int,
    candidates: int = 20,
) -> tuple[float, tuple[int, int]] | None:
    """The best answer in one part of a context: (score, (first character, character after the last)).

    `start` and `end` are logits by token, of which only the first len(offsets) count; `offsets` are the characters of
    each token in the context, None for tokens outside it. None is returned when no span of at most `max_length` tokens
    is among the best `candidates` starts and ends.
    """
    inside = [token for token, offset in enumerate(offsets) if offset is not None]
    starts = sorted(inside, key=lambda token: -start[token])[:candidates]
    ends = sorted(inside, key=lambda token: -end[token])[:candidates]
    spans = [(float(start[i] + end[j]), (i, j)) for i in starts for j in ends if i <= j < i + max_length]
    if not spans:
        return None
    score, (i, j) = max(spans)
    first, last = offsets[i], offsets[j]
    assert first is not None and last is not None
    return score, (first[0], last[1])


# ------------------------------------------------------------------------------------------------------------- data


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV, JSON or JSON-lines file; SQuAD's nesting (data, paragraphs, qas) is flattened.

    CSV values stay strings ("null" and "NA" are words). Raises InputError for a file that is missing or malformed.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix == ".csv":
            rows: Any = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
        elif path.suffix in (".json", ".jsonl"):
            lines = path.suffix == ".jsonl" or not re.match(r"\s*(\[|\{\s*\"(version|data)\"\s*:)", text)
            # Not splitlines(), to which U+2028 within a text is a line's end as well.
            rows = [json.loads(line) for line in text.split("\n") if line.strip()] if lines else json.loads(text)
        else:
            raise InputError(f"{path}: the name must end in .csv, .json or .jsonl")
    except (OSError, UnicodeDecodeError, csv.Error, json.JSONDecodeError) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    if isinstance(rows, dict):
        rows = rows.get("data", rows)
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path}: expected rows with named columns, at least one")
    if "paragraphs" in rows[0]:
        rows = [squad_row(part, qa) for article in rows for part in article["paragraphs"] for qa in part["qas"]]
    for number, row in enumerate(rows, 1):
        missing = [str(name) for name in rows[0] if row.get(name) is None] + ["too many values"] * (None in row)
        if missing:
            raise InputError(f"{path}: row {number} differs from the first: {', '.join(missing)}")
    return rows


def squad_row(paragraph: dict[str, Any], qa: dict[str, Any]) -> dict[str, Any]:
    """One question of a SQuAD paragraph as a flat row."""
    answers = {key: [answer[key] for answer in qa["answers"]] for key in ("text", "answer_start")}
    return {"id": qa["id"], "question": qa["question"], "context": paragraph["context"], "answers": answers}


def number_labels(labels: Iterable[Any], source: str) -> tuple[list[Any], Callable[[Any], int]]:
    """The names of labels in the order of their numbers, and what turns a label into its number.

    Whole numbers, also as text, sort as numbers, everything else as text.
    The function raises InputError for a label that is not among `labels`; `source` is where those come from.
    """
    names = {str(label) for label in labels}
    ordered = sorted(names, key=int) if all(re.fullmatch(r"-?\d+", name) for name in names) else sorted(names)
    numbers = {name: number for number, name in enumerate(ordered)}

    def number_of(label: Any) -> int:
        if str(label) not in numbers:
            raise InputError(f"label {label!r} is not among the labels of {source}: {', '.join(ordered)}")
        return numbers[str(label)]

    return ordered, number_of


def load_splits(data: Arguments) -> dict[str, Any]:
    """The datasets `train` and `validation`, as far as there are such, with the columns of their source.

    Raises InputError when nothing is named, or when what is named cannot be read.
    """
    if data.task_name and data.task_name not in GLUE_COLUMNS:
        raise InputError(f"--task_name {data.task_name}: expected one of {', '.join(GLUE_COLUMNS)}")
    files = {"train": data.train_file, "validation": data.validation_file}
    if not any((*files.values(), data.dataset_name, data.task_name)):
        raise InputError("one of --task_name, --dataset_name and --train_file is needed")
    from datasets import Dataset, load_dataset, load_from_disk

    if any(files.values()):
        return {split: Dataset.from_list(read_rows(Path(name))) for split, name in files.items() if name}
    name = data.dataset_name or "nyu-mll/glue"
    configuration = data.dataset_config_name or (None if data.dataset_name else data.task_name)
    try:
        if any(Path(name, marker).is_file() for marker in ("dataset_dict.json", "state.json")):
            found = load_from_disk(name)
        else:
            found = load_dataset(name, configuration)
    except Exception as error:  # Whatever the library raises, it is about this name.
        raise InputError(f"dataset {name} {configuration or ''}: {error}") from error
    if isinstance(found, Dataset):
        return {"train": found}
    sources = {"train": ("train",), "validation": ("validation", "validation_matched")}
    return {split: found[name] for split, names in sources.items() for name in names if name in found}


@dataclass
class Prepared:
    """What the Trainer needs besides the model: rows and features by split, the configuration and the metrics."""

    rows: dict[str, Any]
    features: dict[str, Any]
    config: Any
    tokenizer: Any
    question_answering: bool
    compute_metrics: Callable[[Any], dict[str, float]]


def prepare(data: Arguments) -> Prepared:
    """Read, check and tokenise the data. Raises InputError for everything that is wrong with them."""
    from transformers import AutoConfig, AutoTokenizer

    splits = load_splits(data)
    if not splits:
        raise InputError("the dataset has neither a train nor a validation split")
    columns = next(iter(splits.values())).column_names
    try:
        config = AutoConfig.from_pretrained(data.model_name_or_path)
        tokenizer = AutoTokenizer.from_pretrained(data.model_name_or_path)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"model {data.model_name_or_path}: {error}") from error
    try:
        if data.config_overrides:
            config.update_from_string(data.config_overrides)
    except ValueError as error:
        raise InputError(f"--config_overrides {data.config_overrides}: expected name=value,...: {error}") from error
    data.max_seq_length = min(data.max_seq_length, tokenizer.model_max_length)
    questions = data.task == "qa" or (data.task == "auto" and set(QA_COLUMNS) <= set(columns))
    if questions:
        check_questions(splits, exact=bool(data.train_file or data.validation_file))
    for split, samples in (("train", data.max_train_samples), ("validation", data.max_eval_samples)):
        if split in splits and samples:
            splits[split] = splits[split].select(range(min(samples, len(splits[split]))))
    return (prepare_questions if questions else prepare_texts)(splits, data, config, tokenizer)


def prepare_texts(splits: dict[str, Any], data: Arguments, config: Any, tokenizer: Any) -> Prepared:
    """Tokenise sentences and number their labels; sets the labels in `config`."""
    candidates = [GLUE_COLUMNS[data.task_name]] if data.task_name else TEXT_COLUMNS
    for split, dataset in splits.items():
        candidates = [columns for columns in candidates if set(columns) <= set(dataset.column_names)]
        if not candidates or "label" not in dataset.column_names:
            wanted = "/".join(GLUE_COLUMNS.get(data.task_name, ("sentence1", "sentence2 (optional)")))
            raise InputError(
                f"{split} data need the columns {wanted} and label, but have: {', '.join(dataset.column_names)}"
            )
    columns = candidates[0]
    source = splits["train"] if "train" in splits else splits["validation"]
    values = set(source["label"])
    names = getattr(source.features["label"], "names", None)
    regression = data.task_name == "stsb" or any("." in str(value) and is_number(value) for value in values)
    if regression:
        number_of: Callable[[Any], Any] = float
        config.num_labels, config.problem_type = 1, "regression"
    else:
        known = set(map(str, config.id2label.values()))
        if "train" not in splits and set(map(str, values)) <= known:  # Evaluation alone keeps the model's own numbers.
            number_of = {str(name): number for number, name in config.id2label.items()}.__getitem__
        else:
            ordered, number_of = number_labels(range(len(names)) if names else values, "the training data")
            config.label2id = {str(name): number for number, name in enumerate(names or ordered)}
            config.id2label = {number: name for name, number in config.label2id.items()}
    for split, dataset in splits.items():
        for value in set(dataset["label"]):
            try:
                number_of(value)
            except (ValueError, KeyError) as error:
                raise InputError(f"{split} data: {error}") from error

    def tokenise(batch: Any) -> dict[str, Any]:
        encoded = tokenizer(*(batch[column] for column in columns), truncation=True, max_length=data.max_seq_length)
        return {**encoded, "labels": [number_of(label) for label in batch["label"]]}

    def compute_metrics(evaluated: Any) -> dict[str, float]:
        logits = evaluated.predictions[0] if isinstance(evaluated.predictions, tuple) else evaluated.predictions
        predictions = logits[:, 0] if regression else logits.argmax(axis=-1)
        task = "regression" if regression else data.task_name
        return classification_metrics(task, predictions.tolist(), evaluated.label_ids.tolist())

    features = {
        split: rows.map(tokenise, batched=True, remove_columns=rows.column_names) for split, rows in splits.items()
    }
    return Prepared(splits, features, config, tokenizer, False, compute_metrics)


def is_number(value: Any) -> bool:
    """Whether float() takes the value."""
    try:
        float(value)
    except ValueError:
        return False
    return True


def check_questions(splits: dict[str, Any], exact: bool) -> None:
    """Raise InputError for question-answering data of another form; `exact`: answers must stand where they say."""
    for split, dataset in splits.items():
        missing = [column for column in QA_COLUMNS if column not in dataset.column_names]
        if missing:
            raise InputError(f"{split} data lack {', '.join(missing)}; they have: {', '.join(dataset.column_names)}")
        for number, row in enumerate(dataset, 1):
            answers = row["answers"]
            if not isinstance(answers, dict) or not {"text", "answer_start"} <= set(answers):
                raise InputError(
                    f"{split} data, row {number}: answers must have text and answer_start, not {answers!r}"
                )
            for text, start in zip(answers["text"], answers["answer_start"]):
                if exact and row["context"][start : start + len(text)] != text:
                    raise InputError(f"{split} data, row {number}: answer {text!r} is not at {start} in the context")


def prepare_questions(splits: dict[str, Any], data: Arguments, config: Any, tokenizer: Any) -> Prepared:
    """Tokenise questions with their contexts, split into overlapping parts that fit, and locate the answers in them."""
    longest_question = data.max_seq_length - data.doc_stride - 8  # Special tokens, and a context that moves on.
    if longest_question < 8:
        raise InputError(f"--max_seq_length {data.max_seq_length} is too short for --doc_stride {data.doc_stride}")
    if not tokenizer.is_fast:
        raise InputError("question answering needs a fast tokenizer (tokenizer.json), this model has none")
    tokenizer.padding_side = "right"

    def tokenise(batch: Any, indices: list[int]) -> dict[str, Any]:
        questions = [question.strip() for question in batch["question"]]
        offsets = tokenizer(questions, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        questions = [
            text[: where[:longest_question][-1][1]] if where else text for text, where in zip(questions, offsets)
        ]
        encoded = tokenizer(
            questions,
            batch["context"],
            truncation="only_second",
            max_length=data.max_seq_length,
            stride=data.doc_stride,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        sources = encoded.pop("overflow_to_sample_mapping")
        offsets = encoded.pop("offset_mapping")
        where = [
            [list(offset) if inside == 1 else None for inside, offset in zip(encoded.sequence_ids(part), offsets[part])]
            for part in range(len(sources))
        ]
        # Where a part does not hold the answer, point at its first token, as BERT does.
        spans = [locate(batch["answers"][source], part) or (0, 0) for source, part in zip(sources, where)]
        return {
            **encoded,
            "sample": [indices[source] for source in sources],
            "offsets": where,
            "start_positions": [start for start, end in spans],
            "end_positions": [end for start, end in spans],
        }

    features = {
        split: rows.map(tokenise, batched=True, with_indices=True, remove_columns=rows.column_names)
        for split, rows in splits.items()
    }

    def compute_metrics(evaluated: Any) -> dict[str, float]:
        rows, parts = splits["validation"], features["validation"]
        answers = {str(number): row["text"] for number, row in enumerate(rows["answers"])}
        may_lack = not all(answers.values())
        best: dict[str, tuple[float, str]] = {}
        lacking: dict[str, float] = {}
        contexts = rows["context"]
        for sample, offsets, start, end in zip(parts["sample"], parts["offsets"], *evaluated.predictions[:2]):
            span = best_span(start.tolist(), end.tolist(), offsets, data.max_answer_length)
            name = str(sample)
            lacking[name] = min(lacking.get(name, float("inf")), float(start[0] + end[0]))
            if span and (name not in best or span[0] > best[name][0]):
                best[name] = span[0], contexts[sample][slice(*span[1])]
        predictions = {
            name: "" if name not in best or (may_lack and lacking[name] > best[name][0]) else best[name][1]
            for name in answers
        }
        return qa_metrics(predictions, answers)

    return Prepared(splits, features, config, tokenizer, True, compute_metrics)


def locate(answers: dict[str, list[Any]], offsets: Sequence[Sequence[int] | None]) -> tuple[int, int] | None:
    """First and last token of the first answer; None if it is not wholly within these tokens, or there is none."""
    if not answers["text"]:
        return None
    first = answers["answer_start"][0]
    last = first + len(answers["text"][0])
    covered = [(where, token) for token, where in enumerate(offsets) if where and where[0] < last and where[1] > first]
    if not covered or covered[0][0][0] > first or covered[-1][0][1] < last:
        return None
    return covered[0][1], covered[-1][1]


# ---------------------------------------------------------------------------------------------------------- running


def gather(value: Any) -> list[Any]:
    """The value of every rank, by rank."""
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        return [value]
    values = [None] * distributed.get_world_size()
    distributed.all_gather_object(values, value)
    return values


def agreed(step: Callable[[], Any]) -> Any:
    """The step's result, if it succeeded on every rank; else raise on every rank what went wrong and where."""
    result, problem = None, ""
    try:
        result = step()
    except InputError as error:
        problem = str(error)
    hosts: dict[str, dict[str, None]] = {}
    for host, message in gather((socket.gethostname(), problem)):
        if message:
            hosts.setdefault(message, {})[host] = None
    if hosts:
        raise InputError("; ".join(f"{', '.join(names)}: {message}" for message, names in hosts.items()))
    return result


def parse(arguments: Sequence[str], kind: type = Arguments) -> tuple[Any, Any]:
    """Parse the command line as (`kind`, TrainingArguments), which also forms the group of ranks.

    Raises InputError for a wrong argument.
    """
    from transformers import HfArgumentParser, TrainingArguments

    def refuse(message: str) -> None:
        raise InputError(message)

    parser = HfArgumentParser((kind, TrainingArguments))
    parser.error = refuse  # argparse would print the usage, which is all of TrainingArguments, on every rank.
    try:
        data, training = parser.parse_args_into_dataclasses(list(arguments))
    except ValueError as error:
        raise InputError(str(error)) from error
    if training.output_dir is None:
        raise InputError("--output_dir is needed")
    launched = int(os.environ.get("WORLD_SIZE", "1"))
    if training.world_size != launched:
        raise InputError(
            f"{launched} ranks were started, but this one is in a group of {training.world_size}: "
            "on CPUs a group is only formed with --use_cpu --ddp_backend gloo"
        )
    return data, training


def load_model(data: Arguments, prepared: Prepared) -> Any:
    """The model in fp32 (the optimiser's copy; --bf16 computes in bf16 besides)."""
    from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification

    kind = AutoModelForQuestionAnswering if prepared.question_answering else AutoModelForSequenceClassification
    try:
        if data.from_scratch:
            return kind.from_config(prepared.config).float()
        return kind.from_pretrained(data.model_name_or_path, config=prepared.config).float()
    except (OSError, ValueError) as error:
        raise InputError(f"model {data.model_name_or_path}: {error}") from error


def be_quiet(training: Any) -> None:
    """Show no progress bars in a log, and no messages of ranks other than 0."""
    import datasets
    import transformers

    if not sys.stdout.isatty():
        training.disable_tqdm = True
        datasets.disable_progress_bars()
        transformers.utils.logging.disable_progress_bar()
    if training.process_index:
        transformers.utils.logging.set_verbosity_error()


def evaluate_before(trainer: Any) -> dict[str, float]:
    """Return the metrics of the untrained model, and leave the trainer able to train."""
    metrics: dict[str, float] = trainer.evaluate(metric_key_prefix="eval_before")
    # accelerate 1.15 marks a model that it prepared for evaluation as prepared for everything: training would not
    # wrap it in DistributedDataParallel, and each rank would train a model of its own, without a word.
    trainer.accelerator.free_memory()
    vars(trainer.model).pop("_is_accelerate_prepared", None)
    return metrics


def begin_results(trainer: Any) -> dict[str, Any]:
    """Return what all results begin with, and print which ranks there are."""
    hosts = gather(socket.gethostname())
    if trainer.is_world_process_zero():
        print(f"ranks={len(hosts)} hosts={','.join(dict.fromkeys(hosts))} device={trainer.args.device}", flush=True)
    return {"world_size": trainer.args.world_size, "rank_hosts": hosts}


def write_results(trainer: Any, results: dict[str, Any]) -> None:
    """Write all_results.json on rank 0."""
    if trainer.is_world_process_zero():
        output = Path(trainer.args.output_dir)
        output.mkdir(parents=True, exist_ok=True)
        (output / "all_results.json").write_text(json.dumps(results, indent=4, sort_keys=True) + "\n", encoding="utf-8")


def parts_of(training: Any, splits: Iterable[str]) -> tuple[bool, bool]:
    """Return (whether to train, whether to evaluate). Raises InputError where there are no data for it."""
    will_evaluate = training.do_eval or not training.do_train
    # An --eval_strategy sets do_eval: that alone does not mean evaluation only.
    will_train = training.do_train or not training.do_eval or str(training.eval_strategy.value) != "no"
    for wanted, split in ((will_train, "train"), (will_evaluate, "validation")):
        if wanted and split not in splits:
            raise InputError(f"there are no {split} data (name them, or choose --do_train or --do_eval alone)")
    return will_train, will_evaluate


def run(data: Arguments, training: Any) -> None:
    """Prepare, evaluate, train, evaluate, and write the results on rank 0. Raises InputError on every rank alike."""
    import transformers

    be_quiet(training)
    # Only what is downloaded is shared by a host's ranks: one of them first.
    cached = nullcontext() if data.train_file or data.validation_file else training.main_process_first(local=True)

    def prepare_first() -> Prepared:
        with cached:
            return prepare(data)

    prepared = agreed(prepare_first)
    will_train, will_evaluate = parts_of(training, prepared.features)
    transformers.set_seed(training.seed)
    model = agreed(lambda: load_model(data, prepared))
    trainer = transformers.Trainer(
        model=model,
        args=training,
        train_dataset=prepared.features.get("train"),
        eval_dataset=prepared.features.get("validation"),
        processing_class=prepared.tokenizer,
        data_collator=transformers.DataCollatorWithPadding(prepared.tokenizer),
        compute_metrics=prepared.compute_metrics,
    )
    # The losses of these models are means over a batch. Trainer takes every model whose forward() has **kwargs for one
    # that divides by the items of all batches, and would multiply the loss by ranks and accumulation steps.
    trainer.model_accepts_loss_kwargs = False
    results = begin_results(trainer)
    if will_evaluate and will_train and data.eval_before:
        results.update(evaluate_before(trainer))
    if will_train:
        results.update(trainer.train(resume_from_checkpoint=training.resume_from_checkpoint).metrics)
        results["train_samples"] = len(prepared.rows["train"])
        trainer.save_model()
    if will_evaluate:
        results.update(trainer.evaluate(metric_key_prefix="eval"))
        results["eval_samples"] = len(prepared.rows["validation"])
    write_results(trainer, results)


def ended(name: str, runs: Callable[[Any, Any], None], kind: type, arguments: Sequence[str] | None) -> int:
    """Run a script's `runs` with its command line; returns the exit code, 2 for an input error, which rank 0 prints."""
    from torch import distributed

    try:
        runs(*parse(sys.argv[1:] if arguments is None else arguments, kind))
    except InputError as error:
        if os.environ.get("RANK", "0") == "0":
            print(f"{name}: {error}", file=sys.stderr, flush=True)
        return 2
    finally:
        if distributed.is_available() and distributed.is_initialized():
            distributed.destroy_process_group()
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code, 2 for an input error."""
    return ended("train_text", run, Arguments, arguments)


if __name__ == "__main__":
    sys.exit(main())
