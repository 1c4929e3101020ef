# Copyright (c) 2026 The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make sentence pairs that a small model learns within seconds, and that small model, fetching nothing.

Every word is of kind 0, of kind 1 or of none. Of the words of a kind in the two sentences together, all but one at most
are of the same kind: that is the label. Writes train.csv, validation.csv (columns
sentence1, sentence2, label; no pair is in both) and model/ (the configuration of a small BERT without weights, and its
tokenizer).
The same seed gives the same files on every machine. Needs nothing but Python >= 3.9.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import sys
from pathlib import Path
from typing import Any, NamedTuple

WORDS_PER_KIND = 8
FILLERS = 8
# In one sentence. Two sentences hold 6 words of a kind; one of the other kind among them leaves the label clear.
KIND_WORDS_IN_SENTENCE = 3
FILLERS_IN_SENTENCE = 2
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MAX_POSITIONS = 64
_CONSONANTS = "bdfgklmnprst"
_VOWELS = "aeiou"


class Vocabulary(NamedTuple):
    """The invented words: those of kind 0, those of kind 1, and those of neither."""

    kinds: tuple[list[str], list[str]]
    fillers: list[str]


def vocabulary(rng: random.Random) -> Vocabulary:
    """Invent distinct two-syllable words and share them out."""
    syllables = [consonant + vowel for consonant in _CONSONANTS for vowel in _VOWELS]
    words = [syllable + other for syllable in syllables for other in syllables if syllable != other]
    drawn = rng.sample(words, 2 * WORDS_PER_KIND + FILLERS)
    return Vocabulary((drawn[:WORDS_PER_KIND], drawn[WORDS_PER_KIND : 2 * WORDS_PER_KIND]), drawn[2 * WORDS_PER_KIND :])


def pair(words: Vocabulary, label: int, rng: random.Random) -> tuple[str, str]:
    """Two sentences whose words are of the label's kind, but for fillers and, in half of the pairs, one odd word."""
    kinds = [label] * (2 * KIND_WORDS_IN_SENTENCE)
    if rng.random() < 0.5:
        kinds[rng.randrange(len(kinds))] = 1 - label
    sentences = []
    for part in (kinds[:KIND_WORDS_IN_SENTENCE], kinds[KIND_WORDS_IN_SENTENCE:]):
        drawn = [rng.choice(words.kinds[kind]) for kind in part] + rng.sample(words.fillers, FILLERS_IN_SENTENCE)
        rng.shuffle(drawn)
        sentences.append(" ".join(drawn))
    return sentences[0], sentences[1]


def generate(
    words: Vocabulary, count: int, rng: random.Random, seen: set[tuple[str, str]]
) -> list[tuple[str, str, int]]:
    """Generate `count` new pairs (sentence1, sentence2, label), labels in turn; adds them to `seen`."""
    rows: list[tuple[str, str, int]] = []
    while len(rows) < count:
        label = len(rows) % 2
        made = pair(words, label, rng)
        if made not in seen:
            seen.add(made)
            rows.append((*made, label))
    rng.shuffle(rows)
    return rows


def model_files(words: Vocabulary) -> dict[str, Any]:
    """The JSON files of a small BERT and its tokenizer, as transformers reads them, by file name."""
    tokens = [*SPECIAL_TOKENS, *sorted([*words.kinds[0], *words.kinds[1], *words.fillers])]
    ids = {token: number for number, token in enumerate(tokens)}
    config = {
        "architectures": ["BertForSequenceClassification"],
        "model_type": "bert",
        "vocab_size": len(tokens),
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "max_position_embeddings": MAX_POSITIONS,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        # BERT's 0.02 is for hundreds of dimensions; this small, it learns nothing for many epochs.
        "initializer_range": 0.125,
        "pad_token_id": ids["[PAD]"],
    }

    def special(token: str, type_id: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": token, "type_id": type_id}}

    def text(name: str, type_id: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": type_id}}

    single = [special("[CLS]", 0), text("A", 0), special("[SEP]", 0)]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": ids[token],
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token in SPECIAL_TOKENS
        ],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [*single, text("B", 1), special("[SEP]", 1)],
            "special_tokens": {
                token: {"id": token, "ids": [ids[token]], "tokens": [token]} for token in ("[CLS]", "[SEP]")
            },
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": ids, "unk_token": "[UNK]"},
    }
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": MAX_POSITIONS,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        **{f"{token.strip('[]').lower()}_token": token for token in SPECIAL_TOKENS},
    }
    return {"config.json": config, "tokenizer.json": tokenizer, "tokenizer_config.json": tokenizer_config}


def make(output_dir: Path, train_pairs: int, validation_pairs: int, seed: int) -> None:
    """Write train.csv, validation.csv and model/ into a directory, which is made if need be.

    Raises ValueError when a count is below 2, OSError when a file cannot be written.
    """
    if train_pairs < 2 or validation_pairs < 2:
        raise ValueError(f"at least 2 pairs are needed in each split, not {train_pairs} and {validation_pairs}")
    rng = random.Random(seed)
    words = vocabulary(rng)
    model = output_dir / "model"
    model.mkdir(parents=True, exist_ok=True)
    for name, document in model_files(words).items():
        (model / name).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    seen: set[tuple[str, str]] = set()
    for name, count in (("train", train_pairs), ("validation", validation_pairs)):
        with (output_dir / f"{name}.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(("sentence1", "sentence2", "label"))
            writer.writerows(generate(words, count, rng, seen))


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit code, 2 for an input error."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output_dir", type=Path, required=True)
    parser.add_argument("--train_pairs", type=int, default=1200)
    parser.add_argument("--validation_pairs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    try:
        make(options.output_dir, options.train_pairs, options.validation_pairs, options.seed)
    except (ValueError, OSError) as error:
        print(f"generated_pairs: {error}", file=sys.stderr)
        return 2
    print(f"{options.output_dir}: {options.train_pairs} pairs to train, {options.validation_pairs} to validate, model/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
