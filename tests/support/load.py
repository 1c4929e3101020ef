"""A load of requests on a served model, by several connections at once, and how many of each answer there were."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

SECONDS = 120
"""Seconds until an answer is given up."""


class Load:
    """Requests one after the other on each of several connections, until stop() is called.

    outcomes: how many requests ended with each status code, or with which error.
    """

    def __init__(self, addresses: Sequence[str], port: int, rows: Sequence[dict[str, str]], connections: int) -> None:
        self.outcomes: Counter[str] = Counter()
        self.labels: Counter[str] = Counter()
        self.stopped = False
        self.arguments = addresses, port, rows, connections
        self.began = time.monotonic()
        self.thread = threading.Thread(target=lambda: asyncio.run(self.run()), daemon=True)
        self.thread.start()

    def stop(self) -> dict[str, int]:
        """End the load, and return its outcomes."""
        self.stopped = True
        self.thread.join(2 * SECONDS)
        return dict(self.outcomes)

    async def run(self) -> None:
        addresses, port, rows, connections = self.arguments
        clients = [self.ask(addresses[number % len(addresses)], port, rows, number) for number in range(connections)]
        await asyncio.gather(*clients)

    async def ask(self, address: str, port: int, rows: Sequence[dict[str, str]], number: int) -> None:
        while not self.stopped:
            row = rows[number % len(rows)]
            number += 1
            try:
                status, answer = await asyncio.wait_for(post(address, port, row), SECONDS)
                self.outcomes[str(status)] += 1
                if status == 200:
                    self.labels[f"{json.dumps(row)} {answer['predicted_label']}"] += 1
                else:
                    await asyncio.sleep(0.2)
            except (OSError, ValueError, IndexError, asyncio.TimeoutError) as error:
                self.outcomes[type(error).__name__] += 1
                await asyncio.sleep(0.2)


async def post(address: str, port: int, row: dict[str, str]) -> tuple[int, Any]:
    """Return the status code and the document with which a row is answered. Raises OSError and ValueError."""
    reader, writer = await asyncio.open_connection(address, port)
    body = json.dumps(row).encode()
    header = f"POST /predict HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(header.encode() + body)
    try:
        answer = await reader.read()
    finally:
        writer.close()
    head, _blank, data = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(data)
