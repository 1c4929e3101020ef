"""The values of a job's secrets are known to its ranks, and to nobody and nothing else, with each launcher."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import shutil
from pathlib import Path
from typing import Any

from support.cluster import CONTAINERS, EPHEMERAL, HEAD, PREFIX, SCENARIO, Play, directory, job_file, on, train, until
from support.journeys import check

INVENTORY, JOB_FILE = "FROM_INVENTORY", "SOME_API_KEY"
# Where they are searched for: a home has Ansible's temporary files, /var/log the journal with the options of modules.
PLACES = f"{PREFIX}/jobs /tmp /var/tmp /var/log /home"
ENVIRONMENTS = r"""
for process in /proc/[0-9]*; do
    [ -r $process/environ ] && echo "@${process#/proc/}" && tr '\0' '\n' < $process/environ
done 2> /dev/null
"""
COMMANDS = r"for process in /proc/[0-9]*; do tr '\0' ' ' < $process/cmdline; echo; done 2> /dev/null; ps -efww"


def files_with(values: dict[str, str], host: str) -> list[str]:
    """Return the files of a host that have one of the values. The command that searches does not show them."""
    patterns = base64.b64encode("\n".join(values.values()).encode()).decode()
    found = on(host, f"echo {patterns} | base64 -d | grep -rlsF -f - {PLACES}", user="root")
    return sorted(found.splitlines())


def shown_in(text: str, values: dict[str, str]) -> list[str]:
    """Return the names of the values that a text has."""
    return [name for name, value in values.items() if value in text]


def processes_with(values: dict[str, str], host: str) -> set[int]:
    """Return the processes of a host in whose environment one of the values is."""
    found = set()
    for part in on(host, ENVIRONMENTS, user="root").split("\n@"):
        number, _newline, environment = part.removeprefix("@").partition("\n")
        if shown_in(environment, values):
            found.add(int(number))
    return found


def seen(job: str, host: str) -> dict[str, Any]:
    """Return what the rank on a host has written down; empty until it has."""
    text = on(host, f"cat {directory(job)}/seen.json 2>/dev/null")
    content: dict[str, Any] = json.loads(text) if text else {}
    return content


def look_at(job: str, host: str, values: dict[str, str]) -> None:
    """Compare a host, while the job's rank runs on it, with what should be there."""
    here, rank = directory(job), seen(job, host)
    digests = {name: hashlib.sha256(value.encode()).hexdigest() for name, value in values.items()}
    check(rank["digests"] == digests, f"{host}: the rank has other values")
    umask = on(HEAD, f"ssh -o BatchMode=yes {host} umask", fails=False).strip()
    check(rank["umask"] == umask, f"{host}: the script has umask {rank['umask']}, and a login {umask}")
    files = files_with(values, host)
    check(files == [f"{here}/secrets.json"], f"{host}: these files have values: {files}")
    # What the script writes, and the directories of Python's caches, have the modes that its umask gives them.
    wide = on(host, f"find {here} ! -type l -perm /077 ! -name seen.json ! -name __pycache__", user="root")
    check(not wide, f"{host}: open to others: {wide}")
    strange = on(host, f"ls {here}; cat {here}/job.yml {here}/secrets.json", user="nobody")
    check(not strange, f"{host}: another user reads {strange[:300]}")
    commands = shown_in(on(host, COMMANDS, user="root"), values)
    check(not commands, f"{host}: {commands} are on a command line")
    processes = processes_with(values, host)
    check(
        processes == {rank["pid"]}, f"{host}: {processes} have values in their environment, the rank is {rank['pid']}"
    )


def run(launcher: str) -> None:
    """Run a job with secrets, and look for them while it runs and when it has ended."""
    name = f"secret-{launcher}"
    values = {INVENTORY: f"inventory-{secrets.token_hex(12)}", JOB_FILE: f"file-{secrets.token_hex(12)}"}
    variables = EPHEMERAL / f"{name}.variables.json"
    variables.touch(mode=0o600)
    variables.write_text(json.dumps({"job_env": {INVENTORY: values[INVENTORY]}}), encoding="utf-8")
    job = {
        "name": name,
        "script": str(SCENARIO / "jobs/secret.py"),
        "kind": "ranks",
        "launcher": launcher,
        "ranks_per_node": 1,
        "args": {"names": list(values)},
        "env_from": [INVENTORY],
        "env": {JOB_FILE: values[JOB_FILE]},
    }
    path = job_file(job)
    play = train(path, "-vvv", "-e", f"@{variables}")
    there = until(lambda: all(seen(name, host) for host in CONTAINERS) or play.ended())
    check(there and not play.ended(), f"the ranks did not come to their script:\n{play.output()[-3000:]}")
    for host in CONTAINERS:
        look_at(name, host, values)
    for host in CONTAINERS:
        on(host, f"touch {directory(name)}/finish", fails=False)
    output = play.succeed()
    check(not shown_in(output, values), f"ansible-playbook shows {shown_in(output, values)}")
    masked = [line.split() for line in output.splitlines() if "***" in line]
    check([INVENTORY, "***"] in masked and [JOB_FILE, "***"] in masked, f"the plan does not have both: {masked}")
    for host in CONTAINERS:
        files = files_with(values, host)
        check(not files, f"{host}: when the job has ended, these files have values: {files}")

    results = EPHEMERAL / "results"
    shutil.rmtree(results / name, ignore_errors=True)
    plays = [Play("results", "-vvv", "-e", f"job={name}", "-e", f"job_results={results}")]
    plays += [Play(playbook, "-vvv", "-e", f"job={name}") for playbook in ("status", "logs")]
    for one in plays:
        output = one.succeed()
        check(not shown_in(output, values), f"{one.command} shows {shown_in(output, values)}")
    fetched = [file for file in (results / name).rglob("*") if file.is_file()]
    check(results / name / "results.json" in fetched, f"fetched: {fetched}")
    wrong = [str(file) for file in fetched if shown_in(file.read_bytes().decode(errors="replace"), values)]
    check(not wrong, f"fetched with values: {wrong}")
    for file in (path, variables):
        Path(file).unlink()


def secrets_reach_the_ranks_and_nothing_else() -> list[str]:
    """Give a job a secret of the inventory and one in its file, started by each launcher."""
    for launcher in ("mpirun", "torchrun"):
        run(launcher)
    return [f"secrets reached the ranks on {len(CONTAINERS)} hosts with mpirun and torchrun, and nothing else had them"]
