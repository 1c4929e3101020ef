"""What pages show is as the code has it: a map, a refusal, job files; and commands that can be run."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Request, allocate
from ansible_collections.amx.cluster.plugins.module_utils._cores.core_map import CoreMap
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import build
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import parse
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import arguments, init, table
from support.checkout import ROOT, tracked
from support.machines import machine

ALLOCATION = (ROOT / "docs/core_allocation.md").read_text(encoding="utf-8")
NODE = build(machine(1, 32, 2).cpus(), None)
TEXTS = tracked("*.md", "playbooks/*.yml", "roles/*", "inventories/*", "jobs/*", "plugins/modules/*.py")
COMMAND = re.compile(r"ansible-playbook (?:-\S+ )*?(?:\S*playbooks/\w+|site)\.yml.*")

# Commands of amx: lines of a code block, which can be run, and code in a text, which may leave out arguments.
LINE = re.compile(r"^ {4,}(?:\$ )?(amx [a-z-].*)", re.MULTILINE)
INLINE = re.compile(r"`(amx [a-z-][^`]*)`")


def commands(text: str, pattern: re.Pattern[str]) -> Iterator[list[str]]:
    """The arguments of each command of amx in a page, without comments and what its output is piped to."""
    for line in pattern.findall(text):
        words = shlex.split(line, comments=True)[1:]
        ends = [words.index(word) for word in ("|", "&&", ">") if word in words]
        yield words[: min(ends, default=len(words))]


def refusal(words: list[str]) -> str:
    """Why amx refuses its arguments; an empty string where it does not."""
    name, others = arguments.split(words)
    if name in table.OWN or set(others) & set(arguments.HELP):
        return ""
    try:
        arguments.read(arguments.command(name), others)
    except arguments.UsageError as error:
        return str(error)
    return ""


def test_the_map_of_an_allocation() -> None:
    text = CoreMap.of(allocate(NODE, Request(2, "ccl", 1, 6))).text()
    assert f"\n\n    {text.splitlines()[0]}\n\n" in ALLOCATION


def test_the_refusal_of_an_allocation() -> None:
    with pytest.raises(ValueError) as refused:
        allocate(NODE, Request(8, "ccl", 3, 2))
    assert str(refused.value) in " ".join(ALLOCATION.split())


def block(name: str, first: str) -> str:
    """The code block of a page that begins with this line."""
    blocks = re.findall(
        rf"^    {re.escape(first)}\n(?:    .*\n)+", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(blocks) == 1
    return textwrap.dedent(blocks[0])


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.stem)
def test_a_blank_line_precedes_each_code_block(page: Path) -> None:
    assert not re.findall(r"\n[^ \n|][^\n]*\n    \S[^\n]*", page.read_text(encoding="utf-8"))


def test_the_example_of_a_job_file_is_valid(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    text = block("docs/job_files.md", "name: mine")
    assert parse(yaml.safe_load(text), tmp_path / "mine.yml").name == "mine"


def test_the_job_files_of_frameworks_are_valid(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/train.py").touch()
    page = (ROOT / "docs/own_train_py.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^    # mine\.yml\n((?:    .*\n)+)", page, re.MULTILINE)
    assert len(blocks) == 7
    for text in blocks:
        job = textwrap.dedent(text).replace("/home/me", str(tmp_path))
        for name in re.findall(rf"{tmp_path}/([^}}]+)", job):
            (tmp_path / name).mkdir(exist_ok=True)
        assert parse(yaml.safe_load(job), tmp_path / "mine.yml").name == "mine"


def test_the_job_in_readme_is_a_part_of_the_csv_job() -> None:
    shown = yaml.safe_load(block("README.md", "name: csv"))
    shipped = yaml.safe_load((ROOT / "jobs/csv.yml").read_text(encoding="utf-8"))
    shipped["args"] = {name: shipped["args"][name] for name in shown["args"]}
    assert shown == {name: shipped[name] for name in shown}


def test_the_inventory_that_readme_makes_is_the_example(tmp_path: Path) -> None:
    (line,) = re.findall(r"^    amx init (.*?)  +#", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    _directory, *servers = line.split()
    init.make(ROOT, ["mine", *servers], tmp_path)
    made, example = (
        InventoryManager(loader=DataLoader(), sources=[str(path)])
        for path in (tmp_path / "mine/inventory", ROOT / "inventories/example")
    )
    for group in ("head", "workers", "cluster"):
        addresses = [str(host.vars["ansible_host"]) for host in example.get_hosts(group)]
        assert [str(host) for host in made.get_hosts(group)] == addresses
    assert made.groups["cluster"].get_vars() == example.groups["cluster"].get_vars()


@pytest.mark.parametrize("name", TEXTS)
def test_every_command_names_an_inventory(name: str) -> None:
    """Without one, it means the control node alone. A cloud file, from which an inventory is made, stands for one."""
    text = (ROOT / name).read_text(encoding="utf-8", errors="ignore")
    assert [command for command in COMMAND.findall(text) if not re.search(r" -i | -e (amx_)?cloud=", command)] == []


def test_the_survey_is_one_that_awx_takes() -> None:
    """As its API checks a survey; and of options that `amx train` has, in the table of the page."""
    survey = json.loads((ROOT / "meta/awx_survey.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs/awx.md").read_text(encoding="utf-8")
    assert isinstance(survey["name"], str) and isinstance(survey["description"], str)
    for question in survey["spec"]:
        assert question["type"] in {"text", "textarea", "multiplechoice"}
        assert isinstance(question["question_name"], str) and isinstance(question["required"], bool)
        assert isinstance(question["default"], str)
        assert question["type"] != "multiplechoice" or question["default"] in question["choices"]
        assert table.BY_NAME["train"].option(question["variable"])
        assert f"| {question['question_name']} | `{question['variable']}` | {question['type']}" in page


@pytest.mark.parametrize("name", tracked("*.md"))
def test_amx_takes_the_arguments_of_every_command(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    in_blocks = [refusal(words) for words in commands(text, LINE)]
    in_texts = [refusal(words) for words in commands(text, INLINE)]
    assert [said for said in in_blocks if said] == []
    assert [said for said in in_texts if said and " is missing: " not in said] == []


def test_amx_refuses_an_option_that_it_does_not_have() -> None:
    assert [refusal(words) for words in commands("    $ amx status demo --pod 1 | cat  # one\n", LINE)] == [
        "amx status: unknown option --pod; `amx status --help` lists all"
    ]
