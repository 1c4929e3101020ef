"""The commands of `amx` are the playbooks, and their options the variables that playbooks and roles read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._jobs import reset
from ansible_collections.amx.cluster.plugins.module_utils._measure.kinds import KINDS
from ansible_collections.amx.cluster.plugins.plugin_utils import document, measurements
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import table
from support.checkout import ROOT

pytestmark = pytest.mark.slow


EXTRA = re.compile(r"lookup\('amx\.cluster\.extra_var', '(\w+)'")
# Which methods of a runtime the actions of a role call.
ACTIONS = {
    "job_log": ("has", "log"),
    "job_status": ("status",),
    "job_stop": ("has", "stop"),
    "job_fetch": ("has", "fetch"),
}
OF_STOP = {"remove", "grace", "volume"}
# What a playbook reads and what makes no sense with it.
WITHOUT = {
    # Its jobs are those of the measurement; the interrupted one is stopped.
    "scale": {"profile", *OF_STOP},
    "tune": {"profile", *OF_STOP},
    "infer": {"profile", *OF_STOP},
    # The estimate is made anew each time.
    "plan": {"profile", "again", *OF_STOP},
    "verify": {"profile"},
    "network": {"profile"},
    # Its job is one without a file.
    "site": {"job", "override", "profile"},
    # Their jobs are those of the prediction and of the server.
    "predict": {"profile", "pod", "volume"},
    "serve": {"profile", "pod", "volume"},
    # The page that it makes is that of the job.
    "results": {"of", "to", "mixed", "host_price_per_hour"},
    # It rents, and removes nothing.
    "cloud-train": {"state", "images"},
}


class Reached:
    """What a playbook reaches: `text` of all its plays and tasks, and the roles that these are of."""

    def __init__(self, playbook: str) -> None:
        self.text, self.roles, self.seen = "", set[str](), set[Path]()
        self.playbook(playbook)

    def playbook(self, name: str) -> None:
        for play in self.read(ROOT / "playbooks" / f"{name}.yml"):
            if imported := play.get("ansible.builtin.import_playbook"):
                self.playbook(imported.rpartition(".")[2])
            for role in play.get("roles", []):
                self.role(role if isinstance(role, str) else role["role"], "main.yml")
            self.tasks(play.get("tasks", []), Path())

    def role(self, role: str, file: str) -> None:
        name = role.rpartition(".")[2]
        self.roles.add(name)
        pattern = re.sub(r"{{.*?}}", "*", file)
        # A file that another role names is not one of its own.
        for path in sorted((ROOT / "roles" / name / "tasks").glob(pattern)) if pattern != "*" else []:
            self.tasks(self.read(path), path.parent)

    def read(self, path: Path) -> list[dict[str, Any]]:
        if path in self.seen:
            return []
        self.seen.add(path)
        text = path.read_text(encoding="utf-8")
        self.text += re.sub(r"(?m)^ *#.*$", "", text)
        return list(yaml.safe_load(text) or [])

    def tasks(self, tasks: Iterable[dict[str, Any]], folder: Path) -> None:
        for task in tasks:
            for section in ("block", "rescue", "always"):
                self.tasks(task.get(section, []), folder)
            for kind in ("import", "include"):
                if role := task.get(f"ansible.builtin.{kind}_role"):
                    self.role(role["name"], role.get("tasks_from", "main.yml"))
                if file := task.get(f"ansible.builtin.{kind}_tasks"):
                    name = file if isinstance(file, str) else file["file"]
                    if folder != Path() and "/" not in name:
                        self.role(folder.parent.name, name)

    def variables(self) -> set[str]:
        """Return the options that the text reads, and the variables of the roles that it names."""
        known = dict(pair for role in self.roles for pair in of_role(role))
        text, waiting = self.text, True
        while waiting:
            named = {name for name in known if re.search(rf"\b{name}\b", text)}
            text += " ".join(known.pop(name) for name in named)
            waiting = bool(named)
        return set(EXTRA.findall(text))


def of_role(role: str) -> Iterator[tuple[str, str]]:
    """The variables of a role with what they are."""
    for kind in ("defaults", "vars"):
        path = ROOT / "roles" / role / kind / "main.yml"
        if path.exists():
            yield from ((name, str(value)) for name, value in (yaml.safe_load(path.read_text()) or {}).items())


def of_runtimes() -> dict[str, set[str]]:
    """The options that the methods of a runtime read."""
    tree = ast.parse((ROOT / "plugins/plugin_utils/runtimes/kubernetes.py").read_text())
    found: dict[str, set[str]] = {}
    for method in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        calls = (node for node in ast.walk(method) if isinstance(node, ast.Call))
        read = [call.args[0] for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "option"]
        found[method.name] = {str(name.value) for name in read if isinstance(name, ast.Constant)}
        if any(isinstance(node, ast.Attribute) and node.attr == "reads_volume" for node in ast.walk(method)):
            found[method.name].add("volume")
    return found


def read_by(command: table.Command) -> set[str]:
    """The options that a playbook reads."""
    reached = Reached(command.playbook)
    found = reached.variables()
    for action in re.findall(r"\bamx\.cluster\.(\w+):", reached.text):
        path = ROOT / f"plugins/action/{action}.py"
        text = path.read_text() if path.exists() else ""
        found |= set(re.findall(r'self\.given\("(\w+)"', text))
        for role in re.findall(r' ROLE(?:, ARGUMENTS)? = "(\w+)"', text):
            found |= {option.name for _variable, option in table.of_role(role) if not option.of_role}
    if "inventory_reports: true" in reached.text:
        found |= set(document.ARGUMENTS)
    kinds = re.findall(r"^ *measure_kind: (.*)", reached.text, re.MULTILINE)
    for kind in (kind for kind in KINDS for value in kinds if re.search(rf"\b{kind}\b", value)):
        found |= set(measurements.names(kind))
    runtimes = of_runtimes()
    for action, methods in ACTIONS.items():
        if re.search(rf"\bamx\.cluster\.{action}:", reached.text):
            found = found.union(*(runtimes[method] for method in methods))
    return found


def test_every_playbook_has_a_command() -> None:
    playbooks = {path.stem for path in (ROOT / "playbooks").glob("*.yml")}
    # With measure.yml, the commands scale, tune and infer begin.
    assert {command.playbook for command in table.COMMANDS} == playbooks - {"measure"}


@pytest.mark.parametrize("command", table.COMMANDS, ids=lambda command: command.name)
def test_a_command_has_the_options_that_its_playbook_reads(command: table.Command) -> None:
    options = {one.name for one in (*command.arguments, *command.options) if not one.of_role}
    assert options == read_by(command) - WITHOUT.get(command.name, set())


@pytest.mark.parametrize("command", table.COMMANDS, ids=lambda command: command.name)
def test_variables_of_roles_are_those_of_its_roles(command: table.Command) -> None:
    reached = Reached(command.playbook)
    own = {name for role in reached.roles for name, _value in of_role(role)}
    for option in command.options:
        if option.of_role:
            assert option.name in own or re.search(rf"\b{option.name}\b", reached.text), option.name


@pytest.mark.parametrize("command", table.COMMANDS, ids=lambda command: command.name)
def test_the_first_comment_of_a_playbook_names_options_that_there_are(command: table.Command) -> None:
    text = (ROOT / "playbooks" / f"{command.playbook}.yml").read_text(encoding="utf-8")
    comment = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    for name in re.findall(r"-e (?:'\{)?(\w+)", comment):
        option = command.option(name)
        assert option, name
        assert name == option.variable


def test_every_option_of_a_runtime_is_one_of_a_command() -> None:
    assert set().union(*of_runtimes().values()) <= table.NAMES


def test_pieces_are_those_of_a_reset() -> None:
    assert set(table.RESET.choices) == {*reset.PIECES, "all"}


@pytest.mark.parametrize("command", table.COMMANDS, ids=lambda command: command.name)
def test_rows_are_whole(command: table.Command) -> None:
    options = [*command.arguments, *command.options]
    assert command.group in table.GROUPS
    assert len({one.switch for one in options}) == len(options)
    assert {one.switch for one in options}.isdisjoint(name for one in table.ANSIBLE for name in one.names)
    assert all(one.text and "\n" not in one.text and len(one.text) < 90 for one in options)
    assert command.instead in ("", *(one.name for one in command.options))
