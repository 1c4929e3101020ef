# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import file_set


class FilterModule:
    """What is derived from the files that hosts have."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"by_folder": file_set.by_folder}
