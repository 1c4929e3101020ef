"""The winner of a tuning in the inventory: its file, what the diff holds, and what is refused."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import load
from ansible_collections.amx.cluster.plugins.module_utils._measure import tuning, tuning_files
from ansible_collections.amx.cluster.plugins.module_utils._measure.tuning import Tuning
from ansible_collections.amx.cluster.plugins.module_utils._measure.tuning_request import Request
from support.runs import run

JOB = "name: demo\nscript: train.py\nargs: {per_device_train_batch_size: 8}\n"
VARIABLES = (
    "# Ours.\ncluster_prefix: /opt/amx  # here\n\n# cluster_backend (auto, mpi or gloo)\n# cluster_backend: auto\n"
)
DEFAULT = {"ranks_per_node": 1, "comm_cores": 0, "reserved_cores": 0, "threads_per_core": 1, "backend": "mpi"}


def job(folder: Path, text: str = JOB) -> Job:
    (folder / "train.py").touch()
    (folder / "demo.yml").write_text(text)
    return load(folder / "demo.yml")


def content(**winner: Any) -> Tuning:
    begun = tuning.new(run().job, Request(), {}, "")
    ranks = {"all": 2, "hosts": 2}
    return replace(begun, verdict="faster", winner={**DEFAULT, **winner}, candidates=[DEFAULT], ranks=ranks)


@pytest.fixture
def variables(tmp_path: Path) -> Path:
    path = tmp_path / "inventory" / "group_vars" / "cluster.yml"
    path.parent.mkdir(parents=True)
    path.write_text(VARIABLES)
    return path


@pytest.mark.slow
def test_the_inventory_gets_cores_and_backend_and_the_job_what_keeps_its_batch(tmp_path: Path, variables: Path) -> None:
    found = tuning_files.changes(content(ranks_per_node=2, backend="gloo"), job(tmp_path), variables)
    assert [change.path for change in found] == [variables, tmp_path / "demo.yml"]
    of_inventory, of_job = found
    assert of_inventory.after == VARIABLES.replace(
        "# here\n", "# here\ncluster_cores: {ranks_per_node: 2}\ncluster_backend: gloo\n"
    )
    assert yaml.safe_load(of_job.after)["args"] == {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 1}
    done = subprocess.run(
        ["git", "apply", "-"], cwd=variables.parents[1], input=of_inventory.diff, text=True, check=False
    )
    assert done.returncode == 0
    assert variables.read_text() == of_inventory.after


def test_the_job_file_gets_everything_otherwise(tmp_path: Path) -> None:
    (found,) = tuning_files.changes(content(ranks_per_node=2, backend="gloo"), job(tmp_path))
    assert yaml.safe_load(found.after) == {
        "name": "demo",
        "script": "train.py",
        "args": {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 1},
        "ranks_per_node": 2,
        "backend": "gloo",
    }


def test_an_inventory_that_has_the_settings_is_not_changed(tmp_path: Path, variables: Path) -> None:
    winner = content(comm_cores=1, threads_per_core=2)
    (first,) = tuning_files.changes(winner, job(tmp_path), variables)
    variables.write_text(first.after)
    assert tuning_files.changes(winner, job(tmp_path), variables) == []


def test_what_cannot_be_changed_names_the_file(tmp_path: Path, variables: Path) -> None:
    variables.write_text("cluster_backend:\n- gloo\n")
    message = f"{variables}: cluster_backend in the file is more than one value: set it to gloo yourself"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        tuning_files.changes(content(backend="gloo"), job(tmp_path), variables)


def test_the_file_of_an_inventory(tmp_path: Path, variables: Path) -> None:
    folder = variables.parents[1]
    for sources in ([str(folder)], [str(folder / "hosts.yml")], ["node0,node1", str(folder)]):
        assert tuning_files.variables_file(sources) == variables
    message = (
        f"write_to: inventory: there is no {tmp_path}/group_vars/cluster.yml: make that file for the variables of the "
        "group cluster, see inventories/example/group_vars/cluster.yml, or leave write_to=inventory out"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        tuning_files.variables_file([str(tmp_path / "hosts.yml")])
    with pytest.raises(ValueError, match=r"^write_to: inventory: the inventory is no file: "):
        tuning_files.variables_file(["node0,"])


@pytest.mark.parametrize(
    ("fields", "vary", "named"),
    [
        ("ranks_per_node: 2\n", ["ranks_per_node", "backend"], "ranks_per_node"),
        ("threads_per_core: 2\n", ["comm_cores"], "threads_per_core"),
        ("reserved_cores: 0\nbackend: gloo\n", ["ranks_per_node", "backend"], "reserved_cores, backend"),
        ("reserved_cores: 0\nbackend: gloo\n", ["backend"], "backend"),
        ("backend: gloo\n", ["ranks_per_node"], ""),
        ("optimize: auto\n", ["backend", "optimize"], "optimize"),
        ("", ["ranks_per_node", "backend", "optimize"], ""),
    ],
)
def test_a_job_that_the_inventory_does_not_reach(tmp_path: Path, fields: str, vary: list[str], named: str) -> None:
    said = tuning_files.unheeded(job(tmp_path, JOB + fields), vary)
    assert bool(said) == bool(named)
    assert not named or f"demo.yml sets {named}, and a job that does takes none of these from the inventory" in said
