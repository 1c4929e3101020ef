# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HAProxy in front of a server's instances: one on each host, which divides requests among the instances of all hosts.

A request goes to an instance of this host, over a Unix socket that no other user can open, or to the HAProxy of another
host, which passes it only to instances of its own. Facts: the Configuration Manual of HAProxy 2.2 and later, and runs
of HAProxy 2.6.12.
"""

from __future__ import annotations

import functools
import hashlib
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import DRAIN, IDLE, RECEIVE

LEAST = (2, 2)
"""The first version of HAProxy with `http-error` and `retry-on` as they are used here."""
PATHS = ("/", "/health", "/predict", "/rerank", "/v2/rerank")
BEGINNINGS = ("/v1/", "/metrics/")
"""What is passed to instances; OpenAI's interface begins with /v1/. /metrics/N is that of this host's instance N."""
METRICS = "/metrics"
HEALTH = "/health"
KEY_BYTES = 16
"""Characters that a key has at least."""
CONNECTIONS = 1000
"""Connections of a host's address at a time; further ones wait in the kernel."""
RETRIES = 3
"""How often a request is sent again whose instance ended before it answered."""
MOST_BYTES = 64 << 20
"""Bytes of a request at most; engines may refuse fewer. vLLM takes four times as much memory as a request has."""
BUFFER = 64 << 10
"""Bytes of a request that are kept, so that it can be sent again to another instance."""
WHOLE = 32 << 10
"""Bytes that a request may have which does not say how many it has."""
HEADERS = 16 << 10
"""Bytes of a request's headers at most: with WHOLE, they are less than BUFFER."""


@dataclass(frozen=True)
class Peer:
    """Another host of the server. instances: how many it has."""

    host: str
    address: str
    instances: int


@dataclass(frozen=True)
class Front:
    """Tasks of the HAProxy of a host.

    address, port: where it accepts requests; the HAProxys of other hosts ask it at own_address, at port + 1. sockets:
    of this host's instances, in their order. keys: hashes as hashed() returns them; none: no key is asked for.
    certificate: the PEM file of TLS; empty for none. request: seconds until a request is given up.
    """

    directory: str
    address: str
    port: int
    own_address: str
    sockets: Sequence[str]
    peers: Sequence[Peer] = ()
    keys: Sequence[str] = ()
    certificate: str = ""
    request: float = 300.0


def hashed(key: str) -> str:
    """Return the hash of a key by which HAProxy knows it. Raises ValueError for one that could be guessed."""
    if not re.fullmatch(rf"[!-~]{{{KEY_BYTES},}}", key):
        raise ValueError(
            f"a key has at least {KEY_BYTES} characters of ASCII without blanks: `openssl rand -hex 24` makes one"
        )
    return hashlib.sha256(f"Bearer {key}".encode()).hexdigest().upper()


def keys_in(text: str) -> list[str]:
    """Return the keys in a file: one on a line, empty lines and comments (#) aside."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def read_keys(text: str) -> list[str]:
    """Return the hashes of the keys in a file, as keys_in reads it. Raises ValueError."""
    keys = [hashed(key) for key in keys_in(text)]
    if not keys:
        raise ValueError("there is no key in it: write one on a line of its own")
    return keys


@functools.lru_cache(maxsize=1)
def program() -> str:
    """Return the path of HAProxy on this host; empty where it is missing or too old."""
    path = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")
    if not path:
        return ""
    shown = subprocess.run([path, "-v"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"version (\d+)\.(\d+)", shown)
    return path if version and tuple(map(int, version.groups())) >= LEAST else ""


def render(front: Front) -> str:
    """Return the configuration of HAProxy."""
    tls = f" ssl crt {front.certificate} alpn http/1.1" if front.certificate else ""
    local = [
        f"    server instance{n} unix@{path} check observe layer4 error-limit 3 on-error mark-down"
        for n, path in enumerate(front.sockets)
    ]
    # What a host was asked that is gone is given up once that is noticed, not when the time limit is over.
    peers = [
        f"    server {peer.host} {_at(peer.address, front.port + 1)} check weight {min(peer.instances, 256)}"
        " on-marked-down shutdown-sessions"
        for peer in front.peers
        if peer.instances
    ]
    # Of Prometheus: an instance is asked by its own path, since each request would reach another one.
    instances = [
        line
        for n in range(len(front.sockets))
        for line in (
            f"backend instance{n}",
            "    http-request set-path /metrics",
            f"    server instance{n} unix@{front.sockets[n]}",
        )
    ]
    rules = _rules(front)
    lines = [
        "global",
        f"    maxconn {2 * CONNECTIONS + 100}",
        "    noreuseport",
        f"    tune.bufsize {BUFFER}",
        f"    hard-stop-after {DRAIN}s",
        f"    stats socket {front.directory}/haproxy.sock mode 600 level admin",
        "defaults",
        "    mode http",
        "    timeout connect 2s",
        f"    timeout client {IDLE}s",
        f"    timeout http-request {RECEIVE}s",
        f"    timeout http-keep-alive {IDLE}s",
        f"    timeout server {front.request + 5:g}s",
        f"    timeout queue {front.request:g}s",
        # An instance that ends closes its connections: none is used for a second request.
        "    option http-server-close",
        # Requests change nothing: one that an instance has not begun to answer is sent to another one.
        # Therefore it is complete, up to BUFFER, before an instance gets it.
        "    option http-buffer-request",
        # One that ends instances is not sent to all of them.
        f"    retries {RETRIES}",
        "    option redispatch 1",
        # 502 and 503 are another host's: its instance has just ended, or none answers there.
        "    retry-on conn-failure empty-response 502 503",
        # A client that has gone: the instance gives its request up.
        "    option abortonclose",
        "    balance leastconn",
        f"    option httpchk GET {HEALTH}",
        # An instance on busy cores answers late, and is not down for that.
        "    timeout check 10s",
        "    default-server inter 2s fastinter 1s downinter 500ms fall 3 rise 1",
        *_errors(),
        # The server of this host asks whether this process answers. No client can have all connections of this socket.
        "frontend own",
        f"    bind unix@{own_socket(front.directory)} mode 600",
        f"    monitor-uri {HEALTH}",
        "frontend requests",
        f"    bind {_at(front.address, front.port)}{tls}",
        f"    maxconn {CONNECTIONS}",
        *rules,
        "    default_backend all",
        "frontend peers",
        f"    bind {_at(front.own_address, front.port + 1)}",
        f"    maxconn {CONNECTIONS}",
        f"    monitor-uri {HEALTH}",
        "    monitor fail if { nbsrv(local) lt 1 }",
        # The host that asks tries others.
        "    http-request disable-l7-retry",
        *rules,
        "    default_backend local",
        "backend all",
        *local,
        *peers,
        "backend local",
        *local,
        *instances,
    ]
    return "\n".join(lines) + "\n"


def own_socket(directory: str) -> str:
    """Return the path of the socket on which HAProxy answers the server of its host."""
    return f"{directory}/front"


def _at(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _rules(front: Front) -> list[str]:
    """Return which requests pass: those of the interface, with a key where keys are set."""
    key = [
        # A line has at most 64 words. req.hdr would divide a header at its commas.
        *(f"    acl key req.fhdr(authorization),sha2(256),hex -m str {hash}" for hash in front.keys),
        _refused(
            401,
            "this server needs a key: send Authorization: Bearer KEY",
            "invalid_api_key",
            f"!key !{{ path {HEALTH} }}",
            " hdr WWW-Authenticate Bearer",
        ),
    ]
    return [
        f"    acl known path {' '.join(PATHS)} {METRICS}",
        f"    acl known path_beg {' '.join(BEGINNINGS)}",
        _refused(404, "no such path: GET / or (vLLM) /v1/models lists what is served", "not_found", "!known"),
        *(key if front.keys else []),
        _refused(
            413, f"a request has at most {MOST_BYTES >> 20} MiB", "too_large", f"{{ req.body_size gt {MOST_BYTES} }}"
        ),
        # The length of a request that does not name it is known where all of it is in the buffer, with its headers.
        _refused(
            431,
            f"a request has at most {HEADERS >> 10} KiB of headers",
            "too_large",
            f"{{ req.hdrs,length gt {HEADERS} }}",
        ),
        _refused(
            411,
            f"a request of more than {WHOLE >> 10} KiB needs a Content-Length",
            "length_required",
            f"!{{ req.fhdr(content-length) -m found }} {{ req.body_len gt {WHOLE} }}",
        ),
        f"    http-request use-service prometheus-exporter if {{ path {METRICS} }}",
        *(f"    use_backend instance{n} if {{ path {METRICS}/{n} }}" for n in range(len(front.sockets))),
    ]


def _refused(status: int, message: str, code: str, condition: str, header: str = "") -> str:
    """Return the rule that answers with an error where a condition holds."""
    answer = f"status {status} content-type application/json string '{_error(message, code)}'{header}"
    return f"    http-request return {answer} if {condition}"


def _error(message: str, code: str) -> str:
    """Return an error as all paths have it: `error.message`, as OpenAI's clients read it."""
    return f'{{"error": {{"message": "{message}", "type": "invalid_request_error", "code": "{code}"}}}}'


def _errors() -> list[str]:
    """Return the answers of HAProxy itself."""
    busy = "no instance can answer now: try again"
    texts = {
        400: "this is no HTTP request",
        408: f"the request did not arrive within {RECEIVE} s",
        502: "the instance ended while it answered: send the request again",
        503: busy,
        504: "there is no answer within the time limit",
    }
    return [
        f"    http-error status {status} content-type application/json string"
        f" '{_error(text, 'unavailable' if status > 500 else 'bad_request')}'"
        + (" hdr Retry-After 1" if status > 500 else "")
        for status, text in texts.items()
    ]


def peers(hosts: Sequence[Mapping[str, object]], here: str) -> list[Peer]:
    """Return the other hosts of a server. hosts: of its plan.json."""
    return [
        Peer(str(host["host"]), str(host["address"]), len(host["ranks"]))  # type: ignore[arg-type]
        for host in hosts
        if host["host"] != here
    ]
