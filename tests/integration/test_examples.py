"""A job whose script is one of the transformers examples, and cannot be run: real runs of ansible-playbook.

The scenario molecule/jobs runs one that can be (journeys/example.py).
The examples themselves lie in transformers' repository, not in its wheel. STAND-IN: a repository of the same shape,
whose script is this collection's own. Package indexes are folders of small wheels.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from support import playbooks
from support.local_cluster import installed_here
from support.stand_ins import EXAMPLE_TASK, make_examples, make_wheel

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = yaml.safe_load((ROOT / "roles/torch_stack/vars/stacks.yml").read_text())["__torch_stack_catalogue"]
VERSION = CATALOGUE["native"]["packages"]["transformers"]


class Site:
    """An inventory of this machine alone, whose environment is the checkout's own, and a repository of examples."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix = installed_here(folder)
        (folder / "cache").mkdir()
        (folder / "cache/wheelhouse").symlink_to(ROOT / ".cluster/wheelhouse")
        self.repository = folder / "transformers"
        self.script = f"transformers/examples/{EXAMPLE_TASK}/run_text.py"
        self.wheels = folder / "wheels"
        make_wheel(self.wheels, "glue-words", "1.2.0", requires=["torch", "glue-letters"])
        make_wheel(self.wheels, "glue-letters", "3.0.0")

    def play(self, name: str, *words: str) -> tuple[int, str]:
        ran = playbooks.play(self.folder, ROOT / "playbooks" / f"{name}.yml", *words)
        return ran.returncode, ran.stdout

    def provide(self, archive: Path) -> None:
        """Have site.yml bring the examples to the hosts."""
        given = {"torch_stack_examples": "archive", "torch_stack_examples_from": str(archive)}
        code, output = self.play("site", "--tags", "always,torch_stack", "-e", json.dumps(given))
        assert code == 0, output

    def refusal(self, script: str) -> str:
        """Train with an example, which must fail and leave nothing. Returns the output, in one line."""
        (self.folder / "example.yml").write_text(yaml.safe_dump({"name": "example", "script": script}))
        given = {"torch_stack_index_url": "none", "torch_stack_index_urls": [], "torch_stack_find_links": self.links()}
        code, output = self.play("train", "-e", "job=example.yml", "-e", json.dumps(given))
        assert code != 0, output
        assert not (self.prefix / "jobs/example").exists()
        return " ".join(output.split())

    def links(self) -> list[str]:
        """Where wheels are found: the stand-ins, and those of the environment, which what is required may require."""
        houses = sorted(ROOT.glob(".cluster/wheelhouse/*/torch-*.whl"))
        return [str(self.wheels), str(houses[0].parent)]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_what_is_refused_of_examples(site: Site) -> None:
    """They are not there, they require what would move a pin, or there is no such one."""
    absent = site.refusal(site.script)
    assert "which is missing on localhost: the transformers examples are not there" in absent
    assert "run ansible-playbook -i hosts.yml site.yml with torch_stack_examples" in absent
    make_examples(site.repository, VERSION, "torch < 2\nglue-words\n")
    archive = site.folder / "transformers.tar.gz"
    words = ["git", "archive", f"--prefix=transformers-{VERSION}/", f"--output={archive}", "HEAD"]
    subprocess.run(words, cwd=site.repository, check=True)
    site.provide(archive)
    torch = CATALOGUE["native"]["packages"]["torch"]
    said = site.refusal(site.script)
    assert "Job example cannot run with this stack; " in said
    assert f"- torch < 2 conflicts with torch {torch}" in said
    other = site.refusal(f"transformers/examples/{EXAMPLE_TASK}/run_txt.py")
    assert "it is not among the examples" in other
