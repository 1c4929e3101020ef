"""Figures and tables of inference hold the data of inference.json, and what is not measured has its reason there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._measure.report import tables
from matplotlib.container import BarContainer
from support import report_results
from support.report_results import figure, report

pytestmark = pytest.mark.slow


def most(content: dict[str, Any], model: str, precision: str, way: str | None = None) -> dict[str, Any]:
    """The cell with the most throughput, as inference.json has it."""
    there = [
        cell
        for cell in content["cells"]
        if (cell["model"], cell["precision"], cell["int8"]) == (model, precision, way) and cell["throughput"]
    ]
    found: dict[str, Any] = max(there, key=lambda cell: float(cell["throughput"]["value"]))
    return found


def bars(axes: Any) -> list[BarContainer]:
    return [one for one in axes.containers if isinstance(one, BarContainer)]


def test_a_bar_with_its_confidence_interval_for_each_model_and_precision(tmp_path: Path) -> None:
    made = report(report_results.write_inference(tmp_path / "serve-inference"))
    content = report_results.inference()
    drawn = figure(made, "inference_throughput")
    assert [axes.get_title(loc="left") for axes in drawn.figure.axes] == list(report_results.MODELS)
    for axes, model in zip(drawn.figure.axes, report_results.MODELS):
        ways = [("fp32", None), ("bf16", None), ("int8", "dynamic")]
        ways += [("int8", "static")] if model == "distilbert" else []
        given = [most(content, model, *way)["throughput"] for way in ways]
        (one,) = bars(axes)
        assert [bar.get_width() for bar in one] == pytest.approx([cell["value"] for cell in given])
        assert one.errorbar is not None
        ends = [x for segment in one.errorbar.lines[2][0].get_segments() for x in sorted(x for x, _y in segment)]
        assert ends == pytest.approx([cell[end] for cell in given for end in ("low", "high")])
        said = [text.get_text() for text in axes.texts]
        assert any(text.endswith(" (2.60\N{MULTIPLICATION SIGN})") for text in said), "bf16 over fp32"
        assert (" refused" in said) == (model != "distilbert")
    assert "distilbert, bf16: " in drawn.alt
    assert "2.60\N{MULTIPLICATION SIGN} fp32" in drawn.alt


def test_bars_do_not_hide_each_other_with_two_clusters(tmp_path: Path) -> None:
    made = report(
        report_results.write_inference(tmp_path / "spr"),
        report_results.write_inference(tmp_path / "icx", cpu=report_results.ICE_LAKE),
    )
    drawn = figure(made, "inference_throughput")
    axes = drawn.figure.axes[0]
    one, other = bars(axes)
    assert [one.get_label(), other.get_label()] == ["Xeon Platinum 8488C", "Xeon Platinum 8375C"]
    assert (len(one), len(other)) == (4, 3), "Ice Lake refuses bf16"
    spans = sorted((bar.get_y(), bar.get_y() + bar.get_height()) for each in (one, other) for bar in each)
    assert all(before[1] <= after[0] for before, after in zip(spans, spans[1:]))
    given = report_results.inference(report_results.ICE_LAKE)
    assert other[0].get_width() == pytest.approx(most(given, "distilbert", "fp32")["throughput"]["value"])
    lines = [line.get_label() for line in figure(made, "inference_latency_1").figure.axes[0].lines]
    assert "_Xeon Platinum 8488C, bf16" in lines
    assert "_Xeon Platinum 8375C, fp32" in lines
    assert "_Xeon Platinum 8375C, bf16" not in lines
    assert made.verdict.measured == (
        "Job serve, distilbert, resnet-50, llama-1b, stack native, Xeon Platinum 8488C and Xeon Platinum 8375C."
    )
    assert len(made.verdict.sentences) == 2


@pytest.mark.parametrize("place", [1, 2, 3])
def test_latency_against_throughput_as_instances_grow(tmp_path: Path, place: int) -> None:
    made = report(report_results.write_inference(tmp_path / "serve-inference"))
    model = list(report_results.MODELS)[place - 1]
    drawn = figure(made, f"inference_latency_{place}")
    (axes,) = drawn.figure.axes
    best = most(report_results.inference(), model, "bf16")
    given = [
        cell
        for cell in report_results.inference()["cells"]
        if (cell["model"], cell["precision"], cell["batch_size"]) == (model, "bf16", best["batch_size"])
    ]
    assert [cell["instances_per_node"] for cell in given] == list(report_results.INSTANCES)
    lines = list(axes.lines)
    (p99,) = [place for place, line in enumerate(lines) if line.get_label() == "bf16"]
    for line, name in ((lines[p99], "p99"), (lines[p99 + 1], "p50")):
        assert list(line.get_xdata()) == pytest.approx([cell["throughput"]["value"] for cell in given])
        assert list(line.get_ydata()) == pytest.approx([cell["latency_ms"][name] for cell in given])
    assert {text.get_text() for text in axes.texts} == {"1", "2", "4", "8"}
    assert drawn.alt.startswith(f"{model}. ")
    assert all(row["model"] == model for row in drawn.table.rows)


def test_open_loop_latency_against_rate(tmp_path: Path) -> None:
    made = report(report_results.write_inference(tmp_path / "serve-inference"))
    (axes,) = figure(made, "inference_open_loop").figure.axes
    (given,) = [
        cell["open_loop"]
        for cell in report_results.inference()["cells"]
        if cell["open_loop"] and (cell["precision"], cell["int8"]) == ("int8", "static")
    ]
    (line,) = [line for line in axes.lines if line.get_label() == "int8 static"]
    assert list(line.get_xdata()) == pytest.approx([one["rate"] for one in given])
    assert list(line.get_ydata()) == pytest.approx([one["latency_ms"]["p99"] for one in given])
    rows = [row for row in made.tables["inference_open_loop"].rows if row["precision"] == "int8 static"]
    assert [row["achieved"] for row in rows] == pytest.approx([one["throughput"] for one in given])


def test_a_limit_of_the_latency(tmp_path: Path) -> None:
    limit = 60.0
    made = report(report_results.write_inference(tmp_path / "serve-inference", limit=limit))
    content = report_results.inference(limit=limit)
    rows = {(row["model"], row["precision"]): row for row in made.tables["inference_throughput"].rows}
    fastest = rows["distilbert", "bf16"]
    assert fastest["p99_ms"] <= limit
    assert fastest["samples_per_second"] < most(content, "distilbert", "bf16")["throughput"]["value"]
    assert rows["llama-1b", "fp32"]["within_limit"] is False
    llama = figure(made, "inference_throughput").figure.axes[2]
    assert {bar.get_alpha() for bar in bars(llama)[0]} == {0.35}, "no setting keeps the limit"
    assert {bar.get_alpha() for bar in bars(figure(made, "inference_throughput").figure.axes[0])[0]} == {None}
    (line,) = [
        line for line in figure(made, "inference_latency_1").figure.axes[0].lines if line.get_label() == "limit of p99"
    ]
    assert list(line.get_ydata()) == [limit, limit]
    assert "llama-1b" not in [row["model"] for row in made.tables["inference_recommended"].rows]


def test_settings_are_compared_at_the_longest_texts(tmp_path: Path) -> None:
    content = report_results.inference()
    for place, cell in enumerate(content["cells"]):
        if cell["precision"] == "bf16" and cell["sequence_length"] and place % 2:
            cell["sequence_length"] = 16
            cell["throughput"] = {"value": 1e6, "low": None, "high": None}
    report_results.write_json(tmp_path / "inference.json", content)
    made = report(tmp_path)
    assert all((row["samples_per_second"] or 0) < 1e6 for row in made.tables["inference_throughput"].rows)
    assert {row["sequence_length"] for row in figure(made, "inference_latency_1").table.rows} == {128}
    assert len(made.tables["inference"].rows) == len(content["cells"])


def test_the_recommended_setting(tmp_path: Path) -> None:
    made = report(report_results.write_inference(tmp_path / "serve-inference"))
    content = report_results.inference()
    rows = {row["model"]: row for row in made.tables["inference_recommended"].rows}
    for model, given in content["recommended"].items():
        assert rows[model]["samples_per_second"] == pytest.approx(given["throughput"]["value"])
        assert rows[model]["p99_ms"] == pytest.approx(given["p99_ms"])
        assert {key: rows[model][key] for key in ("batch_size", "instances_per_node", "threads_per_instance")} == {
            key: given["settings"][key] for key in ("batch_size", "instances_per_node", "threads_per_instance")
        }
    assert made.verdict.unit == "samples/s, distilbert in int8 static on 2 hosts"
    assert made.verdict.number == tables.figure(content["recommended"]["distilbert"]["throughput"]["value"])
    assert "17 of 96 cells were not measured." in made.verdict.sentences[0]
    assert ("2.60\N{MULTIPLICATION SIGN}", "bf16 over fp32, distilbert") in made.verdict.facts


def test_agreement_with_fp32_is_the_least_of_the_cells(tmp_path: Path) -> None:
    content = report_results.inference()
    cell = next(one for one in content["cells"] if one["precision"] == "bf16")
    cell["agreement"].update(equal=0.7, largest_difference=0.001)
    report_results.write_json(tmp_path / "inference.json", content)
    made = report(tmp_path)
    rows = {(row["model"], row["precision"]): row for row in made.tables["inference_agreement"].rows}
    assert rows["distilbert", "bf16"]["equal"] == 0.7
    assert rows["distilbert", "bf16"]["largest_difference"] == pytest.approx(3.1 * 0.002)
    assert rows["resnet-50", "bf16"]["equal"] == 0.998
    assert '<td class="n">70 %</td>' in made.html()


@pytest.mark.parametrize(
    ("value", "expected"), [(1, "100 %"), (0.99999, "99.99 %"), (0.9995, "99.95 %"), (0.5, "50 %"), (0, "0 %")]
)
def test_only_all_of_it_is_100_percent(value: float, expected: str) -> None:
    assert tables.shown(value, "share") == expected


def test_cells_that_were_not_measured_have_their_reasons(tmp_path: Path) -> None:
    made = report(report_results.write_inference(tmp_path / "icx", cpu=report_results.ICE_LAKE))
    rows = made.tables["inference_not_measured"].rows
    lost = [cell for cell in report_results.inference(report_results.ICE_LAKE)["cells"] if cell["state"] != "measured"]
    assert sum(row["cells"] for row in rows) == len(lost)
    assert {row["reason"] for row in rows} == {cell["reason"] for cell in lost}
    text = made.html()
    assert report_results.NO_BF16 in text
    assert "rank 7 on node1 was killed" in text
    states = {(row["model"], row["precision"]): row["state"] for row in made.tables["inference_throughput"].rows}
    assert states["distilbert", "bf16"] == "refused"


def test_prefill_and_tokens_apart(tmp_path: Path) -> None:
    made = report(report_results.write_inference(tmp_path / "serve-inference"))
    given = [cell for cell in report_results.inference()["cells"] if cell["generation"]]
    rows = made.tables["inference_generation"].rows
    assert [row["cell"] for row in rows] == [cell["id"] for cell in given]
    assert rows[0]["prefill_p99_ms"] == given[0]["generation"]["prefill_ms"]["p99"]
    assert rows[0]["per_token_p50_ms"] == given[0]["generation"]["per_token_ms"]["p50"]
    assert rows[0]["tokens_per_second"] == given[0]["generation"]["tokens_per_second"]


def test_emulation_is_said(tmp_path: Path) -> None:
    content = report_results.inference()
    for cell in content["cells"]:
        cell["emulated"] = cell["precision"] == "bf16"
    report_results.write_json(tmp_path / "inference.json", content)
    assert "bf16, emulated" in {row["precision"] for row in report(tmp_path).tables["inference_throughput"].rows}


def test_nothing_was_measured(tmp_path: Path) -> None:
    content = report_results.inference(state="incomplete", recommended={})
    for cell in content["cells"]:
        cell.update(
            state="failed", throughput=None, latency_ms=None, reason="out of memory", open_loop=[], agreement=None
        )
    report_results.write_json(tmp_path / "inference.json", content)
    made = report(tmp_path)
    assert made.drawn == []
    assert made.verdict.sentences == [
        "serve: no setting was measured. 96 of 96 cells were not measured. The benchmark is incomplete."
    ]
    assert "out of memory" in made.html()
