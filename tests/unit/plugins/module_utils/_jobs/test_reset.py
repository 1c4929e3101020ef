from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._jobs import directory, reset

ROLES = Path(__file__).resolve().parents[5] / "roles"
KEY = "0123456789ab"
LINE = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA{} {}\n"


def write(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def make_job(
    base: Path, name: str, files: Mapping[str, str] | None = None, hosts: tuple[str, ...] = ("node0",)
) -> Path:
    """A job directory as it is created on node0, the head of its job, with further files."""
    folder = base / "jobs" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    settings = {"head": "node0", "user": "me", "since": "today"}
    plan = {"environment": str(base / "envs" / f"native-cp311-{KEY}"), "hosts": [{"host": host} for host in hosts]}
    created = {"job.json": json.dumps({"settings": settings}), "plan.json": json.dumps(plan), "host": "node0\n"}
    directory.create(folder, {**created, "lib/a.py": ""}, {"models/bert": "/nowhere"})
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
    with pytest.raises(ValueError, match="reset: dta, venv is not one of jobs, results, data"):
        reset.requested("venv,jobs,dta")


def test_environments_of_the_collection_and_nothing_beside_them(tmp_path: Path) -> None:
    write(tmp_path / f"envs/native-cp311-{KEY}/bin/python")  # incomplete: without a marker
    write(tmp_path / f"envs/.native-cp311-{KEY}.lock", "")
    write(tmp_path / "envs/old/amx-cluster.json", "{}")
    write(tmp_path / "envs/.old.lock", "")
    write(tmp_path / "envs/mine/bin/python")
    write(tmp_path / "envs/.mine.lock", "")
    write(tmp_path / f"wheels/cp311-{KEY}/a.whl")
    write(tmp_path / "wheels/my.whl")
    write(tmp_path / "notes.txt")
    (tmp_path / "env").symlink_to(tmp_path / "envs/old")
    assert names(tmp_path, "environments") == [
        "env", f"envs/.native-cp311-{KEY}.lock", "envs/.old.lock", f"envs/native-cp311-{KEY}", "envs/old",
        f"wheels/cp311-{KEY}",
    ]  # fmt: skip
    reset.remove(tmp_path, reset.paths(tmp_path, "environments"))
    reset.remove_empty(tmp_path)
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["envs/.mine.lock", "envs/mine/bin/python", "notes.txt", "wheels/my.whl"]
    assert names(tmp_path, "environments") == []


def test_data_is_removed_and_what_links_lead_to_stays(tmp_path: Path) -> None:
    own = write(tmp_path / "own/weights", "xy")
    base = tmp_path / "prefix"
    write(base / f"cache/models/bert-{KEY}/weights")
    write(base / f"cache/models/bert-{KEY}.read.json", "{}")
    write(base / f"cache/datasets/org/pairs-{KEY}/train.csv")
    write(base / "cache/fetched/hub/a")
    write(base / f"cache/projects/files/{64 * 'a'}")
    write(base / "cache/projects/files.read.json", "{}")
    write(base / "cache/models/my-own/weights")
    (base / f"cache/models/given-{KEY}").symlink_to(own.parent)
    assert names(base, "data") == [
        f"cache/{name}"
        for name in (
            f"datasets/org/pairs-{KEY}", "fetched", f"models/bert-{KEY}", f"models/bert-{KEY}.read.json",
            f"models/given-{KEY}", "projects",
        )
    ]  # fmt: skip
    assert reset.size(reset.paths(base, "data")) == 8  # not what the link leads to
    reset.remove(base, reset.paths(base, "data"))
    reset.remove_empty(base)
    assert own.read_text() == "xy"
    assert [path for path in base.rglob("*") if path.is_file()] == [base / "cache/models/my-own/weights"]
    assert not (base / "cache/datasets").exists()


def test_downloads(tmp_path: Path) -> None:
    write(tmp_path / f"wheelhouse/cp311-{KEY}-lock/pip.whl")
    write(tmp_path / f"wheelhouse/cp311-{KEY}.partial/a.whl")
    write(tmp_path / "wheelhouse/mine.whl")
    write(tmp_path / "fetched/a")
    write(tmp_path / "git/0123456789abcdef/own-1-py3-none-any.whl")
    write(tmp_path / "transformers-5.1-01234567/examples/a.py")
    write(tmp_path / "transformers-mine/a")
    assert names(tmp_path, "downloads") == [
        "fetched", "git", "transformers-5.1-01234567",
        f"wheelhouse/cp311-{KEY}-lock", f"wheelhouse/cp311-{KEY}.partial",
    ]  # fmt: skip


def test_a_job_directory_with_results_is_kept(tmp_path: Path) -> None:
    make_job(tmp_path, "head", {"log": "step 1\n", "status.json": "{}"})
    make_job(tmp_path, "worker", {"lock.node1.0": "", "ranks/entered.json": "{}"})
    make_job(tmp_path, "shard", {"predictions.csv": "1\n"})
    make_job(tmp_path, "copy", {"output/checkpoint-10/state.pt": "1"})
    make_job(tmp_path, "verify", {"log": "", "results.json": "{}"})
    own = write(tmp_path / "store/aa", "print()")
    tree = {"files": [{"file": "train.py", "sha256": own.name, "executable": False}], "links": {}, "shared": ["output"]}
    directory.create(tmp_path / "jobs/project", {"job.json": "{}"}, {}, tree=(tree, own.parent))
    older = make_job(tmp_path, "older")
    (older / directory.CREATED).unlink()
    write(tmp_path / "jobs/.head.lock", "")
    write(tmp_path / "jobs/notes/a.txt")
    assert names(tmp_path, "jobs") == ["jobs/.head.lock", "jobs/project", "jobs/verify", "jobs/worker"]
    assert names(tmp_path, "results") == ["jobs/copy", "jobs/head", "jobs/older", "jobs/shard"]
    for piece in ("jobs", "results"):
        reset.remove(tmp_path, reset.paths(tmp_path, piece))
    reset.remove_empty(tmp_path)
    assert [path.name for path in (tmp_path / "jobs").iterdir()] == ["notes"]


def test_nothing_is_there(tmp_path: Path) -> None:
    for piece in reset.OF_FILES:
        assert reset.paths(tmp_path / "none", piece) == []
    reset.remove_empty(tmp_path / "none")
    assert reset.in_use(tmp_path / "none", "node0") == []


def test_a_running_job_is_in_use_with_its_environment(tmp_path: Path) -> None:
    folder = make_job(tmp_path, "demo", hosts=("node0", "node1"))
    (one,) = reset.in_use(tmp_path, "node0")
    assert one == {"job": "demo", "hosts": ["node0", "node1"], "why": "is being started"}
    assert reset.environments_in_use(tmp_path / "jobs") == [f"native-cp311-{KEY}"]
    (folder / "supervise.py").write_text("input('ready')")
    command = [sys.executable, "-IS", "supervise.py", f"{folder}/"]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.read(1)
        status = {"state": "running", "pid": process.pid, "started": "now"}
        write(folder / "status.json", json.dumps(status))
        (one,) = reset.in_use(tmp_path, "node0")
        assert (one["job"], one["why"]) == ("demo", "runs since now")
        assert reset.environments_in_use(tmp_path / "jobs") == [f"native-cp311-{KEY}"]
        process.terminate()
    assert reset.in_use(tmp_path, "node0") == []
    assert reset.environments_in_use(tmp_path / "jobs") == []


def test_a_process_of_an_environment_is_in_use(tmp_path: Path) -> None:
    python = write(tmp_path / f"envs/native-cp311-{KEY}/bin/python", "#!/bin/sh\necho ready\nread line\n")
    python.chmod(0o755)
    with subprocess.Popen([str(python)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.read(1)
        found = reset.in_use(tmp_path, "node1")
        assert process.stdin
        process.stdin.close()
    assert found == [
        {"job": "", "hosts": ["node1"], "why": f"a process uses the virtual environment {python.parents[1]}"}
    ]


def test_refusal() -> None:
    def found(*in_use: dict[str, Any]) -> dict[str, Any]:
        return {"in_use": list(in_use)}

    job = {"job": "demo", "hosts": ["node0", "node1"], "why": "runs since now"}
    shell = {"job": "", "hosts": ["node2"], "why": "a process uses the virtual environment /e"}
    hosts = {"node0": found(job), "node1": found(job), "node2": found(shell)}
    everywhere = reset.refusal(hosts, list(hosts), ["environments"])
    assert everywhere.splitlines() == [
        "Nothing was removed on any host, because something still runs:",
        "- node2: a process uses the virtual environment /e: end it, or leave out environments",
        "- job demo runs since now on node0, node1: wait for its end, or stop it: playbooks/stop.yml -e job=demo",
    ]
    assert "node2" not in reset.refusal(hosts, list(hosts), ["data"])
    assert reset.refusal(hosts, ["node2"], ["data"]) == ""  # its host is not one of the job's
    assert reset.refusal({"node0": found(job)}, ["node1"], ["data"])  # the head knows of a job on node1
    assert reset.would_refuse(everywhere).splitlines()[1:] == everywhere.splitlines()[1:]


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
    assert reset.table(hosts, control, []).splitlines() == [
        "host   jobs  results  data     environments  tuning               firewall  ssh",
        "node0  -     -        3.0 GiB  -             2 files, 3 settings  -         1 key",
        "node1  -     -        -        -             -                    -         -",
        "downloads on the control node: 5.0 MiB",
    ]
    assert reset.table(hosts, control, ["data"]).splitlines() == ["host   data", "node0  3.0 GiB", "node1  -"]
    assert reset.table(hosts, control, ["downloads"]) == "downloads on the control node: 5.0 MiB"
    assert reset.bytes_text(1) == "1 KiB"


def test_system_files_are_those_of_the_roles(tmp_path: Path) -> None:
    def defined(role: str) -> set[str]:
        text = (ROLES / role / "vars/main.yml").read_text()
        values = [str(value) for value in yaml.safe_load(text).values()]
        record = {"/var/lib/amx-cluster/kernel_settings.json", "/var/lib/amx-cluster/tcmalloc_package"}
        files = {value for value in values if value.startswith(("/etc/", "/var/")) and "." in value.rpartition("/")[2]}
        units = {f"/etc/systemd/system/{value}" for value in values if value.endswith(".service") and "/" not in value}
        return files | units | (record if role == "host_tuning" else set())

    for piece, role in (("tuning", "host_tuning"), ("firewall", "firewall")):
        assert {f"/{name}" for name in reset.SYSTEM_FILES[piece]} == defined(role)
    write(tmp_path / "etc/amx-cluster/firewall.nft")
    assert reset.system_files("firewall", tmp_path) == ["/etc/amx-cluster/firewall.nft"]
    assert reset.kernel_settings(tmp_path) == 0
    write(tmp_path / "var/lib/amx-cluster/kernel_settings.json", '{"before": {"a": {}, "b": {}}}')
    assert reset.kernel_settings(tmp_path) == 2


def test_ssh_files(tmp_path: Path) -> None:
    assert reset.ssh_files(tmp_path, "amx_cluster") == {"files": [], "keys": 0}
    write(tmp_path / "amx_cluster.pub")
    write(tmp_path / "authorized_keys", LINE.format("AA", "amx_cluster@node0") + LINE.format("AB", "me@home"))
    assert reset.ssh_files(tmp_path, "amx_cluster") == {"files": [str(tmp_path / "amx_cluster.pub")], "keys": 1}
