# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.module_utils._data.records import Record
from ansible_collections.amx.cluster.plugins.module_utils._jobs import adapters, prediction_files, serving
from ansible_collections.amx.cluster.plugins.module_utils._jobs import predictions as logic
from ansible_collections.amx.cluster.plugins.plugin_utils import predictions, requested
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

ABOUT = """\
# The job of a served model, written by playbooks/serve.yml. It is started by that playbook.
---
"""


class ActionModule(ControlNodeAction):
    """Makes the job that serves a model on the control node, and says whether it is to be started."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "request": {"type": "dict", "required": True},
        "found": {"type": "dict", "required": True},
        "addresses": {"type": "dict", "required": True},
        "environment": {"type": "str", "required": True},
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        plain = requested.plain(options)
        wanted = predictions.WantedModel.from_json(plain["request"])
        given, override = plain["request"]["options"], plain["request"]["override"]
        model = wanted.model_found(plain["found"]["model"])
        task = logic.task_of(model["config"], wanted.setting.get("task") or "", wanted.model_name())
        on_head = plain["found"]["adapters"]
        adapter_facts = {
            name: on_head.get(name) or self.local_adapter(name, source)
            for name, source in plain["request"]["adapters"].items()
        }
        if adapter_facts and "shapes" not in model:
            model["shapes"] = adapters.shapes(Path(wanted.model))
        if given["engine"] != "amx":
            given["environment"] = plain["environment"]
        cell = logic.cell(wanted.setting, task, wanted.model_name(), model["args"], model["config"])
        request = serving.request(cell, model, wanted.columns, wanted.hosts, given, override, adapter_facts)
        sources = {
            name: {"directory": adapter["directory"], **({"at": "head"} if name in on_head else {})}
            for name, adapter in adapter_facts.items()
        }
        fields = serving.job_fields(wanted.name, request, wanted.source(model), wanted.setting, wanted.hosts, sources)
        is_running = self.is_running(
            wanted.name, request.digest, plain["found"]["previous"], replaces=plain["request"]["replaces"]
        )
        if not self._task.check_mode and not is_running:
            wanted.write_job(ABOUT, fields)
        urls = serving.urls(plain["addresses"], request.address, request.port, request.certificate)
        return {
            "file": str(wanted.job_file),
            "is_running": is_running,
            "serving": request.to_json(),
            "urls": urls,
        }

    @staticmethod
    def local_adapter(name: str, source: str) -> dict[str, Any]:
        """Return what is known of an adapter on the control node. Raises OSError, ValueError."""
        try:
            return prediction_files.of_directory(Path(source).expanduser().absolute(), Record(), adapter=True)
        except ValueError as error:
            raise ValueError(f"serve_adapters: {name}: {error}") from None

    @staticmethod
    def is_running(name: str, digest: str, previous: dict[str, str], *, replaces: bool) -> bool:
        """Return whether the same is served already. Raises ValueError where another model or setting is.

        replaces: whether that is to be replaced.
        """
        if previous.get("state") != "running":
            return False
        if previous["digest"] == digest:
            return True
        if not replaces:
            raise ValueError(
                f"job {name} serves another model, with another setting or on other hosts, since "
                f"{previous['started']}: -e serve_replace=true replaces its model while it answers, playbooks/stop.yml "
                f"-e job={name} stops it, and -e serve_name=NAME names another server"
            )
        return False
