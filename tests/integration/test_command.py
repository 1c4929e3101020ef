"""The command amx as a person types it: in a checkout and beside it, linked, and of an installed collection."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from support import checkout, playbooks

AMX = checkout.ROOT / "cli/amx"


def environment() -> dict[str, str]:
    """That of a person: none of Ansible's variables are set."""
    env = {name: value for name, value in checkout.environment().items() if not name.startswith("ANSIBLE_")}
    return {**env, "ANSIBLE_NOCOLOR": "1"}


def amx(
    folder: Path, *words: str, command: Path = AMX, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command in a directory to its end."""
    return subprocess.run(
        [command, *words],
        cwd=folder,
        env={**environment(), **(env or {}), "PWD": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,  # of use when it hangs
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with an inventory of this machine, hosts.yml, and a job."""
    playbooks.write_inventory(tmp_path, tmp_path / "prefix", {"node0": playbooks.LOCAL})
    (tmp_path / "script.py").touch()
    (tmp_path / "job.yml").write_text("{name: mine, script: script.py, hosts: 2}")
    return tmp_path


def test_status_from_another_directory(folder: Path) -> None:
    ran = amx(folder, "status", "-i", "hosts.yml")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0] == "Hosts: 1 host of hosts.yml: head node0"
    assert "DEPRECATION" not in ran.stdout + ran.stderr
    assert "reserved" not in ran.stderr


def test_help_of_which_nobody_reads_the_end(folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ran = subprocess.run([AMX, "--help"], env=environment(), stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_json_alone_is_on_stdout(folder: Path) -> None:
    ran = amx(folder, "status", "--json", env={"ANSIBLE_INVENTORY": "hosts.yml"})
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {"jobs": []}
    assert "Hosts: " in ran.stderr
    assert json.loads(amx(folder, "status", "-i", "hosts.yml", "--query", "jobs[].name").stdout) == []


def test_a_refusal_of_a_playbook(folder: Path) -> None:
    """Its exit code is Ansible's, and it recommends what was typed."""
    ran = amx(folder, "-v", "-i", "hosts.yml", "plan", "job.yml")
    assert ran.returncode == 2
    command = f"ansible-playbook -i hosts.yml -v {checkout.ROOT}/playbooks/plan.yml -e amx_job=job.yml"
    assert ran.stderr.splitlines()[0] == command
    assert "Job mine requests 2 hosts" in ran.stdout
    ran = amx(folder, "status", "other", env={"ANSIBLE_INVENTORY": "hosts.yml"})
    assert ran.returncode == 2
    assert "no job other was started on this cluster: amx status" in " ".join(ran.stdout.split())
    ran = amx(folder, "-i", "hosts.yml", "status", "other")
    assert "amx -i hosts.yml status lists all jobs" in " ".join(ran.stdout.split())


def test_fields_of_a_job_for_one_run(folder: Path) -> None:
    ran = amx(folder, "plan", "job.yml", "--hosts", "1", "-i", "hosts.yml")
    assert "requests 2 hosts" not in ran.stdout
    assert "run amx -i hosts.yml site" in " ".join(ran.stdout.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian", "job.yml"], "amx: unknown command trian; "),
        (["scale", "job.yml", "--repeat", "3"], "amx scale: unknown option --repeat; did you mean --repeats?\n"),
    ],
)
def test_arguments_that_make_no_sense(words: list[str], message: str, folder: Path) -> None:
    ran = amx(folder, *words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(message)


def test_a_link_on_the_path(folder: Path) -> None:
    (folder / "bin").mkdir()
    (folder / "bin/amx").symlink_to(AMX)
    ran = amx(folder, "version", command=folder / "bin/amx")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("amx.cluster ")
    (folder / "bin/readlink").symlink_to("/usr/bin/readlink")
    (folder / "bin/dirname").symlink_to("/usr/bin/dirname")
    ran = amx(folder, "version", command=folder / "bin/amx", env={"PATH": str(folder / "bin")})
    assert (ran.returncode, ran.stderr.partition(":")[0]) == (2, "amx")


def test_an_installed_collection(folder: Path) -> None:
    """As ansible-galaxy installs it: playbooks are known by their names."""
    galaxy = [str(checkout.BIN / "ansible-galaxy"), "collection"]
    env = {**environment(), "HOME": str(folder)}
    built = [*galaxy, "build", str(checkout.ROOT), "--output-path", str(folder)]
    subprocess.run(built, cwd=folder, env=env, check=True, capture_output=True)
    (archive,) = folder.glob("amx-cluster-*.tar.gz")
    installed = [*galaxy, "install", "--no-deps", "-p", str(folder / "lib"), str(archive)]
    subprocess.run(installed, cwd=folder, env=env, check=True, capture_output=True)
    command = folder / "lib/ansible_collections/amx/cluster/cli/amx"
    assert os.access(command, os.X_OK)
    ran = amx(folder, "-v", "-i", "hosts.yml", "inventory", command=command, env=env)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr.splitlines()[0] == "ansible-playbook -i hosts.yml -v amx.cluster.inventory"
    assert "Hosts: 1 host of hosts.yml: head node0" in ran.stdout
    ran = amx(folder, "-i", "hosts.yml", "status", "other", command=command, env=env)
    assert "amx -i hosts.yml status lists all jobs" in " ".join(ran.stdout.split())
    ran = amx(folder, "init", "servers", command=command, env=env)
    assert ran.returncode == 0, ran.stderr
    ran = amx(folder / "servers", "inventory", command=command, env=env)
    assert "head node0, workers node1, node2, node3" in ran.stdout, ran.stdout + ran.stderr
    version = amx(folder, "version", command=command, env=env).stdout
    assert version.startswith("amx.cluster 1.0.0 (")
