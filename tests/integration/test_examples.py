"""A job whose script is one of the transformers examples, and what it requires besides its environment: real runs.

The examples themselves lie in transformers' repository, not in its wheel. STAND-IN: a repository of the same shape,
whose script is this collection's own. Package indexes are folders of small wheels.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support import checkout
from support.stand_ins import EXAMPLE_TASK, make_examples, make_wheel

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOK = str(Path(sys.executable).with_name("ansible-playbook"))
CATALOGUE = yaml.safe_load((ROOT / "roles/torch_stack/vars/stacks.yml").read_text())["__torch_stack_catalogue"]
VERSION = CATALOGUE["native"]["packages"]["transformers"]
ARGS = {
    "model_name_or_path": "data/model",
    "from_scratch": True,
    "train_file": "data/train.csv",
    "validation_file": "data/validation.csv",
    "max_seq_length": 32,
    "max_steps": 4,
}


class Site:
    """An inventory of this machine alone, whose environment is the checkout's own, and a repository of examples."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix = folder / "prefix"
        self.prefix.mkdir()
        (self.prefix / "envs").symlink_to(ROOT / ".cluster/envs")
        (self.prefix / "env").symlink_to(self.prefix / "envs" / (ROOT / ".cluster/env").resolve().name)
        (folder / "cache").mkdir()
        (folder / "cache/wheelhouse").symlink_to(ROOT / ".cluster/wheelhouse")
        self.repository = folder / "transformers"
        self.wheels = folder / "wheels"
        make_wheel(self.wheels, "glue-words", "1.2.0", requires=["torch", "glue-letters"])
        make_wheel(self.wheels, "glue-letters", "3.0.0")
        variables = {
            "cluster_prefix": str(self.prefix),
            "cluster_cache": str(folder / "cache"),
            "cluster_become": False,
            "cluster_network": "127.0.0.0/8",
            "cluster_stack": "native",
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
        }
        inventory = {"cluster": {"vars": variables, "children": {"head": {"hosts": {"localhost": {}}}, "workers": {}}}}
        (folder / "hosts.yml").write_text(yaml.safe_dump(inventory))

    def play(self, name: str, *words: str) -> tuple[int, str]:
        ran = subprocess.run(
            [PLAYBOOK, "-i", "hosts.yml", str(ROOT / "playbooks" / f"{name}.yml"), *words],
            cwd=self.folder,
            env=checkout.environment(),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        return ran.returncode, ran.stdout + ran.stderr

    def provide(self, kind: str, source: str) -> str:
        """Have site.yml bring the examples to the hosts; returns what it said."""
        given = {"torch_stack_examples": kind, "torch_stack_examples_from": source}
        code, output = self.play("site", "--tags", "always,torch_stack", "-e", json.dumps(given))
        assert code == 0, output
        return output

    def train(self, **fields: object) -> tuple[int, str]:
        job = {
            "name": "example",
            "script": f"transformers/examples/{EXAMPLE_TASK}/run_text.py",
            "prepare": {
                "script": str(ROOT / "jobs/scripts/generated_pairs.py"),
                "args": {"output_dir": "data", "train_pairs": 64, "validation_pairs": 32, "seed": 1},
            },
            "args": ARGS,
            "ranks_per_node": 1,
            "checkpoints": {"steps": 2, "keep": 1},
            **fields,
        }
        (self.folder / "example.yml").write_text(yaml.safe_dump(job))
        given = {"torch_stack_index_url": "none", "torch_stack_index_urls": [], "torch_stack_find_links": self.links()}
        return self.play("train", "-e", "job=example.yml", "-e", json.dumps(given))

    def links(self) -> list[str]:
        """Where wheels are found: the stand-ins, and those of the environment, which what is required may require."""
        houses = sorted(ROOT.glob(".cluster/wheelhouse/*/torch-*.whl"))
        return [str(self.wheels), str(houses[0].parent)]

    def freeze(self) -> list[str]:
        return sorted(path.name for path in self.prefix.glob("env/lib/python3*/site-packages/*"))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_an_example_from_git_and_what_it_requires(site: Site) -> None:
    code, output = site.train()
    assert code != 0
    assert "which localhost lacks: the transformers examples are not there; run site.yml with torch_stack_examples" in (
        " ".join(output.split())
    )
    make_examples(site.repository, VERSION, "accelerate >= 0.12.0\nglue-words < 2\n")
    site.provide("git", f"file://{site.repository}")
    before = site.freeze()
    code, output = site.train()
    assert code == 0, output
    log = (site.prefix / "jobs/example/log").read_text()
    assert "beside from the folder of the example, words 1.2.0" in log
    assert {path.name for path in (site.prefix / "jobs/example/output").glob("checkpoint-*")} == {"checkpoint-4"}
    assert site.freeze() == before
    # A misspelt argument: the script's own words, once, and no step made.
    code, output = site.train(args={**ARGS, "learnin_rate": 1})
    assert code != 0
    assert "--learnin_rate" in output.partition("msg: |-")[2]


def test_an_example_from_an_archive_may_not_move_a_pin(site: Site) -> None:
    make_examples(site.repository, VERSION, "torch < 2\nglue-words\n")
    archive = site.folder / "transformers.tar.gz"
    words = ["git", "archive", f"--prefix=transformers-{VERSION}/", f"--output={archive}", "HEAD"]
    subprocess.run(words, cwd=site.repository, check=True)
    site.provide("archive", str(archive))
    code, output = site.train()
    assert code != 0
    torch = CATALOGUE["native"]["packages"]["torch"]
    assert (
        "Job example cannot run with this stack; change its requirements, or choose another stack (cluster_stack): "
        f"- torch < 2 conflicts with torch {torch}, which is installed" in (" ".join(output.split()))
    )
    assert not (site.prefix / "jobs/example").exists()
    code, output = site.train(script=f"transformers/examples/{EXAMPLE_TASK}/run_txt.py")
    assert code != 0
    assert "it is not among the examples of the version in use; correct script in the job file" in output
