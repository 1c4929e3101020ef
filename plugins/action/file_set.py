# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import secrets
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.amx.cluster.plugins.module_utils._data import file_set
from ansible_collections.amx.cluster.plugins.plugin_utils import screen

# Each file that is copied by itself takes a moment, however small: more than FEW of at most SMALL bytes are packed.
FEW = 4
SMALL = 1 << 20


def _source(entry: Mapping[str, Any]) -> str:
    """Return where a file is on the control node: at its own path, or in the directory that they come from."""
    return str(entry.get("source", entry["file"]))


class ActionModule(ActionBase):
    """Runs the module file_set on the host and copies missing and damaged files, through the open connection."""

    _supports_check_mode = True
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        options = dict(self._task.args)
        source, name = options.pop("source", None), options.pop("name", "")
        if not source:
            return self._verify(options, task_vars)
        seen = self._copy(options, source, task_vars)
        if name and not seen.get("failed") and not seen.get("unreachable"):
            on_host = (task_vars or {})["inventory_hostname"]
            new = f"{len(seen['differences'])} of {len(options['files'])} files were new on {on_host}"
            screen.show(f"{name}: {new}, {seen.get('sent_bytes', 0)} bytes")
        return seen

    def _copy(self, options: dict[str, Any], source: str, task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Copy from the control node what the host lacks; return the result of the task."""
        seen = self._verify({**options, "strict": False}, task_vars)
        if seen.get("failed") or seen.get("unreachable"):
            return seen
        differences = seen["differences"]
        seen.update(changed=seen["changed"] or bool(differences), sent_bytes=0)
        if not differences or self._task.check_mode:
            return seen
        here = Path(source).expanduser()
        files = [entry for entry in options["files"] if entry["file"] in differences]
        # Damaged here, it would be damaged there: reported before it has crossed the network.
        broken = file_set.differences(here, [{**entry, "file": _source(entry)} for entry in files])
        if broken:
            own = any("source" in entry for entry in files)
            advice = (
                "it was changed meanwhile: run again"
                if own
                else "remove this directory there and run again, which collects it anew"
            )
            return {
                "failed": True,
                "msg": f"{here} on the control node failed verification: {file_set.describe(broken)}; {advice}",
            }
        small = [entry for entry in files if entry["bytes"] <= SMALL]
        packed = {entry["file"]: entry for entry in small} if len(small) > FEW else {}
        for entry in files:
            if entry["file"] not in packed:
                self._connection.put_file(str(here / _source(entry)), f"{options['path']}/{entry['file']}")
            seen["sent_bytes"] += entry["bytes"]
        if packed:
            options["archive"] = f"{options['path']}/.{secrets.token_hex(8)}.tar"
            with tempfile.NamedTemporaryFile() as archive:
                with tarfile.open(fileobj=archive, mode="w", dereference=True) as tar:
                    for entry in packed.values():
                        tar.add(here / _source(entry), arcname=entry["file"])
                archive.flush()
                self._connection.put_file(archive.name, options["archive"])
        again = self._verify({**options, "strict": True}, task_vars)
        return again if again.get("failed") or again.get("unreachable") else seen

    def _verify(self, options: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        return dict(self._execute_module(module_name="amx.cluster.file_set", module_args=options, task_vars=task_vars))
