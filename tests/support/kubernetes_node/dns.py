"""A stand-in of the cluster's DNS: dns.py KUBECONFIG ADDRESS. Answers for headless Services.

It knows the ready addresses in Endpoints, as CoreDNS does: NAME.NAMESPACE.svc.cluster.local. Any other name does not
exist.
"""

from __future__ import annotations

import socket
import struct
import sys
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingUDPServer

from support.kubernetes_node.api import Client, RefusedError, path

DOMAIN = "svc.cluster.local"
# Of a question: a name's address; the internet.
A, INTERNET = 1, 1
ANSWERS, NO_SUCH_NAME = 0x8580, 0x8583


def addresses(client: Client, name: str) -> list[str]:
    """Return the addresses of a name. Raises OSError."""
    service, _dot, rest = name.partition(".")
    namespace, _dot, domain = rest.partition(".")
    if domain != DOMAIN:
        return []
    try:
        endpoints = client.call("GET", path("v1", "Endpoints", namespace, service))
    except RefusedError:
        return []
    subsets = endpoints.get("subsets") or []
    return [address["ip"] for subset in subsets for address in subset.get("addresses") or []]


class Handler(BaseRequestHandler):
    """Answers a query of one question."""

    client: Client

    def handle(self) -> None:
        query, server = self.request
        place, labels = 12, []
        while query[place]:
            labels.append(query[place + 1 : place + 1 + query[place]].decode("ascii", "replace"))
            place += query[place] + 1
        kind, _family = struct.unpack("!HH", query[place + 1 : place + 5])
        found = addresses(self.client, ".".join(labels).lower())
        shown = found if kind == A else []
        records = b"".join(
            b"\xc0\x0c" + struct.pack("!HHIH", A, INTERNET, 1, 4) + socket.inet_aton(address) for address in shown
        )
        counts = struct.pack("!HHHHH", ANSWERS if found else NO_SUCH_NAME, 1, len(shown), 0, 0)
        server.sendto(query[:2] + counts + query[12 : place + 5] + records, self.client_address)


def main(kubeconfig: str, address: str) -> None:
    Handler.client = Client(Path(kubeconfig))
    with ThreadingUDPServer((address, 53), Handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
