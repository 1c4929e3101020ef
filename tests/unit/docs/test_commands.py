"""Commands in pages, playbooks and documentation name an inventory: without one, they mean the control node alone."""

from __future__ import annotations

import re

import pytest
from support.checkout import ROOT, tracked

TEXTS = tracked("*.md", "playbooks/*.yml", "roles/*", "inventories/*", "jobs/*", "plugins/modules/*.py")
COMMAND = re.compile(r"ansible-playbook (?:-\S+ )*?(?:\S*playbooks/\w+|site)\.yml.*")


@pytest.mark.parametrize("name", TEXTS)
def test_every_command_names_an_inventory(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8", errors="ignore")
    assert [command for command in COMMAND.findall(text) if " -i " not in command] == []
