from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import inventory

SEE = "see inventories/example/hosts.yml"


@pytest.mark.parametrize(
    "groups",
    [
        {"head": ["a"], "workers": [], "cluster": ["a"]},
        {"head": ["a"], "cluster": ["a"]},
        {"head": ["a"], "workers": ["b", "c"], "cluster": ["a", "b", "c"], "all": ["a", "b", "c", "d"]},
    ],
)
def test_sound(groups: dict[str, list[str]]) -> None:
    assert inventory.errors(groups) == []


@pytest.mark.parametrize(
    ("groups", "errors"),
    [
        ({}, [f"the group 'cluster' has no hosts: put the servers into its children 'head' and 'workers' ({SEE})"]),
        (
            {"cluster": ["b"], "workers": ["b"]},
            [f"the group 'head' has no host: name there the one host from which jobs are launched ({SEE})"],
        ),
        (
            {"cluster": ["a", "b"], "head": ["a", "b"]},
            ["the group 'head' has 2 hosts (a, b): keep exactly one, put the others into 'workers'"],
        ),
        (
            {"cluster": ["a", "b"], "head": ["a"], "workers": ["a", "b"]},
            ["a is in 'head' and in 'workers': the head trains too, take it out of 'workers'"],
        ),
        (
            {"cluster": ["a"], "head": ["a"], "workers": ["b"]},
            [f"b is not in 'cluster': make 'head' and 'workers' children of 'cluster' ({SEE})"],
        ),
        (
            {"cluster": ["a", "b"], "head": ["a"], "workers": []},
            ["b is in 'cluster' but neither in 'head' nor in 'workers': put it into one of them"],
        ),
        (
            {"cluster": ["a", "b", "c"], "head": ["a", "b"], "workers": ["b"]},
            [
                "the group 'head' has 2 hosts (a, b): keep exactly one, put the others into 'workers'",
                "b is in 'head' and in 'workers': the head trains too, take it out of 'workers'",
                "c is in 'cluster' but neither in 'head' nor in 'workers': put it into one of them",
            ],
        ),
    ],
)
def test_errors(groups: dict[str, list[str]], errors: list[str]) -> None:
    assert inventory.errors(groups) == errors


ADVICE = (
    "jobs would run as root, or as ansible_become_user. Turn it off, and set ansible_user to the user that runs jobs; "
    "tasks that need root use sudo by themselves (cluster_become)"
)


@pytest.mark.parametrize(
    ("become", "everywhere", "errors"),
    [
        ({"a": None, "b": False}, False, []),
        ({"a": None, "b": True, "c": True}, False, [f"ansible_become is true for b, c: {ADVICE}"]),
        ({"a": True}, True, [f"ansible_become is true for a: {ADVICE}"]),
        ({"a": None}, True, [f"become is on for every task (--become): {ADVICE}"]),
    ],
)
def test_who_runs_jobs(become: dict[str, bool | None], everywhere: bool, errors: list[str]) -> None:
    assert inventory.become_errors(become, everywhere) == errors


PLAIN = (
    "set it, or move the directory that it is in, to a path of letters, digits and ./_-+@%=,~ alone (LD_PRELOAD and "
    "PIP_FIND_LINKS cannot have others)"
)


@pytest.mark.parametrize(
    ("paths", "errors"),
    [
        ({"a": "/opt/amx-cluster", "b": "~/x_1.2/Tür", "c": None}, []),
        ({"a": "/opt/a b", "b": "/opt/a b", "c": "/opt"}, [f"p is '/opt/a b' on a, b, which has ' ': {PLAIN}"]),
        (
            {"a": "/a:b;c", "b": "/it's"},
            [f"p is '/a:b;c' on a, which has ':' ';': {PLAIN}", f'p is "/it\'s" on b, which has "\'": {PLAIN}'],
        ),
    ],
)
def test_paths(paths: dict[str, str | None], errors: list[str]) -> None:
    assert inventory.path_errors({"p": paths}) == errors


@pytest.mark.parametrize(
    ("values", "errors"),
    [
        ({"a": None, "b": None}, []),
        ({"a": "auto", "b": None}, []),
        ({"a": "mlx", "b": "mlx"}, []),
        (
            {"a": "infiniband", "b": "mlx", "c": "infiniband"},
            [
                "cluster_fabric is 'infiniband' on a, c: set it to one of auto, tcp, psm3, mlx, efa, verbs, psm2 "
                "(docs/fabrics.md)"
            ],
        ),
        (
            {"a": "tcp", "b": None},
            ["cluster_fabric is tcp on a, auto on b: set the same for all hosts, in group_vars/cluster.yml"],
        ),
    ],
)
def test_fabrics(values: dict[str, str | None], errors: list[str]) -> None:
    assert inventory.fabric_errors(values) == errors


def test_the_head_comes_first_and_workers_keep_their_order() -> None:
    assert inventory.host_order({"workers": ["c", "a", "b"], "head": ["b"]}) == ["b", "c", "a"]
    assert inventory.host_order({}) == []


def test_values() -> None:
    variables = {"inventory_hostname": "a", "facts": {"user": {"id": 7}, "none": None}}
    paths = {"host": "inventory_hostname", "id": "facts.user.id", "none": "facts.none"}
    assert inventory.values(variables, paths) == {"host": "a", "id": 7, "none": None}


@pytest.mark.parametrize("path", ["absent", "facts.absent", "absent.user", "facts.user.id.more", "facts.none.more"])
def test_a_value_that_is_not_defined(path: str) -> None:
    assert inventory.values({"facts": {"user": {"id": 7}, "none": None}}, {"it": path}) == {"it": None}


HERE = Path("/home/me/cluster")


@pytest.mark.parametrize(
    ("sources", "shown"),
    [
        (["/home/me/cluster/inventories/mine"], "-i inventories/mine"),
        (["/home/me/cluster/inventories/mine", "/etc/more hosts"], "-i inventories/mine -i '/etc/more hosts'"),
        (["/home/me/other"], "-i /home/me/other"),
        (["a,b,"], "-i a,b,"),
        (["/home/me/cluster/inventories/localhost"], ""),
        ([], ""),
    ],
)
def test_the_options_for_the_inventory_in_use(sources: list[str], shown: str) -> None:
    defaults = ["/home/me/cluster/inventories/localhost"] if sources else []
    assert inventory.option(sources, defaults, HERE) == shown


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("run site.yml, which", "run ansible-playbook -i x site.yml, which"),
        ("(playbooks/logs.yml -e job=a)", "(ansible-playbook -i x playbooks/logs.yml -e job=a)"),
        ("ansible-playbook playbooks/train.yml", "ansible-playbook -i x playbooks/train.yml"),
        (
            "ansible-playbook -i y playbooks/plan.yml -e job=site.yml",
            "ansible-playbook -i x playbooks/plan.yml -e job=site.yml",
        ),
        ("-e job=/my/playbooks/train.yml", None),
        ("my-site.yml, other/site.yml and site.yaml", None),
        ("wait: true in the job file", None),
    ],
)
def test_playbooks_in_messages_become_commands(text: str, command: str | None) -> None:
    assert inventory.commands(text, "-i x") == (command or text)
    assert inventory.commands("run site.yml", "") == "run ansible-playbook site.yml"


def test_the_line_with_which_a_playbook_begins() -> None:
    groups = {"head": ["node0"], "workers": [f"node{number}" for number in range(1, 4)]}
    assert inventory.summary(groups, "-i inventories/mine") == (
        "Hosts: 4 hosts of inventories/mine: head node0, workers node1, node2, node3"
    )
    assert inventory.summary({"head": ["a"]}, "", "a") == "Hosts: 1 host, limited to a: head a"
    many = {"head": ["n0"], "workers": [f"n{number}" for number in range(1, 100)]}
    assert inventory.summary(many, "-i x").endswith("100 hosts of x: head n0, workers n1, n2, n3, n4, n5 and 94 more")
    assert inventory.summary({"head": ["localhost"]}, "") == (
        "Hosts: localhost, this machine only. For other hosts: change to the directory of `amx init`, or use -i"
    )
    assert inventory.summary({"head": ["localhost"]}, "-i x") == "Hosts: 1 host of x: head localhost"
