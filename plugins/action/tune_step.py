# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils import _io
from ansible_collections.amx.cluster.plugins.module_utils._cores import candidates
from ansible_collections.amx.cluster.plugins.module_utils._measure import trials, tune_text
from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use, requested, tunes

display = Display()


class ActionModule(ActionBase):
    """Records on the control node what came of a trial, and chooses the next one."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            argument_spec={
                **tunes.ARGUMENTS,
                "tried": {"type": "dict", "default": {}},
                "candidates": {"type": "dict", "default": {}},
            }
        )
        try:
            wanted = tunes.read(options)
            tried = requested.plain(options["tried"])
            content = self.record(wanted, tried) if tried else self.begin(wanted, options)
            content, trial = trials.advance(content, wanted.job, requested.now())
            if trial:
                content["running"] = {"job": trial["job"], "trial": trial, "began": time.time()}
            else:
                content["diff"] = tunes.diff(content, wanted.job)
            if not self._task.check_mode:
                _io.write_json(wanted.path, content)
        except (OSError, ValueError) as error:
            return {"failed": True, "msg": inventory_in_use.commands(str(error), task_vars)}
        return {
            "changed": False,
            "run": trial or {},
            "trial": trials.derivation(content, wanted.job, trial) if trial else {},
        }

    def begin(self, wanted: tunes.Wanted, options: dict[str, Any]) -> dict[str, Any]:
        """Return the tuning as it goes on; another one in its place is moved aside."""
        refused = tunes.refusal(wanted, options["again"])
        if refused:
            raise ValueError(refused)
        valid = candidates.common(requested.plain(options["candidates"]))
        if not valid:
            raise ValueError(
                f"job {wanted.job.name} has no settings that are valid on every one of {', '.join(wanted.hosts)}: "
                f"playbooks/plan.yml -e job={wanted.job.file} says what does not fit"
            )
        earlier = None if options["again"] else wanted.earlier()
        if earlier:
            return trials.with_candidates(trials.continued(earlier, wanted.request.budget_minutes), valid)
        if not self._task.check_mode:
            requested.begin_anew(wanted.path)
        return trials.with_candidates(wanted.content, valid)

    @staticmethod
    def record(wanted: tunes.Wanted, tried: dict[str, Any]) -> dict[str, Any]:
        """Return the tuning with the trial that has ended."""
        earlier = wanted.earlier()
        if earlier is None or not earlier.get("running"):
            raise ValueError(f"{wanted.path} is gone, or is not complete JSON")
        running = earlier["running"]
        content = trials.recorded(earlier, running["trial"], tried, max(0.0, time.time() - running["began"]))
        display.display(tune_text.line(content["trials"][-1]))
        return content
