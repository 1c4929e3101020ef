"""Full disks, by real ones, of some KiB in memory. What was there stays, and the message names the host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from amx_cluster.inference import shards
from ansible_collections.amx.cluster.plugins.module_utils import _io
from ansible_collections.amx.cluster.plugins.module_utils._data import rows
from ansible_collections.amx.cluster.plugins.module_utils._jobs import (
    faults,
    fetched,
    inference_requests,
    placing,
    prediction_files,
    reset,
)
from support import runtimes

FULL = "No space left on device"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    if (
        os.geteuid()
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", place], check=False).returncode
    ):
        pytest.skip("it takes root to mount a file system")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def fill(disk: Path) -> Path:
    """Take all that is left of a disk."""
    with (disk / "ballast").open("wb", buffering=0) as stream:
        try:
            while stream.write(bytes(4096)):
                pass
        except OSError:
            pass
    return disk / "ballast"


def start(path: Path) -> dict[str, Any]:
    settings = {"head": "node0", "start": os.urandom(4).hex()}
    files = {"job.json": json.dumps({"settings": settings}), "lib/a": "a" * 9000}
    return placing.place(placing.Placement(str(path), "node0", settings["start"], files), "node0")


@pytest.mark.slow
def test_a_start_without_room_leaves_the_model_of_the_previous_run(disk: Path) -> None:
    job = disk / "jobs/csv"
    start(job)
    (job / "output").mkdir()
    (job / "output/model").write_text("trained")
    (job / "status.json").write_text('{"state": "succeeded"}')
    ballast = fill(disk)
    with pytest.raises(ValueError, match=r"on node0 is full: free some of it$") as refused:
        start(job)
    assert str(refused.value).startswith(f"the job directory {job} cannot be created: the file system of {job.parent} ")
    assert (job / "output/model").read_text() == "trained"
    assert [path.name for path in job.parent.iterdir() if not path.name.endswith((".lock", ".json"))] == ["csv"]
    # With room it is moved aside, and stays the model of this name until a later run has succeeded.
    ballast.unlink()
    aside = Path(start(job)["moved_to"])
    assert (aside / "output/model").read_text() == "trained"
    assert reset.paths(disk, "previous") == []
    assert aside in reset.paths(disk, "results")
    (job / "status.json").write_text('{"state": "failed"}')
    assert reset.paths(disk, "previous") == []
    (job / "status.json").write_text('{"state": "succeeded"}')
    assert reset.paths(disk, "previous") == [aside]


@pytest.mark.slow
def test_chunks_without_room_for_their_output_are_kept(disk: Path) -> None:
    data = disk / "rows.csv"
    data.write_text("text\n" + f"{'a' * 100}\n" * 1000)
    request = inference_requests.Prediction("d1", str(data), ["text"], ["label"], 1000, ["node0"], {})
    plan = {
        "environment": sys.prefix,
        "runtime": str(runtimes.installed()),
        "hosts": [{"host": "node0", "ranks": [{}]}],
    }
    (disk / "plan.json").write_text(json.dumps(plan))
    (disk / "job.json").write_text(json.dumps({"job": {"request": request.to_json()}}))
    (disk / inference_requests.CHUNKS).mkdir(parents=True)
    records = rows.open_data(data)
    records_of_chunk = records.read(records.places(1000)[0])
    payload = records.payload(records_of_chunk, [{"label": "b"}] * 1000, ["label"])
    about = {"rows": 1000, "host": "node0", "rank": 0, "seconds": 1.0}
    shards.write_chunk(disk / inference_requests.CHUNKS, 0, "d1", payload, [], **about)
    ballast = fill(disk)
    with pytest.raises(ValueError, match=f"^the file system of {disk}.* on node0 is full: free some of it$"):
        prediction_files.collect(disk, "node0", shared=False)
    ballast.unlink()
    assert prediction_files.collect(disk, "node0", shared=False)["predicted"] == 1000


@pytest.mark.slow
def test_results_without_room_for_them_leave_what_was_fetched(disk: Path, tmp_path: Path) -> None:
    to = disk / "results/csv"
    to.mkdir(parents=True)
    (to / "results.json").write_text('{"started": "before"}')
    (tmp_path / "new").mkdir()
    (tmp_path / "new/model").write_bytes(os.urandom(600 << 10))
    packed = tmp_path / "new.tar"
    subprocess.run(["tar", "-cf", packed, "-C", tmp_path / "new", "."], check=True)
    with pytest.raises(ValueError, match=f"the file system of {to.parent} on .* is full"):
        fetched.unpack(packed, to, "now")
    assert [path.name for path in to.parent.iterdir()] == ["csv"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (f"OSError: [Errno 28] {FULL}: '/scratch/a b/x'", "the file system of /scratch/a b/x on node1 is full"),
        (f"cp: error writing '/opt/m': {FULL}", "the file system of /opt/m on node1 is full"),
        ("I/O error: No space left on device (os error 28)", "the file system of /job on node1 is full"),
        ("RuntimeError: [enforce fail] . unexpected pos 64 vs 0", "the file system of /job on node1 is full"),
        ("OSError: [Errno 122] Disk quota exceeded", "the file system of /job on node1 has no more room for this user"),
        ("OSError: [Errno 30] Read-only file system: '/x'", "the file system of /x on node1 is read-only"),
        ("ValueError: no room", ""),
    ],
)
def test_what_is_said_of_a_disk(line: str, problem: str) -> None:
    said = _io.disk_problem(f"Traceback\n{line}\nmore", "node1", "/job")
    assert said.startswith(problem)
    assert bool(said) == bool(problem)
    trace = f'Traceback (most recent call last):\n  File "a"\n{line}\n'
    log = f"--- rank 1 on node1 failed ---\n{trace}--- end of rank 1 ---\n"
    assert (f"; {problem}" in faults.disks(log, [], "/job", "one of its hosts")) is bool(problem)
    assert faults.disks(log, ["node2"], "/job", "") == faults.full_disks(["node2"], "/job")
