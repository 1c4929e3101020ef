"""The examples of job files in the docs are valid jobs."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import parse

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", ["README.md", "docs/job_files.md"])
def test_the_example_is_a_valid_job(name: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    blocks = re.findall(r"^    name: mine\n(?:    .*\n)+", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    assert len(blocks) == 1
    assert parse(yaml.safe_load(textwrap.dedent(blocks[0])), tmp_path / "mine.yml").name == "mine"
