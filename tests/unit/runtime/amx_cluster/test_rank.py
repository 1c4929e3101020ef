from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from amx_cluster import rank
from amx_cluster.rank import RUNTIME, place, variables
from ansible_collections.amx.cluster.plugins.module_utils._hosts import login_shell
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, heartbeats, processes, wire
from support import runtimes
from support.patience import started, until

pytestmark = pytest.mark.slow


HYDRA = ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"]

PLAN: dict[str, Any] = {
    "launcher": {"name": "mpirun", "rank_variables": HYDRA, "pins": True},
    "world_size": 3,
    "hosts": [
        {"host": "node0", "env": {"OMP_NUM_THREADS": "4"}, "ranks": [{"rank": 0}]},
        {
            "host": "node1",
            "env": {"OMP_NUM_THREADS": "4", "CCL_WORKER_COUNT": "1"},
            "ranks": [{"rank": 1, "env": {"CCL_WORKER_AFFINITY": "3"}}, {"rank": 2, "env": {"OMP_NUM_THREADS": "2"}}],
        },
    ],
}


def hydra(rank: int, size: int, local: int) -> dict[str, str]:
    """What Intel MPI sets for a process."""
    return {"PMI_RANK": str(rank), "PMI_SIZE": str(size), "MPI_LOCALRANKID": str(local)}


@pytest.mark.parametrize(
    ("names", "environ"),
    [
        (HYDRA, hydra(5, 8, 1)),
        (["RANK", "WORLD_SIZE", "LOCAL_RANK"], {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}),
    ],
)
def test_place(names: list[str], environ: dict[str, str]) -> None:
    assert place(names, environ) == (5, 8, 1)


def test_variables() -> None:
    here = str(Path.cwd())
    assert variables(PLAN, "node1", {**hydra(2, 3, 1), "PYTHONPATH": "/mine"}) == {
        "OMP_NUM_THREADS": "2",
        "CCL_WORKER_COUNT": "1",
        "RANK": "2",
        "WORLD_SIZE": "3",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "PYTHONPATH": f"{RUNTIME}:{here}/packages:/mine",
        "AMX_CLUSTER_JOB": here,
        "AMX_CLUSTER_HOST": "node1",
        "AMX_CLUSTER_RANK": json.dumps(
            {
                "pid": os.getpid(),
                "rank": 2,
                "size": 3,
                "together": [1, 2],
                "host": "node1",
                "interface": "lo",
                "job": here,
                "watch": {},
                "measure": None,
                "notices": "",
            }
        ),
    }


def test_what_the_observer_receives() -> None:
    plan = {**PLAN, "watch": {"stall": False}, "shared_directory": True}
    plan["hosts"] = [{**host, "interface": "eth1"} for host in plan["hosts"]]
    mine = json.loads(variables(plan, "node1", hydra(2, 3, 1))["AMX_CLUSTER_RANK"])
    assert (mine["interface"], mine["watch"], mine["together"]) == ("eth1", {"stall": False}, [0, 1, 2])


def test_the_directories_of_a_job_for_its_modules() -> None:
    """Those of its `env` come before those that the launcher's environment names."""
    host = {**PLAN["hosts"][0], "env": {"PYTHONPATH": "code:more"}}
    plan = {**PLAN, "hosts": [host, *PLAN["hosts"][1:]]}
    here = Path.cwd()
    paths = variables(plan, "node0", {**hydra(0, 3, 0), "PYTHONPATH": "/mine"})["PYTHONPATH"]
    assert paths == f"{RUNTIME}:{here}/packages:code:more:/mine"


@pytest.mark.parametrize(
    ("name", "environ", "error"),
    [
        (
            "node0",
            {},
            "the launcher has given this process no rank (PMI_RANK is not set): start it with launch.sh",
        ),
        ("node0", hydra(0, 1, 0), "1 rank(s) were started and the plan is for 3: start the job with launch.sh"),
        ("node2", hydra(0, 3, 0), "node2 is not a host of the plan"),
        ("node0", hydra(1, 3, 1), "2 ranks were started on node0 and the plan has 1 there"),
        ("node0", hydra(1, 3, 0), "rank 1 was started on node0 where the plan has rank 0: the hostfile was changed"),
    ],
)
def test_another_group_than_planned(name: str, environ: dict[str, str], error: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        variables(PLAN, name, environ)


def start(folder: Path, environ: dict[str, str], runtime: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Start rank.py in a job directory as a launcher does."""
    command = [sys.executable, "-S", str(runtime or runtimes.installed()), "rank", "script.py", "--text", "a b"]
    set_by_launcher = {"PATH": os.environ["PATH"], "KEPT": "1", **environ}
    return subprocess.run(command, cwd=folder, env=set_by_launcher, capture_output=True, text=True, check=False)


def test_the_script_takes_its_place(tmp_path: Path) -> None:
    script = "import json, os, sys\nprint(json.dumps([sys.argv, sys.flags.no_site, dict(os.environ)]))"
    folder = job(tmp_path, "mine", script)
    ran = start(folder, hydra(1, 3, 0))
    arguments, no_site, environ = json.loads(ran.stdout)
    assert (arguments, no_site) == (["script.py", "--text", "a b"], 0)
    expected = {"RANK": "1", "CCL_WORKER_AFFINITY": "3", "KEPT": "1", "AMX_CLUSTER_JOB": str(folder)}
    assert {name: environ.get(name) for name in expected} == expected


@pytest.mark.parametrize(("local", "told"), [(0, True), (1, False)])
def test_what_a_login_on_the_host_sets_is_ignored(tmp_path: Path, local: int, told: bool) -> None:
    """As a .bashrc that a proxy of mpirun on another host has read; what env sets comes from the launcher."""
    plan = {**PLAN, "launcher": {**PLAN["launcher"], "ignored": login_shell.OF_RANKS}}
    folder = job(tmp_path, "mine", "import json, os\nprint(json.dumps(dict(os.environ)))", plan)
    (folder / "env").write_text("FI_PROVIDER=tcp\nLD_LIBRARY_PATH=/env/lib\n")
    login = {"KMP_AFFINITY": "disabled", "KMP_SETTINGS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": "/mine"}
    ran = start(folder, {**hydra(1 + local, 3, local), **login, "FI_PROVIDER": "tcp", "I_MPI_PIN_INFO": "0,1"})
    environ = json.loads(ran.stdout)
    assert not {"KMP_AFFINITY", "KMP_SETTINGS"} & set(environ)
    assert environ["PYTHONPATH"] == f"{runtimes.installed()}:{folder}/packages"
    assert environ.get("OMP_NUM_THREADS") == ("4" if local == 0 else "2")  # the plan's
    assert (environ["FI_PROVIDER"], environ["I_MPI_PIN_INFO"], environ["KEPT"]) == ("tcp", "0,1", "1")
    listed = "KMP_AFFINITY=disabled KMP_SETTINGS=1 OMP_NUM_THREADS=1 PYTHONPATH=/mine"
    message = f"rank.py: ranks on node1 ignore what a login there sets: {listed}; set env of the job file instead\n"
    assert sorted(ran.stderr.split()) == (sorted(message.split()) if told else [])


def test_a_rank_is_pinned_where_the_launcher_does_not(tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    ranks = [{"rank": 0, "domain_cpus": [cpu]}]
    plan = {
        "launcher": {"name": "torchrun", "rank_variables": ["RANK", "WORLD_SIZE", "LOCAL_RANK"], "pins": False},
        "world_size": 1,
        "hosts": [{"host": "node1", "env": {}, "ranks": ranks}],
    }
    folder = job(tmp_path, "mine", "import os\nprint(os.sched_getaffinity(0))", plan)
    assert start(folder, {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}).stdout == f"{{{cpu}}}\n"


def test_secrets_are_in_the_environment_of_the_script(tmp_path: Path) -> None:
    plan = {**PLAN, "secrets": {"HF_TOKEN": "job_env", "PYTHONPATH": "job_env"}}
    script = "import os\nprint(os.environ['HF_TOKEN'], 'OTHER' in os.environ, os.environ['PYTHONPATH'], os.umask(0))"
    folder = job(tmp_path, "mine", script, plan)
    (folder / "secrets.json").write_text('{"HF_TOKEN": "hf_x", "PYTHONPATH": "/mine", "OTHER": "y"}')
    before = os.umask(0o027)
    try:
        ran = start(folder, hydra(1, 3, 0))
    finally:
        os.umask(before)
    assert ran.stdout == f"hf_x False {runtimes.installed()}:{folder}/packages:/mine {0o027}\n"
    assert (folder / "lock.node1.0").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["", '{"OTHER": "y"}'])
def test_secrets_that_were_removed(tmp_path: Path, content: str) -> None:
    folder = job(tmp_path, "mine", plan={**PLAN, "secrets": {"HF_TOKEN": "job_env"}})
    if content:
        (folder / "secrets.json").write_text(content)
    ran = start(folder, hydra(1, 3, 0))
    assert (ran.returncode, ran.stderr) == (
        1,
        "rank.py: secrets.json does not have HF_TOKEN; it is removed when a job ends: start the job with "
        "playbooks/train.yml\n",
    )


def test_a_refusal_is_one_line(tmp_path: Path) -> None:
    ran = start(tmp_path, hydra(1, 3, 0))
    assert ran.returncode == 1
    assert ran.stderr == "rank.py: [Errno 2] No such file or directory: 'plan.json'\n"


SLEEP = "import subprocess, sys\nprint('ready', flush=True)\nsys.stdin.read()"


def job(jobs: Path, name: str, script: str = SLEEP, plan: dict[str, Any] = PLAN) -> Path:
    """A job directory on node1."""
    folder = jobs / name
    folder.mkdir()
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "host").write_text("node1\n")
    (folder / "script.py").write_text(script)
    return folder


def begin(folder: Path, environ: dict[str, str]) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Start a rank, and wait until its script runs."""
    command = [sys.executable, "-S", str(runtimes.installed()), "rank", "script.py"]
    return started(command, cwd=folder, env={"PATH": os.environ["PATH"], **environ})


def test_a_rank_holds_its_host_until_it_ends(tmp_path: Path) -> None:
    mine, other = job(tmp_path, "mine"), job(tmp_path, "other")
    with begin(mine, hydra(1, 3, 0)) as first, begin(mine, hydra(2, 3, 1)) as second:  # ranks of one job
        refused = start(other, hydra(1, 3, 0))
        assert (refused.returncode, refused.stderr) == (1, "rank.py: job mine has locked this host\n")
        first.kill()
        first.wait()
        assert [held["job"] for held in directory.locked_by(tmp_path, "node1")] == ["mine"]
        second.kill()
    until(lambda: not directory.locked_by(tmp_path, "node1"))
    with begin(other, hydra(1, 3, 0)):
        pass


def test_a_batch_system_may_give_a_host_to_two_jobs(tmp_path: Path) -> None:
    mine, other = job(tmp_path, "mine"), job(tmp_path, "other")
    with begin(mine, hydra(1, 3, 0)) as first, contextlib.chdir(other):
        with pytest.raises(ValueError, match="job mine has locked this host"):
            rank.lock_host(0, "node1")
        rank.lock_host(1, "node1", alone=False)
        first.kill()


def test_a_rank_of_an_earlier_start_is_not_waited_for_without_end(tmp_path: Path) -> None:
    folder = job(tmp_path, "mine")
    with begin(folder, hydra(1, 3, 0)) as process, contextlib.chdir(folder):
        with pytest.raises(ValueError, match="an earlier start of this job has not ended on node1: end it with"):
            rank.lock_host(0, "node1", seconds=0.3)
        process.kill()
        process.wait()
        rank.lock_host(0, "node1", seconds=20)


def test_a_rank_in_a_shared_directory_knows_its_host_by_its_address(tmp_path: Path) -> None:
    hosts = [{"host": "node1", "address": "192.0.2.1"}, {"host": "node2", "address": "127.0.0.1"}]
    (tmp_path / "host").write_text("node0\n")  # the head's, which made the directory
    with contextlib.chdir(tmp_path):
        assert rank.own_name({"hosts": hosts}) == "node0"
        assert rank.own_name({"hosts": hosts, "shared_directory": True}) == "node2"
        assert rank.own_name({"hosts": [{"host": "a", "address": "::1"}], "shared_directory": True}) == "a"
        with pytest.raises(ValueError, match=r"has none of the plan's addresses \(192.0.2.1\)"):
            rank.own_name({"hosts": hosts[:1], "shared_directory": True})


def test_what_a_rank_started_holds_the_host_too(tmp_path: Path) -> None:
    script = SLEEP.replace("print(", "subprocess.Popen(['sleep', '1.5'], close_fds=False)\nprint(")
    with begin(job(tmp_path, "mine", script), hydra(1, 3, 0)) as process:
        process.kill()
        process.wait()
        assert directory.locked_by(tmp_path, "node1")
        until(lambda: not directory.locked_by(tmp_path, "node1"))


LAUNCHER = """
import os, subprocess, sys
rank = subprocess.Popen([sys.executable, "-S", sys.argv[1], "rank", "script.py"], stdin=subprocess.PIPE)
print(rank.pid, flush=True)
rank.wait()
"""


def test_a_rank_ends_with_its_launcher(tmp_path: Path) -> None:
    folder = job(tmp_path, "mine")
    with subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(runtimes.installed())],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **hydra(1, 3, 0)},
        stdout=subprocess.PIPE,
        text=True,
    ) as launcher:
        assert launcher.stdout
        assert {launcher.stdout.readline(), launcher.stdout.readline()} >= {"ready\n"}
        assert directory.locked_by(tmp_path, "node1")
        launcher.send_signal(signal.SIGKILL)
    until(lambda: not directory.locked_by(tmp_path, "node1"))  # the rank does not outlive its launcher


@pytest.mark.parametrize(
    ("script", "code"), [("raise SystemExit(3)", 3), ("import os\nos.kill(os.getpid(), 9)", -9), ("pass", 0)]
)
def test_it_ends_as_its_script_did_and_reports_that(tmp_path: Path, script: str, code: int) -> None:
    folder = job(tmp_path, "mine", script)
    with heartbeats.Receiver("127.0.0.1") as receiver:
        assert start(folder, {**hydra(1, 3, 0), "AMX_CLUSTER_BEAT": receiver.endpoint}).returncode == code
        message = receiver.receive(0)[-1]
        assert processes.ended_ranks(folder, wire.attempt(receiver.endpoint)) == {1: code}
    assert (message["rank"], message["host"], message["exit"]) == (1, "node1", code)


def test_how_a_rank_ended_is_noted_where_a_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or its process is gone without a word, as if it was killed."""
    monkeypatch.chdir(job(tmp_path, "mine"))
    for name, value in {**hydra(1, 3, 0), "AMX_CLUSTER_BEAT": "here:1:secret"}.items():
        monkeypatch.setenv(name, value)
    script = rank.Script([])
    script.pid = os.getpid()
    script.note()

    def full(path: str, text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(rank, "replace", full)
    size = Path("ranks/1.json").stat().st_size
    for code in (-11, 3):
        script.code = code
        script.note()
        assert processes.ended_ranks(Path.cwd(), wire.attempt("here:1:secret")) == {1: code}
        assert Path("ranks/1.json").stat().st_size == size


def test_a_refusal_reaches_the_supervisor(tmp_path: Path) -> None:
    with heartbeats.Receiver("127.0.0.1") as receiver:
        start(job(tmp_path, "mine"), {**hydra(1, 2, 0), "AMX_CLUSTER_BEAT": receiver.endpoint})
        told = [message.get("failed") or message["exit"] for message in receiver.receive(0)]
    assert told == ["rank.py: 2 rank(s) were started and the plan is for 3: start the job with launch.sh", 1]


LEAVES = """
import signal, subprocess, sys
subprocess.Popen(["sleep", "600"], start_new_session=True, close_fds=False)
subprocess.run([sys.executable, "-c", STUBBORN], close_fds=False)
"""
# A daemon, whose parents have ended, that SIGTERM does not end.
STUBBORN = """
import os, signal, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(600)
"""


def test_what_a_script_leaves_behind_is_ended(tmp_path: Path) -> None:
    """It has the output, which a launcher reads to its end, and the lock of the host."""
    folder = job(tmp_path, "mine", f"STUBBORN = {STUBBORN!r}\n{LEAVES}")
    quicker = shutil.copytree(runtimes.installed(), tmp_path / "runtime")
    program = quicker / "amx_cluster/rank.py"
    text = re.sub(r"^LEFT, GRACE, KILLED = .*$", "LEFT, GRACE, KILLED = 0.3, 0.5, 5.0", program.read_text(), flags=re.M)
    program.write_text(text)
    with heartbeats.Receiver("127.0.0.1") as receiver:
        ran = start(folder, {**hydra(1, 3, 0), "AMX_CLUSTER_BEAT": receiver.endpoint}, quicker)
        left = receiver.receive(0)[-1]["left"]
    assert (ran.returncode, ran.stderr) == (0, f"rank.py: {left}\n")
    assert left.startswith("rank 1 on node1: its script left ") and "sleep 600 (process " in left
    assert left.count("(process ") == 2
    assert directory.locked_by(tmp_path, "node1") == []


COUNTS = """
import signal, sys, time
count = 0
def note(*_signal):
    global count
    count += 1
signal.signal(signal.SIGTERM, note)
print("ready", flush=True)
while not count:
    time.sleep(0.01)
print("first", flush=True)
time.sleep(0.5)
print(count, flush=True)
"""


@pytest.mark.parametrize("to_group", [True, False])
def test_a_signal_reaches_the_script_once(tmp_path: Path, to_group: bool) -> None:
    """Launchers send it to the group that they have made; a person who sends it to one process is no launcher."""
    with subprocess.Popen(
        [sys.executable, "-S", str(runtimes.installed()), "rank", "script.py"],
        cwd=job(tmp_path, "mine", COUNTS),
        env={"PATH": os.environ["PATH"], **hydra(1, 3, 0)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        if to_group:
            os.kill(process.pid, signal.SIGSTOP)  # signals that come together would be one
            os.killpg(process.pid, signal.SIGTERM)
        else:
            subprocess.run(["kill", "-TERM", str(process.pid)], check=True)
        assert process.stdout.readline() == "first\n"
        if to_group:
            os.kill(process.pid, signal.SIGCONT)
        assert process.stdout.read() == "1\n"


MEMORY = """
import sys
sys.path.insert(0, {directory!r})
from amx_cluster import rank
rank.set_memory({host!r}, 0)
import os
os.execv("/bin/cat", ["cat", "/proc/self/numa_maps"])
"""


def memory_of(nodes: list[int], own: list[int], policy: str = "preferred") -> subprocess.CompletedProcess[str]:
    """Set the memory of a rank as planned, and have another program show its own."""
    host = {"host": "node0", "ranks": [{"numa_nodes": own, "memory": {"policy": policy, "nodes": nodes}}]}
    program = MEMORY.format(directory=str(runtimes.installed()), host=host)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_memory_is_set_for_all_that_the_rank_becomes() -> None:
    # A kernel without NUMA, and a container that may not, leave it; both are told.
    done = memory_of([0], [0])
    assert done.returncode == 0
    assert " prefer:0 " in done.stdout or "memory of NUMA nodes [0] cannot be set on node0: " in done.stderr


def test_memory_that_is_not_there_ends_no_job_by_default() -> None:
    done = memory_of([900], [900])
    assert done.returncode == 0
    assert "memory of NUMA nodes [900] cannot be set on node0: " in done.stderr
    assert "left to the kernel" in done.stderr


def test_memory_that_a_job_requests_ends_it() -> None:
    done = memory_of([900], [0], "interleave")
    assert done.returncode == 1
    assert "memory of NUMA nodes [900] cannot be set on node0: " in done.stderr
    assert "set memory to local or any in the job file" in done.stderr
