"""Write the tables in docs/ that come from data (`tools/doc_tables.py write`), or `check` them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.catalogue import CHECKS
from ansible_collections.amx.cluster.plugins.module_utils._jobs import run_files
from ansible_collections.amx.cluster.plugins.module_utils._stacks.arguments import by_version
from ansible_collections.amx.cluster.plugins.module_utils._stacks.catalogue import IPEX, versions_of

CATALOGUE = "roles/torch_stack/vars/stacks.yml"
END = "<!-- The end of what `make docs` writes. -->"

WISHES = {"cpu": "CPU only, always", "distributed": "more than one rank", "bf16": "bf16", "ipex": "IPEX"}


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def checks() -> str:
    """Return the table of the doctor's checks; those that the short form leaves out have an asterisk."""
    text = row("check", "severity", "what happens otherwise", "what to do") + row(*["---"] * 4)
    for check in CHECKS:
        text += row(f"`{check.name}`{' *' if check.full else ''}", check.severity, check.cause, check.advice)
    return text


def stacks() -> str:
    """Return the tables of stacks, of arguments, and of versions that are known to fit."""
    data: dict[str, Any] = yaml.safe_load((ROOT / CATALOGUE).read_text(encoding="utf-8"))
    catalogue = data["__torch_stack_catalogue"]
    names = list(catalogue)
    versions = {name: versions_of(stack) for name, stack in catalogue.items()}
    text = row("", *names) + row("---", *("---" for _name in names))
    text += row("Python", *(f"{stack['python'][0]} to {stack['python'][-1]}" for stack in catalogue.values()))
    text += row("backend", *(str(stack["backend"]) for stack in catalogue.values()))
    packages = dict.fromkeys(package for have in versions.values() for package in have)
    for package in packages:
        text += row(package, *(versions[name].get(package, "-") for name in names))
    text += "\n## Argument names by version\n\n"
    text += row("setting", *names) + row("---", *("---" for _name in names))
    spelt = [
        by_version(versions[name]["transformers"], catalogue[name]["backend"], IPEX in versions[name]) for name in names
    ]
    for wish, title in (
        ("cpu", "CPU only, always"),
        ("distributed", "more than one rank"),
        ("bf16", "bf16"),
        ("ipex", "IPEX"),
    ):
        said = (" ".join(run_files.render_arguments(arguments[wish])) for arguments in spelt)
        text += row(title, *(f"`{words}`" if words else "-" for words in said))
    text += "\n## Compatible versions\n\n"
    text += row("torch", "IPEX", "oneccl-bind-pt", "Pythons with wheels of all three") + row(*(["---"] * 4))
    for known in data["__torch_stack_known_good"]:
        text += row(str(known["torch"]), str(known["ipex"]), str(known["oneccl"]), " to ".join(known["python"]))
    return text


# Of each page, from what its tables are made, and the function that makes them.
PAGES: dict[str, tuple[str, Callable[[], str]]] = {
    "docs/doctor.md": ("plugins/module_utils/_hosts/checks", checks),
    "docs/stacks.md": (CATALOGUE, stacks),
}


def main(what: str) -> int:
    """Write or check the tables of all pages. Returns the exit code."""
    code = 0
    for name, (source, make) in PAGES.items():
        page = (ROOT / name).read_text(encoding="utf-8")
        begin = f"<!-- From {source}, by `make docs`. -->"
        head, rest = page.split(begin)
        _old, tail = rest.split(END)
        made = f"{head}{begin}\n\n{make()}\n{END}{tail}"
        if what == "write":
            (ROOT / name).write_text(made, encoding="utf-8")
        elif made != page:
            print(f"{name} is not current: run `make docs`")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
