"""Runs of jobs for tests: a job file's fields, filled in, with settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.planning import Answer, make_plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run, Settings


def run(settings: dict[str, Any] | None = None, **fields: Any) -> Run:
    """Return the run of a job with these fields, named demo with a script train.py unless they say otherwise."""
    values = {"file": Path("/somewhere/demo.yml"), "name": "demo", "script": Path("/somewhere/train.py"), **fields}
    return Run(Job(**values), Settings(**{"head": "node0", **(settings or {})}))


def core_map(letters: str = "00") -> dict[str, Any]:
    """Return the core map of a node with one socket, a character for each core, as core_allocation returns it."""
    cells = [{"core": core, "cpus": str(core), "letter": letter, "purpose": "-"} for core, letter in enumerate(letters)]
    return {"rows": [{"socket": 0, "node": 0, "cells": cells}], "ranks": 1, "offline": ""}


STACK: dict[str, Any] = {
    "name": "native",
    "backend": "gloo",
    "arguments": {"cpu": {"use_cpu": True}, "distributed": {"ddp_backend": "gloo"}, "bf16": {"bf16": True}},
}


def host(name: str, ranks: int, domain: str = "[3,c]", isa: str = "amx", **allocation: Any) -> dict[str, Any]:
    """Return a host's answer as JSON, with as many ranks of two cores each."""
    return {
        "host": name,
        "address": f"10.0.0.{ord(name[-1]) - ord('0') + 1}",
        "interface": "eth0",
        "isa": isa,
        "previous": {"state": "", "checkpoint": False},
        "allocation": {
            "ranks": [
                {"env": {}, "compute_cpus": [2 * place, 2 * place + 1], "comm_cpus": []} for place in range(ranks)
            ],
            "env": {"OMP_NUM_THREADS": "2", "KMP_BLOCKTIME": "1", "I_MPI_PIN_DOMAIN": domain},
            "threads_per_rank": 2,
            "core_map": core_map("0011"),
            **allocation,
        },
    }


def answer(name: str, ranks: int, stack: dict[str, Any] | None = None, **answered: Any) -> dict[str, Any]:
    """Return a host's answer as the action job_plan gets it. answered: what of it differs."""
    values = {**host(name, ranks), "fabric": None, **answered}
    for rank in values["allocation"]["ranks"]:
        rank.update(domain_cpus=[0, 1], numa_nodes=[0])
    of_module = {"venv": "/opt/env", "tcmalloc": "", "runtime": "/opt/runtime/0123", "stack": stack or STACK}
    none: dict[str, Any] = {"jobs": [], "locked_by": [], "locks": [], "queued": {}, "verified": {}, "example": {}}
    elsewhere = ("host", "isa", "fabric", "address", "interface")
    mine = {key: value for key, value in values.items() if key not in elsewhere}
    return {
        "host": {**of_module, **none, **mine},
        "facts": {"isa": values["isa"], "amx": {"reason": ""}, "fabric": values["fabric"]},
        "network": {key: values[key] for key in ("address", "interface")},
    }


CCL_STACK: dict[str, Any] = {
    **STACK,
    "backend": "ccl",
    "bindings": "oneccl_bindings_for_pytorch",
    "interpreter": "3.10",
    "packages": {"oneccl-bind-pt": "2.8.0"},
}
OLD_CCL_STACK: dict[str, Any] = {**CCL_STACK, "packages": {"oneccl-bind-pt": "2.1.100"}}


def plan(*hosts: dict[str, Any], stack: dict[str, Any] | None = None, **job: Any) -> dict[str, Any]:
    """Return the plan of a job with these fields on these hosts, as plan.json has it."""
    return planned(run(**job), stack or STACK, hosts)


def planned(
    run: Run,
    stack: dict[str, Any],
    hosts: Sequence[dict[str, Any]],
    fabric: str = "auto",
    env: str = "/opt/env",
    runtime: object = "/opt/runtime/0123",
) -> dict[str, Any]:
    """Return the plan of a run, as plan.json has it. hosts: their answers as JSON."""
    plan = make_plan(run, stack, env, [Answer.from_json(host) for host in hosts], fabric)
    return replace(plan, runtime=str(runtime)).to_json()
