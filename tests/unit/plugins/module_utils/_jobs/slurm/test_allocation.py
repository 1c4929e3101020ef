from __future__ import annotations

import errno
import functools
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._io import read_json, write_json
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, remote, secret_env
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.slurm import LAUNCHER
from ansible_collections.amx.cluster.plugins.module_utils._jobs.slurm import allocation, queue, submitting
from support.clock import SetClock
from support.runs import answer, host, plan, run

PLANNING: dict[str, Any] = {
    "prefix": "/shared/amx",
    "environment": "/opt/env",
    "runtime": "/opt/runtime/0123",
    "network": "",
    "fabric": "auto",
    "tcmalloc": "preferred",
    "refuse_memory": True,
    "signal": 120,
}
# STAND-IN for srun: writes the answers of the nodes that there are, and fails for the others as Slurm's does.
SRUN = """\
#!{python}
import json, pathlib, sys
folder = pathlib.Path(sys.argv[-1]) / ".answers"
for node in {there}:
    (folder / (node + ".json")).write_text(json.dumps({{"host": {{}}, "facts": {{}}}}))
print({said!r})
sys.exit({code})
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of a job that was submitted as job 27, in which this process is."""
    path = tmp_path / "jobs/demo"
    path.mkdir(parents=True)
    monkeypatch.setenv("SLURM_JOB_ID", "27")
    monkeypatch.setattr(queue, "_answers", {})
    made = run(launcher="slurm", restarts=1)
    write_json(path / "job.json", made.to_json())
    write_json(path / "plan.json", plan(host("s0", 1), host("s1", 1), launcher="slurm"))
    return path


def answers_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, there: list[str], said: str = "", code: int = 0
) -> None:
    program = tmp_path / "bin/srun"
    program.parent.mkdir()
    program.write_text(SRUN.format(python=sys.executable, there=there, said=said, code=code))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


@pytest.mark.slow
def test_every_node_answers(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers_of(monkeypatch, tmp_path, ["s0", "s1"])
    assert list(allocation.gather(job, PLANNING, ["s1", "s0"])) == ["s1", "s0"]
    assert not (job / allocation.ANSWERS).exists()


@pytest.mark.slow
def test_a_node_without_the_shared_directory(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers_of(monkeypatch, tmp_path, ["s0"], "slurmstepd-s1: error: execve(): /opt/env/bin/python: No such file", 2)
    with pytest.raises(ValueError, match=r"^s1 cannot be planned: slurmstepd-s1: .*: No such file$"):
        allocation.gather(job, PLANNING, ["s0", "s1"])


@pytest.mark.slow
def test_a_node_whose_answer_is_an_error(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = json.dumps({"failed": True, "msg": "the host has no IPv4 address"})
    answers_of(monkeypatch, tmp_path, ["s0"], said)
    with pytest.raises(ValueError, match=r"^s1 cannot be planned: the host has no IPv4 address$"):
        allocation.gather(job, PLANNING, ["s0", "s1"])


def test_the_plan_of_an_allocation(job: Path) -> None:
    answered = {}
    for name, ranks in (("s1", 1), ("s0", 2)):
        given = answer(name, ranks)
        row = {**given["network"], "network": "10.0.0.0/24", "default": False, "named": ""}  # that both share
        chosen = {"addresses": [row], "network": {"refused": "no default route"}, "network_given": False}
        answered[name] = {"host": given["host"], "facts": {**given["facts"], **chosen}}
    settings = {"head": "login", "shared_directory": True, "slurm": {"cpus": 4}}
    made = allocation.make(job, run(settings, launcher="slurm"), PLANNING, answered)
    # The first node supervises the job; who submitted it is not in its plan.
    assert (made.head, made.master_addr) == ("s1", "10.0.0.2")
    assert [(each.host, [rank.rank for rank in each.ranks]) for each in made.hosts] == [("s1", [0]), ("s0", [1, 2])]
    assert made.notices == f"file:{job}/leaves.json"
    assert made.launcher["shares_hosts"] and made.shared_directory
    files = LAUNCHER.files(made, ["train.py"])
    assert "I_MPI_HYDRA_BOOTSTRAP=slurm\n" in files["env"]
    assert "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS='--overlap --cpu-bind=none --mpi=none'\n" in files["env"]
    assert "-n 1 -host s1 -env I_MPI_PIN_DOMAIN" in files["launch.sh"] and "ssh" not in files["launch.sh"]


def test_commands_on_other_nodes_are_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(remote.BY_STEPS, "1")
    assert " ".join(remote.ssh("s1", ["true"])) == (
        "srun --overlap --cpu-bind=none --mpi=none --quiet --nodes=1 --ntasks=1 --nodelist=s1 true"
    )
    monkeypatch.delenv(remote.BY_STEPS)
    assert remote.ssh("s1", ["true"])[0] == "ssh"


def test_another_slurm_job_runs_the_job(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status = {"state": "running", "slurm": {"id": "27"}, "attempts": []}
    write_json(job / "status.json", status)
    assert allocation.begun(job, run()) == status
    write_json(job / "status.json", {**status, "slurm": {"id": "26"}})
    monkeypatch.setattr(queue, "run", lambda *_words: (0, "26|RUNNING|None|x|s0\n", ""))
    with pytest.raises(ValueError, match=r"^Slurm job 26 runs job demo: wait for its end, or scancel 26$"):
        allocation.begun(job, run())
    write_json(job / "status.json", {**status, "state": "failed", "slurm": {"id": "26"}})
    assert allocation.begun(job, run()) is None
    # From then on it is this one.
    monkeypatch.setenv("SLURM_JOB_ID", "28")
    monkeypatch.setattr(queue, "run", lambda *_words: (0, "27|RUNNING|None|x|s0\n", ""))
    with pytest.raises(ValueError, match=r"^Slurm job 27 runs job demo"):
        allocation.begun(job, run())


def test_of_two_slurm_jobs_that_begin_at_once_one_runs(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that comes second waits for the other's look at the status."""
    (job / "status.json").unlink(missing_ok=True)
    monkeypatch.setattr(queue, "run", lambda *_words: (0, "x|RUNNING|None|x|s0\n", ""))
    pids = []
    for number in range(6):
        pid = os.fork()
        if not pid:
            code = 2
            try:
                os.environ["SLURM_JOB_ID"] = str(40 + number)
                code = int(allocation.begun(job, run()) is not None)
            except ValueError:
                code = 3
            finally:
                os._exit(code)
        pids.append(pid)
    codes = sorted(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids)
    assert codes == [0, 3, 3, 3, 3, 3]


def test_a_file_system_without_locks(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_path: Path) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(directory, "creating", fails)
    assert allocation.begun(job, run()) is None


@pytest.mark.parametrize(("attempts", "again", "ends"), [(1, 1, False), (2, 2, True), (2, 0, False), (0, 2, True)])
def test_slurm_queues_a_job_again_as_often_as_it_may_be_restarted(
    job: Path, monkeypatch: pytest.MonkeyPatch, attempts: int, again: int, ends: bool
) -> None:
    monkeypatch.setenv("SLURM_RESTART_COUNT", str(again) if again else "")
    why = allocation.used_up(run(restarts=1), {"attempts": [{}] * attempts})
    assert bool(why) == ends
    if not ends:
        return
    supervised = supervisor(job)
    supervised.status["attempts"] *= attempts
    write_json(job / "status.json", supervised.status)
    write_json(job / submitting.PLANNING, PLANNING)
    (job / queue.ALIVE).touch()
    monkeypatch.chdir(job)
    monkeypatch.setenv(remote.BY_STEPS, "1")
    with pytest.raises(SystemExit, match="restarts: 1 in the job file allows no further start"):
        allocation.main([str(job)])
    status = read_json(job / "status.json") or {}
    assert (status["state"], status["reason"]) == ("failed", why)
    assert (job / "results.json").exists() == bool(attempts)


def supervisor(job: Path, saved: bool = True) -> allocation.SlurmSupervisor:
    if saved:
        (job / "output/checkpoint-40").mkdir(parents=True)
        (job / "output/checkpoint-40/state.pt").write_text("state")
        (job / "output/checkpoint-40/complete.json").write_text('{"state.pt": 5}')
    made = allocation.SlurmSupervisor(job, 0o022, "s0")
    made.status["attempts"] = [{"reason": "", "returncode": 143}]
    return made


def test_a_job_does_not_wait_for_others_on_its_nodes(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm has given it CPUs of its own there."""
    write_json(job / "job.json", run(launcher="slurm", wait=True).to_json())
    supervised = supervisor(job)
    monkeypatch.setattr(supervised, "used_by_others", lambda: pytest.fail("it asks its nodes"))
    supervised.wait_for_hosts()


def test_the_time_limit_is_announced_to_ranks(job: Path) -> None:
    supervised = supervisor(job)
    supervised.warn(60)
    notice = read_json(job / "leaves.json") or {}
    assert notice["action"] == "terminate" and notice["time"].endswith("Z")


def test_the_job_continues_in_another_slurm_job(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted: list[tuple[str, ...]] = []

    def sbatch(_path: Path, _run: Any, *options: str, umask: int) -> str:
        submitted.append((*options, f"{umask:o}"))
        return "31"

    monkeypatch.setattr(submitting, "sbatch", sbatch)
    supervised = supervisor(job)
    supervised.warn(60)
    assert supervised.prepare_restart() == (
        "its Slurm job 27 is about to reach its time limit; checkpoint-40 is complete; Slurm job 31 continues it"
    )
    # By the umask of the user, which scripts run with.
    assert submitted == [("--dependency=afterany:27", "22")]
    supervised.finish("", 143, 10.0)
    status = read_json(job / "status.json") or {}
    assert (status["state"], status["slurm"]) == ("running", {"id": "31", "earlier": ["27"]})
    assert not (job / "results.json").exists()
    # The next one knows what was before, and starts no third.
    monkeypatch.setenv("SLURM_JOB_ID", "31")
    after = allocation.SlurmSupervisor(job, 0o022, "s1", status)
    after.status["attempts"].append({"reason": "", "returncode": 143})
    after.warn(60)
    assert after.prepare_restart().endswith("restarts: 1 in the job file allows no further start")


AGAIN = (" DUE TO JOB REQUEUE", " DUE TO NODE FAILURE", " DUE TO PREEMPTION")


@pytest.mark.parametrize(
    ("cause", "state"), [*((cause, "running") for cause in AGAIN), ("", "stopped"), (None, "lost")]
)
def test_slurm_ends_the_batch_script(job: Path, monkeypatch: pytest.MonkeyPatch, cause: str | None, state: str) -> None:
    if cause is not None:
        (job / "supervise.log").write_text(
            f"slurmstepd: error: *** JOB 27 ON s0 CANCELLED AT 2026-11-28T03{cause} ***\n"
        )
    supervised = supervisor(job)
    supervised.with_secrets, removed = {"s0"}, list[set[str]]()
    monkeypatch.setattr(supervised, "remove_secrets", lambda names: removed.append(set(names)))
    supervised.stop("lost", "Slurm has ended its job 27")
    supervised.remove_all_secrets()
    supervised.finish("", 143, 10.0)
    status = read_json(job / "status.json") or {}
    assert status["state"] == state
    assert ("waiting" in status) == (not removed) == (state == "running")
    # Queued again, the same Slurm job knows what was before.
    assert (allocation.begun(job, run()) is not None) == (state == "running")


def test_a_job_that_cannot_begin_keeps_no_secrets(job: Path) -> None:
    (job / secret_env.FILE).write_text("{}")
    with pytest.raises(SystemExit):
        allocation.refuse(job, run(), "it was stopped on request", "stopped")
    assert (read_json(job / "status.json") or {})["state"] == "stopped"
    assert not (job / secret_env.FILE).exists()


def test_a_node_that_does_not_answer_is_lost(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submitting, "sbatch", lambda *_words, **_options: "31")
    monkeypatch.setattr(remote, "unreachable", lambda _names, _here: {"s1": remote.LATE})
    supervised = supervisor(job)
    assert supervised.prepare_restart() == (
        "s1 of Slurm job 27 did not answer; checkpoint-40 is complete; Slurm job 31 continues it"
    )


def test_without_a_checkpoint_another_job_would_not_come_further(job: Path) -> None:
    supervised = supervisor(job, saved=False)
    supervised.warn(60)
    assert supervised.prepare_restart().endswith(
        "no checkpoint is complete: the next job would reach its limit, too. Request more time"
    )
    assert not supervised.following


def test_slurm_refuses_the_next_job(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "run", lambda *_words, **_options: (1, "", "sbatch: error: Access denied\n"))
    supervised = supervisor(job)
    supervised.warn(60)
    assert supervised.prepare_restart().endswith(
        "no further job was submitted: cluster_slurm: Slurm does not accept job demo: Access denied"
    )


def test_sbatch_gets_no_options_of_the_job_that_it_is_in(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "2")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/other.conf")
    given: dict[str, Any] = {}

    def ran(*words: str, **options: Any) -> tuple[int, str, str]:
        given.update(options, words=words)
        return 0, "31;cluster\n", ""

    monkeypatch.setattr(queue, "run", ran)
    assert submitting.sbatch(job, run(), "--dependency=afterany:27") == "31"
    assert given["words"] == ("sbatch", "--parsable", "--dependency=afterany:27", f"{job}/batch.sh", "27")
    assert given["env"]["SLURM_CONF"] == "/etc/slurm/other.conf" and "SLURM_CPUS_PER_TASK" not in given["env"]


def test_a_supervisor_that_was_ended_leaves_results(job: Path) -> None:
    status = {"job": "demo", "state": "running", "reason": "", "started": "2026-11-28T02:59:27+00:00", "notes": []}
    attempts = [{"started": "2026-11-28T02:59:30+00:00", "from": "the beginning"}]
    write_json(job / "status.json", {**status, "slurm": {"id": "27"}, "attempts": attempts})
    allocation.main([str(job), "stopped", "its Slurm job 27 was cancelled"])
    results = read_json(job / "results.json") or {}
    assert (results["state"], results["reason"]) == ("stopped", "its Slurm job 27 was cancelled")


NOTICE = "NOTE: maintenance on Monday\n"
TIMED_OUT = (1, "", "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n")


@pytest.mark.parametrize(
    ("sbatch", "squeue", "expected"),
    [
        ((0, f"{NOTICE}31\n", ""), None, "31"),
        ((0, "31\nYour balance: 100 h\n", ""), None, "31"),
        ((0, NOTICE, ""), (0, "", ""), "no id of a job"),
        ((0, NOTICE, ""), (0, "31|{path}\n", ""), "31"),
        # 27 and 26 were there before, 30 is of another directory.
        (TIMED_OUT, (0, "27|{path}\n26|{path}\n30|/elsewhere\n9|{path}\n31|{path}\n", ""), "31"),
        (TIMED_OUT, (0, "27|{path}\n26|{path}\n30|/elsewhere\n", ""), "Socket timed out"),
        (TIMED_OUT, (1, "", "Unable to contact slurm controller"), "ends at its begin without a change"),
    ],
)
def test_what_sbatch_says_of_a_job(
    job: Path, monkeypatch: pytest.MonkeyPatch, sbatch: Any, squeue: Any, expected: str
) -> None:
    submitted = False
    link = job.parent.parent / "linked"  # as a prefix that is one: sbatch knows the other path
    link.symlink_to(job)

    def ran(*words: str, **_options: Any) -> tuple[int, str, str]:
        nonlocal submitted
        before = (0, "27|{path}\n26|{path}\n", "")
        code, output, errors = sbatch if words[0] == "sbatch" else squeue if submitted else before
        submitted = submitted or words[0] == "sbatch"
        return code, output.format(path=link), errors

    monkeypatch.setattr(queue, "run", ran)
    monkeypatch.setattr(submitting, "UNSURE", 0.0)
    monkeypatch.setattr(submitting, "SETTLED", -1.0)
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    if expected.isdigit():
        assert submitting.sbatch(job, run()) == expected
    else:
        with pytest.raises(ValueError, match=expected):
            submitting.sbatch(job, run())


def begin(job: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    """Return why the batch script's program ends, before nodes are asked."""
    write_json(job / submitting.PLANNING, PLANNING)
    monkeypatch.chdir(job)
    monkeypatch.setenv(remote.BY_STEPS, "1")
    monkeypatch.setattr(queue, "run", lambda *_words: (1, "", "nodes are asked"))
    monkeypatch.setenv("SLURM_JOB_NODELIST", "s[0-1]")
    monkeypatch.setenv("SLURMD_NODENAME", "s0")
    with pytest.raises(SystemExit) as ended:
        allocation.main([str(job), *words])
    return str(ended.value)


def test_a_job_that_was_given_up_does_nothing_in_the_directory_of_another_start(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(job / "job.json", run({"start": "b"}, launcher="slurm").to_json())
    before = sorted(path.name for path in job.iterdir())
    assert "is that of another start of job demo" in begin(job, monkeypatch, "a")
    assert sorted(path.name for path in job.iterdir()) == sorted([*before, submitting.PLANNING])
    assert "nodes are asked" in begin(job, monkeypatch, "b")
    # One that was to continue a job, of which Slurm did not say in time that it would.
    write_json(job / "status.json", {"state": "failed", "slurm": {"id": "26"}})
    assert "this one was given up" in begin(job, monkeypatch, "b:26")
    write_json(job / "status.json", supervisor(job).status)
    assert "nodes are asked" in begin(job, monkeypatch, "b:26")
    # Queued again, after its end was written.
    write_json(job / "status.json", {**supervisor(job, saved=False).status, "state": "lost"})
    assert "nodes are asked" in begin(job, monkeypatch, "b:26")
    assert "nodes are asked" in begin(job, monkeypatch, "")  # the script that `amx plan --sbatch` prints


@pytest.mark.parametrize("attempts", [0, 1])
def test_a_stop_is_heeded_that_was_requested_before_signals_were(
    job: Path, monkeypatch: pytest.MonkeyPatch, attempts: int
) -> None:
    supervised = supervisor(job)
    supervised.status["attempts"] *= attempts
    write_json(job / "status.json", supervised.status)
    (job / queue.STOP_REQUEST).write_text("26")  # of an earlier Slurm job
    assert "nodes are asked" in begin(job, monkeypatch)
    write_json(job / "status.json", supervised.status)
    monkeypatch.setattr(queue, "run", lambda *_words: (0, "27|RUNNING|None|x|s0\n", ""))
    queue.stop(job, supervised.status)
    assert begin(job, monkeypatch) == "it was stopped on request"
    assert (read_json(job / "status.json") or {})["state"] == "stopped"
    # Slurm may be told to start it again.
    write_json(job / "status.json", supervised.status)
    assert "nodes are asked" in begin(job, monkeypatch)


def test_a_stop_of_the_job_that_is_continued_is_heeded(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its supervisor was killed before it wrote which one continues it."""
    write_json(job / "status.json", {**supervisor(job).status, "slurm": {"id": "26"}})
    (job / queue.STOP_REQUEST).write_text("26")
    start = run().settings.start
    assert begin(job, monkeypatch, f"{start}:26") == "it was stopped on request"


def test_an_earlier_job_is_not_taken_for_a_new_one(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm did not answer before: what the statuses name is known."""
    (job.parent / "demo.20260101T000000Z").mkdir()
    write_json(job / "status.json", {"slurm": {"id": "41", "earlier": ["40"]}})
    write_json(job.parent / "demo.20260101T000000Z/status.json", {"slurm": {"id": "39"}})
    answers = iter([(1, "", "Unable to contact"), TIMED_OUT])
    shown = (0, "".join(f"{number}|{job}\n" for number in (39, 40, 41)), "")
    monkeypatch.setattr(queue, "run", lambda *_words, **_options: next(answers, shown))
    monkeypatch.setattr(submitting, "SETTLED", -1.0)
    with pytest.raises(ValueError, match="Socket timed out"):
        submitting.sbatch(job, run())
    answers = iter([TIMED_OUT])  # nothing is asked before
    with pytest.raises(ValueError, match="Socket timed out"):
        submitting.sbatch(job, run(), f"{submitting.AFTER}41")


def test_a_stop_that_failed_is_forgotten_and_nothing_of_another_user_changed(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "run", lambda *_words: (1, "", "Unable to contact slurm controller"))
    own = job.stat().st_uid
    for user in (own, own + 1):
        monkeypatch.setattr(os, "getuid", functools.partial(int, user))
        (job / "thesis").write_text("text")
        (job / queue.STOP_REQUEST).symlink_to(job / "thesis")
        with pytest.raises(ValueError, match="Unable to contact"):
            queue.stop(job, {"slurm": {"id": "27"}})
        assert (job / "thesis").read_text() == "text"
        assert (job / queue.STOP_REQUEST).is_symlink() == (user != own)


def test_who_ended_without_a_word_does_not_keep_the_job_from_beginning(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(job / "status.json", {**supervisor(job).status, "slurm": {"id": "26"}})
    (job / queue.ALIVE).touch()  # a moment ago
    monkeypatch.setattr(queue, "run", lambda *_words: (0, "26|FAILED|NonZeroExitCode|x|s0\n", ""))
    assert allocation.begun(job, run()) is None


@pytest.mark.parametrize(
    ("left", "announced", "after"), [("2:00", 120, 0), ("0:40", 20, 20), ("0:00", 0, 0), ("UNLIMITED", 120, 0)]
)
def test_the_end_that_is_announced_is_that_of_slurm(
    job: Path, monkeypatch: pytest.MonkeyPatch, left: str, announced: int, after: int
) -> None:
    """Of a partition's own limit Slurm sends the signal at the begin, where it is shorter than what was requested."""
    monkeypatch.setattr(queue, "run", lambda *_words: (0, f"  {left}\n", ""))
    supervised, seconds = supervisor(job), list[float]()
    supervised.clock = clock = SetClock()
    began = clock.monotonic()
    monkeypatch.setattr(supervised, "warn", seconds.append)
    supervised.approach_limit(120)
    assert (seconds, clock.monotonic() - began) == ([announced], after)


def test_slurm_that_does_not_say_how_much_time_is_left(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    supervised, seconds = supervisor(job), list[float]()
    supervised.clock = clock = SetClock()

    def late(*_words: str) -> tuple[int, str, str]:
        clock.sleep(20)
        return 127, "", "timed out"

    monkeypatch.setattr(queue, "run", late)
    monkeypatch.setattr(supervised, "warn", seconds.append)
    for usual in (120, 15):
        supervised.approach_limit(usual)
    assert seconds == [100, 0]
