# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait on a host until its instances of a served model answer."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory
from ansible_collections.amx.cluster.plugins.module_utils._jobs.servers import states


def wait(path: str, wait: float) -> dict[str, Any]:
    """Return the status of the server in a job directory, once all its instances answer, or after `wait` seconds.

    Raises ValueError where it does not run: with the end of its log where it was waited for, else with how to go on.
    """
    end = time.monotonic() + wait
    while True:
        status: dict[str, Any] = directory.look(Path(path), limit=0)["status"]
        if status["state"] != "running":
            rest = _end(directory.look(Path(path), -(1 << 14))["log"]) if wait else status.get("advice", "")
            raise ValueError(f"{Path(path).name} does not serve: {status['reason'] or status['state']}\n{rest}".strip())
        if states.is_ready(status) or time.monotonic() > end:
            return status
        time.sleep(0.2)


def _end(log: str) -> str:
    """Return the last lines of a log."""
    return "\n".join(log.splitlines()[-15:])
