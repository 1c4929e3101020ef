"""A report as it is written: one page that needs nothing else, and files that agree with each other."""

from __future__ import annotations

import csv
import json
import re
import shutil
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._measure.report import make, sources, style
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import report_results

pytestmark = pytest.mark.slow


PNG = b"\x89PNG\r\n"
DIRECTORIES = ("squad", "squad-scale", "squad-tune", "serve-inference", "network")


class Page(HTMLParser):
    """What a page loads, names and describes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.ids: list[str] = []
        self.figures: dict[str, str] = {}
        self.open: list[str] = []
        self.inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag not in ("meta", "link", "path", "use", "rect", "line", "img", "br"):
            self.open.append(tag)
        self.ids += [values["id"] or ""] if "id" in values else []
        self.inside = values.get("id") or "" if tag == "figure" else self.inside
        if values.get("role") == "img" and self.inside and self.inside not in self.figures:
            self.figures[self.inside] = values.get("aria-label") or ""
        for name in ("src", "href", "xlink:href", "data", "srcset", "poster", "action"):
            if name in values and tag != "a":
                self.loaded.append(values[name] or "")

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            assert self.open.pop() == tag, f"</{tag}> does not close the tag that is open"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with results of every kind."""
    folder = tmp_path_factory.mktemp("results")
    report_results.write_job(folder / "squad")
    report_results.write_sweep(folder / "squad-scale")
    report_results.write_json(folder / "squad-tune" / "tune.json", report_results.tuning())
    report_results.write_json(folder / "network" / "network.json", report_results.network())
    report_results.write_inference(folder / "serve-inference")
    return folder


@pytest.fixture(scope="module")
def written(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("written")
    make.write(sources.read(results / name for name in DIRECTORIES), to)
    return to


@pytest.fixture(scope="module")
def document(written: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((written / "report.json").read_text())
    return content


def test_the_page_loads_nothing(written: Path) -> None:
    text = (written / "report.html").read_text()
    page = Page(text)
    assert [url for url in page.loaded if not url.startswith(("#", "data:"))] == []
    assert re.findall(r"url\((?!#)[^)]*\)|@import|<script|<iframe", text) == []
    assert page.open == [], "tags that are not closed"


def test_ids_are_unique_and_found(written: Path) -> None:
    text = (written / "report.html").read_text()
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    named = set(re.findall(r'url\(#([^)"]+)\)', text)) | {url[1:] for url in page.loaded if url.startswith("#")}
    assert named <= set(page.ids)


def test_the_page_has_the_figures_and_says_what_they_show(written: Path, document: dict[str, Any]) -> None:
    page = Page((written / "report.html").read_text())
    names = ["speedup", "efficiency", "samples_per_second", "epoch_seconds", "time_split", "losses", "utilization"]
    names += ["trials", "inference_throughput", *(f"inference_latency_{place}" for place in (1, 2, 3))]
    names += ["inference_open_loop", "network_pairs", "collectives"]
    assert [figure["name"] for figure in document["figures"]] == names
    assert page.figures == {figure["name"]: figure["alt"] for figure in document["figures"]}
    assert all(re.search(r"\d", alt) for alt in page.figures.values()), "a description without a figure"


def test_figures_follow_the_colours_of_the_page(written: Path) -> None:
    text = (written / "report.html").read_text()
    body = text[text.index("<body>") :]
    for name, (light, _dark) in style.COLOURS.items():
        assert light not in body, f"{name} is fixed"
    assert body.count("var(--c1)") > 10


def test_all_files_are_there(written: Path, document: dict[str, Any]) -> None:
    assert sorted(path.name for path in written.iterdir()) == sorted(document["files"])
    for figure in document["figures"]:
        assert (written / figure["file"]).read_bytes().startswith(PNG)
        assert figure["table"] in document["tables"]


def test_csv_and_json_agree(written: Path, document: dict[str, Any]) -> None:
    found = 0
    for name, table in document["tables"].items():
        path = written / f"{name}.csv"
        assert path.exists() == bool(table["rows"])
        if not table["rows"]:
            continue
        with path.open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        expected = [{key: "" if value is None else str(value) for key, value in row.items()} for row in table["rows"]]
        assert rows == expected
        found += len(rows)
    assert found > 800


def test_the_page_has_the_figures_of_the_sweep(written: Path, document: dict[str, Any]) -> None:
    text = (written / "report.html").read_text()
    last = report_results.sweep()["counts"][-1]
    assert f"{last['speedup']['median']:.2f}\N{MULTIPLICATION SIGN}" in text
    assert document["verdict"]["sentences"][0] == (
        f"squad: 4 hosts: {last['speedup']['median']:.2f}x, {100 * last['efficiency']['median']:.0f} % of ideal; "
        "held back by the network's bandwidth. All-reduce moves 268 MB in each step, at 1.1 of the link's 1.25 GB/s."
    )
    assert "exec mpirun -f hostfile" in text
    assert "intel-extension-for-pytorch" in text
    assert "Cores of node0, node1, node2, node3. socket 0, NUMA node 0: 0000000000000css" in text
    assert "1 epoch takes about 2 hours and 15 minutes" in text


def test_what_a_job_says_is_text(tmp_path: Path) -> None:
    evil = '<script>alert("1")</script>'
    path = report_results.write_job(tmp_path / "squad", reason=evil, state="failed", job=evil)
    make.write(sources.read([path]), tmp_path / "report")
    text = (tmp_path / "report" / "report.html").read_text()
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_a_job_alone(tmp_path: Path) -> None:
    path = report_results.write_job(tmp_path / "squad")
    report, _files = make.write(sources.read([path]), tmp_path / "report")
    assert [one.name for one in report.drawn] == ["time_split", "losses", "utilization"]
    assert (report.verdict.number, report.verdict.unit) == ("270", "samples/s on 4 hosts, 8 ranks")
    assert report.verdict.learned == "Model quality: exact_match 76.4; f1 84.6; loss 1.19."
    assert "Published results" not in report.title()
    assert not (tmp_path / "report" / "reference.csv").exists()


def test_a_sweep_without_losses_says_so(tmp_path: Path) -> None:
    path = report_results.write_sweep(tmp_path / "squad-scale")
    report, _files = make.write(sources.read([path]), tmp_path / "report")
    assert report.verdict.learned.startswith("Whether the model still learns was not measured")


def test_tuning_alone(tmp_path: Path) -> None:
    for changes, expected in (
        ({}, ("1.08\N{MULTIPLICATION SIGN}", "the throughput of the default plan", "Tuning: 1.08x the throughput")),
        (
            {"verdict": "no difference"},
            ("1\N{MULTIPLICATION SIGN}", "no plan is faster than the default", "Tuning: no "),
        ),
        (
            {"verdict": "unfinished", "final": None},
            ("61.3", "samples/s in the best trial", "Tuning is unfinished after "),
        ),
        ({"verdict": "unfinished", "trials": []}, ("\N{EN DASH}", "", "Tuning is unfinished after 0 trials.")),
    ):
        report_results.write_json(tmp_path / "tune.json", report_results.tuning(**changes))
        report, _files = make.write(sources.read([tmp_path]), tmp_path / "report")
        assert (report.verdict.number, report.verdict.unit) == expected[:2]
        assert report.verdict.sentences[0].startswith(expected[2])
        assert report.verdict.learned == ""


def test_an_incomplete_sweep_says_so(tmp_path: Path) -> None:
    content = report_results.sweep(state="incomplete")
    content["runs"][-1].update(state="pending", samples_per_second=None)
    report_results.write_json(tmp_path / "sweep.json", content)
    report, _files = make.write(sources.read([tmp_path]), tmp_path / "report")
    assert report.verdict.sentences[0].endswith(" The sweep is incomplete: 1 of 10 runs pending.")


def test_a_second_report_replaces_the_first_and_nothing_else(results: Path, written: Path, tmp_path: Path) -> None:
    to = Path(shutil.copytree(written, tmp_path / "report"))
    (to / "mine.csv").write_text("mine")
    (to / "mine.png").write_text("mine")
    _report, files = make.write(sources.read([results / "squad"]), to)
    assert sorted(path.name for path in to.iterdir()) == sorted([*files, "mine.csv", "mine.png"])


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    found = sources.read([report_results.write_job(tmp_path / "squad")])
    message = r"^matplotlib is missing on the control node: pip install matplotlib==[\d.]+ \(requirements.txt\)$"
    with pytest.raises(ValueError, match=message):
        make.write(found, tmp_path / "report")
    assert not (tmp_path / "report").exists()


def test_the_version_that_is_named_is_the_pinned_one() -> None:
    pins = (Path(__file__).parents[6] / "requirements.txt").read_text().splitlines()
    assert f"matplotlib=={style.VERSION}" in pins


def paths_in(content: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The place of every value in nested mappings and lists."""
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [path for key, value in items for path in ((*prefix, key), *paths_in(value, (*prefix, key)))]


def damaged(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The content with another value at a place; without the place where the value is Ellipsis."""
    copy = json.loads(json.dumps(content))
    at = copy
    for key in path[:-1]:
        at = at[key]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return copy


FILES = {
    "results.json": "squad",
    "plan.json": "squad",
    "utilization.json": "squad",
    "sweep.json": "squad-scale",
    "tune.json": "squad-tune",
    "inference.json": "serve-inference",
    "network.json": "network",
}


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_report_is_made_of_what_is_there(results: Path, data: st.DataObject) -> None:
    """Whatever part of a file is missing, or is something else, the report is of the others."""
    with tempfile.TemporaryDirectory() as name:
        file = data.draw(st.sampled_from(sorted(FILES)))
        path = Path(shutil.copytree(results / FILES[file], Path(name, "results"))) / file
        content = json.loads(path.read_text())
        for _time in range(data.draw(st.integers(1, 3))):
            place = data.draw(st.sampled_from(paths_in(content)))
            value: Any = data.draw(
                st.sampled_from([..., None, "", "x", 0, -1, 1e300, True, [], {}, [None], [{}], {"a": 1}])
            )
            try:
                content = damaged(content, place, value)
            except (KeyError, IndexError, TypeError):
                continue  # an earlier damage took the place
        path.write_text(json.dumps(content))
        with style.drawing():
            report = make.make(sources.read([path.parent]))
            assert Page(report.html()).open == []
        assert report.verdict.text()
        json.dumps(report.to_json(), allow_nan=False)


@pytest.mark.parametrize(("epoch", "extrapolated"), [(0.04, True), (1.0, False)])
def test_an_epoch_is_beside_published_ones_of_the_same_job(tmp_path: Path, epoch: float, extrapolated: bool) -> None:
    training = {"samples": 26950, "epochs": 3.0}
    job = report_results.write_job(tmp_path / "job", job="mrpc-bert", epoch=epoch, training=training)
    with style.drawing():
        report = make.make(sources.read([job]))
    own, *published = report.tables["epochs"].rows
    # 269.5 samples/s were measured.
    assert own["epoch_seconds"] == pytest.approx(100)
    assert own["job_seconds"] == pytest.approx(300)
    assert own["extrapolated"] == extrapolated
    assert {(row["machine"], row["hosts"], row["job_seconds"]) for row in published} == {
        ("c6i.16xlarge", 1, 466),
        ("c6i.16xlarge", 2, 279),
        ("c6i.16xlarge", 4, 156),
    }
    assert all(row["epoch_seconds"] is None for row in map(dict, published) if "epoch_seconds" in row)
    said = "An epoch of 26,950 samples takes 1 min 40 s (extrapolated)."
    assert (said in report.verdict.text()) == extrapolated
    assert "Time of an epoch" in report.html()
