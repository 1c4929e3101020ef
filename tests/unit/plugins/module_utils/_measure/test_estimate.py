# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._measure import estimate
from ansible_collections.amx.cluster.plugins.module_utils._measure.estimate import Estimate
from ansible_collections.amx.cluster.plugins.module_utils._measure.sweep_request import Run
from support import runs

HOSTS = ["node0", "node1"]
LINKS = {"node0": 25000, "node1": 10000}
MB = 1_000_000
TRAINING = {"epochs": 3.0, "samples": 1000, "parameters": 25 * MB, "gradient_bytes": 100 * MB, "embedding_bytes": 0}
PAIR = {"hosts": HOSTS, "bandwidth_mbyte_s": 1175.0}
NETWORK = {"hosts": [{"host": name} for name in HOSTS], "ended": "2026-11-20T13:00:00+00:00", "pairs": [PAIR]}


def row(size: int, milliseconds: float, **changes: Any) -> dict[str, Any]:
    made = {"tool": "torch", "backend": "mpi", "operation": "all_reduce", "ranks": 2, "bytes": size}
    return {**made, "microseconds": 1000 * milliseconds, **changes}


ALL_REDUCES = {**NETWORK, "collectives": [row(1 << 20, 10), row(100 << 20, 1000), row(1 << 20, 1, backend="gloo")]}


def tried(training: dict[str, Any] | None = None, **plan: Any) -> dict[str, Any]:
    """A run of one rank, whose steps take 1 s."""
    rank = {"rank": 0, "host": "node0", "compute": 0.9, "communication": 0.0, "input": 0.06, "other": 0.04}
    measured = {"steps": 5, "samples_per_step": 10, "step_seconds": {"mean": 1.0}, "samples_per_second": 10.0}
    host = {"host": "node0", "threads_per_rank": 2, "ranks": [{"rank": 0, "comm_cpus": []}]}
    return {
        "job": "demo+estimate",
        "state": "succeeded",
        "plan": {"backend": "mpi", "precision": "fp32", "hosts": [host], **plan},
        "progress": {"samples_per_step": 10, "training": {**TRAINING, **(training or {})}},
        "outcome": {"measured": {**measured, "ranks": [rank]}, "seconds": 20.0},
    }


def estimated(
    training: dict[str, Any] | None = None,
    network: dict[str, Any] | None = None,
    links: dict[str, Any] | None = None,
    most: int = 2,
    plan: dict[str, Any] | None = None,
    **job: Any,
) -> Estimate:
    links = LINKS if links is None else links
    content = Estimate(1, "demo", 2, 5, 5, "", Run("demo+estimate", 1, HOSTS[:1], 1, None), links)
    own = runs.run(kind="trainer", **job).job
    return estimate.estimated(content, own, tried(training, **(plan or {})), network or {}, HOSTS, most)


def step(**request: Any) -> float:
    """Return the seconds of a step on two hosts."""
    return estimated(**request).rows[1].step_seconds


def test_what_an_epoch_and_the_job_take() -> None:
    rows = estimated(most=5).rows
    assert [(row.hosts, row.ranks, row.global_batch, row.steps_per_epoch, row.steps) for row in rows] == [
        (1, 1, 10, 100, 300),
        (2, 2, 20, 50, 150),
        (4, 4, 40, 25, 75),
        (5, 5, 50, 20, 60),
    ]
    assert (rows[0].step_seconds, rows[0].exchange_seconds, rows[0].epoch_seconds) == (1.0, 0.0, 100.0)
    for row in rows:
        assert row.job_seconds == pytest.approx(3 * (row.epoch_seconds or 0))
        assert row.step_seconds == pytest.approx(1.0 + row.exchange_seconds)


def test_a_global_batch_stays_and_ranks_compute_less() -> None:
    args = {"per_device_train_batch_size": 10, "num_train_epochs": 3}
    rows = estimated(most=5, global_batch=10, network=ALL_REDUCES, args=args).rows
    assert [(row.hosts, row.global_batch, row.steps) for row in rows] == [(1, 10, 300), (2, 10, 300), (5, 10, 300)]
    for row in rows:
        assert row.step_seconds == pytest.approx(1 / row.hosts + row.exchange_seconds)


def test_max_steps_are_those_of_the_job() -> None:
    rows = estimated(args={"max_steps": 70, "num_train_epochs": 3}).rows
    assert [row.steps for row in rows] == [70, 70]
    assert rows[0].job_seconds == 70.0


@pytest.mark.parametrize(
    ("network", "links", "source", "text"),
    [
        (
            ALL_REDUCES,
            LINKS,
            "all_reduce",
            "all_reduce with mpi as measured by playbooks/network.yml between node0, node1",
        ),
        (NETWORK, LINKS, "pairs", "9.4 Gbit/s as measured by playbooks/network.yml between node0, node1 on 2026-11-20"),
        ({**NETWORK, "hosts": [{"host": "other"}]}, LINKS, "link", "10 Gbit/s, the nominal speed of the slowest link"),
        ({}, LINKS, "link", "10 Gbit/s, the nominal speed of the slowest link, which was not measured"),
        ({}, {"node0": None, "node1": None}, "unknown", "its speed is not known"),
    ],
)
def test_the_best_figures_of_the_network_are_taken(
    network: dict[str, Any], links: dict[str, Any], source: str, text: str
) -> None:
    found = estimated(network=network, links=links)
    assert found.network is not None
    assert (found.network.source, found.network.text[: len(text)]) == (source, text)
    assert len(found.rows) == (1 if source == "unknown" else 2)


def test_all_reduce_of_other_ranks_is_not_taken() -> None:
    """Two ranks of a host share its link: pairs of hosts tell more."""
    two = {"host": "node0", "threads_per_rank": 2, "ranks": [{"rank": 0}, {"rank": 1}]}
    found = estimated(network=ALL_REDUCES, plan={"hosts": [two]})
    assert found.network is not None
    assert found.network.source == "pairs"


def test_what_does_not_overlap_is_added() -> None:
    """Each MiB takes 10 ms. From the second bucket on, 94 of 95 MiB follow one another; it begins after 26 of them."""
    backward = 0.6
    assert step(network=ALL_REDUCES) == pytest.approx(1.0 - backward + backward * 26 / 95 + 0.94, rel=0.02)
    # Embeddings are complete at the end, and share their bucket with the last 12 MiB of the layers.
    late = {"embedding_bytes": 60 * MB}
    waited = backward * 26 / 38 + 0.25 - backward
    assert step(network=ALL_REDUCES, training=late) == pytest.approx(1.0 + waited + 0.69, rel=0.02)


def test_adapters_alone_travel() -> None:
    """LoRA trains a hundredth of the weights."""
    assert step(training={"gradient_bytes": MB, "parameters": MB // 4}) < 1.01 < 1.03 < step()


def test_untouched_rows_of_an_embedding_do_not_travel_with_mpi() -> None:
    late = {"embedding_bytes": 60 * MB}
    some, most = ({**late, "touched": share} for share in (0.1, 0.4))
    # 0.19 of it for two hosts; 0.64 is too much.
    assert step(training=some) < step(training=most) == step(training=late)
    gloo = {"plan": {"backend": "gloo"}}
    assert step(training=some, **gloo) == step(training=late, **gloo)


@pytest.mark.parametrize(
    ("fields", "precision", "factor"),
    [
        ({}, "bf16", 1.0),
        ({"gradient_compression": "bf16"}, "fp32", 0.5),
        # docs/sharding.md: 8 and 12 bytes are sent for each parameter, where all_reduce of its gradient sends 8.
        ({"sharding": "optimizer"}, "fp32", 1.0),
        ({"sharding": "full"}, "fp32", 1.5),
        ({"sharding": "full"}, "bf16", 1.0),
    ],
)
def test_bytes_that_are_sent(fields: dict[str, Any], precision: str, factor: float) -> None:
    assert estimate.bytes_factor(runs.run(kind="trainer", **fields).job, precision) == factor


def test_steps_that_accumulate_exchange_once() -> None:
    """Of 4 batches the last one alone hides the exchange."""
    assert step(network=ALL_REDUCES, args={"gradient_accumulation_steps": 4}) > step(network=ALL_REDUCES) + 0.3


def test_the_text() -> None:
    content = estimated(network=NETWORK)
    shown = " ".join(estimate.text(content, "results/demo-estimate/estimate.json").split())
    seconds = content.rows[1].step_seconds
    assert shown.startswith(
        f"Job demo on 2 hosts: an epoch takes about {50 * seconds:.0f} s, the job (3 epochs) about "
        f"{150 * seconds // 60:.0f} min {150 * seconds % 60:.0f} s, computed from 5 measured steps on node0 (1 s each)."
    )
    assert "Network: 9.4 Gbit/s as measured by playbooks/network.yml between node0, node1 on 2026-11-20." in shown
    assert "Exchanged: gradients of 25 million trained parameters, 100 MB." in shown
    assert "job (70 steps) about" in estimate.text(estimated(args={"max_steps": 70}), "")


def test_what_is_not_known() -> None:
    content = estimated({"samples": None}, prepare=None)
    assert (content.rows[0].epoch_seconds, content.rows[0].job_seconds) == (None, None)
    assert content.notes[-1] == "How long an epoch takes is not known: the dataset has no length."
    assert "Job demo on 2 hosts: a step takes about" in estimate.text(content, "")
    alone = estimated({"gradient_bytes": None})
    assert [row.hosts for row in alone.rows] == [1]
    assert "the number of parameters is not known" in alone.notes[0]
    apart = estimated(links={})
    assert "the speed of the network is not known: playbooks/network.yml -e job=" in apart.notes[0]
