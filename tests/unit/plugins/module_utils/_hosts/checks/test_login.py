from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks import login
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks.check import Cluster
from support.sound_cluster import FULL, findings, found_on_node1, results, silent


@pytest.mark.parametrize(
    ("tasks", "reachable", "python"),
    [
        (
            {"facts": {"unreachable": True, "msg": "Failed to connect:\r\n  Connection refused."}},
            ["cannot be reached: Failed to connect: Connection refused"],
            [],
        ),
        ({"facts": {}, "info": {"unreachable": True}}, ["cannot be reached: no reason was given"], []),
        ({"facts": {"failed": True, "msg": "no Python"}}, [], ["modules fail on this host: no Python"]),
        (
            {"facts": {}, "info": {"failed": True, "module_stderr": "no ctypes"}},
            [],
            ["modules fail on this host: no ctypes"],
        ),
    ],
)
def test_a_host_that_does_not_answer(tasks: dict[str, Any], reachable: list[str], python: list[str]) -> None:
    reported = {**results(), "node1": silent(**tasks)}
    assert findings(login.reachable, reported) == [("node1", text) for text in reachable]
    assert findings(login.python, reported) == [("node1", text) for text in python]


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("Failed to connect to the host via ssh: Host key verification failed.", "Log in once with ssh"),
        (
            "@ REMOTE HOST IDENTIFICATION HAS CHANGED! @ Offending ED25519 key in /k:3 Host key verification failed.",
            "ssh-keygen -R",
        ),
        ("ubuntu@192.0.2.11: Permission denied (publickey).", "ssh-copy-id"),
        ("Connection refused", ""),
    ],
)
def test_advice_on_a_login_that_fails(message: str, advice: str) -> None:
    reported = {**results(), "node1": silent(facts={"unreachable": True, "msg": message})}
    (said,) = login.reachable.find(Cluster(reported, FULL))
    assert advice in said.advice and bool(said.advice) is bool(advice)
    assert ("its SSH key is not that of /k:3" in said.text) is ("/k:3" in message)


def test_modules_run_with_any_python() -> None:
    """Ranks have their own, which the stack chooses."""
    assert found_on_node1(login.python, {"python": "3.12.1"}) == []


def test_user() -> None:
    assert found_on_node1(login.user, {"home_writable": False}) == ["the user cannot write to its home directory"]


def test_sudo() -> None:
    reported = results(1)
    reported["node0"]["sudo"] = {"failed": True, "msg": "Missing sudo password\n"}
    assert findings(login.sudo, reported) == [("node0", "sudo does not work: Missing sudo password")]
    assert findings(login.sudo, reported, dataclasses.replace(FULL, become=False)) == []


def test_a_home_that_root_cannot_read() -> None:
    """With the words of a shell, also on a terminal, and of Ansible where root has made the directory before."""
    reported = results(3)
    denied = "/bin/sh: 0: cannot open /home/me/.ansible/tmp/copied.sh: Permission denied"
    reported["node0"]["copied"] = {"failed": True, "msg": "non-zero return code", "rc": 126, "stderr": f"{denied}\n"}
    reported["node1"]["copied"] = {"unreachable": True, "msg": "Failed to create temporary directory."}
    reported["node2"]["copied"] = {
        "failed": True,
        "msg": "non-zero return code",
        "rc": 2,
        "stdout": f"{denied}\r\n",
        "stderr": "Shared connection to 10.0.0.3 closed.\r\n",
    }
    what = "root cannot read what Ansible copies to the user's temporary directory: "
    assert findings(login.root_reads, reported) == [
        ("node0", what + denied),
        ("node1", f"{what}Failed to create temporary directory"),
        ("node2", what + denied),
    ]
    assert findings(login.root_reads, reported, dataclasses.replace(FULL, become=False)) == []
    assert findings(login.root_reads, results()) == []


def test_a_login_that_prints() -> None:
    prints = {"text": "Welcome", "file": "/home/me/.bashrc:3"}
    assert found_on_node1(login.login_prints, {"login_prints": prints}) == [
        "/home/me/.bashrc:3 prints 'Welcome' beside the output of each command over SSH"
    ]
    assert findings(login.login_prints, results()) == []


def test_login_variables() -> None:
    given = {"KMP_AFFINITY": "disabled", "OMP_NUM_THREADS": "1"}
    assert found_on_node1(login.login_variables, {"login_variables": given}) == [
        "a login shell sets KMP_AFFINITY=disabled, OMP_NUM_THREADS=1, which jobs ignore"
    ]
    assert findings(login.login_variables, results()) == []
