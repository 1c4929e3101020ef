# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import json
import tarfile
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import live, objects
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api
from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use, jobs_in_pods

display = Display()


def outcome(packed: Path) -> dict[str, Any]:
    """Return results.json of a packed job directory; where the job has left none, its status.json, or nothing."""
    with tarfile.open(packed) as archive:
        for name in ("results.json", "status.json"):
            for path in (name, f"./{name}"):
                with contextlib.suppress(KeyError, ValueError):
                    stream = archive.extractfile(path)
                    if stream is not None:
                        return dict(json.load(stream))
    return {}


class ActionModule(ActionBase):
    """Fetches the packed directory of a job from the volume to the control node, by the reader pod, and verifies it."""

    _supports_check_mode = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            {
                **jobs_in_pods.ARGUMENTS,
                "reader": {"type": "str", "required": True},
                "path": {"type": "path"},
                "list": {"type": "bool", "default": False},
            }
        )
        try:
            api, chosen = jobs_in_pods.connect(options, jobs_in_pods.EXEC)
            if options["list"]:
                return {"changed": False, "jobs": self.listed(api, chosen.namespace, options["reader"])}
            return self.fetch(api, chosen.namespace, options)
        except (OSError, ValueError, tarfile.TarError) as error:
            return {"failed": True, "msg": inventory_in_use.commands(str(error), task_vars)}

    @staticmethod
    def listed(api: Api, namespace: str, pod: str) -> list[dict[str, Any]]:
        """Return the job directories of the volume. Raises ValueError."""
        return list(live.ask(api, namespace, pod, objects.READS, ["list"], live.PACKING)["jobs"])

    def fetch(self, api: Api, namespace: str, options: dict[str, Any]) -> dict[str, Any]:
        """Have the directory packed, and fetch it. Raises ValueError and OSError."""
        name = jobs_in_pods.object_name(options["job"])
        pod, to = options["reader"], Path(options["path"]).expanduser()
        found = next(iter(live.gather(api, namespace, name)), None)
        start = found.start if found else ""
        if not start:
            start = live.newest(self.listed(api, namespace, pod), name)
        words = f"{name}-{start}"
        packed = live.ask(api, namespace, pod, objects.READS, ["pack", words], live.PACKING)
        to.parent.mkdir(parents=True, exist_ok=True)
        read = live.parts(api, namespace, pod, packed["path"])
        live.fetch(read, int(packed["bytes"]), packed["sha256"], to, display.display)
        sums = {key: packed[key] for key in ("bytes", "sha256")}
        return {"changed": True, **sums, "directory": f"jobs/{words}", "outcome": outcome(to)}
