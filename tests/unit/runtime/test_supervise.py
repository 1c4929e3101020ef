from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _io
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import archive, directory, in_use, processes
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Measure, Prepare
from ansible_collections.amx.cluster.plugins.module_utils._jobs.on_end import OnEnd
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run_files import run_files
from support import runs, runtimes
from support.fabrics import facts
from support.patience import until
from support.runs import STACK, host

pytestmark = pytest.mark.slow


# A job that trains in fp32, by a Trainer.
WORLD = """echo '{"size": 2, "ranks": [{"rank": 0, "host": "node0"}, {"rank": 1, "host": "node0"}]}' > world.json\n"""
# What a script that trains leaves behind.
TRAIN = """
echo trained
mkdir -p output
echo '{"eval_accuracy": 0.8, "train_loss": 0.7}' > output/all_results.json
"""
# Tells the supervisor what a rank's observer would: beat RANK HOST [NAME=VALUE ...]
BEAT = """
import json, os, socket, sys
address, port, token = os.environ["AMX_CLUSTER_BEAT"].split(":")
with open("/proc/vmstat") as counters:
    killed = int(dict(line.split() for line in counters)["oom_kill"])
message = {"rank": int(sys.argv[1]), "host": sys.argv[2], "oom_kills": killed}
message.update(idle=0, stepped=False, files={})
message.update((name, json.loads(value)) for name, value in (word.split("=", 1) for word in sys.argv[3:]))
with socket.create_connection((address, int(port))) as connection:
    connection.sendall(f"{token}\\n{json.dumps(message)}\\n".encode())
"""
# STAND-INS for ssh and scp (no real hosts here, molecule/faults has those): each host is this machine, unless there is
# a file down.HOST; then it does not answer. What is copied is only noted: all "hosts" have the same job directory.
SSH = """#!/bin/bash
[ "$1" != -x ] || shift
while [ "$1" = -o ]; do shift 2; done
[ ! -e "$HOSTS/down.$1" ] || { echo "ssh: connect to host $1 port 22: No route to host" >&2; exit 255; }
shift
exec bash -c "$*"
"""
SCP = """#!/bin/bash
shift
case $1 in
    *:*)
        [ ! -e "$HOSTS/down.${1%%:*}" ] || { echo "scp: ${1%%:*}: No route to host" >&2; exit 1; }
        [ ! -e "$HOSTS/slow" ] || { touch "$HOSTS/fetching"; sleep 1000; }
        exec cp -r "${1#*:}" "$2" ;;
esac
host=${@: -1}
[ ! -e "$HOSTS/down.${host%%:*}" ] || { echo "scp: ${host%%:*}: No route to host" >&2; exit 1; }
while [ $# -gt 1 ]; do
    echo "${1##*/} $host" >> "$HOSTS/copies"
    shift
done
"""


class Run:
    """A job in `folder` as the role makes it, in an environment whose mpirun is a stand-in: a script of the test's."""

    def __init__(self, folder: Path, name: str = "demo") -> None:
        self.folder = folder / "jobs" / name
        self.hosts = folder / "hosts"
        self.env = folder / "env"
        for made in (self.folder, self.hosts, self.env / "bin"):
            made.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (self.env / "bin" / "python").symlink_to(sys.executable)
        (self.env / "amx-cluster.json").write_text(json.dumps(STACK))
        self.runtime = runtimes.installed()
        self.program("beat", f"#!{sys.executable} -S\n{BEAT}")
        self.program("ssh", SSH)
        self.program("scp", SCP)

    def program(self, name: str, content: str) -> None:
        path = self.env / "bin" / name
        path.write_text(content)
        path.chmod(0o755)

    def quicker(self, **seconds: int) -> None:
        """Shorten constants of the supervisor and its watch: the test need not wait as long as a cluster does."""
        self.runtime = runtimes.installed(**seconds)

    def start(
        self,
        mpirun: str,
        ranks: tuple[int, ...] = (2,),
        settings: dict[str, Any] | None = None,
        here: str = "node0",
        fabric: str = "",
        **job: Any,
    ) -> dict[str, Any]:
        """Start the job with this many ranks on each host; return the status that is there when the command is back.

        fabric: what the hosts have in /sys, for a stack whose backend uses it.
        """
        self.program("mpirun", "#!/bin/bash\n" + mpirun)
        hosts = [
            {**host(f"node{place}", count, domain="[1]", threads_per_rank=4), "address": "127.0.0.1", "interface": "lo"}
            for place, count in enumerate(ranks)
        ]
        made = runs.run(settings, **{"precision": "fp32", **job})
        stack = {**runs.CCL_STACK, "arguments": STACK["arguments"]} if fabric else STACK
        if fabric:
            hosts = [{**one, "fabric": facts(fabric)} for one in hosts]
        plan = runs.planned(made, stack, hosts, env=str(self.env), runtime=self.runtime)
        for name, content in {"host": f"{here}\n", **run_files(Plan.from_json(plan), made, stack)}.items():
            (self.folder / name).write_text(content)
        environ = {**os.environ, "PATH": f"{self.env}/bin:{os.environ['PATH']}", "HOSTS": str(self.hosts)}
        command = [sys.executable, "-S", str(self.runtime), "supervise", str(self.folder)]
        subprocess.run(command, cwd=self.folder, env=environ, check=True, timeout=240, capture_output=True)
        return read(self.folder, "status.json")

    def ended(self) -> dict[str, Any]:
        """Wait for the job's end. Returns its status."""
        until(lambda: read(self.folder, "status.json")["state"] != "running")
        return read(self.folder, "status.json")

    def ends(self, mpirun: str, **how: Any) -> dict[str, Any]:
        """Start the job as `start` does, and wait for its end. Returns its status."""
        self.start(mpirun, **how)
        return self.ended()

    def checkpoint(self, step: int, whole: bool = True) -> None:
        folder = self.folder / "output" / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        (folder / "model").write_text("weights")
        if whole:
            (folder / "complete.json").write_text('{"model": 7}')


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run(tmp_path)
    yield made
    status = directory.running(made.folder)
    if status:  # the test failed: nothing of it is to go on
        os.kill(status["pid"], directory.STOP)


def read(folder: Path, name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / name).read_text())
    return content


def is_gone(pid: int) -> bool:
    """Whether a process is there no more; one that only waits to be collected is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_success(run: Run) -> None:
    first = run.start("sleep 0.3\n" + WORLD + TRAIN, expect={"eval_accuracy": 0.7})
    assert (first["state"], first["job"], first["hosts"], first["ranks"]) == ("running", "demo", 1, 2)
    status = run.ended()
    assert (status["state"], status["reason"], status["returncode"]) == ("succeeded", "", 0)
    assert status["seconds"] >= 0.3
    assert [attempt["from"] for attempt in status["attempts"]] == ["the beginning"]
    results = read(run.folder, "results.json")
    assert results["metrics"].pop("train_loss") == 0.7
    assert results == {
        "job": "demo",
        "state": "succeeded",
        "reason": "",
        "started": status["started"],
        "ended": status["ended"],
        "seconds": status["seconds"],
        "hosts": 1,
        "ranks": 2,
        "notes": [],
        "restarts": 0,
        "threads_per_rank": [4],
        "precision": "fp32",
        "isas": ["amx"],
        "backend": "gloo",
        "stack": "native",
        "model": None,
        "attempts": status["attempts"],
        "cost": None,
        "epoch": None,
        "training": {"samples": None, "epochs": None},
        "padding": None,
        "waiting": None,
        "measured": None,
        "metrics": {"eval_accuracy": 0.8},
        "samples_per_step": None,
        "steps": 0,  # no Trainer told any
        "resumed_step": 0,
        "world": {"size": 2, "ranks": [{"rank": 0, "host": "node0"}, {"rank": 1, "host": "node0"}]},
        "output": f"{run.folder}/output",
    }
    assert (run.folder / "log").read_text() == "trained\n"
    assert not (run.folder / "ranks.json").exists()  # no rank told anything
    assert read(run.folder, "utilization.json")["hosts"]["node0"]["time"] == []


def test_what_ranks_use_of_their_hosts_is_kept_over_all_attempts(run: Run) -> None:
    use = "rss_bytes=1000 network_bytes=5"
    run.ends(
        f"beat 0 node0 pid=$$ stepped=true cpu_seconds=3 {use}\n"
        "[ -e again ] || { touch again; sleep 0.5; exit 1; }\nsleep 0.5\n" + WORLD + TRAIN,
        restarts=1,
    )
    results, used = read(run.folder, "results.json"), read(run.folder, "utilization.json")
    assert len(results["attempts"]) == 2
    host = used["hosts"]["node0"]
    assert sum(host["busy_cpus"]) * used["interval"] >= 6 * 0.99
    assert used["hosts"]["node0"]["cpus"] == 4


def test_what_ranks_measured_is_that_of_the_last_attempt(run: Run) -> None:
    seconds = {"median": 0.5, "low": 0.5, "high": 0.5, "mean": 0.5, "count": 7}
    told = json.dumps({"steps": 7, "step_seconds": seconds}).replace('"', '\\"').replace(" ", "")
    first = told.replace("0.5", "9.9")
    run.ends(
        f'[ -e again ] || {{ beat 0 node0 stepped=true "measured={first}"; touch again; sleep 0.5; '
        f'exit 1; }}\nbeat 0 node0 "measured={told}"\nsleep 0.5\n' + WORLD + TRAIN,
        restarts=1,
        measure=Measure(warmup_steps=2),
    )
    found = read(run.folder, "results.json")["measured"]
    assert (found["step_seconds"]["mean"], found["steps"], found["warmup_steps"]) == (0.5, 7, 2)


def test_a_job_that_made_too_few_steps_to_be_measured_says_so(run: Run) -> None:
    run.ends(WORLD + TRAIN, measure=Measure())
    results = read(run.folder, "results.json")
    assert results["measured"] is None
    assert results["notes"][0].startswith("nothing was measured: 0 step(s)")


def test_results_name_the_project(run: Run) -> None:
    project = {"directory": "/home/me/mine", "digest": "0123456789abcdef", "files": 2, "bytes": 9, "paths": ["project"]}
    run.ends(WORLD + TRAIN, settings={"project": project})
    assert read(run.folder, "results.json")["project"] == project


@pytest.mark.parametrize("mask", [0o022, 0o027])
def test_nobody_else_reads_what_it_writes_and_scripts_keep_their_umask(run: Run, mask: int) -> None:
    tell = "umask >> calls\nbeat 0 node1 stepped=true 'files={\"ranks/entered.json\": {}}'\n"
    before = os.umask(mask)
    try:
        run.start(tell + WORLD + TRAIN, ranks=(1, 1), settings={"head": "node1"})
    finally:
        os.umask(before)
    run.ended()
    assert calls(run.folder) == [f"{mask:04o}"]
    written = ("status.json", "results.json", "ranks.json", "log", "supervise.log", "lock.node0.supervisor")
    modes = {name: (run.folder / name).stat().st_mode & 0o777 for name in written}
    assert modes == dict.fromkeys(written, 0o600)
    assert (run.folder / "output").stat().st_mode & 0o777 == 0o777 & ~mask


def test_secrets_stay_for_restarts_and_are_removed_at_the_end(run: Run) -> None:
    secrets = run.folder / "secrets.json"
    secrets.write_text('{"HF_TOKEN": "hf_x"}')
    (run.hosts / "down.node2").touch()  # it has the same directory here
    run.program("rm", '#!/bin/sh\necho "$@" >> "$HOSTS/removed"\nexec /bin/rm "$@"\n')
    seen = 'ls secrets.json >> seen; env > "environment.$(wc -l < seen)"\n'
    world = """
echo '{"size": 2, "ranks": [{"rank": 0, "host": "node0"}, {"rank": 1, "host": "node1"}]}' > world.json
"""
    secret = {"env_from": ["HF_TOKEN"], "settings": {"head": "node0"}}
    status = run.ends(seen + FAILS_ONCE + world + TRAIN, ranks=(1, 1, 1), restarts=1, min_hosts=2, **secret)
    assert (status["state"], status["hosts"], len(status["attempts"])) == ("succeeded", 2, 2)
    assert (run.folder / "seen").read_text() == "secrets.json\n" * 2
    assert not any("hf_x" in path.read_text() for path in run.folder.glob("environment.*"))
    assert read(run.folder, "plan.json")["secrets"] == {"HF_TOKEN": "job_env"}
    assert not secrets.exists()
    # node0 itself and node1; node2 does not answer, and that is said, with what to do.
    assert (run.hosts / "removed").read_text().splitlines() == [f"-f {secrets}"] * 2
    assert status["secrets_left"] == ["node2"]
    assert f"node2 did not answer at the job's end and still has {secrets}" in status["notes"][-1]
    assert "playbooks/stop.yml -e job=demo" in read(run.folder, "results.json")["notes"][-1]


def test_secrets_leave_other_hosts_when_their_ranks_have_read_them(run: Run) -> None:
    """A host that is lost later has none any more."""
    run.program("ssh", SSH.replace("shift\nexec", 'echo "$*" >> "$HOSTS/asked"\nshift\nexec'))
    (run.folder / "secrets.json").write_text('{"HF_TOKEN": "hf_x"}')
    run.program("rm", "#!/bin/sh\nexit 0\n")  # all hosts have one directory here
    lost = "beat 0 node0; beat 1 node1; sleep 1; touch $HOSTS/down.node1\n"
    world = WORLD.replace('"host": "node0"}]', '"host": "node1"}]')
    status = run.ends(lost + world + TRAIN, ranks=(1, 1), env_from=["HF_TOKEN"], settings={"head": "node0"})
    assert "secrets_left" not in status
    assert f"node1 rm -f {run.folder}/secrets.json" in (run.hosts / "asked").read_text()


ALONE = (
    "the 2 ranks formed no group: the script never called torch.distributed.init_process_group, so each rank would "
    "have trained a model of its own. What each framework needs: docs/own_train_py.md"
)
KILLED = """
echo '=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES'
echo '=   RANK 1 PID 26638 RUNNING AT node0'
echo '=   KILLED BY SIGNAL: 9 (Killed)'
exit 255
"""


@pytest.mark.parametrize(
    ("mpirun", "expect", "reason"),
    [
        ("exit 3", {}, "mpirun ended with exit code 3"),
        (KILLED, {}, "rank 1 on node0 was ended by signal 9"),
        (TRAIN, {}, ALONE),
        (
            WORLD.replace('1, "host": "node0"', '1, "host": "node1"') + TRAIN,
            {},
            "the ranks formed another group than planned: {0: 'node0', 1: 'node1'} instead of {0: 'node0', 1: 'node0'}",
        ),
        (WORLD + TRAIN, {"eval_accuracy": 0.85}, "eval_accuracy is 0.8 and the job expects"),
        (
            WORLD + TRAIN.replace("0.7", "NaN"),
            {"train_loss": 0},
            "train_loss is nan: ",
        ),
        (
            WORLD + TRAIN,
            {"eval_f1": 0.5},
            "the script reported no eval_f1, which the job expects to be at least 0.5",
        ),
        (
            WORLD + "mkdir output; echo '{\"eval_f1\":' > output/all_results.json",
            {"eval_f1": 0.5},
            "the script reported no eval_f1, which the job expects to be at least 0.5",
        ),
    ],
)
def test_failure(run: Run, mpirun: str, expect: dict[str, float], reason: str) -> None:
    status = run.ends(mpirun, expect=expect)
    assert status["state"] == "failed"
    assert status["reason"].startswith(reason)
    assert read(run.folder, "results.json")["reason"] == status["reason"]


# One child ends when asked, one does not, and one has left the process group; ranks know each other by a variable.
CHILDREN = """
trap '' HUP
export AMX_CLUSTER_JOB=$PWD
sleep 1000 & echo $! > pids
(trap '' TERM; exec sleep 1000) & echo $! >> pids
setsid sleep 1000 & echo $! >> pids
echo ready >> pids
wait
"""


def after_children(commands: str) -> str:
    """An mpirun that runs commands when its children are there."""
    return CHILDREN.removesuffix("wait\n") + commands + "\nwait\n"


def children(folder: Path) -> list[int]:
    """The processes that mpirun started, when it has started all."""
    until(lambda: (folder / "pids").exists() and "ready" in (folder / "pids").read_text())
    return [int(line) for line in (folder / "pids").read_text().split()[:3]]


@pytest.mark.parametrize(
    ("number", "state", "reason"),
    [
        (directory.STOP, "stopped", "it was stopped on request"),
        (signal.SIGTERM, "lost", "its supervisor was asked to end, as when the head shuts down"),
    ],
)
def test_an_end_from_outside(run: Run, number: signal.Signals, state: str, reason: str) -> None:
    status = run.start(CHILDREN, restarts=3)
    started = children(run.folder)
    assert os.getsid(status["pid"]) == status["pid"]  # it outlives the connection that started it
    assert [held["job"] for held in directory.locked_by(run.folder.parent, "node0")] == ["demo"]
    os.kill(status["pid"], signal.SIGHUP)
    os.kill(status["pid"], number)
    status = run.ended()
    assert (status["state"], status["reason"], len(status["attempts"])) == (state, reason, 1)
    until(lambda: all(is_gone(pid) for pid in started))  # one that exits has no environment any more
    assert read(run.folder, "results.json")["state"] == state
    assert until(lambda: not directory.locked_by(run.folder.parent, "node0")) is True


def test_ranks_that_wait_for_the_others_too_long(run: Run) -> None:
    run.start(after_children("mkdir ranks; echo '{}' > ranks/entered.json"), settings={"world_timeout": 1})
    started = children(run.folder)
    status = run.ended()
    assert status["state"] == "failed"
    assert status["reason"] == (
        "rank 0 waited 1 s for the other 1 rank(s) to join its group at 127.0.0.1: "
        "check that hosts reach each other on the cluster network, on any port"
    )
    until(lambda: all(is_gone(pid) for pid in started))  # one that exits has no environment any more


def test_a_supervisor_that_fails_ends_the_job_and_says_so(run: Run) -> None:
    (run.env / "amx-cluster.json").unlink()
    run.checkpoint(4)  # to go on from it, the stack has to be known
    status = run.ends(WORLD + TRAIN)
    assert status["state"] == "failed"
    assert status["reason"] == (
        f"its supervisor failed (FileNotFoundError: [Errno 2] No such file or directory: "
        f"'{run.env}/amx-cluster.json'); supervise.log tells where"
    )
    assert "Traceback" in (run.folder / "supervise.log").read_text()
    assert read(run.folder, "results.json")["restarts"] == 0


def test_what_ranks_tell(run: Run) -> None:
    """A message cut off, one of another job and one of nobody's do no harm; the last one counts, also at the end."""
    strangers = """
exec 3<>/dev/tcp/127.0.0.1/$(cut -d: -f2 <<< $AMX_CLUSTER_BEAT); echo -n '{"tok' >&3; exec 3>&-
exec 3<>/dev/tcp/127.0.0.1/$(cut -d: -f2 <<< $AMX_CLUSTER_BEAT); echo -n 3 >&3; exec 3>&-
AMX_CLUSTER_BEAT=${AMX_CLUSTER_BEAT%:*}:wrong beat 0 node9
beat 0 node0 idle=1 oom_kills=0 'files={"world.json": {"of": "a rank on this host, which wrote it itself"}}'
sleep 0.5
beat 0 node0 idle=2 oom_kills=3
beat 1 node0 oom_kills=0
"""
    assert run.ends(strangers + WORLD + TRAIN)["state"] == "succeeded"
    ranks = read(run.folder, "ranks.json")
    assert {rank: beat.pop("seen") > 0 for rank, beat in ranks.items()} == {"0": True, "1": True}
    assert ranks == {
        "0": {"rank": 0, "host": "node0", "oom_kills": 3, "first_oom_kills": 0, "idle": 2, "stepped": False},
        "1": {"rank": 1, "host": "node0", "oom_kills": 0, "first_oom_kills": 0, "idle": 0, "stepped": False},
    }


def test_a_rank_that_the_kernel_ended_out_of_memory(run: Run) -> None:
    run.program("grep", "#!/bin/sh\necho 'Warning: a banner of sshd'\necho 'oom_kill 4'\n")  # what the kernel counts
    status = run.ends("beat 1 node0 oom_kills=3; sleep 0.5; beat 1 node0 oom_kills=4; sleep 0.5" + KILLED)
    assert status["reason"].startswith("the kernel of node0 ended a rank")


def test_a_stall_names_the_rank_that_holds_up_the_others(run: Run) -> None:
    tell = """
beat 1 node0 idle=8 stepped=true 'stack="  File \\"train.py\\", line 7, in read"'
beat 0 node0 idle=7 stepped=true waiting=true
"""
    run.start(after_children(tell), stall_seconds=5)
    started = children(run.folder)
    status = run.ended()
    assert status["state"] == "failed"
    first, _newline, rest = status["reason"].partition("\n")
    assert re.fullmatch(r"no rank has made a step .* for \d+ s", first)
    assert re.fullmatch(r'rank 1 on node0 is here, .*:\n  File "train.py", line 7, in read', rest)
    until(lambda: all(is_gone(pid) for pid in started))  # one that exits has no environment any more


# Fails in its first attempt after a step, and says with which arguments each attempt was started.
FAILS_ONCE = """
echo "$@" >> calls
if [ $(wc -l < calls) = 1 ]; then
  beat 0 node0 idle=0 stepped=true
  echo '{"step": 5}' > progress.json
  exit 9
fi
"""


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


def test_a_restart_goes_on_from_the_last_complete_checkpoint(run: Run) -> None:
    make = """
if [ ! -e calls ]; then
  for step in 5 10 15; do mkdir -p output/checkpoint-$step; echo weights > output/checkpoint-$step/model; done
  for step in 5 10; do echo '{"model": 8}' > output/checkpoint-$step/complete.json; done
fi
"""
    status = run.ends(make + FAILS_ONCE + WORLD + TRAIN, restarts=1)
    assert (status["state"], status["notes"]) == ("succeeded", [])
    assert [(attempt["from"], attempt["reason"].partition(" and ")[0]) for attempt in status["attempts"]] == [
        ("the beginning", "mpirun ended with exit code 9"),
        ("checkpoint-10", ""),  # 15 was not written to its end
    ]
    first, second = calls(run.folder)
    assert "resume_from_checkpoint" not in first
    assert "--resume_from_checkpoint output/checkpoint-10 " in second + " "
    assert read(run.folder, "results.json")["restarts"] == 1


def test_a_job_that_goes_on_from_an_earlier_one(run: Run) -> None:
    run.checkpoint(7)
    run.checkpoint(9, whole=False)
    run.start('echo "$@" >> calls\n' + WORLD + TRAIN)
    assert [attempt["from"] for attempt in run.ended()["attempts"]] == ["checkpoint-7"]
    assert "--resume_from_checkpoint output/checkpoint-7" in calls(run.folder)[0]


@pytest.mark.parametrize(
    ("earlier", "job", "notes", "argument"),
    [
        ({"ranks": 2, "accumulation": 3}, {}, [], "--gradient_accumulation_steps 3 "),
        (
            {"ranks": 3, "accumulation": 3},
            {},
            ["2 instead of 3 ranks on node0; the global batch is 2/3 "],
            "--gradient_accumulation_steps 3 ",
        ),
        # It had gone on with fewer ranks before.
        (
            {"ranks": 2, "accumulation": 6},
            {"keep_global_batch": True},
            ["the global batch stays as it was"],
            "--gradient_accumulation_steps 6 ",
        ),
    ],
)
def test_a_checkpoint_of_another_world_size(
    run: Run, earlier: dict[str, int], job: dict[str, Any], notes: list[str], argument: str
) -> None:
    run.checkpoint(7)
    (run.folder / "resumed.json").write_text(json.dumps(earlier))
    status = run.ends('echo "$@" >> calls\n' + WORLD + TRAIN, args={"gradient_accumulation_steps": 3}, **job)
    assert (status["state"], len(status["notes"])) == ("succeeded", len(notes))
    assert all(noted.startswith(note) for noted, note in zip(status["notes"], notes))
    assert argument in calls(run.folder)[0]
    assert status["ranks"] * status["accumulation"] == 2 * int(argument.split()[1])


STEPS = "beat 0 node0 idle=0 stepped=true\n"
SAVES = "mkdir -p output/checkpoint-3; echo weights > output/checkpoint-3/model; "
SAVES += "echo '{\"model\": 8}' > output/checkpoint-3/complete.json\n"
BEFORE = ["not restarted: it failed before its first step and would again"]


@pytest.mark.parametrize(
    ("does", "expect", "attempts", "notes"),
    [
        ("exit 2", {}, 1, BEFORE),
        ("echo '{\"step\": 0}' > progress.json; exit 2", {}, 1, BEFORE),
        (STEPS + "exit 2", {}, 3, []),
        (SAVES + "exit 2", {}, 3, []),  # it ended before its rank told that it had stepped
        (STEPS + WORLD + TRAIN, {"eval_accuracy": 0.9}, 1, []),  # another attempt would have the same result
    ],
)
def test_what_is_not_tried_again(
    run: Run, does: str, expect: dict[str, float], attempts: int, notes: list[str]
) -> None:
    status = run.ends(f"echo x >> calls\n{does}", restarts=2, expect=expect)
    assert (status["state"], status["notes"], calls(run.folder)) == ("failed", notes, ["x"] * attempts)
    assert read(run.folder, "results.json")["restarts"] == attempts - 1


# node1 is lost in the first attempt.
LOSES_A_HOST = FAILS_ONCE.replace("  exit 9", "  touch $HOSTS/down.node1; sleep 1; exit 9")
GONE = "node1 does not answer any more (ssh: connect to host node1 port 22: No route to host)"


@pytest.mark.parametrize(("size", "note"), [(48, "the global batch stays as it was"), ("<=40", "stays")])
def test_a_host_that_is_gone_leaves_its_share_of_the_global_batch(run: Run, size: int | str, note: str) -> None:
    run.checkpoint(3)
    status = run.ends(LOSES_A_HOST + WORLD + TRAIN, ranks=(2, 2), restarts=1, min_hosts=1, global_batch=size)
    assert status["state"] == "succeeded" and note in status["notes"][0]
    (before, after), share = calls(run.folder), 12 if size == 48 else 10
    for words, batch in zip((before, after), ("2 6", "3 8") if size == 48 else ("2 5", "4 5")):
        steps, at_once = batch.split()
        assert f"--gradient_accumulation_steps {steps} --per_device_train_batch_size {at_once} " in words
    assert status["ranks"] * status["per_device"] * status["accumulation"] == 4 * share


def test_a_host_that_is_gone_is_left_out(run: Run) -> None:
    run.checkpoint(3)
    batch = {"keep_global_batch": True, "args": {"gradient_accumulation_steps": 3}}
    status = run.ends(LOSES_A_HOST + WORLD + TRAIN, ranks=(2, 2), restarts=1, min_hosts=1, **batch)
    (note,) = status["notes"]
    assert note.startswith("2 instead of 4 ranks on node0; the global batch stays as it was")
    assert (status["state"], status["hosts"], status["ranks"]) == ("succeeded", 1, 2)
    assert status["attempts"][0]["reason"] == GONE
    first, second = calls(run.folder)
    assert "-n 4 " in first
    assert "-n 2 " in second
    assert "--gradient_accumulation_steps 6 " in second
    assert "--ddp_backend gloo" in second
    assert (run.folder / "hostfile").read_text() == "node0\n"
    # For the first attempt, while node1 was there. What a launcher reads on each host tells of the checkpoint, too.
    *files, last = (run.hosts / "copies").read_text().splitlines()
    names = ("job.json", "plan.json", "hostfile", "env", "launch.sh")
    assert sorted(files) == sorted(f"{name} node1:{run.folder}/" for name in names)
    assert last == f"checkpoint-3 node1:{run.folder}/output/"


def test_a_host_that_answers_when_it_is_asked_again_is_not_gone(run: Run) -> None:
    """A busy host may take longer than a command may: what a rank reported is the reason then."""
    once = 'if [ "$1 $2" = "node1 true" ] && ! [ -e $HOSTS/late ]; then touch $HOSTS/late; exit 255; fi\nshift\nexec'
    run.program("ssh", SSH.replace("shift\nexec", once))
    raised = "--- rank 2 on node1 failed ---\nValueError: no label\n--- end of rank 2 ---"
    status = run.ends(f"echo '{raised}'; exit 1", ranks=(2, 2))
    assert status["reason"] == "rank 2 on node1 failed: ValueError: no label"
    assert (run.hosts / "late").exists()


def test_too_few_hosts_are_left(run: Run) -> None:
    run.quicker(RETURN=1)
    status = run.ends(LOSES_A_HOST, ranks=(2, 2), restarts=1)
    assert (status["state"], len(calls(run.folder))) == ("failed", 1)
    assert status["attempts"][0]["reason"] == GONE
    assert re.fullmatch(
        r"node1 did not answer within 1 s and the job needs 2 host\(s\): bring it back and start the job again, or .* "
        r"\(min_hosts\)",
        status["reason"],
    )


def test_a_host_that_comes_back_is_waited_for(run: Run) -> None:
    back = LOSES_A_HOST.replace("; exit 9", "; (sleep 3; rm $HOSTS/down.node1) > /dev/null 2>&1 & exit 9")
    world = WORLD.replace("}]}", '}, {"rank": 2, "host": "node1"}, {"rank": 3, "host": "node1"}]}')
    status = run.ends(back + world + TRAIN, ranks=(2, 2), restarts=1)
    assert (status["state"], status["notes"], status["ranks"]) == ("succeeded", [], 4)
    assert len(calls(run.folder)) == 2


LEAVES = """if [ ! -e seen ]; then
touch seen
beat 0 node0 saved=3
beat 1 node0 saved=3
beat 2 node1 saved=3 time=1795694200 'leaves={"action":"terminate","time":"2026-11-26T12:00:00Z","instance":"i-1"}'
beat 3 node1 saved=3
sleep 1000
fi
"""


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        ({"min_hosts": 1}, ""),
        ({"min_hosts": 1, "replace": True}, "node1 leaves at 12:00:00 UTC: replace it"),
        ({"restarts": 1}, "node1 leaves at 12:00:00 UTC and the job needs 2 "),
    ],
)
def test_a_host_that_is_taken_back(run: Run, job: dict[str, Any], reason: str) -> None:
    """It still answers, but is left out: no fault, and so without `restarts`."""
    run.checkpoint(3)
    status = run.ends(LEAVES + WORLD + TRAIN, ranks=(2, 2), **job)
    assert re.fullmatch("node1 leaves at 12:00:00 UTC; .* checkpoint-3", status["attempts"][0]["reason"])
    assert status["reason"].startswith(reason)
    assert (status["state"], len(status["attempts"])) == (("failed", 1) if reason else ("succeeded", 2))
    assert status["left"] == {"node1": {"at": "12:00:00 UTC", "instance": "i-1"}}
    assert "node1 leaves at 12:00:00 UTC" in status["notes"]
    assert (run.folder / "hostfile").read_text() == ("node0\nnode1\n" if reason else "node0\n")


def test_a_host_that_falls_silent_ends_the_attempt(run: Run) -> None:
    run.quicker(SILENT=1)
    run.start(after_children("touch $HOSTS/down.node1; beat 0 node0; beat 2 node1"), ranks=(2, 2))
    started = children(run.folder)
    status = run.ended()
    assert (status["state"], status["reason"]) == ("failed", GONE)
    until(lambda: all(is_gone(pid) for pid in started))  # one that exits has no environment any more


def test_stop_while_a_host_is_waited_for(run: Run) -> None:
    status = run.start(LOSES_A_HOST, ranks=(2, 2), restarts=1)
    until(lambda: any("reason" in attempt for attempt in read(run.folder, "status.json")["attempts"]))
    os.kill(status["pid"], directory.STOP)
    status = run.ended()
    assert (status["state"], len(calls(run.folder)), len(status["attempts"])) == ("stopped", 1, 1)


# --- what is written, and copied ---


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"needs to mount a file system: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_does_not_take_the_job_nor_its_end(small: Path) -> None:
    run = Run(small)
    try:
        fill = "cat /dev/zero > output/checkpoint; sleep 3; echo trained; exit 1"
        run.start("mkdir output; beat 0 node0; beat 1 node0; " + fill)
        status = run.ended()
        assert status["state"] == "failed"
        assert status["reason"].startswith("mpirun ended with exit code 1")
        assert f"; the file system of {run.folder} on node0 is full: " in status["reason"]
        assert any("could not be written for a while: No space left on device" in note for note in status["notes"])
        assert read(run.folder, "results.json")["reason"] == status["reason"]
    finally:
        until(lambda: not directory.running(run.folder))


def test_a_rank_that_is_ended_for_a_full_disk(small: Path) -> None:
    """As mpirun does, which cannot write what its ranks print."""
    run = Run(small)
    run.start("mkdir output; beat 0 node0; cat /dev/zero > output/checkpoint; beat 0 node0 exit=-9; sleep 1000")
    reason = run.ended()["reason"]
    assert re.match("rank 0 on node0 was ended by signal 9 .*; the file system of .* on node0 is full: ", reason)
    until(lambda: not directory.running(run.folder))


def test_the_output_of_another_host_is_fetched(run: Run) -> None:
    status = run.ends(WORLD + TRAIN + "echo x > output/model", ranks=(2,), here="node9", settings={"head": "node9"})
    assert (status["state"], status["reason"]) == ("succeeded", "")
    assert read(run.folder, "results.json")["metrics"]["eval_accuracy"] == 0.8
    assert sorted(path.name for path in run.folder.glob("*output*")) == ["output"]


def test_a_job_whose_output_cannot_be_fetched_has_not_succeeded(run: Run) -> None:
    run.program("scp", "#!/bin/bash\necho scp: broken >&2\nexit 1\n")
    status = run.ends(WORLD + TRAIN, here="node9", settings={"head": "node9"})
    assert status["state"] == "failed"
    assert status["reason"] == (
        f"output/ could not be fetched from node0: scp: broken. It is still in {run.folder}/output on node0"
    )


def test_a_stop_ends_the_fetching_of_output(run: Run) -> None:
    run.quicker(FETCH=1)
    (run.hosts / "slow").touch()
    status = run.start(WORLD + TRAIN, here="node9", settings={"head": "node9"})
    until((run.hosts / "fetching").exists)
    os.kill(status["pid"], directory.STOP)
    status = run.ended()
    assert status["state"] == "stopped"
    assert status["notes"] == [
        f"output/ could not be fetched from node0: the job was stopped. It is still in {run.folder}/output on node0"
    ]


def test_a_run_is_started_once(run: Run) -> None:
    status = run.start("sleep 1000")
    command = [sys.executable, "-S", str(run.runtime), "supervise", str(run.folder)]
    second = subprocess.run(command, cwd=run.folder, capture_output=True, text=True, timeout=240, check=False)
    assert (second.returncode, "is running already" in second.stderr) == (1, True)
    until(lambda: read(run.folder, "status.json")["attempts"])
    os.kill(status["pid"], directory.STOP)
    assert run.ended()["pid"] == status["pid"]
    assert not directory.is_in_use(run.folder, "node0")  # the next start need not wait
    again = subprocess.run(command, cwd=run.folder, capture_output=True, text=True, timeout=240, check=False)
    assert (again.returncode, "has run already" in again.stderr) == (1, True)
    assert len(read(run.folder, "status.json")["attempts"]) == 1


def test_of_jobs_that_begin_at_once_on_a_host_one_runs(run: Run, tmp_path: Path) -> None:
    """Both have found the host free, before either had begun. The other is refused at once, before it prepares."""
    run.start("sleep 1000", ranks=(1, 1))
    other = Run(tmp_path, "other")
    with pytest.raises(subprocess.CalledProcessError) as refused:
        other.start("exit 1", here="node1", ranks=(1, 1), prepare=PREPARE)
    assert b"demo was not started: node0, node1 are locked by job demo of " in refused.value.stderr
    assert not (other.folder / "status.json").exists()


HELD = "test -e lock.node0.supervisor && ls > held; until [ -e go ]; do sleep 0.1; done\n"


@pytest.mark.parametrize("number", [directory.STOP, signal.SIGKILL])
def test_jobs_that_wait_run_one_after_the_other(run: Run, tmp_path: Path, number: signal.Signals) -> None:
    run.quicker(ASK_HOSTS=1)
    first = run.start("sleep 1000")
    until(lambda: read(run.folder, "status.json")["attempts"])
    waiting = [Run(tmp_path, name) for name in ("b", "c")]
    for place, job in enumerate(waiting):
        job.runtime = run.runtime
        status = job.start(HELD + WORLD + TRAIN, wait=True)
        text = f"place {place + 1} of {place + 1} in the queue: node0 is locked by job demo of  since "
        assert status["waiting"] == text + ("; job b of  waits for node0" if place else "")
        assert (status["queue"]["place"], len(status["queue"]["ahead"])) == (place + 1, place + 1)
    os.kill(first["pid"], number)
    if number == signal.SIGKILL:  # its ranks have the host
        until(lambda: "node0 is locked by job demo" in read(waiting[0].folder, "status.json")["waiting"])
        assert not (waiting[0].folder / "held").exists()
        processes.end(run.folder, 5)
    for job, later in zip(waiting, [*waiting[1:], None]):
        until((job.folder / "held").exists)
        assert not later or not (later.folder / "held").exists()
        (job.folder / "go").touch()
        status = job.ended()
        assert (status["state"], status.get("waiting"), status.get("queue")) == ("succeeded", None, None)


@pytest.mark.parametrize("number", [directory.STOP, signal.SIGTERM, signal.SIGKILL])
def test_a_job_that_ends_while_it_waits_leaves_the_queue(run: Run, tmp_path: Path, number: signal.Signals) -> None:
    first = run.start("sleep 1000")
    until(lambda: read(run.folder, "status.json")["attempts"])
    later, urgent, last = (Run(tmp_path, name) for name in ("later", "urgent", "last"))
    ended = later.start(HELD, wait=True)
    urgent.start(HELD + WORLD + TRAIN, wait=True, priority=1)
    last.start(HELD + WORLD + TRAIN, wait=True)
    until(lambda: read(later.folder, "status.json")["queue"]["place"] == 2)
    assert "; job urgent of  (priority 1) waits for node0" in read(later.folder, "status.json")["waiting"]
    os.kill(ended["pid"], number)
    until(lambda: directory.look(later.folder)["status"]["state"] != "running")
    status = directory.look(later.folder)["status"]
    states = {directory.STOP: "stopped", signal.SIGTERM: "lost", signal.SIGKILL: "lost"}
    assert (status["state"], status["attempts"]) == (states[number], [])
    until(lambda: read(last.folder, "status.json")["queue"]["of"] == 2)
    os.kill(first["pid"], directory.STOP)
    for job, other in ((urgent, last), (last, None)):
        until((job.folder / "held").exists)
        assert not other or not (other.folder / "held").exists()
        (job.folder / "go").touch()
        assert job.ended()["state"] == "succeeded"


def test_a_job_that_waits_for_others_on_its_hosts_locks_none(run: Run) -> None:
    """Else it and a job of another head, which waits for this one, would wait for each other."""
    run.quicker(ASK_HOSTS=1)
    used = run.hosts / "used"
    used.touch()
    asked = f"[ ! -e {used} ] && echo '[]' || echo '[\"node1 is used by mpirun\"]'"
    run.program("ssh", f"#!/bin/bash\ncase $* in *--locks*) {asked} ;; *job.json*) cat job.json ;; esac\n")
    run.start(HELD + WORLD.replace('"host": "node0"}]', '"host": "node1"}]') + TRAIN, ranks=(1, 1), wait=True)
    until(lambda: read(run.folder, "status.json").get("waiting") == "node1 is used by mpirun")
    until(lambda: not directory.is_in_use(run.folder, "node0"), 20)
    used.unlink()
    until((run.folder / "held").exists)
    assert directory.is_in_use(run.folder, "node0")
    (run.folder / "go").touch()
    assert run.ended()["state"] == "succeeded"


def test_files_of_another_start_on_a_host(run: Run) -> None:
    run.program("ssh", "#!/bin/bash\ncase $* in *job.json*) echo '{\"settings\": {}}' ;; esac\n")
    status = run.ends(WORLD + TRAIN, ranks=(1, 1), settings={"start": "1a2b"})
    assert status["reason"] == "another start of this job has replaced its directory on node1: start it again"
    assert status["attempts"] == []


def test_a_host_that_lacks_the_runtime_gets_it_from_the_head(run: Run) -> None:
    lacks = "cat job.json; echo the runtime is missing or damaged"
    gets = 'cat > "$HOSTS/sent"; echo "$*" > "$HOSTS/installed"'
    run.program("ssh", f"#!/bin/bash\ncase $* in *job.json*) {lacks} ;; *install*) {gets} ;; esac\n")
    world = WORLD.replace('"host": "node0"}]', '"host": "node1"}]')
    status = run.ends(world + TRAIN, ranks=(1, 1), settings={"start": "1a2b"})
    assert (status["state"], status["reason"]) == ("succeeded", "")
    assert f"install {run.runtime}" in (run.hosts / "installed").read_text()
    assert archive.unpack((run.hosts / "sent").read_bytes()) == archive.of_directory(run.runtime)


def test_a_host_that_cannot_get_the_runtime(run: Run) -> None:
    lacks = "cat job.json; echo the runtime is missing or damaged"
    fails = "echo No space left on device >&2; exit 1"
    run.program("ssh", f"#!/bin/bash\ncase $* in *job.json*) {lacks} ;; *install*) {fails} ;; esac\n")
    status = run.ends(WORLD + TRAIN, ranks=(1, 1), settings={"start": "1a2b"})
    assert status["reason"].endswith("not be installed on node1: No space left on device")
    assert status["attempts"] == []


def test_ranks_that_never_told_anything(run: Run) -> None:
    run.start("beat 0 node0 waiting=true; sleep 1000", stall_seconds=5)
    first, *others = run.ended()["reason"].splitlines()
    assert first.startswith("no rank has done any work ")
    (said,) = (line for line in others if line.startswith("rank 1 on node0 has told nothing "))
    assert "that hangs" in said


def test_a_rank_that_works_and_tells_nothing_is_left_alone(run: Run) -> None:
    work = "RANK=1 AMX_CLUSTER_JOB=$PWD timeout 10 bash -c 'while :; do :; done'"
    status = run.ends(WORLD + f"{work} &\nbeat 0 node0 waiting=true\nwait\n{TRAIN}", stall_seconds=5)
    assert (status["state"], status["reason"]) == ("succeeded", "")


def test_a_host_that_is_gone_before_its_first_heartbeat(run: Run) -> None:
    run.quicker(SILENT=1)
    (run.hosts / "down.node1").touch()
    run.start("beat 0 node0; sleep 1000", ranks=(1, 1))
    assert "node1" in run.ended()["reason"]


def test_a_clock_that_is_set_is_no_wait_for_the_others(run: Run) -> None:
    old = "mkdir ranks; echo '{}' > ranks/entered.json; touch -d '10 minutes ago' ranks/entered.json"
    assert run.ends(f"{old}; sleep 2\n{WORLD}{TRAIN}", settings={"world_timeout": 30})["state"] == "succeeded"


def test_a_log_is_searched_from_its_end(tmp_path: Path) -> None:

    (tmp_path / "log").write_text("earlier" + "x" * 100 + "the cause")
    assert _io.tail(tmp_path / "log", 7, 9) == "the cause"
    assert _io.tail(tmp_path / "log", 107, 1000) == "the cause"


def exchange_that(does: str) -> str:
    """An mpirun whose exchange between hosts is this, and whose ranks train."""
    world = '{"size": 2, "ranks": [{"rank": 0, "host": "node0"}, {"rank": 1, "host": "node1"}]}'
    return f"case $* in *' exchange'*) {does}; exit ;; esac\necho '{world}' > world.json\n{TRAIN}"


def test_hosts_exchange_messages_before_the_first_rank_starts(run: Run) -> None:
    line = 'amx.cluster exchange: {"pair": [0, 1], "microseconds": 1.5, "error": ""}'
    status = run.ends(exchange_that(f"""echo "$FI_PROVIDER" > provider; echo '{line}'"""), ranks=(1, 1), fabric="roce")
    assert (status["state"], status["reason"]) == ("succeeded", "")
    (note,) = status["notes"]
    assert re.match(r"every pair of hosts .* psm3: 1\.5 µs ", note)
    assert (run.folder / "provider").read_text() == "psm3\n"


def test_a_fabric_that_does_not_connect_the_hosts(run: Run) -> None:
    line = 'amx.cluster exchange: {"pair": [0, 1], "microseconds": null, "error": "no answer within 5 s"}'
    status = run.ends(exchange_that(f"echo '{line}'; sleep 1000"), ranks=(1, 1), fabric="infiniband_hdr")
    assert status["state"] == "failed"
    assert re.match(r"1 of 1 pairs of hosts .* mlx: node0 and node1: no answer within 5 s\. ", status["reason"])
    assert status["attempts"] == [], "no rank was started"


def test_a_job_that_is_stopped_while_hosts_exchange_messages(run: Run) -> None:
    first = run.start(exchange_that("touch begun; sleep 1000"), ranks=(1, 1), fabric="efa")
    until((run.folder / "begun").exists)
    os.kill(first["pid"], directory.STOP)
    status = run.ended()
    assert (status["state"], status["attempts"]) == ("stopped", [])


# --- curves and the end ---


def test_what_the_trainer_has_logged_is_kept_over_restarts(run: Run) -> None:
    told = """beat 0 node0 'logged="no list"'
        beat 0 node0 'stepped=true' 'logged=[{"step":1,"time":2.5,"metrics":{"loss":NaN}},{"step":2}]'
        [ -e again ] || { touch again; exit 3; }"""
    run.start(f"{told}\n{WORLD}{TRAIN}", restarts=1)
    status = run.ended()
    assert [attempt["returncode"] for attempt in status["attempts"]] == [3, 0]
    entries = [json.loads(line) for line in (run.folder / "curves.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in entries] == [1, 2, 1, 2]
    assert (run.folder / "curves.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("mpirun", "state"), [(WORLD + TRAIN, "succeeded"), ("exit 3", "failed")])
def test_a_command_at_the_end(run: Run, mpirun: str, state: str) -> None:
    """It gets what came of the job, when another run could begin in its place already."""
    (run.folder / "secrets.json").write_text('{"HOOK_TOKEN": "t"}')
    unlocked = "for lock in lock.*; do flock -n $lock true || exit 4; done"
    command = f"cat > told.json; echo $HOOK_TOKEN $MINE; {unlocked}"
    run.start(mpirun, on_end=OnEnd(command=command), env_from=["HOOK_TOKEN"], env={"MINE": "1"})
    status = run.ended()
    outcome = until(lambda: directory.look(run.folder)["status"].get("on_end"))
    assert (outcome["ok"], outcome["text"]) == (True, "on_end: its command: exit code 0")
    told = json.loads((run.folder / "told.json").read_text())
    results = json.loads((run.folder / "results.json").read_text())
    assert (told["job"], told["state"], told["reason"], told["host"]) == ("demo", state, status["reason"], "node0")
    assert told["results"] == results
    assert (run.folder / "on_end.log").read_text() == "t 1\n"
    assert "on_end: its command: exit code 0" in (run.folder / "supervise.log").read_text()
    assert not (run.folder / "secrets.json").exists()


def test_the_end_of_a_job_whose_directory_was_moved_aside(run: Run) -> None:
    command = "[ -e old ] && echo moved > proof || { touch waiting; sleep 0.2; exit 1; }"
    run.start("exit 3", on_end=OnEnd(command=command))
    run.ended()
    until((run.folder / "waiting").exists)
    aside = run.folder.with_name("demo.aside")
    run.folder.rename(aside)
    run.folder.mkdir()
    (aside / "old").touch()
    outcome = until(lambda: read_json(aside / "on_end.json"))
    assert outcome["ok"]
    assert (aside / "proof").exists()
    assert not list(run.folder.iterdir())


@pytest.mark.parametrize(
    ("mpirun", "state", "reason"),
    [
        ("sleep 2\n" + WORLD + TRAIN, "succeeded", ""),
        ("sleep 2\nexit 70", "lost", "its supervisor (process {pid}) ended before its ranks, which have ended since"),
    ],
)
def test_what_ranks_do_without_their_supervisor_is_written(run: Run, mpirun: str, state: str, reason: str) -> None:
    first = run.start("touch begun\n" + mpirun, expect={"eval_accuracy": 0.7})
    until((run.folder / "begun").exists)
    os.kill(first["pid"], signal.SIGKILL)
    until(lambda: directory.running(run.folder) is None)
    seen = directory.look(run.folder)["status"]
    assert seen["state"] == "lost"
    assert "its ranks still run" in seen["reason"]
    status = run.ended()
    assert (status["state"], status["reason"]) == (state, reason.format(pid=first["pid"]))
    assert status["attempts"][-1]["returncode"] == (70 if reason else 0)
    assert read(run.folder, "results.json")["metrics"] == ({} if reason else {"eval_accuracy": 0.8, "train_loss": 0.7})


def test_ranks_that_go_on_without_their_supervisor_are_ended(run: Run) -> None:
    """mpirun, or a call of a rank that holds Python's lock, may never end by itself."""
    run.quicker(ALONE=1, GRACE=2)
    first = run.start("echo $$ > pid\nexec sleep 1000")
    until(lambda: (run.folder / "pid").exists() and (run.folder / "pid").read_text())
    os.kill(first["pid"], signal.SIGKILL)
    assert run.ended()["state"] == "lost"
    assert is_gone(int((run.folder / "pid").read_text()))


PREPARE = Prepare(script=Path("/mine/prepare.py"))


def test_a_job_prepares_its_data_under_its_own_lock(run: Run) -> None:
    """From before the script begins until it has ended, the job is seen to run, with its hosts."""
    (run.folder / "prepare.py").write_text(
        "import os, time\nprint('tokenising', flush=True)\nos.mkdir('data')\n"
        "while not os.path.exists('go'): time.sleep(0.05)\nopen('data/rows', 'w').write('1')\n"
    )
    first = run.start("test -e data/rows && sleep 0.3\n" + WORLD + TRAIN, prepare=PREPARE, ranks=(2, 2))
    assert first["preparing"]
    until(lambda: (run.folder / "data").is_dir())
    jobs = run.folder.parent
    seen = directory.look(run.folder)
    assert (seen["status"]["state"], seen["log"]) == ("running", "tokenising\n")
    assert [used["hosts"] for used in in_use.in_use(jobs, "node0")] == [["node0", "node1"]]
    assert in_use.environments_in_use(jobs) == ["env"]
    locked = processes.locked(jobs, "node0", "other")
    assert [lock["job"] for lock in locked["locked_by"]] == ["demo"]
    assert list(locked["queued"]) == ["node0", "node1"]
    with pytest.raises(ValueError, match="was started a moment ago"), directory.replacing(run.folder, "node0", "B"):
        pass
    (run.folder / "go").touch()
    status = run.ended()
    assert "preparing" not in status
    assert status["reason"].startswith("the ranks formed another group than planned"), "node0 alone is not all"
    assert processes.locked(jobs, "node0", "other")["queued"] == {}


def test_prepared_data_cannot_be_copied_to_a_host(run: Run) -> None:
    (run.folder / "prepare.py").write_text("import os; os.mkdir('data')")
    (run.hosts / "down.node1").touch()
    status = run.ends(WORLD + TRAIN, prepare=PREPARE, ranks=(1, 1))
    assert status["state"] == "failed"
    assert status["reason"].startswith("the prepared data could not be copied to all hosts: node1: ")
    assert "No route to host" in status["reason"]


def test_a_script_that_prepares_fails(run: Run) -> None:
    """What has succeeded before is found, also behind a run that has failed."""
    for stamp, state in (("20261101", "succeeded"), ("20261102", "failed")):
        before = run.folder.with_name(f"demo.{stamp}T000000Z")
        directory.create(before, {"status.json": json.dumps({"state": state}), "output/model": "1"}, {})
    (run.folder / "prepare.py").write_text("raise SystemExit('train.jsonl, row 3: no text')")
    status = run.ends(WORLD + TRAIN, prepare=PREPARE)
    assert (status["state"], status["reason"], status["attempts"]) == (
        "failed",
        "prepare failed: train.jsonl, row 3: no text (exit code 1)",
        [],
    )
    assert not (run.folder / "output").exists()
    done = run.folder.with_name("demo.20261101T000000Z")
    assert status["notes"] == [f"the last run of this job that has succeeded is in {done}"]


def test_a_job_is_stopped_while_it_prepares(run: Run) -> None:
    (run.folder / "prepare.py").write_text("import subprocess; subprocess.run(['sleep', '1000'])")
    status = run.start(WORLD + TRAIN, prepare=PREPARE)
    until(lambda: any("sleep" in process["command"] for process in processes.find(run.folder)))
    os.kill(status["pid"], directory.STOP)
    assert run.ended()["state"] == "stopped"
    assert processes.find(run.folder) == []


def test_a_script_that_prepares_outlives_its_supervisor(run: Run) -> None:
    """Its process has the lock: nothing removes the directory below it, and `stop` ends it."""
    (run.folder / "prepare.py").write_text("import time; time.sleep(1000)")
    status = run.start(WORLD + TRAIN, prepare=PREPARE)
    until(lambda: processes.find(run.folder))
    os.kill(status["pid"], signal.SIGKILL)
    until(lambda: is_gone(status["pid"]))
    assert in_use.in_use(run.folder.parent, "node0")
    assert directory.locked_by(run.folder.parent, "node0")
    processes.end(run.folder, 5)
    assert not in_use.in_use(run.folder.parent, "node0")
    assert not directory.locked_by(run.folder.parent, "node0")


def test_a_checkpoint_that_cannot_be_loaded_is_not_tried_for_ever(run: Run) -> None:
    for step in (10, 20):
        run.checkpoint(step)
    status = run.ends("grep -q checkpoint-20 launch.sh && exit 1\n" + WORLD + TRAIN, restarts=3, ranks=(1,))
    assert [attempt["from"] for attempt in status["attempts"]] == ["checkpoint-20", "checkpoint-10"], status
    assert status["state"] == "succeeded"


def test_the_only_checkpoint_is_tried_twice(run: Run) -> None:
    run.checkpoint(10)
    status = run.ends("exit 1", restarts=5, ranks=(1,))
    assert [attempt["from"] for attempt in status["attempts"]] == ["checkpoint-10"] * 2
    assert any("failed twice before its first step from checkpoint-10" in note for note in status["notes"])
