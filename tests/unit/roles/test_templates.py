"""Templates in roles and playbooks that would not come out as they were meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted([ROOT / "site.yml", *ROOT.glob("roles/*/*/**/*.yml"), *ROOT.glob("playbooks/*.yml")])


class Loader(yaml.SafeLoader):
    """Reads tags of Ansible (!unsafe, !vault) as plain values."""


Loader.add_multi_constructor("!", lambda loader, _suffix, node: loader.construct_scalar(node))


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_line_break_in_a_template_is_one(path: Path) -> None:
    """In a YAML block Ansible leaves a backslash and an n in a template as they are: join('\\n- ') prints them."""
    found = [
        template
        for document in yaml.load_all(path.read_text(encoding="utf-8"), Loader)
        for text in texts(document)
        for template in re.findall(r"{{.*?}}", text, re.DOTALL)
        if re.search(r"'[^']*\\n[^']*'", template) and not re.search(r"regex|split", template)
    ]
    assert not found
