from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._stacks import indexes

NOTHING: dict[str, Any] = {"index_timeout": 5, "ca_certificate": None, "proxy": None, "credentials": []}


def test_netrc() -> None:
    login = {"host": "index.example", "user": "me", "password": "secret"}
    assert indexes.netrc([login]) == "machine index.example login me password secret\n"


def test_nothing_asked_leaves_pip_as_it_is(tmp_path: Path) -> None:
    assert indexes.variables(NOTHING, tmp_path) == {}
    assert indexes.variables(NOTHING, tmp_path, "/etc/own.pem") == {"PIP_CERT": "/etc/own.pem"}


def test_everything_asked(tmp_path: Path) -> None:
    asked = {
        "index_timeout": 5,
        "ca_certificate": "/etc/ca.pem",
        "proxy": "http://proxy.example.com:3128",
        "credentials": [{"host": "index.example", "user": "me", "password": "secret"}],
    }
    made = indexes.variables(asked, tmp_path, "/etc/own.pem")
    netrc = tmp_path / "netrc"
    assert made == {
        **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://proxy.example.com:3128"),
        "PIP_CERT": "/etc/ca.pem",
        "NETRC": str(netrc),
    }
    assert netrc.stat().st_mode & 0o777 == 0o600
    assert "secret" in netrc.read_text()
