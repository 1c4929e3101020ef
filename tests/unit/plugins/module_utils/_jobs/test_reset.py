from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._data.records import Record
from ansible_collections.amx.cluster.plugins.module_utils._hosts import firewall, tuning
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, in_use, reset, reset_text
from ansible_collections.amx.cluster.plugins.module_utils._stacks import venv
from support.patience import started

ROLES = Path(__file__).resolve().parents[5] / "roles"
KEY = "0123456789ab"


def write(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def own(path: Path, depth: int = 1) -> Path:
    """A file in a directory that the collection has made, so many levels above it."""
    _ownership.make(path.parents[depth - 1], "directory")
    return write(path)


def make_job(
    base: Path,
    name: str,
    files: Mapping[str, str] | None = None,
    hosts: tuple[str, ...] = ("node0",),
    what: str = directory.JOB,
) -> Path:
    """A job directory as it is created on node0, the head of its job, with further files."""
    folder = base / "jobs" / name
    _ownership.make(folder.parent, _ownership.CONTAINER)
    settings = {"head": "node0", "user": "me", "since": "today"}
    plan = {"environment": str(base / "envs" / f"native-cp311-{KEY}"), "hosts": [{"host": host} for host in hosts]}
    created = {"job.json": json.dumps({"settings": settings}), "plan.json": json.dumps(plan), "host": "node0\n"}
    directory.create(folder, {**created, "lib/a.py": ""}, {"models/bert": "/nowhere"}, kind=what)
    for path, text in (files or {}).items():
        write(folder / path, text)
    return folder


def names(base: Path, piece: str) -> list[str]:
    return [str(path.relative_to(base)) for path in reset.paths(base, piece)]


def test_requested() -> None:
    assert reset.requested("") == []
    assert reset.requested(" data, jobs ,") == ["jobs", "data"]
    assert reset.requested(["ssh"]) == ["ssh"]
    assert reset.requested("all") == ["jobs", "data", "environments", "tuning", "firewall", "ssh"]
    assert reset.requested("all,results,downloads") == list(reset.PIECES)
    assert reset.requested("results") == ["previous", "results"]
    assert reset.requested("previous") == ["previous"]
    with pytest.raises(ValueError, match="reset: dta, venv is not one of jobs, previous, results, data"):
        reset.requested("venv,jobs,dta")


def test_environments_of_the_collection_and_nothing_beside_them(tmp_path: Path) -> None:
    for name in (f"native-cp311-{KEY}", "old"):
        venv.begin(tmp_path / "envs" / name)
        _ownership.write_file(tmp_path / f"envs/.{name}.lock")
    own(tmp_path / f"wheels/cp311-{KEY}/a.whl")
    write(tmp_path / "envs/mine/bin/python")
    write(tmp_path / f"envs/theirs-cp311-{KEY}/{venv.MARKER}", "{}")
    write(tmp_path / "envs/.mine.lock", "")
    write(tmp_path / "wheels/my.whl")
    write(tmp_path / "notes.txt")
    venv.activate(tmp_path, "old")
    (tmp_path / "examples").symlink_to(tmp_path / "envs/mine")
    assert names(tmp_path, "environments") == [
        "env", f"envs/.native-cp311-{KEY}.lock", "envs/.old.lock", f"envs/native-cp311-{KEY}", "envs/old",
        f"wheels/cp311-{KEY}",
    ]  # fmt: skip
    stays = ["envs/.mine.lock", "envs/mine", f"envs/theirs-cp311-{KEY}", "wheels/my.whl"]
    assert [str(path.relative_to(tmp_path)) for path in reset.unmarked(tmp_path, "environments")] == stays
    assert names(tmp_path, "wheels") == [f"wheels/cp311-{KEY}"]
    reset.remove(tmp_path, reset.paths(tmp_path, "environments"))
    reset.remove_empty(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in reset.unmarked(tmp_path, "environments")] == stays
    assert (tmp_path / "notes.txt").exists()
    assert (tmp_path / "examples").is_symlink()
    assert names(tmp_path, "environments") == []


@pytest.mark.slow
def test_data_is_removed_and_what_links_lead_to_stays(tmp_path: Path) -> None:
    mine = write(tmp_path / "own/weights", "xy")
    base = tmp_path / "prefix"
    own(base / f"cache/models/bert-{KEY}/weights")
    record = Record(base / f"cache/models/bert-{KEY}.read.json")
    record.save()
    own(base / f"cache/datasets/org/pairs-{KEY}/train.csv")
    own(base / "cache/fetched/hub/a")
    own(base / f"cache/projects/files/{64 * 'a'}")
    write(base / "cache/models/my-own/weights")
    write(base / f"cache/models/theirs-{KEY}/weights")
    _ownership.link(base / f"cache/models/given-{KEY}", mine.parent)
    assert names(base, "data") == [
        f"cache/{name}"
        for name in (
            f"datasets/org/pairs-{KEY}", "fetched/hub", f"models/bert-{KEY}", f"models/bert-{KEY}.read.json",
            f"models/given-{KEY}", "projects/files",
        )
    ]  # fmt: skip
    reset.remove(base, reset.paths(base, "data"))
    reset.remove_empty(base)
    assert mine.read_text() == "xy"
    left = [str(path.relative_to(base)) for path in base.rglob("[!.]*") if path.is_file()]
    assert sorted(left) == ["cache/models/my-own/weights", f"cache/models/theirs-{KEY}/weights"]
    assert not (base / "cache/datasets").exists()


def test_sizes(tmp_path: Path) -> None:
    write(tmp_path / "a/b", "123")
    (tmp_path / "a/same").hardlink_to(tmp_path / "a/b")
    (tmp_path / "a/link").symlink_to(write(tmp_path / "own/weights", 9 * "x"))
    assert reset.size([tmp_path / "a"]) == 3  # a short link has no block


@pytest.mark.slow
def test_downloads_beside_those_of_others(tmp_path: Path) -> None:
    """As with `cluster_cache: ~/.cache`, where git keeps credentials in git/."""
    own(tmp_path / f"wheelhouse/cp311-{KEY}-lock/pip.whl")
    own(tmp_path / f"wheelhouse/cp311-{KEY}.partial/a.whl")
    write(tmp_path / f"wheelhouse/cp312-{KEY}/mine.whl")
    own(tmp_path / "fetched/hub/a")
    own(tmp_path / "git_wheels/0123456789abcdef/own-1-py3-none-any.whl")
    own(tmp_path / "transformers/5.1-01234567/source/examples/a.py", 3)
    others = ["fetched/thumbnails/a", "git/credential/socket", "projects/thesis.tex", "transformers/mine/a"]
    for name in others:
        write(tmp_path / name)
    assert names(tmp_path, "downloads") == [
        "fetched/hub", "git_wheels/0123456789abcdef", "transformers/5.1-01234567",
        f"wheelhouse/cp311-{KEY}-lock", f"wheelhouse/cp311-{KEY}.partial",
    ]  # fmt: skip
    reset.remove(tmp_path, reset.paths(tmp_path, "downloads"))
    reset.remove_empty(tmp_path)
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("[!.]*") if path.is_file())
    assert left == sorted([*others, f"wheelhouse/cp312-{KEY}/mine.whl"])


@pytest.mark.slow
def test_a_job_directory_with_results_is_kept(tmp_path: Path) -> None:
    make_job(tmp_path, "head", {"log": "step 1\n", "status.json": "{}"})
    make_job(tmp_path, "worker", {"lock.node1.0": "", "ranks/entered.json": "{}"})
    make_job(tmp_path, "shard", {"predictions.csv": "1\n"})
    make_job(tmp_path, "copy", {"output/checkpoint-10/state.pt": "1"})
    make_job(tmp_path, "verify", {"log": "", "results.json": "{}"})
    make_job(tmp_path, "head.20261126T141500Z", {"log": "step 1\n"})
    make_job(tmp_path, "head.20261126T141500Z.1", {"log": "step 1\n"})
    make_job(tmp_path, "worker.20261126T141500Z")
    make_job(tmp_path, "v1.20261126", {"log": "", "results.json": "{}"})
    make_job(tmp_path, "+verify", {"log": "", "results.json": "{}"}, what=directory.DERIVED)
    mine = write(tmp_path / "store/aa", "print()")
    script = {"file": "train.py", "sha256": mine.name, "executable": False}
    tree = {"files": [script], "links": {}, "shared": ["output"]}
    directory.create(tmp_path / "jobs/project", {"job.json": "{}"}, {}, tree=(tree, mine.parent))
    theirs = make_job(tmp_path, "theirs")
    (theirs / _ownership.MARK).unlink()
    _ownership.write_file(tmp_path / "jobs/.head.lock")
    write(tmp_path / "jobs/.notes.lock", "")
    write(tmp_path / "jobs/notes/a.txt")
    assert names(tmp_path, "jobs") == [
        "jobs/+verify", "jobs/.head.lock", "jobs/project", "jobs/worker", "jobs/worker.20261126T141500Z"
    ]  # fmt: skip
    assert names(tmp_path, "previous") == ["jobs/head.20261126T141500Z", "jobs/head.20261126T141500Z.1"]
    assert names(tmp_path, "results") == ["jobs/copy", "jobs/head", "jobs/shard", "jobs/v1.20261126", "jobs/verify"]
    for piece in ("jobs", "previous", "results"):
        reset.remove(tmp_path, reset.paths(tmp_path, piece))
    reset.remove_empty(tmp_path)
    assert sorted(path.name for path in (tmp_path / "jobs").glob("*")) == [
        ".amx-cluster.json", ".notes.lock", "notes", "theirs"
    ]  # fmt: skip


def test_nothing_is_there(tmp_path: Path) -> None:
    for piece in reset.OF_FILES:
        assert reset.paths(tmp_path / "none", piece) == []
    reset.remove_empty(tmp_path / "none")
    assert reset.used(tmp_path / "none", "node0") == []


@pytest.mark.slow
def test_a_running_job_is_in_use_with_its_environment(tmp_path: Path) -> None:
    folder = make_job(tmp_path, "demo", hosts=("node0", "node1"))
    (one,) = reset.used(tmp_path, "node0")
    assert one == {"job": "demo", "hosts": ["node0", "node1"], "why": "is being started"}
    assert in_use.environments_in_use(tmp_path / "jobs") == [f"native-cp311-{KEY}"]
    (folder / "supervise").write_text("print(flush=True); input()")
    with started([sys.executable, "-IS", "supervise", f"{folder}/"], cwd=folder) as process:
        status = {"state": "running", "pid": process.pid, "started": "now"}
        write(folder / "status.json", json.dumps(status))
        (one,) = reset.used(tmp_path, "node0")
        assert (one["job"], one["why"]) == ("demo", "runs since now")
        assert in_use.environments_in_use(tmp_path / "jobs") == [f"native-cp311-{KEY}"]
    assert reset.used(tmp_path, "node0") == []
    assert in_use.environments_in_use(tmp_path / "jobs") == []


@pytest.mark.slow
def test_a_process_of_an_environment_is_in_use(tmp_path: Path) -> None:
    venv.begin(tmp_path / f"envs/native-cp311-{KEY}")
    python = write(tmp_path / f"envs/native-cp311-{KEY}/bin/python", "#!/bin/sh\necho ready\nread line\n")
    python.chmod(0o755)
    why = f"a process uses the virtual environment {python.parents[1]}"
    with started([str(python)]):
        assert reset.used(tmp_path, "node1") == [{"job": "", "hosts": ["node1"], "why": why}]


def test_refusal() -> None:
    def found(*in_use: dict[str, Any]) -> dict[str, Any]:
        return {"in_use": list(in_use)}

    job = {"job": "demo", "hosts": ["node0", "node1"], "why": "runs since now"}
    shell = {"job": "", "hosts": ["node2"], "why": "a process uses the virtual environment /e"}
    hosts = {"node0": found(job), "node1": found(job), "node2": found(shell)}
    everywhere = reset_text.refusal(hosts, list(hosts), ["environments"])
    assert everywhere.splitlines() == [
        "Nothing was removed on any host, because something still runs:",
        "- node2: a process uses the virtual environment /e: end it, or leave out environments",
        "- job demo runs since now on node0, node1: wait for its end, or stop it: playbooks/stop.yml -e job=demo",
    ]
    assert "node2" not in reset_text.refusal(hosts, list(hosts), ["data"])
    assert reset_text.refusal(hosts, ["node2"], ["data"]) == ""  # its host is not one of the job's
    assert reset_text.refusal({"node0": found(job)}, ["node1"], ["data"])  # the head knows of a job on node1
    assert reset_text.would_refuse(everywhere).splitlines()[1:] == everywhere.splitlines()[1:]


def test_listed() -> None:
    jobs = {"marks": {"/p/jobs/+verify": "derived job, by a mark"}, "unmarked": ["/p/jobs/mine"]}
    host = {"pieces": {"jobs": jobs, "results": {"marks": {}, "unmarked": ["/p/jobs/mine"]}, "tuning": {"paths": []}}}
    control = {"pieces": {"downloads": {"marks": {"/c/fetched/hub": "files, by a mark"}, "unmarked": []}}}
    shown = reset_text.listed({"node0": host, "node1": host}, control, ["jobs", "results", "downloads", "tuning"])
    assert [line.split(maxsplit=2) for line in shown.splitlines()] == [
        ["jobs", "/p/jobs/+verify", "derived job, by a mark            node0, node1"],
        ["stays", "/p/jobs/mine", "it has no mark of the collection  node0, node1"],
        ["downloads", "/c/fetched/hub", "files, by a mark                  the control node"],
    ]


def test_table() -> None:
    nothing: dict[str, Any] = {"paths": [], "bytes": 0}
    pieces = {piece: dict(nothing) for piece in reset.PIECES}
    some = {
        **pieces,
        "data": {"paths": ["a"], "bytes": 3 * 2**30},
        "tuning": {"paths": ["a", "b"], "settings": 3},
        "ssh": {"paths": [], "keys": 1},
    }
    hosts = {"node0": {"pieces": some}, "node1": {"pieces": pieces}}
    control = {"pieces": {"downloads": {"paths": ["a"], "bytes": 5 * 2**20}}}
    assert reset_text.table(hosts, control, []).splitlines() == [
        "host   jobs  previous  results  data     environments  tuning               firewall  ssh",
        "node0  -     -         -        3.0 GiB  -             2 files, 3 settings  -         1 key",
        "node1  -     -         -        -        -             -                    -         -",
        "downloads on the control node: 5 MiB",
    ]
    assert reset_text.table(hosts, control, ["data"]).splitlines() == ["host   data", "node0  3.0 GiB", "node1  -"]
    assert reset_text.table(hosts, control, ["downloads"]) == "downloads on the control node: 5 MiB"


def test_system_files_are_those_of_the_roles(tmp_path: Path) -> None:
    def defined(role: str) -> set[str]:
        text = (ROLES / role / "vars/main.yml").read_text()
        values = [str(value) for value in yaml.safe_load(text).values()]
        record = {"/var/lib/amx-cluster/kernel_settings.json", "/var/lib/amx-cluster/tcmalloc_package"}
        files = {value for value in values if value.startswith(("/etc/", "/var/")) and "." in value.rpartition("/")[2]}
        units = {f"/etc/systemd/system/{value}" for value in values if value.endswith(".service") and "/" not in value}
        return files | units | (record if role == "host_tuning" else set())

    for piece, role in (("tuning", "host_tuning"), ("firewall", "firewall")):
        assert {f"/{name}" for owner in reset.places(piece) for name in owner.files} == defined(role)
    write(tmp_path / "etc/amx-cluster/firewall.nft", "# Made by amx.cluster")
    write(tmp_path / "etc/amx-cluster/firewall_rollback.sh", "mine")
    assert reset.system_files("firewall", tmp_path) == [tmp_path / "etc/amx-cluster/firewall.nft"]
    assert firewall.recorded(tmp_path) == {}
    record = tmp_path / "var/lib/amx-cluster/firewall.json"
    record.parent.mkdir(parents=True)
    record.write_text('{"backend": "nftables"}')
    rules = firewall.recorded(tmp_path)
    assert list(rules) == ["table inet amx_cluster"]
    assert reset_text.cell("firewall", {"paths": ["/a", "/b"], "rules": rules}) == "2 files, 1 rule"
    assert tuning.recorded(tmp_path) == 0
    write(tmp_path / "var/lib/amx-cluster/kernel_settings.json", '{"before": {"a": {}, "b": {}}}')
    assert tuning.recorded(tmp_path) == 2
