# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from ansible_collections.amx.cluster.plugins.module_utils._jobs import serving
from ansible_collections.amx.cluster.plugins.module_utils._measure.load import results, served, steps
from ansible_collections.amx.cluster.plugins.module_utils._measure.load.client import Client, read_url
from ansible_collections.amx.cluster.plugins.plugin_utils import document, requested, screen
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import table
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.action import RuntimeAction
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.hosts import Hosts


class ActionModule(RuntimeAction):
    """Sends requests to a server from the control node, and keeps and shows how long the answers took.

    The task's host, the head, is contacted where a server is named, and not its URL.
    """

    ROLE = "load"
    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "results": {"type": "path", "required": True},
        **document.ARGUMENTS,
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        requested.refuse_misspelt(self._loader, table.BY_NAME["load"].names)
        wanted, key = steps.read(options), served.key_of(options["serve_key_file"])
        named = str(options["server"])
        if "://" in named:
            urls, name = [named], results.name_of(read_url(named))
        else:
            urls, name = self.find(named, task_vars)
        client = Client(urls, key)
        kept = results.Results(Path(options["results"]) / f"{name}{results.SUFFIX}", name)
        if self._task.check_mode:
            screen.show(f"Would be asked: {', '.join(urls)}")
            return {}
        target = served.look(client, options["load_model"])
        bodies = served.bodies(target, options["rows"], wanted.tokens)
        kept.begin(urls, target, wanted, options["rows"])
        of_texts = target.path == served.COMPLETIONS
        for step in steps.measure(client, target, bodies, wanted):
            if not kept.run["steps"]:
                screen.show(results.head(of_texts))
            kept.add(step)
            screen.show(results.line(step, of_texts))
        kept.end()
        if options["format"] == "json":
            document.emit({"version": results.VERSION, "job": name, "file": str(kept.path), **kept.run}, options)
        else:
            page = f"playbooks/report.yml -e of={kept.path.parent}"
            screen.show(f"{results.sentence(kept.run)}\nAll steps: {kept.path}\nAs a page: {page}")
        return {"changed": True}

    def find(self, named: str, task_vars: dict[str, Any]) -> tuple[list[str], str]:
        """Return the URLs of a server that was started, and its name without its end. Raises ValueError."""
        if not named:
            raise ValueError("no server was named: add -e server=NAME, or -e server=URL")
        name = named.removesuffix(f"-{serving.SUFFIX}")
        hosts = Hosts(self, task_vars)
        directory = hosts.directory(f"{name}-{serving.SUFFIX}")
        answer = hosts.module("amx.cluster.server_info", path=directory, wait=0)
        return list(answer["urls"].values()), name
