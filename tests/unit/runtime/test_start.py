"""The command `start` on the head of two hosts with directories of their own (tests/support/separate_hosts.py)."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _io
from ansible_collections.amx.cluster.plugins.module_utils._jobs import (
    archive,
    checkpoints,
    commands,
    directory,
    host_queue,
    placing,
    starting,
    supervision,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.start_request import Start
from support import runs, runtimes
from support.runs import STACK, host
from support.separate_hosts import Hosts, needs_mounts

pytestmark = [pytest.mark.slow, needs_mounts]
MPIRUN = "#!/bin/bash\nmkdir -p output\necho ran\necho '{}' > output/all_results.json\n"
NAMES = ("node0", "node1")


class Cluster(Hosts):
    """Two hosts, and starts of the job `demo` on them."""

    def __init__(self, base: Path, mpirun: str = MPIRUN) -> None:
        own = base / "own"
        (own / "bin").mkdir(parents=True)
        (own / "bin/python").symlink_to(sys.executable)
        (own / "amx-cluster.json").write_text(json.dumps(STACK))
        super().__init__(base, own)
        (self.bin / "mpirun").write_text(mpirun)
        self.runtime: Path = runtimes.installed()

    def document(self, start: str, **request: Any) -> Start:
        run = runs.run({"head": "node0", "start": start}, kind="ranks", precision="fp32", env_from=["HF_TOKEN"])
        answers = [{**host(name, 1), "address": "127.0.0.1", "interface": "lo"} for name in NAMES]
        plan = runs.planned(run, STACK, answers, env=str(self.base / "env"), runtime=self.runtime)
        return Start(str(self.base / "jobs"), run, plan, **{"files": {"train.py": f"# {start}\n"}, **request})

    def starts(self, start: str, **request: Any) -> dict[str, Any]:
        """Run the command; return what it prints."""
        ran = subprocess.run(
            [sys.executable, "-S", str(self.runtime), "start", str(self.folder), "supervise"],
            input=json.dumps(self.document(start, **request).to_json()),
            env={**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"},
            cwd=self.base,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        answer: dict[str, Any] = json.loads(ran.stdout)
        return answer

    def scripts(self) -> list[str]:
        """Return the script on each host, as far as it has one."""
        paths = [place / "train.py" for place in self.places.values()]
        return [path.read_text().strip("# \n") for path in paths if path.exists()]

    def others(self) -> list[str]:
        """Return what else is left among the job directories of the hosts."""
        jobs = [place.parent for place in self.places.values()]
        names = sorted(path.name for folder in jobs for path in folder.iterdir())
        return [name for name in names if name not in ("demo", ".demo.lock", ".lock", ".amx-cluster.json")]


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_every_host_gets_the_directory(cluster: Cluster) -> None:
    cached = {"models/bert": "/opt/a"}
    answer = cluster.starts(
        "1a", secrets={"HF_TOKEN": "kept"}, links=cached, links_of={"node1": {"models/bert": "/opt/b"}}
    )
    assert answer == {"path": str(cluster.folder), "moved_to": ""}
    assert cluster.ended()[0]["state"] == "succeeded"
    assert cluster.scripts() == ["1a", "1a"]
    assert [(place / "host").read_text() for place in cluster.places.values()] == ["node0\n", "node1\n"]
    assert [str((place / "models/bert").readlink()) for place in cluster.places.values()] == ["/opt/a", "/opt/b"]
    assert not any((place / "secrets.json").exists() for place in cluster.places.values())
    assert all(place.stat().st_mode & 0o777 == 0o700 for place in cluster.places.values())
    moved = cluster.starts("2b")["moved_to"]
    assert (Path(moved) / "train.py").read_text() == "# 1a\n"
    assert cluster.ended()[0]["state"] == "succeeded"
    assert cluster.scripts() == ["2b", "2b"]


def test_a_start_that_fails_leaves_what_was_there_on_every_host(cluster: Cluster) -> None:
    cluster.starts("1a")
    assert cluster.ended()[0]["state"] == "succeeded"
    (cluster.base / "down.node1").touch()
    assert cluster.starts("2b")["msg"].startswith("node1: ssh: connect to host node1")
    assert (cluster.scripts(), cluster.others()) == (["1a", "1a"], [])
    (cluster.base / "down.node1").unlink()
    # The other host has been written when the head refuses: here, as another job has its hosts.
    with other_job(cluster):
        assert "are locked by job other of somebody" in cluster.starts("2b")["msg"]
    assert (cluster.scripts(), cluster.others()) == (["1a", "1a"], [])
    assert cluster.ended()[0]["state"] == "succeeded"


def test_a_host_without_the_runtime_gets_it_and_nothing_else(cluster: Cluster) -> None:
    """What node1 answers for the runtime is made up: it has no directory of its own here."""
    ssh = cluster.bin / "ssh"
    real = ssh.read_text().replace("#!/bin/bash\n", "", 1)
    lacks = f'[ -e {cluster.base}/has ] || case $* in *" place "*) exit {archive.MISSING} ;; esac\n'
    unpacks = f'case $* in *" install "*) cat > {cluster.base}/has; exit 0 ;; esac\n'
    ssh.write_text(f"#!/bin/bash\n{lacks}{unpacks}{real}")
    assert not cluster.starts("1a").get("failed")
    assert archive.unpack((cluster.base / "has").read_bytes()) == archive.of_directory(cluster.runtime)
    assert cluster.ended()[0]["state"] == "succeeded"
    (cluster.base / "has").unlink()
    ssh.write_text(f'#!/bin/bash\n{lacks}case $* in *" install "*) echo no room >&2; exit 1 ;; esac\n{real}')
    assert cluster.starts("2b")["msg"] == "the runtime could not be installed on node1: no room"
    assert (cluster.scripts(), cluster.others()) == (["1a", "1a"], [])


def test_the_archive_is_installed_from_the_standard_input(tmp_path: Path) -> None:
    runtime = runtimes.installed()
    target = tmp_path / "runtime" / runtime.name
    packed = archive.pack(archive.of_directory(runtime))
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    command = archive.installing(sys.executable, str(target))
    subprocess.run(command, input=packed, env=env, check=True)
    assert archive.is_complete(target)
    cut = subprocess.run(
        [*command[:2], command[2].replace(runtime.name, "b" * 16)], input=packed[:999], env=env, check=False
    )
    assert cut.returncode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runtime"]
    check = archive.guarded(sys.executable, str(target), "check")
    assert subprocess.run(check, check=False).returncode == 0
    (target / "__main__.py").write_text("")
    assert subprocess.run(check, check=False).returncode == archive.MISSING


def test_a_job_that_runs_is_not_started_again(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "#!/bin/bash\nuntil [ -e go ]; do sleep 0.1; done\n" + MPIRUN)
    cluster.starts("1a")
    assert cluster.starts("2b")["msg"].startswith("the job demo is running since ")
    copied = cluster.starts("3c", source="nowhere")["msg"]
    assert copied.startswith("the job demo is running since "), "nothing is copied over it"
    assert directory.running(cluster.folder)
    (cluster.folder / "go").touch()
    assert cluster.ended()[0]["state"] == "succeeded"
    assert cluster.scripts() == ["1a", "1a"]


def test_a_head_without_the_job_copies_it_right_after_its_end(cluster: Cluster) -> None:
    """What the other host has is no start that goes on, however young it is."""
    cluster.starts("1a")
    assert cluster.ended()[0]["state"] == "succeeded"
    # A run that is lying where that of the other host has put the one before is not put back in its place.
    aside = cluster.places["node0"].with_name("demo.20260101T000000Z")
    cluster.places["node0"].rename(aside)
    mark = cluster.places["node1"] / ".amx-cluster.json"
    mark.write_text(json.dumps({**json.loads(mark.read_text()), "replaced": aside.name}))
    answer = cluster.starts("2b", source="node1")
    assert not answer.get("failed"), answer
    assert (Path(answer["moved_to"]) / "train.py").read_text() == "# 1a\n"
    assert cluster.ended()[0]["state"] == "succeeded"
    assert cluster.scripts() == ["2b", "2b"]
    assert (aside / "status.json").exists()


def test_nothing_is_copied_over_a_start_that_is_about_to_begin(cluster: Cluster) -> None:
    cluster.starts("1a")
    assert cluster.ended()[0]["state"] == "succeeded"
    (cluster.places["node0"] / "status.json").unlink()
    (cluster.places["node0"] / "job.json").touch()
    (cluster.places["node1"] / "train.py").write_text("# other\n")
    answer = cluster.starts("2b", source="node1")
    assert answer["msg"] == "another start of the job demo is going on on this host: wait for its end"
    assert cluster.scripts() == ["1a", "other"]


def test_a_derived_job_that_does_not_start_leaves_the_one_before(cluster: Cluster) -> None:
    cluster.starts("1a", keep_previous=False)
    assert cluster.ended()[0]["state"] == "succeeded"
    (cluster.folder / "verified.json").write_text("{}")
    with other_job(cluster):
        answer = cluster.starts("2b", keep_previous=False, secrets={"HF_TOKEN": "kept"})
        assert "are locked by job other of somebody" in answer["msg"]
    assert (cluster.folder / "verified.json").exists()
    assert cluster.scripts() == ["1a"]  # the other host keeps neither: what a derived job has is on its head
    assert cluster.others() == []
    assert cluster.starts("3c", keep_previous=False) == {"path": str(cluster.folder), "moved_to": ""}
    assert cluster.ended()[0]["state"] == "succeeded"
    assert (cluster.scripts(), cluster.others()) == (["3c", "3c"], [])


def test_a_run_is_resumed_after_a_start_that_was_killed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the head knows that it never began; the parts of the checkpoint are on all hosts."""
    cluster.starts("1a")
    assert cluster.ended()[0]["state"] == "succeeded"
    parts = {host: place / "output/checkpoint-5" / host for host, place in cluster.places.items()}
    for part in parts.values():
        part.parent.mkdir(parents=True)
        part.touch()
    checkpoints.mark(parts["node0"].parent, {"node0": 0})
    monkeypatch.setenv("PATH", f"{cluster.bin}:{os.environ['PATH']}")
    killed = cluster.document("2b")
    placing.place(killed.placement(), "node0")
    starting.place_on_others(killed.plan, killed.placement(), ["node1"], "node0")
    assert not any(part.exists() for part in parts.values())
    assert directory.previous(cluster.folder) == {"state": "succeeded", "checkpoint": True}
    os.utime(cluster.folder / "job.json", (0, 0))
    assert Path(cluster.starts("3c", resume=True)["moved_to"], "output/checkpoint-5/node0").exists()
    cluster.ended()
    assert cluster.scripts() == ["3c", "3c"]
    assert all(part.exists() for part in parts.values())
    assert len(list(parts["node1"].parents[3].glob("demo.2*"))) == 1


def test_a_job_that_nobody_could_see_does_not_start(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk was filled up after its directory was written."""
    cluster.starts("1a")
    assert cluster.ended()[0]["state"] == "succeeded"

    def full(path: Path, *_words: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.chdir(cluster.base)
    monkeypatch.setenv("PATH", f"{cluster.bin}:{os.environ['PATH']}")
    for module in (_io, supervision):
        monkeypatch.setattr(module, "write_json", full)
    umask = os.umask(0o022)
    try:
        with pytest.raises(ValueError, match=r"on node0 is full: "):
            starting.start(cluster.document("2b"), umask)
    finally:
        os.umask(umask)
    assert (cluster.scripts(), cluster.others()) == (["1a", "1a"], [])


def test_the_commands_of_a_person_on_the_head(cluster: Cluster) -> None:
    runtime = shutil.copytree(cluster.runtime, cluster.base / "runtime" / cluster.runtime.name)

    def command(*words: str, code: int = 0) -> str:
        ran = subprocess.run([sys.executable, "-S", str(runtime), *words], capture_output=True, text=True, check=False)
        assert ran.returncode == code, ran.stderr
        return ran.stdout or ran.stderr

    assert json.loads(command("status")) == {"jobs": []}
    assert command("status", "demo", "--text", code=1).startswith("no job demo was started from this host")
    cluster.starts("1a")
    assert json.loads(command("wait", "demo"))["state"] == "succeeded"
    assert [job["name"] for job in json.loads(command("status"))["jobs"]] == ["demo"]
    assert json.loads(command("status", "demo"))["status"]["state"] == "succeeded"
    assert "demo" in command("status", "--text").splitlines()[1]
    assert command("log", "demo", "--text") == "ran\n"
    assert json.loads(command("log", str(cluster.folder))) == {"log": "ran\n"}
    assert ["state", "succeeded"] in [line.split() for line in command("results", "demo", "--text").splitlines()]
    assert command("stop", "demo", "--text").startswith("job demo was not running; ")
    other = json.loads(command("results", "other", code=1))
    assert other["msg"].startswith("no job other was started from this host")
    assert command("stop", "other", "--text", code=1).startswith("no job other was started from this host")
    assert "name one job" in json.loads(command("log", code=1))["msg"]
    for words in (["stop", "demo", "--help"], ["status", "--json"]):
        assert f"{words[-1]} is no option" in command(*words, "--text", code=1)
    status = json.loads((cluster.folder / "status.json").read_text())
    (cluster.folder / "status.json").write_text("")
    assert "status.json damaged" in command("status", "demo", "--text", code=1)
    (cluster.folder / "status.json").write_text(json.dumps({**status, "state": "failed"}))
    assert json.loads(command("status", "demo"))["status"]["state"] == "failed"
    assert json.loads(command("wait", "demo", code=1))


@pytest.mark.parametrize(
    ("words", "sent", "message"),
    [
        (["start", "/jobs/demo"], {}, "the command is start DIRECTORY supervise"),
        (["restore", "/x"], {}, "the command is restore DIRECTORY START"),
        (["ask"], {"job": {}}, "job is none of host_info, job_host_info, jobs_info, job_info"),
        (["ask"], {"job_info": {"file": "/x"}}, "the options of job_info in the standard input: missing a required"),
        (["ask"], {"job_info": 1}, "the options of job_info in the standard input: "),
        (["ask"], 1, "the standard input: 'int' object is not iterable"),
        (["start", "/jobs/demo", "supervise"], [], "the standard input: this is no start: "),
        (
            ["start", "/jobs/demo", "supervise"],
            {"jobs": "/jobs"},
            "the standard input: this is no start: it lacks run, plan",
        ),
        (["start", "/jobs/demo", "supervise"], {"plan": {}}, "the standard input: this is no plan: it lacks "),
        (["start", "/jobs/demo", "supervise"], {"files": None}, "the standard input: this is no start: files is null"),
        (["place", "node0"], {"path": None, "head": "", "start": ""}, "the standard input: this is no placement: path"),
    ],
)
def test_a_command_that_is_misused_says_how(cluster: Cluster, words: list[str], sent: Any, message: str) -> None:
    if words[0] == "start" and "jobs" not in sent and sent:
        sent = {**cluster.document("1a").to_json(), **sent}
    command = [sys.executable, "-S", str(cluster.runtime), *words]
    ran = subprocess.run(command, input=json.dumps(sent), capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (commands.MISUSED, "")
    assert json.loads(ran.stdout)["msg"].startswith(message)


def test_messages_on_the_head_name_its_commands(cluster: Cluster) -> None:
    text = commands.of_head("follow it (playbooks/logs.yml -e job=demo), or playbooks/train.yml -e job=a")
    assert text == "follow it (the command log demo), or on the control node, playbooks/train.yml -e job=a"
    assert commands.of_head("playbooks/status.yml lists all jobs") == "the command status lists all jobs"


def test_the_owner_of_another_users_job_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "jobs/demo"
    job.mkdir(parents=True)
    job.chmod(0o700)
    for parent in (job.parent, tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "runtime/1")])
    os.seteuid(65534)
    try:
        with pytest.raises(SystemExit, match="1"):
            commands.main(["log", "demo"])
    finally:
        os.seteuid(0)
    assert f"permission denied: {job} belongs to user root, and this is user" in capsys.readouterr().out


def test_commands_end_without_an_error_of_python(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.starts("1a")
    assert cluster.ended()[0]["state"] == "succeeded"
    runtime = shutil.copytree(cluster.runtime, cluster.base / "runtime" / cluster.runtime.name)
    (cluster.folder / "log").write_text("caf\u00e9\n" * 100000)
    words = f"{shlex.join([sys.executable, '-S', str(runtime), 'log', 'demo', '--text'])} | head -1"
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = subprocess.run(["bash", "-c", words], env=env, capture_output=True, text=True, check=True)
    assert (shown.stdout, shown.stderr) == ("caf\\xe9\n", "")

    def interrupted(*_words: object, **_more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", [str(runtime)])
    monkeypatch.setattr(directory, "answer", interrupted)
    with pytest.raises(SystemExit) as ended:
        commands.main(["wait", "demo"])
    assert ended.value.code == commands.INTERRUPTED


def test_a_job_is_stopped_on_the_head(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "#!/bin/bash\nsleep 1000\n")
    cluster.starts("1a")
    runtime = shutil.copytree(cluster.runtime, cluster.base / "runtime" / cluster.runtime.name)
    env = {**os.environ, "PATH": f"{cluster.bin}:{os.environ['PATH']}"}
    words = [sys.executable, "-S", str(runtime), "stop", "demo", "--text"]
    ran = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("job demo was stopped; ")
    assert cluster.ended()[0]["state"] == "stopped"


@contextlib.contextmanager
def other_job(cluster: Cluster) -> Iterator[None]:
    """Have a job run on both hosts."""
    entry = host_queue.Entry("other", list(NAMES), user="somebody", since="13:00")
    place = host_queue.Place(cluster.base / "jobs", entry, False)
    yield
    place.leave()
