# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which host may log in where: authorized_keys, pinned host keys, and logins that test them. File formats: sshd(8)."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _ownership

# The types of host keys that Ansible's facts know, best first.
HOST_KEY_TYPES = ("ed25519", "ecdsa", "rsa")
# Stands for a key that a dry run has not generated: an ed25519 public key of zeros.
NO_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
# What a line of authorized_keys allows besides running commands: a terminal, so that a person can log in with it, too.
RESTRICTIONS = "restrict,pty"
_KEY = re.compile(r"(?:^|\s)((?:ssh|ecdsa|sk)-[\w@.-]+)\s+(AAAA[\w+/]+=*)(?:\s+(.*))?$")


def fingerprint(key: str) -> str:
    """Return a public key's fingerprint as `ssh-keygen -l` shows it, SHA256:...; `key` is the key in base64.

    Raises ValueError when it is not base64.
    """
    try:
        blob = base64.b64decode(key, validate=True)
    except binascii.Error:
        raise ValueError(f"{key!r} is not a public key in base64") from None
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def host_keys(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return a host's public keys as {type as in known_hosts: key in base64}, from the facts of Ansible's setup."""
    return {
        facts[f"ssh_host_key_{kind}_public_keytype"]: facts[f"ssh_host_key_{kind}_public"]
        for kind in HOST_KEY_TYPES
        if facts.get(f"ssh_host_key_{kind}_public") and facts.get(f"ssh_host_key_{kind}_public_keytype")
    }


def pinned_keys(known_hosts: str) -> dict[str, dict[str, str]]:
    """Read a known_hosts file with plain names: {name: {key type: key in base64}}; a port is left out of the name."""
    pinned: dict[str, dict[str, str]] = {}
    for line in known_hosts.splitlines():
        words = line.split()
        if len(words) < 3 or words[0].startswith(("#", "@", "|")):
            continue
        for pattern in words[0].split(","):
            name = re.sub(r"^\[(.*)\]:\d+$", r"\1", pattern)
            pinned.setdefault(name, {})[words[1]] = words[2]
    return pinned


def changed_hosts(
    known_hosts: Iterable[str], shown: Mapping[str, Mapping[str, str]], accepted: Iterable[str] = ()
) -> list[dict[str, str]]:
    """Compare the keys pinned by a previous run with those that hosts show now.

    known_hosts: the content of each host's file of pinned keys. shown: {host: as host_keys returns them}. accepted:
    hosts whose change is known to be right.

    Returns {host, pinned, shown} for each host that changed, the keys as "type fingerprint" joined by commas. A host is
    the same when all key types that it had and has are equal, and there is one at least: a type that comes or goes
    changes nothing, all types replaced do.
    """
    known = {host.strip() for host in accepted}
    changed = {}
    for text in known_hosts:
        pinned = pinned_keys(text)
        for host, keys in shown.items():
            before = pinned.get(host)
            if not before or host in known or host in changed:
                continue
            kinds = set(before) & set(keys)
            if not kinds or any(before[kind] != keys[kind] for kind in kinds):
                changed[host] = {"host": host, "pinned": _described(before), "shown": _described(keys)}
    return [changed[host] for host in shown if host in changed]


def refusal(shown: Mapping[str, Mapping[str, str]], changed: Sequence[Mapping[str, str]]) -> str:
    """Return why hosts cannot be trusted, and what to do; empty when they can.

    shown: {host: as host_keys returns them}. changed: as changed_hosts returns it.
    """
    lines = [
        f"- {host} shows no SSH host key in /etc/ssh: check that sshd is installed there, and generate its keys with "
        "ssh-keygen -A."
        for host, keys in shown.items()
        if not keys
    ]
    lines += [
        f"- {key['host']}'s own SSH keys have changed. Pinned by a previous run: {key['pinned']}. Shown now: "
        f"{key['shown']}."
        for key in changed
    ]
    if changed:
        lines.append(
            "Find out why: a new installation changes a host's keys, and so does another machine that answers in its "
            "place. If the change is right, pin the new keys with "
            f"-e ssh_mesh_accept_changed_keys={','.join(key['host'] for key in changed)}"
        )
    return "\n".join(["Nothing was changed.", *lines]) if lines else ""


def _described(keys: Mapping[str, str]) -> str:
    return ", ".join(f"{kind} {fingerprint(key)}" for kind, key in sorted(keys.items())) or "none"


def marked_comment(name: str, host: str) -> str:
    """Return the comment by which the mesh knows its own keys: its name, and the host that holds the private half."""
    return f"{name}@{host}"


def authorized_lines(sources: Iterable[Mapping[str, str]], name: str) -> list[str]:
    """Return the lines of authorized_keys that allow the hosts of the mesh to log in.

    sources: {host, address, public_key} of each host that may log in; an empty public_key stands for one that is not
    generated yet. Each key is accepted in connections from its own host's address only. Hosts that share a home
    directory have one key, which gets one line with the addresses of them all.
    """
    holders: dict[str, list[Mapping[str, str]]] = {}
    for source in sources:
        holders.setdefault(" ".join(source["public_key"].split()[:2]) or source["host"], []).append(source)
    lines = []
    for those in holders.values():
        key = " ".join((those[0]["public_key"] or NO_KEY).split()[:2])
        addresses = ",".join(source["address"] for source in those)
        lines.append(f'{RESTRICTIONS},from="{addresses}" {key} {marked_comment(name, those[0]["host"])}')
    return lines


def stale_keys(
    authorized_keys: str,
    lines: Iterable[str],
    name: str,
    hosts: Iterable[str],
    exclusive: bool,
    kept: Iterable[str] = (),
) -> list[str]:
    """Return the mesh's keys that are no longer in use, as "type key comment".

    authorized_keys: the file's content. lines: what authorized_lines returned. hosts: those of the mesh now. A key
    that carries the mesh's mark and is in none of the lines is stale when its host is in the mesh (the key was
    replaced, or the host no longer logs in elsewhere), and when its host has left the mesh, if `exclusive`. Keys
    without the mark are never touched, nor are `kept`: public keys that stay on their hosts, see key_use.
    """
    current = {match.group(2) for match in map(_KEY.search, [*lines, *kept]) if match}
    here = set(hosts)
    stale = []
    for line in authorized_keys.splitlines():
        match = _KEY.search(line)
        if not match or line.lstrip().startswith("#"):
            continue
        kind, key, comment = match.groups()
        mark, _at, host = (comment or "").strip().partition("@")
        if mark == name and host and key not in current and (exclusive or host in here):
            stale.append(f"{kind} {key} {comment.strip()}")
    return stale


def key_use(
    public_key: str,
    configuration: str,
    host: str,
    name: str,
    mesh: Iterable[str],
    sources: Iterable[str],
    exclusive: bool,
) -> str:
    """Return what the key pair of a host that need not log in elsewhere is for.

    public_key, configuration: the content of its files NAME.pub and NAME_config, "" for none. mesh: names and addresses
    of the mesh's hosts. sources: the public keys of the hosts that do log in elsewhere.

    "none": there is no key. "shared": it is the key of a host that logs in, or of another host in a home directory that
    both use. "other": it may be another mesh's, since the host logs in with it on hosts outside of `mesh`, or since
    meshes of this name share hosts (not `exclusive`). "unused": it is this host's, from when it was head or the mesh
    was full.
    """
    key = _KEY.search(public_key.strip())
    if not key:
        return "none"
    if key.group(2) in {match.group(2) for match in map(_KEY.search, sources) if match}:
        return "shared"
    if (key.group(3) or "").strip() != marked_comment(name, host):
        return "shared"
    known = set(mesh)
    entries = (line.split()[1:] for line in configuration.splitlines() if line.startswith("Host "))
    if not exclusive or any(known.isdisjoint(entry) for entry in entries):
        return "other"
    return "unused"


def files(directory: Path, name: str) -> list[Path]:
    """Return the files of the mesh in a user's .ssh directory that carry its mark.

    A key pair is known by the comment of its public key, see marked_comment, the others by that of the collection.
    """
    pair, public = directory / name, directory / f"{name}.pub"
    others = (directory / f"{name}_config", directory / f"{name}_known_hosts")
    match = None
    with contextlib.suppress(OSError):
        match = _KEY.search(public.read_text(encoding="utf-8", errors="replace").strip())
    own = [pair, public] if match and (match.group(3) or "").partition("@")[0].strip() == name else []
    return [path for path in (*own, *filter(_ownership.is_own, others)) if path.exists()]


def keys(places: Iterable[Path], name: str) -> int:
    """Return how many keys in these files, of which each may be absent, are the mesh's."""
    keys: set[str] = set()
    for place in places:
        with contextlib.suppress(OSError):
            keys.update(stale_keys(place.read_text("utf-8", "replace"), [], name, [], exclusive=True))
    return len(keys)


def sshd_settings(user: str, host: str, address: str) -> dict[str, str]:
    """Return what sshd of this host has set for logins of a user from another host: {keyword in lower case: value}.

    Empty where that cannot be read: there is no sshd, or only root can read its configuration.
    """
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    sshd, keygen = shutil.which("sshd", path=path), shutil.which("ssh-keygen", path=path)
    if not sshd or not keygen:
        return {}
    with tempfile.TemporaryDirectory() as scratch:
        # Without root, the keys of the host cannot be read, and sshd shows nothing without any.
        key = f"{scratch}/key"
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", key], check=False, stdin=subprocess.DEVNULL)
        about = f"user={user},host={host},addr={address}"
        ran = subprocess.run([sshd, "-T", "-h", key, "-C", about], capture_output=True, text=True, check=False)
    pairs = (line.partition(" ") for line in ran.stdout.splitlines() if ran.returncode == 0)
    return {keyword.lower(): value.strip() for keyword, _space, value in pairs}


def authorized_keys_place(settings: Mapping[str, str], user: str, home: str, uid: int) -> Path:
    """Return the file in which sshd looks for the keys of a user, see sshd_settings. Raises ValueError for none.

    The usual one where sshd looks there, else the first one of its user alone: below the home, or with the user in its
    name. What another user's logins depend on as well is not written to.
    """
    usual = Path(home, ".ssh/authorized_keys")
    if settings.get("pubkeyauthentication") == "no":
        raise ValueError(f"sshd accepts no keys from {user} (PubkeyAuthentication no): set it to yes for this user")
    names = settings.get("authorizedkeysfile", "").split()
    if not names:
        return usual
    tokens = {"%h": home, "%u": user, "%U": str(uid), "%%": "%"}
    places = [Path(home, re.sub(r"%[huU%]", lambda match: tokens[match[0]], name)) for name in names]
    own = [
        place
        for name, place in zip(names, places)
        if Path(home) in place.parents or ({"%u", "%U"} & set(re.findall(r"%.", name)))
    ]
    if usual in places:
        return usual
    if own and names != ["none"]:
        return own[0]
    command = settings.get("authorizedkeyscommand", "none")
    asks = f", and asks {command} (AuthorizedKeysCommand)" if command != "none" else ""
    raise ValueError(
        f"sshd reads the keys of {user} from {' '.join(names)} (AuthorizedKeysFile){asks}, which is no file of this "
        "user alone, so that the cluster's key cannot be added: set AuthorizedKeysFile to .ssh/authorized_keys, or to "
        f"a path with %u, for {user} (a Match block in sshd_config does), and reload sshd"
    )


def rotated(hosts: Sequence[str], host: str | None) -> list[str]:
    """Return `hosts` beginning after `host`, so that the hosts of a mesh do not all log in on the same one at once."""
    place = hosts.index(host) + 1 if host in hosts else 0
    return [*hosts[place:], *hosts[:place]]


def log_in(
    host: str,
    timeout: float,
    run: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Log in on a host by ssh as mpirun does, without a terminal and without a prompt. Returns {host, ok, message}.

    sshd drops connections at random when many arrive at once (MaxStartups in sshd_config(5)): those are tried again.
    """
    # A connection that is open already (ControlMaster) would hide what has changed since: -S none makes a new one.
    options = ["-x", "-S", "none", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={max(1, int(timeout))}"]
    command = ["ssh", *options, host, "true"]
    message = ""
    for attempt in range(3):
        if attempt:
            sleep(attempt)
        try:
            done = run(
                command, capture_output=True, text=True, check=False, timeout=3 * timeout, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            return {"host": host, "ok": False, "message": f"no answer within {3 * timeout:g} s"}
        except OSError as error:
            return {"host": host, "ok": False, "message": f"ssh cannot be started: {error.strerror}"}
        message = " ".join(done.stderr.split())
        if done.returncode == 0:
            return {"host": host, "ok": True, "message": ""}
        if "kex_exchange_identification" not in message:
            break
    return {"host": host, "ok": False, "message": message or f"exit code {done.returncode}"}


def log_in_everywhere(hosts: Sequence[str], timeout: float, parallel: int) -> list[dict[str, Any]]:
    """Log in on every host, at most `parallel` at a time. Returns what log_in returns, in the order of `hosts`."""
    with ThreadPoolExecutor(max_workers=max(1, parallel)) as pool:
        return list(pool.map(lambda host: log_in(host, timeout), hosts))
