from __future__ import annotations

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts.checks import ssh
from support.sound_cluster import findings, results, silent

CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
The fingerprint for the ED25519 key sent by the remote host is
SHA256:qb1n8Tz+ZV/abc.
Host key verification failed."""


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            "No ED25519 host key is known for 10.0.0.1 and you have requested strict checking.\n"
            "Host key verification failed.",
            "the head has no pinned key of this host",
        ),
        (
            "train@10.0.0.1: Permission\n denied (publickey).",
            "the head cannot log in: train@10.0.0.1: Permission denied (publickey).",
        ),
    ],
)
def test_login(message: str, text: str) -> None:
    reported = results()
    reported["node0"]["peers"]["logins"]["node1"] = message
    assert findings(ssh.login, reported) == [("node1", text)]
    assert findings(ssh.host_key, reported) == []


def test_host_key() -> None:
    reported = results()
    reported["node0"]["peers"]["logins"]["node1"] = CHANGED
    text = "its host key is not the one pinned on the head: it shows SHA256:qb1n8Tz+ZV/abc"
    assert findings(ssh.host_key, reported) == [("node1", text)]
    assert findings(ssh.login, reported) == []


def test_a_host_that_ansible_does_not_reach_is_not_reported_again() -> None:
    reported = {**results(), "node1": silent(facts={"unreachable": True})}
    reported["node0"]["peers"]["logins"]["node1"] = "Connection refused"
    assert findings(ssh.login, reported) == []
