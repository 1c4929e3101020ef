"""The published results: each row complete, with the figures of its source."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._measure.report import reference
from support.checkout import ROOT

TEXTS = yaml.safe_load((ROOT / "tests/unit/fixtures/published/texts.yml").read_text(encoding="utf-8"))
SECONDS = {"hour": 3600, "minute": 60, "second": 1, "小时": 3600, "分钟": 60, "分": 60, "秒": 1}
PART = r"(\d+) (hour|minute|second|小时|分钟|分|秒)s?"
JOBS = {"SQuAD": "squad-distilbert", "MRPC": "mrpc-bert", "QQP": "qqp-bert"}
# What each source says of its ranks: (source, hosts, processes).
PROCESSES = {
    (
        "spr-8xlarge",
        2,
        8,
    ): "4 Python processes per node (NUM_PROCESSES_PER_NODE). Hence, the total number of Python jobs "
    "running on the 2-node cluster is 8",
    ("spr-8xlarge", 4, 16): "4 nodes (NUM_PROCESSES=16)",
    ("spr-8xlarge", 8, 32): "8 nodes (NUM_PROCESSES=32)",
    ("icx-16xlarge", 2, 2): "-np (number of processes) is set to 2 and -ppn (process per node) is set to 1",
    ("icx-16xlarge", 4, 4): "Setting -np to 4 and launching a new job, I now see one process running on each node",
    ("spr-16xlarge", 4, 8): "一个 4 节点的集群上共有 8(NUM_PROCESSES)个 Python 进程",
}


def plain(text: str) -> str:
    """The text without the marks of Markdown."""
    return re.sub(r"\*\*|__|`", "", text)


def durations(text: str) -> list[int]:
    """Every time in a text, in seconds."""
    times = re.finditer(rf"{PART}(?:(?: and)? {PART})*", plain(text))
    return [sum(int(number) * SECONDS[unit] for number, unit in re.findall(PART, time.group())) for time in times]


@pytest.mark.parametrize("row", reference.load()["rows"], ids=lambda row: f"{row['series']}, {row['hosts']}")
def test_every_figure_of_a_row_is_that_of_its_source(row: dict[str, Any]) -> None:
    captured = TEXTS[row["source"]]
    text = plain(" ".join(captured["sentences"]))
    for words in re.split(r"; | \.\.\. ", row["as_written"]):
        assert words.lower() in text.lower()
    assert durations(row["as_written"])[0] == row["seconds"]
    ratio = re.search(r"(?<![\w.])([\d.]+)(?:x\b| 倍)", row["as_written"])
    assert (float(ratio[1]) if ratio else None) == row["speedup_as_written"]
    assert row["instance"] in text
    command = captured["commands"][row["hosts"] > 1]
    assert row["model"] in (None, command.partition("--model_name_or_path ")[2].split()[0])
    assert row["precision"] == ("bf16" if "--bf16" in command else "fp32")
    assert row["what"] == ("epoch" if re.search("--num_train_epochs +1 ", command) else "job")
    assert row["job"] == JOBS[row["series"].partition(",")[0]]
    assert row["instance"].startswith("c6i.") == ("Ice Lake" in row["series"])
    quoted = PROCESSES[row["source"], row["hosts"], row["processes"]] if row["hosts"] > 1 else ""
    assert quoted in text and (quoted or row["processes"] == 1)


@pytest.mark.parametrize("source", reference.load()["sources"])
def test_no_time_of_a_source_is_missing(source: str) -> None:
    rows = [row for row in reference.load()["rows"] if row["source"] == source]
    written = {time for row in rows for time in durations(row["as_written"])}
    assert written == {time for sentence in TEXTS[source]["sentences"] for time in durations(sentence)}


def test_a_speed_up_as_written_follows_from_the_times() -> None:
    checked = 0
    for row in reference.load()["rows"]:
        if row["speedup_as_written"] and row["speedup"]:
            assert row["speedup"] == pytest.approx(row["speedup_as_written"], abs=0.05)
            checked += 1
    assert checked == 4


def test_rows_that_compare_different_models_say_so() -> None:
    rows = reference.load()["rows"]
    for series in {row["series"] for row in rows}:
        models = {row["model"] for row in rows if row["series"] == series}
        if len(models) > 1:
            assert all("model" in row["note"] for row in rows if row["series"] == series)


# The fields of a row and what they are.
FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("series", "job", "source", "instance", "precision", "what", "as_written", "note"), (str,)),
    "model": (str, type(None)),
    "hosts": (int,),
    "processes": (int, type(None)),
    "seconds": (int, float),
    "speedup_as_written": (int, float, type(None)),
}


def test_every_row_has_every_field_and_a_source() -> None:
    content = yaml.safe_load(reference.FILE.read_text(encoding="utf-8"))
    sources = {source["id"] for source in content["sources"]}
    for row in content["rows"]:
        assert set(row) == set(FIELDS), row
        wrong = [name for name, types in FIELDS.items() if not isinstance(row[name], types) or row[name] is True]
        assert not wrong, row
        assert row["source"] in sources, row
        assert (ROOT / f"jobs/{row['job']}.yml").is_file(), row
        assert min(row["seconds"], row["hosts"]) > 0, row
    assert all(
        1 in {row["hosts"] for row in content["rows"] if row["series"] == one["series"]} for one in content["rows"]
    )


def test_figures_that_notes_and_disagreements_compute_follow_from_the_times() -> None:
    published = reference.load()
    seconds = {(row["series"].removeprefix("SQuAD, "), row["hosts"]): row["seconds"] for row in published["rows"]}
    spr16, spr32 = "Sapphire Rapids, 16 cores", "Sapphire Rapids, 32 cores"
    icx16, icx32, mrpc = "Ice Lake, 16 cores", "Ice Lake, 32 cores", "MRPC, Ice Lake, 32 cores"

    def ratio(slow: tuple[str, int], fast: tuple[str, int], digits: int = 2) -> float:
        return float(round(seconds[slow] / seconds[fast], digits))

    def percent(series: str, few: int, many: int) -> float:
        return float(round(100 * seconds[series, few] / seconds[series, many] / (many / few)))

    computed = [
        ratio((spr16, 1), (spr16, 2)),
        ratio((spr16, 1), (spr16, 4)),
        *(ratio((spr16, 2), (spr16, 8)), percent(spr16, 2, 8)),
        ratio((icx16, 1), (spr16, 1), digits=1),
        *(ratio((spr32, 1), (spr32, 4)), percent(spr32, 1, 4)),
        ratio((icx32, 1), (spr32, 1)),
        ratio((mrpc, 1), (mrpc, 2)),
        ratio((mrpc, 1), (mrpc, 4)),
        ratio((spr16, 1), (spr32, 1), digits=1),
        ratio((icx16, 1), (icx32, 1)),
    ]
    notes = " ".join([*(row["note"] for row in published["rows"]), *published["disagreements"]])
    written = re.findall(r"(\d+(?:\.\d+)?) (?:times (?:as fast|faster|the time)|from the times|% of ideal)", notes)
    assert [float(figure) for figure in written] == computed
    assert len(re.findall(r"[\d.]+ ?(?:%|x\b|times|per ?cent)|\d+\.\d+", notes)) == len(written)  # there is no other
    (ratio_as_written,) = re.findall(r"(\d+) is how much faster", notes)
    assert float(ratio_as_written) in [row["speedup_as_written"] for row in published["rows"]]
    told = re.sub(r" h\b", " hour", re.sub(r" min\b", " minute", " ".join(published["disagreements"])))
    assert set(durations(told)) <= {row["seconds"] for row in published["rows"]}
    assert len(durations(told)) == 4
