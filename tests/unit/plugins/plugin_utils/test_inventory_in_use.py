from __future__ import annotations

from pathlib import Path

import pytest
from ansible import constants, context
from ansible_collections.amx.cluster.plugins.filter.commands import FilterModule
from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use

COMMANDS = FilterModule().filters()["commands"]


def started_with(monkeypatch: pytest.MonkeyPatch, *sources: str) -> None:
    monkeypatch.setattr(context, "CLIARGS", {"inventory": sources})


def test_the_inventory_in_use_is_in_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    started_with(monkeypatch, str(Path.cwd() / "hosts.yml"))
    assert COMMANDS("run site.yml") == "run ansible-playbook -i hosts.yml site.yml"


def test_the_default_inventory_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    started_with(monkeypatch, *constants.DEFAULT_HOST_LIST)
    assert COMMANDS("run site.yml") == "run ansible-playbook site.yml"


def test_an_installed_collection_is_known_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    started_with(monkeypatch, "a,b")
    monkeypatch.setattr(
        inventory_in_use, "COLLECTION", Path("/home/me/.ansible/collections/ansible_collections/amx/cluster")
    )
    assert COMMANDS("run site.yml, or playbooks/train.yml -e job=a") == (
        "run ansible-playbook -i a,b amx.cluster.site, or ansible-playbook -i a,b amx.cluster.train -e amx_job=a"
    )
