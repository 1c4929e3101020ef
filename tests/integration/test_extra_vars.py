"""Options with everyday names are read from the command line alone: an inventory may use the same names for its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from support import checkout, playbooks
from support.local_cluster import LocalCluster
from support.refusals import Cluster

# What an inventory may say of servers, for all hosts.
OF_AN_INVENTORY = {
    "job": "compute",
    "model": "PowerEdge R760",
    "data": "/srv/data",
    "task": "training",
    "format": "ext4",
    "output": "/var/log/output",
    "query": "select 1",
    "to": "rack 4",
    "of": "rack 4",
    "reset": "all",
    "columns": "two",
    "setting": "none",
    "output_file": "/none/out",
    "override": {"hosts": 9},
    "again": True,
    "profile": "throughput",
    "budget": "100 EUR",
    "remove": True,
}


def add_to_all(folder: Path) -> None:
    (folder / "group_vars").mkdir()
    (folder / "group_vars" / "all.yml").write_text(yaml.safe_dump(OF_AN_INVENTORY))


def show(folder: Path, expression: str, *options: str) -> str:
    """Print an expression on a host, `HOST => (VALUE)`, with options of the command line."""
    (folder / "show.yml").write_text(
        yaml.safe_dump(
            [
                {
                    "name": "Show a value",
                    "hosts": "all",
                    "gather_facts": False,
                    "tasks": [{"name": "Show", "ansible.builtin.debug": {"msg": "<{{ " + expression + " }}>"}}],
                }
            ]
        )
    )
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"one": {"ansible_connection": "local"}}}}))
    ran = playbooks.play(folder, folder / "show.yml", *options)
    assert ran.returncode == 0, ran.stdout
    return re.findall(r"<(.*)>", ran.stdout)[0]


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ([], "none"),
        (["-e", "job=jobs/demo.yml"], "jobs/demo.yml"),
        (["-e", "{job: [1, 2]}"], "[1, 2]"),
        (["-e", "job={{ inventory_hostname }}.yml"], "one.yml"),
        (["-e", "@given.yml"], "of a file"),
    ],
)
def test_a_variable_of_the_command_line(tmp_path: Path, options: list[str], value: str) -> None:
    add_to_all(tmp_path)
    (tmp_path / "given.yml").write_text("job: of a file\n")
    assert show(tmp_path, "lookup('amx.cluster.extra_var', 'job', default='none')", *options) == value


def test_what_no_command_line_says(tmp_path: Path) -> None:
    add_to_all(tmp_path)
    assert show(tmp_path, "lookup('amx.cluster.extra_var', 'serve_port')") == "8000"
    assert show(tmp_path, "lookup('amx.cluster.extra_var', 'job', default=none) is none") == "True"


def test_nothing_is_removed_for_a_variable_of_the_inventory(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, {"cluster_cache": str(tmp_path / "cache")})
    add_to_all(tmp_path)
    before = sorted(cluster.prefix.rglob("*"))
    cluster.succeed("reset", cluster.play("reset"))
    assert sorted(cluster.prefix.rglob("*")) == before
    assert "nothing was removed" in " ".join(cluster.output("reset").split()).lower()


def test_the_model_of_a_server_is_not_predicted_with(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    add_to_all(tmp_path)
    (tmp_path / "rows.csv").write_text("id,text\n1,one\n")
    said = cluster.refusal_without_hosts("predict.yml", "-e", "data=rows.csv")
    assert "no model was named: add -e amx_job=" in said


def test_a_playbook_without_a_job(tmp_path: Path) -> None:
    """The plan of a job with every field by default, not of the job that the inventory names."""
    cluster = Cluster(tmp_path)
    add_to_all(tmp_path)
    cluster.environment(cluster.prefix, "native-1")
    ran = playbooks.play(tmp_path, checkout.ROOT / "playbooks/plan.yml", "-e", "format=json", "-e", "output=plan.json")
    assert "compute" not in ran.stdout
    assert ran.returncode == 0, ran.stdout
    assert (tmp_path / "plan.json").exists()


def test_no_playbook_reads_such_a_name_from_anywhere() -> None:
    """Neither playbooks nor roles read a variable of those names but from the command line."""
    names = "|".join(OF_AN_INVENTORY)
    read = re.compile(rf"(?<![\w.])({names}) (\||is )|ansible\.builtin\.vars', '({names})'")
    found = [
        f"{name}: {line.strip()}"
        for name in checkout.tracked("playbooks/*.yml", "roles/*.yml")
        for line in (checkout.ROOT / name).read_text(encoding="utf-8").splitlines()
        if "{{" in line and not line.lstrip().startswith("#") and read.search(line)
    ]
    assert not found


@pytest.mark.parametrize(
    ("given", "hosts", "shown"),
    [
        ({"cluster_backend": "ccl", "cluster_cores": {"comm_cores": 1}}, ["one"], "ccl 1"),
        ({}, ["one"], "gloo 2"),
        ({}, [], "auto none"),
    ],
)
def test_backend_and_cores_are_those_of_a_play_else_of_the_head(
    tmp_path: Path, given: dict[str, object], hosts: list[str], shown: str
) -> None:
    """On the control node, too, where a job file is checked; and before a cloud has given hosts."""
    task = {
        "name": "Show",
        "ansible.builtin.debug": {"msg": "<{{ job_backend }} {{ job_cores.comm_cores | default('none') }}>"},
        "vars": {"job_hosts": hosts},
    }
    defaults = str(checkout.ROOT / "roles/job/defaults/main.yml")
    play = {"name": "Show values", "hosts": "localhost", "gather_facts": False, "vars": given, "vars_files": [defaults]}
    (tmp_path / "show.yml").write_text(yaml.safe_dump([{**play, "tasks": [task]}]))
    of_head = {"cluster_backend": "gloo", "cluster_cores": {"comm_cores": 2}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"cluster": {"hosts": {"one": of_head}}}))
    ran = playbooks.play(tmp_path, tmp_path / "show.yml")
    assert re.findall(r"<(.*)>", ran.stdout) == [shown], ran.stdout
