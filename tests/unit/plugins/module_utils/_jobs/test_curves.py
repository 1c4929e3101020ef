"""What was logged, as curves: restarts, several Trainers, lines that are not complete, and event files."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import curves

# The version of the format, and {eval/loss: 0.25, train/loss: -1} at step 300, as TensorBoard's own writer has them.
WRITTEN = bytes.fromhex(
    "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c33000000000000000ca7205609000000000000f83f10ac022a250a100a096576616c2f6c6f7373150000803e0a110a0a747261696e2f6c6f737315000080bf8c557c08"
)


def begin(step: int, trainer: int = 0) -> dict[str, Any]:
    return {"trainer": trainer, "begin": step, "time": 0.0}


def log(step: int, trainer: int = 0, **metrics: float) -> dict[str, Any]:
    return {"trainer": trainer, "step": step, "time": 100.0 + step, "metrics": metrics}


def found(*entries: dict[str, Any]) -> dict[int, list[tuple[int, dict[str, float]]]]:
    read = curves.of_lines(map(curves.line, entries))
    return {number: [(point.step, dict(point.metrics)) for point in points] for number, points in read.items()}


def test_steps_after_the_checkpoint_are_those_of_the_last_attempt() -> None:
    attempts = [begin(0), log(1, loss=4), log(2, loss=3), log(3, loss=9), begin(2), log(3, loss=2), log(4, loss=1)]
    assert found(*attempts) == {0: [(1, {"loss": 4}), (2, {"loss": 3}), (3, {"loss": 2}), (4, {"loss": 1})]}
    assert found(*attempts, begin(0)) == {}


def test_metrics_of_one_step_are_one_point() -> None:
    evaluated = [log(0, eval_loss=5), begin(0), log(2, loss=3), log(2, eval_loss=4), log(2, loss=2)]
    assert found(*evaluated) == {0: [(0, {"eval_loss": 5}), (2, {"loss": 2, "eval_loss": 4})]}


def test_several_trainers_of_a_script() -> None:
    folds = [begin(0), log(1, loss=2), begin(0, 1), log(1, 1, loss=3), begin(0, 2), log(1, 2, loss=4)]
    assert found(*folds) == {number: [(1, {"loss": number + 2})] for number in range(3)}
    assert list(found(*folds, begin(1, 1), log(2, 1, loss=0))) == [0, 1], "the third begins after the second"


def test_what_is_not_complete_is_left_out() -> None:
    lines = ['{"trainer":0,"st', "", "[]", '{"step": 1, "time": 1, "metrics": {"loss": "text"}}', '{"begin": "x"}']
    (points,) = curves.of_lines([*lines, curves.line(log(1, loss=math.nan))]).values()
    assert [point.step for point in points] == [1]
    assert math.isnan(points[0].metrics["loss"])


def test_event_files(tmp_path: Path) -> None:
    assert curves.write_events(tmp_path) == []
    assert not list(tmp_path.iterdir())
    logged = {"step": 300, "time": 1.5, "metrics": {"loss": -1, "eval_loss": 0.25}}
    (tmp_path / curves.CURVES).write_text(json.dumps(logged))
    (path,) = curves.write_events(tmp_path)
    assert path == tmp_path / "curves" / f"events.out.tfevents.0000000001.{tmp_path.name}"
    assert path.read_bytes() == WRITTEN
    # Those of another run in their place, and of a second Trainer beside them.
    entries = [{**logged, "time": 2.5}, {**logged, "trainer": 1}]
    (tmp_path / curves.CURVES).write_text("".join(map(curves.line, entries)))
    (tmp_path / "curves/mine").touch()
    first, second = curves.write_events(tmp_path)
    assert sorted(file.name for file in (tmp_path / "curves").iterdir()) == ["2", first.name, "mine"]
    assert second.parent == tmp_path / "curves/2"


@pytest.mark.parametrize(("value", "stored"), [(1e300, math.inf), (-1e300, -math.inf), (0.1, 0.1)])
def test_numbers_are_of_32_bits(value: float, stored: float) -> None:
    _version, message = curves.events([curves.Point(1, 0.0, {"total_flos": value})])
    assert struct.unpack("<f", message[-4:]) == (pytest.approx(stored, rel=1e-6),)


@pytest.mark.parametrize(
    ("metric", "tag"),
    [("loss", "train/loss"), ("eval_loss", "eval/loss"), ("test_f1", "test/f1"), ("evals", "train/evals")],
)
def test_tags(metric: str, tag: str) -> None:
    assert curves.tag(metric) == tag
