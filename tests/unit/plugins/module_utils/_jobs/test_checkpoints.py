from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import checkpoints


def checkpoint(output: Path, step: int, whole: bool = True) -> Path:
    """A checkpoint of two files, marked as written to its end or not."""
    folder = output / f"checkpoint-{step}"
    (folder / "deep").mkdir(parents=True)
    (folder / "model").write_text("weights")
    (folder / "deep" / "state").write_text("state")
    if whole:
        (folder / "complete.json").write_text(json.dumps({"model": 7, "deep/state": 5}))
    return folder


def test_the_newest_by_its_step(tmp_path: Path) -> None:
    assert checkpoints.last_complete(tmp_path / "none") is None
    checkpoint(tmp_path, 9)
    newest = checkpoint(tmp_path, 10)
    checkpoint(tmp_path, 11, whole=False)
    checkpoint(tmp_path, 12).rename(tmp_path / "checkpoint-best")
    assert checkpoints.last_complete(tmp_path) == newest


@pytest.mark.parametrize("mark", ["", "{", "[]", "{}", "[1]", '{"model": 8, "deep/state": 5}', '{"other": 1}'])
def test_a_half_written_one_is_passed_over(tmp_path: Path, mark: str) -> None:
    folder = checkpoint(tmp_path, 3)
    assert checkpoints.is_complete(folder)
    (folder / "complete.json").write_text(mark)
    assert not checkpoints.is_complete(folder)
    assert checkpoints.last_complete(tmp_path) is None


def test_a_file_that_was_cut_off_or_lost(tmp_path: Path) -> None:
    cut, lost = checkpoint(tmp_path, 3), checkpoint(tmp_path, 4)
    (cut / "model").write_text("wei")
    (lost / "deep" / "state").unlink()
    assert not checkpoints.is_complete(cut)
    assert not checkpoints.is_complete(lost)


# --- parts on several hosts ---


def part(folder: Path, mark: str = "", named: str = "", **files: str) -> None:
    """What a host has of a checkpoint: files of these contents, listed by a mark."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {name.replace("__pt", ".pt"): content for name, content in files.items()}
    for name, content in written.items():
        (folder / name).write_text(content)
    if named:
        (folder / ".metadata").write_bytes(b"\x80\x02X" + named.encode() + b"q\x01")
    if mark:
        (folder / mark).write_text(json.dumps({name: len(content) for name, content in written.items()}))


def choose(tmp_path: Path, gone: tuple[str, ...] = (), told: dict[str, dict[str, list[str]]] | None = None) -> Any:
    hosts = [path.name for path in tmp_path.iterdir()]
    found = {host: checkpoints.parts(tmp_path / host) for host in hosts if host not in gone}
    return checkpoints.choose(found, "node0", dict.fromkeys(gone, "which does not answer"), told or {})


def test_the_newest_of_which_every_host_has_finished_its_part(tmp_path: Path) -> None:
    for step in (5, 10, 15):
        part(tmp_path / f"node0/checkpoint-{step}", "complete.json", shard_0__pt="zero")
    part(tmp_path / "node1/checkpoint-5", "part.json", shard_1__pt="ones")
    part(tmp_path / "node1/checkpoint-10", "part.json", shard_1__pt="ones")
    part(tmp_path / "node1/checkpoint-15", shard_1__pt="half")
    found = choose(tmp_path)
    assert (found.name, found.sources) == ("checkpoint-10", {"node1": ["shard_1.pt"]})
    assert found.files == {"shard_0.pt": 4, "shard_1.pt": 4}
    why = "node1 did not finish writing its shard_1.pt (part.json does not list it)"
    assert found.refused == {"checkpoint-15": why}
    (tmp_path / "node1/checkpoint-10/shard_1.pt").write_text("cut")  # a file that was cut off since
    assert choose(tmp_path).name == "checkpoint-5"


def test_shards_that_torch_distributed_checkpoint_names(tmp_path: Path) -> None:
    folder = tmp_path / "node0/checkpoint-5"
    part(folder, "complete.json", named="__0_0.distcp __1_0.distcp", **{"__0_0.distcp": "zero"})
    assert not checkpoints.is_complete(folder)
    assert checkpoints.last_marked(tmp_path / "node0") == folder
    assert choose(tmp_path).refused == {"checkpoint-5": "__1_0.distcp is on no host of the job"}
    part(tmp_path / "node1/checkpoint-5", **{"__1_0.distcp": "one"})  # it was written before the metadata
    assert choose(tmp_path).sources == {"node1": ["__1_0.distcp"]}
    lost = choose(tmp_path, gone=("node1",))
    assert (lost.name, lost.gone) == ("", ["node1"])
    part(folder, **{"__1_0.distcp": "one"})
    assert checkpoints.is_complete(folder)


def test_a_host_that_is_lost(tmp_path: Path) -> None:
    """What its ranks were seen to write tells whether that matters."""
    for step in (5, 10):
        part(tmp_path / f"node0/checkpoint-{step}", "complete.json", model__pt="all")
    (tmp_path / "node1").mkdir()
    assert choose(tmp_path, gone=("node1",)).name == "checkpoint-10"
    copies = {"node1": {"checkpoint-10": ["model.pt", "rng_state_1.pth", "part.json", ".saved.1"]}}
    assert choose(tmp_path, ("node1",), copies).name == "checkpoint-10"
    shards = {"node1": {"checkpoint-10": ["deep/shard-1.pt"]}}
    found = choose(tmp_path, ("node1",), shards)
    assert (found.name, found.gone) == ("", ["node1"])
    assert found.refused["checkpoint-10"] == "deep/shard-1.pt is on node1, which does not answer"
    # It was not seen at this one, and has a part of others.
    assert found.refused["checkpoint-5"] == "its part is on node1, which does not answer"
    # It answers, and its disk is another one.
    assert choose(tmp_path, (), shards).refused == {"checkpoint-10": "deep/shard-1.pt is on no host of the job"}


def test_marks_of_later_checkpoints_are_taken_away(tmp_path: Path) -> None:
    for step in (5, 10):
        checkpoint(tmp_path, step)
    part(tmp_path / "checkpoint-15", "part.json", shard__pt="one")
    checkpoints.unmark(tmp_path, 5)
    assert checkpoints.last_marked(tmp_path) == tmp_path / "checkpoint-5"
    assert not list(tmp_path.glob("checkpoint-1*/*.json"))


def test_a_file_that_had_another_name_while_it_was_written(tmp_path: Path) -> None:
    part(tmp_path / "node0/checkpoint-4", "complete.json", shard_0__pt="zero")
    part(tmp_path / "node1/checkpoint-4", "part.json", shard_1__pt="ones")
    told = {"node1": {"checkpoint-4": ["shard_1.pt.tmp"]}}
    assert choose(tmp_path, told=told).name == "checkpoint-4"


def test_what_is_written_anew_is_no_earlier_runs(tmp_path: Path) -> None:
    old, new = tmp_path / "old/checkpoint-20", tmp_path / "new/checkpoint-20"
    part(old, "complete.json", optimizer__pt="earlier")
    shutil.copytree(old, new, copy_function=os.link)
    checkpoints.unmark(tmp_path / "new", 10)
    (new / "optimizer.pt").write_text("anew")
    assert (old / "optimizer.pt").read_text() == "earlier"
