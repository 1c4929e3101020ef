"""Why an instance ended: of logs as engine amx, vLLM 0.32.0, HAProxy and the server itself write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _io
from ansible_collections.amx.cluster.plugins.module_utils._jobs.servers import end_reason

STAMP = "2026-11-29T09:11:37+00:00 node0: instance 0 ended with exit code 1: it is started again in 5 s\n"
AT = "ERROR 11-29 09:12:40 [executor.py:953]"
REFERS = (
    "Traceback (most recent call last):\n"
    '  File "core.py", line 7, in wait\n'
    "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
)


def observed(rank: int, text: str) -> str:
    return f"--- rank {rank} on node0 failed ---\n{text}\n--- end of rank {rank} ---\n"


def traceback(process: str, error: str) -> str:
    lines = ["Traceback (most recent call last):", '  File "a.py", line 1, in f', "    f()", "    ^^^", error]
    return "".join(f"({process}) {AT} {line}\n" for line in lines)


WORKER, ENGINE = "Worker pid=7", "EngineCore pid=6"


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("", "no message"),
        ("one\ntwo  \n\n", "two"),
        # Of the server itself and of HAProxy nothing counts, also behind a line without an end.
        (f"terminate called: bad{STAMP}", "terminate called: bad"),
        (f"broken\n{STAMP}[ALERT]    (25282) : backend 'all' has no server available!\n", "broken"),
        ("broken\n[ALERT] 332/091240 (123) : proxy all has no server available!\n", "broken"),
        (
            "OSError: node0: Temporary failure in name resolution\n",
            "OSError: node0: Temporary failure in name resolution",
        ),
        # Engine amx, and vLLM's launcher, are observed.
        (observed(0, "Traceback (most recent call last):\n  File\nValueError: bad") + STAMP, "ValueError: bad"),
        (observed(0, "the model is broken") + f"\rLoading 26{STAMP}", "the model is broken"),
        (observed(0, "earlier") + observed(0, "its own") + observed(1, "another's"), "its own"),
        # Exceptions of the processes of vLLM: the first that does not refer to another one.
        (
            traceback(WORKER, "RuntimeError: tensor a") + traceback(ENGINE, "zmq.ZMQError: no socket") + REFERS,
            "RuntimeError: tensor a",
        ),
        (
            traceback(WORKER, "Exception: See stack trace for root cause.")
            + traceback(ENGINE, "AssertionError")
            + REFERS,
            "AssertionError",
        ),
        (
            f"(Worker pid=7) {AT} ImportError: optional\n" + traceback(ENGINE, "a.BackendFailed: x") + REFERS,
            "a.BackendFailed: x",
        ),
        (
            traceback(WORKER, "ValueError: handled") + REFERS.replace("{}", "{'EngineCore': -9}"),
            "its engine was ended by signal 9 (Killed)",
        ),
        (REFERS, REFERS.splitlines()[-1]),
        # The last of the process that failed first: others were handled, or led to it.
        (
            traceback(WORKER, "KeyError: 'foo'")
            + traceback(WORKER, "ValueError: model type foo")
            + traceback(ENGINE, "zmq.ZMQError: no socket")
            + REFERS,
            "ValueError: model type foo",
        ),
        (
            traceback("VllmWorker-0 pid=8", "RuntimeError: out of memory")
            + REFERS.replace("{}", "{'EngineCore_DP0': 1, 'EngineCore_DP1': -15}"),
            "RuntimeError: out of memory",
        ),
        (
            "Traceback (most recent call last):\n  File\nImportError: optional\napi_server.py: error: --x: bad\n"
            "[rank0]:[W1129 ProcessGroup.cpp] Warning: destroy_process_group() was not called\n",
            "api_server.py: error: --x: bad",
        ),
        (
            "Traceback (most recent call last):\n  File\n[W1129 utils.cpp:68] Warning: NUMA\nOSError: no file\n",
            "OSError: no file",
        ),
        # Of a message of several lines the one with the exception; what another rank says is not its reason.
        (
            observed(0, "Traceback (most recent call last):\n  File\nOSError: /m/x is no model\nIf private, log in"),
            "OSError: /m/x is no model",
        ),
        ("loading\n" + observed(1, "ValueError: of rank 1 only"), "loading"),
        (
            "Traceback (most recent call last):\n  File\n"
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n"
            "  Value error, User-specified max_model_len (9000) is too long\n"
            "    For further information visit https://errors.pydantic.dev/2.12/v/value_error\n",
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig "
            "Value error, User-specified max_model_len (9000) is too long",
        ),
        (
            "error: no such option\n/lib/resource_tracker.py:1: Warning: resource_tracker: there are leaked\n"
            "  warnings.warn('resource_tracker: There appear to be %d '\n",
            "error: no such option",
        ),
        ("\x1b[31mValueError: boom\x1b[0m\n", "ValueError: boom"),
        ("x" * 1000, "x" * end_reason.LENGTH),
    ],
)
def test_reason(log: str, reason: str) -> None:
    assert end_reason.find(log, "node0", 0) == reason


def test_lines_of_processes_alternate() -> None:
    worker, engine = traceback(WORKER, "RuntimeError: first").splitlines(), traceback(ENGINE, "OSError: b").splitlines()
    log = "".join(f"{line}\n" for pair in zip(worker, engine) for line in pair)
    assert end_reason.find(log + REFERS, "node0", 0) == "RuntimeError: first"


def test_only_the_end_of_a_log_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as stream:
        stream.truncate(4 << 30)  # holes, as shorten_log leaves them
        stream.seek(4 << 30)
        stream.write(b"bad\xff\n")
    log = _io.tail(path, 0, end_reason.BYTES)
    assert (len(log), end_reason.find(log, "node0", 0)) == (end_reason.BYTES, "bad\ufffd")
