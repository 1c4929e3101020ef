"""Directories of results: what is read, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._data import rows
from ansible_collections.amx.cluster.plugins.module_utils._measure.report import facts, sources, tables, tables_of_jobs
from support import report_results


def refused(message: str) -> re.Pattern[str]:
    return re.compile(f"^{re.escape(message)}$")


def test_each_kind_is_found_by_its_file(tmp_path: Path) -> None:
    report_results.write_job(tmp_path / "squad")
    report_results.write_sweep(tmp_path / "squad-scale")
    report_results.write_json(tmp_path / "squad-tune" / "tune.json", report_results.tuning())
    report_results.write_json(tmp_path / "network" / "network.json", report_results.network())
    found = sources.read(sorted(tmp_path.iterdir()))
    assert [source.kind for source in found.all] == ["network", "job", "sweep", "tuning"]
    assert [source.path.name for source in found.of("sweep")] == ["squad-scale"]


def test_a_report_of_nothing() -> None:
    with pytest.raises(ValueError, match=r"^a report of nothing: add -e job=NAME, or -e of=DIRECTORY,"):
        sources.read([])


def test_every_directory_without_results_is_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "sweep.json").write_text('{"runs": [')
    message = (
        f"{tmp_path / 'none'}: there is no such directory\n"
        f"{empty} has no results: none of results.json, sweep.json, tune.json, inference.json, load.json, network.json "
        "is in it\n"
        f"{tmp_path / 'half' / 'sweep.json'} is not JSON: fetch or measure it again"
    )
    with pytest.raises(ValueError, match=refused(message)):
        sources.read([tmp_path / "none", empty, tmp_path / "half"])


@pytest.mark.parametrize("what", ["job", "model", "stack"])
def test_mixed_results_are_refused_by_name(tmp_path: Path, what: str) -> None:
    one = report_results.write_sweep(tmp_path / "one")
    other = report_results.write_sweep(tmp_path / "other", **{what: "another"})
    value = report_results.sweep()[what]
    message = (
        f"these results are of different {what}s and cannot be compared as they are: {value} ({one}); another ({other})"
        ". Make a report of each, or add -e mixed=true"
    )
    with pytest.raises(ValueError, match=refused(message)):
        sources.read([one, other])
    assert len(sources.read([one, other], mixed=True).of("sweep")) == 2


def test_a_network_of_no_job_is_mixed_with_any(tmp_path: Path) -> None:
    report_results.write_json(tmp_path / "network" / "network.json", report_results.network())
    assert len(sources.read([report_results.write_sweep(tmp_path / "one"), tmp_path / "network"]).all) == 2


def test_inference_is_not_compared_with_training(tmp_path: Path) -> None:
    paths = [report_results.write_sweep(tmp_path / "one"), report_results.write_inference(tmp_path / "serve-inference")]
    assert len(sources.read(paths).all) == 2
    paths.append(report_results.write_inference(tmp_path / "other-inference", job="other"))
    with pytest.raises(
        ValueError, match=r"^these results are of different jobs and cannot be compared as they are: serve"
    ):
        sources.read(paths)


def test_two_clusters_are_told_apart_by_their_cpu(tmp_path: Path) -> None:
    one = report_results.write_sweep(tmp_path / "here")
    other = report_results.write_sweep(tmp_path / "there", cpu=report_results.ICE_LAKE)
    assert [source.label for source in sources.read([one, other]).all] == ["Xeon Platinum 8488C", "Xeon Platinum 8375C"]


def test_two_results_of_the_same_cluster_are_told_apart_by_their_directory(tmp_path: Path) -> None:
    paths = [report_results.write_sweep(tmp_path / name / "squad-scale") for name in ("may", "june")]
    paths.append(report_results.write_sweep(tmp_path / "july"))
    labels = [source.label for source in sources.read(paths).all]
    assert len(set(labels)) == 3
    assert all(label.startswith("squad (") for label in labels)


def test_the_results_of_a_job(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"^there are no results of job squad in .*playbooks/results.yml -e job=squad$"
    ):
        sources.of_job("squad", tmp_path)
    report_results.write_job(tmp_path / "squad")
    report_results.write_sweep(tmp_path / "squad-scale")
    report_results.write_json(tmp_path / "network" / "network.json", report_results.network())
    assert [path.name for path in sources.of_job("squad", tmp_path)] == ["squad", "squad-scale"]
    report_results.write_json(tmp_path / "network" / "network.json", report_results.network(job="squad"))
    assert [path.name for path in sources.of_job("squad", tmp_path)] == ["squad", "squad-scale", "network"]
    report_results.write_inference(tmp_path / "squad-inference")
    names = [path.name for path in sources.of_job("squad", tmp_path)]
    assert names == ["squad", "squad-scale", "squad-inference", "network"]


def losses_of(path: Path) -> list[tuple[float | None, float | None, float | None]]:
    (job,) = sources.read([path]).of("job")
    return [(point["step"], point["loss"], point["eval_loss"]) for point in job.losses]


def test_losses_of_the_trainers_state(tmp_path: Path) -> None:
    path = report_results.write_job(tmp_path / "squad")
    expected = {entry["step"]: entry["loss"] for entry in report_results.losses() if "loss" in entry}
    found = losses_of(path)
    assert {step: loss for step, loss, _eval_loss in found} == expected
    assert [step for step, _loss, eval_loss in found if eval_loss is not None] == [100, 200, 300]


def test_losses_of_the_last_checkpoint(tmp_path: Path) -> None:
    path = report_results.write_job(tmp_path / "squad")
    (path / "output" / "trainer_state.json").unlink()
    history = [{"step": 5, "epoch": 0.5, "loss": 2.0}]
    report_results.write_json(path / "output" / "checkpoint-5" / "trainer_state.json", {"log_history": history})
    assert losses_of(path) == [(5, 2.0, None)]


def test_losses_that_the_trainer_printed(tmp_path: Path) -> None:
    path = report_results.write_job(tmp_path / "squad", steps=100, metrics={"epoch": 2.0})
    (path / "output" / "trainer_state.json").unlink()
    lines = [
        "{'eval_before_loss': '0.7', 'epoch': 0}",
        "{'loss': '0.6', 'grad_norm': '0.4', 'epoch': '0.5'}",
        "{'loss': 0.5, 'epoch': 1.0}",
        "{'loss': nonsense, 'epoch': 1.5}",
        "{'loss': '0.4'",
        "a line with loss': in it",
        "{'eval_loss': '0.45', 'epoch': '2'}",
    ]
    (path / "log").write_text("\n".join(lines))
    assert losses_of(path) == [(0, None, 0.7), (25, 0.6, None), (50, 0.5, None), (100, None, 0.45)]


def test_the_runs_of_a_sweep_are_read_where_they_are(tmp_path: Path) -> None:
    path = report_results.write_sweep(tmp_path / "squad-scale")
    report_results.write_job(path / "squad+on-2-r1")
    report_results.write_job(tmp_path / "squad+on-4-r1")
    (sweep,) = sources.read([path]).of("sweep")
    assert sorted(run.path.name for run in sweep.runs) == ["squad+on-2-r1", "squad+on-4-r1"]


def test_the_model_of_a_job_file(tmp_path: Path) -> None:
    path = report_results.write_job(tmp_path / "squad", model=None)
    models = {"bert": {"hub": "google-bert/bert-base-cased", "package": ""}}
    (path / "job.json").write_text(json.dumps({"job": {"models": models}}))
    assert sources.read([path]).all[0].model == "google-bert/bert-base-cased"


def test_what_is_not_finite_is_shown(tmp_path: Path) -> None:
    report_results.write_job(tmp_path / "squad")
    path = tmp_path / "squad/results.json"
    results = json.loads(path.read_text())
    results["metrics"] = {"eval_loss": float("nan"), "eval_before_loss": 0.7}
    path.write_text(json.dumps(results))
    (job,) = sources.read([tmp_path / "squad"]).of("job")
    (row,) = tables_of_jobs.metrics([job]).rows
    assert (row["before"], row["after"]) == (0.7, "nan")
    assert ("nan", "evaluation loss, 0.700 before") in facts._of_job(job, None, False)
    losses = sources._points([{"step": 1, "loss": 0.7}, {"step": 2, "loss": float("nan")}])
    assert [point.get("not_finite") for point in losses] == [None, "nan"]


def test_a_table_as_csv_reads_back_the_same(tmp_path: Path) -> None:
    cells = ["a\rb", "", '"', " x", "\n", "a,b;c", "\ufeff", "\u2028"]
    table = tables.Table("t", "t", tables.named("a", "b"), [{"a": cell, "b": None} for cell in cells])
    (tmp_path / "t.csv").write_bytes(table.csv().encode())
    assert [record.values for record in rows.open_data(tmp_path / "t.csv")] == [{"a": cell, "b": ""} for cell in cells]


def test_an_instruction_set_is_no_cpu() -> None:
    source = sources.Source("job", Path("a"), {"isas": ["amx", "avx512"]})
    assert (source.cpu, source.isa, source.processor) == ("", "amx, avx512", "amx, avx512")
    known = sources.Source("job", Path("a"), {"isas": ["amx"], "cpu": "Intel(R) Xeon(R) Platinum 8480+ CPU @ 2.0GHz"})
    assert known.processor == "Xeon Platinum 8480+"
