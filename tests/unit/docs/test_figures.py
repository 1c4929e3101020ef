"""Figures that texts repeat are those of the tables of docs/performance.md and docs/installation_time.md."""

from __future__ import annotations

import pytest
from support.checkout import ROOT


def page(name: str) -> str:
    """A page in one line."""
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def figure(name: str, heading: str, row: str, column: int) -> float:
    """A number of the first table below a heading, by the first cell of its row and the place of its column."""
    text = (ROOT / name).read_text(encoding="utf-8").partition(heading)[2]
    cells = next(line for line in text.splitlines() if line.startswith(f"| {row} |")).split("|")
    return float(cells[column])


def measured() -> dict[str, str]:
    """What was measured, as texts write it."""
    speed, install = "docs/performance.md", "docs/installation_time.md"
    two, one = "### Two hosts of one core", "### One host of two cores, two ranks"
    again = "### site.yml with nothing to change"
    joined = figure(speed, "### Two hosts and one", "two hosts, mpi", 3)
    found = {
        "one_rank": f"{figure(speed, two, 'torchrun --nproc-per-node 1', 4):.2f}",
        "two_ranks": f"{figure(speed, one, 'torchrun --nproc-per-node 2', 4):.2f}",
        "spawn": f"{figure(speed, one, 'torch.multiprocessing.spawn', 4):.0f}",
        "joined": f"{joined:.2f}",
        "cost": f"{100 * (1 - joined):.0f}",
    }
    found |= {f"again_{hosts}": f"{figure(speed, again, str(hosts), 2):.0f}" for hosts in (3, 6)}
    found |= {f"bare_{hosts}": f"{figure(install, '# Installation time', str(hosts), 2):.0f}" for hosts in (1, 3, 6)}
    return found


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("README.md", "{one_rank} to {two_ranks} times as fast as with `torchrun`"),
        ("README.md", "exchanging gradients costs {cost} %"),
        ("docs/performance.md", "{one_rank} times as fast started by the collection as by `torchrun`"),
        ("docs/performance.md", "{two_ranks} times with two ranks on a host, and {spawn} times as fast"),
        ("docs/performance.md", "Two hosts reach {joined} of two"),
        ("docs/performance.md", "`site.yml` takes {again_3} s on three hosts"),
        ("docs/installation_time.md", "{bare_1} s on 1 host, {bare_3} s on 3 and {bare_6} s on 6"),
        ("docs/tutorial.md", "{again_3} s on 3 hosts, {again_6} s on 6"),
        ("docs/tutorial.md", "{bare_3} s for three hosts and {bare_6} s for six"),
    ],
)
def test_texts_repeat_what_was_measured(name: str, text: str) -> None:
    assert text.format(**measured()) in page(name)
