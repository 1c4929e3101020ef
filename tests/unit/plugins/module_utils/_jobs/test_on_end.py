"""What is done at the end of a job: what is sent, what is tried again, and that no URL is told."""

from __future__ import annotations

import base64
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._forms import Place
from ansible_collections.amx.cluster.plugins.module_utils._jobs import job_fields, on_end
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import FIELDS
from ansible_collections.amx.cluster.plugins.module_utils._jobs.on_end import OnEnd
from support import hooks

ENDED = {"job": "demo", "state": "failed", "results": {"metrics": {"loss": 1.5}}}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_end.attempts, "__defaults__", ((0, 0, 0),))


def carried_out(wanted: OnEnd, folder: Path, **secrets: str) -> dict[str, Any]:
    outcome = on_end.carry_out(wanted, folder, {"PATH": os.environ["PATH"], "MINE": "1"}, 0o022, secrets, ENDED)
    assert json.loads((folder / on_end.OUTCOME).read_text()) == outcome
    assert hooks.SECRET not in json.dumps(outcome)
    return {key: outcome[key] for key in ("ok", "tries", "text")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "ok", "tries", "said"),
    [
        ((204,), True, 1, ": HTTP 204"),
        ((503, 429, 200), True, 3, ": HTTP 200, after 3 tries"),
        ((500,), False, 4, " failed: HTTP 500, after 4 tries"),
        ((404,), False, 1, " failed: HTTP 404"),
        ((302,), False, 1, " failed: HTTP 302"),
    ],
)
def test_a_url(tmp_path: Path, answers: tuple[int, ...], ok: bool, tries: int, said: str) -> None:
    with hooks.listening(*answers) as (url, came):
        found = carried_out(OnEnd(url=on_end.hidden(url)), tmp_path, **{on_end.SECRET: url})
    assert found == {"ok": ok, "tries": tries, "text": f"on_end: POST to {on_end.hidden(url)}{said}"}
    assert came == [ENDED] * tries


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"http://me:{hooks.SECRET}@127.0.0.1:{port}/{hooks.SECRET}"
    found = carried_out(OnEnd(url_from="HOOK"), tmp_path, **{on_end.SECRET: url})
    assert (found["ok"], found["tries"]) == (False, 4)
    assert "Connection refused" in found["text"]


def test_a_url_with_a_password(tmp_path: Path) -> None:
    with hooks.listening(200) as (url, _came):
        given = url.replace("http://", f"http://me:{hooks.SECRET}%40@")
        assert carried_out(OnEnd(url="hidden"), tmp_path, **{on_end.SECRET: given})["ok"]
    assert base64.b64decode(hooks.logins[-1].split()[1]).decode() == f"me:{hooks.SECRET}@"


@pytest.mark.slow
def test_a_command(tmp_path: Path) -> None:
    command = 'cat > told; echo "$MINE $HOOK_TOKEN"; pwd; umask; [ -e again ] || { touch again; exit 3; }'
    found = carried_out(OnEnd(command=command), tmp_path, HOOK_TOKEN="t")
    assert found == {"ok": True, "tries": 2, "text": "on_end: its command: exit code 0, after 2 tries"}
    assert json.loads((tmp_path / "told").read_text()) == ENDED
    assert (tmp_path / on_end.LOG).read_text().split() == ["1", "t", str(tmp_path), "0022"] * 2


@pytest.mark.slow
def test_a_command_that_fails_or_does_not_end(tmp_path: Path) -> None:
    found = carried_out(OnEnd(command="exit 7"), tmp_path)
    assert found == {"ok": False, "tries": 4, "text": "on_end: its command failed: exit code 7, after 4 tries"}
    with pytest.raises(on_end.Failed, match=r"^it did not end within 1 s$") as error:
        on_end.run("sleep 60 & echo $! > child; wait", tmp_path, os.environ, 0o077, b"{}", seconds=1)
    assert not error.value.again
    # SIGKILL takes a moment, and nobody may have asked for its exit code yet.
    child, end = int((tmp_path / "child").read_text()), time.monotonic() + 20
    while _runs(child) and time.monotonic() < end:
        time.sleep(0.01)
    assert not _runs(child)


def _runs(process: int) -> bool:
    """Tell whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({}, f"nothing where one of command, url, url_from is expected: {job_fields.END}"),
        ("echo", f"text where a mapping is expected: {job_fields.END}"),
        (
            {"command": "a", "url": "http://h/"},
            f"command and url where one of command, url, url_from is expected: {job_fields.END}",
        ),
        ({"cmd": "a"}, "cmd: unknown field; known fields: command, url, url_from"),
        ({"command": ""}, "command: '' is not text"),
        ({"url": 3}, "url: a number where a URL is expected"),
        ({"url_from": "a-b"}, "url_from: 'a-b' is not a name"),
        *(
            ({"url": url}, "url: is not a URL such as https://example.com/hook")
            for url in (
                "ftp://h/x",
                "https:///x",
                "http://h:99999/",
                "http://h/a b",
                "http://h/\u00e9",
                "http://h/a\nb",
            )
        ),
    ],
)
def test_what_a_job_file_cannot_have(value: object, error: str) -> None:
    with pytest.raises(ValueError) as raised:
        FIELDS[on_end.FIELD].form.check(value, Place())
    assert str(raised.value).startswith(error)


def test_of_a_url_only_its_host_is_shown() -> None:
    assert on_end.hidden("https://u:p@example.com:8443/services/T?token=1#x") == "https://example.com:8443/***"
