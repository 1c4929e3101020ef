# Copyright (c) 2026 The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make pairs of real English sentences from the docstrings of the running Python's standard library.

Label 1: the two sentences stand next to each other in one docstring. Label 0: they come from different modules.
Writes train.csv and validation.csv (columns sentence1, sentence2, label). No module, and no sentence, is in both.
The same interpreter and seed give the same files. Needs nothing but Python >= 3.9.
"""

from __future__ import annotations

import argparse
import ast
import csv
import inspect
import platform
import random
import re
import sys
import sysconfig
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

# Tests are written for machines, and site-packages is not the same on two machines.
SKIPPED_DIRECTORIES = {"__pycache__", "dist-packages", "idle_test", "site-packages", "test", "tests"}
# Sentences of 7 to 25 words: shorter ones say too little to belong anywhere, longer ones cost time and teach no more.
WORDS = range(7, 26)
_PLAIN = re.compile(r"""[A-Z][\w ,;:'"`*%().!?/-]*[.!?][)"']?""", re.ASCII)
_CODE = re.compile(r"::|--|\.\.|``.* .*``")
_WORD = re.compile(r"[A-Z]?[a-z]+(?:['-][a-z]+)*|[A-Z]")


class Pair(NamedTuple):
    """Two sentences and the group of modules (see `group_of`) that each comes from."""

    first: str
    second: str
    first_group: str
    second_group: str


def group_of(relative: Path) -> str:
    """The unit that is never split between training and validation: the top-level package or module.

    A Python twin of a C module counts as the module (`_pyio` as `io`), for they share much of their text.
    """
    name = relative.parts[0].removesuffix(".py")
    return re.sub(r"^_(py)?", "", name) or name


def is_sentence(text: str) -> bool:
    """Return whether the text reads as one plain English sentence: long enough, not too long, and not code.

    A name of code (`read_line()`, `os.path`, UTF8) is no word of English: one in four of the words may be such.
    """
    if not _PLAIN.fullmatch(text) or _CODE.search(text):
        return False
    words = text.split()
    english = sum(bool(_WORD.fullmatch(word.rstrip(",;:.!?)\"'").lstrip("(\"'"))) for word in words if "()" not in word)
    return len(words) in WORDS and english >= 0.75 * len(words)


def sentences_of(docstring: str) -> Iterator[str | None]:
    """The sentences of a docstring in their order; None stands for anything else (code, lists, headings)."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(docstring)):
        lines = paragraph.splitlines()
        if ">>>" in paragraph or any(line.lstrip()[:2] in ("- ", "* ", "| ") for line in lines):
            yield None
            continue
        for text in re.split(r"(?<=[.!?])\s+(?=[A-Z])", " ".join(paragraph.split())):
            yield text if is_sentence(text) else None


def docstrings_of(source: bytes) -> Iterator[str]:
    """Every docstring of a module's source. Source that this Python cannot parse has none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Invalid escapes in other people's code are not our user's concern.
            tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node, clean=False)
            if docstring:
                yield docstring


def neighbours(library: Path) -> dict[str, list[tuple[str, str]]]:
    """Pairs of neighbouring sentences under a library directory, by group, each pair once, in a fixed order.

    A sentence found in more than one group (copied docstrings) is left out: it could tell which label is meant.
    """
    pairs: dict[str, dict[tuple[str, str], None]] = {}
    groups_of_sentence: dict[str, set[str]] = {}
    for path in sorted(library.rglob("*.py")):
        relative = path.relative_to(library)
        if SKIPPED_DIRECTORIES.intersection(relative.parts):
            continue
        group = group_of(relative)
        for docstring in docstrings_of(path.read_bytes()):
            before: str | None = None
            for sentence in sentences_of(docstring):
                if sentence is not None:
                    groups_of_sentence.setdefault(sentence.casefold(), set()).add(group)
                    if before is not None and before.casefold() != sentence.casefold():
                        pairs.setdefault(group, {})[(before, sentence)] = None
                before = sentence
    unique = {
        group: [pair for pair in of_group if all(len(groups_of_sentence[text.casefold()]) == 1 for text in pair)]
        for group, of_group in pairs.items()
    }
    return {group: pairs for group, pairs in sorted(unique.items()) if pairs}


def split_groups(sizes: dict[str, int], wanted: int, rng: random.Random) -> list[str]:
    """Choose groups for validation, at least two, until they hold `wanted` neighbouring pairs.

    A group larger than a quarter of that is taken only if the smaller ones do not suffice, so that validation is about
    several modules.
    """
    order = list(sizes)
    rng.shuffle(order)
    order.sort(key=lambda group: sizes[group] > wanted // 4)
    chosen: list[str] = []
    total = 0
    for group in order:
        if total >= wanted and len(chosen) >= 2:
            break
        chosen.append(group)
        total += sizes[group]
    return chosen


def labelled(
    pairs: dict[str, list[tuple[str, str]]], groups: Iterable[str], count: int, rng: random.Random
) -> list[tuple[Pair, int]]:
    """Draw `count` pairs from the groups, half of them (rounded up) of label 1, in random order.

    Both labels take a first sentence from the firsts and a second from the seconds of one pool of neighbouring pairs:
    only the relation of the two can tell the label, not the place or style of either.

    Raises ValueError when the groups do not hold enough pairs, or are less than two.
    """
    pool = [Pair(first, second, group, group) for group in groups for first, second in pairs[group]]
    positives = (count + 1) // 2
    if len(pool) < positives:
        raise ValueError(f"{len(pool)} pairs of neighbouring sentences found, {positives} needed")
    if len({pair.first_group for pair in pool}) < 2:
        raise ValueError(f"{count} pairs need sentences of at least 2 modules")
    rng.shuffle(pool)
    rows = [(pair, 1) for pair in pool[:positives]]
    seen: set[tuple[str, str]] = set()
    start = positives  # The pool's rest comes first, so that label 0 shows new sentences as far as there are any.
    while len(rows) < count:
        pair, other = pool[start % len(pool)], rng.choice(pool)
        start += 1
        if pair.first_group == other.first_group or (pair.first, other.second) in seen:
            continue
        seen.add((pair.first, other.second))
        rows.append((Pair(pair.first, other.second, pair.first_group, other.second_group), 0))
    rng.shuffle(rows)
    return rows


def make(library: Path, train_pairs: int, validation_pairs: int, seed: int) -> dict[str, list[tuple[Pair, int]]]:
    """The pairs of each split, `train` and `validation`, from the docstrings under a library directory.

    Raises ValueError when the library does not hold enough docstrings, or a count is below 2.
    """
    if train_pairs < 2 or validation_pairs < 2:
        raise ValueError(f"at least 2 pairs are needed in each split, not {train_pairs} and {validation_pairs}")
    rng = random.Random(seed)
    pairs = neighbours(library)
    chosen = split_groups(
        {group: len(sentences) for group, sentences in pairs.items()}, (validation_pairs + 1) // 2, rng
    )
    rest = [group for group in pairs if group not in set(chosen)]
    splits = {}
    for name, groups, count in (("train", rest, train_pairs), ("validation", chosen, validation_pairs)):
        try:
            splits[name] = labelled(pairs, groups, count, rng)
        except ValueError as error:
            raise ValueError(
                f"the Python library in {library} has too few docstrings for {count} {name} pairs: {error}. "
                "Ask for fewer pairs, or use a Python whose library has its docstrings"
            ) from error
    return splits


def write(path: Path, rows: Iterable[tuple[Pair, int]]) -> None:
    """Write sentence1, sentence2, label as CSV."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("sentence1", "sentence2", "label"))
        writer.writerows((pair.first, pair.second, label) for pair, label in rows)


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit code, 2 for an input error."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output_dir", type=Path, required=True)
    parser.add_argument("--train_pairs", type=int, default=4000)
    parser.add_argument("--validation_pairs", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--library", type=Path, default=Path(sysconfig.get_paths()["stdlib"]), help="default: %(default)s"
    )
    options = parser.parse_args(arguments)
    try:
        splits = make(options.library, options.train_pairs, options.validation_pairs, options.seed)
        options.output_dir.mkdir(parents=True, exist_ok=True)
        for name, rows in splits.items():
            write(options.output_dir / f"{name}.csv", rows)
    except (ValueError, OSError) as error:
        print(f"docstring_pairs: {error}", file=sys.stderr)
        return 2
    groups = {name: {group for row in rows for group in row[0][2:]} for name, rows in splits.items()}
    for name, rows in splits.items():
        print(f"{name}.csv: {len(rows)} pairs from {len(groups[name])} modules of Python {platform.python_version()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
