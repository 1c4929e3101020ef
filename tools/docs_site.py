"""Build the documentation's site: `tools/docs_site.py`, called by `make docs`.

The site lies in .cache/docsite/html. Its sources are put together in .cache/docsite/src, in directories as those of the
checkout, so that the pages are built as they are and their links hold. Pages of modules, roles and other plugins are
antsibull-docs', of a copy of the collection without what is internal. Sphinx and antsibull-docs (docs/requirements.txt)
are in a virtual environment of their own, .cache/docs_venv. A warning of either is an error.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".cache/docs_venv"
REQUIREMENTS = ROOT / "docs/requirements.txt"
SITE = ROOT / ".cache/docsite"
SOURCE = SITE / "src"
HTML = SITE / "html"
COLLECTIONS = SITE / "collections"
PUBLIC = COLLECTIONS / "ansible_collections/amx/cluster"
# By this fragment of their documentation modules, filters and lookups say that they are internal.
INTERNAL = "amx.cluster.internal"
# A table of contents of reStructuredText: the theme shows one beside each page, and refuses another.
CONTENTS = re.compile(r"^\.\. contents::.*\n(?:[ ]+:.*\n)*", re.MULTILINE)
# A command in the first comment of a playbook, with its options; those in brackets may be left out.
COMMAND = re.compile(r"(ansible-playbook(?: -i \S+)? \S+\.yml(?: -e '[^']*'| -e \S+| \[[^\]]*\])*)")
OPTION = re.compile(r"-e (?:'[^']*'|[\w./=,-]*(?:\w|\.\.\.))")


def make_venv() -> None:
    """Install docs/requirements.txt into VENV, unless that is what it has."""
    stamp = VENV / "stamp"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return
    print("Installing docs/requirements.txt into .cache/docs_venv", flush=True)
    # Some systems have Pythons without ensurepip: this environment's pip installs into the other one.
    subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(VENV)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(VENV / "bin/python"), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "-r", str(REQUIREMENTS)], check=True)
    stamp.write_text(wanted, encoding="utf-8")


def put_together() -> None:
    """Make SOURCE and PUBLIC anew, all but the pages of antsibull-docs."""
    for directory in (SOURCE, HTML, COLLECTIONS):
        shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(ROOT / "docs", SOURCE / "docs", ignore=shutil.ignore_patterns("docsite", "README.md"))
    # The two README.md are about the checkout; the site has an index of its own.
    for path in [
        ROOT / "galaxy.yml",
        *ROOT.glob("C*.*"),
        ROOT / "SECURITY.md",
        *(ROOT / "docs/docsite").glob("*.[mp]*"),
    ]:
        shutil.copy2(path, SOURCE)
    for name in ("jobs/job.schema.json", "inventories/example/group_vars/cluster.yml"):
        (SOURCE / name).parent.mkdir(parents=True)
        shutil.copy2(ROOT / name, SOURCE / name)
    shutil.copytree(ROOT / "docs/docsite/_static", SOURCE / "_static")
    (SOURCE / "reference").mkdir()
    (SOURCE / "reference/playbooks.md").write_text(playbooks(), encoding="utf-8")
    for name in ("plugins", "roles", "meta", "docs/docsite"):
        shutil.copytree(ROOT / name, PUBLIC / name, ignore=internal)
    shutil.copy2(ROOT / "galaxy.yml", PUBLIC)


def internal(directory: str, names: list[str]) -> set[str]:
    """Return the files of a directory that are internal, and actions, which have no documentation."""
    paths = [Path(directory, name) for name in names]
    return {
        path.name
        for path in paths
        if path.name in ("action", "__pycache__")
        or (path.suffix in (".py", ".yml") and INTERNAL in path.read_text(encoding="utf-8"))
    }


def playbooks(root: Path = ROOT) -> str:
    """Return the page of playbooks: what each does and its command, both from its first comment."""
    parts = ["# Playbooks", "", "Every playbook can also be called by its full name, such as `amx.cluster.train`.", ""]
    for path in sorted((root / "playbooks").glob("*.yml")):
        (comment,) = re.findall(r"\A---\n((?:#.*\n)+)", path.read_text(encoding="utf-8")) or [""]
        parts += [f"## {path.name}", ""]
        # Texts and commands in turn; a text that leads to a command ends with a colon.
        for sentence in COMMAND.split(" ".join(comment.replace("#", "").split())):
            sentence = sentence.lstrip(" .,").rstrip(" .")
            if sentence.startswith("ansible-playbook "):
                # Options that may be left out have a line of their own.
                parts += ["    " + sentence.replace(" [", "\n      [", 1), ""]
            elif sentence:
                sentence = OPTION.sub(r"`\g<0>`", sentence)
                parts += [sentence if sentence.endswith(":") else f"{sentence}.", ""]
    return "\n".join(parts)


def build() -> None:
    """Make the pages of antsibull-docs, then the site."""
    environment = {
        **os.environ,
        "PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
    }
    collection = SOURCE / "reference/collection"
    collection.mkdir(mode=0o700)
    lint = ["lint-collection-docs", "--plugin-docs", "--validate-collection-refs=self", str(PUBLIC)]
    pages = ["collection", "--use-current", "--squash-hierarchy", "--fail-on-error", "--no-add-antsibull-docs-version"]
    for command in (
        ["antsibull-docs", *lint],
        ["antsibull-docs", *pages, "--dest-dir", str(collection), "amx.cluster"],
        ["sphinx-build", "-q", "-W", "--keep-going", "-b", "html", str(SOURCE), str(HTML)],
    ):
        for path in SOURCE.rglob("*.rst"):
            path.write_text(CONTENTS.sub("", path.read_text(encoding="utf-8")), encoding="utf-8")
        words = [str(VENV / "bin" / command[0]), *command[1:]]
        if code := subprocess.run(words, env=environment, check=False).returncode:
            sys.exit(f"docs_site: {' '.join(command[:2])} ended with exit code {code}: see above")


def main() -> None:
    """Build the site and print its path."""
    make_venv()
    put_together()
    build()
    print(f"{len(list(HTML.rglob('*.html')))} pages: file://{HTML}/index.html")


if __name__ == "__main__":
    main()
