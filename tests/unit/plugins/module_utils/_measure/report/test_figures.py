"""Figures hold the data of their tables, and tables that of the results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs.cost import Price
from ansible_collections.amx.cluster.plugins.module_utils._measure.report import style
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer, ErrorbarContainer
from support import report_results
from support.report_results import figure, report

pytestmark = pytest.mark.slow


def error_bars(axes: Any) -> list[tuple[list[float], list[float], list[tuple[float, float]]]]:
    """Of each line with error bars: x, y, and (lower, upper) end of each bar."""
    found = []
    for container in axes.containers:
        if isinstance(container, ErrorbarContainer) and container.lines[0] is not None:
            ends = [(min(y for _x, y in bar), max(y for _x, y in bar)) for bar in container.lines[2][0].get_segments()]
            line = container.lines[0]
            found.append((list(line.get_xdata()), list(line.get_ydata()), ends))
    return found


def flat(bars: list[tuple[float, float]]) -> list[float]:
    return [value for bar in bars for value in bar]


@pytest.mark.parametrize("name", ["speedup", "efficiency"])
def test_speed_up_and_efficiency(tmp_path: Path, name: str) -> None:
    made = report(report_results.write_sweep(tmp_path / "squad-scale"))
    counts = report_results.sweep()["counts"]
    (axes,) = figure(made, name).figure.axes
    ((x, y, bars),) = error_bars(axes)
    assert x == [1, 2, 4]
    assert y == pytest.approx([count[name]["median"] for count in counts])
    assert flat(bars) == pytest.approx([count[name][end] for count in counts for end in ("low", "high")])
    lines = {line.get_label(): line for line in axes.lines}
    ideal = list(lines["ideal"].get_ydata())
    assert ideal == ([1, 4] if name == "speedup" else [1, 1])
    if name == "speedup":
        over_one = [count["speedup_over_one_process"]["median"] for count in counts]
        assert list(lines["over one process"].get_ydata()) == pytest.approx(over_one)


def test_published_results_are_reference_lines(tmp_path: Path) -> None:
    made = report(report_results.write_sweep(tmp_path / "squad-scale"))
    (axes,) = figure(made, "speedup").figure.axes
    dashed = [line for line in axes.lines if to_hex(line.get_color()) == style.colour("reference")]
    drawn = [(list(line.get_xdata()), [round(float(y), 2) for y in line.get_ydata()]) for line in dashed]
    # As far as the measured ones go: the 8 hosts of the first are left out.
    assert drawn == [
        ([1, 2, 4], [1.0, 2.05, 4.03]),
        ([1, 4], [1.0, 3.47]),
        ([1, 2, 4], [1.0, 1.67, 2.99]),
        ([1, 2, 4], [1.0, 1.71, 2.95]),
    ]


@pytest.mark.parametrize(("name", "scale"), [("samples_per_second", 1.0), ("epoch_seconds", 60.0)])
def test_bars_by_number_of_hosts(tmp_path: Path, name: str, scale: float) -> None:
    made = report(report_results.write_sweep(tmp_path / "squad-scale"))
    counts = report_results.sweep()["counts"]
    drawn = figure(made, name)
    (axes,) = drawn.figure.axes
    (bars,) = [one for one in axes.containers if isinstance(one, BarContainer)]
    heights = [bar.get_height() for bar in bars]
    assert heights == pytest.approx([count[name]["median"] / scale for count in counts])
    assert bars.errorbar is not None
    ends = [
        (min(y for _x, y in segment), max(y for _x, y in segment))
        for segment in bars.errorbar.lines[2][0].get_segments()
    ]
    assert flat(ends) == pytest.approx([count[name][end] / scale for count in counts for end in ("low", "high")])
    assert "4 hosts" in drawn.alt


def test_two_clusters_beside_each_other(tmp_path: Path) -> None:
    spr = report_results.write_sweep(tmp_path / "spr")
    icx = report_results.write_sweep(tmp_path / "icx", speed=7.1, cpu=report_results.ICE_LAKE)
    made = report(spr, icx)
    (axes,) = figure(made, "samples_per_second").figure.axes
    bars = [one for one in axes.containers if isinstance(one, BarContainer)]
    assert [one.get_label() for one in bars] == ["Xeon Platinum 8488C", "Xeon Platinum 8375C"]
    places = [bar.get_x() for one in bars for bar in one]
    assert len(set(places)) == 6, "bars hide each other"
    assert len(error_bars(figure(made, "speedup").figure.axes[0])) == 2


def test_a_count_that_failed_is_shown_as_failed(tmp_path: Path) -> None:
    made = report(report_results.write_sweep(tmp_path / "squad-scale", efficiency={1: 1.0, 2: 0.9, 4: None}))
    (row,) = [row for row in made.tables["scaling"].rows if row["hosts"] == 4]
    assert (row["state"], row["samples_per_second"], row["failed"]) == ("failed", None, 3)
    drawn = figure(made, "speedup")
    (crosses,) = [line for line in drawn.figure.axes[0].lines if line.get_label() == "failed"]
    assert list(crosses.get_xdata()) == [4]
    assert "Failed: 4 hosts." in drawn.alt
    assert any("All runs on 4 hosts failed." in sentence for sentence in made.verdict.sentences)
    assert all(row["reason"] for row in made.tables["runs"].rows if row["hosts"] == 4)
    assert 'class="bad"' in made.html()


def test_a_single_count_has_no_speed_up(tmp_path: Path) -> None:
    made = report(report_results.write_sweep(tmp_path / "squad-scale", efficiency={1: 1.0}))
    assert [one.name for one in made.drawn] == ["samples_per_second", "epoch_seconds", "time_split"]
    assert made.verdict.unit == "samples/s on 1 host"


def test_time_split(tmp_path: Path) -> None:
    made = report(report_results.write_sweep(tmp_path / "squad-scale"))
    counts = report_results.sweep()["counts"]
    (axes,) = figure(made, "time_split").figure.axes
    stacked = {one.get_label(): [bar.get_width() for bar in one] for one in axes.containers}
    assert stacked == {
        part: pytest.approx([count["split"][part] for count in counts])
        for part in ("compute", "communication", "input", "other")
    }
    begins = {one.get_label(): [bar.get_x() for bar in one] for one in axes.containers}
    assert begins["communication"] == pytest.approx(stacked["compute"])


def test_time_split_of_a_job_by_rank(tmp_path: Path) -> None:
    made = report(report_results.write_job(tmp_path / "squad"))
    rows = made.tables["time_split"].rows
    assert [row["where"] for row in rows] == [f"rank {rank}" for rank in range(8)]
    assert rows[0]["compute"] == pytest.approx(0.76 / 0.95)
    many = report(report_results.write_job(tmp_path / "many", hosts=[f"node{place}" for place in range(14)]))
    (axes,) = figure(many, "time_split").figure.axes
    assert len(axes.containers[0]) == 14, "a bar for each host where there are many ranks"


def test_time_split_of_a_job_and_its_sweep(tmp_path: Path) -> None:
    made = report(report_results.write_job(tmp_path / "squad"), report_results.write_sweep(tmp_path / "squad-scale"))
    assert [row["results"] for row in made.tables["time_split"].rows] == ["squad, sweep"] * 3 + ["squad, job"] * 8
    (axes,) = figure(made, "time_split").figure.axes
    assert {"squad, sweep", "squad, job"} <= {text.get_text() for text in axes.texts}


def test_kinds_of_operations(tmp_path: Path) -> None:
    kinds = {"products": 0.64, "dropout": 0.2, "other": 0.16}
    broken: list[Any] = [None, {}, {"host": "node2", "kinds": {"products": "much"}}]
    hosts = [{"host": "node0", "isa": "avx512", "kinds": kinds}, {"host": "node1", "isa": "amx", "kinds": kinds}]
    profile = {"steps": 4, "seconds_of_a_step": 1.0, "hosts": [*hosts, *broken]}
    made = report(report_results.write_job(tmp_path / "squad", measured={"ranks": [], "profile": profile}))
    rows = made.tables["operations"].rows
    assert [(row["where"], row["products"], row["step_seconds"]) for row in rows] == [
        ("node0", pytest.approx(0.64), pytest.approx(1.0)),
        ("as on AMX (at most)", pytest.approx(0.1), pytest.approx(0.4)),
        ("node1", pytest.approx(0.64), pytest.approx(1.0)),
    ]
    drawn = figure(made, "operations")
    (axes,) = drawn.figure.axes
    assert {one.get_label(): [bar.get_width() for bar in one] for one in axes.containers} == {
        "products": pytest.approx([0.64, 0.1, 0.64]),
        "dropout": pytest.approx([0.2, 0.5, 0.2]),
        "other": pytest.approx([0.16, 0.4, 0.16]),
    }
    assert "node0 as on AMX (at most): products 10 %, dropout 50 %, other 40 %" in drawn.alt
    assert drawn.note.startswith("As on AMX: matrix products 16 times as fast")


def test_losses_over_each_other(tmp_path: Path) -> None:
    paths = [report_results.write_job(tmp_path / name) for name in ("one", "other")]
    report_results.write_json(
        paths[1] / "output" / "trainer_state.json", {"log_history": report_results.losses(150, seed=2)}
    )
    (axes,) = figure(report(*paths), "losses").figure.axes
    lines = {line.get_label(): line for line in axes.lines}
    assert not any(line.get_clip_on() for line in axes.lines), "a marker on an axis is drawn whole"
    assert axes.get_xlabel() == "epoch", "jobs of different lengths are compared by epoch"
    for name, history in (("one", report_results.losses()), ("other", report_results.losses(150, seed=2))):
        expected = [(entry["epoch"], entry["loss"]) for entry in history if "loss" in entry]
        line = lines[f"squad ({name}), training"]
        assert list(zip(line.get_xdata(), line.get_ydata())) == expected
    assert list(lines["squad (one), evaluation"].get_xdata()) == pytest.approx([1 / 3, 2 / 3, 1])


def test_utilization_with_faults_and_restarts_on_the_time_line(tmp_path: Path) -> None:
    drawn = figure(report(report_results.write_job(tmp_path / "squad")), "utilization")
    given = report_results.utilization()["hosts"]
    cpus, memory, network = drawn.figure.axes
    lines = {line.get_label(): line for line in cpus.lines if not line.get_label().startswith("_")}
    assert set(lines) == set(report_results.HOSTS)
    for host, line in lines.items():
        assert list(line.get_xdata()) == pytest.approx([at / 60 for at in given[host]["time"]])
        assert list(line.get_ydata()) == pytest.approx([busy / 26 for busy in given[host]["busy_cpus"]])
    assert list(memory.lines[0].get_ydata()) == pytest.approx(
        [value / 2**30 for value in given["node0"]["memory_bytes"]]
    )
    assert max(network.lines[0].get_ydata()) == pytest.approx(max(given["node0"]["network_bytes_per_second"]) / 1e6)
    for axes in (cpus, memory, network):
        marks = [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 2]
        assert marks == pytest.approx([310 / 60, 340 / 60]), "a fault after 310 s, a restart after 340 s"
    assert "fault after 5 min 10 s: rank 5 on node2 was killed for lack of memory" in drawn.alt


def test_many_hosts_are_not_told_apart_but_for_the_least_busy(tmp_path: Path) -> None:
    hosts = [f"node{place}" for place in range(12)]
    (cpus, *_others) = figure(
        report(report_results.write_job(tmp_path / "squad", hosts=hosts)), "utilization"
    ).figure.axes
    named = [line.get_label() for line in cpus.lines if not line.get_label().startswith("_")]
    assert named == ["node11, least busy"]


def test_trials(tmp_path: Path) -> None:
    report_results.write_json(tmp_path / "tune.json", report_results.tuning())
    drawn = figure(report(tmp_path), "trials")
    (axes,) = drawn.figure.axes
    assert [bar.get_width() for bar in axes.containers[0]] == [61.3, 57.0, 56.0, 55.0, 52.0, 47.5, 46.0, 41.0]
    written = [text.get_text() for text in axes.texts]
    assert "winner: ranks_per_node 4, comm_cores 1" in written
    assert "default: ranks_per_node 2, comm_cores 1" in written
    assert "1 trial failed." in drawn.note
    assert "reserved_cores 2" in drawn.note


def test_heat_map_of_the_network(tmp_path: Path) -> None:
    network = report_results.network()
    network["pairs"][0].update(state="failed", bandwidth_mbyte_s=None, reason="no route")
    report_results.write_json(tmp_path / "network.json", network)
    drawn = figure(report(tmp_path), "network_pairs")
    grid = drawn.figure.axes[0].collections[0].get_array().reshape(4, 4)
    for pair in network["pairs"][1:]:
        a, b = (report_results.HOSTS.index(host) for host in pair["hosts"])
        assert grid[a][b] == grid[b][a] == pair["bandwidth_mbyte_s"]
    assert "Failed: node0 and node1." in drawn.alt
    crossed = [text for text in drawn.figure.axes[0].texts if text.get_text() == "\N{MULTIPLICATION SIGN}"]
    assert len(crossed) == 2


def test_curves_of_collectives(tmp_path: Path) -> None:
    network = report_results.network()
    report_results.write_json(tmp_path / "network.json", network)
    imb, torch = figure(report(tmp_path), "collectives").figure.axes
    for axes, tool in ((imb, "imb"), (torch, "torch")):
        for (x, y, _bars), operation in zip(error_bars(axes), ("broadcast", "reduce")):
            mine = [one for one in network["collectives"] if (one["tool"], one["operation"]) == (tool, operation)]
            assert list(zip(x, y)) == [(one["bytes"], one["microseconds"]) for one in mine]


def test_cost_of_an_epoch(tmp_path: Path) -> None:
    price = Price.read("2.30 USD")
    made = report(report_results.write_sweep(tmp_path / "squad-scale"), price=price)
    epoch = report_results.sweep()["counts"][2]["epoch_seconds"]["median"]
    row = made.tables["scaling"].rows[-1]
    assert row["cost_per_epoch"] == pytest.approx(4 * 2.30 * epoch / 3600)
    assert (f"{4 * 2.30 * epoch / 3600:.2f} USD", "cost of an epoch on 4 hosts") in made.verdict.facts


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2.5", Price(2.5, "")),
        (3, Price(3.0, "")),
        ("2.30 EUR", Price(2.3, "EUR")),
        ("$2.5", Price(2.5, "$")),
        ("", None),
    ],
)
def test_prices(written: object, expected: Price | None) -> None:
    assert Price.read(written) == expected


def test_a_small_cost_is_not_nothing() -> None:
    price = Price(2.3, "USD")
    assert [price.shown(cost) for cost in (12.345, 0.1, 0.0048)] == ["12.35 USD", "0.10 USD", "0.0048 USD"]


@pytest.mark.parametrize("written", ["free", "-2", "1.2.3"])
def test_a_price_that_is_none(written: str) -> None:
    with pytest.raises(ValueError, match=f"^host_price_per_hour: '{written}' is not a price such as 2.5 or '2.5 USD'$"):
        Price.read(written)
