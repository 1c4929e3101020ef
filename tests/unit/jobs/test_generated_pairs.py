from __future__ import annotations

import csv
import json
from pathlib import Path
from types import ModuleType

import pytest
from support.checkout import ROOT
from support.scripts import load


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load(ROOT / "jobs/scripts/generated_pairs.py")


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


def test_label_is_the_kind_of_all_words_but_one_at_most(script: ModuleType, made: Path) -> None:
    words = script.vocabulary(script.random.Random(1))
    kind_of = {word: kind for kind, of_kind in enumerate(words.kinds) for word in of_kind}
    odd_words = set()
    for row in read(made / "train.csv"):
        found = [kind_of[word] for word in f"{row['sentence1']} {row['sentence2']}".split() if word in kind_of]
        odd = sum(kind != int(row["label"]) for kind in found)
        assert len(found) == 6
        assert odd <= 1
        odd_words.add(odd)
    assert odd_words == {0, 1}


def test_model_covers_the_vocabulary(script: ModuleType, made: Path) -> None:
    config = json.loads((made / "model" / "config.json").read_text(encoding="utf-8"))
    tokens = json.loads((made / "model" / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    used = {word for row in read(made / "train.csv") for word in f"{row['sentence1']} {row['sentence2']}".split()}
    assert used <= set(tokens)
    assert sorted(tokens.values()) == list(range(config["vocab_size"]))
    assert tokens["[PAD]"] == config["pad_token_id"]
    assert not list((made / "model").glob("*.safetensors"))


def test_tokenizer_marks_the_two_sentences(made: Path) -> None:
    tokenizer = json.loads((made / "model" / "tokenizer.json").read_text(encoding="utf-8"))
    pieces = [
        (piece["id"], piece["type_id"]) for part in tokenizer["post_processor"]["pair"] for piece in part.values()
    ]
    assert pieces == [("[CLS]", 0), ("A", 0), ("[SEP]", 0), ("B", 1), ("[SEP]", 1)]
    vocabulary = tokenizer["model"]["vocab"]
    for token, piece in tokenizer["post_processor"]["special_tokens"].items():
        assert piece["ids"] == [vocabulary[token]]
    assert all(vocabulary[token["content"]] == token["id"] for token in tokenizer["added_tokens"])


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
