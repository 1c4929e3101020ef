"""Messages that docs/troubleshooting.md quotes are in the code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from language import CODE, TASKS, Text, in_code, in_tasks
from support.checkout import ROOT, tracked

# What Ansible, ssh or the kernel say, and names.
OF_OTHERS = {
    "UNREACHABLE",
    "Permission denied (publickey",
    "Host key verification failed",
    "Missing sudo password",
    "lost",
    "expect",
}


def texts(patterns: tuple[str, ...], of: Callable[[str], Iterator[Text]]) -> Iterator[str]:
    for name in tracked(*patterns):
        for text in of((ROOT / name).read_text(encoding="utf-8")):
            yield re.sub(r"\{\{.*?\}\}|\{\}", "...", text.text)


@pytest.mark.slow
def test_quoted_messages_exist() -> None:
    page = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    rows = re.findall(r"^- ((?:`[^`]+`(?:, )?)+)", page, re.MULTILINE)
    quoted = {quote for row in rows for quote in re.findall(r"`([^`]+)`", row)} - OF_OTHERS
    messages = "\n".join([*texts(CODE, in_code), *texts(TASKS, in_tasks)])
    assert len(quoted) > 20
    assert [quote for quote in sorted(quoted) if quote not in messages] == []
