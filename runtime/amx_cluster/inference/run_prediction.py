# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One instance of a batch prediction: a rank that computes its chunks of the data, and no other rank's.

A chunk that is there is not computed again. Rows that cannot be predicted on are kept in their chunk with the reason.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from amx_cluster.inference import loaded, shards, tasks
from amx_cluster.inference.instance import Instance
from ansible_collections.amx.cluster.plugins.module_utils._data import rows
from ansible_collections.amx.cluster.plugins.module_utils._jobs import inference_requests


class Progress:
    """Reports how many rows this rank has: to the job's supervisor, with the observer's heartbeats."""

    def __init__(self, total: int, there: int) -> None:
        """Begin. total: rows of all chunks of this rank. there: rows of those that were there already."""
        self.told: dict[str, Any] = {"rows": there, "of": total, "first": there, "began": time.time()}
        self.done = there
        self.finished = False
        self.observer = getattr(sys.modules.get("amx_cluster.observer"), "observer", None)
        self.report(0)

    def report(self, within: float) -> None:
        """Report the rows that are done, and those within the chunk that is not yet."""
        self.told = {**self.told, "rows": self.done + int(within), "time": time.time()}
        if self.observer is not None:
            self.observer.heartbeat.rows = self.told
            self.observer.activity.note()

    def finish(self, count: int) -> None:
        """Report that a chunk is written: from now on a failed job is worth being started again."""
        self.done += count
        self.report(0)
        if self.observer is not None:
            self.observer.activity.step()
            if not self.finished:  # at once: it may be killed before the next heartbeat
                self.observer.heartbeat.send()
        self.finished = True


def rejected(record: rows.Record) -> dict[str, Any]:
    """Return a broken row for the side file."""
    row: Any = record.content
    if not row:
        row = json.loads(json.dumps(dict(record.values), default=str))
    return {"line": record.line, "reason": record.problem, "row": row}


def run(request: inference_requests.Prediction, job_directory: Path, host: str, rank: int, local: int) -> None:
    """Compute the chunks of this rank. rank: over all hosts. local: on this host. Raises OSError, ValueError."""
    plan = json.loads((job_directory / "plan.json").read_text(encoding="utf-8"))
    ranks = shards.ranks_of(plan)
    directory = job_directory / inference_requests.CHUNKS
    directory.mkdir(parents=True, exist_ok=True)
    data = rows.open_data(job_directory / request.data)
    places = shards.places(directory, data, request)
    mine = [chunk for chunk in range(len(places)) if shards.owner(chunk, request.hosts, ranks) == (host, local)]
    there = shards.elsewhere(directory, ranks)
    there.update(chunk for chunk in mine if shards.is_there(directory, chunk, request.digest))
    left = [chunk for chunk in mine if chunk not in there]
    progress = Progress(
        sum(places[chunk].rows for chunk in mine), sum(places[chunk].rows for chunk in mine if chunk in there)
    )
    print(f"rank {rank} on {host}: {len(left)} of {len(mine)} chunks are left", flush=True)
    if not left:
        return
    instance = Instance(request.cell, request.columns, ranks[host], data.read(places[0]))
    # A chunk's time ends where the next one's begins: before it is written.
    began = time.monotonic()
    for chunk in left:
        records = data.read(places[chunk])
        good, added, broken = instance.predict(records, progress.report)
        cut = [answer.pop(tasks.CUT) for answer in added if tasks.CUT in answer]
        payload = data.payload(good, added, request.predicted)
        before, began = began, time.monotonic()
        shards.write_chunk(
            directory,
            chunk,
            request.digest,
            payload,
            [rejected(record) for record in broken],
            rows=len(good),
            cut=len(cut),
            rank=rank,
            host=host,
            seconds=round(began - before, 6),
        )
        progress.finish(len(records))


def main() -> None:
    job, host, rank = Path(os.environ["AMX_CLUSTER_JOB"]), os.environ["AMX_CLUSTER_HOST"], int(os.environ["RANK"])
    try:
        request = inference_requests.Prediction.from_json(inference_requests.of_job(job))
        run(request, job, host, rank, int(os.environ["LOCAL_RANK"]))
    except loaded.Unavailable as error:
        sys.exit(f"rank {rank} on {host} cannot predict: {error}")


if __name__ == "__main__":
    main()
