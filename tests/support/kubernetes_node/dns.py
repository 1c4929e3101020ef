"""A stand-in of the cluster's DNS: dns.py KUBECONFIG ADDRESS. Answers for headless Services, and for their pods' names.

It knows the ready addresses in Endpoints, as CoreDNS does: NAME.NAMESPACE.svc.cluster.local, and HOSTNAME in front of
that where a pod has a hostname. Any other name does not exist.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading
import time
from pathlib import Path

from support.kubernetes_node.api import Client, RefusedError

DOMAIN = "svc.cluster.local"
# Of a question: a name's address; the internet.
A, INTERNET = 1, 1
ANSWERS, NO_SUCH_NAME = 0x8580, 0x8583
SECONDS = 0.5


def names(endpoints: list[dict[str, object]]) -> dict[str, list[str]]:
    """Return the addresses of every name."""
    found: dict[str, list[str]] = {}
    for one in endpoints:
        metadata, subsets = one["metadata"], one.get("subsets") or []
        assert isinstance(metadata, dict) and isinstance(subsets, list)
        service = f"{metadata['name']}.{metadata['namespace']}.{DOMAIN}"
        for subset in subsets:
            for address in subset.get("addresses") or []:
                found.setdefault(service, []).append(address["ip"])
                if address.get("hostname"):
                    found.setdefault(f"{address['hostname']}.{service}", []).append(address["ip"])
    return found


def answer(query: bytes, known: dict[str, list[str]]) -> bytes:
    """Return the answer to a query of one question. Raises IndexError and struct.error for what is none."""
    place, labels = 12, []
    while query[place]:
        labels.append(query[place + 1 : place + 1 + query[place]].decode("ascii", "replace"))
        place += query[place] + 1
    question = query[12 : place + 5]
    kind, _family = struct.unpack("!HH", query[place + 1 : place + 5])
    name = ".".join(labels).lower()
    addresses = known.get(name, [])
    said = ANSWERS if addresses else NO_SUCH_NAME
    shown = addresses if kind == A else []
    records = b"".join(
        b"\xc0\x0c" + struct.pack("!HHIH", A, INTERNET, 1, 4) + socket.inet_aton(address) for address in shown
    )
    return query[:2] + struct.pack("!HHHHH", said, 1, len(shown), 0, 0) + question + records


def main(kubeconfig: str, address: str) -> None:
    client = Client(Path(kubeconfig))
    known: dict[str, list[str]] = {}

    def refresh() -> None:
        nonlocal known
        while True:
            try:
                known = names(client.list("Endpoints"))
            except (OSError, RefusedError) as error:
                print(error, flush=True)
            time.sleep(SECONDS)

    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 53))
    threading.Thread(target=refresh, daemon=True).start()
    print(f"answers at {address}:53", flush=True)
    while True:
        query, sender = server.recvfrom(4096)
        try:
            server.sendto(answer(query, known), sender)
        except (IndexError, struct.error, OSError) as error:
            print(f"{sender}: {error}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
