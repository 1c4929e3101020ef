"""Find words in the project's texts that its readers would not search for, and name what to write instead.

tools/language.py          checks all texts; prints file:line, the words and their replacement; fails if there are any
tools/language.py PATH...  checks these files or directories only, those that are not swept yet, too

Texts are what a user reads: pages, READMEs, job files, inventories, names of tasks and plays, messages, and the
documentation of plugins and roles. Comments and docstrings of code are not checked.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent

# Directories whose texts were written before the rules. What is found there is counted, not refused.
NOT_SWEPT: tuple[str, ...] = ()

# Of whole files that users read, every line is checked; of the others only names, messages and documentation.
PAGES = (
    "*.md",
    "CHANGELOG.rst",
    "Makefile",
    "ansible.cfg",
    "changelogs/fragments/*.yml",
    "galaxy.yml",
    "inventories/*.yml",
    "jobs/*.yml",
    "requirements.txt",
    "requirements.yml",
    "roles/*/defaults/main.yml",
    "roles/*/meta/*.yml",
)
TASKS = ("playbooks/*.yml", "site.yml", "roles/*/tasks/*.yml", "roles/*/handlers/*.yml", "molecule/*.yml")
CODE = ("plugins/*.py", "roles/*/files/*.py", "jobs/*.py")
DOCUMENTED = ("DOCUMENTATION", "EXAMPLES", "RETURN")
# Where tasks hold further tasks, and what they show to a user.
NESTED = ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always")
MESSAGES = ("msg", "fail_msg", "success_msg")


@dataclass(frozen=True)
class Rule:
    """Words that are not to be written. words: a regular expression, in which a space also stands for the end of a
    line. names: whether it is for the names of tasks and plays only."""

    words: str
    instead: str
    names: bool = False

    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.words.replace(" ", r"[\s#]+"), re.IGNORECASE)


RULES = (
    Rule(r"\bcontrol machines?\b", "control node"),
    Rule(r"\bdata sets?\b", "dataset"),
    Rule(r"\bhost files?\b", "hostfile"),
    Rule(r"\bfolders?\b", "directory"),
    Rule(r"\bstarters?\b", "launcher"),
    Rule(r"\bspelt\b", "written, or named"),
    Rule(r"\bwish(es)?\b", "requests, settings or options"),
    Rule(r"\b(lacking|wanting)\b", "missing"),
    Rule(r"\bwithout end\b", "indefinitely"),
    Rule(r"\b(is|are|was|were|be|been|being) told\b", "is set to, receives, reports or shows"),
    Rule(r"\bleft-?overs?\b|\bleft ranks\b", "orphaned processes"),
    Rule(r"\bst(and|ands|anding|ood) still\b", "is stalled, or hangs"),
    Rule(r"\bfor want of\b", "out of memory, or without"),
    Rule(r"\b(come|comes|came) whole\b", "failed verification, or is complete"),
    Rule(r"\bwhole (checkpoint|file)s?\b", "complete"),
    Rule(r"\bwhat becomes of\b", "outcome"),
    Rule(r"\bof before\b", "previous"),
    Rule(r"\bprovided by nothing\b", "has no matching entry"),
    Rule(r"\b(let|lets|come|comes|came) in again\b", "reconnect"),
    Rule(r"\bthe wire\b", "the network, or the firewall"),
    Rule(
        r"^(it|they|them|this|that|these|those|who|what|which|how|where)\b",
        "a verb and its object: Check, Install, Copy, Start, Show ...",
        names=True,
    ),
    Rule(
        r"^(see|look|say|judge|let|tell|ask)\b",
        "Check, Fail if, Gather, Read, Find or Show",
        names=True,
    ),
    Rule(r"(?<!^)\b(it|them|they)\b", "what is meant", names=True),
)


@dataclass(frozen=True)
class Text:
    """A text in a file. line: where it begins. name: whether it is the name of a task or play."""

    line: int
    text: str
    name: bool = False


@dataclass(frozen=True)
class Finding:
    """Words in a file that a rule is against."""

    path: str
    line: int
    words: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.words!r}: write {self.instead}"


def in_tasks(content: str) -> Iterator[Text]:
    """Return the names and messages of a file of tasks or plays, and nothing of a YAML file that is neither."""
    for document in yaml.compose_all(content, Loader=yaml.SafeLoader):
        if isinstance(document, yaml.SequenceNode):
            for item in document.value:
                yield from _task(item)


def _task(node: yaml.Node) -> Iterator[Text]:
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        if key.value == "name" and isinstance(value, yaml.ScalarNode):
            yield Text(value.start_mark.line + 1, value.value, name=True)
        elif key.value in NESTED and isinstance(value, yaml.SequenceNode):
            for item in value.value:
                yield from _task(item)
        elif isinstance(value, yaml.MappingNode):
            for argument, message in value.value:
                if argument.value in MESSAGES and isinstance(message, yaml.ScalarNode):
                    yield Text(message.start_mark.line + 1, message.value)


def in_code(content: str) -> Iterator[Text]:
    """Return the messages in Python code, which are strings with a space in them, and the documentation of plugins."""
    tree = ast.parse(content)
    skipped: set[int] = set()
    for node in ast.walk(tree):  # from the outside to the inside
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))  # a docstring
        elif isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id in DOCUMENTED for target in node.targets
        ):
            skipped.add(id(node.value))
            if isinstance(node.value, ast.Constant):
                yield Text(node.value.lineno, str(node.value.value))
        elif isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values if isinstance(part, ast.Constant)}
            parts = (str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield Text(node.lineno, "".join(parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield Text(node.lineno, node.value)


def find(path: str, texts: Iterator[Text]) -> Iterator[Finding]:
    """Return what the rules find in a file's texts."""
    for text in texts:
        for rule in RULES:
            if rule.names and not text.name:
                continue
            for match in rule.pattern().finditer(text.text):
                line = text.line + text.text.count("\n", 0, match.start())
                yield Finding(path, line, " ".join(match.group().replace("#", " ").split()), rule.instead)


def tracked(*patterns: str) -> list[str]:
    """Return the checkout's files that match git pathspecs: tracked or new, without the ignored."""
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run([*command, "--", *patterns], cwd=ROOT, check=True, capture_output=True, text=True)
    return sorted({name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()})


def check() -> Iterator[Finding]:
    """Return all findings in the checkout, by file and line."""
    pages = tracked(*PAGES)
    for path in pages:
        yield from sorted(find(path, iter([Text(1, _read(path))])), key=lambda one: one.line)
    for path in tracked(*TASKS):
        if path not in pages:
            yield from find(path, in_tasks(_read(path)))
    for path in tracked(*CODE):
        yield from find(path, in_code(_read(path)))


def _read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def main(paths: list[str]) -> int:
    """Print what is found, in these files and directories or in all that are swept. Returns the exit code."""
    found = list(check())
    if paths:
        shown = [one for one in found if any(Path(one.path).is_relative_to(path) for path in paths)]
    else:
        shown = [one for one in found if not one.path.startswith(NOT_SWEPT)]
    for one in shown:
        print(one)
    print(f"{len(shown)} problems")
    for place in NOT_SWEPT:
        print(f"{place} is not swept yet: {sum(one.path.startswith(place) for one in found)} problems")
    return 1 if shown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
