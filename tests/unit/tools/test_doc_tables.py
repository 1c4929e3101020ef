from __future__ import annotations

import re
from pathlib import Path

import doc_tables
import pytest

INDEX = """# Title

```{{toctree}}
:caption: How-to
:maxdepth: 1

Is my cluster ready? </docs/doctor>
{entry}
```

```{{toctree}}
:caption: Project

/CONTRIBUTING
```
"""


def index(folder: Path, entry: str) -> Path:
    path = folder / "index.md"
    path.write_text(INDEX.format(entry=entry), encoding="utf-8")
    return path


def test_the_pages_of_the_index(tmp_path: Path) -> None:
    assert doc_tables.pages(index(tmp_path, "How well does it scale? </docs/scaling>")) == (
        "## How-to\n\n"
        "- [Checks before a run (doctor)](doctor.md): Is my cluster ready?\n"
        "- [Scaling](scaling.md): How well does it scale?"
    )


def test_a_page_without_a_question(tmp_path: Path) -> None:
    error = "docs/scaling.md has no question in index.md: write QUESTION </docs/PAGE> there"
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        doc_tables.pages(index(tmp_path, "/docs/scaling"))
