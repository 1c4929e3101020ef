"""Playbooks and options in all messages that there are, as users of `amx` and of ansible-playbook type them."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import arguments, messages, table
from support.checkout import ROOT, tracked

NAMES = "|".join(sorted(table.NAMES))
NAMED = re.compile(r"(?:playbooks/\w+|\bsite)\.yml|-e +(?:'\{)?\w")
# A filter of MLflow, a list of playbooks in a refusal of ansible-playbook, and what stands below a forecast of memory.
LEFT = ("tags.`", "format: json is for playbooks/status.yml, doctor.yml", "-e X=false starts it all the same.")

# Values that are parts of commands.
PARTS = {"start": "playbooks/train.yml -e job=X", "option": " -e job=X"}


def in_code(name: str) -> Iterator[str]:
    """The texts of a Python file, but for its docstrings; X for each value."""
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    parts = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    alone = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(map(shown, node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts | alone:
            yield node.value


def shown(part: ast.expr) -> str:
    """A part of a text: as it stands, or X for a value."""
    if isinstance(part, ast.FormattedValue):
        return PARTS.get(ast.unparse(part.value), "X")
    return str(part.value) if isinstance(part, ast.Constant) else "X"


def in_tasks(value: Any) -> Iterator[str]:
    """The texts in tasks of a role; X for each value."""
    if isinstance(value, str):
        yield re.sub(r"{{.*?}}", "X", value, flags=re.DOTALL)
    elif isinstance(value, (list, dict)):
        for each in value if isinstance(value, list) else value.values():
            yield from in_tasks(each)


def texts() -> dict[str, str]:
    """All messages that name a playbook or an option, by their place."""
    found = [(name, text) for name in tracked("plugins/*.py") for text in in_code(name)]
    for name in tracked("roles/*/tasks/*.yml"):
        found += [(name, text) for text in in_tasks(yaml.safe_load((ROOT / name).read_text(encoding="utf-8")))]
    named = [(name, text) for name, text in found if NAMED.search(text) and "DOCUMENTATION" not in text]
    return {
        f"{name}:{text[:60]}": text for name, text in named if "amx_command/" not in name and not text.startswith(LEFT)
    }


TEXTS = texts()


@pytest.mark.parametrize("place", TEXTS)
def test_a_message_recommends_what_amx_takes(place: str) -> None:
    said = messages.for_amx(TEXTS[place], "", "")
    assert not re.search(r"(?<![\w/.-])(?:playbooks/\w+|site)\.yml|ansible-playbook", said), said
    assert not re.search(rf"-e (?:'\{{)?(?:{NAMES})\b", said), said
    for found in messages.COMMAND.finditer(TEXTS[place]):
        name, rest = arguments.split(shlex.split(messages.for_amx(found[0], "", ""))[1:])
        try:
            arguments.read(arguments.command(name), rest)
        except arguments.UsageError as error:
            assert " is missing: " in str(error), said


@pytest.mark.parametrize("place", TEXTS)
def test_a_message_recommends_what_ansible_playbook_takes(place: str) -> None:
    said = messages.for_ansible(TEXTS[place])
    assert not re.search(rf"-e (?:'\{{)?(?:{NAMES})\b", said), said
    assert messages.for_ansible(said) == said


def test_there_are_messages() -> None:
    assert len(TEXTS) > 80
    assert any(place.startswith("roles/") for place in TEXTS)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("run site.yml, which installs it", "run amx site, which installs it"),
        ("stop it (playbooks/stop.yml\n-e job=demo), or wait", "stop it (amx stop demo), or wait"),
        ("ansible-playbook -i y playbooks/plan.yml -e job=site.yml", "amx plan site.yml"),
        ("playbooks/train.yml -e job=a.yml -e job_resume=true resumes it", "amx train a.yml --resume resumes it"),
        ("playbooks/stop.yml -e job=a -e remove=true", "amx stop a --remove"),
        ("with playbooks/stop.yml.", "with amx stop."),
        ("playbooks/reset.yml -e reset=environments,data", "amx reset environments data"),
        ("playbooks/predict.yml -e setting=f.yml -e data=FILE -e job=a", "amx predict a FILE --setting f.yml"),
        ("playbooks/cloud_train.yml -e job=b -e cloud=a", "amx cloud-train a b"),
        ("playbooks/train.yml -e own=1", "amx train -e own=1"),
        ("playbooks/train.yml -e '{override: {wait: true, args: {a: 1}}}'", "amx train --set wait=true --set args.a=1"),
        ("-e '{other: 1}' and -e own=1", "-e '{other: 1}' and -e own=1"),
        ("add -e again=true to start anew; -e write=false", "add --again to start anew; --no-write"),
        ("add -e vary=... with others", "add --vary ... with others"),
        ("no job was named: add -e job=FILE, or its name", "no job was named: add FILE, or its name"),
        ("correct -e columns", "correct --columns"),
        ("query is for JSON: add -e format=json", "query is for JSON: add --json"),
        ("-e job=/my/playbooks/train.yml", "/my/playbooks/train.yml"),
        ("playbooks/measure.yml, my-site.yml", "playbooks/measure.yml, my-site.yml"),
    ],
)
def test_commands_of_amx(text: str, shown: str) -> None:
    assert messages.for_amx(text, "train", "") == shown


def test_an_inventory_of_the_command_line_is_in_the_command() -> None:
    said = messages.for_amx("playbooks/logs.yml -e job=a", "train", "-i inventories/mine")
    assert said == "amx -i inventories/mine logs a"


def test_an_option_alone_is_one_of_the_running_command() -> None:
    assert messages.for_amx("-e reset=all", "reset", "") == "all"
    assert messages.for_amx("-e model=DIR", "predict", "") == "--model DIR"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("playbooks/train.yml -e job=a -e job_resume=true", "playbooks/train.yml -e amx_job=a -e job_resume=true"),
        ("as with -e '{override: {hosts: 2}}'", "as with -e '{amx_override: {hosts: 2}}'"),
        ("correct -e columns; some-e job=a", "correct -e amx_columns; some-e job=a"),
    ],
)
def test_options_of_ansible_playbook(text: str, shown: str) -> None:
    assert messages.for_ansible(text) == shown
