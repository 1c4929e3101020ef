"""An instance of vLLM: its cores, its memory, its variables and its arguments. That it serves was seen with 0.32.0."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from amx_cluster.inference import vllm_instance
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import Serving

GIB = 1 << 30


def test_the_cache_has_half_of_what_is_left() -> None:
    assert vllm_instance.cache_gib(64 * GIB, 2, 5 * GIB) == 12
    assert vllm_instance.cache_gib(1024 * GIB, 1, 2 * GIB) == vllm_instance.MOST
    with pytest.raises(ValueError, match=r"^8\.0 GiB of memory for 2 instances of 0\.5 GiB leave no room"):
        vllm_instance.cache_gib(8 * GIB, 2, GIB // 2)


def test_variables_of_the_plan_do_not_reach_it() -> None:
    given = {
        "PATH": "/bin",
        "LD_PRELOAD": "/l/libtcmalloc.so",
        "OMP_NUM_THREADS": "8",
        "KMP_AFFINITY": "compact",
        "PYTHONPATH": "/runtime",
        "AMX_CLUSTER_JOB": "/j",
        "AMX_CLUSTER_HOST": "node0",
        "RANK": "0",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "10.0.0.1",
        "OMPHALOS": "kept",
        "VLLM_API_KEY": "of a login",
        "VLLM_USE_V1": "1",
    }
    made = vllm_instance.variables(given, {"VLLM_USE_V1"}, range(8, 16), [1], 12, 30.5)
    assert {name: made[name] for name in given if name in made} == {
        "PATH": "/bin",
        "LD_PRELOAD": "/l/libtcmalloc.so",
        "AMX_CLUSTER_JOB": "/j",  # by which what it left is found
        "OMPHALOS": "kept",
        "VLLM_USE_V1": "1",
    }
    assert made["VLLM_CPU_OMP_THREADS_BIND"] == "8-14"  # one core is left to its other processes
    assert made["VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS"] == "31"
    assert made["TORCHDYNAMO_DISABLE"] == "1"  # a request with logprobs needs no compiler
    assert (made["VLLM_CPU_KVCACHE_SPACE"], made["CPU_VISIBLE_MEMORY_NODES"]) == ("12", "1")
    assert vllm_instance.variables({}, (), [0, 1], [0], 1, 300)["VLLM_CPU_OMP_THREADS_BIND"] == "0-1"


def test_arguments() -> None:

    cell = {"model": "job chat", "precision": "bf16", "sequence_length": 128}
    request = Serving(cell, [], [], "", 8000, engine="vllm")
    words = vllm_instance.arguments(request, Path("/j/models/model"), "/tmp/s/i0")
    options = dict(zip(words[::2], words[1::2]))
    assert options["--served-model-name"] == "chat"
    assert (options["--uds"], options["--dtype"], options["--model"]) == ("/tmp/s/i0", "bfloat16", "/j/models/model")
    assert "--max-model-len" not in words  # of the model, as its prompts are not cut
    assert "--enable-lora" not in words
    both = replace(request, adapters={"polite": 4, "short": 24})
    words = vllm_instance.arguments(both, Path("/j/models/model"), "/tmp/s/i0")
    assert words[words.index("--enable-lora") :] == [
        *("--enable-lora", "--max-loras", "2", "--max-lora-rank", "32", "--lora-modules"),
        *("polite=/j/models/adapter-polite", "short=/j/models/adapter-short"),
    ]
