# Copyright (c) 2026 The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fine-tune a transformer on text classification (one sentence or a pair) or on extractive question answering.

Takes every argument of Hugging Face TrainingArguments, and those of Arguments below. Data come
from GLUE (--task_name), the hub or a local directory (--dataset_name), or CSV, JSON and Parquet files (--train_file,
--validation_file) with the columns sentence1, sentence2 (optional), label; or question, context, answers, as SQuAD's.
Without --do_train and --do_eval it does both. Rank 0 writes the model and all_results.json to --output_dir.

Runs on one rank, or on as many as RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT say (on CPUs with
--use_cpu --ddp_backend gloo). Ranks share no file system: each host needs its own copy of the input files.
A wrong input gives one message and exit code 2 before the model is loaded; so does a training that made no step, or
ended in numbers that are not finite. Needs the collection: ranks of a job import it from the runtime.
"""

from __future__ import annotations

import collections
import json
import math
import os
import re
import socket
import string
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

try:
    from ansible_collections.amx.cluster.plugins.module_utils._data import model_files, row_checks, rows
    from ansible_collections.amx.cluster.plugins.module_utils._data.answers import best_span
except ImportError:  # outside of a job: in a checkout, or in a collection that is installed
    _HERE = Path(__file__).resolve().parents
    sys.path += [str(_HERE[2] / ".collections"), *map(str, _HERE[5:6])]
    from ansible_collections.amx.cluster.plugins.module_utils._data import model_files, row_checks, rows
    from ansible_collections.amx.cluster.plugins.module_utils._data.answers import best_span

# Something that the person who started the job has to change.
InputError = rows.DataError
read_rows, is_blank = rows.placed, rows.is_blank

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


@dataclass
class Arguments:
    """Model, data and settings of the training."""

    model_name_or_path: str = field(metadata={"help": "model of the hub, or a local directory"})
    from_scratch: bool = field(default=False, metadata={"help": "new weights from the model's configuration"})
    config_overrides: str = field(
        default="",
        metadata={"help": "changes to its configuration, such as hidden_dropout_prob=0"},
    )
    task: str = field(
        default="auto",
        metadata={
            "choices": ["auto", "classification", "regression", "qa"],
            "help": "auto: by columns, and a regression where labels are decimal numbers",
        },
    )
    task_name: str = field(default="", metadata={"help": f"GLUE task: {', '.join(GLUE_COLUMNS)}"})
    dataset_name: str = field(default="", metadata={"help": "dataset of the hub, or a local directory"})
    dataset_config_name: str = field(default="", metadata={"help": "its configuration"})
    train_file: str = field(default="", metadata={"help": "CSV, JSON, JSON lines or Parquet"})
    validation_file: str = field(default="", metadata={"help": "CSV, JSON, JSON lines or Parquet"})
    max_seq_length: int = field(
        default=0,
        metadata={"help": "tokens; longer texts are cut (classification) or split; 0: 128, or what the model has"},
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


def pearson(first: Sequence[float], other: Sequence[float]) -> float:
    """Pearson's correlation of two equally long sequences; 0 if one of them is constant."""
    mean, other_mean = sum(first) / len(first), sum(other) / len(other)
    x, y = [value - mean for value in first], [value - other_mean for value in other]
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
    predicted, wanted = normalise_answer(prediction).split(), normalise_answer(answer).split()
    common = sum((collections.Counter(predicted) & collections.Counter(wanted)).values())
    if not predicted or not wanted:
        return float(predicted == wanted)
    return 2 * common / (len(predicted) + len(wanted))


def qa_metrics(predictions: dict[str, str], answers: dict[str, list[str]]) -> dict[str, float]:
    """Exact match and F1 in percent, each prediction against the best of its answers; none means no answer ("")."""
    totals = {"exact_match": 0.0, "f1": 0.0}
    for name, wanted in answers.items():
        for metric, score in (("exact_match", exact_match), ("f1", answer_f1)):
            totals[metric] += max(score(predictions[name], answer) for answer in wanted or [""])
    return {metric: 100 * total / len(answers) for metric, total in totals.items()}


# ------------------------------------------------------------------------------------------------------------- data


def load_splits(data: Arguments) -> tuple[str, tuple[str, ...], dict[str, Any]]:
    """Return (the task, the columns with texts, the datasets `train` and `validation`, as far as there are such).

    The task is classification, regression or qa, and all rows have what it needs. Raises InputError when nothing is
    named, when what is named cannot be read, and for what is wrong with a row.
    """
    if data.task_name and data.task_name not in GLUE_COLUMNS:
        raise InputError(f"--task_name {data.task_name}: expected one of {', '.join(GLUE_COLUMNS)}")
    most = {"train": data.max_train_samples, "validation": data.max_eval_samples}
    for name, samples in (("max_train_samples", most["train"]), ("max_eval_samples", most["validation"])):
        if samples < 0:
            raise InputError(f"--{name} {samples}: expected 0, which is all, or more")
    files = {"train": data.train_file, "validation": data.validation_file}
    if not any((*files.values(), data.dataset_name, data.task_name)):
        raise InputError("one of --task_name, --dataset_name and --train_file is needed")
    task, texts = data.task, GLUE_COLUMNS.get(data.task_name, ())
    if data.task_name:
        task = row_checks.REGRESSION if data.task_name == "stsb" else row_checks.CLASSIFICATION
    from datasets import Dataset

    if any(files.values()):
        paths = {split: Path(name) for split, name in files.items() if name}
        task, columns, tables = row_checks.training_tables(paths, task, texts, most)
        return task, columns, {split: Dataset.from_dict(usable(table, task)) for split, table in tables.items()}
    splits = load_published(data)
    if not splits:
        raise InputError("the dataset has neither a train nor a validation split")
    task, columns = row_checks.choose_columns(
        task, {split: dataset.column_names for split, dataset in splits.items()}, texts
    )
    splits = {
        split: dataset.select(range(min(most[split] or len(dataset), len(dataset))))
        for split, dataset in splits.items()
    }
    used = columns if task == row_checks.QA else (*columns, row_checks.LABEL)
    tables = {
        split: row_checks.Table(f"{split} data", {column: dataset[column] for column in used})
        for split, dataset in splits.items()
    }
    return row_checks.check_tables(tables, task, columns, class_names(splits), published=True), columns, splits


def class_names(splits: dict[str, Any]) -> list[str]:
    """Return the names of classes that a dataset of the hub declares; its labels are their numbers. Empty for none."""
    features = next(iter(splits.values())).features
    return list(getattr(features.get(row_checks.LABEL), "names", None) or [])


def usable(table: row_checks.Table, task: str) -> dict[str, list[Any]]:
    """Return the columns of a file's table, each with values of one type."""
    columns = {name: list(values) for name, values in table.columns.items()}
    if task == row_checks.QA:
        columns["answers"] = [
            {key: list(answers[key]) for key in ("text", "answer_start")} for answers in columns["answers"]
        ]
    else:
        convert: Callable[[Any], Any] = row_checks.target if task == row_checks.REGRESSION else row_checks.name_of
        columns[row_checks.LABEL] = [convert(label) for label in columns[row_checks.LABEL]]
    return columns


def load_published(data: Arguments) -> dict[str, Any]:
    """The datasets `train` and `validation` of the hub or of a local directory. Raises InputError."""
    from datasets import Dataset, load_dataset, load_from_disk

    name = data.dataset_name or "nyu-mll/glue"
    configuration = data.dataset_config_name or (None if data.dataset_name else data.task_name)
    try:
        if any(Path(name, marker).is_file() for marker in ("dataset_dict.json", "state.json")):
            dataset = load_from_disk(name)
        else:
            dataset = load_dataset(name, configuration)
    except Exception as error:  # Whatever the library raises, it is about this name.
        raise InputError(f"dataset {name} {configuration or ''}: {error}") from error
    if isinstance(dataset, Dataset):
        return {"train": dataset}
    sources = {"train": ("train",), "validation": ("validation", "validation_matched")}
    return {split: dataset[name] for split, names in sources.items() for name in names if name in dataset}


@dataclass
class Prepared:
    """Input of the Trainer besides the model: rows and features by split, the configuration and the metrics."""

    rows: dict[str, Any]
    features: dict[str, Any]
    config: Any
    tokenizer: Any
    question_answering: bool
    compute_metrics: Callable[[Any], dict[str, float]]


def prepare(data: Arguments) -> Prepared:
    """Read, check and tokenise the data. Raises InputError for everything that is wrong with them."""
    from transformers import AutoConfig, AutoTokenizer

    task, columns, splits = load_splits(data)
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
    data.max_seq_length = model_files.sequence_length(data.max_seq_length, config, tokenizer)
    model_files.set_padding(tokenizer, config)
    if task == row_checks.QA:
        return prepare_questions(splits, data, config, tokenizer)
    return prepare_texts(splits, columns, task == row_checks.REGRESSION, data, config, tokenizer)


def numbers_by_name(numbers: dict[str, int]) -> Callable[[Any], int]:
    """Return the function that gives the number of a label's name."""

    def number_of(label: Any) -> int:
        return numbers[row_checks.name_of(label)]

    return number_of


def prepare_texts(
    splits: dict[str, Any], columns: Sequence[str], regression: bool, data: Arguments, config: Any, tokenizer: Any
) -> Prepared:
    """Tokenise sentences and number their labels; sets the labels in `config`."""
    source = splits.get("train") or splits["validation"]
    names = class_names(splits)
    if regression:
        number_of: Callable[[Any], Any] = float
        config.num_labels, config.problem_type = 1, "regression"
    elif names:
        number_of = int
    else:
        table = row_checks.Table("the data", {row_checks.LABEL: source[row_checks.LABEL]})
        own = {str(name): number for number, name in config.id2label.items()}
        if "train" in splits or not set(map(row_checks.name_of, table.columns[row_checks.LABEL])) <= set(own):
            names = row_checks.classes(table)
        else:  # Evaluation alone keeps the model's own numbers.
            number_of = numbers_by_name(own)
    if names:
        config.label2id = {name: number for number, name in enumerate(names)}
        config.id2label = dict(enumerate(names))
        if not class_names(splits):
            number_of = numbers_by_name(config.label2id)

    def tokenise(batch: Any) -> dict[str, Any]:
        encoded = tokenizer(*(batch[column] for column in columns), truncation=True, max_length=data.max_seq_length)
        model_files.check_tokens(encoded["input_ids"], config, tokenizer)
        kept = model_files.without_types(encoded, config)
        return {**kept, "labels": [number_of(label) for label in batch["label"]]}

    def compute_metrics(evaluated: Any) -> dict[str, float]:
        logits = evaluated.predictions[0] if isinstance(evaluated.predictions, tuple) else evaluated.predictions
        predictions = logits[:, 0] if regression else logits.argmax(axis=-1)
        task = "regression" if regression else data.task_name
        return classification_metrics(task, predictions.tolist(), evaluated.label_ids.tolist())

    features = {
        split: rows.map(tokenise, batched=True, remove_columns=rows.column_names) for split, rows in splits.items()
    }
    return Prepared(splits, features, config, tokenizer, False, compute_metrics)


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
        model_files.check_tokens(encoded["input_ids"], config, tokenizer)
        sources = encoded.pop("overflow_to_sample_mapping")
        offsets = encoded.pop("offset_mapping")
        where = [
            [list(offset) if inside == 1 else None for inside, offset in zip(encoded.sequence_ids(part), offsets[part])]
            for part in range(len(sources))
        ]
        # Where a part does not hold the answer, point at its first token, as BERT does.
        spans = [locate(batch["answers"][source], part) or (0, 0) for source, part in zip(sources, where)]
        return {
            **model_files.without_types(encoded, config),
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
        missing: dict[str, float] = {}
        contexts = rows["context"]
        for sample, offsets, start, end in zip(parts["sample"], parts["offsets"], *evaluated.predictions[:2]):
            span = best_span(start.tolist(), end.tolist(), offsets, data.max_answer_length)
            name = str(sample)
            missing[name] = min(missing.get(name, float("inf")), float(start[0] + end[0]))
            if span and (name not in best or span[0] > best[name][0]):
                best[name] = span[0], contexts[sample][slice(*span[1])]
        predictions = {
            name: "" if name not in best or (may_lack and missing[name] > best[name][0]) else best[name][1]
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
    """The step's result, if it succeeded on every rank; else raise InputError on every rank: what went wrong and where.

    Whatever is raised: a rank that ended alone would leave the others waiting for it.
    """
    result, problem = None, ""
    try:
        result = step()
    except InputError as error:
        problem = str(error)
    except Exception as error:
        traceback.print_exc()
        problem = f"{type(error).__name__}: {error}"
    hosts: dict[str, dict[str, None]] = {}
    for host, message in gather((socket.gethostname(), problem)):
        if message:
            hosts.setdefault(message, {})[host] = None
    if hosts:
        raise InputError("; ".join(f"{', '.join(names)}: {message}" for message, names in hosts.items()))
    return result


def parser(*kinds: type) -> Any:
    """Return what parses a command line as these dataclasses, and raises InputError or ValueError for wrong ones."""
    from transformers import HfArgumentParser

    def refuse(message: str) -> None:
        raise InputError(message)

    made = HfArgumentParser(kinds)
    made.error = refuse  # argparse would print the usage, which is all of TrainingArguments, on every rank.
    return made


def training_arguments() -> Any:
    """Return the class of the arguments of a training."""
    from transformers import TrainingArguments

    return TrainingArguments


def parse(
    arguments: Sequence[str], kind: type = Arguments, of_training: Callable[[], Any] = training_arguments
) -> tuple[Any, Any]:
    """Parse the command line as (`kind`, what `of_training` returns), which also forms the group of ranks.

    Raises InputError for a wrong argument.
    """
    try:
        data, training = parser(kind, of_training()).parse_args_into_dataclasses(list(arguments))
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
    if data.from_scratch:
        return kind.from_config(prepared.config).float()
    model, new = model_files.load_weights(
        kind, data.model_name_or_path, prepared.config, new_head=True, fewer_layers=bool(data.config_overrides)
    )
    if new and os.environ.get("RANK", "0") == "0":
        print(f"new weights, to be trained: {model_files.listed(new)}", flush=True)
    return model.float()


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
    # Its time is taken off that of each evaluation that follows, though only this one has prepared the model.
    vars(trainer).pop("model_preparation_time", None)
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


def check_steps(training: Any, count: int) -> None:
    """Raise InputError for a training on so many rows that would make no step."""
    batch = training.train_batch_size * training.world_size
    if training.dataloader_drop_last and count < batch:
        raise InputError(
            f"{count} rows of training data are no batch of {batch} ({training.world_size} ranks of "
            f"{training.train_batch_size}), and --dataloader_drop_last leaves out what is less: no step would be made"
        )


def check_trained(trainer: Any, results: dict[str, Any]) -> None:
    """Raise InputError where a training made no step, or its model or metrics have numbers that are not finite."""
    import torch

    training = trainer.args
    if not trainer.state.global_step:
        raise InputError(
            f"no step was made: --num_train_epochs is {training.num_train_epochs:g}, --max_steps {training.max_steps}"
        )
    wrong = [name for name, value in results.items() if isinstance(value, float) and not math.isfinite(value)]
    wrong += [
        name for name, parameter in trainer.model.named_parameters() if not torch.isfinite(parameter.detach()).all()
    ][:3]
    if wrong:
        raise InputError(
            f"the training ended in numbers that are not finite ({', '.join(wrong)}): is --learning_rate "
            f"{training.learning_rate:g} too high? No model was written"
        )


def check_finite(results: dict[str, Any]) -> None:
    """Raise InputError for a metric that is not finite."""
    wrong = [
        f"{name} is {value}" for name, value in results.items() if value != value or value in (math.inf, -math.inf)
    ]
    if wrong:
        raise InputError(f"the metrics are not finite: {', '.join(wrong)}")


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
    if will_train:
        check_steps(training, len(prepared.features["train"]))
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
        agreed(lambda: check_trained(trainer, results))
        trainer.save_model()
    if will_evaluate:
        results.update(trainer.evaluate(metric_key_prefix="eval"))
        results["eval_samples"] = len(prepared.rows["validation"])
    agreed(lambda: check_finite(results))
    write_results(trainer, results)


def show_failure(message: str) -> None:
    """Print why the script ends, in a job so that it becomes the job's reason, whichever rank ends first."""
    observer = getattr(sys.modules.get("amx_cluster.observer"), "observer", None)
    message = message.encode(errors="backslashreplace").decode()  # of a file perhaps, with half of a character
    if observer is None:
        print(message, file=sys.stderr, flush=True)
    else:
        observer.failures.show(f"{message}\n")


def ended(
    name: str,
    runs: Callable[[Any, Any], None],
    kind: type,
    arguments: Sequence[str] | None,
    of_training: Callable[[], Any] = training_arguments,
) -> int:
    """Run a script's `runs` with its command line; returns the exit code, 2 for an input error, which is printed."""
    from torch import distributed

    try:
        runs(*parse(sys.argv[1:] if arguments is None else arguments, kind, of_training))
    except InputError as error:
        show_failure(f"{name}: {error}")
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
