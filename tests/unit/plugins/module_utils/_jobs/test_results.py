from __future__ import annotations

from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import results

RESULTS: dict[str, Any] = {
    "job": "demo",
    "state": "succeeded",
    "reason": "",
    "hosts": 2,
    "ranks": 4,
    "threads_per_rank": [7, 7],
    "precision": "bf16",
    "seconds": 61.25,
    "output": "/opt/amx-cluster/jobs/demo/output",
    "metrics": {
        "train_runtime": 40.04,
        "train_samples_per_second": 112.46,
        "eval_before_accuracy": 0.5,
        "eval_accuracy": 0.81234,
        "eval_before_loss": 0.7,
        "eval_before_runtime": 1.0,
        "eval_runtime": 1.0,
        "eval_before_f1": 0.4,
    },
}


def test_the_instruction_sets_of_bf16() -> None:
    shown = dict(results.rows({**RESULTS, "isas": ["amx", "avx512_bf16"]}))
    assert shown["precision"] == "bf16 (amx, avx512_bf16)"
    assert dict(results.rows({**RESULTS, "isas": ["amx"], "precision": "fp32"}))["precision"] == "fp32"


def test_table_of_a_success() -> None:
    assert results.table(RESULTS) == "\n".join(
        [
            "-" * 62,
            "job                          demo",
            "state                        succeeded",
            "hosts                        2",
            "ranks                        4",
            "threads per rank             7",
            "precision                    bf16",
            "seconds, training            40.0",
            "seconds, in all              61.2",
            "samples/s, training          112.5",
            "accuracy, before and after   0.500 -> 0.812",
            "artefacts                    /opt/amx-cluster/jobs/demo/output",
            "-" * 62,
        ]
    )


def test_a_script_that_evaluates_only_in_the_end() -> None:
    metrics = {"train_loss": 1.25, "eval_f1": 85.21, "eval_exact_match": 77, "eval_samples_per_second": 3.0, "epoch": 1}
    assert results.rows({**RESULTS, "metrics": metrics})[-4:-1] == [
        ("loss, training", "1.250"),
        ("exact_match", "77.000"),
        ("f1", "85.210"),
    ]


def test_speed_of_a_run_that_went_on_from_a_checkpoint() -> None:
    # transformers 5.23 divides the samples of all 80 steps by the seconds of the last 20.
    rows = dict(results.rows({**RESULTS, "steps": 80, "resumed_step": 60}))
    assert rows["seconds, training, since step 60"] == "40.0"
    assert rows["samples/s, training, since step 60"] == "28.1"
    assert "samples/s, training" not in rows


def test_what_was_not_reported_is_left_out() -> None:
    failed = {**RESULTS, "state": "failed", "reason": "mpirun ended", "metrics": {}, "threads_per_rank": [8, 7, 8]}
    assert results.rows(failed) == [
        ("state", "failed: mpirun ended"),
        ("hosts", "2"),
        ("ranks", "4"),
        ("threads per rank", "7, 8"),
        ("precision", "bf16"),
        ("seconds, in all", "61.2"),
        ("artefacts", "/opt/amx-cluster/jobs/demo/output"),
    ]


def test_a_metric_that_is_no_number_is_left_out() -> None:
    metrics = {"eval_before_label": "a", "eval_label": "b", "train_runtime": None}
    names = [name for name, _value in results.rows({**RESULTS, "metrics": metrics})]
    assert "label, before and after" not in names
    assert "seconds, training" not in names


def test_the_kinds_of_operations_are_below_the_table() -> None:
    hosts = [{"host": "node0", "rank": 0, "isa": "amx", "kinds": {"products": 0.75, "other": 0.25}, "operations": []}]
    profile = {"steps": 5, "seconds_of_a_step": 1.0, "hosts": hosts}
    lines = results.table({**RESULTS, "measured": {"profile": profile}}).splitlines()
    above = results.table({**RESULTS, "measured": None}).splitlines()
    assert lines[: len(above)] == above
    assert lines[len(above) + 1 :] == [
        "kind of operation  node0",
        "products           75.0 %",
        "other              25.0 %",
        "-" * 62,
    ]
