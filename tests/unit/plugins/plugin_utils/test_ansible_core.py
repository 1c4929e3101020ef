"""What the collection uses of ansible-core's own parts, on tasks as the ansible-core that is installed makes them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.plugin_utils import ansible_core
from support.checkout import ROOT, importing

PLAYBOOK = """
- hosts: all
  roles:
    - role: outer
    - role: amx.cluster.pass_on
  tasks:
    - name: Plain
      ansible.builtin.ping:
      delegate_to: "{{ somewhere }}"
    - block:
        - name: Saved
          ansible.builtin.ping:
          delegate_to: node1
        - block:
            - ansible.builtin.ping:
              loop: [1, 2]
      rescue:
        - name: Saves
          ansible.builtin.ping:
"""


# Ansible's own loader of collections is for a process as a whole.
READS = """
import json, sys
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader([sys.argv[2]])
from ansible.executor.task_result import CallbackTaskResult as Result
from ansible.inventory.host import Host
from ansible.parsing.dataloader import DataLoader
from ansible.playbook import Playbook
from ansible.playbook.block import Block
from ansible.vars.manager import VariableManager
from ansible_collections.amx.cluster.plugins.plugin_utils import ansible_core

def listed(blocks):
    for each in blocks:
        if isinstance(each, Block):
            yield from listed([*each.block, *each.rescue])
        elif "meta" not in each.action:
            yield each

loader = DataLoader()
(play,) = Playbook.load(sys.argv[1], VariableManager(loader=loader), loader).get_plays()
found = {}
for task in listed(play.compile()):
    outcome = ansible_core.Outcome(Result(Host("node0"), task, {"results": [{}]}, task.dump_attrs()))
    assert (outcome.host, outcome.task, outcome.result) == ("node0", task, {"results": [{}]})
    about = {name: getattr(ansible_core, name)(task) for name in sys.argv[3:]}
    found[ansible_core.name(task)] = {**about, "looped": outcome.looped}
print(json.dumps(found))
"""
PARTS = ("key", "role", "outermost_role", "delegate", "place", "is_ours", "is_rescued")


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What is read of each task of PLAYBOOK, by its name."""
    folder = tmp_path_factory.mktemp("play")
    for role, content in {
        "outer": "- ansible.builtin.import_role: {name: inner}\n",
        "inner": "- {name: Within, ansible.builtin.ping: }\n",
    }.items():
        (folder / "roles" / role / "tasks").mkdir(parents=True)
        (folder / "roles" / role / "tasks/main.yml").write_text(content)
    (folder / "play.yml").write_text(PLAYBOOK)
    command = [sys.executable, "-c", READS, str(folder / "play.yml"), str(ROOT / ".collections"), *PARTS]
    ran = subprocess.run(command, cwd=folder, env=importing(), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, dict[str, Any]] = json.loads(ran.stdout)
    return found


def read(tasks: dict[str, dict[str, Any]], part: str) -> dict[str, Any]:
    """A part of what is read, of the tasks for which there is something."""
    return {name: about[part] for name, about in tasks.items() if about[part]}


@pytest.mark.slow
def test_tasks(tasks: dict[str, dict[str, Any]]) -> None:
    unnamed = "ansible.builtin.ping"
    assert len(set(read(tasks, "key").values())) == len(tasks)
    assert (tasks["Within"]["role"], tasks["Within"]["outermost_role"]) == ("inner", "outer")
    assert not {"Plain", "Saved", unnamed, "Saves"} & {*read(tasks, "role"), *read(tasks, "outermost_role")}
    assert read(tasks, "delegate") == {"Saved": "node1"}  # the other one is a template
    assert tasks["Plain"]["place"] == "play.yml:7"
    assert set(read(tasks, "is_rescued")) == {"Saved", unnamed}
    assert set(read(tasks, "looped")) == {unnamed}
    ours = [name for name, role in read(tasks, "role").items() if role == "pass_on"]
    assert list(read(tasks, "is_ours")) == ours != []


def test_all_output_and_prompts_are_replaced() -> None:
    """They are methods of Display, which Ansible's main process and its plugins call on one object."""
    assert {"display", "prompt", "prompt_until"} <= set(dir(Display))
    asked: list[str] = []

    def quietly(prompt: Callable[..., str]) -> Callable[..., str]:
        return lambda *words: prompt(*words).upper()

    own = SimpleNamespace(display=None, prompt=lambda text: text, prompt_until=lambda text, _seconds: text)
    ansible_core.replace_output(own, asked.append, quietly)
    own.display("shown")
    assert (asked, own.prompt("a"), own.prompt_until("b", 1)) == (["shown"], "A", "B")
