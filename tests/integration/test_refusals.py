"""What is refused, in which words, and that nothing has been changed by then: real runs of ansible-playbook."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from support import playbooks
from support.refusals import Cluster

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


@pytest.mark.parametrize(
    ("head", "workers", "problems"),
    [
        (
            [],
            [],
            "- the group 'cluster' has no hosts: ",
        ),
        (
            [],
            ["node1"],
            "- the group 'head' has no host: ",
        ),
        (
            ["node0", "node1"],
            ["node1"],
            "- the group 'head' has 2 hosts (node0, node1): ",
        ),
    ],
)
def test_inventory(cluster: Cluster, head: list[str], workers: list[str], problems: str) -> None:
    cluster.inventory(head=head, workers=workers)
    said = cluster.refusal("site.yml")
    assert f"The inventory cannot be used:\n{problems}" in said
    assert "node0]" not in said, "a host was asked"
    assert not cluster.prefix.exists()


@pytest.mark.parametrize("playbook", ["train.yml", "plan.yml", "scale.yml", "tune.yml", "manifest.yml"])
def test_optimized_steps_of_the_inventory(cluster: Cluster, playbook: str) -> None:
    cluster.job("{name: mine, script: script.py}")
    nodes = {"image": "registry.example.com/amx:1", "workers": 1, "cpus": 8, "memory": "16Gi"}
    settings = {"cluster_optimize": "all", **({"cluster_kubernetes": nodes} if playbook == "manifest.yml" else {})}
    options = ["-e", "job=job.yml", "-e", json.dumps(settings)]
    assert "cluster_optimize: 'all' is neither " in " ".join(cluster.refusal(playbook, *options).split())


@pytest.mark.parametrize("playbook", ["scale.yml", "tune.yml", "infer.yml", "predict.yml", "serve.yml"])
def test_what_does_not_run_on_slurm(cluster: Cluster, playbook: str) -> None:
    kind = "inference" if playbook == "infer.yml" else "trainer, script: script.py"
    cluster.job(f"{{name: mine, kind: {kind}}}")
    cluster.inventory(["node1"], ["node0"], node0={**playbooks.LOCAL, "cluster_slurm": {}})
    said = cluster.refusal_without_hosts(playbook, "-e", "job=job.yml")
    assert "the inventory's host is a login host of Slurm, on which no ranks run (cluster_slurm)" in said


def test_notices_of_the_inventory(cluster: Cluster) -> None:
    cluster.job("{name: mine, script: script.py}")
    said = cluster.refusal("train.yml", "-e", "job=job.yml", "-e", "cluster_spot_notices=169.254.169.254")
    message = "cluster_spot_notices: '169.254.169.254' is not an address such as http://169.254.169.254"
    assert message in " ".join(said.split())


def test_variables_of_the_inventory(cluster: Cluster) -> None:
    cluster.prefix = cluster.folder / "my prefix"
    cluster.inventory(head=["node0"], workers=["node1"], node1={"ansible_connection": "local", "ansible_become": "yes"})
    said = cluster.refusal("preflight.yml")
    assert "- ansible_become is true for node1: jobs would run as root" in said
    assert f"- cluster_prefix is '{cluster.prefix}' on node0, node1, which has ' ': set it" in said
    assert "node0]" not in said, "a host was asked"
    cluster.prefix = cluster.folder / "prefix"
    cluster.inventory(head=["node0"], workers=[])
    assert "- become is on for every task (--become): jobs would run as root" in cluster.refusal("preflight.yml", "-b")


def test_fabrics(cluster: Cluster) -> None:
    """A value that there is not, before a host is asked; then a fabric that a host does not have."""
    said = cluster.refusal("site.yml", "-e", "cluster_fabric=infiniband")
    assert "- cluster_fabric is 'infiniband' on node0: set it to one of auto, tcp" in said
    assert "node0]" not in said, "a host was asked"
    trees = ROOT / "tests/unit/fixtures/fabrics"
    hosts = {
        name: {"ansible_connection": "local", "preflight_fabric_root": str(trees / tree)}
        for name, tree in (("node0", "infiniband_hdr"), ("node1", "infiniband_down"))
    }
    cluster.inventory(head=["node0"], workers=["node1"], **hosts)
    said = cluster.refusal("site.yml", "-e", "cluster_fabric=mlx")
    assert re.search(r"- node1: .* mlx5_0 port 1 is DOWN .* set cluster_fabric to auto\.\n", said)
    assert not cluster.prefix.exists()


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (None, ["-e", "job=job.yml"], "{folder}/job.yml: there is no such job file\n"),
        (None, [], "no job was named: add -e amx_job="),
        (
            "name: demo\nscript: [a",
            ["-e", "job=job.yml"],
            "{folder}/job.yml: is not YAML: line 2, column 11: ",
        ),
        (
            "name: demo\nscript: none.py\nranks_per_nodes: 2\nhosts: 0\n",
            ["-e", "job={folder}/job.yml"],
            "{folder}/job.yml: this job cannot be run:\n"
            "  ranks_per_nodes: unknown field; did you mean ranks_per_node?\n"
            "  script: there is no file {folder}/none.py\n"
            "  hosts: 0 is not ",
        ),
    ],
)
def test_job_file(cluster: Cluster, text: str | None, options: list[str], message: str) -> None:
    if text:
        cluster.job(text)
    here = str(cluster.folder)
    said = cluster.refusal("train.yml", *(option.replace("{folder}", here) for option in options))
    assert message.replace("{folder}", here) in said
    assert "node0]" not in said, "a host was asked"
    assert not cluster.prefix.exists()


def test_hosts_that_cannot_do_the_work(cluster: Cluster) -> None:
    cluster.inventory(head=["node0"], workers=["node1"], node1={"ansible_host": "127.0.0.1", "ansible_port": 1})
    said = cluster.refusal("site.yml", "-e", "preflight_free_gib=1000000")
    message = (
        "Nothing was changed, because node0, node1 cannot be used:\n"
        f"- node0: N GiB are free for {cluster.prefix}, 1000000.0 GiB are required. "
        "Free disk space there, or set cluster_prefix to a directory on a larger file system.\n"
        "- node1: cannot be reached: ssh: connect to host 127.0.0.1 port 1: Connection refused. "
        "Check ansible_host and ansible_user of this host, and that ssh from the control node logs in without a prompt"
        ".\n"
    )
    assert message in re.sub(r"[0-9.]+ GiB are free", "N GiB are free", said)
    assert not cluster.prefix.exists()


def test_the_line_with_which_a_playbook_begins(cluster: Cluster) -> None:
    """The hosts that it is about, and their inventory, once."""
    cluster.inventory(head=["node0"], workers=["node1"])
    said = cluster.refusal("train.yml", "-e", "job=job.yml")
    line = "Hosts: 2 hosts of hosts.yml: head node0, workers node1\n"
    assert said.count(line) == 1
    assert said.index(line) < said.index("there is no such job file")


def test_no_environment(cluster: Cluster) -> None:
    cluster.job("{name: demo, script: script.py}")
    said = cluster.refusal("train.yml", "-e", "job=job.yml")
    assert "no virtual environment on node0: run ansible-playbook -i hosts.yml site.yml" in said
    assert not cluster.prefix.exists()


def test_unlike_environments(cluster: Cluster) -> None:
    other = cluster.folder / "other"
    node1 = {"ansible_connection": "local", "cluster_prefix": str(other)}
    cluster.inventory(head=["node0"], workers=["node1"], node1=node1)
    cluster.job("{name: demo, script: script.py}")
    cluster.environment(cluster.prefix, "native-1")
    cluster.environment(other, "native-2")
    said = cluster.refusal("train.yml", "-e", "job=job.yml")
    message = (
        f"node1 has {other}/envs/native-2, and the head node0 has {cluster.prefix}/envs/native-1: "
        "run ansible-playbook -i hosts.yml site.yml"
    )
    assert message in said


def test_more_hosts_than_there_are(cluster: Cluster) -> None:
    cluster.job("{name: demo, script: script.py, hosts: 3}")
    cluster.environment(cluster.prefix, "native-1")
    said = cluster.refusal("train.yml", "-e", "job=job.yml")
    assert re.search(rf"Job demo requests 3 hosts .* 1 \(node0\): set hosts in {cluster.folder}/job\.yml", said)


def test_more_ranks_than_cores(cluster: Cluster) -> None:
    """Two hosts that refuse for one reason: told once."""
    cluster.inventory(head=["node0"], workers=["node1"])
    cluster.job("{name: demo, script: script.py, ranks_per_node: 4096}")
    cluster.environment(cluster.prefix, "native-1")
    said = cluster.refusal("train.yml", "-e", "job=job.yml")
    assert said.count("ask for at least") == 2  # Ansible itself tells each failure twice
    assert re.search(
        r"Job demo cannot be planned:\n- node0, node1: "
        r"ranks_per_node=4096, .* = 4096 cores\. This node has \d+ usable cores?, .* fits: ranks_per_node=\d+",
        said,
    )
    assert not (cluster.prefix / "jobs").exists()


def test_an_unknown_system(cluster: Cluster) -> None:
    """All that is known is named, and how to go on; then hosts without a common Python are."""
    hosts: dict[str, dict[str, Any]] = {}
    for host, system in (("node0", "ID=debian\nVERSION_ID=12"), ("node1", "ID=fedora\nVERSION_ID=43")):
        released = cluster.folder / host / "etc/os-release"
        released.parent.mkdir(parents=True)
        released.write_text(f"{system}\n")
        hosts[host] = {"ansible_connection": "local", "preflight_system_root": str(released.parents[1])}
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    other = "3.13" if own != "3.13" else "3.12"
    # What an interpreter of that version would say of itself.
    python = cluster.folder / "python"
    python.write_text(f'#!/bin/sh\necho \'["{python}", "{other}"]\'\n')
    python.chmod(0o755)
    hosts["node1"]["torch_stack_python"] = str(python)
    cluster.inventory(head=["node0"], workers=["node1"], **hosts)
    said = cluster.refusal("site.yml", "-e", "cluster_unknown_os=refuse")
    assert re.search(r"- node1: the system fedora 43 is not known\. .* set cluster_unknown_os to allow", said)
    said = cluster.refusal("site.yml")
    assert "stack native cannot be installed, " in said
    assert f"\n- Python {own}: node0\n- Python {other}: node1\nInstall a common one and set torch_stack_python" in said
    assert not cluster.prefix.exists()
