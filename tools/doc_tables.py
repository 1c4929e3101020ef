"""Tables and lists for blocks of generated_docs.py: rooms, stacks, operating systems, the doctor's checks, pages."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import rooms as rooms_of_the_logic
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._cloud import amx_types, request
from ansible_collections.amx.cluster.plugins.module_utils._documents import defaults
from ansible_collections.amx.cluster.plugins.module_utils._hosts import systems
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.catalogue import CHECKS
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import FAILURE, WARNING
from ansible_collections.amx.cluster.plugins.module_utils._jobs import run_files
from ansible_collections.amx.cluster.plugins.module_utils._stacks import arguments
from ansible_collections.amx.cluster.plugins.module_utils._stacks.catalogue import versions_of

ROOT = Path(__file__).resolve().parent.parent
CATALOGUE = ROOT / "roles/torch_stack/vars/stacks.yml"
# What tests/integration/optimize/judge_zoo.py --write has found.
ZOO = ROOT / "tests/integration/optimize/zoo.json"
# The index of the site: groups of pages, each page with the question that it answers.
INDEX = ROOT / "docs/docsite/index.md"
ENTRY = re.compile(r"^(?::caption: (?P<caption>.+)|(?:(?P<question>.+) <)?/(?P<page>docs/\w+)>?)$", re.MULTILINE)


def read(name: str) -> Any:
    """Return a variable of the file of the catalogue."""
    return yaml.safe_load(CATALOGUE.read_text(encoding="utf-8"))[name]


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table of rows, the first one being its head."""
    head, *body = rows
    return "".join(f"| {' | '.join(cells)} |\n" for cells in [head, ["---"] * len(head), *body])


def item(text: str) -> str:
    """Return an item of a Markdown list, in lines that are not too long."""
    return (
        textwrap.fill(
            text, 120, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
        )
        + "\n"
    )


# The parts above the rooms of the logic: where, what it has, and what it may import.
ABOVE = (
    ("`playbooks`, `roles`", "what is done on which hosts", ""),
    ("`runtime`", "all that runs in ranks: wrapper, observer, optimize, collectives, inference, network", "logic"),
    ("`plugins/modules`", "run on hosts: arguments, one call, `exit_json`", "logic"),
    ("`plugins/action`, `filter`, `lookup`, `callback`", "run on the control node", "`plugin_utils`, logic"),
    ("`plugins/plugin_utils`", "what these share", "Ansible, logic"),
)


def rooms() -> str:
    """Return the table of the rooms: those of the logic as their __init__.py has them, the last one first."""
    rows = [["room", "content", "may import"], *map(list, ABOVE)]
    for room in reversed(rooms_of_the_logic.rooms()):
        imports = ", ".join(f"`{name}`" for name in room.imports) or "nothing"
        rows.append([f"`{room.name}`", room.what.rstrip("."), imports])
    beside = ", ".join(f"`{path.name}`" for path in sorted(rooms_of_the_logic.ROOT.glob("*.py")))
    rows.append([beside, "for every room", "each other"])
    return table(rows)


def stacks() -> str:
    """Return the list of stacks: Python, backend and the version of each package."""
    text = ""
    for name, stack in read("__torch_stack_catalogue").items():
        packages = ", ".join(f"{package} {version}" for package, version in versions_of(stack).items())
        pythons = f"{stack['python'][0]}-{stack['python'][-1]}"
        use = f"for `--engine {stack['serves']}`" if "serves" in stack else f"backend {stack['backend']}"
        text += item(f"`{name}`: Python {pythons}, {use}; {packages}")
    return text


def argument_names() -> str:
    """Return the arguments by which the transformers of each stack is set to what a job requests, as a list."""
    catalogue = read("__torch_stack_catalogue")
    settings = {"cpu": "CPU only, always", "distributed": "more than one rank", "bf16": "bf16", "ipex": "IPEX"}
    names = {}
    for stack, pins in catalogue.items():
        if "serves" not in pins:
            names[stack] = arguments.by_version(versions_of(pins), pins["backend"])
    text = ""
    for setting, title in settings.items():
        stacks_of: dict[str, list[str]] = {}
        for stack, name in names.items():
            words = " ".join(run_files.render_arguments(name[setting]))
            stacks_of.setdefault(words, []).append(stack)
        stacks_of.pop("", None)
        usual = max(stacks_of, key=lambda words: len(stacks_of[words]))
        others = [f"; {', '.join(have)}: `{words}`" for words, have in stacks_of.items() if words != usual]
        text += item(f"{title}: `{usual}`{''.join(others)}")
    return text


def operating_systems() -> str:
    """Return the list of operating systems: their Pythons, the package of tcmalloc, and what ran on them."""
    usual = systems.System._field_defaults["seen"]
    text = ""
    for system in systems.SYSTEMS:
        newer = ", ".join(f"`python{version}`" for version in system.newer)
        text += item(
            f"{system.title}: Python {system.python}{f', and {newer} from {system.newer_from}' if newer else ''}; "
            f"`{system.tcmalloc}`{f' ({system.tcmalloc_from})' if system.tcmalloc_from else ''}"
            f"{', not checked' if system.unchecked else ''}{'' if system.seen == usual else f'; {system.seen}'}"
        )
    return text


def cloud_fields() -> str:
    """Return the list of the fields of cloud files: those that are required, then the others with their defaults."""
    usual = {"image": "ubuntu-24.04", "disk": "{size: 128, type: gp3}"}
    known = defaults(request.Request)
    text = "Required:\n\n"
    for name, row in request.FIELDS.items():
        if name not in known:
            text += item(f"`{name}`: {row.text}")
    text += "\nOptional, with the default:\n\n"
    for name, row in request.FIELDS.items():
        if name in known:
            value = usual.get(name) or known[name]
            text += item(f"`{name}`{f' (`{value}`)' if value else ''}: {row.text}")
    return text


def types_with_amx() -> str:
    """Return the list of instance families with AMX, those of one CPU and source in one line."""
    text = ""
    for family in dict.fromkeys(amx_types.FAMILIES.values()):
        names = ", ".join(f"`{name}`" for name, known in amx_types.FAMILIES.items() if known == family)
        source = f"[AWS]({family.source})" if family.source.startswith("https:") else family.source
        text += item(f"{names}: {family.cpu} ({source})")
    return text


def pins_by_python() -> str:
    """Return the list of versions that differ from a stack's own on some Python."""
    text = ""
    for name, stack in read("__torch_stack_catalogue").items():
        for python, own in stack.get("by_python", {}).items():
            versions = ", ".join(f"{package} {version}" for package, version in own["packages"].items())
            text += item(f"`{name}` on Python {python}: {versions}")
    return text


def checks() -> str:
    """Return the lists of the doctor's checks; those that the short form leaves out have an asterisk."""
    text = ""
    for severity, title in ((FAILURE, "Failures"), (WARNING, "Warnings")):
        rows = [
            item(f"`{check.name}`{'*' if check.full else ''}: {check.cause}")
            for check in CHECKS
            if check.severity == severity
        ]
        text += f"{title}, and what happens otherwise:\n\n{''.join(rows)}\n"
    return text


def pages(index: Path = INDEX) -> str:
    """Return the list of pages for docs/README.md, with the groups and questions of the site's index.

    Raises ValueError for a page that has no question there.
    """
    text, caption = "", ""
    for entry in ENTRY.finditer(index.read_text(encoding="utf-8")):
        page = f"{entry['page']}.md"
        if entry["caption"]:
            caption = entry["caption"]
        elif not entry["question"]:
            raise ValueError(f"{page} has no question in {index.name}: write QUESTION </docs/PAGE> there")
        else:
            text += f"\n## {caption}\n\n" if caption else ""
            caption = ""
            title = (ROOT / page).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
            text += f"- [{title.partition(':')[0]}]({page.removeprefix('docs/')}): {entry['question']}\n"
    return text.strip()


def scripts_compared() -> str:
    """Return the table of training scripts with and without the parts of optimize, as judge_zoo.py has written it."""
    results = json.loads(ZOO.read_text(encoding="utf-8"))
    by_parts: dict[str, list[str]] = {}
    for row in sorted(results["rows"], key=lambda row: -row["difference"]):
        parts = ", ".join(f"`{part}`" for part in row["acted"]) or "none"
        by_parts.setdefault(parts, []).append(f"{row['script'].replace('_', ' ')} {row['difference']:.0e}")
    rows = [["parts that acted", "scripts, and the largest relative difference of a loss"]]
    rows += [[parts, ", ".join(scripts)] for parts, scripts in sorted(by_parts.items(), key=lambda item: -len(item[1]))]
    machine = "one core of an AMD EPYC with avx512_bf16 (2 cores)"
    return f"{len(results['rows'])} scripts of 20 steps, {machine}, {results['date']}:\n\n{table(rows)}"


def role_metadata(generated: Mapping[Path, str]) -> dict[Path, str]:
    """Return {path: text} of each role's meta/main.yml: the description that Galaxy shows in the list of roles.

    generated: {path: text} of files that are written.
    """
    texts = {}
    for path in sorted(ROOT.glob("roles/*/meta/argument_specs.yml")):
        specs = yaml.safe_load(generated.get(path) or path.read_text(encoding="utf-8"))["argument_specs"]
        texts[path.with_name("main.yml")] = (
            "---\n# Written by `make docs` from argument_specs.yml, for the list of roles in Galaxy.\n"
            f"galaxy_info:\n  description: {specs['main']['short_description']}\n  standalone: false\n"
        )
    return texts
