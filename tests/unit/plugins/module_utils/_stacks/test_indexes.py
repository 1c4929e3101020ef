from __future__ import annotations

import netrc
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._stacks import indexes

NOTHING: dict[str, Any] = {"index_timeout": 5, "ca_certificate": None, "proxy": None, "credentials": []}


def test_netrc() -> None:
    login = {"host": "index.example", "user": "me", "password": "secret"}
    assert indexes.netrc([login]) == "machine index.example login me password secret\n"


@pytest.mark.parametrize("password", ["plain", "#one", 'a"b', "a:b@c/d", "'x'", "{$(~`"])
def test_what_a_netrc_file_holds(tmp_path: Path, password: str) -> None:
    logins = [{"host": "a.example", "user": "me", "password": password}, {"host": "b", "user": "b", "password": "b"}]
    (tmp_path / "netrc").write_text(indexes.netrc(logins))
    parsed = netrc.netrc(str(tmp_path / "netrc"))
    assert parsed.authenticators("a.example") == ("me", "", password)
    assert parsed.authenticators("b") == ("b", "", "b")


@pytest.mark.parametrize("wrong", ["", "two words", "a\tb", "a\\b", '"quoted"', "pass\u00e9", "a\nmachine b"])
@pytest.mark.parametrize("field", ["user", "password"])
def test_what_a_netrc_file_cannot_hold(field: str, wrong: str) -> None:
    error = (
        f"the {field} in the credentials for a.example cannot be written into a netrc file, from which pip reads it: "
        "it is empty, or has a space, a backslash, a character that is not ASCII, or a quotation mark at its beginning."
        " Change it, or write user and password into the URL of the index, percent-encoded (a space is %20), such as "
        "https://USER:PASSWORD@a.example/simple"
    )
    login = {"host": "a.example", "user": "me", "password": "secret", field: wrong}
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        indexes.netrc([login])


STACK = {
    "name": "a",
    "index_urls": ["https://me:p%20w@b.example/c", "https://d.example/e@f"],
    "n": 1,
    "l": [{"u": "http://t@h"}],
}


def test_credentials_in_urls() -> None:
    assert sorted(indexes.logins(STACK)) == ["me:p%20w@", "t@"]
    assert indexes.logins({"proxy": None, "index_urls": ["default", "https://a@b@c.example"]}) == {"a@b@"}
    assert indexes.without_logins(STACK) == {
        "name": "a",
        "index_urls": ["https://b.example/c", "https://d.example/e@f"],
        "n": 1,
        "l": [{"u": "http://h"}],
    }


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
    file = tmp_path / "netrc"
    assert made == {
        **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://proxy.example.com:3128"),
        "PIP_CERT": "/etc/ca.pem",
        "NETRC": str(file),
    }
    assert file.stat().st_mode & 0o777 == 0o600
    assert "secret" in file.read_text()


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


SETTINGS = {"extra_index_urls": ["https://own.example/1", "https://own.example/2"], "find_links": ["/own"]}
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


def test_pip_has_no_more_of_its_configuration_than_how_indexes_are_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_TARGET", "/elsewhere")
    monkeypatch.setenv("PIP_CERT", "/host.pem")
    settings = {**SETTINGS, "cert": "/own.pem", "cache_dir": False, "retries": 2, "no_index": 1}
    assert indexes.on_control_node({**NOTHING, **OPTIONS}, "https://a", settings, [], tmp_path) == {
        **indexes.search(OPTIONS, "https://a", SETTINGS, []),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_TARGET": "",
        "PIP_CERT": "/own.pem",
        "PIP_NO_CACHE_DIR": "1",
        "PIP_RETRIES": "2",
        "PIP_NO_INDEX": "",
    }
    on_host = indexes.search_from_host({"index_urls": [], "find_links": [], "index_timeout": 7}, "/wheels")
    assert on_host["PIP_TARGET"] == ""
    assert "PIP_CERT" not in on_host


@pytest.fixture
def unconfigured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)


COMMON = {
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_RETRIES": "1",
    "PIP_TIMEOUT": "7",
}


@pytest.mark.usefixtures("unconfigured")
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


@pytest.mark.usefixtures("unconfigured")
def test_search_from_a_host_in_indexes() -> None:
    options = {"index_urls": ["default", "http://me:secret@b:81/simple"], "find_links": ["/e"], "index_timeout": 7}
    assert indexes.search_from_host(options, "/wheels") == {
        **COMMON,
        "PIP_EXTRA_INDEX_URL": "http://me:secret@b:81/simple",
        "PIP_FIND_LINKS": "/wheels /e",
        "PIP_TRUSTED_HOST": "b:81",
    }
