# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The screen of ansible-playbook, and lines at its bottom that are drawn again while other output appears above them.

Only Ansible's main process writes to the screen. Its workers, in which actions run, are copies of it that send their
output there: they find here what the callback plugin amx.cluster.compact has found out about the screen.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.utils.color import ANSIBLE_COLOR
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils import _screen
from ansible_collections.amx.cluster.plugins.module_utils._screen import Screen
from ansible_collections.amx.cluster.plugins.module_utils._text import duration
from ansible_collections.amx.cluster.plugins.plugin_utils import ansible_core, inventory_in_use

display = Display()

# How a worker's message begins that has a job's progress for the bottom of the screen, as JSON.
_PROGRESS = "\r"
_shown: dict[str, Screen] = {}


def current() -> Screen:
    """Return what the screen can show; without the callback plugin amx.cluster.compact nothing is drawn again on it."""
    return _shown.get("screen") or _screen.detect(os.environ, False, 0, bool(ANSIBLE_COLOR))


def measure(redraws: bool = True) -> Screen:
    """Find out, in the main process, what the screen can show. redraws: whether lines may be drawn again."""
    terminal, columns = sys.stdout.isatty(), 0
    if terminal:
        try:
            columns = os.get_terminal_size(sys.stdout.fileno()).columns
        except OSError:
            columns = 0
    detected = _screen.detect(os.environ, terminal, columns, bool(ANSIBLE_COLOR))
    if not redraws:
        detected = Screen(detected.columns, False, detected.colours, detected.characters)
    _shown["screen"] = detected
    return detected


def show(text: str) -> None:
    """Print a report of the collection, in which each playbook that it names becomes the command that runs it."""
    write(inventory_in_use.commands(text))


def write(text: str, stderr: bool = False) -> None:
    """Print a text that may have colours; Ansible's log file (log_path) gets it without them."""
    bare = _screen.plain(text)
    if bare == text:
        display.display(text, stderr=stderr)
    else:
        display.display(text, stderr=stderr, screen_only=True)
        display.display(bare, log_only=True)


def send_progress(progress: Mapping[str, Any]) -> None:
    """Draw a job's progress at the bottom of the screen, in the place of the previous one. Empty: remove it."""
    display.display(_PROGRESS + json.dumps(dict(progress)), screen_only=True, newline=False)


class Reminder:
    """Prints now and then that a task still runs, where no line of the screen is drawn again."""

    SECONDS = 30.0

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def begin(self, name: str, began: float | None = None) -> None:
        """Note which task runs from now on. began: when it has begun (time.monotonic), if it was noted before."""
        self.end()
        since = time.monotonic() if began is None else began
        self._timer = threading.Timer(self.SECONDS, self._remind, (name, since))
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        """Print nothing of the task any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _remind(self, name: str, began: float) -> None:
        display.display(f"  {name}: {duration(time.monotonic() - began)} so far")
        self.begin(name, began)


class Live:
    """Lines at the bottom of the screen. All output of Ansible goes through here once they are attached."""

    def __init__(self, screen: Screen, layout: Callable[[Mapping[str, Any], Screen], Sequence[str]]) -> None:
        """Draw nothing yet. layout: returns the lines of a job's progress, as send_progress gives it."""
        self.screen = screen
        self._layout = layout
        self._print = display.display
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._lines: list[str] = []
        self._drawn = 0
        self._held = 0
        self._progress = False  # whether the lines are a job's progress
        self._open = False  # whether what was printed last did not end its line

    def attach(self) -> None:
        """Keep the lines below all that is printed from now on, and away from prompts."""
        ansible_core.replace_output(display, self.print, self._without_lines)
        atexit.register(self.clear)

    def clear(self) -> None:
        """Remove the lines, whoever drew them."""
        self._progress = False
        self.set(())

    def set_task(self, line: str) -> None:
        """Draw the task that runs, unless a job's progress is drawn. line: no wider than the screen."""
        if not self._progress:
            self.set([line])

    def set(self, lines: Sequence[str]) -> None:
        """Draw these lines, each no wider than the screen, in the place of those before."""
        if os.getpid() != self._process:
            return
        with self._lock:
            self._erase()
            self._lines = list(lines)
            self._draw()

    def print(self, msg: str, *args: Any, **options: Any) -> None:
        """Print as Display.display does, above the lines."""
        if os.getpid() != self._process or options.get("log_only"):
            self._print(msg, *args, **options)
            return
        if msg.startswith(_PROGRESS) and options.get("newline") is False:
            self.screen = measure()
            progress = json.loads(msg[len(_PROGRESS) :])
            self._progress = bool(progress)
            self.set(self._layout(progress, self.screen) if progress else ())
            return
        with self._lock:
            self._erase()
            self._print(msg, *args, **options)
            self._open = options.get("newline") is False and not msg.endswith("\n")
            self._draw()

    def _without_lines(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def prompt(*args: Any, **options: Any) -> Any:
            if os.getpid() != self._process:
                return function(*args, **options)
            with self._lock:
                self._erase()
                self._held += 1
            try:
                return function(*args, **options)
            finally:
                with self._lock:
                    self._held -= 1

        return prompt

    def _erase(self) -> None:
        if self._drawn:
            sys.stdout.write("\r\x1b[K" + "\x1b[1A\x1b[K" * (self._drawn - 1))
            sys.stdout.flush()
            self._drawn = 0

    def _draw(self) -> None:
        if self._lines and not self._held and not self._open:
            sys.stdout.write("\n".join(self._lines))
            sys.stdout.flush()
            self._drawn = len(self._lines)
