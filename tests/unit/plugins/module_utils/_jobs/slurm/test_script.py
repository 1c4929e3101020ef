from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.slurm import script

# As `scontrol show partition short -o` of Slurm 22.05.8 prints it.
SHORT = (
    "PartitionName=short AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=NO QoS=N/A "
    "DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO MaxNodes={nodes} MaxTime=00:05:00 "
    "MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED Nodes=s[0-2] PreemptMode=OFF State=UP TotalCPUs=6 TotalNodes=3"
)


def job(**fields: Any) -> Job:
    return Job(**{"file": Path("/jobs/demo.yml"), "name": "demo", "script": Path("/jobs/train.py"), **fields})


def options(text: str) -> list[str]:
    return [line[8:] for line in text.splitlines() if line.startswith("#SBATCH ")]


def batch(request: dict[str, Any], **fields: Any) -> str:
    return script.batch_script(request, job(**fields), "/shared/amx/jobs/demo", "/shared/amx/env", "/shared/amx/rt")


def test_options_of_whole_nodes() -> None:
    assert options(batch({"partition": "cpu"}, hosts=3)) == [
        "--job-name=demo",
        "--nodes=3",
        "--ntasks-per-node=1",
        "--exclusive",
        "--partition=cpu",
        "--no-requeue",
        "--signal=B:USR2@120",
        "--output=/shared/amx/jobs/demo/supervise.log",
        "--open-mode=append",
    ]


def test_a_directory_with_a_percent_sign_is_no_pattern_of_slurm() -> None:
    assert "--output=/a%%j/supervise.log" in script.batch_script({}, job(), "/a%j", "/env", "/rt")


def test_nodes_are_named_one_by_one() -> None:
    assert script.unnamed(job(hosts=["s0", "s1.example"])) == script.unnamed(job(hosts=2)) == ""
    assert "s[0-1]: name each node" in script.unnamed(job(hosts=["s[0-1]", "s2"]))


def test_options_of_parts_of_named_nodes() -> None:
    request = {"account": "nlp", "qos": "long", "time": "3", "cpus": 8, "extra": ["--mem=16G"]}
    made = options(batch(request, hosts=["s1", "s2"], restarts=2))
    assert made[1:8] == [
        *("--nodes=2", "--nodelist=s1,s2", "--ntasks-per-node=1", "--cpus-per-task=8", "--account=nlp", "--qos=long"),
        "--time=3",
    ]
    assert made[8:11] == ["--mem=16G", "--requeue", "--signal=B:USR2@90"]


def test_memory_is_not_requested_unless_it_is_set() -> None:
    assert "--mem" not in batch({}, hosts=2)


@pytest.mark.slow
@pytest.mark.parametrize(("start", "after", "word"), [("", [], ""), ("a'b", [], "a'b"), ("a", ["27"], "a:27")])
def test_the_script_clears_what_binds_tasks_and_becomes_the_supervisor(
    tmp_path: Path, start: str, after: list[str], word: str
) -> None:
    python = tmp_path / "env/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$$ $*"; env | grep ^SLURM_ | sort\n')
    python.chmod(0o755)
    text = script.batch_script({}, job(), str(tmp_path), str(tmp_path / "env"), "/rt", start)
    set_by_slurm = {
        "SLURM_CPU_BIND": "cores",
        "SLURM_CPU_BIND_TYPE": "mask_cpu:",
        "SLURM_CPUS_PER_TASK": "2",
        "SLURM_TRES_PER_TASK": "cpu:2",
        "SLURM_EXPORT_ENV": "NONE",
        "SLURM_JOB_ID": "7",
    }
    process = subprocess.Popen(
        ["bash", "-c", text, "batch.sh", *after],
        stdout=subprocess.PIPE,
        text=True,
        env={**set_by_slurm, "PATH": "/bin:/usr/bin"},
    )
    first, *rest = process.communicate()[0].splitlines()
    assert process.returncode == 0
    assert first == f"{process.pid} -S /rt allocation {tmp_path} {word}"
    assert rest == ["SLURM_EXPORT_ENV=ALL", "SLURM_JOB_ID=7"]


# What sbatch of Slurm 22.05.8 prints.
REFUSALS = [
    (
        "sbatch: error: invalid partition specified: nope\nallocation failure: Invalid partition name specified\n",
        "cluster_slurm.partition: Slurm does not accept job demo: invalid partition specified: nope; Invalid partition "
        "name specified",
    ),
    (
        "allocation failure: Requested time limit is invalid (missing or exceeds some limit)\n",
        "cluster_slurm.time: Slurm does not accept job demo: Requested time limit is invalid (missing or exceeds some "
        "limit)",
    ),
    (
        "allocation failure: More processors requested than permitted\n",
        "hosts in /jobs/demo.yml: Slurm does not accept job demo: More processors requested than permitted",
    ),
    (
        "allocation failure: Invalid node name specified\n",
        "hosts in /jobs/demo.yml: Slurm does not accept job demo: Invalid node name specified",
    ),
    (
        "allocation failure: Requested node configuration is not available\n",
        "hosts in /jobs/demo.yml: Slurm does not accept job demo: Requested node configuration is not available",
    ),
    (
        "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified\n",
        "cluster_slurm.account: Slurm does not accept job demo: Batch job submission failed: Invalid account or "
        "account/partition combination specified",
    ),
    ("", "cluster_slurm: Slurm does not accept job demo: sbatch gave no reason"),
]


@pytest.mark.parametrize(("output", "message"), REFUSALS)
def test_refusals_of_slurm(output: str, message: str) -> None:
    assert script.refusal(output, job()) == message


def test_a_refusal_names_the_job_file_if_that_sets_the_field() -> None:
    assert script.field_of("Invalid partition name specified", job(slurm={"partition": "cpu"})) == (
        "slurm.partition in /jobs/demo.yml"
    )


def test_all_fields_are_named_that_a_sentence_may_be_about() -> None:
    assert script.field_of("More processors requested than permitted", job(slurm={"cpus": 64})) == (
        "hosts or slurm.cpus in /jobs/demo.yml"
    )
    assert script.field_of("Requested node configuration is not available", job(slurm={"extra": ["--mem=9T"]})) == (
        "hosts or slurm.extra in /jobs/demo.yml"
    )


def test_limits_of_a_partition_that_slurm_does_not_enforce() -> None:
    message = script.over_limit({"time": "1:00:00"}, job(), SHORT.format(nodes="UNLIMITED"))
    assert message == (
        "cluster_slurm.time: 1:00:00 is over the limit of partition short, 00:05:00: the job would never start"
    )
    assert script.over_limit({"time": "5"}, job(), SHORT.format(nodes="UNLIMITED")) == ""
    assert script.over_limit({}, job(hosts=3), SHORT.format(nodes="2")) == (
        "hosts in /jobs/demo.yml: partition short gives a job 2 nodes at most"
    )
    assert script.over_limit({"time": "1:00:00"}, job(), "") == ""


def test_the_expected_start() -> None:
    year = 2026
    line = f"sbatch: Job 6 to start at {year}-11-28T02:54:43 using 3 processors on nodes s[0-2] in partition main\n"
    expected = "to start at 2026-11-28T02:54:43 using 3 processors on nodes s[0-2] in partition main"
    assert script.estimate(line) == expected
    # Behind a job without a time limit.
    assert script.estimate(line.replace(str(year), "3387")) == ""
    assert script.summary({"partition": "main", "cpus": 1}, job(hosts=3), expected) == (
        "Slurm: job demo on 3 nodes, 1 CPU of each, partition main\n"
        f"  submitted now, it is expected {expected}\n"
        "  which core does what is planned in the allocation, from the CPUs that Slurm gives"
    )
