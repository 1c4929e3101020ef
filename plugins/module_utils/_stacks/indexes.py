# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How modules are told to reach package indexes, and how pip is told in turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

# As the fragment amx.cluster.package_indexes documents them.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "index_timeout": {"type": "int", "default": 5},
    "ca_certificate": {"type": "path"},
    "proxy": {"type": "str"},
    "credentials": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "host": {"type": "str", "required": True},
            "user": {"type": "str", "required": True},
            "password": {"type": "str", "required": True, "no_log": True},
        },
    },
}


def netrc(credentials: Iterable[Mapping[str, str]]) -> str:
    """Return a netrc file, from which pip takes what it logs in with, of credentials {host, user, password}."""
    return "".join(f"machine {c['host']} login {c['user']} password {c['password']}\n" for c in credentials)


def variables(asked: Mapping[str, Any], scratch: Path, certificate: str | None = None) -> dict[str, str]:
    """Return the variables by which pip reaches indexes as `asked`, the values of ARGUMENTS.

    scratch: a folder of this run alone, for the file with the credentials. certificate: the one by which indexes are
    trusted where none is asked for.
    """
    made: dict[str, str] = {}
    trusted = asked["ca_certificate"] or certificate
    if trusted:
        made["PIP_CERT"] = trusted
    if asked["proxy"]:
        made.update(dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), asked["proxy"]))
    if asked["credentials"]:
        file = scratch / "netrc"
        file.touch(mode=0o600)
        file.write_text(netrc(asked["credentials"]), encoding="utf-8")
        made["NETRC"] = str(file)
    return made
