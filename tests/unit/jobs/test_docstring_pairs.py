from __future__ import annotations

import csv
import random
from pathlib import Path
from types import ModuleType

import pytest
from support.checkout import ROOT
from support.scripts import load

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load(ROOT / "jobs/scripts/docstring_pairs.py")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library of 12 modules with 6 neighbouring pairs each, and what must not be taken."""
    root = tmp_path / "library"
    for directory in ("test", "site-packages", "package"):
        (root / directory).mkdir(parents=True)
    numbers = ("one", "two", "three", "four", "five", "six", "seven")
    for module in "abcdefghijkl":
        docstring = " ".join(f"This is sentence {number} about the module {module} alone." for number in numbers)
        (root / f"module_{module}.py").write_text(f'"""{docstring}"""\n')
    foreign = '"""Never take any sentence from this one file. Nor this second sentence from here either."""\n'
    (root / "test" / "test_x.py").write_text(foreign)
    (root / "site-packages" / "other.py").write_text(foreign)
    (root / "broken.py").write_text("def (:\n")
    return root


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize(
    "text",
    [
        "Return the number of bytes that were written to the file.",
        "If `size` is negative, read until the end of the file.",
        "The read_line() method returns one line of the whole file.",
        'This is what people call a "sentence" in ordinary English prose.',
    ],
)
def test_sentence(script: ModuleType, text: str) -> None:
    assert script.is_sentence(text)


@pytest.mark.parametrize(
    "text",
    [
        "Too short.",
        "no capital letter at the start of this sentence here.",
        "No full stop at the end of this sentence here",
        "X = f(a, b) + g[0] is code and not a sentence.",
        "Foo_bar a_b c_d e_f g_h i_j k_l m_n o_p.",
        "Return the number of words ... and so on and on.",
        "A " + "very " * 60 + "long sentence.",
    ],
)
def test_not_a_sentence(script: ModuleType, text: str) -> None:
    assert not script.is_sentence(text)


def test_sentences_are_parted_by_code_and_lists(script: ModuleType) -> None:
    docstring = """Return the first of all the numbers given here.

    >>> first(1, 2)
    1

    It stands alone because code comes before it.  This one
    is on two lines of the source text.
    """
    assert list(script.sentences_of(docstring)) == [
        "Return the first of all the numbers given here.",
        None,
        "It stands alone because code comes before it.",
        "This one is on two lines of the source text.",
    ]


@pytest.mark.parametrize(
    ("path", "group"),
    [("io.py", "io"), ("_pyio.py", "io"), ("asyncio/events.py", "asyncio"), ("_strptime.py", "strptime")],
)
def test_group(script: ModuleType, path: str, group: str) -> None:
    assert script.group_of(Path(path)) == group


def test_neighbours_leave_out_shared_sentences_and_tests(script: ModuleType, library: Path) -> None:
    copied = '"""This is sentence one about the module a alone. A new sentence that nobody else has here."""\n'
    (library / "copy.py").write_text(copied)
    found = script.neighbours(library)
    assert sorted(found) == [f"module_{letter}" for letter in "abcdefghijkl"]
    assert {group: len(pairs) for group, pairs in found.items()} == {
        f"module_{letter}": 5 if letter == "a" else 6 for letter in "abcdefghijkl"
    }


def test_validation_is_about_several_modules(script: ModuleType) -> None:
    chosen = script.split_groups({"large": 1000, **{str(number): 5 for number in range(50)}}, 40, random.Random(1))
    assert "large" not in chosen
    assert len(chosen) == 8


def test_splits(script: ModuleType, library: Path) -> None:
    splits = script.make(library, 40, 16, seed=3)
    assert {name: len(rows) for name, rows in splits.items()} == {"train": 40, "validation": 16}
    groups = {name: {group for pair, _label in rows for group in pair[2:]} for name, rows in splits.items()}
    texts = {name: {text for pair, _label in rows for text in pair[:2]} for name, rows in splits.items()}
    assert not groups["train"] & groups["validation"]
    assert not texts["train"] & texts["validation"]
    neighbours = {pair for pairs in script.neighbours(library).values() for pair in pairs}
    for rows in splits.values():
        assert sum(label for _pair, label in rows) * 2 == len(rows)
        assert len({pair[:2] for pair, _label in rows}) == len(rows)
        for pair, label in rows:
            assert (pair.first_group == pair.second_group) == bool(label)
            assert ((pair.first, pair.second) in neighbours) == bool(label)


def test_same_seed_same_files(script: ModuleType, library: Path, tmp_path: Path) -> None:
    for name, seed in (("one", "1"), ("again", "1"), ("other", "2")):
        arguments = ["--library", str(library), "--train_pairs", "20", "--validation_pairs", "8", "--seed", seed]
        assert script.main([*arguments, "--output_dir", str(tmp_path / name)]) == 0
    one, again, other = (
        [(tmp_path / name / f"{split}.csv").read_bytes() for split in ("train", "validation")]
        for name in ("one", "again", "other")
    )
    assert one == again != other
    assert list(read(tmp_path / "one" / "train.csv")[0]) == ["sentence1", "sentence2", "label"]


def test_too_few_docstrings(script: ModuleType, library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = library / "out"
    arguments = ["--library", str(library), "--output_dir", str(output), "--train_pairs", "3000"]
    assert script.main([*arguments, "--validation_pairs", "8"]) == 2
    error = capsys.readouterr().err
    assert error == (
        f"docstring_pairs: the Python library in {library} has too few docstrings for 3000 train pairs: 60 pairs of "
        "neighbouring sentences found, 1500 needed. Ask for fewer pairs, or use a Python whose library has its "
        "docstrings\n"
    )
    assert not output.exists()


def test_running_library_is_enough_for_the_demo(script: ModuleType, tmp_path: Path) -> None:
    assert script.main(["--output_dir", str(tmp_path)]) == 0
    assert len(read(tmp_path / "train.csv")) == 4000
    assert len(read(tmp_path / "validation.csv")) == 600
