from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Checkpoints
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import secrets
from ansible_collections.amx.cluster.plugins.module_utils._jobs.on_end import OnEnd
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run_files import (
    render_arguments,
    run_files,
    script_path,
    script_words,
)
from support.runs import STACK, host, plan, run


@pytest.mark.parametrize(
    ("made", "args", "words"),
    [
        (
            plan(host("node0", 2)),
            {"seed": 1},
            "train.py --output_dir output --ddp_backend gloo --bf16 true --seed 1 --use_cpu",
        ),
        (plan(host("node0", 1, isa="avx2")), {"seed": 1}, "train.py --output_dir output --seed 1 --use_cpu"),
        (
            plan(host("node0", 1)),
            {"output_dir": "here", "bf16": False, "use_cpu": False},
            "train.py --output_dir here --bf16 false --use_cpu",
        ),
    ],
)
def test_script_words(made: dict[str, Any], args: dict[str, Any], words: str) -> None:
    assert script_words(Plan.from_json(made), run(args=args), STACK) == words.split()


def test_arguments_of_a_restart_win() -> None:
    words = script_words(
        Plan.from_json(plan(host("node0", 1))), run(args={"seed": 1}), STACK, {"seed": 2, "resume_from_checkpoint": "x"}
    )
    assert " ".join(words) == "train.py --output_dir output --bf16 true --seed 2 --resume_from_checkpoint x --use_cpu"


def test_a_global_batch_becomes_arguments() -> None:
    """The same step on one and two hosts, and after a restart on fewer."""
    for hosts, batch in ((1, "4 --per_device_train_batch_size 8"), (2, "2 --per_device_train_batch_size 8")):
        made = Plan.from_json(plan(*(host(f"node{number}", 2) for number in range(hosts))))
        words = " ".join(script_words(made, run(global_batch=64), STACK))
        assert f" --gradient_accumulation_steps {batch} " in words


def test_checkpoints() -> None:
    words = script_words(Plan.from_json(plan(host("node0", 1))), run(checkpoints=Checkpoints(5, 2)), STACK)
    assert " ".join(words) == (
        "train.py --output_dir output --bf16 true --save_strategy steps --save_steps 5 --save_total_limit 2 --use_cpu"
    )


def test_sharding() -> None:
    stack = {**STACK, "packages": {"transformers": "5.23.0"}}
    made = Plan.from_json(plan(host("node0", 2), stack=stack, sharding="full"))
    words = script_words(made, run(sharding="full"), stack)
    assert words[words.index("--fsdp") + 1] == "--fsdp_config"
    assert json.loads(words[words.index("--fsdp_config") + 1])["reshard_after_forward"] is True


@pytest.mark.parametrize("kind", ["torch", "ranks"])
def test_a_script_without_a_trainer_gets_its_own_arguments_only(kind: str) -> None:
    made = Plan.from_json(plan(host("node0", 2)))
    assert script_words(made, run(kind=kind, args={"seed": 1}), STACK) == [
        "train.py",
        "--seed",
        "1",
    ]


def test_render_arguments() -> None:
    args = {"a": True, "b": False, "c": [1, "x y"], "d": 1e-4, "e": "", "f": []}
    words = ["--a", "--b", "false", "--c", "1", "x y", "--d", "0.0001", "--e", "", "--f"]
    assert render_arguments(args) == words


def test_the_script_of_an_example_lies_as_in_its_repository() -> None:
    example = Path("transformers/examples/pytorch/text-classification/run_glue.py")
    assert script_path(run(script=example)) == str(example)


def test_the_files_of_a_run() -> None:
    made = plan(host("node0", 2))
    files = run_files(Plan.from_json(made), run(args={"seed": 1}), STACK, {"seed": 2})
    assert sorted(files) == ["env", "hostfile", "job.json", "launch.sh", "plan.json"]
    assert json.loads(files["plan.json"]) == made
    assert Run.from_json(json.loads(files["job.json"])) == run(args={"seed": 1})
    assert "--seed 2" in files["launch.sh"]


def test_the_url_of_on_end_may_be_in_the_inventory() -> None:
    made = run(on_end=OnEnd(url_from="HOOK"), env_from=["PLAIN"])
    url = "https://example.com/hook"
    assert secrets(made.job, {"HOOK": url, "PLAIN": "1"}) == {"AMX_CLUSTER_ON_END": url, "PLAIN": "1"}
    for job_env, error in (
        ({"PLAIN": "1"}, r"on_end\.url_from names HOOK, and job_env in the inventory"),
        ({"PLAIN": "1", "HOOK": "hook-secret"}, r"HOOK in job_env of the inventory is not a URL such as [^ ]+\.$"),
    ):
        with pytest.raises(ValueError, match=error):
            secrets(made.job, job_env)
