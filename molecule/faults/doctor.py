"""Make faults for real, many at once on different hosts, and compare what the doctor finds with what was made.

Called by verify.yml, see tests/support/cluster.py; the faults are in doctor/rounds.yml.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from support.checkout import ROOT
from support.cluster import CONTAINERS, EPHEMERAL, PREFIX, SCENARIO, Play, addresses, docker, on
from support.journeys import Journey, check, make

ADDRESSES = addresses()


@dataclass(frozen=True)
class Fault:
    """A fault as doctor/rounds.yml describes it."""

    fault: str
    host: str
    check: str
    words: str
    make: str
    undo: str
    found_on: str = ""
    also: tuple[str, ...] = ()

    def run(self, script: str) -> None:
        """Run a shell script as root on the host of the fault. Raises CalledProcessError when it fails."""
        on(self.host, f"set -eu; PREFIX={PREFIX}; NODE1={ADDRESSES['node1']}; {script}", user="root", fails=False)

    def is_found(self, findings: Sequence[dict[str, Any]]) -> bool:
        """Return whether it was found once, where it is, with words that fit and advice."""
        host = self.found_on or self.host
        found = [one for one in findings if one["host"] == host and one["check"] == self.check]
        words = self.words.replace("$PREFIX", PREFIX)
        return len(found) == 1 and words in found[0]["found"] and len(found[0]["advice"]) > 10

    def explains(self, finding: dict[str, Any]) -> bool:
        """Return whether a finding comes from this fault."""
        return finding["check"] in (self.check, *self.also) and finding["host"] in (self.host, self.found_on)


# CPUs of servers: the machine of the containers may have a finding of its own.
CPUS = f"--inventory={SCENARIO / 'doctor/cpus.yml'}"
ROUNDS = [
    [Fault(**fault) for fault in faults]
    for faults in yaml.safe_load((SCENARIO / "doctor/rounds.yml").read_text(encoding="utf-8"))["rounds"]
]


def trust_the_present_keys() -> None:
    """Know hosts by their keys, as an administrator does who has installed one anew; the head does not know them."""
    with (EPHEMERAL / "known_hosts").open("a", encoding="utf-8") as file:
        for host, address in ADDRESSES.items():
            kind, key = on(host, "cat /etc/ssh/ssh_host_ed25519_key.pub").split()[:2]
            file.write(f"{address} {kind} {key}\n")


def bring_captured_cpus() -> None:
    """Copy what was captured of the CPUs of other machines to all hosts."""
    for container in CONTAINERS.values():
        docker("cp", f"{ROOT}/tests/unit/fixtures/proc/.", f"{container}:/opt/captured")


def compare(faults: Sequence[Fault], *options: str) -> list[str]:
    """Run the doctor as a program would, and compare its findings with the faults."""
    play = Play("doctor", CPUS, "-e", "format=json", *options)
    output = play.wait()
    lines = [line for line in output.splitlines() if line.startswith('{"hosts"')]
    check(len(lines) == 1, f"it printed no report:\n{output[-3000:]}")
    report = json.loads(lines[0])
    findings = report["findings"]
    missed = [fault.fault for fault in faults if not fault.is_found(findings)]
    alarms = [one for one in findings if not any(fault.explains(one) for fault in faults)]
    check(not missed, f"not recognised: {missed}; found: {json.dumps(findings, indent=1)}")
    check(not alarms, f"false alarms: {json.dumps(alarms, indent=1)}")
    # A warning alone is no failure.
    failures = [one for one in findings if one["severity"] == "failure"]
    check(bool(failures) == bool(play.process.returncode), f"exit code {play.process.returncode} for {failures}")
    return [f"doctor: {len(faults)} faults made, all recognised, no false alarm; {report['summary']}"]


def a_cluster_without_faults() -> list[str]:
    """Ask the cluster on which jobs were disturbed before: nothing of that is left."""
    bring_captured_cpus()
    found = compare([])
    output = Play("doctor", CPUS).succeed()
    said = "checks on 3 hosts: no failures, no warnings"
    check(said in output, f"the table does not end with {said!r}:\n{output[-2000:]}")
    return found


def round_of(faults: Sequence[Fault], number: int) -> Journey:
    """Return what makes these faults and asks the doctor, with a name."""

    def made() -> list[str]:
        bring_captured_cpus()
        begun = []
        try:
            for fault in faults:
                begun.append(fault)
                fault.run(fault.make)
            trust_the_present_keys()
            asked_otherwise = any(fault.check == "clock" for fault in faults)
            options = [f"--inventory={SCENARIO / 'doctor/inventory.yml'}"] if asked_otherwise else []
            return compare(faults, *options)
        finally:
            for fault in begun:
                fault.run(fault.undo)

    made.__name__ = f"round_{number}_of_faults"
    return made


if __name__ == "__main__":
    rounds = [[round_of(faults, number)] for number, faults in enumerate(ROUNDS, 1)]
    sys.exit(make([[a_cluster_without_faults], *rounds]))
