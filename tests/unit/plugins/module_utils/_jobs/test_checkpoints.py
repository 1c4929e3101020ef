from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
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


# --- files that a full disk or a power cut has left ---


def archive() -> bytes:
    """A file as torch.save writes it."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as written:
        written.writestr("archive/data.pkl", b"\x80\x02}q\x00.")
        written.writestr("archive/data/0", bytes(range(256)) * 4)
    return stream.getvalue()


def safetensors() -> bytes:
    header = json.dumps(
        {"__metadata__": {"format": "pt"}, "w": {"dtype": "F32", "shape": [64], "data_offsets": [0, 256]}}
    )
    return len(header).to_bytes(8, "little") + header.encode() + bytes(256)


SOUND = {"optimizer.pt": archive(), "model.safetensors": safetensors(), "trainer_state.json": b'{"global_step": 10}'}


@pytest.mark.slow
@pytest.mark.parametrize("name", SOUND)
def test_a_file_that_was_not_written_to_its_end(tmp_path: Path, name: str) -> None:
    path, content = tmp_path / name, SOUND[name]
    for damaged in (
        content[:1],
        content[:3],
        *(content[:end] for end in range(0, len(content), 7)),
        bytes(len(content)),
        content[:-1],
    ):
        path.write_bytes(damaged)
        assert not checkpoints.is_sound(path), len(damaged)
    path.write_bytes(content)
    assert checkpoints.is_sound(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer/merges.txt", b""),
        ("__0_0.distcp", archive() * 2 + b"tail"),
        ("own.bin", b"weights of another format"),
        ("optimizer.pt", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."),  # as torch.save wrote before its archives
        ("model.safetensors", (2).to_bytes(8, "little") + b"{}"),
    ],
)
def test_a_file_that_may_be_what_it_is(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(content)
    assert checkpoints.is_sound(tmp_path / name)


def trainer(output: Path, step: int, *without: str, **more: bytes) -> Path:
    """A checkpoint as a Trainer writes it, marked as complete. more: further files, `__` for a slash."""
    names = {**SOUND, "scheduler.pt": archive(), "rng_state_0.pth": archive()}
    names.update((name.replace("__", "/"), content) for name, content in more.items())
    folder = output / f"checkpoint-{step}"
    for name, content in names.items():
        if name not in without:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
    sizes = {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    (folder / "complete.json").write_text(json.dumps(sizes))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["optimizer.pt", "model.safetensors", "scheduler.pt", "trainer_state.json"])
@pytest.mark.parametrize("left", ["empty", "zeros", "cut"])
def test_a_damaged_checkpoint_gives_way_to_an_older_one(tmp_path: Path, name: str, left: str) -> None:
    older, newer = trainer(tmp_path, 10), trainer(tmp_path, 20)
    assert checkpoints.last_complete(tmp_path) == newer
    size = (newer / name).stat().st_size
    (newer / name).write_bytes(
        {"empty": b"", "zeros": bytes(size), "cut": (newer / name).read_bytes()[: size // 2]}[left]
    )
    assert checkpoints.last_complete(tmp_path) == checkpoints.last_marked(tmp_path) == older
    choice = checkpoints.choose({"node0": checkpoints.parts(tmp_path)}, "node0", {}, {})
    assert choice.name == "checkpoint-10"
    assert choice.refused["checkpoint-20"].startswith(name)
    assert choice.refused["checkpoint-20"].endswith(", on node0")


def test_a_damaged_part_of_another_host_is_absent(tmp_path: Path) -> None:
    for step in (10, 20):
        trainer(tmp_path / "node0", step, "optimizer.pt", optimizer_0__own=b"1")
        other = tmp_path / f"node1/checkpoint-{step}"
        other.mkdir(parents=True)
        (other / "shard-1.pt").write_bytes(archive())
        (other / "part.json").write_text(json.dumps({"shard-1.pt": len(archive())}))
    (other / "shard-1.pt").write_bytes(bytes(len(archive())))

    def chosen() -> str:
        found = {host: checkpoints.parts(tmp_path / host) for host in ("node0", "node1")}
        told = {"node1": {"checkpoint-10": ["shard-1.pt"], "checkpoint-20": ["shard-1.pt"]}}
        return checkpoints.choose(found, "node0", {}, told).name

    assert chosen() == "checkpoint-10"
    (other / "shard-1.pt").write_bytes(archive())
    assert chosen() == "checkpoint-20"


def test_a_damaged_state_of_random_numbers_is_none(tmp_path: Path) -> None:
    """A rank goes on without it, but fails where it cannot be read."""
    folder = trainer(tmp_path, 10)
    (folder / "rng_state_1.pth").touch()
    assert checkpoints.is_complete(folder)
    checkpoints.remove_damaged_random(tmp_path)
    assert not (folder / "rng_state_1.pth").exists()
    assert (folder / "rng_state_0.pth").exists()


def test_a_checkpoint_from_which_the_job_could_not_go_on(tmp_path: Path) -> None:
    for step in (10, 20):
        trainer(tmp_path, step)
    found = {"node0": checkpoints.parts(tmp_path)}
    assert checkpoints.choose(found, "node0", {}, {}, ["checkpoint-20"]).name == "checkpoint-10"
    assert checkpoints.choose(found, "node0", {}, {}, ["checkpoint-20", "checkpoint-10"]).name == "checkpoint-20"


@pytest.mark.parametrize(
    ("without", "more", "lacks"),
    [
        (("optimizer.pt", "scheduler.pt"), {}, "optimizer and learning rate schedule"),
        (("optimizer.pt",), {}, "optimizer"),
        (("scheduler.pt",), {}, "learning rate schedule"),
        (("optimizer.pt",), {"optimizer.bin": archive()}, ""),
        (("optimizer.pt",), {"optimizer_0__.metadata": b"0", "optimizer_0____0_0.distcp": b"1"}, ""),
        (("optimizer.pt", "scheduler.pt"), {"global_step10__zero_pp_rank_0_optim_states.pt": archive()}, ""),
        (("optimizer.pt", "scheduler.pt", "trainer_state.json"), {}, ""),  # of a script of one's own
    ],
)
def test_a_trainers_checkpoint_without_its_state(
    tmp_path: Path, without: tuple[str, ...], more: dict[str, bytes], lacks: str
) -> None:
    folder = trainer(tmp_path, 10, *without, **more)
    assert checkpoints.is_complete(folder) is not bool(lacks)
    assert bool(checkpoints.last_marked(tmp_path)) is not bool(lacks)
    assert checkpoints.refusal(folder) == (f"it has no state of the {lacks} (save_only_model)" if lacks else "")
