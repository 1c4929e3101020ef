from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._stacks import indexes

NOTHING: dict[str, Any] = {"index_timeout": 5, "ca_certificate": None, "proxy": None, "credentials": []}


def test_netrc() -> None:
    login = {"host": "index.example", "user": "me", "password": "secret"}
    assert indexes.netrc([login]) == "machine index.example login me password secret\n"


def test_no_options_leave_pip_as_it_is(tmp_path: Path) -> None:
    assert indexes.variables(NOTHING, tmp_path) == {}
    assert indexes.variables(NOTHING, tmp_path, "/etc/own.pem") == {"PIP_CERT": "/etc/own.pem"}


def test_all_options(tmp_path: Path) -> None:
    options = {
        "index_timeout": 5,
        "ca_certificate": "/etc/ca.pem",
        "proxy": "http://proxy.example.com:3128",
        "credentials": [{"host": "index.example", "user": "me", "password": "secret"}],
    }
    made = indexes.variables(options, tmp_path, "/etc/own.pem")
    netrc = tmp_path / "netrc"
    assert made == {
        **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://proxy.example.com:3128"),
        "PIP_CERT": "/etc/ca.pem",
        "NETRC": str(netrc),
    }
    assert netrc.stat().st_mode & 0o777 == 0o600
    assert "secret" in netrc.read_text()


def test_every_index_is_asked_with_its_credentials() -> None:
    logins = [{"host": "index.example", "user": "me", "password": "secret"}]
    asked = {}

    def ask(url: str, login: Mapping[str, str] | None) -> str:
        asked[url] = login
        return "refused" if "other" in url else ""

    urls = ["https://index.example:8443/simple", "http://you:word@index.example", "https://other.example"]
    assert indexes.unreachable(urls, logins, ask, 60) == {"https://other.example": "refused"}
    assert asked == {urls[0]: logins[0], urls[1]: logins[0], urls[2]: None}


def test_nobody_waits_for_an_index_that_hangs() -> None:
    over = threading.Event()

    def hang(_url: str, _login: Mapping[str, str] | None) -> str:
        over.wait(60)
        return ""

    assert indexes.unreachable(["https://a"], [], hang, 0.1) == {"https://a": "no answer within 0.1 s"}
    over.set()


SETTINGS = {"extra-index-url": "https://own.example/1 https://own.example/2", "find-links": "/own"}
OPTIONS = {"index_urls": ["https://b", "https://c"], "find_links": ["/d", "https://e"]}


def test_search_in_the_indexes_that_answer() -> None:
    assert indexes.search(OPTIONS, "https://a", SETTINGS, []) == {
        "PIP_INDEX_URL": "https://a",
        "PIP_EXTRA_INDEX_URL": "https://b https://c https://own.example/1 https://own.example/2",
        "PIP_FIND_LINKS": "/d https://e /own",
    }
    assert indexes.search(OPTIONS, "https://a", {}, ["https://a", "https://c", "/d"]) == {
        "PIP_INDEX_URL": "https://b",
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_FIND_LINKS": "https://e",
    }


def test_search_without_an_index() -> None:
    assert indexes.search(OPTIONS, "none", SETTINGS, ["https://b", "https://c"]) == {
        "PIP_INDEX_URL": "",
        "PIP_NO_INDEX": "1",
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_FIND_LINKS": "/d https://e /own",
    }
    alone: dict[str, list[str]] = {"index_urls": [], "find_links": []}
    assert indexes.search(alone, "https://a", {}, ["https://a"])["PIP_NO_INDEX"] == "1"


COMMON = {
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_RETRIES": "1",
    "PIP_TIMEOUT": "7",
}


def test_search_from_a_host_without_network() -> None:
    options = {"index_urls": [], "find_links": [], "index_timeout": 7}
    assert indexes.search_from_host(options, "/wheels") == {
        **COMMON,
        "PIP_INDEX_URL": "",
        "PIP_NO_INDEX": "1",
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_FIND_LINKS": "/wheels",
        "PIP_TRUSTED_HOST": "",
    }


def test_search_from_a_host_in_indexes() -> None:
    options = {"index_urls": ["default", "http://me:secret@b:81/simple"], "find_links": ["/e"], "index_timeout": 7}
    assert indexes.search_from_host(options, "/wheels") == {
        **COMMON,
        "PIP_EXTRA_INDEX_URL": "http://me:secret@b:81/simple",
        "PIP_FIND_LINKS": "/wheels /e",
        "PIP_TRUSTED_HOST": "b:81",
    }
