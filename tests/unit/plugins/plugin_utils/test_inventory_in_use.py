from __future__ import annotations

from pathlib import Path

import pytest
from ansible import constants, context
from ansible_collections.amx.cluster.plugins.filter.commands import FilterModule
from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import launch

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


def test_what_a_command_was_given_is_in_one_that_continues_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `amx` and a person write it; not its job, nor how hosts are logged in to."""
    override = '{"amx_override": {"hosts": 2, "args": {"note": "it\'s, here"}}}'
    texts = ["amx_job=a.yml", override, "@more.yml", "job_prefix='/my jobs' ansible_become_password=x", "amx_profile=5"]
    monkeypatch.setattr(context, "CLIARGS", {"inventory": ["a,b"], "extra_vars": texts})
    given = inventory_in_use.given()
    written = '{"hosts": 2, "args": {"note": "it\\u0027s, here"}}'
    assert given == f"""-e '{{override: {written}}}' -e '{{job_prefix: "/my jobs"}}' -e profile=5 -e @more.yml"""
    text = f"playbooks/train.yml -e job=a.yml -e job_resume=true {given} resumes it"
    prefixed = given.replace("{override", "{amx_override").replace("profile", "amx_profile")
    assert inventory_in_use.commands(text) == (
        f"ansible-playbook -i a,b playbooks/train.yml -e amx_job=a.yml -e job_resume=true {prefixed} resumes it"
    )
    monkeypatch.setenv(launch.STARTED_BY, "train")
    assert inventory_in_use.commands(text) == (
        "amx -i a,b train a.yml --resume --set hosts=2 --set 'args.note=it'\"'\"'s, here' "
        """-e '{job_prefix: "/my jobs"}' --profile 5 -e @more.yml resumes it"""
    )
