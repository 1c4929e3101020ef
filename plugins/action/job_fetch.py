# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.module_utils._jobs import curves, fetched
from ansible_collections.amx.cluster.plugins.plugin_utils import document, job_page, screen, uploads
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes import known
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.action import RuntimeAction, job_name


class ActionModule(RuntimeAction):
    """Fetches the results of a job into a directory on the control node, makes its page there, and uploads both."""

    ARGUMENTS: ClassVar[dict[str, Any]] = {
        **RuntimeAction.JOB,
        "results": {"type": "path", "required": True},
        # One of uploads.TARGETS, or none.
        "upload": {"type": "str", "default": ""},
        **document.ARGUMENTS,
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        upload = uploads.of(options["upload"])
        job = job_name(options)
        runtime = known.having(job, self, task_vars)
        every = Path(options["results"]).expanduser().absolute()
        to = every / job
        if self._task.check_mode:
            screen.show(f"Would be fetched: the results of job {job} into {to}")
            return {"changed": True, "job": job}
        every.mkdir(parents=True, exist_ok=True)
        # Beside the results, on the same disk, and readable by nobody else: this play's own.
        private = Path(tempfile.mkdtemp(prefix=f".{job}.", suffix=".part", dir=every))
        try:
            packed = private / "results.tar"
            copied = runtime.fetch(job, packed)
            outcome = dict(copied.outcome)
            fetched.unpack(packed, to, outcome.get("started", ""))
            for name, path in copied.files.items():
                shutil.copy(path, to / name)
            events = curves.write_events(to)
        finally:
            shutil.rmtree(private, ignore_errors=True)
        if options["format"] == "json":
            document.emit({**outcome, "directory": str(to), **copied.facts}, options)
        else:
            note = f", {copied.note}" if copied.note else ""
            screen.show(f"{outcome.get('state', 'not ended')}: model, metrics and log are in {to}{note}")
            if events:
                screen.show(f"Its curves: tensorboard --logdir {every}")
        if outcome:
            job_page.write(job, every)
        upload(to)
        return {"changed": True, "job": job}
