# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job directory as the server of a host serves it, until another start of the job replaces it."""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import inference_requests


@dataclass(frozen=True)
class Version:
    """A job directory of the server: one start of it.

    place: a descriptor of the directory, which finds it wherever it is moved. here: this host's name in the plan.
    """

    path: Path
    place: int
    job: dict[str, Any]
    plan: dict[str, Any]
    here: str

    @classmethod
    def read(cls, path: Path) -> Version:
        """Return what is in a directory. Raises OSError and ValueError."""
        place = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        own = Path(f"/proc/self/fd/{place}")
        job = json.loads((own / "job.json").read_text(encoding="utf-8"))
        plan = json.loads((own / "plan.json").read_text(encoding="utf-8"))
        return cls(path, place, job, plan, (own / "host").read_text(encoding="utf-8").strip())

    @property
    def files(self) -> Path:
        """The directory, wherever it has been moved."""
        return Path(f"/proc/self/fd/{self.place}")

    @property
    def start(self) -> str:
        """Which start of the job this is."""
        return str(self.job["settings"]["start"])

    @functools.cached_property
    def request(self) -> inference_requests.Serving:
        """The request that is served."""
        return inference_requests.Serving.from_json(self.job["job"]["request"])

    def limit(self, name: str) -> float:
        """Return the seconds of a limit, one of inference_requests.LIMITS."""
        return self.request.limits.get(name, inference_requests.LIMITS[name])

    @property
    def host(self) -> dict[str, Any]:
        """This host in the plan; without instances where only requests are accepted here."""
        named = [host for host in self.plan["hosts"] if host["host"] == self.here]
        own = {"host": self.here, "address": self.job["settings"].get("head_address", ""), "ranks": [], "env": {}}
        return named[0] if named else own
