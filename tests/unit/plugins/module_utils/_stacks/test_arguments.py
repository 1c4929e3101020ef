from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._stacks import arguments

NO_CUDA: dict[str, Any] = {"no_cuda": True}
USE_CPU: dict[str, Any] = {"use_cpu": True}
OLD = {"torch": "1.13.0", arguments.IPEX: "1.13.0"}


# What training_args.py of these versions has.
@pytest.mark.parametrize(
    ("version", "backend", "cpu", "distributed", "ipex"),
    [
        ("4.24.0", "ccl", NO_CUDA, {"xpu_backend": "ccl"}, True),
        ("4.24.0", "gloo", NO_CUDA, {"xpu_backend": "gloo"}, True),
        ("4.28.1", "ccl", NO_CUDA, {"xpu_backend": "ccl"}, True),
        ("4.29.0", "ccl", NO_CUDA, {"ddp_backend": "ccl"}, True),
        ("4.31.0", "ccl", NO_CUDA, {"ddp_backend": "ccl"}, True),
        ("4.32.0", "ccl", USE_CPU, {"ddp_backend": "ccl"}, True),
        ("4.55.4", "ccl", USE_CPU, {"ddp_backend": "ccl"}, True),
        ("4.56.2", "gloo", USE_CPU, {"ddp_backend": "gloo"}, True),
        ("4.57.1", "gloo", USE_CPU, {"ddp_backend": "gloo"}, False),
        ("5.0.0", "ccl", USE_CPU, {"ddp_backend": "ccl"}, False),
        ("5.23.0", "gloo", USE_CPU, {"ddp_backend": "gloo"}, False),
    ],
)
def test_by_version(version: str, backend: str, cpu: dict[str, Any], distributed: dict[str, Any], ipex: bool) -> None:
    versions = {"transformers": version, "torch": "2.8.0+cpu", "accelerate": "1.7.0"}
    assert arguments.by_version({**versions, arguments.IPEX: "2.8.0"}, backend) == {
        "cpu": cpu,
        "distributed": distributed,
        "bf16": {"bf16": "true"},
        "ipex": {"use_ipex": True} if ipex else {},
    }
    assert arguments.by_version(versions, backend)["ipex"] == {}


# Who called it, as an import hook printed it; without a version of accelerate it is not known that anybody does.
@pytest.mark.parametrize(
    ("torch", "transformers", "accelerate", "caller", "flag"),
    [
        ("1.13.0+cpu", "4.24.0", "0.14.0", "the Trainer", True),
        ("2.8.0+cpu", "4.52.4", "1.10.1", "the Trainer", True),
        ("2.8.0+cpu", "4.53.3", "1.7.0", "accelerate", True),
        ("2.8.0", "4.55.4", "1.7.0", "accelerate", True),
        ("2.8.0", "4.55.4", "1.8.1", "", False),
        ("2.6.0", "4.55.4", "1.10.1", "accelerate", True),
        ("2.6.0", "4.56.2", "1.12.0", "accelerate", True),
        ("2.7.0", "4.56.2", "1.12.0", "", False),
        ("2.6.0", "4.55.4", "1.13.0", "", False),
        ("2.8.0", "4.55.4", None, "", False),
        ("2.8.0", "4.57.6", "1.7.0", "", False),
        ("2.8.0", "5.0.0", "1.7.0", "accelerate", False),
        ("2.8.0", "5.0.0", "1.12.0", "", False),
        ("1.13.0", "4.19.0", "0.14.0", "", False),
    ],
)
def test_who_calls_ipex_optimize(
    torch: str, transformers: str, accelerate: str | None, caller: str, flag: bool
) -> None:
    versions = {"torch": torch, "transformers": transformers, arguments.IPEX: torch.partition("+")[0]}
    if accelerate:
        versions["accelerate"] = accelerate
    assert arguments.ipex_caller(versions) == caller
    assert arguments.by_version(versions, "gloo")["ipex"] == ({"use_ipex": True} if flag else {})
    del versions[arguments.IPEX]
    assert arguments.ipex_caller(versions) == ""


@pytest.mark.parametrize(
    ("version", "backend", "error"),
    [
        (
            "4.11.2",
            "gloo",
            "transformers 4.11.2 cannot distribute training over CPUs: 4.11.3 is the first version that can",
        ),
        (
            "5.1.0",
            "ccl",
            "transformers 5.1.0 does not have the backend ccl: 5.0.0 is the last version that does; "
            "take it, or backend gloo",
        ),
        ("5.1.0", "nccl", "backend 'nccl' is not one of mpi, gloo, ccl"),
        ("new", "gloo", "'new' is not a version such as 4.24.0"),
    ],
)
def test_versions_that_cannot(version: str, backend: str, error: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        arguments.by_version({"transformers": version}, backend)


def test_one_job_on_two_versions() -> None:
    own = {"seed": 1, "use_cpu": False, "no_cuda": False, "ddp_backend": "nccl", "ddp-backend": "nccl"}
    old = arguments.arguments(arguments.by_version({**OLD, "transformers": "4.24.0"}, "ccl"), own, 8, "bf16", "ccl")
    assert old == {
        "output_dir": "output", "seed": 1, "no_cuda": True, "xpu_backend": "ccl", "use_ipex": True, "bf16": "true",
    }  # fmt: skip
    new = arguments.arguments(arguments.by_version({"transformers": "5.23.0"}, "gloo"), own, 8, "bf16", "gloo")
    assert new == {"output_dir": "output", "seed": 1, "use_cpu": True, "ddp_backend": "gloo", "bf16": "true"}


def test_own_arguments_win_for_the_rest() -> None:
    names = arguments.by_version({**OLD, "transformers": "4.24.0"}, "ccl")
    own = {"output_dir": "there", "bf16": False, "use_ipex": False}
    assert arguments.arguments(names, own, 1, "bf16", "gloo") == {**own, "no_cuda": True}
    assert "bf16" not in arguments.arguments(names, {}, 2, "fp32", "gloo")


@pytest.mark.parametrize("version", ["4.11.3", "4.24.0", "4.32.0", "5.23.0"])
@pytest.mark.parametrize("size", [1, 2])
def test_cpu_only_is_always_set(version: str, size: int) -> None:
    made = arguments.arguments(
        arguments.by_version({"transformers": version}, "gloo"),
        {"use_cpu": False, "no_cuda": False},
        size,
        "fp32",
        "gloo",
    )
    assert [made[name] for name in ("use_cpu", "no_cuda") if name in made] == [True]


@pytest.mark.parametrize(("wanted", "resharded"), [("full", "true"), ("optimizer", "false")])
def test_sharding(wanted: str, resharded: str) -> None:
    shards = arguments.sharding(wanted, "5.20.2")
    config = f'"state_dict_type": "SHARDED_STATE_DICT", "reshard_after_forward": {resharded}'
    assert shards == {"fsdp": True, "fsdp_config": f'{{"version": 2, {config}}}'}
    assert arguments.sharding("none", "4.24.0") == {}
    # One rank alone has a group then, in which it reads the shards of several.
    made = arguments.arguments(arguments.by_version({"transformers": "5.23.0"}, "gloo"), shards, 1, "fp32", "gloo")
    assert made == {"output_dir": "output", "ddp_backend": "gloo", **shards, "use_cpu": True}


def test_sharding_by_a_version_that_cannot() -> None:
    with pytest.raises(
        ValueError, match=r"^sharding: full needs transformers 5\.20 or newer, and this stack has 4\.55\.4: "
    ):
        arguments.sharding("full", "4.55.4")


def test_a_stack_without_an_argument_for_cpu() -> None:
    with pytest.raises(ValueError, match=r"^the stack's arguments have none for cpu: without it every rank"):
        arguments.arguments({"cpu": {}, "distributed": {}, "bf16": {}}, {}, 2, "fp32", "gloo")
