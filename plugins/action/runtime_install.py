# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import archive
from ansible_collections.amx.cluster.plugins.plugin_utils.module_action import ModuleAction


class ActionModule(ModuleAction):
    """Packs the programs that run jobs on the control node, and has the module install them on the host."""

    def run_module(self, options: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        packed = archive.pack(archive.of_collection())
        return super().run_module({**options, "archive": base64.b64encode(packed).decode()}, task_vars)
