"""What other hosts and other jobs of the cluster are to a job: no obstacle where it does not need them.

With a stand-in for mpirun (support/local_cluster.py).
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from support import checkout, playbooks
from support.local_cluster import LocalCluster

# An address that no host has (RFC 5737), so that nobody answers there.
DEAD = {
    "node9": {"ansible_host": "192.0.2.1", "ansible_connection": "ssh", "ansible_ssh_common_args": "-oConnectTimeout=2"}
}
WAITS = """
import pathlib, time
end = time.monotonic() + 200
while not pathlib.Path("go").exists() and time.monotonic() < end:
    time.sleep(0.1)
"""


def test_a_dead_host_is_no_obstacle_to_a_job_on_others(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, workers=DEAD)
    job = cluster.write_job("one", "print('trained')", hosts=1)
    cluster.succeed("train", cluster.play("train", "-e", f"job={job}"))
    assert "trained" in (cluster.directory("one") / "log").read_text()
    # Beyond the line with which the playbook begins.
    assert "node9" not in cluster.output("train").partition("PLAY [Check the job]")[2]
    job = cluster.write_job("two", "print('trained')", hosts=2)
    refused = cluster.play("train", "-e", f"job={job}", output="refused")
    assert refused.wait(300) != 0
    assert "node9" in cluster.output("refused")


def wait_for(path: Path, play: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 240
    while not path.exists() and (play.poll() is None or path.name == "results.json") and time.monotonic() < end:
        time.sleep(0.2)
    assert path.exists()


def test_jobs_that_wait_do_so_on_the_head_in_order(tmp_path: Path) -> None:
    """The control node only follows them."""
    cluster = LocalCluster(tmp_path)
    first = cluster.play("train", "-e", f"job={cluster.write_job('first', WAITS)}", output="first")
    wait_for(cluster.directory("first") / "lock.node0.0", first)
    refused = cluster.play("train", "-e", f"job={cluster.write_job('now', 'pass')}", output="now")
    assert refused.wait(300) != 0
    assert "node0 is locked by job first" in cluster.output("now")
    waiting = {}
    for name, priority in (("later", 0), ("urgent", 1)):
        job = cluster.write_job(name, "import time; print(time.time())", wait=True, priority=priority)
        waiting[name] = cluster.play("train", "-e", f"job={job}", output=name)
        wait_for(cluster.directory(name) / "status.json", waiting[name])
    cluster.succeed("status", cluster.play("status"))
    shown = " ".join(cluster.output("status").split())
    assert "place 2 of 2 in the queue: node0 is locked" in shown
    assert "(priority 1) waits for node0" in shown
    waiting["later"].kill()
    (cluster.directory("first") / "go").touch()
    cluster.succeed("first", first)
    cluster.succeed("urgent", waiting["urgent"])
    wait_for(cluster.directory("later") / "results.json", first)
    began = [float((cluster.directory(name) / "log").read_text().split()[-1]) for name in ("urgent", "later")]
    assert began == sorted(began)


def test_the_status_on_the_hosts_of_a_limit(tmp_path: Path) -> None:
    playbooks.write_inventory(tmp_path, tmp_path / "prefix", {"node0": playbooks.LOCAL}, {"node1": {}})
    ran = playbooks.play(tmp_path, checkout.ROOT / "playbooks/status.yml", "--limit", "node0")
    assert ran.returncode == 0, ran.stdout
    assert "No job was started on this cluster." in ran.stdout


@pytest.mark.parametrize("playbook", ["network", "train"])
def test_a_limit_that_leaves_out_the_control_node(tmp_path: Path, playbook: str) -> None:
    """Nothing would be done, with exit code 0."""
    playbooks.write_inventory(tmp_path, tmp_path / "prefix", {"node0": playbooks.LOCAL}, {"node1": {}})
    environ = {**checkout.environment(), "ANSIBLE_STDOUT_CALLBACK": "amx.cluster.compact"}
    words = ("-l", "node0", "-e", "job=job.yml")
    ran = playbooks.play(tmp_path, checkout.ROOT / f"playbooks/{playbook}.yml", *words, env=environ)
    assert ran.returncode == 2
    assert "--limit node0 cannot be used here" in ran.stdout
