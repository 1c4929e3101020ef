# Copyright (c) 2026 The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read, check and tokenise what train_decoder.py trains on: once for a job, before its ranks start.

Takes the arguments of train_decoder.py, passes over those of TrainingArguments, and writes data/: train.arrow,
validation.arrow where there is one, and prepared.json, last. Ranks map these files into memory. Rows come from JSON
lines, JSON, CSV or Parquet, read as a stream (JSON: at once), in one of the forms of FORMS. The loss is taken of
answers only, of plain text as a whole. A wrong input gives one message and exit code 2.
"""

from __future__ import annotations

import bisect
import glob as patterns
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from train_text import InputError, is_blank, read_rows, show_failure

from ansible_collections.amx.cluster.plugins.module_utils._data.chats import (  # isort: skip (train_text finds it)
    instruction_of,
    messages_of,
    rendered,
    text_of,
    tools,
)
from ansible_collections.amx.cluster.plugins.module_utils._data.model_files import check_tokens, positions  # isort: skip

FOLDER = Path("data")
PREPARED = "prepared.json"
# Not counted by the loss: the number that transformers' models and PyTorch's cross_entropy pass over.
IGNORED = -100
# Columns of a row, the first form that it has: chats as OpenAI's and as ShareGPT's, prompts, instructions as Alpaca's.
FORMS = (
    ("messages",),
    ("conversations",),
    ("prompt", "completion"),
    ("instruction", "output"),
    ("question", "answer"),
    ("text",),
)
# Architectures (model_type) that keep packed texts apart by their positions, as a test compares for each of them.
PACKS = ("gemma3_text", "llama", "mistral", "olmo2", "phi3", "qwen2", "qwen3", "smollm3")
BATCH = 1000


@dataclass
class Arguments:
    """Model, data and settings of the training. Names are those of TRL's configurations, where these have one."""

    model_name_or_path: str = field(metadata={"help": "model of the hub, or a local directory"})
    train_file: str = field(default="", metadata={"help": "JSON lines, JSON, CSV or Parquet; also a pattern with *"})
    validation_file: str = field(default="", metadata={"help": "likewise"})
    validation_split_percentage: int = field(
        default=0, metadata={"help": "without a validation file: that many of 100 training rows are kept for it"}
    )
    max_length: int = field(default=1024, metadata={"help": "tokens; longer chats are cut, longer plain texts split"})
    packing: bool = field(default=False, metadata={"help": "several texts in a row of max_length, kept apart"})
    chat_template: str = field(default="", metadata={"help": "a file with a template, where the tokenizer has none"})
    max_train_samples: int = field(default=0, metadata={"help": "use only the first so many rows; 0: all"})
    max_eval_samples: int = field(default=0, metadata={"help": "use only the first so many rows; 0: all"})
    use_peft: bool = field(default=False, metadata={"help": "train adapters (LoRA), and leave the model as it is"})
    lora_r: int = field(default=16, metadata={"help": "rank of the adapters"})
    lora_alpha: int = field(default=32, metadata={"help": "their scale, times the rank"})
    lora_dropout: float = field(default=0.05, metadata={"help": "dropout before them"})
    lora_target_modules: list[str] = field(
        default_factory=lambda: ["all-linear"], metadata={"help": "names of layers; all-linear: all but the output"}
    )
    adapter: str = field(default="", metadata={"help": "directory of an adapter to go on with"})
    merge: bool = field(default=False, metadata={"help": "put the trained adapters into the model that is written"})
    dtype: str = field(
        default="auto",
        metadata={
            "choices": ["auto", "float32", "bfloat16"],
            "help": "of the weights; auto: bfloat16 for the frozen ones of LoRA with --bf16, else float32",
        },
    )
    from_scratch: bool = field(default=False, metadata={"help": "new weights from the model's configuration"})
    eval_before: bool = field(default=True, metadata={"help": "evaluate before training too"})


# ------------------------------------------------------------------------------------------------------------- rows


def read(pattern: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (where it is, the row) for every row of the files that a pattern matches.

    Raises InputError for a file that is missing, malformed, or has rows without named columns.
    """
    names = sorted(patterns.glob(pattern)) or [pattern]  # noqa: PTH207 (also absolute ones)
    for path in map(Path, names):
        yield from read_rows(path)


# ------------------------------------------------------------------------------------------------------------ texts


@dataclass(frozen=True)
class Text:
    """One text to learn from. answers: the characters (first, after the last) that count; None: all.

    special: whether the tokenizer adds its special tokens, which a chat template has written already.
    """

    text: str
    answers: list[tuple[int, int]] | None
    special: bool


def texts(row: dict[str, Any], render: Callable[[list[dict[str, Any]], bool], str]) -> list[Text]:
    """Return what there is to learn from a row. render: (messages, whether an answer follows) -> text.

    Raises InputError for a row that has none of FORMS, or no answer.
    """
    form = next((form for form in FORMS if all(row.get(name) is not None for name in form)), None)
    if form is None:
        forms = "; ".join(" and ".join(form) for form in FORMS)
        raise InputError(f"has {', '.join(map(str, row)) or 'no columns'}; expected one of: {forms}")
    first, last = row[form[0]], row[form[-1]]
    for name in (form[-1], *(form[:1] if form[0] != "instruction" else ())):
        if not row[name] or (isinstance(row[name], str) and is_blank(row[name])):
            raise InputError(f"{name} is empty")
    if form == ("text",):
        return [Text(text_of(last, "text"), None, True)]
    if form == ("prompt", "completion") and isinstance(first, str):
        whole = first + text_of(last, "completion")
        return [Text(whole, [(len(first), len(whole))], True)]
    if form == ("prompt", "completion"):
        return chat([*messages_of(first, "prompt"), *messages_of(last, "completion")], render)
    if len(form) == 1:
        return chat(messages_of(last, form[0]), render)
    return chat([*instruction_of(row, form[0]), {"role": "assistant", "content": text_of(last, form[-1])}], render)


def chat(messages: list[dict[str, Any]], render: Callable[[list[dict[str, Any]], bool], str]) -> list[Text]:
    """Return a chat as one text with all its answers, or as a text for each answer.

    There is a text for each where its template renders earlier messages differently when more follow (that of Qwen 3
    leaves their reasoning out).

    An answer of weight 0 is not trained. Raises InputError where there is none to train, or the template does not put
    an answer after what asks for it.
    """
    places = [
        place
        for place, message in enumerate(messages)
        if message["role"] == "assistant" and message.get("weight", 1) != 0
    ]
    if not places:
        raise InputError("has no answer: no message of the assistant that counts")
    ends = {place: render(messages[: place + 1], False) for place in places}
    begins = {place: render(messages[:place], True) for place in places if place}
    if 0 in ends:  # nothing asks for it
        begins[0] = ends[0][: max(0, ends[0].rfind(messages[0]["content"].strip()))]
    for place in places:
        if not ends[place].startswith(begins[place]):
            raise InputError(
                f"the chat template writes message {place + 1}, an answer, otherwise than where it asks for one: name "
                "a file with another by --chat_template"
            )
    whole = ends[places[-1]]
    if all(whole.startswith(end) for end in ends.values()):
        return [Text(whole, [(len(begins[place]), len(ends[place])) for place in places], False)]
    return [Text(ends[place], [(len(begins[place]), len(ends[place]))], False) for place in places]


# ----------------------------------------------------------------------------------------------------------- tokens


@dataclass
class Counts:
    """Counts of the rows of a split, by their outcome."""

    rows: int = 0
    samples: int = 0
    tokens: int = 0
    answers: int = 0
    cut: int = 0
    left_out: int = 0
    chats: int = 0
    largest: int = 0


def tokens(
    rows: Iterable[tuple[str, dict[str, Any]]], tokenizer: Any, max_length: int, counts: Counts
) -> Iterator[tuple[list[int], list[int]]]:
    """Yield (token numbers, labels), at most `max_length` of each, for the texts of rows; counts what it does.

    The tokenizer works on many texts at a time, on all cores. Raises InputError with the place of the row.
    """
    rows = iter(rows)
    while batch := list(islice(rows, BATCH)):
        prepared: list[Text] = []
        for where, row in batch:
            try:
                of_row = texts(row, partial(rendered, tokenizer, tools(row)))
                counts.chats += any(not text.special for text in of_row)
                "".join(text.text for text in of_row).encode()  # half a surrogate pair is no character
                prepared += of_row
            except UnicodeEncodeError:
                raise InputError(f"{where}: has half of a character") from None
            except InputError as error:
                raise InputError(f"{where}: {error}") from error
            except Exception as error:  # a row of another form than any that is known
                raise InputError(f"{where}: {type(error).__name__}: {error}") from error
        counts.rows += len(batch)
        for special in (False, True):
            chosen = [text for text in prepared if text.special is special]
            if chosen:
                encoded = tokenizer(
                    [text.text for text in chosen], add_special_tokens=special, return_offsets_mapping=True
                )
                counts.largest = max(counts.largest, *map(max, filter(None, encoded["input_ids"])), 0)
                for text, ids, offsets in zip(chosen, encoded["input_ids"], encoded["offset_mapping"]):
                    yield from _samples(text, ids, offsets, tokenizer, max_length, counts)


def _samples(
    text: Text, ids: list[int], offsets: Sequence[tuple[int, int]], tokenizer: Any, max_length: int, counts: Counts
) -> Iterator[tuple[list[int], list[int]]]:
    if text.answers is None:
        labels = list(ids)
    else:
        # A token on the border belongs to the answer. Special tokens that the tokenizer added have no characters.
        counted = [any(a < last and b > first for first, last in text.answers) for a, b in offsets]
        labels = [token if counts_ else IGNORED for token, counts_ in zip(ids, counted)]
    begin, end = tokenizer.bos_token_id, tokenizer.eos_token_id
    if begin is not None and ids[:2] == [begin, begin]:  # the text has the mark that the tokenizer adds
        ids, labels = ids[1:], labels[1:]
    if text.special and end is not None and ids[-1:] != [end]:
        ids, labels = [*ids, end], [*labels, end]
    counts.cut += text.answers is not None and len(ids) > max_length
    last = len(ids) if text.answers is None else min(len(ids), max_length)
    for start in range(0, last, max_length):
        # Nothing in front of the first token could predict it.
        part = ids[start : start + max_length], [IGNORED, *labels[start + 1 : start + max_length]]
        learnt = sum(label != IGNORED for label in part[1])
        if not learnt:
            counts.left_out += 1
            continue
        counts.samples += 1
        counts.tokens += len(part[0])
        counts.answers += learnt
        yield part


def packed(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Return which samples share a row: best fit, the longest first. lengths: of samples, none above `capacity`."""
    rows: list[list[int]] = []
    room: list[tuple[int, int]] = []  # (what is left, row), sorted
    for sample in sorted(range(len(lengths)), key=lambda sample: -lengths[sample]):
        place = bisect.bisect_left(room, (lengths[sample], -1))
        left, row = room.pop(place) if place < len(room) else (capacity, len(rows))
        if row == len(rows):
            rows.append([])
        rows[row].append(sample)
        if left > lengths[sample]:
            bisect.insort(room, (left - lengths[sample], row))
    return rows


# ---------------------------------------------------------------------------------------------------------- writing


def write(path: Path, rows: Iterable[tuple[Sequence[int], Sequence[int], Sequence[int]]]) -> int:
    """Write rows of (token numbers, labels, lengths of the texts in it) as an Arrow stream, which
    `datasets.Dataset.from_file` maps. Returns how many there were."""
    import pyarrow as pa

    numbers = pa.list_(pa.int32())
    schema = pa.schema([("input_ids", numbers), ("labels", numbers), ("lengths", numbers)])
    rows = iter(rows)
    count = 0
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema) as stream:
        while batch := list(islice(rows, BATCH)):
            stream.write_batch(pa.record_batch([pa.array(column, numbers) for column in zip(*batch)], schema=schema))
            count += len(batch)
    return count


def write_split(path: Path, rows: Iterable[tuple[str, dict[str, Any]]], data: Arguments, tokenizer: Any) -> Counts:
    """Tokenise and, with packing, pack rows into the file `path`. Raises InputError where nothing is left to learn."""
    counts = Counts()
    single = path.with_suffix(".single")
    write(single, ((*sample, [len(sample[0])]) for sample in tokens(rows, tokenizer, data.max_length, counts)))
    if not counts.rows:
        split = data.validation_split_percentage
        raise InputError(f"{path.stem} data: no rows" + f" beside --validation_split_percentage {split}" * bool(split))
    if not counts.samples:
        raise InputError(
            f"{path.stem} data: no answer is left in {counts.rows} rows of at most {data.max_length} tokens"
        )
    if not data.packing:
        single.replace(path)
        return counts
    from datasets import Dataset

    samples = Dataset.from_file(str(single))
    lengths = [row[0] for row in samples["lengths"]]

    def joined() -> Iterator[tuple[list[int], list[int], list[int]]]:
        for row in packed(lengths, data.max_length):
            parts = [samples[sample] for sample in row]
            ids, labels = ([token for part in parts for token in part[name]] for name in ("input_ids", "labels"))
            yield ids, labels, [lengths[sample] for sample in row]

    write(path, joined())
    single.unlink()
    return counts


def held_out(
    rows: Iterable[tuple[str, dict[str, Any]]], percentage: int, wanted: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield of 100 rows each those that are held out (the first so many), or those that are not."""
    return (row for number, row in enumerate(rows) if (number % 100 < percentage) is wanted)


# -------------------------------------------------------------------------------------------------------- the model


def linear_layers(config: Any) -> dict[str, tuple[int, int]]:
    """Return {name: (inputs, outputs)} of a model's linear layers, the output layer left out. Loads no weights."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.pytorch_utils import Conv1D

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    layers = {name: layer for name, layer in model.named_modules() if layer is not model.get_output_embeddings()}
    linear = {
        name: (layer.in_features, layer.out_features)
        for name, layer in layers.items()
        if isinstance(layer, torch.nn.Linear)
    }
    return linear | {name: layer.weight.shape for name, layer in layers.items() if isinstance(layer, Conv1D)}  # GPT-2's


def check_lora(data: Arguments, layers: dict[str, tuple[int, int]]) -> None:
    """Raise InputError for target modules that match no layer, and for an adapter of another model."""
    wanted = data.lora_target_modules
    if not data.use_peft:
        if data.adapter or data.merge:
            raise InputError(f"--{'adapter' if data.adapter else 'merge'} is for LoRA: set --use_peft as well")
        return
    if wanted != ["all-linear"]:
        known = sorted({name.rpartition(".")[2] for name in layers})
        absent = [name for name in wanted if not any(f".{layer}".endswith(f".{name}") for layer in layers)]
        if absent:
            raise InputError(f"--lora_target_modules {' '.join(absent)}: the model has {', '.join(known)}")
    if data.adapter:
        _check_adapter(Path(data.adapter), layers)


def _check_adapter(directory: Path, layers: dict[str, tuple[int, int]]) -> None:
    from safetensors import SafetensorError, safe_open

    weights = directory / "adapter_model.safetensors"
    if not (directory / "adapter_config.json").is_file() or not weights.is_file():
        raise InputError(f"--adapter {directory}: it has no adapter_config.json and adapter_model.safetensors")
    try:
        with safe_open(weights, "pt") as file:
            shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise InputError(f"{weights}: {error}") from error
    for name, shape in shapes.items():
        match = re.fullmatch(r"base_model\.model\.(.*)\.lora_([AB])(?:\.default)?\.weight", name)
        if match is None:
            continue
        expected = layers.get(match[1])
        side = "AB".index(match[2])
        if expected is None or expected[side] != shape[1 - side]:
            has = f"where there are {expected[side]}" if expected else "which is not there"
            raise InputError(
                f"--adapter {directory} is for another model: it changes {match[1]} of {shape[1 - side]} "
                f"{('inputs', 'outputs')[side]}, {has} in this one"
            )


def load_tokenizer(data: Arguments) -> Any:
    """Return the model's tokenizer, with --chat_template. Raises InputError for one that has no tokenizer.json."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(data.model_name_or_path)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"model {data.model_name_or_path}: {error}") from error
    if data.chat_template:
        try:
            tokenizer.chat_template = Path(data.chat_template).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise InputError(
                f"--chat_template {data.chat_template}: {getattr(error, 'strerror', None) or error}"
            ) from error
    if not tokenizer.is_fast:
        raise InputError(f"model {data.model_name_or_path}: its tokenizer has no tokenizer.json")
    return tokenizer


def check_model(data: Arguments) -> Any:
    """Return the model's configuration. Raises InputError where it contradicts the arguments. Loads no weights."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(data.model_name_or_path)
        layers = linear_layers(config)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"model {data.model_name_or_path}: {error}") from error
    longest = positions(config.to_dict())
    if longest and data.max_length > longest:
        raise InputError(f"--max_length {data.max_length}: the model has {longest} positions")
    if data.max_length < 2:
        raise InputError(f"--max_length {data.max_length}: expected 2 or more")
    if data.packing and config.model_type not in PACKS:
        raise InputError(
            f"--packing: that a model of type {config.model_type} keeps packed texts apart was not tested, only "
            f"{', '.join(PACKS)}"
        )
    check_lora(data, layers)
    return config


# ---------------------------------------------------------------------------------------------------------- running


def prepare(data: Arguments, directory: Path) -> dict[str, Any]:
    """Write the data of a job to `directory`, and return what is in prepared.json. Raises InputError."""
    if not data.train_file and not data.validation_file:
        raise InputError("--train_file or --validation_file is needed")
    for name in ("max_train_samples", "max_eval_samples"):
        if getattr(data, name) < 0:
            raise InputError(f"--{name} {getattr(data, name)}: expected 0, which is all, or more")
    if not 0 <= data.validation_split_percentage < 100:
        raise InputError(f"--validation_split_percentage {data.validation_split_percentage}: expected 0 to 99")
    config = check_model(data)
    tokenizer = load_tokenizer(data)
    splits = {}
    for split, name, most in (
        ("train", data.train_file, data.max_train_samples),
        ("validation", data.validation_file, data.max_eval_samples),
    ):
        rows = read(name) if name else iter(())
        if data.validation_split_percentage and not data.validation_file:
            rows = held_out(read(data.train_file), data.validation_split_percentage, split == "validation")
        elif not name:
            continue
        splits[split] = islice(rows, most or None)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / PREPARED).unlink(missing_ok=True)
    done: dict[str, Any] = {
        "max_length": data.max_length,
        "packing": data.packing,
        "model": data.model_name_or_path,
        "splits": {},
    }
    for split, rows in splits.items():
        counts = write_split(directory / f"{split}.arrow", rows, data, tokenizer)
        check_tokens([[counts.largest]], config, tokenizer)
        done["splits"][split] = vars(counts)
        print(described(split, counts), flush=True)
    (directory / PREPARED).write_text(json.dumps(done, indent=4) + "\n", encoding="utf-8")
    return done


def described(split: str, counts: Counts) -> str:
    """Return a line on a split."""
    parts = [
        f"{split}: {counts.rows} rows",
        f"{counts.tokens} tokens, {100 * counts.answers / counts.tokens:.0f} % of them with loss",
        *([f"{counts.cut} too long and cut"] if counts.cut else []),
        *([f"{counts.left_out} without anything to learn left out"] if counts.left_out else []),
    ]
    return ", ".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code, 2 for an input error."""
    from transformers import HfArgumentParser

    parser = HfArgumentParser(Arguments, description=__doc__)
    try:
        data, _of_the_trainer = parser.parse_args_into_dataclasses(
            sys.argv[1:] if arguments is None else list(arguments), return_remaining_strings=True
        )
        prepare(data, FOLDER)
    except InputError as error:
        show_failure(f"prepare_decoder: {error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
