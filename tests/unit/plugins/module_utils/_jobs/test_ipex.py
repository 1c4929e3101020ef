"""The line of a plan that says who calls ipex.optimize, or why nobody does and what to do."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import ipex
from ansible_collections.amx.cluster.plugins.module_utils._stacks.arguments import IPEX, by_version
from support import runs

NOBODY = (
    "IPEX does nothing in this job: nobody calls ipex.optimize with torch 2.8.0+cpu, transformers {}, accelerate {}. "
    "Install accelerate 1.7.0 with transformers 4.53 to 4.55 (stacks ipex-2.8 and ipex-2.8-gloo), or call it in the "
    "script (docs/stacks.md)."
)
BY_ACCELERATE = "IPEX: ipex.optimize by accelerate."
OFF_BY_FLAG = "IPEX: not used, as use_ipex is false in the job's args, or left out of the stack's arguments."
OFF_BY_VARIABLE = "IPEX: not used, as the job's env has ACCELERATE_USE_IPEX: false."
OFF = {"env": {"ACCELERATE_USE_IPEX": "False"}}
ON = {"env": {"ACCELERATE_USE_IPEX": "true"}}


@pytest.mark.parametrize(
    ("transformers", "accelerate", "job", "line"),
    [
        ("4.55.4", "1.7.0", {}, BY_ACCELERATE),
        ("4.52.4", "1.10.1", {}, "IPEX: ipex.optimize by the Trainer."),
        ("4.55.4", "1.10.1", {}, NOBODY.format("4.55.4", "1.10.1")),
        ("4.55.4", "1.7.0", {"args": {"use-ipex": False}}, OFF_BY_FLAG),
        ("4.55.4", "1.7.0", {"args": {"use_ipex": "False"}}, OFF_BY_FLAG),
        ("4.55.4", "1.7.0", {"args": {"use_ipex": "no"}}, OFF_BY_FLAG),
        ("4.55.4", "1.7.0", {"args": {"use_ipex": 0}}, OFF_BY_FLAG),
        ("4.55.4", "1.7.0", {"args": {"use_ipex": 1}}, BY_ACCELERATE),
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
    made = runs.run(**{"kind": "trainer", **job}).job
    assert ipex.describe(made, stack({**packages, IPEX: "2.8.0"})) == line
    assert ipex.describe(made, stack(packages)) == ""
    assert ipex.describe(made, runs.STACK) == ""


def stack(packages: dict[str, str]) -> dict[str, Any]:
    """Return an entry of the catalogue with these packages."""
    return {"packages": packages, "arguments": by_version(packages, "gloo")}


def test_a_stack_of_ones_own() -> None:
    """One without the flag, one installed when the flag was added in vain, one without transformers."""
    versions = {"torch": "2.8.0", "transformers": "4.55.4", "accelerate": "1.7.0", IPEX: "2.8.0"}
    made = runs.run().job
    assert ipex.describe(made, {**stack(versions), "arguments": {"ipex": {}}}) == OFF_BY_FLAG
    vain = {"packages": {**versions, "accelerate": "1.10.1"}, "arguments": {"ipex": {"use_ipex": True}}}
    assert ipex.describe(made, vain).startswith("IPEX does nothing in this job: ")
    assert ipex.describe(made, {"packages": {"torch": "2.8.0", IPEX: "2.8.0"}}).startswith("IPEX does nothing")


@pytest.mark.parametrize(
    ("transformers", "accelerate", "job", "is_set"),
    [
        ("4.55.4", "1.7.0", {}, True),
        ("4.55.4", "1.7.0", {"kind": "torch"}, True),
        ("5.0.0", "1.7.0", {}, True),
        ("4.52.4", "1.7.0", {}, True),  # accelerate calls it, too
        ("4.55.4", "1.10.1", {}, False),
        ("4.55.4", "1.7.0", {"kind": "ranks"}, False),
    ],
)
def test_models_that_accelerate_gives_ipex_are_trained(
    transformers: str, accelerate: str, job: dict[str, Any], is_set: bool
) -> None:
    versions = {"torch": "2.8.0", "transformers": transformers, "accelerate": accelerate, IPEX: "2.8.0"}
    made = runs.run(**{"kind": "trainer", **job}).job
    assert ipex.environment(made, stack(versions)) == ({"ACCELERATE_TORCH_DEVICE": "cpu"} if is_set else {})
    assert ipex.environment(made, runs.STACK) == {}


@pytest.mark.parametrize(
    ("transformers", "precision", "several", "job", "warns"),
    [
        ("4.52.4", "bf16", True, {}, True),
        ("4.52.4", "fp32", True, {"args": {"bf16": True}}, True),
        ("4.52.4", "fp32", True, {"args": {"bf16": "false"}}, False),
        ("4.52.4", "fp32", True, {"env": {"ACCELERATE_MIXED_PRECISION": "bf16"}}, True),
        ("4.52.4", "fp32", True, {}, False),
        ("4.52.4", "bf16", False, {}, False),
        ("4.55.4", "bf16", True, {}, False),
    ],
)
def test_the_trainers_own_call_is_warned_of(
    transformers: str, precision: str, several: bool, job: dict[str, Any], warns: bool
) -> None:
    versions = {"torch": "2.8.0", "transformers": transformers, "accelerate": "1.7.0", IPEX: "2.8.0"}
    made = runs.run(**{"kind": "trainer", **job}).job
    line = ipex.describe(made, stack(versions), precision, several)
    assert ("do not learn with transformers 4.52.4" in line) == warns


@pytest.mark.parametrize(
    ("precision", "several", "job", "warns"),
    [
        ("bf16", True, {}, True),
        ("fp32", True, {"args": {"bf16": True}}, True),
        ("bf16", True, {"kind": "torch"}, True),
        ("bf16", False, {}, False),
        ("bf16", False, {"kind": "torch"}, False),
        ("fp32", True, {}, False),
        ("fp32", True, {"kind": "torch"}, False),
        ("bf16", True, OFF, False),
    ],
)
def test_weights_that_differ_between_ranks_are_warned_of(
    precision: str, several: bool, job: dict[str, Any], warns: bool
) -> None:
    versions = {"torch": "2.8.0", "transformers": "4.55.4", "accelerate": "1.7.0", IPEX: "2.8.0"}
    made = runs.run(**{"kind": "trainer", **job}).job
    line = ipex.describe(made, stack(versions), precision, several)
    assert line.endswith(ipex.SEED) == warns
    assert (ipex.SEED in line) == warns


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        ({"ACCELERATE_USE_IPEX": ""}, "env: ACCELERATE_USE_IPEX: '' is neither true nor false"),
        ({"ACCELERATE_USE_IPEX": "maybe"}, "env: ACCELERATE_USE_IPEX: 'maybe' is neither true nor false"),
        ({"ACCELERATE_TORCH_DEVICE": "cpu:0"}, "env: ACCELERATE_TORCH_DEVICE: cpu:0 is another device than cpu"),
    ],
)
def test_variables_with_which_ipex_does_not_train(env: dict[str, str], problem: str) -> None:
    versions = {"torch": "2.8.0", "transformers": "4.55.4", "accelerate": "1.7.0", IPEX: "2.8.0"}
    made = runs.run(kind="trainer", env=env).job
    with pytest.raises(ValueError, match=problem):
        ipex.environment(made, stack(versions))
    assert ipex.environment(made, runs.STACK) == {}


def test_a_plan_has_the_variable() -> None:
    versions = {"torch": "2.8.0", "transformers": "4.55.4", "accelerate": "1.7.0", IPEX: "2.8.0"}
    names = {**runs.STACK["arguments"], "ipex": {"use_ipex": True}}
    entry = {**runs.STACK, "packages": versions, "arguments": names}
    for count in (1, 2):
        made = runs.plan(runs.host("node0", count), stack=entry, precision="bf16")
        assert made["hosts"][0]["env"]["ACCELERATE_TORCH_DEVICE"] == "cpu"
        assert made["ipex"] == BY_ACCELERATE + (ipex.SEED if count == 2 else "")


@pytest.mark.parametrize(
    ("args", "precision", "warns"),
    [
        ({"optim": "adafactor"}, "bf16", True),
        ({"optim": "adafactor", "bf16": True}, "fp32", True),
        ({"adafactor": True}, "bf16", True),
        ({"adafactor": "false"}, "bf16", False),
        ({"optim": "adafactor"}, "fp32", False),
        ({"optim": "adamw_torch"}, "bf16", False),
        ({"optim": "adafactor", "use-ipex": False}, "bf16", False),
    ],
)
def test_adafactor_is_warned_of(args: dict[str, Any], precision: str, warns: bool) -> None:
    versions = {"torch": "2.8.0", "transformers": "4.55.4", "accelerate": "1.7.0", IPEX: "2.8.0"}
    line = ipex.describe(runs.run(kind="trainer", args=args).job, stack(versions), precision)
    assert (ipex.ADAFACTOR in line) == warns
