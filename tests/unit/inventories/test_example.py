"""The example inventory explains every variable of a cluster, as roles and playbooks read it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "inventories/example/group_vars/cluster.yml"
READ_IN = ("roles/*/defaults/*.yml", "roles/*/tasks/*.yml", "roles/*/vars/*.yml", "playbooks/*.yml")
VARIABLE = re.compile(r"(?<![.\w])(cluster_[a-z_]+)\b(?!\()(?: *\| *default\(('[^']*'|\w+|\{\}|\[\])[,)])?")
# "# NAME (TYPE; default: DEFAULT): ..." or "# NAME (TYPE; required): ..."
ENTRY = re.compile(r"^# (\w+) \(([^;()]+); (required|default: ([^()]+))\): \S", re.MULTILINE)


# What an empty default stands for.
EMPTY = {
    "cluster_address": "that of ansible_host",
    "cluster_network": "one that all hosts share",
    "cluster_host_price_per_hour": "none",
    "cluster_spot_notices": "none",
    "cluster_slurm": "none",
}


def read() -> dict[str, set[str]]:
    """Each variable of a cluster that is read, with the defaults that are given where it is."""
    found: dict[str, set[str]] = {}
    for pattern in READ_IN:
        for path in ROOT.glob(pattern):
            for line in path.read_text(encoding="utf-8").splitlines():
                for name, default in VARIABLE.findall(line.split("# ")[0]):
                    found.setdefault(name, set()).update({default.strip("'")} if default else set())
    return found


def explained() -> dict[str, str]:
    """Each variable of the example inventory with its default; empty where it is required."""
    return {name: default for name, _kind, _rule, default in ENTRY.findall(EXAMPLE.read_text(encoding="utf-8"))}


def test_variables_are_found_where_they_are_read() -> None:
    assert {"cluster_prefix", "cluster_stack", "cluster_verify", "cluster_tcmalloc"} <= set(read())


def test_every_variable_is_explained_and_every_explained_one_is_read() -> None:
    assert {name for name in explained() if name.startswith("cluster_")} == set(read())


@pytest.mark.parametrize("name", sorted(read()))
def test_the_default_is_the_one_in_use(name: str) -> None:
    given = read()[name] - {""}
    shown = explained()[name]
    if name in EMPTY:
        assert given == set() and shown.startswith(EMPTY[name])
    else:
        assert given == ({shown} if shown else set())


def test_each_variable_follows_its_explanation() -> None:
    """It is set where it is required, and else commented out or set below its explanation."""
    values = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    blocks = EXAMPLE.read_text(encoding="utf-8").split("\n\n")[1:]
    for block, (name, default) in zip(blocks, explained().items()):
        assert re.search(rf"^(# )?{name}: \S", block, re.MULTILINE), block
        assert default or name in values, f"{name} is required"
    assert len(blocks) == len(explained())
