"""Tables for blocks of generated_docs.py: rooms, stacks, operating systems, the doctor's checks, and all pages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rooms as rooms_of_the_logic
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._cloud import amx_types, request
from ansible_collections.amx.cluster.plugins.module_utils._forms import defaults
from ansible_collections.amx.cluster.plugins.module_utils._hosts import systems
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.catalogue import CHECKS
from ansible_collections.amx.cluster.plugins.module_utils._jobs import run_files
from ansible_collections.amx.cluster.plugins.module_utils._stacks import arguments
from ansible_collections.amx.cluster.plugins.module_utils._stacks.catalogue import IPEX, versions_of

ROOT = Path(__file__).resolve().parent.parent
CATALOGUE = ROOT / "roles/torch_stack/vars/stacks.yml"
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


# The parts above the rooms of the logic: where, what lives there, what it may import, and where its tests are.
ABOVE = (
    (
        "`playbooks`, `roles`",
        "what is done on which hosts, in Ansible's own terms",
        "",
        "`molecule`, `tests/integration`",
    ),
    (
        "`roles/*/files`",
        "what ranks run: wrapper, observer, collectives, inference",
        "no Ansible; of the logic, what a job directory brings along",
        "`tests/unit/roles`, `tests/integration`",
    ),
    (
        "`plugins/modules`",
        "run on hosts: arguments, one call, `exit_json`",
        "the logic",
        "`tests/unit/plugins/modules`",
    ),
    (
        "`plugins/action`, `filter`, `lookup`, `callback`",
        "run on the control node: arguments, one call, what is shown",
        "`plugin_utils`, the logic",
        "`tests/unit/plugins/action` and so on",
    ),
    ("`plugins/plugin_utils`", "what these share", "Ansible, the logic", "`tests/unit/plugins/plugin_utils`"),
)


def rooms() -> str:
    """Return the table of the rooms: those of the logic as their __init__.py has them, the last one first."""
    rows = [["room", "what lives there", "may import", "tests"], *map(list, ABOVE)]
    for room in reversed(rooms_of_the_logic.rooms()):
        imports = ", ".join(f"`{name}`" for name in room.imports) or "nothing"
        rows.append([f"`{room.name}`", room.what.rstrip("."), imports, "at the same path in `tests/unit`"])
    beside = ", ".join(f"`{path.name}`" for path in sorted(rooms_of_the_logic.ROOT.glob("*.py")))
    rows.append([beside, "single files that every room may use", "each other", "`tests/unit/plugins/module_utils`"])
    return table(rows)


def stacks() -> str:
    """Return the table of stacks: Python, backend and the version of each package."""
    catalogue = read("__torch_stack_catalogue")
    versions = [versions_of(stack) for stack in catalogue.values()]
    packages = dict.fromkeys(package for have in versions for package in have)
    return table(
        [
            ["", *catalogue],
            ["Python", *(f"{stack['python'][0]} to {stack['python'][-1]}" for stack in catalogue.values())],
            ["backend", *(stack["backend"] for stack in catalogue.values())],
            *([package, *(have.get(package, "-") for have in versions)] for package in packages),
        ]
    )


def argument_names() -> str:
    """Return the table of the arguments by which each stack's transformers is set to what a job requests."""
    catalogue = read("__torch_stack_catalogue")
    rows = [["setting", *catalogue]]
    settings = {"cpu": "CPU only, always", "distributed": "more than one rank", "bf16": "bf16", "ipex": "IPEX"}
    names = []
    for stack in catalogue.values():
        versions = versions_of(stack)
        names.append(arguments.by_version(versions["transformers"], stack["backend"], IPEX in versions))
    for setting, title in settings.items():
        words = [" ".join(run_files.render_arguments(name[setting])) for name in names]
        rows.append([title, *(f"`{word}`" if word else "-" for word in words)])
    return table(rows)


def compatible_versions() -> str:
    """Return the table of versions of torch, IPEX and oneccl-bind-pt that work together."""
    rows = [["torch", "IPEX", "oneccl-bind-pt", "Pythons with wheels of all three"]]
    for known in read("__torch_stack_known_good"):
        rows.append([*(str(known[key]) for key in ("torch", "ipex", "oneccl")), " to ".join(known["python"])])
    return table(rows)


def operating_systems() -> str:
    """Return the table of operating systems: their Pythons, the package of tcmalloc, and what was seen of them."""
    rows = [["system", "its Python", "Pythons that can be installed", "tcmalloc", "seen"]]
    for system in systems.SYSTEMS:
        newer = ", ".join(f"`python{version}`" for version in system.newer)
        source = f" ({system.tcmalloc_from})" if system.tcmalloc_from else ""
        rows.append(
            [
                system.title,
                system.python,
                f"{newer} from {system.newer_from}" if newer else "-",
                f"`{system.tcmalloc}`{source}",
                f"{system.seen}; not checked: {system.unchecked}" if system.unchecked else system.seen,
            ]
        )
    return table(rows)


def cloud_fields() -> str:
    """Return the table of the fields of cloud files."""
    rows = [["field", "default", "meaning"]]
    usual = {"image": "`ubuntu-24.04`", "disk": "`{size: 128, type: gp3}`"}
    known = defaults(request.Request)
    for name, row in request.FIELDS.items():
        value = known.get(name)
        default = usual.get(name) or (f"`{value}`" if value else "" if name in known else "required")
        rows.append([f"`{name}`", default, row.text])
    return table(rows)


def types_with_amx() -> str:
    """Return the table of instance families with AMX."""
    rows = [["family", "CPU", "source"]]
    for name, family in amx_types.FAMILIES.items():
        source = f"[AWS]({family.source})" if family.source.startswith("https:") else family.source
        rows.append([f"`{name}`", family.cpu, source])
    return table(rows)


def pins_by_python() -> str:
    """Return the table of versions that differ from a stack's own on some Python."""
    rows = [["stack", "Python", "versions"]]
    for name, stack in read("__torch_stack_catalogue").items():
        for python, own in stack.get("by_python", {}).items():
            versions = ", ".join(f"{package} {version}" for package, version in own["packages"].items())
            rows.append([name, python, versions])
    return table(rows)


def checks() -> str:
    """Return the table of the doctor's checks; those that the short form leaves out have an asterisk."""
    rows = [["check", "severity", "what happens otherwise", "what to do"]]
    for check in CHECKS:
        rows.append([f"`{check.name}`{' *' if check.full else ''}", check.severity, check.cause, check.advice])
    return table(rows)


def pages(index: Path = INDEX) -> str:
    """Return the table of pages for README.md, with the groups and questions of the site's index.

    Raises ValueError for a page that has no question there.
    """
    rows, caption = [["question", "page"]], ""
    for entry in ENTRY.finditer(index.read_text(encoding="utf-8")):
        page = f"{entry['page']}.md"
        if entry["caption"]:
            caption = entry["caption"]
        elif not entry["question"]:
            raise ValueError(f"{page} has no question in {index.name}: write QUESTION </docs/PAGE> there")
        else:
            if caption:
                rows.append([f"**{caption}**", ""])
            caption = ""
            title = (ROOT / page).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
            rows.append([entry["question"], f"[{title.partition(':')[0]}]({page})"])
    return table(rows)
