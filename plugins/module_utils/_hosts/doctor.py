# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge what the hosts of a cluster said of themselves and of each other: every check of the doctor, and its advice."""

from __future__ import annotations

import ipaddress
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._hosts import inventory
from ansible_collections.amx.cluster.plugins.module_utils._hosts.amx import ISAS

MIB, GIB = 2**20, 2**30
# What Ansible puts before ssh's own words; which of the two depends on the moment at which ssh ended.
WRAPPING = re.compile(
    r"^(Task failed: )?(Data could not be sent to remote host .* over ssh: |Failed to connect to the host via ssh: )?"
)
FAILURE, WARNING = "failure", "warning"


@dataclass(frozen=True)
class Check:
    """Something that is looked at on every host.

    cause: what happens to a job when it is not as it should be. advice: what to do, without a full stop. peers: whether
    it needs what hosts say of each other, which the short form does not ask.
    """

    severity: str
    cause: str
    advice: str
    peers: bool = False


CHECKS: dict[str, Check] = {
    "reachable": Check(
        FAILURE,
        "Ansible cannot log in on the host",
        "Check its ansible_host and ansible_user, and that ssh from this machine to it works without a question",
    ),
    "python": Check(
        FAILURE,
        "Ansible's modules do not run on the host, or ranks of one job would run with different Pythons",
        "It needs Python 3.9 or newer, the same minor version on every host: set ansible_python_interpreter",
    ),
    "user": Check(
        FAILURE,
        "The user's home folder is missing or not the user's, so that keys for ssh cannot be kept there",
        "Give the user a home folder of its own on this host",
    ),
    "sudo": Check(
        FAILURE,
        "Roles need sudo for what a user cannot do",
        "Let the user use sudo without a password, or run with --ask-become-pass, or set cluster_become to false",
    ),
    "architecture": Check(FAILURE, "There are no wheels for it", "The wheels are for x86_64 only"),
    "glibc": Check(
        FAILURE,
        "The wheels do not load",
        "The wheels need glibc 2.28 or newer (Debian 10, Ubuntu 20.04, RHEL 8)",
    ),
    "os": Check(
        WARNING,
        "Hosts with different systems behave differently: libraries, limits, paths",
        "Install the same system on every host, or go on if you know the difference",
    ),
    "cpu_model": Check(
        WARNING,
        "Every step waits for the slowest rank",
        "Use hosts with the same CPU for one job, or give the slower ones less to do",
    ),
    "isa": Check(
        WARNING,
        "One host without AMX or bf16 holds up all the others, and makes precision auto choose fp32",
        "Leave the odd host out, or find out with amx.cluster.amx_info why it has less",
    ),
    "amx": Check(
        FAILURE,
        "The host has not the instruction set that preflight_require asks for",
        "Use hosts that have it, or lower preflight_require",
    ),
    "amx_unused": Check(
        WARNING,
        "The CPU has AMX and programs cannot use it: training is several times slower than it could be",
        "See why under reason of amx.cluster.amx_info",
    ),
    "memory": Check(
        FAILURE,
        "The kernel ends ranks that need more memory than there is (exit code 137, signal 9)",
        "End what uses the memory, or lower preflight_memory_gib if the model is small",
    ),
    "disk": Check(
        FAILURE,
        "Installing, or writing a checkpoint, stops in the middle",
        "Make room there, or set cluster_prefix to a folder on a larger file system",
    ),
    "prefix": Check(
        FAILURE,
        "Nothing can be installed",
        "Set cluster_prefix to a folder of the user's, or cluster_become to true",
    ),
    "shm": Check(
        FAILURE,
        "Bus error, or MPI and data loaders crash at random: a host's ranks share memory there; containers have 64 MiB",
        "Give /dev/shm half of the memory (mount -o remount,size=50% /dev/shm), or start the container with --shm-size",
    ),
    "network": Check(
        FAILURE,
        "Ranks talk over another interface than the others, and the start hangs without end",
        "Name in cluster_network the network over which ranks talk",
    ),
    "clock": Check(
        WARNING,
        "Logs of hosts cannot be compared, and certificates seem not yet valid or expired",
        "Let chrony or systemd-timesyncd set the clock on every host",
        peers=True,
    ),
    "own_name": Check(
        WARNING,
        "Programs that take the host's name for its address listen where no other host reaches them (gloo: Using the "
        "loopback, connectFullMesh failed). Jobs of this collection are told addresses and interfaces instead",
        "Put the host's address on the cluster network beside its name in /etc/hosts, in place of 127.0.1.1",
    ),
    "names": Check(
        WARNING,
        "Programs that connect to other hosts by name fail (unable to run bstrap_proxy, if it is the head's). Jobs of "
        "this collection are told addresses instead",
        "Put every host's name and its address on the cluster network into DNS, or into /etc/hosts of every host",
        peers=True,
    ),
    "login": Check(
        FAILURE,
        "mpirun starts ranks by ssh (unable to run bstrap_proxy, exit code 65280)",
        "Run site.yml, which sets the head's logins up; check that sshd listens on the cluster network",
        peers=True,
    ),
    "host_key": Check(
        FAILURE,
        "The host shows another key than the pinned one: it was installed anew, or another machine answers for it",
        "Find out why. If the host was installed anew, run site.yml, which reads its key over Ansible's own connection",
        peers=True,
    ),
    "connection": Check(
        FAILURE,
        "Ranks cannot reach each other (unable to connect to server, check for firewalls; or the start hangs)",
        "Open all TCP ports between the cluster's addresses: look at nft list ruleset on both, and at security groups",
        peers=True,
    ),
    "stack": Check(
        FAILURE,
        "Ranks of one job run different software, or none",
        "Run site.yml, which installs the same on every host",
        peers=True,
    ),
    "packages": Check(
        FAILURE,
        "Another package replaced a pinned one: undefined symbol, Mismatch in kernel C++ signatures, or other results",
        "Remove the environment's folder on this host and run site.yml, which installs it again",
        peers=True,
    ),
    "provider": Check(
        FAILURE,
        "MPI_Init dies with OFI fi_getinfo() failed, find_provider: No data available",
        "Run site.yml, which installs Intel MPI with its providers; check that the interface is up",
        peers=True,
    ),
    "tcmalloc": Check(
        WARNING,
        "Ranks use the C library's allocator, which is slower with many threads",
        "Install it (libtcmalloc-minimal4 on Debian and Ubuntu, gperftools-libs on RHEL) and run ldconfig",
        peers=True,
    ),
    "system_calls": Check(
        WARNING,
        "A container's seccomp profile forbids what MPI's shared memory and NUMA placement use (process_vm_readv, "
        "set_mempolicy: Operation not permitted)",
        "Start the container with --cap-add=SYS_NICE --cap-add=SYS_PTRACE",
    ),
    "leftovers": Check(
        FAILURE,
        "Ranks of a dead job hold cores, memory and ports, and a new job finds them taken",
        "End them on this host with kill",
    ),
}


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be on one host."""

    host: str
    check: str
    severity: str
    found: str
    advice: str


@dataclass(frozen=True)
class Wanted:
    """What a cluster has to meet. Sizes are in bytes, the clock's in seconds.

    network: the cluster network as a CIDR, or "". require: "amx", "avx512" or "none". become: whether roles may use
    sudo. whole: whether hosts were asked about each other, and what is installed counts. glibc: the oldest that the
    wheels run with (manylinux_2_28 is torch's).
    """

    network: str = ""
    require: str = "none"
    become: bool = True
    whole: bool = False
    install_bytes: int = 6 * GIB
    job_bytes: int = GIB
    memory_bytes: int = 2 * GIB
    shm_bytes: int = GIB
    clock_seconds: float = 1.0
    glibc: tuple[int, int] = field(default=(2, 28))


def examine(answers: Mapping[str, Mapping[str, Any]], wanted: Wanted) -> list[Finding]:
    """Judge what the hosts answered.

    answers: by host, the head first, each with the results of the tasks that asked it: facts, info (host_info), sudo,
    and where `wanted.whole` listener (peer_listener) and peers (peer_info). Those that were not run are {}.

    Returns the findings in the order of the hosts, failures first.
    """
    found = []
    usable = {}
    for host, answer in answers.items():
        silence = list(_silence(answer))
        found += [_finding(host, *row) for row in silence]
        if not silence:
            usable[host] = answer
    infos = {host: answer["info"]["host"] for host, answer in usable.items()}
    for host, info in infos.items():
        found += [_finding(host, *row) for row in _alone(info, usable[host].get("sudo", {}), wanted)]
    found += [_finding(*row) for row in _differences(infos)]
    found += [_finding(*row) for row in _leftovers(infos, next(iter(answers), ""))]
    if wanted.whole:
        found += [_finding(*row) for row in _software(infos, wanted)]
        found += [_finding(*row) for row in _together(usable, wanted)]
    places = list(answers)
    return sorted(
        found, key=lambda one: (places.index(one.host), one.severity != FAILURE, list(CHECKS).index(one.check))
    )


def _finding(host: str, check: str, found: str, advice: str = "") -> Finding:
    known = CHECKS[check]
    return Finding(host, check, known.severity, found, advice or known.advice)


def _message(result: Mapping[str, Any]) -> str:
    text = " ".join(str(result.get("msg") or result.get("module_stderr") or "no reason was given").split())
    return WRAPPING.sub("", text).rstrip(".")


def _silence(answer: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("facts", "info"):
        if answer[name].get("unreachable"):
            yield "reachable", f"cannot be reached: {_message(answer[name])}"
            return
    for name in ("facts", "info"):
        if answer[name].get("failed"):
            yield "python", f"could not be asked: {_message(answer[name])}"
            return


def _alone(info: Mapping[str, Any], sudo: Mapping[str, Any], wanted: Wanted) -> Iterator[tuple[str, ...]]:
    """Judge one host by what it says of itself: (check, what was found[, advice])."""
    if not info["home_writable"]:
        yield "user", "the user cannot write its home folder"
    if wanted.become and sudo.get("failed"):
        yield "sudo", f"sudo does not work: {_message(sudo)}"
    if info["machine"] != "x86_64":
        yield "architecture", f"its architecture is {info['machine']}"
    version = tuple(int(part) for part in info["glibc"].split(".")[:2]) if info["glibc"] else (0, 0)
    if version < wanted.glibc:
        yield "glibc", f"its C library is {'glibc ' + info['glibc'] if info['glibc'] else 'not glibc'}"
    yield from _instructions(info, wanted.require)
    if info["memory_available_bytes"] < wanted.memory_bytes:
        yield (
            "memory",
            f"{_size(info['memory_available_bytes'])} of {_size(info['memory_bytes'])} memory are free and "
            f"{_size(wanted.memory_bytes)} are needed",
        )
    yield from _room(info, wanted)
    if info["shm_bytes"] < wanted.shm_bytes:
        yield "shm", f"/dev/shm has {_size(info['shm_bytes'])} and {_size(wanted.shm_bytes)} are needed"
    try:
        carrier = inventory.cluster_interface(info["addresses"], wanted.network)
    except ValueError as error:
        yield "network", str(error)
    else:
        # A cluster of one machine talks over the loopback interface.
        loopback = [address for address in info["name_addresses"] if ipaddress.ip_address(address).is_loopback]
        if loopback and not ipaddress.ip_address(carrier["address"]).is_loopback:
            yield (
                "own_name",
                f"its own name {info['name']} resolves to {loopback[0]}",
                f"Put {carrier['address']} beside {info['name']} in /etc/hosts, in place of {loopback[0]}",
            )
    if info["denied_calls"]:
        yield (
            "system_calls",
            f"{' and '.join(info['denied_calls'])} {'is' if len(info['denied_calls']) == 1 else 'are'} forbidden",
        )


def _instructions(info: Mapping[str, Any], require: str) -> Iterator[tuple[str, ...]]:
    amx = info["amx"]
    told = amx["found"], amx["advice"]
    usable = amx["reason"] in ("usable", "not_asked")
    if require == "amx" and not usable:
        yield ("amx", *told)
    elif not usable and amx["reason"] not in ("no_amx", "not_x86_64"):
        yield ("amx_unused", *told)
    isas = list(ISAS)
    if require == "avx512" and info["isa"] not in isas[: isas.index("avx512") + 1]:
        yield "amx", f"{info['cpu_model'] or 'the CPU'} has no AVX-512 that torch uses: its best is {info['isa']}"


def _room(info: Mapping[str, Any], wanted: Wanted) -> Iterator[tuple[str, str]]:
    installed = bool(info["stack"])
    needed = wanted.job_bytes if installed else wanted.install_bytes
    where = {info["prefix"]: info["prefix_free_bytes"], f"{info['prefix']}/jobs": info["jobs_free_bytes"]}
    short = [(path, free) for path, free in where.items() if free < needed]
    # Both are on one file system, most of the time.
    for path, free in short[:1]:
        yield "disk", f"{_size(free)} are free for {path} and {_size(needed)} are needed"
    if not info["prefix_writable"] and not wanted.become:
        yield "prefix", f"the user cannot write {info['prefix_ancestor']}, where {info['prefix']} is to be made"


def _size(count: int) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / MIB:.0f} MiB"


def _most_common(values: Sequence[str]) -> str:
    """Return the value that most hosts have; the first host's where it is a draw."""
    return max(values, key=lambda value: (values.count(value), -values.index(value)))


def _differences(infos: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Name the hosts that differ from most of the others: (host, check, what was found)."""
    looked_at = {
        "python": ("Python", lambda info: ".".join(info["python"].split(".")[:2])),
        "os": ("the system", lambda info: info["os"]),
        "cpu_model": ("the CPU", lambda info: info["cpu_model"]),
        "isa": ("the best instruction set", lambda info: info["isa"]),
    }
    for check, (what, read) in looked_at.items():
        values = {host: read(info) for host, info in infos.items()}
        if len(set(values.values())) > 1:
            usual = _most_common(list(values.values()))
            others = ", ".join(host for host, value in values.items() if value == usual)
            for host, value in values.items():
                if value != usual:
                    yield host, check, f"{what} is {value or 'not known'}, and {usual or 'not known'} on {others}"


def _leftovers(infos: Mapping[str, Mapping[str, Any]], head: str) -> Iterator[tuple[str, str, str, str]]:
    if head not in infos:
        return  # whether a job is running is known on its head only
    running = set(infos[head]["running_jobs"])
    for host, info in infos.items():
        for job in sorted({process["job"] for process in info["processes"]} - running):
            mine = [process for process in info["processes"] if process["job"] == job]
            pids = " ".join(str(process["pid"]) for process in mine)
            ports = sorted({port for process in mine for port in process["ports"]})
            held = f", and hold the port(s) {', '.join(map(str, ports))}" if ports else ""
            said = f"{len(mine)} process(es) of the job in {job}, which is not running, are left: {pids}{held}"
            yield host, "leftovers", said, f"End them on this host: kill {pids}"


def _software(infos: Mapping[str, Mapping[str, Any]], wanted: Wanted) -> Iterator[tuple[str, str, str]]:
    """Compare what is installed with what was pinned, and hosts with each other: (host, check, what was found)."""
    stacks = {host: info["stack"] for host, info in infos.items() if info["stack"]}
    for host, info in infos.items():
        if not info["stack"]:
            yield host, "stack", f"no environment is installed at {info['prefix']}/env"
        if not info["tcmalloc"]:
            yield host, "tcmalloc", "the loader's cache has no libtcmalloc"
    usual = _most_common([stack["env"] for stack in stacks.values()]) if stacks else ""
    same = {host: stack for host, stack in stacks.items() if stack["env"] == usual}
    for host, stack in stacks.items():
        if stack["env"] != usual:
            yield host, "stack", f"it uses {stack['env']}, and {', '.join(same)} {usual}"
    packages = sorted({name for stack in same.values() for name in (*stack["versions"], *stack["pinned"])})
    for name in packages:
        values = [stack["versions"].get(name, "") for stack in same.values()]
        pinned = next((stack["pinned"][name] for stack in same.values() if name in stack["pinned"]), "")
        right = pinned or _most_common(values)
        for host, stack in same.items():
            version = stack["versions"].get(name, "")
            if version != right:
                is_now = f"{name} is {version}" if version else f"{name} is not installed"
                yield host, "packages", f"{is_now}, and should be {right or 'absent, as on the other hosts'}"
    for host, stack in stacks.items():
        yield from ((host, "provider", said) for said in _provider(infos[host], stack, wanted.network))


def _provider(info: Mapping[str, Any], stack: Mapping[str, Any], network: str) -> Iterator[str]:
    if stack["provider_error"]:
        yield f"libfabric has no provider tcp: {stack['provider_error']}"
        return
    try:
        interface = inventory.cluster_interface(info["addresses"], network)["interface"]
    except ValueError:
        return  # told already
    if interface != "lo" and f"tcp of {interface}" not in stack["providers"]:
        listed = ", ".join(stack["providers"])
        yield f"libfabric has no provider tcp of {interface}, which carries the cluster network, but {listed}"


def _together(usable: Mapping[str, Mapping[str, Any]], wanted: Wanted) -> Iterator[tuple[str, str, str]]:
    """Judge hosts by what they said of each other: (host, check, what was found)."""
    for host, answer in usable.items():
        problem = next((answer[name] for name in ("listener", "peers") if answer[name].get("failed")), None)
        if problem:
            yield host, "connection", f"could not try its connections: {_message(problem)}"
    seen = {host: answer["peers"] for host, answer in usable.items() if "connections" in answer["peers"]}
    for host, peers in seen.items():
        unknown = sorted(name for name, addresses in peers["names"].items() if not addresses)
        if unknown:
            yield host, "names", f"it does not resolve {', '.join(unknown)}"
        refused: dict[str, list[str]] = {}
        for name, connection in peers["connections"].items():
            if connection["error"]:
                refused.setdefault(connection["error"], []).append(name)
        for error, names in refused.items():
            yield host, "connection", f"it cannot connect to {', '.join(names)} on a port that listens there: {error}"
    for peers in seen.values():
        for name, said in peers["logins"].items():
            # Of a host that Ansible does not reach it is told already that it does not answer.
            if said and name in usable:
                yield name, *_login(said)
    yield from _clocks(seen, wanted.clock_seconds)


def _login(said: str) -> tuple[str, str]:
    text = " ".join(re.sub("@{3,}", "", said).split())
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in said:
        shown = re.search(r"(SHA256:[\w+/]+)", said)
        return "host_key", f"its host key is not the one pinned on the head{': it shows ' + shown[1] if shown else ''}"
    if "host key is known" in said or "Host key verification failed" in said:
        return "login", "the head has no key pinned for it"
    return "login", f"the head cannot log in: {text[-200:]}"


def _clocks(seen: Mapping[str, Mapping[str, Any]], allowed: float) -> Iterator[tuple[str, str, str]]:
    """Compare the clocks by what the first host read of the others': (host, check, what was found)."""
    for watcher, peers in seen.items():
        read = {name: one for name, one in peers["connections"].items() if not one["error"]}
        if not read:
            continue
        # The middle of all clocks, the watcher's own (0) among them, is right: one that is off must not blame the rest.
        offsets = sorted([0.0, *(one["offset"] for one in read.values())])
        middle = offsets[len(offsets) // 2] if len(offsets) > 2 else 0.0
        clocks = {watcher: {"offset": 0.0, "uncertainty": 0.0}, **read}
        for name, one in clocks.items():
            off = one["offset"] - middle
            if abs(off) - one["uncertainty"] > allowed:
                word = "ahead of" if off > 0 else "behind"
                error = f" (± {one['uncertainty']:.3f} s)" if one["uncertainty"] else ""
                yield name, "clock", f"its clock is {abs(off):.1f} s {word} the others'{error}"
        return


def summary(findings: Sequence[Finding], hosts: int, whole: bool) -> str:
    """Say in a line how the cluster stands."""
    counts = Counter(finding.severity for finding in findings)
    made = sum(1 for check in CHECKS.values() if whole or not check.peers)
    return (
        f"{made} checks on {hosts} host(s): {counts[FAILURE] or 'no'} failure(s), {counts[WARNING] or 'no'} warning(s)"
    )


def table(findings: Sequence[Finding], width: int = 160) -> str:
    """Put findings into a table for a person to read: host, check, what was found, what to do."""
    if not findings:
        return ""
    titles = ("host", "check", "what was found", "what to do")
    rows = [
        (one.host, ("" if one.severity == FAILURE else "(warning) ") + one.check, one.found, one.advice)
        for one in findings
    ]
    first = [max(len(row[column]) for row in [titles, *rows]) for column in (0, 1)]
    rest = max(60, width - sum(first) - 6)
    widths = [*first, rest // 2, rest - rest // 2]
    lines = []
    for row in [titles, tuple("-" * size for size in widths), *rows]:
        cells = [
            textwrap.wrap(cell, size, break_long_words=False, break_on_hyphens=False) or [""]
            for cell, size in zip(row, widths)
        ]
        for number in range(max(len(cell) for cell in cells)):
            parts = [(cell[number] if number < len(cell) else "").ljust(size) for cell, size in zip(cells, widths)]
            lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def markdown() -> str:
    """Return the table of all checks as docs/doctor.md has it."""
    rows = ["| check | severity | what happens otherwise | what to do |", "|---|---|---|---|"]
    rows += [
        f"| `{name}`{' *' if check.peers else ''} | {check.severity} | {check.cause} | {check.advice} |"
        for name, check in CHECKS.items()
    ]
    return "\n".join(rows) + "\n"
