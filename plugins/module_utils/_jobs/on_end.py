# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the command, or send the request to a URL, of `on_end` in a job file, on the job's head when the job has ended.

Both get the same JSON: the command on its standard input, the URL by POST. Whatever comes of that is no part of the
job's outcome, and is kept in OUTCOME, beside what a command prints in LOG.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ansible_collections.amx.cluster.plugins.module_utils import _io
from ansible_collections.amx.cluster.plugins.module_utils._text import count, now

FIELD, OUTCOME, LOG = "on_end", "on_end.json", "on_end.log"
# Under this name the URL is among the job's secrets: nothing else has more of it than its host.
SECRET = "AMX_CLUSTER_ON_END"
HIDDEN = "/***"
# Seconds before the second, third and fourth try; that a request may take; that a command may.
PAUSES: Sequence[float] = (2, 10, 30)
REQUEST, COMMAND = 10.0, 600.0


def hidden(url: str) -> str:
    """Return a URL without all that may be a secret in it: its login, path and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{HIDDEN}"


def checked_url(url: str) -> str:
    """Return a URL that can be sent to. Raises ValueError, without what may be a secret in it."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1) and url.isascii()
    except ValueError:
        sound = False
    if not sound or not url.isprintable() or " " in url:
        raise ValueError("is not a URL such as https://example.com/hook")
    return url


@dataclass(frozen=True)
class OnEnd:
    """One of: a command for bash, a URL, or the name of a variable in job_env that has the URL.

    The URL of a job that was read from a file is among its secrets, and hidden here.
    """

    command: str = ""
    url: str = ""
    url_from: str = ""

    @property
    def is_secret(self) -> bool:
        return bool(self.url or self.url_from)


class Failed(Exception):
    """A try that failed. again: whether another one may succeed."""

    def __init__(self, message: str, again: bool = True) -> None:
        super().__init__(message)
        self.again = again


def no_redirect() -> Any:
    """Return a handler for urllib that follows no redirect, which leads logins to other hosts."""
    import urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_arguments: Any, **_options: Any) -> None:
            return None

    return NoRedirect


def post(url: str, payload: bytes, seconds: float = REQUEST) -> str:
    """Send JSON to a URL; return what came of it. Raises Failed, without what may be a secret of the URL."""
    import urllib.error
    import urllib.request  # only here: it takes long, and every look at a job imports this file

    headers = {"Content-Type": "application/json", "User-Agent": "amx.cluster"}
    parts = urlsplit(url)
    login, at, address = parts.netloc.rpartition("@")
    if at:  # which urllib would take for a part of the host's name
        headers["Authorization"] = f"Basic {base64.b64encode(unquote(login).encode()).decode()}"
    try:
        bare = parts._replace(netloc=address).geturl()
        request = urllib.request.Request(bare, data=payload, headers=headers, method="POST")
        with urllib.request.build_opener(no_redirect()).open(request, timeout=seconds) as answer:
            return f"HTTP {answer.status}"
    except urllib.error.HTTPError as error:
        raise Failed(f"HTTP {error.code}", error.code >= 500 or error.code in (408, 425, 429)) from None
    except urllib.error.URLError as error:
        raise Failed(str(error.reason)) from None
    except Exception as error:  # http.client's, and what else a URL can bring about
        raise Failed(type(error).__name__) from None


def run(
    command: str, directory: Path, env: Mapping[str, str], umask: int, payload: bytes, seconds: float = COMMAND
) -> str:
    """Run a command of a job in its directory; return what came of it. Raises Failed."""
    with (directory / LOG).open("ab") as log:
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=directory,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=umask,
        )
        try:
            process.communicate(payload, timeout=seconds)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise Failed(f"it did not end within {seconds:.0f} s", again=False) from None
    if process.returncode:
        raise Failed(f"exit code {process.returncode}")
    return "exit code 0"


def attempts(subject: str, act: Callable[[], str], pauses: Sequence[float] = PAUSES) -> dict[str, Any]:
    """Call `act` until it succeeds, at most once more than there are pauses (seconds); return {ok, text, tries, time}.

    subject: such as "its command", for the text.
    """
    tries = 0
    for pause in (*pauses, None):
        tries += 1
        try:
            return {"ok": True, "text": f"on_end: {subject}: {act()}{_after(tries)}", "tries": tries, "time": now()}
        except Failed as error:
            reason, again = str(error), error.again
        except OSError as error:  # no bash, no room
            reason, again = f"{error.strerror}", True
        if pause is None or not again:
            break
        time.sleep(pause)
    return {"ok": False, "text": f"on_end: {subject} failed: {reason}{_after(tries)}", "tries": tries, "time": now()}


def _finite(value: Any) -> Any:
    """Return a value with null for numbers that JSON does not have, such as the loss of a training that diverged."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _after(tries: int) -> str:
    return f", after {count(tries, 'try', 'tries')}" if tries > 1 else ""


def carry_out(
    wanted: OnEnd,
    directory: Path,
    env: Mapping[str, str],
    umask: int,
    secrets: Mapping[str, str],
    ended: Mapping[str, Any],
) -> dict[str, Any]:
    """Do what a job's file requests for its end, and keep what came of it in OUTCOME, which is returned.

    env: of a command, with the job's variables. secrets: secret_env.FILE, which is removed before. ended: what is sent.
    """
    payload = json.dumps(_finite(ended)).encode()
    if wanted.command:
        subject = "its command"
        outcome = attempts(subject, lambda: run(wanted.command, directory, {**env, **secrets}, umask, payload))
    else:
        url = secrets.get(SECRET, "")
        subject = f"POST to {hidden(url)}" if url else "POST"
        outcome = attempts(subject, lambda: post(url, payload))
    with contextlib.suppress(OSError):
        _io.write_json(directory / OUTCOME, outcome, 0o600)
    return outcome
