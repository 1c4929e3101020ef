"""A job with a project of several modules: real runs of ansible-playbook on this machine, with the virtual environment
that site.yml has installed.

The scenario molecule/jobs runs one on three hosts (journeys/project.py). Package indexes are directories of
small wheels.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import playbooks
from support.local_cluster import installed_here
from support.stand_ins import make_wheel

ROOT = Path(__file__).resolve().parents[2]
TRAIN = """
import importlib.metadata
import json
import os
import sys
from pathlib import Path

import glue_words
import losses
import utils
from letters.core import LETTERS
from numbers_package import NUMBERS

rank = int(os.environ["RANK"])
Path("output").mkdir(exist_ok=True)
Path("output", f"rank{rank}.json").write_text(json.dumps({
    "arguments": sys.argv,
    "utils": utils.WHO,
    "letters": LETTERS,
    "numbers": NUMBERS,
    "config": Path("configs/base.txt").read_text(),
    "version": importlib.metadata.version("letters"),
    "words": glue_words.__version__,
    "losses": losses.NAME,
    "model": Path("models/mine/weights.bin").read_text(),
    "data": Path("data/numbers.txt").read_text(),
    "secrets": Path("secrets.txt").exists(),
}))
"""
FILES = {
    "scripts/train.py": TRAIN,
    "prepare.py": "import utils\nopen('data/numbers.txt', 'w').write(utils.WHO)\n",
    "utils.py": "WHO = 'the first version'\n",
    "src/letters/__init__.py": "",
    "src/letters/core.py": "LETTERS = 'abc'\n",
    "numbers_package/__init__.py": "NUMBERS = [1, 2]\n",
    "models/layers.py": "",
    "configs/base.txt": "rate 0.1",
    "requirements.txt": "# of this project\ntorch\n-e .\n",
    "pyproject.toml": '[project]\nname = "letters"\nversion = "1.2"\ndependencies = ["glue-words>=1"]\n',
    ".gitignore": "secrets.txt\n",
    "secrets.txt": "not to be copied",
    ".venv/pyvenv.cfg": "",
    ".venv/large": "x" * 1000,
}
BACKEND = """
import zipfile
def build_wheel(directory, config_settings=None, metadata_directory=None):
    name = "losses-0.1-py3-none-any.whl"
    with zipfile.ZipFile(f"{directory}/{name}", "w") as wheel:
        wheel.writestr("losses.py", open("losses.py").read())
        wheel.writestr("losses-0.1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: losses\\nVersion: 0.1\\n")
        wheel.writestr("losses-0.1.dist-info/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr("losses-0.1.dist-info/RECORD", "")
    return name
"""


def fill(directory: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def git_repository(folder: Path) -> str:
    """Make a repository of the package `losses`, whose build needs no index; return its URL."""
    build = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    fill(folder, {"losses.py": "NAME = 'focal'\n", "backend.py": BACKEND, "pyproject.toml": build})
    who = ["-c", "user.name=tests", "-c", "user.email=tests@example.com"]
    for words in (["init", "--quiet"], ["add", "."], [*who, "commit", "--quiet", "-m", "1"], ["tag", "v1"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return f"git+{folder.as_uri()}@v1"


class Site:
    """A directory of a user's, with a project, and an inventory of this machine alone."""

    def __init__(self, folder: Path) -> None:
        houses = sorted(ROOT.glob(".cluster/wheelhouse/*/torch-*.whl"))
        self.folder = folder
        self.prefix = installed_here(
            folder,
            torch_stack_index_url="none",
            torch_stack_index_urls=[],
            torch_stack_find_links=[str(folder / "wheels"), str(houses[0].parent)],
        )
        self.project = folder / "mine"
        fill(self.project, FILES)

    def train(self, **fields: Any) -> tuple[int, str]:
        """Start the job of the project; return the exit code and the output in one line."""
        job = {"name": "mine", "kind": "ranks", "ranks_per_node": 1, "project": "mine", "script": "scripts/train.py"}
        (self.folder / "mine.yml").write_text(yaml.safe_dump({**job, **fields}))
        ran = playbooks.play(self.folder, ROOT / "playbooks/train.yml", "-e", "job=mine.yml")
        return ran.returncode, " ".join(ran.stdout.split())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_project_with_packages_of_its_own(site: Site) -> None:
    """Modules, a src layout, configuration, requirements, a wheel, a Git URL, prepared data and a private model."""
    make_wheel(site.folder / "wheels", "glue-letters", "3.0.0")
    make_wheel(site.folder / "own", "glue-words", "1.5", requires=["torch", "glue-letters"])
    fill(site.folder / "private", {"weights.bin": "weights"})
    url = git_repository(site.folder / "losses")
    fields = {
        "requirements": [url],
        "wheels": ["own"],
        "models": {"mine": {"directory": "private"}},
        "prepare": {"script": "prepare.py"},
        "args": {"epochs": 2},
    }
    code, output = site.train(**fields)
    assert code == 0, output[-6000:]
    directory = site.prefix / "jobs/mine"
    results = json.loads((directory / "results.json").read_text())
    assert f"Project mine {results['project']['digest'][:12]} (11 files, " in output
    seen = json.loads((directory / "output/rank0.json").read_text())
    assert seen == {
        "arguments": ["scripts/train.py", "--epochs", "2"],
        "utils": "the first version",
        "letters": "abc",
        "numbers": [1, 2],
        "config": "rate 0.1",
        "version": "1.2",
        "words": "1.5",
        "losses": "focal",
        "model": "weights",
        "data": "the first version",
        "secrets": False,
    }
    listed = json.loads((directory / "project.json").read_text())
    assert listed["digest"] == results["project"]["digest"]
    assert "secrets.txt" not in {entry["file"] for entry in listed["files"]}

    # One file is changed: it alone is copied.
    changed = "WHO = 'the second version'\n"
    (site.project / "utils.py").write_text(changed)
    code, output = site.train(**fields)
    assert code == 0, output[-6000:]
    assert f"Project mine: 1 of 10 files were new on localhost, {len(changed)} bytes" in output
    assert json.loads((directory / "output/rank0.json").read_text())["data"] == "the second version"
    assert json.loads((directory / "results.json").read_text())["project"]["digest"] != results["project"]["digest"]


def test_what_is_refused_of_a_project(site: Site) -> None:
    """Each before anything has changed, and in one message."""

    def refusal(**fields: Any) -> str:
        code, output = site.train(**fields)
        assert code != 0, output
        assert not (site.prefix / "jobs").exists()
        assert not (site.prefix / "cache").exists()
        return output

    torch = "torch==2.0.0"
    (site.project / "requirements.txt").write_text(f"# of this project\n\n{torch}\n")
    (site.project / "pyproject.toml").unlink()
    output = refusal()
    assert "Job mine cannot run with this stack; change its requirements" in output
    assert f"- requirements.txt, line 3: {torch} conflicts with torch 2." in output
    # A private package, which must not come from another index.
    private = "https://user:secret@private.example/simple"
    (site.project / "requirements.txt").write_text(f"torch\n--extra-index-url {private}\nglue-private\n")
    output = refusal()
    assert (
        "requirements.txt, line 2: --extra-index-url https://***@private.example/simple is not searched: set "
        "torch_stack_index_urls: [" in output
    )
    assert "user:secret" not in output
    (site.project / "requirements.txt").write_text("torch\n-c limits.txt\n")
    assert "requirements.txt, line 2: -c limits.txt: " in refusal()
    (site.project / "requirements.txt").unlink()
    (site.project / "runs").mkdir()
    (site.project / "runs/checkpoint.bin").write_bytes(bytes(1_500_000))
    output = refusal(project_max_mb=1)
    assert f"{site.project} has 1.5 MB in 10 files, more than project_max_mb (1): runs/checkpoint.bin 1.5 MB" in output
    assert "Check every host" not in output
