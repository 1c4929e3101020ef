# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: compact
type: stdout
short_description: One line for each role or play, failures in full
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Prints a line for each role, and for each play without roles, with its time and the hosts that it changed.
  - Failures are printed in full, with host, task, file and line, and the message as it is. Failures that are ignored or
    rescued take one line. Warnings are printed once.
  - Messages of M(ansible.builtin.debug), and reports of this collection, are always printed.
  - On a terminal, the last line shows the task that runs, or the progress of a job, and is drawn again in its place.
    Files and pipes get plain lines.
  - With C(-v), the output is that of P(ansible.builtin.default#callback), with the options of that plugin.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
requirements:
  - Set as C(stdout_callback) in the section C(defaults) of C(ansible.cfg), or as E(ANSIBLE_STDOUT_CALLBACK).
options:
  changed_tasks:
    description:
      - Whether each task that changed a host is printed. With V(auto) it is in check mode and in diff mode.
    type: str
    choices: [auto, always, never]
    default: auto
    version_added: 1.0.0
    env:
      - name: AMX_CLUSTER_CHANGED_TASKS
    ini:
      - section: callback_compact
        key: changed_tasks
  redraw:
    description:
      - Whether the last line of a terminal is drawn again in its place. It never is in files, in pipes and on
        terminals with C(TERM=dumb).
    type: bool
    default: true
    version_added: 1.0.0
    env:
      - name: AMX_CLUSTER_REDRAW
    ini:
      - section: callback_compact
        key: redraw
seealso:
  - plugin: ansible.builtin.default
    plugin_type: callback
"""

EXAMPLES = r"""
ansible.cfg: |
  [defaults]
  stdout_callback = amx.cluster.compact

  [callback_compact]
  changed_tasks = always
"""

import functools
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from ansible import context
from ansible.plugins.callback.default import CallbackModule as Default
from ansible_collections.amx.cluster.plugins.module_utils import _screen
from ansible_collections.amx.cluster.plugins.module_utils._jobs import progress
from ansible_collections.amx.cluster.plugins.plugin_utils import ansible_core as tasks
from ansible_collections.amx.cluster.plugins.plugin_utils import compact_text, inventory_in_use, screen
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command.launch import STARTED_BY
from ansible_collections.amx.cluster.plugins.plugin_utils.compact_text import Section

# The pattern with which a play says itself that this time there is nothing to do for it.
NO_HOSTS = ["!all"]
# What prints the progress of a job itself.
FOLLOWING = ("amx.cluster.job_start", "amx.cluster.job_log")
# The play on the control node (playbooks/inventory.yml) that others can do without where --limit names hosts.
SKIPPED_BY_LIMIT = "Check the inventory"
DEBUG = ("debug", "ansible.builtin.debug", "ansible.legacy.debug")


def compactly(method: Callable[..., None]) -> Callable[..., None]:
    """Leave an event to the default callback where details are wanted (-v)."""

    @functools.wraps(method)
    def either(self: CallbackModule, *args: Any, **options: Any) -> None:
        if self._display.verbosity:
            getattr(Default, method.__name__)(self, *args, **options)
        else:
            method(self, *args, **options)

    return either


def _end_quietly(*_signal: Any) -> None:
    """Exit as a program that SIGINT has ended."""
    raise SystemExit(128 + signal.SIGINT)


class CallbackModule(Default):
    """The output of ansible-playbook in few lines."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "amx.cluster.compact"

    def __init__(self) -> None:
        super().__init__()
        self._began = time.monotonic()
        self._live: screen.Live | None = None
        self._reminder = screen.Reminder()
        self._section: Section | None = None
        # Of strategies in which hosts run different tasks at a time, sections end with the play.
        self._sections: dict[str, Section] = {}
        self._task: Any = None
        self._started: dict[str, set[str]] = {}
        self._finished: dict[str, set[str]] = {}
        self._handlers: set[str] = set()
        self._told: dict[tuple[str, str], str] = {}
        self._headed: set[tuple[str, str]] = set()
        self._retried: set[tuple[str, str]] = set()
        # The hosts that failed items were delegated to: Ansible tells them with each item only.
        self._delegates: dict[tuple[str, str], list[str]] = {}

    def set_options(self, task_keys: Any = None, var_options: Any = None, direct: Any = None) -> None:
        super().set_options(task_keys=task_keys, var_options=var_options, direct=direct)
        if self._display.verbosity:
            return
        detected = screen.measure(self.get_option("redraw"))
        if detected.redraws and self._live is None:
            self._live = screen.Live(detected, progress.lines)
            self._live.attach()

    # --- plays and tasks ---

    @compactly
    def v2_playbook_on_start(self, playbook: Any) -> None:
        self._began = time.monotonic()
        if os.environ.get(STARTED_BY) == "logs":
            # The way to end it, and no error: Ansible would say that the user interrupted the execution.
            signal.signal(signal.SIGINT, _end_quietly)

    @compactly
    def v2_playbook_on_play_start(self, play: Any) -> None:
        self._end_sections()
        self._play = play

    @compactly
    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        self._begin(task)

    @compactly
    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        self._handlers.add(tasks.key(task))
        self._begin(task)

    def v2_playbook_on_cleanup_task_start(self, task: Any) -> None:
        self.v2_playbook_on_task_start(task, False)

    @compactly
    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        self._started.setdefault(tasks.key(task), set()).add(host.get_name())
        self._draw(task)

    @compactly
    def v2_playbook_on_include(self, included_file: Any) -> None:
        pass

    @compactly
    def v2_playbook_on_notify(self, handler: Any, host: Any) -> None:
        pass

    @compactly
    def v2_playbook_on_no_hosts_matched(self) -> None:
        limit = context.CLIARGS.get("subset")
        if limit and self._play.hosts == ["localhost"] and self._play_name() != SKIPPED_BY_LIMIT:
            message = inventory_in_use.commands(
                f"--limit {limit} cannot be used here: what this command does is checked on the control node, for all "
                "hosts of the inventory, and nothing was done. Leave --limit out. A job runs on its first N hosts with "
                "-e '{override: {hosts: N}}'; for others, name an inventory that has these alone"
            )
            print(f"[ERROR]: {message}", file=sys.stderr)
            raise SystemExit(2)
        if self._play.hosts != NO_HOSTS:
            self._show(_screen.painted(f"{self._play_name()}: no host of the inventory", _screen.DIM, self._colours()))

    @compactly
    def v2_playbook_on_no_hosts_remaining(self) -> None:
        self._show(_screen.painted(f"{self._play_name()}: no host is left", _screen.DIM, self._colours()))

    # --- results ---

    @compactly
    def v2_runner_on_ok(self, result: Any) -> None:
        outcome = self._end(result)
        if outcome.result.get("changed"):
            self._note(outcome, "changed")
            self._show_change(outcome)
        if outcome.task.action in DEBUG:
            self._show_messages(outcome)

    @compactly
    def v2_runner_on_skipped(self, result: Any) -> None:
        self._end(result, skipped=True)

    @compactly
    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        outcome = self._end(result)
        if ignore_errors and outcome.result.get("changed"):
            self._note(outcome, "changed")
        passed_over = "ignored" if ignore_errors else "rescued" if tasks.is_rescued(outcome.task) else ""
        if not passed_over:
            self._note(outcome, "failed")
        self._show_failures(outcome, passed_over)

    @compactly
    def v2_runner_on_unreachable(self, result: Any) -> None:
        outcome = self._end(result)
        ignored = "ignored" if outcome.task.ignore_unreachable else ""
        if not ignored:
            self._note(outcome, "unreachable")
        self._show_failures(outcome, ignored)

    @compactly
    def v2_runner_item_on_ok(self, result: Any) -> None:
        self._handle_warnings(tasks.Outcome(result).result)

    @compactly
    def v2_runner_item_on_failed(self, result: Any) -> None:
        """Note a failed item, also one whose host is unreachable."""
        outcome = tasks.Outcome(result)
        self._delegates.setdefault((outcome.host, tasks.key(outcome.task)), []).append(tasks.delegate(outcome.task))
        self._handle_warnings(outcome.result)

    @compactly
    def v2_runner_item_on_skipped(self, result: Any) -> None:
        self._handle_warnings(tasks.Outcome(result).result)

    @compactly
    def v2_runner_retry(self, result: Any) -> None:
        outcome = tasks.Outcome(result)
        tried, most = outcome.result.get("attempts", 0), outcome.result.get("retries", 0)
        self._draw(outcome.task, f"attempt {tried + 1} of {most}")
        key = (outcome.host, tasks.key(outcome.task))
        if self._live is None and key not in self._retried:
            self._retried.add(key)
            self._show(f"{outcome.host}: {self._title(outcome.task)}: tried again, up to {most - 1} times")

    @compactly
    def v2_runner_on_async_poll(self, result: Any) -> None:
        pass

    @compactly
    def v2_runner_on_async_ok(self, result: Any) -> None:
        pass

    @compactly
    def v2_runner_on_async_failed(self, result: Any) -> None:
        pass

    @compactly
    def v2_on_file_diff(self, result: Any) -> None:
        outcome = tasks.Outcome(result)
        for item in outcome.result["results"] if outcome.looped else [outcome.result]:
            diff = self._get_diff(item["diff"]) if item.get("diff") and item.get("changed") else ""
            if diff:
                self._head(outcome)
                screen.write(diff.rstrip("\n"))

    # --- the end ---

    @compactly
    def v2_playbook_on_stats(self, stats: Any) -> None:
        self._end_sections()
        self._reminder.end()
        if self._live:
            self._live.clear()
        hosts = {host: stats.summarize(host) for host in sorted(stats.processed)}
        took = time.monotonic() - self._began
        self._show(compact_text.recap(hosts, took, bool(context.CLIARGS.get("check")), self._screen()))
        if stats.custom and self.get_option("show_custom_stats"):
            for host, values in sorted(stats.custom.items()):
                for key, value in values.items():
                    where = "" if host == "_run" else f"{host}: "
                    self._show(f"{where}{key}: {compact_text.message('localhost', value)}")

    # --- how it is done ---

    def _screen(self) -> _screen.Screen:
        return self._live.screen if self._live else screen.current()

    def _colours(self) -> bool:
        return self._screen().colours

    def _show(self, text: str, failed: bool = False) -> None:
        screen.write(text, stderr=failed and self.get_option("display_failed_stderr"))

    def _play_name(self) -> str:
        return str(self._play.get_name()).strip() if self._play else ""

    def _begin(self, task: Any) -> None:
        """Begin a task, and the section that it is of."""
        name = self._section_name(task)
        free = self._play.strategy.rpartition(".")[2] in ("free", "host_pinned")
        if not free and self._section and name != self._section.name:
            self._end_sections()
        self._section = self._sections.setdefault(name, self._new_section(name, task))
        if self._live:
            self._live.screen = screen.measure()
            self._live.clear()
        elif task.action not in FOLLOWING:
            self._reminder.begin(self._title(task))
        else:
            self._reminder.end()
        self._draw(task)

    def _new_section(self, name: str, task: Any) -> Section:
        return Section(name, self._play_name(), time.monotonic(), ours=tasks.is_ours(task))

    def _section_name(self, task: Any) -> str:
        """Return the name of the role that a task is of, of the outermost one, or else of its play."""
        name = tasks.outermost_role(task) or self._play_name()
        return f"{name}: handlers" if tasks.key(task) in self._handlers else name

    def _end_sections(self) -> None:
        for section in self._sections.values():
            section.ended = time.monotonic()
            if section.hosts and not compact_text.is_trivial(section):
                self._show(compact_text.section_line(section, self._checks(), self._screen()))
        self._sections, self._section = {}, None
        if self._live:
            self._live.clear()

    def _checks(self) -> bool:
        return bool(context.CLIARGS.get("check"))

    def _end(self, result: Any, skipped: bool = False) -> tasks.Outcome:
        outcome = tasks.Outcome(result)
        self._finished.setdefault(tasks.key(outcome.task), set()).add(outcome.host)
        if not skipped:
            self._note(outcome, "hosts")
        self._handle_warnings(outcome.result)
        self._draw(outcome.task)
        return outcome

    def _note(self, outcome: tasks.Outcome, field: str) -> None:
        """Remember a host for the line of the task's section."""
        name = self._section_name(outcome.task)
        section = self._sections.setdefault(name, self._new_section(name, outcome.task))
        getattr(section, field).add(outcome.host)

    def _draw(self, task: Any, note: str = "") -> None:
        """Show the task that runs in the last line of a terminal."""
        if self._live is None or task is None or task.action in ("pause", "ansible.builtin.pause"):
            return
        done, begun = (len(hosts.get(tasks.key(task), ())) for hosts in (self._finished, self._started))
        name = tasks.name(task)
        section = self._section_name(task) if task._role else ""
        self._live.set_task(compact_text.task_line(section, name, done, begun, note, self._live.screen))

    def _title(self, task: Any) -> str:
        """Return the name of a task with its role's."""
        role = tasks.role(task)
        return f"{role}: {tasks.name(task)}" if role else tasks.name(task)

    def _show_failures(self, outcome: tasks.Outcome, passed_over: str) -> None:
        """Show the failure of a task, or of each item of its loop that failed or whose host is unreachable."""
        bad = ("failed", "unreachable")
        items = [item for item in outcome.result["results"] if any(map(item.get, bad))] if outcome.looped else []
        delegates = self._delegates.pop((outcome.host, tasks.key(outcome.task)), [])
        for place, item in enumerate(items):
            label = f" (item {self._get_item_label(item)})"
            self._show_failure(outcome, item, label, passed_over, delegates[place] if place < len(delegates) else "")
        if not items:
            self._show_failure(outcome, outcome.result, "", passed_over, tasks.delegate(outcome.task))

    def _show_failure(
        self, outcome: tasks.Outcome, result: Mapping[str, Any], label: str, passed_over: str, delegate: str
    ) -> None:
        title = self._title(outcome.task) + label
        host = f"{outcome.host} (on {delegate})" if delegate not in ("", outcome.host) else outcome.host
        if passed_over:
            if not tasks.is_ours(outcome.task):  # whose roles report such failures themselves
                self._show(compact_text.passed_over(passed_over, host, title, result, self._screen()))
            return
        word = "UNREACHABLE" if result.get("unreachable") else "FAILED"
        action = str(outcome.task.action)
        chosen = action.rpartition(".")[2] == "assert" and result.get("msg") != "Assertion failed"
        whole = chosen or tasks.is_ours(outcome.task) or action.startswith(f"{tasks.COLLECTION}.")
        text = compact_text.failure(host, title, tasks.place(outcome.task), result, self._screen(), word, whole)
        same = (tasks.key(outcome.task) + label, text.partition("\n")[2])
        if same in self._told:
            text = f"{text.partition(chr(10))[0]}\n  the same as on {self._told[same]}"
        self._told.setdefault(same, host)
        self._show(text, failed=True)

    def _show_change(self, outcome: tasks.Outcome) -> None:
        wanted = self.get_option("changed_tasks")
        seen = self._checks() or context.CLIARGS.get("diff") or outcome.task.check_mode
        if wanted == "always" or (wanted == "auto" and seen):
            self._head(outcome)

    def _head(self, outcome: tasks.Outcome) -> None:
        """Name a task that changed a host, once."""
        key = (outcome.host, tasks.key(outcome.task))
        if key not in self._headed:
            self._headed.add(key)
            word = "would change" if self._checks() or outcome.task.check_mode else "changed"
            head = _screen.painted(f"{word} {outcome.host}", _screen.YELLOW, self._colours())
            self._show(f"{head}: {self._title(outcome.task)}")

    def _show_messages(self, outcome: tasks.Outcome) -> None:
        for result in outcome.result["results"] if outcome.looped else [outcome.result]:
            if result.get("skipped"):
                continue
            if "msg" in result:
                self._show(compact_text.message(outcome.host, result["msg"]))
                continue
            kept = {key: value for key, value in result.items() if not key.startswith("_ansible")}
            self._clean_results(kept, "debug")
            for key, value in kept.items():
                if key not in ("item", "warnings", "deprecations", "exception"):
                    shown = compact_text.message("localhost", value)
                    self._show(compact_text.message(outcome.host, f"{key}: {shown}"))
