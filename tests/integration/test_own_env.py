"""An environment that is there already (torch_stack_env): real runs of site.yml, train.yml and reset.yml with it.

It has the files of the one that site.yml has installed in .cluster: real torch, Intel MPI and OpenMP.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import checkout, playbooks

ENV = (checkout.ROOT / ".cluster/env").resolve()
SCRIPT = """
import json, os, pathlib, sys, torch, torch.distributed as dist
dist.init_process_group()
total = torch.ones(1)
dist.all_reduce(total)
names = ("OMP_NUM_THREADS", "KMP_AFFINITY", "KMP_SETTINGS", "I_MPI_PIN", "PYTHONPATH", "LD_PRELOAD", "MINE")
seen = {name: os.environ.get(name, "") for name in names}
threads = torch.get_num_threads()
if dist.get_rank() == 0:
    seen.update(total=total.item(), prefix=sys.prefix, threads=threads)
    pathlib.Path("output").mkdir(exist_ok=True)
    pathlib.Path("output/all_results.json").write_text(json.dumps(seen))
dist.destroy_process_group()
"""
# What the shell of a user sets, and what of it must not reach a rank.
LOGIN = {"OMP_NUM_THREADS": "1", "KMP_AFFINITY": "disabled", "KMP_SETTINGS": "1", "I_MPI_PIN": "0", "PYTHONPATH": "/x"}


def listed(path: Path) -> dict[str, tuple[int, int]]:
    """Every file of the environment with its size and time."""
    return {str(each): (each.lstat().st_size, each.lstat().st_mtime_ns) for each in path.rglob("*")}


def own(folder: Path) -> Path:
    """The files of that environment in a directory of these tests: jobs of other tests compile modules in it."""
    return shutil.copytree(ENV, folder / "env", symlinks=True, copy_function=_link)


def _link(source: str, place: str, **_options: Any) -> str:
    try:
        os.link(source, place, follow_symlinks=False)
    except OSError:  # another file system
        shutil.copy2(source, place, follow_symlinks=False)
    return place


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cluster of this machine alone whose stack is the environment; it is unchanged at the end."""
    if not ENV.is_dir():
        pytest.skip("needs .cluster/env: run ansible-playbook site.yml")
    folder = tmp_path_factory.mktemp("own")
    env = own(folder)
    given: dict[str, Any] = {
        "torch_stack_env": str(env),
        "cluster_cache": str(folder / "cache"),
        "cluster_verify": False,
    }
    playbooks.write_inventory(folder, folder / "prefix", {"localhost": playbooks.LOCAL}, **given)
    before = listed(env)
    yield folder
    assert listed(env) == before


def run(folder: Path, name: str, *options: str, **login: str) -> tuple[int, str]:
    env = {**checkout.environment(), **login}
    ran = playbooks.play(folder, checkout.ROOT / "playbooks" / f"{name}.yml", *options, env=env)
    return ran.returncode, ran.stdout


def test_it_is_used_and_left_alone(cluster: Path) -> None:
    code, output = run(cluster, "site")
    assert code == 0, output
    prefix = cluster / "prefix"
    (view,) = (prefix / "envs").glob("own-*")
    assert (prefix / "env").resolve() == view and (view / "lib").readlink() == cluster / "env/lib"
    assert not (cluster / "cache/wheelhouse").exists() and list((prefix / "wheels").glob("[!.]*")) == []

    (cluster / "own.py").write_text(SCRIPT)
    job = {"name": "own", "script": "own.py", "kind": "torch", "ranks_per_node": 1, "env": {"MINE": "1"}}
    (cluster / "own.yml").write_text(yaml.safe_dump(job))
    code, output = run(cluster, "train", "-e", "job=own.yml", **LOGIN)
    log = (prefix / "jobs/own/log").read_text()
    assert code == 0, output + log
    seen = json.loads((prefix / "jobs/own/output/all_results.json").read_text())
    plan = json.loads((prefix / "jobs/own/plan.json").read_text())
    assert (seen["total"], seen["MINE"], plan["backend"], plan["stack"]) == (1, "1", "mpi", "own")
    assert seen["threads"] == int(seen["OMP_NUM_THREADS"]) == len(os.sched_getaffinity(0))
    assert seen["KMP_AFFINITY"].startswith("granularity=fine") and seen["KMP_SETTINGS"] == seen["I_MPI_PIN"] == ""
    assert "/x" not in seen["PYTHONPATH"].split(":") and seen["LD_PRELOAD"].endswith(f"{view}/lib/libiomp5.so")
    (told,) = re.findall(r"^launch\.sh: the job ignores .* sets: (.*); set env", log, re.MULTILINE)
    assert all(f"{name}={value}" in told for name, value in LOGIN.items())

    code, output = run(cluster, "site")
    assert code == 0 and re.search(r"localhost +: ok=\d+ +changed=0 ", output), output


def test_what_is_missing_is_told_before_anything_is_changed(cluster: Path) -> None:
    code, output = run(cluster, "site", "-e", "torch_stack_env=/no/such/env", "-e", f"cluster_prefix={cluster}/other")
    words = " ".join(output.split())
    assert code != 0 and "localhost: /no/such/env does not exist: create the same environment there" in words, output
    assert not (cluster / "other").exists()


def test_a_reset_leaves_it(cluster: Path) -> None:
    code, output = run(cluster, "reset", "-e", "reset=all")
    assert code == 0, output
    assert not (cluster / "prefix/envs").exists() and not (cluster / "prefix/env").is_symlink()
