# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.module_utils import _io, _text
from ansible_collections.amx.cluster.plugins.module_utils._jobs import known_models
from ansible_collections.amx.cluster.plugins.module_utils._jobs import predictions as logic
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import HEAD, Prediction
from ansible_collections.amx.cluster.plugins.module_utils._measure import measurement
from ansible_collections.amx.cluster.plugins.plugin_utils import predictions, requested
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

ABOUT = """\
# The job of a prediction, written by playbooks/predict.yml. It is started by that playbook, which also fetches what it
# has predicted.
---
"""


class ActionModule(ControlNodeAction):
    """Makes the job of a prediction on the control node, and says how it goes on."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "request": {"type": "dict", "required": True},
        "found": {"type": "dict", "required": True},
        "again": {"type": "bool", "default": False},
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        plain = requested.plain(options)
        return self.plan(predictions.Wanted.from_json(plain["request"]), plain["found"], plain)

    def plan(self, wanted: predictions.Wanted, facts: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        """Return the job and what is to be done. Raises ValueError for what cannot be, before a change.

        facts: what the module prediction_find has found on the head.
        """
        model = wanted.model_found(facts["model"])
        described = facts["data"].get("described") or wanted.described
        if not described:  # in check mode: a program on the head describes data that are there
            return {"how": "start"}
        where = wanted.data.removeprefix(HEAD)
        task = logic.task_of(model["config"], wanted.setting.get("task") or "", wanted.model_name())
        there = described["columns"]
        columns = logic.columns_of(task, wanted.columns, model["args"], model["trained_on"], there, where)
        name = Path(where).name
        data = wanted.found["data"] or {key: facts["data"][key] for key in ("name", "sha256")}
        cell = logic.cell(wanted.setting, task, wanted.model_name(), model["args"], model["config"])
        now = logic.compared(data, {"name": wanted.model_name(), "sha256": model["sha256"]}, columns, cell)
        refused = predictions.refusal(wanted, options["again"], now)
        if refused:
            raise ValueError(refused)
        earlier = None if options["again"] else wanted.earlier()
        prediction = earlier or {
            "version": 1,
            "job": wanted.name,
            "state": "incomplete",
            "started": _text.now(),
            "ended": "",
            "request": now,
            "token": secrets.token_hex(8),
            "chunk_rows": logic.chunk_rows(described["rows"], cell["batch_size"]),
            "hosts": wanted.hosts,
        }
        request = Prediction(
            digest=logic.digest(now, prediction["token"]),
            data=f"datasets/{logic.INPUT}/{name}",
            columns=columns,
            predicted=list(known_models.PREDICTED[task]),
            chunk_rows=prediction["chunk_rows"],
            hosts=wanted.hosts,
            cell=cell,
        )
        how = self.how(wanted, request.digest, facts["previous"])
        fields = logic.job_fields(
            wanted.name,
            request,
            wanted.source(model),
            {"directory": facts["data"]["directory"], "at": "head"}
            if facts["data"]
            else {"directory": str(wanted.directory / logic.INPUT)},
            wanted.setting,
        )
        if not self._task.check_mode:
            self.write(wanted, earlier, prediction, fields)
        return {"how": how, "file": str(wanted.job_file), "digest": request.digest}

    @staticmethod
    def how(wanted: predictions.Wanted, digest: str, previous: dict[str, str]) -> str:
        """Return start, follow (it runs) or collect (it has ended), from the previous start on the head."""
        state, same = previous.get("state", ""), previous.get("digest") == digest
        if state == "running" and not same:
            raise ValueError(
                f"job {wanted.name} is running since {previous['started']} for another prediction: wait for its end "
                f"(playbooks/logs.yml -e job={wanted.name}), stop it (playbooks/stop.yml -e job={wanted.name}), or "
                "name this one with -e predict_name=NAME"
            )
        return {"running": "follow", "succeeded": "collect"}.get(state, "start") if same else "start"

    @staticmethod
    def write(
        wanted: predictions.Wanted, earlier: dict[str, Any] | None, prediction: dict[str, Any], fields: dict[str, Any]
    ) -> None:
        """Write prediction.json and the job file; another prediction in their place is moved aside. Raises OSError."""
        if not earlier:
            measurement.set_aside(wanted.path)
        if "at" not in fields["data"][logic.INPUT]:
            place = wanted.directory / logic.INPUT
            place.mkdir(exist_ok=True)
            link = place / Path(wanted.data).name
            if link.is_symlink():
                link.unlink()
            link.symlink_to(wanted.data)
        wanted.write_job(ABOUT, fields)
        _io.write_json(wanted.path, prediction)
