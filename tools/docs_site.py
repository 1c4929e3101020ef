"""Build the documentation's site: `tools/docs_site.py`, called by `make docs`.

The site lies in .cache/docsite/html. Its sources are put together in .cache/docsite/src, in directories as those of the
checkout, so that the pages are built as they are and their links hold: docs/, the READMEs of roles, pages made by
site_reference.py, and those of modules, roles and other plugins, which antsibull-docs makes from their specifications.
Sphinx and antsibull-docs (docs/requirements.txt) are in a virtual environment of their own, .cache/docs_venv. A warning
of either is an error.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import site_reference
from language import tracked

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".cache/docs_venv"
REQUIREMENTS = ROOT / "docs/requirements.txt"
SITE = ROOT / ".cache/docsite"
SOURCE = SITE / "src"
HTML = SITE / "html"
CONTENTS = re.compile(r"^\.\. contents::.*\n(?:[ ]+:.*\n)*", re.MULTILINE)
# Between a plugin's name and what it does, in headings and lists.
DASHES = re.compile(r"^((?!\s).*\S) -- (?=\S)", re.MULTILINE)
# Copied as they are. README.md is about the checkout; the site has an index of its own.
COPIED = (
    "docs/*",
    "roles/*/README.md",
    "jobs/job.schema.json",
    "CHANGELOG.rst",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
)


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
    """Make SOURCE anew, all but the pages of antsibull-docs."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    for name in tracked(*COPIED):
        if not name.startswith("docs/docsite/"):
            target = SOURCE / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
    docsite = ROOT / "docs/docsite"
    for path in (docsite / "conf.py", docsite / "index.md", ROOT / "galaxy.yml"):
        shutil.copy2(path, SOURCE)
    shutil.copytree(docsite / "_static", SOURCE / "_static")
    (SOURCE / "reference").mkdir()
    for name, page in site_reference.PAGES.items():
        (SOURCE / "reference" / f"{name}.md").write_text(page(), encoding="utf-8")


def tidy() -> None:
    """Remove tables of contents from reStructuredText, as the theme shows one beside each page and refuses another, and
    make dashes of its hyphens."""
    for path in SOURCE.rglob("*.rst"):
        text = CONTENTS.sub("", path.read_text(encoding="utf-8"))
        path.write_text(DASHES.sub("\\1 \u2013 ", text), encoding="utf-8")


def build() -> None:
    """Make the pages of antsibull-docs, then the site."""
    environment = {
        **os.environ,
        "PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
    }
    collection = SOURCE / "reference/collection"
    collection.mkdir(mode=0o700)
    lint = ["lint-collection-docs", "--plugin-docs", "--validate-collection-refs=self", str(ROOT)]
    pages = ["collection", "--use-current", "--squash-hierarchy", "--fail-on-error", "--no-add-antsibull-docs-version"]
    commands = (
        ["antsibull-docs", *lint],
        ["antsibull-docs", *pages, "--dest-dir", str(collection), "amx.cluster"],
        ["sphinx-build", "-q", "-W", "--keep-going", "-b", "html", str(SOURCE), str(HTML)],
    )
    for command in commands:
        if command[0] == "sphinx-build":
            tidy()
        if code := subprocess.run(
            [str(VENV / "bin" / command[0]), *command[1:]], env=environment, check=False
        ).returncode:
            sys.exit(f"docs_site: {' '.join(command[:2])} ended with exit code {code}: see above")


def main() -> None:
    """Build the site and print its path."""
    make_venv()
    put_together()
    shutil.rmtree(HTML, ignore_errors=True)
    build()
    print(f"{len(list(HTML.rglob('*.html')))} pages: file://{HTML}/index.html")


if __name__ == "__main__":
    main()
