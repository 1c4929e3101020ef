from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import batches, derive
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._measure import sweep_request
from ansible_collections.amx.cluster.plugins.module_utils._measure.sweep_request import Request
from hypothesis import given
from hypothesis import strategies as st
from support.runs import run

JOB = run(args={"per_device_train_batch_size": 16, "gradient_accumulation_steps": 2}).job
TORCH = replace(JOB, kind="torch")
HOSTS = [f"node{number}" for number in range(5)]
OPTIONS = {**sweep_request.OPTIONS, "repeats": "2", "steps": 20, "warmup_steps": "5"}


def request(job: Job = JOB, **options: Any) -> Request:
    return sweep_request.read({**OPTIONS, **options}, job, HOSTS)


@given(st.integers(min_value=1, max_value=800))
def test_counts_are_doubled_up_to_all_hosts(most: int) -> None:
    counts = sweep_request.default_counts(most)
    assert counts[0] == 1
    assert counts[-1] == most
    assert counts == sorted(set(counts))
    assert all(after <= 2 * before for before, after in zip(counts, counts[1:]))


@pytest.mark.parametrize(
    ("given", "counts"),
    [([], [1, 2, 4, 5]), ("", [1, 2, 4, 5]), ("4,1", [1, 4]), ("[1, 3]", [1, 3]), ([5, 1, 1], [1, 5]), (3, [3])],
)
def test_counts(given: object, counts: list[int]) -> None:
    assert request(counts=given).counts == counts


def test_everything_that_is_wrong_is_said_at_once() -> None:
    wrong: dict[str, Any] = {"counts": "1,9", "repeats": 0, "steps": "many", "warmup_steps": -1, "scaling": "strung"}
    with pytest.raises(ValueError) as caught:
        request(**wrong)
    assert str(caught.value).splitlines() == [
        "job demo cannot be scaled, nothing was started:",
        "repeats: 0 is not a whole number of at least 1",
        "steps: many is not a whole number of at least 1",
        "warmup_steps: -1 is not a whole number of at least 0",
        "counts: 9 hosts are requested and the inventory has 5 (node0, node1, node2, node3, node4): leave it out, "
        "or add workers",
        "scaling: 'strung' is not one of strong, weak",
    ]


@pytest.mark.parametrize("counts", [{"one": 1}, [True], [1.5], "1,two", [0]])
def test_what_is_no_count(counts: object) -> None:
    with pytest.raises(ValueError, match="counts: "):
        request(counts=counts)


def test_hosts_that_a_job_names() -> None:
    named = replace(JOB, hosts=["node3", "node1"])
    with pytest.raises(ValueError, match="counts: 3 hosts are requested and job demo names 2"):
        sweep_request.read({**OPTIONS, "counts": [3]}, named, ["node3", "node1"])


def test_jobs_that_cannot_be_scaled() -> None:
    with pytest.raises(ValueError, match="of kind ranks: its ranks do not train together, there is nothing to scale"):
        request(replace(JOB, kind="ranks"))
    with pytest.raises(ValueError, match=r"a name of a derived job: .*; set a shorter name in /somewhere/demo.yml"):
        request(replace(JOB, name="x" * 56))


def test_a_constant_global_batch() -> None:
    asked = request(constant_global_batch=True, counts="1,2,4")
    sizes = {}
    for each in sweep_request.runs(JOB, HOSTS, asked)[:4]:
        made = derive.trial(JOB, **sweep_request.trial(JOB, asked, each, ranks_per_node=3))
        ranks = 1 if each.baseline else 3 * each.hosts
        args = {"per_device_train_batch_size": 16, **made.args}
        sizes[each.job] = (
            ranks * args["per_device_train_batch_size"] * args["gradient_accumulation_steps"],
            args["per_device_train_batch_size"] <= 16,
        )
    assert set(sizes.values()) == {(3 * 32, True)}, sizes


def test_a_job_with_a_global_batch_keeps_it() -> None:
    job = replace(JOB, args={}, global_batch=32)
    asked = request(job, counts="1,2,4")
    assert asked.constant_global_batch
    for each in sweep_request.runs(job, HOSTS, asked):
        made = derive.trial(job, **sweep_request.trial(job, asked, each, ranks_per_node=2))
        assert made.global_batch == 32 and not set(made.args) & {batches.ACCUMULATION, batches.PER_DEVICE}
    for options in ({"counts": [1, 3]}, {"scaling": "weak"}):
        with pytest.raises(ValueError, match=r"global_batch: (32 samples cannot be divided|is for strong)"):
            request(job, **options)


@pytest.mark.parametrize(
    ("job", "options", "said"),
    [
        (JOB, {"counts": [1, 3, 5]}, "the 32 samples of a rank's step on one host cannot be divided among 3, 5 hosts"),
        (JOB, {"scaling": "weak"}, "is for strong scaling"),
        (TORCH, {}, "needs the Trainer's arguments, and kind of job demo is torch"),
        (replace(JOB, args={}), {}, "/somewhere/demo.yml has no per_device_train_batch_size in args: set it"),
    ],
)
def test_a_constant_global_batch_that_cannot_be(job: Job, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        request(job, constant_global_batch=True, **options)


@pytest.mark.parametrize(
    ("job", "seeds"),
    [
        (JOB, [{}, {"seed": 43}, {"seed": 44}]),
        (
            replace(JOB, args={**JOB.args, "seed": 7, "data_seed": 1}),
            [{}, *({"seed": 7 + n, "data_seed": 1 + n} for n in (1, 2))],
        ),
        (TORCH, [{}, {}, {}]),
    ],
)
def test_each_repeat_of_a_trainer_has_other_batches(job: Job, seeds: list[dict[str, int]]) -> None:
    asked = request(job, counts=[2], repeats=3)
    made = [
        sweep_request.trial(job, asked, each, 1) for each in sweep_request.runs(job, HOSTS, asked) if not each.baseline
    ]
    assert [each["fields"].get("args", {}) for each in made] == seeds


def test_the_baseline_of_one_process_reserves_no_cores() -> None:
    job = replace(JOB, ranks_per_node=2, comm_cores=1, reserved_cores=6)
    (baseline,) = [each for each in sweep_request.runs(job, HOSTS, request(job, repeats=1)) if each.baseline]
    made = derive.trial(job, **sweep_request.trial(job, request(job), baseline, ranks_per_node=2))
    assert (made.ranks_per_node, made.comm_cores, made.reserved_cores) == (1, 0, 0)


def test_the_order_of_runs_alternates() -> None:
    names = [each.job for each in sweep_request.runs(JOB, HOSTS, request(counts="1,3"))]
    assert names == [
        *("demo+one-process-r1", "demo+on-1-r1", "demo+on-3-r1"),
        *("demo+on-3-r2", "demo+on-1-r2", "demo+one-process-r2"),
    ]
    # A script that decides itself how long it runs begins on all hosts: that is its sanity run.
    assert sweep_request.runs(TORCH, HOSTS, request(TORCH, counts="1,3"))[0].job == "demo+on-3-r1"
    assert sweep_request.sanity(TORCH, HOSTS, request(TORCH)) is None


@pytest.mark.slow
@given(st.sets(st.integers(min_value=1, max_value=5), min_size=1), st.integers(min_value=1, max_value=5))
def test_every_count_is_run_as_often_and_on_the_first_hosts(counts: set[int], repeats: int) -> None:
    asked = request(counts=sorted(counts), repeats=repeats)
    made = sweep_request.runs(JOB, HOSTS, asked)
    assert len({each.job for each in made}) == len(made) == repeats * (len(counts) + 1)
    for each in made:
        assert each.names == HOSTS[: each.hosts]
        assert each.state == "pending"
    # Counted from the start, no count is always before another one.
    if len(counts) > 1 and repeats > 1:
        orders = [[each.hosts for each in made if each.repeat == repeat] for repeat in (1, 2)]
        assert orders[0] == orders[1][::-1]


def test_trials() -> None:
    asked = request()
    sanity = sweep_request.sanity(JOB, HOSTS, asked)
    assert sanity
    assert sweep_request.trial(JOB, asked, sanity, 1) == {
        "suffix": "sanity",
        "steps": 2,
        "warmup_steps": 0,
        "measure": False,
        "fields": {"hosts": HOSTS},
    }
    alone = sweep_request.runs(JOB, HOSTS, asked)[0]
    made = derive.trial(JOB, **sweep_request.trial(JOB, asked, alone, 1))
    assert (made.name, made.hosts, made.ranks_per_node, made.comm_cores) == (
        "demo+one-process-r1",
        ["node0"],
        1,
        0,
    )
    assert made.args["max_steps"] == 25
