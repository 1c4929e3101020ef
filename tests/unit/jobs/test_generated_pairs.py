from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("generated_pairs")


@pytest.fixture(scope="module")
def made(script: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("generated")
    assert script.main(["--output_dir", str(directory), "--train_pairs", "300", "--validation_pairs", "60"]) == 0
    return Path(directory)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_labels_are_balanced_and_pairs_new(made: Path) -> None:
    train, validation = read(made / "train.csv"), read(made / "validation.csv")
    assert (len(train), len(validation)) == (300, 60)
    for rows in (train, validation):
        assert sum(row["label"] == "1" for row in rows) * 2 == len(rows)
    pairs = [(row["sentence1"], row["sentence2"]) for row in train + validation]
    assert len(set(pairs)) == len(pairs)


def test_label_says_whether_topics_are_the_same(script: ModuleType, made: Path) -> None:
    words = script.vocabulary(script.random.Random(1))
    topic_of = {word: number for number, topic in enumerate(words.topics) for word in topic}
    for row in read(made / "train.csv"):
        first, second = (
            {topic_of[word] for word in row[column].split() if word in topic_of}
            for column in ("sentence1", "sentence2")
        )
        assert len(first) == len(second) == 1
        assert (first == second) == (row["label"] == "1")


def test_model_covers_the_vocabulary(script: ModuleType, made: Path) -> None:
    config = json.loads((made / "model" / "config.json").read_text(encoding="utf-8"))
    tokens = json.loads((made / "model" / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    used = {word for row in read(made / "train.csv") for word in f"{row['sentence1']} {row['sentence2']}".split()}
    assert used <= set(tokens)
    assert sorted(tokens.values()) == list(range(config["vocab_size"]))
    assert tokens["[PAD]"] == config["pad_token_id"]
    assert not list((made / "model").glob("*.safetensors"))


def test_tokenizer_is_one_that_tokenizers_reads(made: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(made / "model" / "tokenizer.json"))
    row = read(made / "train.csv")[0]
    encoded = tokenizer.encode(row["sentence1"], row["sentence2"])
    assert encoded.tokens == ["[CLS]", *row["sentence1"].split(), "[SEP]", *row["sentence2"].split(), "[SEP]"]
    assert encoded.type_ids == [0] * 7 + [1] * 6


def test_same_seed_same_files(script: ModuleType, made: Path, tmp_path: Path) -> None:
    arguments = ["--train_pairs", "300", "--validation_pairs", "60"]
    assert script.main(["--output_dir", str(tmp_path / "again"), *arguments]) == 0
    assert script.main(["--output_dir", str(tmp_path / "other"), *arguments, "--seed", "2"]) == 0
    names = ["train.csv", "validation.csv", "model/config.json", "model/tokenizer.json", "model/tokenizer_config.json"]
    for name in names:
        assert (made / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    assert (made / "train.csv").read_bytes() != (tmp_path / "other" / "train.csv").read_bytes()


def test_too_few_pairs(script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(["--output_dir", str(tmp_path), "--train_pairs", "1"]) == 2
    assert capsys.readouterr().err == "generated_pairs: at least 2 pairs are needed in each split, not 1 and 400\n"
