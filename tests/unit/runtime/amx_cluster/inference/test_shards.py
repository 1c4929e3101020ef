"""Chunks: each computed by one rank, the same for all ranks, and joined to each row once."""

from __future__ import annotations

import csv
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from amx_cluster.inference import shards
from ansible_collections.amx.cluster.plugins.module_utils._data import rows
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import CHUNKS, ELSEWHERE, Prediction
from hypothesis import given
from hypothesis import strategies as st

HOSTS = [f"node{number}" for number in range(6)]
RANKS = st.dictionaries(st.sampled_from(HOSTS), st.integers(1, 4), min_size=1)


@pytest.mark.slow
@given(chunk=st.integers(0, 10**6), ranks=RANKS)
def test_the_owner_of_a_chunk_is_there(chunk: int, ranks: dict[str, int]) -> None:
    host, place = shards.owner(chunk, HOSTS, ranks)
    assert host in ranks
    assert 0 <= place < ranks[host]


@given(ranks=RANKS, count=st.integers(0, 300))
def test_chunks_are_dealt_out_evenly_while_all_hosts_are_there(ranks: dict[str, int], count: int) -> None:
    owners = Counter(shards.owner(chunk, list(ranks), ranks) for chunk in range(count))
    each = [owners[host, place] for host in ranks for place in range(ranks[host])]
    assert max(each) - min(each) <= 1


@given(ranks=RANKS, chunk=st.integers(0, 10**4), each=st.integers(1, 4), data=st.data())
def test_hosts_that_are_left_keep_their_chunks(
    ranks: dict[str, int], chunk: int, each: int, data: st.DataObject
) -> None:
    before = dict.fromkeys(ranks, each)
    left = data.draw(st.sets(st.sampled_from(sorted(before)), min_size=1))
    after = {host: each for host in before if host in left}
    was = shards.owner(chunk, list(before), before)
    if was[0] in after:
        assert shards.owner(chunk, list(before), after) == was


def test_the_chunks_of_a_lost_host_are_dealt_out_to_all_others() -> None:
    before = dict.fromkeys(HOSTS[:3], 2)
    after = dict.fromkeys(HOSTS[:2], 2)
    lost = [chunk for chunk in range(600) if shards.owner(chunk, HOSTS[:3], before)[0] == HOSTS[2]]
    owners = Counter(shards.owner(chunk, HOSTS[:3], after) for chunk in lost)
    assert len(owners) == 4
    assert max(owners.values()) - min(owners.values()) <= 2


REQUEST = Prediction("d1", "rows.csv", ["id"], ["label"], 4, ["node0"], {})


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Return a job directory with data of ten rows, one of them broken, and all of its chunks."""
    text = "id\n" + "".join(f"{number}\n" if number != 6 else "6,7\n" for number in range(10))
    (tmp_path / "rows.csv").write_text(text, encoding="utf-8")
    directory = tmp_path / CHUNKS
    directory.mkdir(parents=True)
    data = rows.open_data(tmp_path / "rows.csv")
    for chunk, place in enumerate(shards.places(directory, data, REQUEST)):
        write(directory, data, chunk, place)
    return tmp_path


def write(directory: Path, data: rows.Data, chunk: int, place: rows.Place, request: str = "d1") -> None:
    records = data.read(place)
    good = [record for record in records if not record.problem]
    rejected = [{"line": record.line, "reason": record.problem} for record in records if record.problem]
    payload = data.payload(good, [{"label": f"l{record.values['id']}"} for record in good], ["label"])
    about = {"rows": len(good), "rank": chunk % 2, "host": "node0", "seconds": 0.5}
    shards.write_chunk(directory, chunk, request, payload, rejected, **about)


def test_each_row_is_in_the_output_once_and_in_order(job: Path) -> None:
    summary = shards.merge(job, REQUEST)
    with (job / "output/predictions.csv").open(encoding="utf-8") as stream:
        found = list(csv.DictReader(stream))
    assert [row["id"] for row in found] == [str(number) for number in range(10) if number != 6]
    assert all(row["label"] == f"l{row['id']}" for row in found)
    (rejected,) = (job / "output/predictions.rejected.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(rejected) == {"line": 8, "reason": "has 2 fields, and the header 1"}
    assert (summary["rows"], summary["predicted"], summary["rejected"], summary["chunks"]) == (10, 9, 1, 3)
    # Two instances, half a second for each of three chunks.
    assert summary["rows_per_second"] == pytest.approx(9 * 2 / 1.5)
    assert [entry["file"] for entry in summary["files"]] == ["predictions.csv", "predictions.rejected.jsonl"]
    assert summary["files"][0]["sha256"] == shards.sha256(job / "output/predictions.csv")


def test_a_missing_chunk_is_named(job: Path) -> None:
    shards.path_of(job / CHUNKS, 1).unlink()
    with pytest.raises(shards.IncompleteError, match="1 of 3 chunks are missing: 1"):
        shards.merge(job, REQUEST)
    assert not (job / "output/predictions.csv").exists()


@pytest.mark.parametrize("what", ["damaged", "cut off", "of another prediction"])
def test_a_chunk_that_cannot_be_used_is_computed_again(job: Path, what: str) -> None:
    directory = job / CHUNKS
    path = shards.path_of(directory, 1)
    content = path.read_bytes()
    data = rows.open_data(job / "rows.csv")
    if what == "damaged":
        path.write_bytes(content.replace(b"4,l4", b"4,l5"))
    elif what == "cut off":
        path.write_bytes(content[:-3])
    else:
        write(directory, data, 1, shards.places(directory, data, REQUEST)[1], "another")
    assert [shards.is_there(directory, chunk, "d1") for chunk in range(3)] == [True, False, True]
    with pytest.raises(shards.IncompleteError, match="and was removed"):
        shards.merge(job, REQUEST)
    write(directory, data, 1, shards.places(directory, data, REQUEST)[1])
    assert shards.merge(job, REQUEST)["predicted"] == 9


def test_the_places_of_another_request_are_found_anew(job: Path) -> None:
    directory, data = job / CHUNKS, rows.open_data(job / "rows.csv")
    assert len(shards.places(directory, data, replace(REQUEST, digest="d2", chunk_rows=2))) == 5


def test_chunks_of_hosts_that_are_gone_do_not_count(tmp_path: Path) -> None:
    (tmp_path / ELSEWHERE).write_text(json.dumps({"node0": [1, 2], "node1": [3]}), encoding="utf-8")
    assert shards.elsewhere(tmp_path, ["node0"]) == {1, 2}
    assert shards.elsewhere(tmp_path / "none", ["node0"]) == set()
