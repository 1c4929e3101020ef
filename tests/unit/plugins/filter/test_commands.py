from __future__ import annotations

from pathlib import Path

from ansible import constants
from ansible_collections.amx.cluster.plugins.filter.commands import commands


def test_the_inventory_in_use_is_in_the_command() -> None:
    assert commands("run site.yml", [str(Path.cwd() / "hosts.yml")]) == "run ansible-playbook -i hosts.yml site.yml"


def test_the_default_inventory_is_not() -> None:
    assert commands("run site.yml", constants.DEFAULT_HOST_LIST) == "run ansible-playbook site.yml"
