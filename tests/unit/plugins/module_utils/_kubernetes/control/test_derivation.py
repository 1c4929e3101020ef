"""What follows from a job and the description of the nodes, and which jobs are refused with which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import load
from ansible_collections.amx.cluster.plugins.module_utils._jobs.requests import choose_hosts
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run, Settings
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import derivation, settings
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.settings import BF16_LABELS
from hypothesis import given
from hypothesis import strategies as st
from support.checkout import ROOT
from support.kubernetes_jobs import CCL_STACK, GIVEN, STACK, derive

SQUAD = ROOT / "jobs/squad-bert-large.yml"


def test_the_published_example() -> None:
    """The job of Hugging Face's guide on nodes of 200 CPUs and 128 GiB, as inventories/kubernetes describes them."""
    given_there = yaml.safe_load((ROOT / "inventories/kubernetes/group_vars/cluster.yml").read_text())
    derived = derive(SQUAD, None, **given_there["cluster_kubernetes"])
    assert (derived.pods, derived.ranks, derived.resources.cpus) == (4, 2, 198)
    assert (derived.backend, derived.run.job.precision, derived.settings.claim) == ("gloo", "bf16", "transformers-pvc")
    assert derived.is_prepared
    assert "4 pod(s), 2 rank(s) each, 2 restart(s)" in derivation.describe(derived)


@pytest.mark.slow
def test_optimized_steps() -> None:
    stack = {**STACK, "packages": {"torch": "2.13.0+cpu"}}
    lines = derivation.describe(derive(stack=stack)).splitlines()
    assert "  optimized steps: dropout, attention, optimizer, loss, padding" in lines
    assert "optimized" not in derivation.describe(derive(override={"optimize": "none"}, stack=stack))
    with pytest.raises(ValueError, match=r"\n- optimize: dropout needs torch 2\.13"):
        derive(override={"optimize": ["dropout"]}, stack={**STACK, "packages": {"torch": "2.8.0+cpu"}})
    run = Run(load(ROOT / "jobs/smoke.yml"), Settings(head="", optimize="some"))
    with pytest.raises(ValueError, match=r"\n- cluster_optimize: 'some' is neither "):
        derivation.derive(run, stack, settings.read(GIVEN))


@pytest.mark.parametrize(
    ("fields", "given_settings", "errors"),
    [
        ({"hosts": ["node0", "node1"]}, {}, ["hosts: node0, node1 are hosts of the inventory, and pods have none"]),
        ({"hosts": 5}, {}, ["hosts: 5 pods, and cluster_kubernetes has 4 workers"]),
        ({"min_hosts": 5}, {}, ["min_hosts: 5 of 4 pods"]),
        ({"min_hosts": 2}, {"kind": "TrainJob"}, ["min_hosts: 2 of 4: a TrainJob restarts with all of its nodes only"]),
        ({"on_end": {"command": "true"}}, {}, ["on_end: is done by the supervisor on the head, and pods have none"]),
        ({"env_launcher": {"I_MPI_DEBUG": "3"}}, {}, ["env_launcher: is for mpirun and torchrun on hosts"]),
        ({"wait": True, "keep_global_batch": True}, {}, ["keep_global_batch: is not available", "wait: is for hosts"]),
        ({"backend": "mpi"}, {}, ["launcher: kubernetes cannot start ranks with backend mpi"]),
        ({"gradient_compression": "bf16"}, {}, ["gradient_compression: needs backend mpi"]),
        ({"data": {"x": {"directory": "/data/x", "at": "head"}}}, {}, ["data: x: /data/x is a directory on the head"]),
        (
            {"requirements": ["git+https://example.com/a.git@v1"]},
            {},
            ["requirements: git+https://example.com/a.git@v1"],
        ),
        ({"name": "x" * 60}, {}, ["name: " + "x" * 60 + " gives no name for pods"]),
        ({"ranks_per_node": 300}, {}, ["ranks_per_node: 300 ranks in a pod of 198 CPUs"]),
        ({"ranks_per_node": "socket"}, {}, ["ranks_per_node: socket: the sockets of a pod's CPUs are not known"]),
        ({}, {"memory": "256Mi"}, ["memory: 256Mi of a node, of which "]),
        ({}, {"shm": "100Gi"}, ["shm: 100Gi of /dev/shm is more than half of a pod's"]),
    ],
)
def test_refusals(fields: dict[str, Any], given_settings: dict[str, Any], errors: list[str]) -> None:
    with pytest.raises(ValueError) as refused:
        derive(override=fields, **given_settings)
    first, *lines = str(refused.value).splitlines()
    assert first.endswith("cannot run on Kubernetes:")
    assert [line[: len(error) + 2] for line, error in zip(lines, errors)] == [f"- {error}" for error in errors]
    assert len(lines) == len(errors)


@pytest.mark.slow
def test_a_global_batch_that_pods_do_not_divide() -> None:
    with pytest.raises(
        ValueError, match="cannot run on Kubernetes: global_batch: 65 samples cannot be divided among 8"
    ):
        derive(override={"ranks_per_node": 2, "global_batch": 65})
    assert derive(override={"ranks_per_node": 2, "global_batch": 64}).run.job.global_batch == 64


@pytest.mark.slow
def test_oneccl_of_new_bindings_alone_runs_in_pods() -> None:
    for backend in ("auto", "ccl"):
        assert derive(stack=CCL_STACK, override={"backend": backend}).backend == "ccl"
    old = {**CCL_STACK, "packages": {"oneccl-bind-pt": "2.1.100"}}
    assert derive(stack=old).backend == "gloo"
    with pytest.raises(ValueError, match="backend: ccl needs launcher mpirun with this stack, not kubernetes"):
        derive(stack=old, override={"backend": "ccl"})
    with pytest.raises(ValueError, match="env: CCL_ATL_TRANSPORT=mpi with backend ccl: ranks that mpirun did not"):
        derive(stack=CCL_STACK, override={"env": {"CCL_ATL_TRANSPORT": "mpi"}})
    worker = {"env": {"CCL_WORKER_OFFLOAD": "1"}}
    assert derive(stack=CCL_STACK, override=worker).backend == "ccl"
    with pytest.raises(ValueError, match="env: CCL_WORKER_OFFLOAD=1 with backend ccl: comm_cores: 0 leaves"):
        derive(stack=CCL_STACK, override={**worker, "comm_cores": 0})


def test_such_a_job_does_not_run_on_hosts() -> None:
    job = load(ROOT / "jobs/smoke.yml", {"launcher": "kubernetes"})
    with pytest.raises(ValueError, match=r"launcher: kubernetes starts pods.*playbooks/train.yml"):
        choose_hosts(job, ["node0"])
    assert derive(override={"launcher": "kubernetes"}) == derive(override={"launcher": "torchrun"})


@pytest.mark.parametrize(
    ("wanted", "selector", "chosen"),
    [
        ("auto", {BF16_LABELS[0]: "true"}, "bf16"),
        ("auto", {BF16_LABELS[1]: "true"}, "bf16"),
        ("auto", {BF16_LABELS[0]: "false"}, "fp32"),
        ("auto", {}, "fp32"),
        ("fp32", {BF16_LABELS[0]: "true"}, "fp32"),
    ],
)
def test_precision(wanted: str, selector: dict[str, str], chosen: str) -> None:
    assert derive(override={"precision": wanted}, node_selector=selector).run.job.precision == chosen


@pytest.mark.slow
@given(st.from_regex(r"[a-z0-9][a-z0-9._-]{0,40}", fullmatch=True))
def test_names_are_those_of_the_api(job: str) -> None:
    name = derivation.object_name(job)
    assert derivation.NAME.fullmatch(name) and len(name) <= derivation.LONGEST_NAME


def test_no_path_of_the_control_node(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "train.py").write_text("")
    path = tmp_path / "mine.yml"
    fields = {
        "name": "mine",
        "script": "train.py",
        "data": {"x": {"directory": "data"}},
        "prepare": {"script": "train.py"},
    }
    path.write_text(yaml.safe_dump(fields))
    derived = derive(path)
    assert str(tmp_path) not in str(derived.run.to_json())
    assert derived.run.job.file.name == "job.yml"
    (note,) = [note for note in derived.notes if note.startswith("data")]
    assert note == f"data: x: copy {tmp_path}/data to datasets/x on the volume before the pods start"
