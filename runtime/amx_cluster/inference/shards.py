# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Chunks of a prediction: which rank computes which, the files that keep them, and the one output of all.

    python -m amx_cluster.inference.shards [--list] JOB_DIRECTORY

writes output/predictions.* from the chunks there and prints a summary as JSON; with --list, the numbers of the chunks.

A chunk is a fixed number of rows of the data. Its file, output/predictions/chunk-N, is complete or not there, and says
which prediction it is of and what its SHA-256 is: whoever finds it on any host can use it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from ansible_collections.amx.cluster.plugins.module_utils._data import rows
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import (
    CHUNKS,
    ELSEWHERE,
    Prediction,
    of_job,
)

INDEX = "index.json"
# What is made of the chunks, in output/; the output itself ends as the data do.
OUTPUT, REJECTED, SUMMARY = "predictions", "predictions.rejected.jsonl", "prediction.json"


class IncompleteError(ValueError):
    """Chunks are missing; the text says which."""


# --- who computes which ---


def slots(hosts: Sequence[str], ranks_per_host: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return (host, rank on it, from 0) in the order in which they take chunks, also those of hosts that are gone.

    hosts: those that the prediction began with. ranks_per_host: {host: how many ranks it has now}; one that is gone
    counts as if it had as many as the largest of the others.
    """
    most = max(ranks_per_host.values())
    order = [*hosts, *(host for host in ranks_per_host if host not in hosts)]
    return [(host, place) for host in order for place in range(ranks_per_host.get(host, most))]


def owner(chunk: int, hosts: Sequence[str], ranks_per_host: Mapping[str, int]) -> tuple[str, int]:
    """Return (host, rank on it) that computes a chunk: one of those that are there now. Arguments as for slots.

    All ranks come to the same without asking each other. When a host is lost its chunks are dealt out to the others,
    which keep their own.
    """
    all_slots = slots(hosts, ranks_per_host)
    host, place = all_slots[chunk % len(all_slots)]
    if host in ranks_per_host:
        return host, place
    left = [slot for slot in all_slots if slot[0] in ranks_per_host]
    return left[chunk // len(all_slots) % len(left)]


def ranks_of(plan: Mapping[str, Any]) -> dict[str, int]:
    """Return {host: how many ranks it has} of plan.json."""
    return {host["host"]: len(host["ranks"]) for host in plan["hosts"]}


# --- the files of chunks ---


def path_of(directory: Path, chunk: int) -> Path:
    return directory / f"chunk-{chunk:07d}"


def write_whole(path: Path, parts: Iterable[bytes]) -> None:
    """Put a file in its place when all of it is on the disk. Raises OSError."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with part.open("wb") as stream:
        for data in parts:
            stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(path)


def digest(rejected: Sequence[Mapping[str, Any]], payload: bytes) -> str:
    """Return the SHA-256 of the results in a chunk."""
    hashed = hashlib.sha256(json.dumps(rejected).encode())
    hashed.update(payload)
    return hashed.hexdigest()


def write_chunk(
    directory: Path, chunk: int, request: str, payload: bytes, rejected: Sequence[Mapping[str, Any]], **about: Any
) -> None:
    """Write the file of a chunk. request: the digest of the prediction. about: further entries of its header."""
    header = {
        "version": 1,
        "chunk": chunk,
        "request": request,
        "bytes": len(payload),
        "rejected": list(rejected),
        "sha256": digest(rejected, payload),
        **about,
    }
    write_whole(path_of(directory, chunk), [json.dumps(header).encode() + b"\n", payload])


def read_chunk(path: Path, request: str) -> tuple[dict[str, Any], bytes]:
    """Return (header, payload) of a chunk. Raises OSError, and ValueError where it is damaged or of another request."""
    with path.open("rb") as stream:
        header = json.loads(stream.readline())
        payload = stream.read()
    if not isinstance(header, dict) or header.get("request") != request:
        raise ValueError(f"{path.name} is of another prediction")
    if header["bytes"] != len(payload) or header["sha256"] != digest(header["rejected"], payload):
        raise ValueError(f"{path.name} is damaged")
    return header, payload


def is_there(directory: Path, chunk: int, request: str) -> bool:
    """Return whether a chunk of this request is in a directory, and complete."""
    try:
        return bool(read_chunk(path_of(directory, chunk), request)[0]["chunk"] == chunk)
    except (OSError, ValueError, KeyError):
        return False


def sound(directory: Path, request: str) -> list[int]:
    """Return the numbers of the chunks of this request in a directory, and remove other files of chunks: damaged ones.

    Raises OSError.
    """
    chunks = []
    for path in directory.glob("chunk-*"):
        try:
            chunk = int(read_chunk(path, request)[0]["chunk"])
        except (ValueError, KeyError, TypeError):
            chunk = -1
        if chunk >= 0 and path == path_of(directory, chunk):
            chunks.append(chunk)
        else:
            path.unlink()
    return sorted(chunks)


def elsewhere(directory: Path, hosts: Iterable[str]) -> set[int]:
    """Return the numbers of the chunks that these hosts had when the job was started."""
    try:
        known = json.loads((directory / ELSEWHERE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return set()
    return {chunk for host in hosts for chunk in known.get(host, [])}


# --- where the chunks are in the data ---


def places(directory: Path, data: rows.Data, request: Prediction) -> list[rows.Place]:
    """Return where the chunks of a request begin. Of the ranks of a host one finds out, and the others wait for it."""
    index = directory / INDEX
    with (directory / ".index.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            known = json.loads(index.read_text(encoding="utf-8"))
            if known["request"] == request.digest:
                return [rows.Place(**place) for place in known["places"]]
        made = data.places(request.chunk_rows)
        document = {"version": 1, "request": request.digest, "places": [asdict(place) for place in made]}
        write_whole(index, [json.dumps(document).encode()])
    return made


# --- the output ---


def merge(job_directory: Path, request: Prediction) -> dict[str, Any]:
    """Write the output of all chunks in a job directory, in the order of the data; return its summary.

    Each row of the data is then once in the output, or in the file of rejected rows. Raises IncompleteError when chunks
    are missing, DataError and OSError.
    """
    directory, output = job_directory / CHUNKS, job_directory / "output"
    directory.mkdir(parents=True, exist_ok=True)
    data = rows.open_data(job_directory / request.data)
    wanted = places(directory, data, request)
    missing = [chunk for chunk in range(len(wanted)) if not path_of(directory, chunk).is_file()]
    if missing:
        raise IncompleteError(_missing(missing, len(wanted)))
    headers: list[dict[str, Any]] = []

    def payloads() -> Iterator[bytes]:
        for chunk, place in enumerate(wanted):
            try:
                header, payload = read_chunk(path_of(directory, chunk), request.digest)
            except (ValueError, KeyError) as error:
                path_of(directory, chunk).unlink()
                raise IncompleteError(f"{error}, and was removed") from error
            if header["rows"] + len(header["rejected"]) != place.rows:
                raise IncompleteError(f"chunk {chunk} has not the {place.rows} rows of the data")
            headers.append({**header, "rejected": len(header["rejected"])})
            for row in header["rejected"]:
                rejected.append((json.dumps(row, ensure_ascii=False) + "\n").encode(errors="replace"))
            yield payload

    rejected: list[bytes] = []
    target = output / f"{OUTPUT}{Path(request.data).suffix}"
    with _replaced(target) as stream:
        data.join(stream, payloads(), request.predicted)
    files = [target]
    (output / REJECTED).unlink(missing_ok=True)
    if rejected:
        write_whole(output / REJECTED, rejected)
        files.append(output / REJECTED)
    summary = {
        "version": 1,
        "request": request.digest,
        "rows": sum(place.rows for place in wanted),
        "predicted": sum(header["rows"] for header in headers),
        "rejected": sum(header["rejected"] for header in headers),
        "cut": sum(header.get("cut", 0) for header in headers),
        "chunks": len(wanted),
        **speed(headers),
        "files": [{"file": path.name, "bytes": path.stat().st_size, "sha256": sha256(path)} for path in files],
    }
    write_whole(output / SUMMARY, [json.dumps(summary, indent=1).encode() + b"\n"])
    return summary


def speed(headers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return {instances, busy_seconds, rows_per_second}: what all instances together did while they were at chunks.

    Loading the model is not in it, as in the benchmark. rows_per_second: None where no chunk has a time.
    """
    instances = {(header["host"], header["rank"]) for header in headers}
    busy = sum(header["seconds"] for header in headers)
    count = sum(header["rows"] for header in headers)
    rate = count * len(instances) / busy if busy > 0 else None
    return {"instances": len(instances), "busy_seconds": round(busy, 3), "rows_per_second": rate}


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file. Raises OSError."""
    made = hashlib.sha256()
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            made.update(block)
    return made.hexdigest()


@contextlib.contextmanager
def _replaced(path: Path) -> Iterator[IO[bytes]]:
    """Give a stream whose content takes the place of a file when it was written to its end."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as stream:
            yield stream
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _missing(chunks: Sequence[int], of: int) -> str:
    shown = ", ".join(map(str, chunks[:5])) + (f" and {len(chunks) - 5} more" if chunks[5:] else "")
    return f"{len(chunks)} of {of} chunks are missing: {shown}"


if __name__ == "__main__":
    try:
        here = Path(sys.argv[-1])
        wanted = Prediction.from_json(of_job(here))
        if "--list" in sys.argv:  # which chunks are there, and complete
            print(json.dumps(sound(here / CHUNKS, wanted.digest)))
        else:
            print(json.dumps(merge(here, wanted)))
    except (OSError, ValueError, KeyError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
