from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs.planning import Answer
from ansible_collections.amx.cluster.plugins.module_utils._jobs.readiness import refusal
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
