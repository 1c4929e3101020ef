"""A project of several modules trains on the hosts, only what changed is copied, and its requirements move no pin."""

from __future__ import annotations

import json
import shutil

from support.cluster import CONTAINERS, EPHEMERAL, HEAD, PREFIX, SCENARIO, job_file, log, on, read_json, train, words
from support.journeys import check
from support.stand_ins import make_wheel

NAME = "project"
STORE = f"{PREFIX}/cache/projects/files"
CHANGED = '"""The settings of a run."""\n\nSEED = 1\nRATE = 0.5\nSTEPS = 5\n'


def stored() -> list[set[str]]:
    """Return the contents of projects' files that each host has."""
    return [set(on(host, f"ls {STORE}").split()) for host in CONTAINERS]


def everything() -> list[str]:
    """Return what lies below the prefix of each host but the virtual environments, with its times."""
    return [
        on(host, f"find {PREFIX} -path {PREFIX}/envs -prune -o -printf '%p %T@\\n' | sort | sha256sum")
        for host in CONTAINERS
    ]


def a_project_trains() -> list[str]:
    """Train with mpirun, then with one file changed and torchrun; then with a requirement that would move a pin."""
    path = EPHEMERAL / NAME
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(SCENARIO / "project", path / "mine", ignore=shutil.ignore_patterns("__pycache__"))
    (path / "mine/large.bin").write_bytes(bytes(1000))
    make_wheel(path / "wheels", "glue-words", "1.2.0")
    job = {
        "name": NAME,
        "project": str(path / "mine"),
        "script": "train.py",
        "kind": "torch",
        "ranks_per_node": 1,
        "wheels": [str(path / "wheels")],
    }
    none = {"torch_stack_index_url": "none", "torch_stack_index_urls": [], "torch_stack_find_links": []}
    train(job_file(job), "-e", json.dumps(none)).succeed()
    first = read_json(NAME, "results.json")
    check(first["metrics"]["train_loss"] < first["metrics"]["first_loss"], f"it learnt nothing: {first}")
    said = [f"rank {rank} of {len(CONTAINERS)}: 8 steps" in log(NAME) for rank in range(len(CONTAINERS))]
    check(all(said), f"ranks are missing:\n{log(NAME)[-2000:]}")
    before = stored()
    check(len({frozenset(files) for files in before}) == 1, f"hosts have different files: {before}")

    (path / "mine/settings.py").write_text(CHANGED, encoding="utf-8")
    output = words(train(job_file({**job, "launcher": "torchrun"}), "-e", json.dumps(none)).succeed())
    copied = f"Project mine: 1 of {len(before[0])} files were new on {HEAD}, {len(CHANGED)} bytes"
    check(copied in output, f"no {copied!r}:\n{output[-3000:]}")
    new = [after - old for after, old in zip(stored(), before)]
    check(all(len(files) == 1 for files in new) and len(set.union(*new)) == 1, f"new on the hosts: {new}")
    second = read_json(NAME, "results.json")
    check(second["metrics"]["steps"] == 5, f"not the changed file has run: {second}")
    check(first["project"]["digest"] != second["project"]["digest"], "both runs have the digest of one project")

    (path / "mine/requirements.txt").write_text("glue-words\ntorch==2.0.0\n", encoding="utf-8")
    was = everything()
    output = words(train(job_file(job), "-e", json.dumps(none)).fail())
    check("requirements.txt, line 2: torch==2.0.0 conflicts" in output, f"of a pin:\n{output[-3000:]}")
    check(everything() == was, "a refused project has changed something on the hosts")
    return [
        f"a project of {len(before[0])} files trained on {len(CONTAINERS)} hosts with mpirun; with one of them "
        "changed, it alone was copied to each, and torchrun trained with it; torch==2.0.0 was refused before any change"
    ]
