from __future__ import annotations

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._stacks import uv


def test_the_platform_is_not_newer_than_the_hosts() -> None:
    names = {glibc: uv.platform(glibc) for glibc in ("2.17", "2.26", "2.28", "2.30", "2.36", "2.41")}
    assert [name.rpartition("_")[2] for name in names.values()] == ["17", "17", "28", "28", "36", "40"]
    with pytest.raises(ValueError, match=r"^glibc 2\.12 is too old: 2\.17 or newer is expected$"):
        uv.platform("2.12")


def test_variables_are_those_of_pip() -> None:
    pip = {
        "PIP_INDEX_URL": "https://me:secret@main.example/simple",
        "PIP_EXTRA_INDEX_URL": "https://a.example https://b.example",
        "PIP_FIND_LINKS": "/wheels https://c.example",
        "PIP_CERT": "/ca.pem",
        "PIP_TRUSTED_HOST": "a.example b.example",
        "PIP_TIMEOUT": "60.0",
        "NETRC": "/netrc",
        "https_proxy": "http://proxy",
    }
    assert uv.variables(pip) == {
        "UV_DEFAULT_INDEX": "https://me:secret@main.example/simple",
        "UV_INDEX": "https://a.example https://b.example",
        "UV_FIND_LINKS": "/wheels,https://c.example",
        "UV_INSECURE_HOST": "a.example b.example",
        "UV_HTTP_TIMEOUT": "60",
        "SSL_CERT_FILE": "/ca.pem",
        "NETRC": "/netrc",
        "https_proxy": "http://proxy",
    }
    assert uv.variables({"PIP_NO_INDEX": "1", "PIP_INDEX_URL": ""}) == {}


def test_versions() -> None:
    output = "a==1.0\nmy-own @ file:///tmp/my.own-1.5%2Bcpu-py3-none-any.whl\ntorch==2.13.0+cpu\n"
    assert uv.versions(output) == {"a": "1.0", "my-own": "1.5+cpu", "torch": "2.13.0+cpu"}
    with pytest.raises(ValueError, match=r"^uv printed a line that is no version: -e \.$"):
        uv.versions("-e .")
