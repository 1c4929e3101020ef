"""Results are in the directory that the inventory names, for hosts and for the control node alike."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import checkout, playbooks

LOOKUP = "{{ lookup('amx.cluster.results_directory') }}"


def inventory(folder: Path, **variables: Any) -> None:
    playbooks.write_inventory(folder, folder / "prefix", {"node0": playbooks.LOCAL}, **variables)


def shown(folder: Path, *options: str) -> list[str]:
    """Return the directory on the control node, which is not in the group, and on the head."""
    plays = [
        {"hosts": hosts, "gather_facts": False, "tasks": [{"ansible.builtin.debug": {"msg": f"<{LOOKUP}>"}}]}
        for hosts in ("localhost", "head")
    ]
    (folder / "show.yml").write_text(yaml.safe_dump(plays))
    ran = playbooks.play(folder, folder / "show.yml", *options)
    assert ran.returncode == 0, ran.stdout
    return re.findall(r"<(.*)>", ran.stdout)


@pytest.mark.parametrize(
    ("variables", "options", "directory"),
    [
        ({}, [], None),
        ({"amx_results": "/srv/{{ cluster_stack }}/results"}, [], "/srv/native/results"),
        ({"amx_results": "/srv/results"}, ["-e", "amx_results=/mnt/results"], "/mnt/results"),
    ],
)
def test_the_directory_on_every_host(
    tmp_path: Path, variables: dict[str, str], options: list[str], directory: str | None
) -> None:
    inventory(tmp_path, **variables)
    assert shown(tmp_path, *options) == [directory or f"{tmp_path}/results"] * 2


def test_a_report_is_looked_for_there(tmp_path: Path) -> None:
    inventory(tmp_path, amx_results=str(tmp_path / "kept"))
    ran = playbooks.play(tmp_path, checkout.ROOT / "playbooks/report.yml", "-e", "job=gone")
    assert ran.returncode != 0
    assert f"no results of job gone in {tmp_path}/kept: " in " ".join(ran.stdout.split())
