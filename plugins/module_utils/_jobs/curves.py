# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The curves of a job: what transformers' Trainer has logged, across restarts, and as TensorBoard reads it.

The supervisor keeps CURVES, a line of JSON for each log of rank 0's Trainer, and one for each beginning of a training:

    {trainer, step, time, metrics}: the metrics, {name: number}, that were logged at a step. time: seconds since the
    Unix epoch. trainer: which Trainer of the script, from 0 on, in the order in which they began.
    {trainer, begin, time}: a training begins after this step, 0 or the checkpoint's that it goes on from.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CURVES = "curves.jsonl"
# The directory of event files among the results.
EVENTS = "curves"


@dataclass(frozen=True)
class Point:
    """Metrics that one Trainer has logged at a step. time: seconds since the Unix epoch."""

    step: int
    time: float
    metrics: Mapping[str, float]


def read(path: Path) -> dict[int, list[Point]]:
    """Return the points of each Trainer of a job, in the order of their steps; none where there is no such file."""
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            return of_lines(stream)
    except FileNotFoundError:
        return {}


def of_lines(lines: Iterable[str]) -> dict[int, list[Point]]:
    """Return what `read` does of the lines of such a file. What is not complete is left out.

    Steps that were made anew count once: a training that begins after a step has no later points of an earlier attempt,
    nor has a Trainer that begins later in the script. Of a metric that was logged twice at a step, the last one counts.
    """
    curves: dict[int, dict[int, Point]] = {}
    for line in lines:
        try:
            entry = json.loads(line)
            number, at = int(entry.get("trainer", 0)), float(entry["time"])
            if "begin" in entry:
                curves = {trainer: points for trainer, points in curves.items() if trainer <= number}
                kept = curves.get(number, {})
                curves[number] = {step: point for step, point in kept.items() if step <= entry["begin"]}
                continue
            step, metrics = int(entry["step"]), {str(name): float(value) for name, value in entry["metrics"].items()}
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
        before = curves.setdefault(number, {}).get(step)
        curves[number][step] = Point(step, at, {**(before.metrics if before else {}), **metrics})
    return {number: [points[step] for step in sorted(points)] for number, points in sorted(curves.items()) if points}


def write_events(results: Path) -> list[Path]:
    """Write what a fetched job has logged as event files of TensorBoard; return them, one for each Trainer.

    results: its directory on the control node. Written again, they are the same. Raises OSError.
    """
    written = []
    for number, points in read(results / CURVES).items():
        directory = results / EVENTS / (str(number + 1) if number else "")
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"events.out.tfevents.{int(points[0].time):010}.{results.name}"
        for other in directory.glob(f"events.out.tfevents.*.{results.name}"):
            other.unlink()
        with path.open("wb") as stream:
            stream.writelines(map(record, events(points)))
        written.append(path)
    return written


def events(points: Iterable[Point]) -> Iterator[bytes]:
    """Yield points as messages of TensorBoard (tensorflow/core/util/event.proto), the version of the format first."""
    first = True
    for point in points:
        if first:
            yield _double(1, point.time) + _bytes(3, b"brain.Event:2")
            first = False
        values = b"".join(
            _bytes(1, _bytes(1, tag(name).encode()) + _key(2, 5) + _float(value))
            for name, value in sorted(point.metrics.items())
        )
        yield _double(1, point.time) + _key(2, 0) + _varint(point.step) + _bytes(5, values)


def tag(metric: str) -> str:
    """Return the name of a metric in TensorBoard, as the Trainer's own TensorBoardCallback has it."""
    for prefix in ("eval", "test"):
        if metric.startswith(f"{prefix}_"):
            return f"{prefix}/{metric[len(prefix) + 1 :]}"
    return f"train/{metric}"


def record(message: bytes) -> bytes:
    """Return a message as it is in an event file, a TFRecord: length, its checksum, the message, its checksum."""
    length = struct.pack("<Q", len(message))
    return length + _masked_crc(length) + message + _masked_crc(message)


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _key(field: int, kind: int) -> bytes:
    return _varint(field << 3 | kind)


def _bytes(field: int, payload: bytes) -> bytes:
    return _key(field, 2) + _varint(len(payload)) + payload


def _double(field: int, value: float) -> bytes:
    return _key(field, 1) + struct.pack("<d", value)


def _float(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:  # larger than a float of 32 bits, such as total_flos of a very long training
        return struct.pack("<f", float("inf") if value > 0 else float("-inf"))


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _bit in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC32C = _crc_table()


def _masked_crc(payload: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in payload:
        crc = _CRC32C[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def line(entry: Mapping[str, Any]) -> str:
    """Return an entry as a line of CURVES."""
    return json.dumps(entry, separators=(",", ":")) + "\n"
