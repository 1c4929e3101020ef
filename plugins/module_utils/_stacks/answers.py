# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reachability of package indexes, and the settings by which modules let pip reach them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.error import HTTPError

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.amx.cluster.plugins.module_utils._stacks.pip import Run


def why_silent(url: str, login: Mapping[str, str] | None, certificate: str | None, timeout: int) -> str:
    """Return why an index or a directory does not answer, or an empty string. login: {user, password}."""
    if "://" not in url:
        return "" if Path(re.sub(r"^~(?=/|$)", str(Path.home()), url)).is_dir() else "there is no such directory"
    given = (
        {"url_username": login["user"], "url_password": login["password"], "force_basic_auth": True} if login else {}
    )
    try:
        open_url(url, method="HEAD", timeout=timeout, ca_path=certificate, **given)
    except HTTPError as error:
        # Any other answer is one: not every index has a page at its root.
        return f"HTTP {error.code}, set credentials" if error.code in (401, 403, 407) else ""
    except Exception as error:  # whatever goes wrong is reported
        return str(error)
    return ""


def on_behalf_of(module: AnsibleModule) -> tuple[Run, Callable[..., str]]:
    """Return what pip runs commands with, and why_silent with the module's own patience."""

    def run(command: list[str], variables: Mapping[str, str], pass_fds: Sequence[int] = ()) -> tuple[int, str, str]:
        code, output, errors = module.run_command(command, environ_update=dict(variables), pass_fds=pass_fds)
        return code, output, errors

    def ask(url: str, login: Mapping[str, str] | None, certificate: str | None) -> str:
        return why_silent(url, login, certificate, module.params["index_timeout"])

    return run, ask
