# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""States of the instances of a served model, as status.json of each host has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STARTING, READY, UNHEALTHY, ENDED = "starting", "ready", "unhealthy", "ended"


def answering(status: Mapping[str, Any]) -> int:
    """Return how many instances of a host answer. status: of its server; empty where it has none.

    None can be reached where there is a reason, such as that HAProxy does not answer.
    """
    return 0 if status.get("reason") else sum(instance["state"] == READY for instance in status.get("instances", []))


def is_ready(status: Mapping[str, Any]) -> bool:
    """Return whether all instances of a host answer. status: of its server."""
    return not status.get("reason") and answering(status) == len(status.get("instances", []))
