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
        "ipex-1.13": f"--output_dir output --xpu_backend ccl --bf16 true --use_ipex {saved} --no_cuda",
        "ipex-2.8": f"--output_dir output --ddp_backend ccl --bf16 true --use_ipex {saved} --use_cpu",
        "native": f"--output_dir output --ddp_backend mpi --bf16 true {saved} --use_cpu",
        "ipex-1.13 by gloo": f"--output_dir output --xpu_backend gloo --bf16 true --use_ipex {saved} --no_cuda",
        "ipex-2.8-gloo": f"--output_dir output --ddp_backend gloo --bf16 true --use_ipex {saved} --use_cpu",
    }


TEXTS = yaml.safe_load((ROOT / "tests/unit/fixtures/published/texts.yml").read_text(encoding="utf-8"))
# The scripts' arguments, but for where results go and what a stack adds.
SET_BY_COLLECTION = {
    "output_dir", "overwrite_output_dir", "no_cuda", "use_ipex", "xpu_backend", "ddp_backend",
}  # fmt: skip
SCRIPTS = {"run_qa.py": "question-answering", "run_glue.py": "text-classification"}
HUB = {"distilbert-base-uncased": "distilbert", "bert-base-cased": "google-bert"}
# Whose command a job runs: the text, which of its commands, and what the text changes in it.
PUBLISHED = [
    ("squad-distilbert", "spr-8xlarge", 0, {}),
    ("squad-distilbert", "spr-8xlarge", 1, {}),
    ("squad-distilbert", "spr-16xlarge", 0, {}),
    ("squad-distilbert", "spr-16xlarge", 1, {}),
    # One node in fp32, which the job runs by --set precision=fp32.
    ("squad-bert-large", "multi-cpu", 0, {"bf16": ""}),
    ("squad-bert-large", "multi-cpu", 1, {}),
    ("mrpc-bert", "icx-16xlarge", 0, {}),
    # Another model than that of one node, which the job keeps.
    ("mrpc-bert", "icx-16xlarge", 1, {"model_name_or_path": "bert-base-cased"}),
    ("qqp-bert", "icx-16xlarge", 0, {"task_name": "qqp"}),
]


@pytest.mark.parametrize(("name", "text", "number", "changed"), PUBLISHED)
def test_the_hyperparameters_are_those_of_the_text(name: str, text: str, number: int, changed: dict[str, str]) -> None:
    job = load(ROOT / f"jobs/{name}.yml")
    (model,), (dataset,) = job.models.items(), job.data.items()
    given = {key: "" if value is True else f"{value:g}" if isinstance(value, float) else str(value)
             for key, value in job.args.items()}  # fmt: skip
    assert (given["model_name_or_path"], given.pop("dataset_name")) == (f"models/{model[0]}", f"datasets/{dataset[0]}")
    given["model_name_or_path"] = model[1].hub
    # A task of GLUE is a configuration of its dataset, where that is read from files.
    task = given.pop("dataset_config_name", "")
    given |= {"task_name": task} if task else {"dataset_name": dataset[0]}
    given |= {"bf16": ""} if job.precision == "bf16" else {}
    assert dataset[1].hub == ("nyu-mll/glue" if task else "rajpurkar/squad")
    command, *published = TEXTS[text]["commands"][number].split(" --")
    script = command.split()[-1]
    assert str(job.script) == f"transformers/examples/pytorch/{SCRIPTS[script]}/{script}"
    expected = {key: value.strip() for key, _space, value in (words.partition(" ") for words in published)}
    expected = {key: value for key, value in expected.items() if key not in SET_BY_COLLECTION} | changed
    owner = HUB.get(expected["model_name_or_path"])
    expected["model_name_or_path"] = "/".join(filter(None, [owner, expected["model_name_or_path"]]))
    if "learning_rate" in expected:
        expected["learning_rate"] = f"{float(expected['learning_rate']):g}"
    assert given == expected


@pytest.mark.parametrize("path", sorted((ROOT / "jobs").glob("*.yml")), ids=lambda path: path.name)
def test_every_shipped_job_is_valid_and_named_for_its_file(path: Path) -> None:
    job = load(path)
    assert job.name == path.stem
    own = ("collectives", "csv", "demo", "embeddings", "lora", "reranker", "sft", "smoke", "training")
    assert job.script.is_absolute() == (path.stem in own)
