"""What runs in a pod, without a cluster: its directory, the options of torchrun, the plan of each start, refusals."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from amx_cluster import rank as rank_program
from ansible_collections.amx.cluster.plugins.module_utils._jobs import project_files
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Source
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import load
from ansible_collections.amx.cluster.plugins.module_utils._jobs.launchers.kubernetes import POD
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run, Settings
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes import interface
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import derivation, settings
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.pod import launch, main, places, rounds, volume
from hypothesis import given
from hypothesis import strategies as st
from support import runtimes
from support.checkout import ROOT
from support.kubernetes_jobs import GIVEN, STACK, job_of, write
from support.runs import host
from support.stand_ins import make_wheel

pytestmark = pytest.mark.slow


SMOKE = Run(load(ROOT / "jobs/smoke.yml"), Settings(head=""))
RUN = derivation.derive(SMOKE, STACK, settings.read(GIVEN)).run


def placed(
    folder: Path, path: Path = ROOT / "jobs/smoke.yml", override: Any = None, since: str = "", **given_settings: Any
) -> places.Places:
    """Return a pod's places with the files of a job, an image's programs and a virtual environment with a stack.

    since: when a person has started the job, as train.yml does; empty for files that were applied.
    """
    made = places.Places(*(folder / name for name in ("prefix", "job", "storage", "scratch")))
    job = job_of(path, override)
    run = Run(job, Settings(head="", since=since, project=project_files.summary(project_files.read(job)["project"])))
    write(made.job, derivation.derive(run, STACK, settings.read({**GIVEN, **given_settings})), job)
    made.env.mkdir(parents=True)
    (made.env / "amx-cluster.json").write_text(json.dumps(STACK))
    return made


def test_the_directory_of_a_job(tmp_path: Path) -> None:
    made = placed(tmp_path, override={"models": {"bert": {"hub": "a/b"}}, "metrics": {"glue": {"hub": "a/c"}}})
    job = places.Job.read(made.job)
    for _start in range(2):  # a container that is started again finds what the first one left
        here = places.make_directory(made, job)
    kept = made.storage / "jobs" / job.directory
    leads = {name: (here / name).readlink() for name in ("output", "data", "models/bert", "glue", "train_text.py")}
    assert leads == {
        "output": kept / "output",
        "data": kept / "data",
        "models/bert": made.storage / "models/bert",
        "glue": made.storage / "metrics/glue",
        "train_text.py": made.job / "train_text.py",
    }


def test_the_directory_of_a_project(tmp_path: Path) -> None:
    path = tmp_path / "words.yml"
    project = ROOT / "molecule/jobs/project"
    path.write_text(yaml.safe_dump({"name": "words", "project": str(project), "script": "train.py", "kind": "torch"}))
    made = placed(tmp_path, path)
    job = places.Job.read(made.job)
    here = places.make_directory(made, job)
    assert (here / "project/src/words/data.py").read_text() == (project / "src/words/data.py").read_text()
    (here / "project/output/mark").write_text("x")
    assert (made.storage / "jobs" / job.directory / "output/mark").exists()
    paths = job.run.settings.project["paths"]
    assert all((here / inside).is_dir() for inside in paths), paths


def test_programs_of_a_project_can_be_executed(tmp_path: Path) -> None:
    """A ConfigMap keeps no permissions, and its keys are not the names of files."""
    project = tmp_path / "mine"
    (project / "a tool").mkdir(parents=True)
    (project / "train.py").write_text("")
    for name in ("run.sh", "a tool/gr\u00f6\u00dfe -v 1:2.sh"):
        (project / name).write_text(f"#!/bin/sh\necho '{name}'\n")
        (project / name).chmod(0o755)
    path = tmp_path / "mine.yml"
    path.write_text(yaml.safe_dump({"name": "mine", "project": "mine", "script": "train.py", "kind": "torch"}))
    made = placed(tmp_path, path)
    here = places.make_directory(made, places.Job.read(made.job)) / "project"
    for name in ("run.sh", "a tool/gr\u00f6\u00dfe -v 1:2.sh"):
        done = subprocess.run([str(here / name)], capture_output=True, text=True, check=True)
        assert done.stdout == f"{name}\n"
    assert not (here / "train.py").stat().st_mode & 0o111


DERIVED = {
    "name": "smoke",
    "kind": "Job",
    "pods": 4,
    "least_pods": 4,
    "restarts": 2,
    "first_pod": "smoke-0.smoke",
    "port": 29500,
}


@pytest.mark.parametrize(
    ("derived", "environ", "nodes", "endpoint"),
    [
        ({}, {}, "4", "smoke-0.smoke:29500"),
        ({"least_pods": 2}, {}, "2:4", "smoke-0.smoke:29500"),
        # As the training operator sets them with elasticPolicy, and as the trainer sets them.
        ({}, {"PET_NNODES": "1:4", "PET_RDZV_ENDPOINT": "smoke-worker-0:23456"}, "1:4", "smoke-worker-0:23456"),
        (
            {},
            {"PET_NNODES": "3", "PET_MASTER_ADDR": "smoke-node-0-0.smoke", "PET_MASTER_PORT": "29400"},
            "3",
            "smoke-node-0-0.smoke:29400",
        ),
    ],
)
def test_options_of_torchrun(derived: dict[str, Any], environ: dict[str, str], nodes: str, endpoint: str) -> None:
    words = launch.rendezvous({**DERIVED, **derived}, "abc", {"AMX_CLUSTER_INDEX": "1", **environ}, "10.0.0.2", 2)
    options = dict(word.split("=", 1) for word in words)
    assert (options["--nnodes"], options["--rdzv_endpoint"]) == (nodes, endpoint)
    assert (options["--rdzv_id"], options["--max_restarts"], options["--local_addr"]) == ("smoke-abc", "2", "10.0.0.2")
    assert "is_host=false" in options["--rdzv_conf"]


def test_the_first_pod_that_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        with pytest.raises(ValueError, match=rf"the first pod has not answered at 127.0.0.1:{port} for 0 s \(Conn"):
            launch.wait_for_first_pod("127.0.0.1", port, seconds=0, every=0.01)
        listener.listen()
        launch.wait_for_first_pod("127.0.0.1", port, seconds=0)
    with pytest.raises(ValueError, match=r"the first pod has not answered at smoke-0\.invalid:1 for 0 s"):
        launch.wait_for_first_pod("smoke-0.invalid", 1, seconds=0, every=0.01)


def test_the_first_pod_waits_for_the_others() -> None:
    first = launch.rendezvous(DERIVED, "abc", {"AMX_CLUSTER_INDEX": "0"}, "10.0.0.2", 2)
    assert any("is_host=true" in word for word in first)
    assert "--rdzv_endpoint=10.0.0.2:29500" in first, "it would have to find its own name"
    with pytest.raises(ValueError, match="AMX_CLUSTER_INDEX is '': this pod was given no number by a Job"):
        launch.rendezvous(DERIVED, "abc", {}, "10.0.0.2", 2)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6))
def test_every_rank_has_its_place_in_the_plan_of_its_pod(counts: list[int]) -> None:
    """rank.py accepts the plan of every rank, whatever each pod starts, and all know who writes the same output."""
    size = sum(counts)
    first = 0
    for number, count in enumerate(counts):
        own = launch.own_plan(RUN, STACK, places.Places(Path("/opt")), host(f"node{number}", count))
        for local in range(count):
            torchrun = {"RANK": first + local, "WORLD_SIZE": size, "LOCAL_RANK": local}
            environ = {**{name: str(value) for name, value in torchrun.items()}, "MASTER_ADDR": "10.0.0.9"}
            plan = launch.complete(own, environ)
            variables = rank_program.variables(plan, f"node{number}", environ)
            assert (variables["RANK"], variables["MASTER_ADDR"]) == (str(first + local), "10.0.0.9")
            assert sorted(json.loads(variables["AMX_CLUSTER_RANK"])["together"]) == list(range(size))
        first += count


def test_rank_py_takes_its_name_from_the_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = launch.own_plan(RUN, STACK, places.Places(Path("/opt")), host("node0", 1))
    monkeypatch.setenv(POD, "smoke-worker-3")
    assert rank_program.own_name(plan) == "smoke-worker-3"


def test_not_started_by_torchrun() -> None:
    plan = launch.own_plan(RUN, STACK, places.Places(Path("/opt")), host("node0", 1))
    with pytest.raises(ValueError, match="this is not a process that torchrun started"):
        launch.complete(plan, {"RANK": "0"})


def start(folder: Path, made: places.Places, plan: dict[str, Any]) -> Path:
    here = places.make_directory(made, places.Job.read(made.job))
    (here / launch.OWN_PLAN).write_text(json.dumps({"plan": plan, "stack": STACK}))
    return here


def test_a_start_goes_on_from_the_last_complete_checkpoint(tmp_path: Path) -> None:
    made = placed(tmp_path)
    plan = launch.own_plan(places.Job.read(made.job).run, STACK, places.Places(Path("/opt")), host("node0", 1))
    here = start(tmp_path, made, plan)
    torchrun = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "10.0.0.9", "MASTER_PORT": "1"}
    environ = {**torchrun, "AMX_CLUSTER_INDEX": "1"}
    words, _environ = launch.rank(made, here, environ)
    assert words[:4] == ["/opt/env/bin/python", "-S", "/opt/programs", "rank"]
    assert words[words.index("--ddp_backend") + 1] == "gloo"
    assert "--resume_from_checkpoint" not in words
    for step, complete in ((5, True), (10, True), (15, False)):
        directory = here / "output" / f"checkpoint-{step}"
        directory.mkdir()
        (directory / "model").write_text("x")
        if complete:
            (directory / "complete.json").write_text(json.dumps({"model": 1}))
    words, _environ = launch.rank(made, here, environ)
    assert words[words.index("--resume_from_checkpoint") + 1] == "output/checkpoint-10"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("marker", "this image has no virtual environment of the collection at .*build one with playbooks/image.yml"),
        ("stack", "this image has stack ipex-2.8 and the job was rendered for native"),
        ("package", "this image does not have word2vec==1.0, which the job requires: build it with image_packages"),
        ("job", "has no job.json and kubernetes.json: the pod has no ConfigMap"),
    ],
)
def test_images_without_what_a_job_needs(tmp_path: Path, change: str, message: str) -> None:
    made = placed(tmp_path, override={"requirements": ["word2vec==1.0"]} if change == "package" else None)
    if change == "marker":
        (made.env / "amx-cluster.json").unlink()
    elif change == "stack":
        (made.env / "amx-cluster.json").write_text(json.dumps({**STACK, "name": "ipex-2.8"}))
    elif change == "job":
        (made.job / "job.json").unlink()
    with pytest.raises(ValueError, match=message):
        main.run(made, {POD: "smoke-0", "AMX_CLUSTER_INDEX": "0"})


def test_installed_packages_are_found(tmp_path: Path) -> None:
    info = tmp_path / "lib/python3.11/site-packages/Word_2.vec-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Word_2.vec\nVersion: 1.0\n")
    assert places.missing_packages(tmp_path, ["word-2-vec==1.0", "word-2-vec==1.1"]) == ["word-2-vec==1.1"]


def test_pods_wait_for_what_is_prepared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = placed(tmp_path)
    job = places.Job.read(made.job)
    with pytest.raises(ValueError, match=r"nothing has prepared .* for 0 s: look at the log of its pod"):
        volume.wait_for_prepared(made, job, seconds=0.05, every=0.01)
    assert "waiting for pod smoke-prepare" in capsys.readouterr().out
    mark = made.storage / "jobs" / job.directory / volume.PREPARED
    mark.parent.mkdir(parents=True)
    mark.touch()
    volume.wait_for_prepared(made, job)


def test_data_that_nobody_has_copied(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    made = placed(tmp_path, override={"data": {"corpus": {"directory": str(tmp_path / "corpus")}}})
    with pytest.raises(ValueError, match="datasets/corpus is not on the volume: copy the directory corpus"):
        volume.prepare(made, {})
    (made.storage / "datasets/corpus").mkdir(parents=True)
    fields = places.Job.read(made.job).run.to_json()["job"]["data"]["corpus"]
    volume.fetch(made, made.storage / "datasets/corpus", "data", fields, {})


def test_a_package_with_pips_own_options_of_a_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pip.conf that a pod mounts says where the index is, and as well what cannot be combined with --target."""
    make_wheel(tmp_path / "house", "words", "1")
    text = f"[global]\nuser = true\nrequire-hashes = true\nno-index = true\nfind-links = {tmp_path}/house\n"
    (tmp_path / "pip.conf").write_text(text)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_PREFIX", str(tmp_path / "elsewhere"))
    made = places.Places(*(tmp_path / name for name in ("prefix", "job", "storage", "scratch")))
    made.prefix.mkdir()
    made.env.symlink_to(sys.prefix)
    fields = {"hub": "", "directory": "", "package": "words", "path": "words.py", "revision": "", "files": []}
    volume.fetch(made, made.storage / "models/words", "models", fields, os.environ)
    assert (made.storage / "models/words").is_file()
    assert not (tmp_path / "elsewhere").exists()


def test_a_name_on_the_volume_that_is_another_source(tmp_path: Path) -> None:
    made = placed(tmp_path)
    target = made.storage / "datasets/corpus"
    target.parent.mkdir(parents=True)
    (made.storage / ".hub").mkdir()
    target.symlink_to("../.hub")
    source = dataclasses.asdict(Source(hub="ada/corpus", revision="v1"))
    volume.fetch(made, target, "data", source, {})  # of an earlier version, which remembered nothing
    volume.remember(made, "datasets/corpus", source)
    volume.fetch(made, target, "data", source, {})
    with pytest.raises(ValueError) as caught:
        volume.fetch(made, target, "data", {**source, "revision": "v2"}, {})
    assert str(caught.value) == (
        "datasets/corpus on the volume is hub: ada/corpus, revision: v1, and this job has hub: ada/corpus, revision: "
        "v2: give it another name in the job file, or remove datasets/corpus from the volume when no job uses it"
    )
    target.unlink()
    target.mkdir()
    volume.fetch(made, target, "data", {**source, "revision": "v2"}, {})  # a person has put it there


def test_the_program_names_its_actions(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"usage: pod train \| rank \| prepare \| status"):
        main.main([])


def test_an_image_of_other_programs_is_told_by_every_module_that_they_import(tmp_path: Path) -> None:
    """Also by those beside the rooms. An image has these modules and no others."""
    shutil.copytree(runtimes.installed(), tmp_path, dirs_exist_ok=True)
    program = f"import sys; sys.path.insert(0, '.'); from {interface.__name__} import digest; print(digest())"

    def of_image() -> str:
        command = [sys.executable, "-I", "-S", "-B", "-c", program]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    assert of_image() == interface.digest()
    (forms,) = tmp_path.rglob("_documents.py")
    forms.write_text(f"{forms.read_text()}# changed\n")
    assert of_image() != interface.digest()


def test_an_image_of_another_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = placed(tmp_path)
    path = made.job / "kubernetes.json"
    rendered = json.loads(path.read_text())
    path.write_text(json.dumps({**rendered, "programs": "0123456789ab"}))
    places.stack_of_image(made, places.Job.read(made.job))
    assert "warning: the image has other programs" in capsys.readouterr().out
    for theirs, what in (
        (interface.VERSION + 1, "build the image again"),
        (interface.VERSION - 1, "render the job again"),
    ):
        path.write_text(json.dumps({**rendered, "interface": theirs}))
        with pytest.raises(ValueError, match=f"rendered with interface {theirs}: {what}"):
            places.stack_of_image(made, places.Job.read(made.job))


def test_a_pod_that_cannot_start_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In its termination message, and on the volume; its container is not to train when it is started again."""
    made = dataclasses.replace(placed(tmp_path), termination=tmp_path / "message")
    made.scratch.mkdir()
    (made.env / "amx-cluster.json").unlink()
    kept = places.Job.read(made.job).kept(made)
    environ = {POD: "smoke-0", "AMX_CLUSTER_NODE": "node7"}
    assert main.train(made, {**environ, "AMX_CLUSTER_INDEX": "1"}) == main.FAILED
    (refusal,) = rounds.refusals(kept, 2)
    assert refusal.startswith("pod smoke-0: this image has no virtual environment")
    assert not (kept / "status.json").exists()
    told = json.loads(made.termination.read_text())
    assert (told["state"], told["pod"], told["node"]) == ("failed", "smoke-0", "node7")
    made.termination.unlink()
    assert main.train(made, {**environ, "AMX_CLUSTER_INDEX": "0"}) == main.FAILED
    assert json.loads(made.termination.read_text()) == told, "its outcome is lost when the container starts again"
    (made.scratch / main.ENDED).unlink()
    assert main.train(made, {**environ, "AMX_CLUSTER_INDEX": "0"}) == main.FAILED
    status = json.loads((kept / "status.json").read_text())
    assert (status["state"], status["job"], status["pod"]) == ("failed", "smoke", "smoke-0")
    assert status["reason"].startswith("pod smoke-0: this image has no virtual environment")


SINCE, EARLIER = "2026-11-22T22:00:00+00:00", "2026-11-21T22:00:00+00:00"


def left(made: places.Places, state: str, since: str, results: bool = False) -> dict[str, bytes]:
    """Write what a job has left on the volume that has ended in this state; return it.

    results: whether its supervisor was killed after results.json, before status.json.
    """
    kept = places.Job.read(made.job).kept(made)
    (kept / "output").mkdir(parents=True)
    (kept / "output/model").write_text("trained")
    told = {"job": "smoke", "state": state, "reason": "" if state == "succeeded" else "told", "started": "s"}
    running = {**told, "since": since, "attempts": [{"started": "s"}], "notes": [], "launch": 1}
    (kept / "results.json").write_text(json.dumps({**told, "ended": "e", "seconds": 2.0, "attempts": [], "notes": []}))
    status = {**running, "state": "running", "reason": ""} if results else {**running, "ended": "e"}
    (kept / "status.json").write_text(json.dumps(status))
    return {str(path): path.read_bytes() for path in kept.rglob("*") if path.is_file()}


@pytest.mark.parametrize("number", ["0", "1"])
@pytest.mark.parametrize(
    ("state", "since"),
    [("succeeded", SINCE), ("failed", SINCE), ("stopped", SINCE), ("succeeded", "")],
)
def test_a_pod_that_starts_where_its_job_has_ended_changes_nothing(
    tmp_path: Path, state: str, since: str, number: str
) -> None:
    made = placed(tmp_path, since=since, workers=2)
    before = left(made, state, since)
    environ = {POD: "smoke-0", "AMX_CLUSTER_NODE": "node7", "AMX_CLUSTER_INDEX": number}
    for _start in range(2):  # and when its container is started once more
        assert main.train(made, environ) == (0 if state == "succeeded" else main.FAILED)
        told = json.loads(made.termination.read_text())
        assert (told["state"], told["reason"]) == (state, "" if state == "succeeded" else "told")
        assert all(Path(path).read_bytes() == content for path, content in before.items())


def test_a_job_that_ended_before_its_status_said_so(tmp_path: Path) -> None:
    made = placed(tmp_path, since=SINCE)
    before = left(made, "succeeded", SINCE, results=True)
    assert main.train(made, {POD: "smoke-0", "AMX_CLUSTER_INDEX": "0"}) == 0
    kept = places.Job.read(made.job).kept(made)
    assert (kept / "results.json").read_bytes() == before[str(kept / "results.json")]
    status = json.loads((kept / "status.json").read_text())
    assert (status["state"], status["ended"], status["seconds"], status["returncode"]) == ("succeeded", "e", 2.0, 0)


@pytest.mark.parametrize(
    ("state", "since", "started_again", "results"),
    [
        ("succeeded", EARLIER, SINCE, False),
        ("failed", EARLIER, SINCE, False),
        ("failed", EARLIER, SINCE, True),
        ("lost", SINCE, SINCE, False),
        ("failed", "", "", False),  # files that are applied again
    ],
)
def test_a_job_that_is_started_again_has_not_ended(
    tmp_path: Path, state: str, since: str, started_again: str, results: bool
) -> None:
    made = placed(tmp_path, since=started_again)
    left(made, state, since, results)
    (made.env / "amx-cluster.json").unlink()
    assert main.train(made, {POD: "smoke-0", "AMX_CLUSTER_INDEX": "0"}) == main.FAILED
    status = json.loads((places.Job.read(made.job).kept(made) / "status.json").read_text())
    assert status["reason"].startswith("pod smoke-0: this image has no virtual environment"), "it was looked at"
    assert status["since"] == started_again


def test_a_termination_message_fits(tmp_path: Path) -> None:
    made = places.Places(termination=tmp_path / "message")
    places.write_outcome(made, "failed", "\u00e9" * 10_000, {POD: "a"})
    text = made.termination.read_text()
    assert len(text) <= places.OUTCOME
    assert json.loads(text)["state"] == "failed"
    places.write_outcome(places.Places(termination=tmp_path / "none/message"), "failed", "", {})
