from __future__ import annotations

import math
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import faults
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers import mpirun
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from support.runs import host, plan

# What Intel MPI 2021.18 printed when rank 1 of 3 ran `kill -9 $$`; mpirun's exit code was 255.
BAD_TERMINATION = """
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   RANK 1 PID 26638 RUNNING AT node1
=   KILLED BY SIGNAL: 9 (Killed)
===================================================================================
"""
KILLED = "rank 1 on node1 was ended by signal 9 from outside"


def failure(rank: int, text: str) -> str:
    """What a rank's observer prints when an exception ends it."""
    return (
        f"--- rank {rank} on node{rank} failed ---\nTraceback (most recent call last):\n"
        f'  File "/job/train.py", line 3, in <module>\n    main()\n{text}\n--- end of rank {rank} ---\n'
    )


CLOSED = failure(0, "RuntimeError: [/pair.cc:547] Connection closed by peer [10.0.0.2]:4242")
BROKEN = failure(2, "RuntimeError: [/pair.cc:66] Broken pipe")
OWN = failure(1, "ValueError: no such column\nin data/train.csv:\n  label")
OWN_CAUSE = "rank 1 on node1 failed: ValueError: no such column in data/train.csv: label"
MEMORY = (
    "the kernel of node1 ended a rank because it was out of memory: use a smaller batch, shorter sequences, fewer "
    "ranks per node, or gradient checkpointing"
)


@pytest.mark.parametrize(
    ("log", "code", "gone", "out_of_memory", "said"),
    [
        (BAD_TERMINATION, 255, {}, [], KILLED),
        (CLOSED + BAD_TERMINATION, 255, {}, [], KILLED),
        (BAD_TERMINATION, 255, {}, ["node1"], MEMORY),
        (
            BAD_TERMINATION.replace("SIGNAL: 9 (Killed)", "SIGNAL: 11 (Segmentation fault)"),
            255,
            {},
            ["node1"],
            "rank 1 on node1 was ended by signal 11 (SIGSEGV)",
        ),
        (CLOSED + BROKEN + OWN, 1, {}, [], OWN_CAUSE),
        (CLOSED + OWN + BAD_TERMINATION, 1, {}, ["node1"], OWN_CAUSE),
        (CLOSED + BROKEN, 1, {}, [], "rank 0 on node0 failed: " + CLOSED.splitlines()[-2]),
        (
            CLOSED + OWN,
            1,
            {"node1": "No route to host"},
            [],
            "node1 does not answer any more (No route to host)",
        ),
        ("step 3\n", -9, {}, [], "mpirun was ended by signal 9 from outside"),
        # Its ranks were ended after it.
        (
            BAD_TERMINATION.replace("9 (Killed)", "15 (Terminated)"),
            137,
            {},
            [],
            "mpirun was ended by signal 9 from outside",
        ),
        ("", 141, {}, [], "mpirun lost its own process on one of the hosts, which was ended there (signal 13)"),
        ("step 3\n", 3, {}, [], "mpirun ended with exit code 3; the last line of its log: step 3"),
        ("", 3, {}, [], "mpirun ended with exit code 3 and printed nothing"),
        # Its arguments were refused, it went on, and something else ended it.
        (failure(1, "run.py: error: no such argument") + OWN, 1, {}, [], OWN_CAUSE),
        # The report of one rank is not read into that of another.
        (
            BAD_TERMINATION.replace("KILLED BY SIGNAL: 9 (Killed)", "EXIT STATUS: 1") + BAD_TERMINATION,
            1,
            {},
            [],
            KILLED,
        ),
    ],
)
def test_cause(log: str, code: int, gone: dict[str, str], out_of_memory: list[str], said: str) -> None:
    made = plan(*(host(f"node{number}", 1) for number in range(3)))
    assert (
        faults.cause(log, code, gone, out_of_memory, "mpirun", mpirun.LAUNCHER.killed(log, Plan.from_json(made)))
        == said
    )


CLOSED_TEXT = "RuntimeError: Connection closed by peer"


def reported(rank: int, text: str = "", code: int | None = None, said: str = "") -> faults.Failure:
    return faults.Failure(rank, f"node{rank}", text, code, said)


# What a program that is no Python script says is nowhere else.
LAST = "; the last line of the job's log: step 3"
ENDED = "rank 1 on node1 ended with exit code"
LEFT = f"{ENDED} 3{LAST}"
TORCHRUN = """E1127 1:37 torch/distributed/elastic/multiprocessing/api.py:1013] failed (exitcode: 4) local_rank: 0
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


@pytest.mark.parametrize(
    ("failures", "code", "out_of_memory", "said"),
    [
        # The first that may be the cause, whatever the others say.
        ([reported(0, CLOSED_TEXT), reported(1, code=3)], 255, [], LEFT),
        ([reported(1, code=3), reported(0, "EOFError: no reply")], 255, [], LEFT),
        (
            [reported(1, code=2, said="no column text in a.csv")],
            2,
            [],
            "rank 1 on node1 ended with exit code 2; the last that it printed: no column text in a.csv",
        ),
        (
            [reported(1, code=2, said="\x1b[31mno\x1b[0m a.csv")],
            2,
            [],
            f"{ENDED} 2; the last that it printed: no a.csv",
        ),
        ([reported(1, "no column text in a.csv", 1)], 1, [], "rank 1 on node1 failed: no column text in a.csv"),
        ([reported(1, code=-11)], 1, ["node1"], f"rank 1 on node1 was ended by signal 11 (SIGSEGV){LAST}"),
        ([reported(1, code=-9)], 1, ["node0", "node1"], MEMORY),
        ([reported(1, code=-9), reported(0, CLOSED_TEXT)], 1, [], KILLED),
        # It was ended with the launcher, and the supervisor was gone for the other.
        ([reported(1, code=-15)], 143, [], "mpirun was ended by signal 15 from outside"),
        ([reported(0, code=70), reported(1, code=4)], 70, [], f"rank 1 on node1 ended with exit code 4{LAST}"),
        ([reported(0, CLOSED_TEXT)], 1, [], f"rank 0 on node0 failed: {CLOSED_TEXT}"),
    ],
)
def test_the_rank_that_failed_first_is_the_cause(
    failures: list[faults.Failure], code: int, out_of_memory: list[str], said: str
) -> None:
    assert faults.cause("step 3\n", code, {}, out_of_memory, failures=failures) == said
    noted = "rank.py: rank 0 on node0: its script left sleep (process 7): ended\n"
    assert (
        faults.cause(f"step 3\n{BAD_TERMINATION}{noted}{TORCHRUN}", code, {}, out_of_memory, failures=failures) == said
    )


def test_the_last_line_of_a_log_is_quoted_as_it_is() -> None:
    said = faults.cause("the rank waits for its units\n", 3, {}, [], failures=[reported(1, code=3)])
    assert said == f"{ENDED} 3; the last line of the job's log: the rank waits for its units"


def test_tracebacks_are_told_with_their_ranks() -> None:
    found = faults.tracebacks(f"step 1\n{CLOSED}step 2\n{OWN}")
    assert [(rank, host) for rank, host, _text in found] == [(0, "node0"), (1, "node1")]
    assert found[1][2].startswith("Traceback") and found[1][2].endswith("  label")


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        ("", ""),
        ("KeyError: 'x'", "KeyError: 'x'"),
        ('Traceback (most recent call last):\n  File "a", line 1\n    x\nKeyError: 1\n\nmore', "KeyError: 1 more"),
        (
            'Traceback (most recent call last):\n  File "a", line 1\nKeyError: 1\n\nDuring handling of the above '
            'exception, another exception occurred:\n\nTraceback (most recent call last):\n  File "b", line 2\nOSError',
            "OSError",
        ),
        (
            "  + Exception Group Traceback (most recent call last):\n  |   File 'a', line 1\n  |     f()\n"
            "  | ExceptionGroup: 2 shards (2 sub-exceptions)\n  +-+---------------- 1 ----------------\n"
            "    | ValueError: a\n    +---------------- 2 ----------------\n"
            "    | Traceback (most recent call last):\n    |   File 'a', line 2\n    | KeyError: 'b'\n"
            "    +------------------------------------\n",
            "ExceptionGroup: 2 shards (2 sub-exceptions); ValueError: a; KeyError: 'b'",
        ),
        ("RuntimeError: \x1b[31mred\x1b[0m \x07\ud83d\r 日本", "RuntimeError: red 日本"),
    ],
)
def test_last_words(trace: str, words: str) -> None:
    assert faults.last_words(trace) == words


WAITS = '  File "/job/train.py", line 9\n  File "torch/autograd/graph.py", line 1, in _engine_run_backward\n'
READS = '  File "/job/train.py", line 7\n    time.sleep(1000)\n'


def beat(host: str, idle: float, silent: float = 1.0, stepped: bool = True, **more: Any) -> dict[str, Any]:
    return {"host": host, "idle": idle, "silent": silent, "stepped": stepped, "stack": READS, **more}


def waits(host: str, idle: float, **more: Any) -> dict[str, Any]:
    return beat(host, idle, waiting=True, **{"stack": WAITS, **more})


@pytest.mark.parametrize(
    ("beats", "said"),
    [
        ({}, ""),
        ({0: waits("node0", 700), 1: beat("node1", 3)}, ""),  # one makes progress
        ({0: waits("node0", 700), 1: beat("node1", 3, stepped=False)}, ""),  # one has not begun, and works
        ({0: waits("node0", 700, ended=True), 1: beat("node1", 3)}, ""),
        ({0: beat("node0", 700, ended=True, silent=900), 1: beat("node1", 598)}, ""),
        # It waited for rank 1 for as long as a job may stall, and has yet to tell of its step: that one has just ended.
        ({0: waits("node0", 598, silent=9), 1: beat("node1", 0, ended=True, silent=3)}, ""),
        (
            {0: waits("node0", 700, stepped=False), 1: beat("node1", 700, stepped=False)},
            "no rank has done any work on its way to the first step for 701 s\n"
            "rank 1 on node1 is here, and the others wait for it:\n" + READS.rstrip(),
        ),
        (
            {0: waits("node0", 700), 1: beat("node1", 699.5), 2: waits("node2", 701)},
            "no rank has made a step or done any other work for 700 s\n"
            "rank 1 on node1 is here, and the others wait for it:\n" + READS.rstrip(),
        ),
        (
            {0: waits("node0", 700), 1: beat("node1", 2, silent=698)},
            "no rank has made a step or done any other work for 700 s\n"
            "rank 1 on node1 has told nothing for 698 s, as if it were stopped",
        ),
        (
            {0: waits("node0", 700)},
            "no rank has made a step or done any other work for 701 s\n"
            "rank 0 on node0 waits for the others, and they for it:\n" + WAITS.rstrip(),
        ),
        # One has come to its end, and is not the one who holds up the other.
        (
            {0: waits("node0", 700), 1: beat("node1", 0, ended=True, silent=800)},
            "no rank has made a step or done any other work for 701 s\n"
            "rank 0 on node0 waits for the others, and they for it:\n" + WAITS.rstrip(),
        ),
        (
            {0: beat("node0", 0, ended=True, silent=800), 1: beat("node1", 1, ended=True, silent=700)},
            "every rank's script ended 700 s ago, and their processes have not",
        ),
        ({0: beat("node0", 0, ended=True, silent=800), 1: beat("node1", 1, ended=True, silent=650)}, ""),
    ],
)
def test_stall(beats: dict[int, dict[str, Any]], said: str) -> None:
    assert faults.stall(beats, 600) == said
    assert faults.stall(beats, float("inf")) == ""


def test_ranks_of_which_their_host_is_asked() -> None:
    beats = {
        0: beat("a", 0, waiting=True),
        1: beat("a", 0, waiting=True, silent=6),
        2: beat("b", 0, silent=99, ended=True),
        3: beat("b", 0, waiting=True, silent=5),
        4: beat("b", 0),
    }
    assert faults.suspects(beats) == [1, 4]


def applied(total: float, **other: Any) -> dict[str, Any]:
    return {"host": "node0", "gradient": {"step": 1, "parameters": 4, "sum": total, "norm": 1.0, **other}}


def test_ranks_of_one_model_apply_one_gradient() -> None:
    assert faults.separate_models({rank: applied(12.5 + rank * 1e-9) for rank in range(2)}, 2) == ""


def test_ranks_apart_are_told() -> None:
    assert faults.separate_models({0: applied(12.5), 1: applied(-3.0)}, 2) == (
        "the ranks formed a group, but each trains a model of its own: the gradients of their first step differ (sums "
        "12.5, -3). The script must wrap its model in DistributedDataParallel; an evaluation before training can keep "
        "accelerate from doing so"
    )


@pytest.mark.parametrize(
    "other",
    [
        {"gradient": None},  # nothing that would have to be the same, or not finite
        {},
        applied(-3.0, step=2),  # the first was not finite there
        applied(-3.0, parameters=5),  # of something else
    ],
)
def test_what_cannot_be_compared_is_not_judged(other: dict[str, Any]) -> None:
    assert faults.separate_models({0: applied(12.5), 1: other}, 2) == ""


@pytest.mark.parametrize(
    ("beats", "ranks", "said"),
    [
        (
            {0: {"alone": 100}, 1: {"alone": 120}},
            2,
            "each of the 2 ranks has made 100 steps of an optimizer and they have formed no group: if the script does "
            "not call torch.distributed.init_process_group later on, each trains a model of its own",
        ),
        ({0: {"alone": 100}, 1: {"alone": 99}}, 2, ""),
        ({0: {"alone": 100}, 1: {"alone": 100, "stepped": True}}, 2, ""),  # it formed later
        ({0: {"alone": 100}}, 2, ""),
        ({0: {"alone": 100}}, 1, ""),
        ({0: {}, 1: {}}, 2, ""),
    ],
)
def test_ranks_that_train_without_a_group(beats: dict[int, dict[str, Any]], ranks: int, said: str) -> None:
    assert faults.alone(beats, ranks) == said


@pytest.mark.parametrize(
    ("metrics", "progress", "reason"),
    [
        ({"eval_loss": 0.3}, {"step": 20, "max_steps": 20}, ""),
        ({"eval_loss": 0.3}, {}, ""),
        ({"eval_loss": 0.3}, {"step": 0, "max_steps": 20}, "the training made none of its 20 steps: "),
        (
            {"eval_loss": math.nan},
            {},
            "eval_loss is nan: the training ended in numbers that are not finite; try a lower learning_rate, and look "
            "for such numbers in the data",
        ),
        ({"eval_loss": math.inf}, {"step": 1, "max_steps": 1}, "eval_loss is inf: "),
        ({"eval_loss": math.nan}, None, ""),
        ({"eval_accuracy": 0.3}, {}, "eval_accuracy is 0.3 and the job expects at least 0.5"),
    ],
)
def test_success_needs_a_step_and_finite_metrics(
    metrics: dict[str, float], progress: dict[str, int] | None, reason: str
) -> None:
    expect = {"eval_accuracy": 0.5} if "eval_accuracy" in metrics else {}
    found = faults.missed(expect, metrics, progress)
    assert found.startswith(reason)
    assert bool(found) is bool(reason)


@pytest.mark.parametrize(
    "reason", ["header too large", "header too small", "incomplete metadata, file not fully covered"]
)
def test_weights_that_no_rank_can_read(reason: str) -> None:
    """The messages of safetensors 0.8 for a pointer of git-lfs, an empty file, and half a file."""
    text = f"safetensors_rust.SafetensorError: Error while deserializing header: {reason}"
    cause = faults.cause("", 1, {}, [], failures=[reported(1, f"Traceback (most recent call last):\n{text}", 1)])
    assert cause.startswith(f"rank 1 on node1 failed: {text}; ")
    assert "git lfs pull" in cause
