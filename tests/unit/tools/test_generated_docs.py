from __future__ import annotations

import re
from pathlib import Path

import generated_docs
import pytest

PAGE = """# Page

<!-- begin numbers: written by `make docs` -->
{text}<!-- end numbers -->

More.
"""


def test_a_block_is_written_anew() -> None:
    for before in ("", "anything\n\nold\n"):
        page, names = generated_docs.generated(PAGE.format(text=before), {"numbers": lambda: "| 1 |\n"})
        assert (page, names) == (PAGE.format(text="\n| 1 |\n\n"), ["numbers"])
        assert generated_docs.generated(page, {"numbers": lambda: "| 1 |\n"})[0] == page


def test_two_blocks() -> None:
    two = PAGE.format(text="") + PAGE.format(text="").replace("numbers", "letters")
    page, names = generated_docs.generated(two, {"letters": lambda: "a", "numbers": lambda: "1"})
    assert names == ["numbers", "letters"]
    assert re.findall(r"^[a-z0-9]$", page, re.M) == ["1", "a"]


@pytest.mark.parametrize(
    ("page", "error"),
    [
        (PAGE.format(text=""), "block 'numbers' is none of letters: add it to BLOCKS in tools/generated_docs.py"),
        (PAGE.replace("end numbers", "end letters"), "a block begins and does not end, or ends under another name"),
    ],
)
def test_blocks_that_cannot_be_written(page: str, error: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        generated_docs.generated(page, {"letters": lambda: "a"})


def test_a_block_in_no_page(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("Nothing is generated here.\n")
    (tmp_path / "docs/page.md").write_text(PAGE.format(text=""))
    texts, problems = generated_docs.pages(tmp_path, {"numbers": lambda: "1", "letters": lambda: "a"})
    assert list(texts) == [tmp_path / "README.md", tmp_path / "docs/page.md"]
    assert problems == ["block 'letters' is in no page: add it to one, or remove it from BLOCKS"]
