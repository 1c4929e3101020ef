from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs.planning import Answer
from ansible_collections.amx.cluster.plugins.module_utils._jobs.readiness import (
    locked,
    refusal,
    resumption,
    running,
    verification,
    without_example,
)
from support.runs import run


def answer(**changes: Any) -> Answer:
    content = {"venv": "/opt/envs/a", "allocation": {"ranks": []}, "tcmalloc": "/lib/libtcmalloc.so.4", **changes}
    return Answer.from_json({"host": "node", **content})


@pytest.mark.parametrize(
    ("answers", "tcmalloc", "said"),
    [
        ({"node0": answer(), "node1": answer(tcmalloc="")}, "preferred", ""),
        (
            {"node0": answer(), "node1": answer(tcmalloc="")},
            "required",
            "cluster_tcmalloc is required, and the loader of node1 (ldconfig -p) has no tcmalloc: run site.yml, which "
            "installs it, or set cluster_tcmalloc to preferred.",
        ),
        (
            {"node0": answer(), "node1": answer(venv="")},
            "preferred",
            "Job demo cannot be planned: there is no virtual environment on node1: run site.yml, which installs the "
            "same one on all hosts.",
        ),
        (
            {"node0": answer(), "node1": answer(venv="/opt/envs/b")},
            "preferred",
            "Job demo cannot be planned: node1 has /opt/envs/b, and the head node0 has /opt/envs/a: run site.yml, "
            "which installs the same virtual environment on all hosts.",
        ),
        (
            {
                "node0": answer(allocation={"msg": "too few cores"}),
                "node1": answer(allocation={"msg": "too few cores"}),
            },
            "preferred",
            "Job demo cannot be planned:\n- node0, node1: too few cores",
        ),
    ],
)
def test_refusal(answers: dict[str, Answer], tcmalloc: str, said: str) -> None:
    assert refusal(run(), ["node0", "node1"], answers, tcmalloc) == said


def test_ranks_that_do_not_divide_the_global_batch() -> None:
    answers = {name: answer(allocation={"ranks": [{}] * 3}) for name in ("node0", "node1")}
    said = refusal(run(global_batch=64), list(answers), answers, "preferred")
    assert said.startswith("Job demo cannot be planned: global_batch: 64 samples cannot be divided among 6 ranks")
    assert refusal(run(global_batch=66), list(answers), answers, "preferred") == ""


def test_the_head_needs_a_virtual_environment_even_without_ranks() -> None:
    answers = {"node0": answer(venv=""), "node1": answer()}
    assert "no virtual environment on node0" in refusal(run(), ["node1"], answers, "preferred")


NEW, SAVED = {"state": "", "checkpoint": False}, {"state": "", "checkpoint": True}
FAILED, ENDED = {"state": "failed", "checkpoint": True}, {"state": "succeeded", "checkpoint": True}


@pytest.mark.parametrize(
    ("resume", "head", "others", "resumes"),
    [
        (False, FAILED, [SAVED], (False, "")),
        (True, NEW, [NEW], (True, "")),
        (True, FAILED, [SAVED], (True, "")),
        (True, NEW, [NEW, SAVED, SAVED], (True, "node2")),
        ("auto", NEW, [NEW], (False, "")),
        ("auto", NEW, [NEW, SAVED], (True, "node2")),
        ("auto", FAILED, [NEW], (True, "")),
        ("auto", SAVED, [], (True, "")),
        ("auto", ENDED, [SAVED], (False, "")),
        ("auto", {**FAILED, "checkpoint": False}, [], (False, "")),
        ("auto", {**FAILED, "checkpoint": False}, [SAVED], (True, "")),
    ],
)
def test_resumption(
    resume: bool | str, head: dict[str, Any], others: list[dict[str, Any]], resumes: tuple[bool, str]
) -> None:
    previous = {"node0": head, **{f"node{number}": run for number, run in enumerate(others, 1)}}
    assert resumption(resume, "node0", previous) == resumes


def here(**answered: Any) -> dict[str, Any]:
    """Return what the module job_host_info returns on a host, as far as it decides about a start."""
    none: dict[str, Any] = {"jobs": [], "locked_by": [], "locks": [], "queued": {}, "verified": {}, "example": {}}
    return {**none, **answered}


def test_a_job_that_runs() -> None:
    status = {"state": "running", "started": "2026-11-20T13:00:00+00:00"}
    demo = {"path": "/opt/amx/jobs/demo", "user": "ann", "status": status}
    assert running("demo", here(jobs=[{**demo, "path": "/opt/amx/jobs/my-demo"}])) == ""
    assert running("demo", here(jobs=[{**demo, "status": {**status, "state": "failed"}}])) == ""
    assert running("demo", here(jobs=[demo])) == (
        "Job demo of ann is running since 2026-11-20T13:00:00+00:00: follow it (playbooks/logs.yml -e job=demo), wait "
        "for its end, stop it (playbooks/stop.yml -e job=demo), or give this job another name."
    )
    demo["status"] = {**status, "preparing": "2026-11-20T13:00:01+00:00"}
    assert "of ann is being prepared since" in running("demo", here(jobs=[demo]))


def test_a_host_that_another_job_has_locked() -> None:
    answers = {
        "node0": here(queued={"node1": ["node1 is locked by a", "node1 is locked by b"], "node2": ["not meant"]}),
        "node1": here(locks=["node1 is locked by a"]),
    }
    lines = locked("demo", ["node0", "node1"], answers, "node0").splitlines()
    assert lines[:3] == ["Job demo was not started:", "- node1 is locked by a", "- node1 is locked by b"]
    assert lines[3].startswith("Wait for its end (wait: true in the job file does")
    assert len(lines) == 4
    assert locked("demo", ["node0"], answers, "node0") == ""


def test_an_example_that_is_missing() -> None:
    job = run(script=Path("transformers/examples/a.py"))
    there = {"exists": True, "examples": True, "link": "/opt/examples", "requirements": []}
    assert without_example(job, {"node0": here(example=there), "node1": here(example=there)}) == ""
    assert without_example(run(), {"node0": here()}) == ""
    missing = here(example={**there, "exists": False})
    assert without_example(job, {"node0": here(example=there), "node1": missing}).startswith(
        "Job demo runs transformers/examples/a.py, which is missing on node1: it is not among the examples of the "
        "version in use; correct script in the job file, or run site.yml"
    )
    none = here(example={**there, "exists": False, "examples": False})
    assert "node0, node1: the transformers examples are not there; run" in without_example(
        job, {"node0": none, "node1": none}
    )


def test_a_plan_that_was_verified_before() -> None:
    busy = here(locked_by=[{"job": "b"}, {"job": "a"}])
    plan = {"hosts": [{"host": "node0"}, {"host": "node1"}]}
    assert verification(plan, {"node0": here(), "node1": here()}, "node0") == (True, "")
    due, note = verification(plan, {"node0": here(verified=plan), "node1": busy}, "node0")
    assert (due, "found to follow it before" in note) == (False, True)
    due, note = verification(plan, {"node0": here(verified={"hosts": []}), "node1": busy}, "node0")
    assert (due, "because a, b are running: run playbooks/verify.yml" in note) == (False, True)


def test_a_plan_is_not_verified_on_a_host_that_a_job_in_the_queue_has_or_waits_for() -> None:
    """The queue would refuse the ranks."""
    head = here(queued={"node1": ["job b of ann waits for node1"]})
    due, note = verification({"hosts": [{"host": "node1"}]}, {"node0": head, "node1": here()}, "node0")
    assert (due, "because job b of ann waits for node1: run playbooks/verify.yml" in note) == (False, True)
    assert verification({"hosts": [{"host": "node0"}]}, {"node0": head}, "node0") == (True, "")
