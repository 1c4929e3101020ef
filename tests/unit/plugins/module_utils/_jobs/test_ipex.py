"""The line of a plan that says who calls ipex.optimize, or why nobody does and what to do."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import ipex
from ansible_collections.amx.cluster.plugins.module_utils._stacks.arguments import IPEX
from support import runs

NOBODY = (
    "IPEX does nothing in this job: nobody calls ipex.optimize with torch 2.8.0+cpu, transformers {}, accelerate {}. "
    "Install accelerate 1.7.0 with transformers 4.53 to 4.56 (stacks ipex-2.8 and ipex-2.8-gloo), or call it in the "
    "script (docs/stacks.md)."
)
BY_ACCELERATE = "IPEX: ipex.optimize by accelerate."
OFF_BY_VARIABLE = "IPEX: not used, as the job's env has ACCELERATE_USE_IPEX: false."
OFF = {"env": {"ACCELERATE_USE_IPEX": "False"}}
ON = {"env": {"ACCELERATE_USE_IPEX": "true"}}


@pytest.mark.parametrize(
    ("transformers", "accelerate", "job", "line"),
    [
        ("4.55.4", "1.7.0", {}, BY_ACCELERATE),
        ("4.52.4", "1.10.1", {}, "IPEX: ipex.optimize by the Trainer."),
        ("4.55.4", "1.10.1", {}, NOBODY.format("4.55.4", "1.10.1")),
        ("4.55.4", "1.7.0", {"args": {"use-ipex": False}}, "IPEX: not used, as the job's args have use_ipex: false."),
        ("4.55.4", "1.7.0", OFF, OFF_BY_VARIABLE),  # which wins over --use_ipex
        ("4.55.4", "1.7.0", {**ON, "args": {"use_ipex": False}}, BY_ACCELERATE),
        ("4.52.4", "1.7.0", OFF, "IPEX: ipex.optimize by the Trainer."),
        ("4.57.6", "1.7.0", {}, NOBODY.format("4.57.6", "1.7.0")),
        ("4.57.6", "1.7.0", ON, BY_ACCELERATE),
        ("5.0.0", "1.7.0", {}, BY_ACCELERATE),
        ("5.0.0", "1.7.0", OFF, OFF_BY_VARIABLE),
        ("5.0.0", "1.12.0", ON, NOBODY.format("5.0.0", "1.12.0")),
        ("4.55.4", "1.10.1", {"kind": "torch"}, "IPEX: ipex.optimize where the script calls it."),
        (
            "4.55.4",
            "1.7.0",
            {"kind": "torch"},
            "IPEX: ipex.optimize where the script calls it, and by accelerate where it has an Accelerator, unless env "
            "has ACCELERATE_USE_IPEX: false.",
        ),
        ("4.55.4", "1.7.0", {"kind": "ranks"}, ""),
        ("4.55.4", "1.7.0", {"kind": "inference"}, ""),
    ],
)
def test_the_line_of_a_plan(transformers: str, accelerate: str, job: dict[str, Any], line: str) -> None:
    packages = {"torch": "2.8.0+cpu", "transformers": transformers, "accelerate": accelerate}
    job = {"kind": "trainer", **job}
    assert ipex.describe(runs.run(**job).job, {"packages": {**packages, IPEX: "2.8.0"}}) == line
    assert ipex.describe(runs.run(**job).job, {"packages": packages}) == ""
    assert ipex.describe(runs.run(**job).job, runs.STACK) == ""
