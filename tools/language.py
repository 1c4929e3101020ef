"""Find words in the project's texts that its readers would not search for, and name what to write instead.

Prints file:line, the words and their replacement, and fails if there are any.

Texts are what a user reads: pages, READMEs, job files, inventories, names of tasks and plays, messages, and the
documentation of plugins and roles. Comments and docstrings of code are not checked.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.checkout import tracked

# Of whole files that users read, every line is checked; of the others only names, messages and documentation.
PAGES = (
    "*.md",
    "Makefile",
    "ansible.cfg",
    "changelogs/fragments/*.yml",
    "galaxy.yml",
    "inventories/*.yml",
    "jobs/*.yml",
    "plugins/*.yml",
    "requirements.txt",
    "requirements.yml",
    "roles/*/defaults/main.yml",
    "roles/*/meta/*.yml",
)
TASKS = ("playbooks/*.yml", "site.yml", "roles/*/tasks/*.yml", "roles/*/handlers/*.yml", "molecule/*.yml")
CODE = ("plugins/*.py", "runtime/*.py", "jobs/*.py")
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


def find(path: str, texts: Iterable[Text]) -> Iterator[str]:
    """Return what the rules find in a file's texts, a line each."""
    for text in texts:
        for rule in RULES:
            for match in rule.pattern().finditer(text.text) if text.name or not rule.names else ():
                line = text.line + text.text.count("\n", 0, match.start())
                words = " ".join(match.group().replace("#", " ").split())
                yield f"{path}:{line}: {words!r}: write {rule.instead}"


def main() -> int:
    """Print what is found in the checkout. Returns the exit code."""
    pages = tracked(*PAGES)
    texts: dict[str, Callable[[str], Iterable[Text]]] = {name: lambda content: [Text(1, content)] for name in pages}
    texts |= {name: in_tasks for name in tracked(*TASKS) if name not in pages}
    texts |= dict.fromkeys(tracked(*CODE), in_code)
    found = [line for name, of in texts.items() for line in find(name, of((ROOT / name).read_text(encoding="utf-8")))]
    print("\n".join([*found, f"{len(found)} problems"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
