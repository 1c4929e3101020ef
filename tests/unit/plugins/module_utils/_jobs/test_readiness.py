from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs.planning import Answer
from ansible_collections.amx.cluster.plugins.module_utils._jobs.readiness import refusal, resumption
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
