"""The life of a cluster, in its order: each journey starts from what the one before has left. Called by verify.yml.

node0 and node1 are a cluster, node2 is a bare host on the same network, see inventory/hosts.yml.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.checkout import ROOT
from support.cluster import (
    CONTAINERS,
    EPHEMERAL,
    HEAD,
    PREFIX,
    Play,
    directory,
    job_file,
    log,
    on,
    status,
    until,
    words,
)
from support.journeys import check, make
from support.stand_ins import make_wheel

NEW = "node2"
CONTAINERS[NEW] = CONTAINERS[HEAD].removesuffix(HEAD) + NEW
MEMBERS = [host for host in CONTAINERS if host != NEW]
# The inventory with the new host, beside those that every playbook of the scenario gets.
WITH_NEW = EPHEMERAL / "with_new.yml"
BARE = EPHEMERAL / "bare.json"
JOB = "long"
# Where software is looked for that a reset leaves: packages' and systemd's own records change all the time.
NOISE = re.compile(
    r"/var/lib/(dpkg|apt|systemd|dbus|pam|python)/|/etc/(ssh/|ld\.so\.cache|machine-id|\.updated|hostname|hosts|resolv\.conf|mtab)"
    r"|/var/lib/(ucf|private)|/home/train/\.ansible/|/home/train/\.(cache|bash_history)"
)


def inventory() -> list[str]:
    """Write the inventory in which the new host is a worker, and return the option that adds it."""
    WITH_NEW.write_text(json.dumps({"cluster": {"children": {"workers": {"hosts": {NEW: {}}}}}}))
    return ["-i", str(WITH_NEW)]


def changed(output: str) -> dict[str, int]:
    """Return how many tasks changed something on each host, from the recap."""
    return {host: int(number) for host, number in re.findall(r"^(\S+) +: ok=\d+ +changed=(\d+)", output, re.MULTILINE)}


def files(host: str) -> list[str]:
    """Return the files where the collection makes any, and the directories of its own."""
    found = on(
        host, "find /etc /home /opt /var/lib /root -xdev ! -type d; ls -d /opt/* /etc/amx* /var/lib/amx*", "root"
    )
    return sorted({line for line in found.splitlines() if not NOISE.search(line)})


def state(host: str) -> dict[str, Any]:
    """Return what a reset must leave as it was on a bare host."""
    return {
        "files": files(host),
        "authorized_keys": on(host, "cat ~/.ssh/authorized_keys").split("\n"),
        "units": on(host, "systemctl list-unit-files --no-legend 'amx*'; ls /etc/systemd/system | grep amx", "root"),
        "rules": on(host, "nft list tables", "root"),
        "sysctl": on(host, "cat /etc/sysctl.d/* /etc/tmpfiles.d/* /etc/security/limits.d/* 2>/dev/null", "root"),
    }


def differences(host: str, bare: dict[str, Any]) -> dict[str, Any]:
    """Return what a host has otherwise than a bare one."""
    now = state(host)
    now["authorized_keys"] = [line for line in now["authorized_keys"] if line]
    wanted = {**bare, "authorized_keys": [line for line in bare["authorized_keys"] if line]}
    found = {key: [now[key], wanted[key]] for key in now if key != "files" and now[key] != wanted[key]}
    more = sorted(set(now["files"]) - set(wanted["files"]))
    return {**found, "more files": more} if more else found


def keys_and_environments(hosts: list[str]) -> dict[str, str]:
    """Return what must stay on the other hosts: key pair, virtual environments and when each was made."""
    script = f"cat ~/.ssh/amx_cluster.pub; stat -c '%n %W %Y' {PREFIX}/envs/*/bin; readlink {PREFIX}/env"
    return {host: on(host, script) for host in hosts}


def host_is_added() -> list[str]:
    """Run site.yml with a bare host in the inventory: the others have nothing installed and no key changed."""
    BARE.write_text(json.dumps(state(NEW)))
    before = keys_and_environments(MEMBERS)
    output = Play("site", *inventory(), "-e", "cluster_verify=false").succeed()
    check(keys_and_environments(MEMBERS) == before, f"{before} became {keys_and_environments(MEMBERS)}")
    check(on(HEAD, f"ssh -o BatchMode=yes {NEW} hostname").strip() == NEW, "the head cannot log in on the new host")
    check(NEW in on(HEAD, "cat ~/.ssh/amx_cluster_config"), "the new host is not in the head's SSH configuration")
    envs = {on(host, f"readlink {PREFIX}/env") for host in CONTAINERS}
    check(len(envs) == 1, f"{envs}")
    return [
        f"{NEW} added: {changed(output)[NEW]} changes on it, {[changed(output)[host] for host in MEMBERS]} elsewhere"
    ]


def tiny() -> list[str]:
    """Make the wheels of the stack tiny, and return the options that install it."""
    wheels = EPHEMERAL / "wheels"
    make_wheel(wheels, "tiny-core", "1.0")
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels), "pip==26.3"]
    subprocess.run(fetch, check=True)
    sources = {
        "cluster_stack": "tiny",
        "torch_stack_wheelhouse": str(EPHEMERAL / "cache/wheelhouse"),
        "torch_stack_index_url": "none",
        "torch_stack_index_urls": [],
        "torch_stack_find_links": [str(wheels)],
    }
    return [*inventory(), "--tags", "always,torch_stack", "-e", json.dumps(sources)]


def environments(hosts: list[str]) -> dict[str, list[str]]:
    return {host: on(host, f"ls {PREFIX}/envs").split() for host in hosts}


def stack_is_upgraded_under_a_running_job() -> list[str]:
    """The job goes on in its own virtual environment, which is removed by the first run after its end."""
    script = str(ROOT / "molecule/shared/jobs/steps.py")
    job = {"name": JOB, "script": script, "kind": "torch", "hosts": MEMBERS, "env": {"UNTIL": "finish"}}
    play = Play("train", *inventory(), "-e", f"job={job_file(job)}")
    check(until(lambda: "step 5 of" in log(JOB) or play.ended()), "it never came under way")
    check(not play.ended(), play.output()[-3000:])
    old = Path(on(HEAD, f"readlink {PREFIX}/env").strip()).name
    options = tiny()
    Play("site", *options).succeed()
    new = {Path(on(host, f"readlink {PREFIX}/env").strip()).name for host in CONTAINERS}
    check(len(new) == 1 and next(iter(new)).startswith("tiny-"), f"in use: {new}")
    kept = environments(list(CONTAINERS))
    check(all(old in names for names in kept.values()), f"{old} is used by a running job: {kept}")

    shown = words(Play("reset", *inventory()).succeed())
    check("A reset would be refused now" in shown and f"job {JOB} runs since" in shown, shown[-3000:])
    before = {host: files(host) for host in CONTAINERS}
    refused = words(Play("reset", *inventory(), "-e", "reset=all,results").fail())
    check(f"job {JOB} runs since" in refused and f"playbooks/stop.yml -e amx_job={JOB}" in refused, refused[-3000:])
    lost = {host: sorted(set(before[host]) - set(files(host))) for host in CONTAINERS}
    check(not any(names for names in lost.values() if [name for name in names if f"/{JOB}/" not in name]), f"{lost}")

    steps = log(JOB).count("step ")
    check(until(lambda: log(JOB).count("step ") > steps + 5 or play.ended()), "the job does not go on")
    for host in MEMBERS:
        on(host, f"touch {directory(JOB)}/finish")
    play.succeed()
    check(status(JOB)["state"] == "succeeded" and len(status(JOB)["attempts"]) == 1, f"{status(JOB)}")
    Play("site", *options).succeed()
    left = environments(list(CONTAINERS))
    check(all([*new] == names for names in left.values()), f"{old} is used by no job any more: {left}")
    return [
        f"{old} was kept on {len(kept)} hosts while a job ran in it, and removed after the job, for {next(iter(new))}"
    ]


def host_is_removed() -> list[str]:
    """Reset one host, then run site.yml without it: it is a bare host, and the others have forgotten it."""
    before = keys_and_environments(MEMBERS)
    address = on(NEW, "hostname -I").split()[0]
    Play("reset", *inventory(), "--limit", NEW, "-e", "reset=all,results").succeed()
    found = differences(NEW, json.loads(BARE.read_text()))
    check(not found, f"{NEW} is no bare host again: {found}")
    named = on(HEAD, "grep -l node2 ~/.ssh/amx_cluster_config ~/.ssh/amx_cluster_known_hosts").split()
    check(len(named) == 2, f"before site.yml: {named}")
    Play("site", "--tags", "always,ssh_mesh,firewall").succeed()
    named = on(HEAD, f"grep -rl -w -e {NEW} -e {address} ~/.ssh /etc/amx-cluster", "root").split()
    named += on(HEAD, f"grep -rl -w -e {NEW} -e {address} ~/.ssh").split()
    check(not named, f"the head still has {NEW} in {named}")
    for host in MEMBERS:
        rules = on(host, "nft list table inet amx_cluster", "root")
        check(rules and address not in rules, f"{host} still accepts {address}: {rules}")
    check(keys_and_environments(MEMBERS) == before, f"{before} became {keys_and_environments(MEMBERS)}")
    return [f"{NEW} is a bare host again, and in no known_hosts, SSH configuration or firewall rule of the others"]


def everything_is_taken_away() -> list[str]:
    """Reset all: results stay until they are named; a second run changes nothing; the hosts are bare again."""
    foreign = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGVudGlyZWx5Zm9yZWlnbmtleWVudGlyZWx5Zm9yZWk me@home"
    on(HEAD, f"echo '{foreign}' >> ~/.ssh/authorized_keys; echo mine > {PREFIX}/notes", fails=False)
    Play("reset", "-e", "reset=all").succeed()
    check(status(JOB).get("state") == "succeeded", "the results of the job are gone")
    check(on(HEAD, f"cat {PREFIX}/notes") == "mine\n", "a file of the user is gone")
    check(foreign in on(HEAD, "cat ~/.ssh/authorized_keys"), "a foreign key is gone")
    on(HEAD, f"rm {PREFIX}/notes; sed -i '/me@home/d' ~/.ssh/authorized_keys", fails=False)
    Play("reset", "-e", "reset=all,results").succeed()
    again = Play("reset", "-e", "reset=all,results").succeed()
    check(not any(changed(again).values()), f"the second run changed something: {changed(again)}")
    bare = json.loads(BARE.read_text())
    found = {host: differences(host, bare) for host in MEMBERS}
    check(not any(found.values()), f"{found}")
    return [f"{', '.join(MEMBERS)} are bare hosts again; a second run changed nothing"]


JOURNEYS = (
    host_is_added,
    stack_is_upgraded_under_a_running_job,
    host_is_removed,
    everything_is_taken_away,
)

if __name__ == "__main__":
    sys.exit(make([[journey] for journey in JOURNEYS]))
