"""Find words in texts and code of the project that its readers would not search for, and name what to write instead.

Prints file:line, the words and their replacement, and fails if there are any.

Texts are what a user reads: pages, READMEs, job files, inventories, names of tasks and plays, messages, and the
documentation of plugins and roles. Of code, docstrings, comments and names are checked, too.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.checkout import tracked

# Of files that users read, every line is checked; of the others only names, messages and documentation.
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
# Code of which docstrings, comments and names are checked, too.
PROSE = (*CODE, "tools/*.py", ":(glob)tests/support/*.py")
DOCUMENTED = ("DOCUMENTATION", "EXAMPLES", "RETURN")
# Where tasks hold further tasks, and what they show to a user.
NESTED = ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always")
MESSAGES = ("msg", "fail_msg", "success_msg")
# Comments on lines of their own, a block each, and at the end of a line.
COMMENT = re.compile(r"^[ \t]*#.*(?:\n[ \t]*#.*)*|  # .*$", re.MULTILINE)
# The PyYAML of a platform without libyaml has no quicker loader.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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


# Names of functions, parameters and variables that do not say what a value is, and nouns that may.
NAMES = {
    "apart": "separate, or the noun of what it is",
    "asked": "request, prompt or question",
    "both": "the noun of what it is: pair, options",
    "content": "text, data, document, payload or tensor",
    "folder": "directory",
    "folders": "directories",
    "found": "the noun of what it is: match, entries, rows, problems",
    "house": "package or project",
    "lacking": "missing",
    "leftovers": "orphans",
    "more": "the noun of what it is: rest, options, extra",
    "one": "the singular of what is looped over",
    "ones": "the noun of what they are",
    "piece": "chunk",
    "pieces": "chunks",
    "said": "the noun of what it is: message, output, reason",
    "starter": "launcher",
    "told": "the noun of what it is: message, notice, reported",
    "wanting": "missing",
    "way": "method, path or route",
    "way_back": "rollback",
    "what": "the noun of what it is: subject, label, problem",
}
# With what docstrings do not begin, and with what they do. The first line holds a whole sentence or noun phrase.
OPENINGS = {
    "Also": "a verb",
    "Be": "the verb of what it does: Disable, Keep, Remain",
    "Become": "the verb of what it does: Replace, Switch",
    "Have": "the verb of what it does: Call, Run, Set",
    "How": "a noun, or Return the",
    "Its": "the noun of what it is",
    "Judge": "Check or Evaluate",
    "Let": "the verb of what it does: Allow, Run, Set",
    "Nobody": "a noun",
    "Say": "Describe, Format, Print or Return the message",
    "So": "a verb",
    "Something": "a noun",
    "Tell": "Return whether, Report or Send",
    "Those": "Return the, and their noun",
    "What": "a noun, or Return the",
    "When": "a noun, or Return the",
    "Where": "a noun, or Return the",
    "Whether": "Return whether",
    "Who": "a noun, or Return the",
    "Why": "a noun, or Return the",
}


@dataclass(frozen=True)
class Text:
    """A text in a file. line: where it begins. name: whether it is the name of a task or play."""

    line: int
    text: str
    name: bool = False


def in_tasks(text: str) -> Iterator[Text]:
    """Return the names and messages of a file of tasks or plays, and nothing of a YAML file that is neither."""
    for document in yaml.compose_all(text, Loader=LOADER):
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


@functools.lru_cache(maxsize=1)
def _nodes(source: str) -> list[ast.AST]:
    """Return the nodes of Python code, each before those in it."""
    return list(ast.walk(ast.parse(source)))


def in_code(source: str) -> Iterator[Text]:
    """Return the messages in Python code, which are strings with a space in them, and the documentation of plugins."""
    skipped: set[int] = set()
    for node in _nodes(source):
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


def in_prose(source: str) -> Iterator[Text]:
    """Return the docstrings and comments of Python code."""
    for match in COMMENT.finditer(source):
        yield Text(source.count("\n", 0, match.start()) + 1, match.group())
    for node in _nodes(source):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield Text(node.lineno, node.value.value)


def in_names(path: str, source: str) -> Iterator[str]:
    """Return which functions, parameters and variables of Python code have vague names, and their docstrings' openings.

    The fields of a class keep their names: they may be those of a document.
    """
    fields: set[int] = set()
    for node in _nodes(source):
        names: list[tuple[str, int]] = []
        if isinstance(node, ast.ClassDef):
            fields |= {id(item.target) for item in node.body if isinstance(item, ast.AnnAssign)}
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names = [(node.name, node.lineno)]
        elif isinstance(node, ast.arg):
            names = [(node.arg, node.lineno)]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in fields:
            names = [(node.id, node.lineno)]
        for name, line in names:
            if name.strip("_") in NAMES:
                yield f"{path}:{line}: the name {name!r}: write {NAMES[name.strip('_')]}"
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)):
            yield from _opening(path, node)


def _opening(path: str, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module) -> Iterator[str]:
    docstring = ast.get_docstring(node)
    if not docstring:
        return
    first, word = docstring.split("\n")[0], re.split(r"\W", docstring)[0]
    if word in OPENINGS:
        yield f"{path}:{node.body[0].lineno}: {word!r} begins a docstring: begin with {OPENINGS[word]}"
    elif not re.search(r"[.?:)`](\s|$)", first):
        yield f"{path}:{node.body[0].lineno}: the docstring's first sentence does not end on its first line: shorten it"


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
    pages, prose = tracked(*PAGES), set(tracked(*PROSE))
    readers: dict[str, Callable[[str], Iterable[Text]]] = {name: lambda text: [Text(1, text)] for name in pages}
    readers |= {name: in_tasks for name in tracked(*TASKS) if name not in pages}
    readers |= dict.fromkeys(sorted({*tracked(*CODE), *prose}), in_code)
    problems: list[str] = []
    for name, read in readers.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        problems += find(name, read(text))
        if name in prose:
            problems += [*find(name, in_prose(text)), *in_names(name, text)]
    print("\n".join([*problems, f"{len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
