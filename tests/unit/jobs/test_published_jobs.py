"""The jobs of published articles, planned for the clusters that their authors had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._cores.allocation import Request, allocate
from ansible_collections.amx.cluster.plugins.module_utils._cores.topology import build
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import load
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run, Settings
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run_files import render_arguments, script_words
from ansible_collections.amx.cluster.plugins.module_utils._stacks import catalogue
from support.machines import Machine, machine
from support.runs import core_map, planned

ROOT = Path(__file__).resolve().parents[3]
CATALOGUE = yaml.safe_load((ROOT / "roles/torch_stack/vars/stacks.yml").read_text(encoding="utf-8"))


def stack(name: str) -> dict[str, Any]:
    return {**catalogue.choose(CATALOGUE["__torch_stack_catalogue"], name, {})[0], "name": name, "interpreter": "3.10"}


def plan(job: Job, node: Machine, hosts: int, stack: dict[str, Any], isa: str) -> dict[str, Any]:
    """Plan a job for so many equal hosts."""
    request = Request(job.ranks_per_node, stack["backend"], job.comm_cores, job.reserved_cores)
    allocation = allocate(build(node.cpus(), None), request).as_dict()
    told = [
        {"host": f"node{number}", "address": f"10.0.0.{number}", "interface": "eth0", "isa": isa}
        for number in range(hosts)
    ]
    answers = [{**host, "allocation": {**allocation, "core_map": core_map()}} for host in told]
    return planned(Run(job, Settings(head="node0")), stack, answers)


@pytest.mark.parametrize(
    ("name", "override", "node", "hosts", "stack_name", "isa", "expected"),
    [
        # r7iz.metal-16xl: 24 cores compute, 2 communicate, 6 are the system's.
        (
            "squad-distilbert", {}, machine(1, 32, 2), 4, "ipex-1.13", "amx",
            {"ranks": 8, "threads": "12", "workers": "1", "domain": "[0x7ff80,0xfff00000]", "system": 6},
        ),
        # r7iz.8xlarge: 32 vCPUs are 16 cores.
        (
            "squad-distilbert", {"ranks_per_node": 4, "reserved_cores": 0}, machine(1, 16, 2), 8, "ipex-1.13", "amx",
            {"ranks": 32, "threads": "3", "workers": "1", "domain": "[0xe,0xe0,0xe00,0xe000]", "system": 0},
        ),
        # Two sockets of 24 cores.
        (
            "squad-bert-large", {}, machine(2, 24), 2, "ipex-2.8", "amx",
            {"ranks": 4, "threads": "23", "workers": "1", "domain": "[0xfffffe,0xfffffe000000]", "system": 0},
        ),
        # c6i.16xlarge.
        (
            "mrpc-bert", {}, machine(1, 32, 2), 4, "ipex-2.1", "avx512_vnni",
            {"ranks": 4, "threads": "28", "workers": "4", "domain": "[0xfffffff0]", "system": 0},
        ),
        (
            "qqp-bert", {"hosts": 2}, machine(1, 32, 2), 2, "ipex-2.1", "avx512_vnni",
            {"ranks": 2, "threads": "28", "workers": "4", "domain": "[0xfffffff0]", "system": 0},
        ),
    ],
)  # fmt: skip
def test_a_job_on_its_own_cluster(
    name: str,
    override: dict[str, Any],
    node: Machine,
    hosts: int,
    stack_name: str,
    isa: str,
    expected: dict[str, Any],
) -> None:
    job = load(ROOT / f"jobs/{name}.yml", override)
    made = plan(job, node, hosts, stack(stack_name), isa)
    told = made["hosts"][0]["env"]
    allocation = allocate(
        build(node.cpus(), None), Request(job.ranks_per_node, "ccl", job.comm_cores, job.reserved_cores)
    )
    assert {
        "ranks": made["world_size"],
        "threads": told["OMP_NUM_THREADS"],
        "workers": told["CCL_WORKER_COUNT"],
        "domain": told["I_MPI_PIN_DOMAIN"],
        "system": len(allocation.system_cores),
    } == expected
    assert told["KMP_HW_SUBSET"] == "1T"


def test_one_job_file_is_spelt_for_each_version() -> None:
    spelt = {}
    for name in ("ipex-1.13", "ipex-2.8", "native", "ipex-1.13 by gloo", "ipex-2.8-gloo"):
        own_stack, _, backend = name.partition(" by ")
        job = load(ROOT / "jobs/squad-distilbert.yml", {"backend": backend or "auto"})
        made = plan(job, machine(1, 32, 2), 2, stack(own_stack), "amx")
        _script, *words = script_words(Plan.from_json(made), Run(job, Settings(head="node0")), stack(own_stack))
        own = render_arguments(job.args)
        spelt[name] = " ".join(word for word in words if word not in own)
    saved = "--save_strategy steps --save_steps 200 --save_total_limit 2"
    assert spelt == {
        "ipex-1.13": f"--output_dir output --xpu_backend ccl --bf16 --use_ipex {saved} --no_cuda",
        "ipex-2.8": f"--output_dir output --ddp_backend ccl --bf16 --use_ipex {saved} --use_cpu",
        "native": f"--output_dir output --ddp_backend mpi --bf16 {saved} --use_cpu",
        "ipex-1.13 by gloo": f"--output_dir output --xpu_backend gloo --bf16 --use_ipex {saved} --no_cuda",
        "ipex-2.8-gloo": f"--output_dir output --ddp_backend gloo --bf16 --use_ipex {saved} --use_cpu",
    }


# The commands in the texts of docs/published_recipes.md, but for where results go and what a stack adds.
SQUAD = "transformers/examples/pytorch/question-answering/run_qa.py --dataset_name squad --do_train --do_eval"
GLUE = (
    "transformers/examples/pytorch/text-classification/run_glue.py --model_name_or_path google-bert/bert-base-cased"
    " --do_train --do_eval --max_seq_length 128 --per_device_train_batch_size 32 --learning_rate 2e-05"
    " --num_train_epochs 3"
)
PUBLISHED = {
    "squad-distilbert": f"{SQUAD} --model_name_or_path distilbert/distilbert-base-uncased"  # A, C
    " --per_device_train_batch_size 32 --num_train_epochs 1",
    "squad-bert-large": f"{SQUAD} --model_name_or_path google-bert/bert-large-uncased"  # D
    " --per_device_train_batch_size 12 --learning_rate 3e-05 --num_train_epochs 2 --max_seq_length 384"
    " --doc_stride 128",
    "mrpc-bert": f"{GLUE} --task_name mrpc",  # B
    "qqp-bert": f"{GLUE} --task_name qqp",  # B
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_hyperparameters_are_those_of_the_article(name: str) -> None:
    job = load(ROOT / f"jobs/{name}.yml")
    (model,), (dataset,) = job.models.items(), job.data.items()
    given = {key: "" if value is True else str(value) for key, value in job.args.items()}
    assert (given["model_name_or_path"], given.pop("dataset_name")) == (f"models/{model[0]}", f"datasets/{dataset[0]}")
    given["model_name_or_path"] = model[1].hub
    # A task of GLUE is a configuration of its dataset, where that is read from files.
    task = given.pop("dataset_config_name", "")
    given |= {"task_name": task} if task else {"dataset_name": dataset[0]}
    assert dataset[1].hub == ("nyu-mll/glue" if task else "rajpurkar/squad")
    script, *published = PUBLISHED[name].split(" --")
    assert str(job.script) == script
    assert given == {key: value for key, _space, value in (words.partition(" ") for words in published)}


@pytest.mark.parametrize("path", sorted((ROOT / "jobs").glob("*.yml")), ids=lambda path: path.name)
def test_every_shipped_job_is_valid_and_named_for_its_file(path: Path) -> None:
    job = load(path)
    assert job.name == path.stem
    assert job.script.is_absolute() == (path.stem in ("collectives", "csv", "demo", "lora", "sft", "smoke", "training"))
