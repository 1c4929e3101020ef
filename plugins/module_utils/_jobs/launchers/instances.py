# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances of a served model: no ranks of one program, but processes of each host, which its own server starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.launcher import Killed, Launcher
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan


class Instances(Launcher):
    """The server of each host (servers/host_server.py), which starts the instances of this host again when they end."""

    name = "instances"
    rank_variables = ("AMX_CLUSTER_INSTANCE", "AMX_CLUSTER_INSTANCES", "AMX_CLUSTER_LOCAL_INSTANCE")
    pins = False
    backends = ("gloo",)

    def for_ranks(self) -> dict[str, Any]:
        """Return what rank.py needs to know of the launcher: other jobs may have the host's other cores."""
        return {**super().for_ranks(), "shares_hosts": True, "locks": False}

    def derived(self, plan: Plan) -> dict[str, str]:
        """Return no variables: nothing but the instances is started."""
        del plan
        return {}

    def files(self, plan: Plan, words: Sequence[str]) -> dict[str, str]:
        """Return no files: the runtime's command `serve` starts the instances."""
        del plan, words
        return {}

    def killed(self, log: str, plan: Plan, ended: Sequence[int] = ()) -> Killed | None:
        """Return nothing: an instance that was killed is started again."""
        del log, plan, ended
        return None


LAUNCHER = Instances()
