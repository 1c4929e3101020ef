# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One instance of a served model: it answers HTTP requests on the port that all instances of its host share.

    server.py --request JSON --told FD [--again]

The request is that of run_server.py, which starts this in a rank and is told, through the descriptor, how many rows
were predicted: a line as soon as the model is served, and now and then. Its end is seen at the end of stdin. The
kernel divides new connections among the instances of a host (SO_REUSEPORT, socket(7)).

    GET /            what is served, as JSON
    GET /health      200 once the model is loaded; before, no connection is accepted
    POST /predict    a row {"text": "..."}, or a list of rows -> what is predicted of it, or a list
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import batches
import models
import tasks
import uvicorn
from instance import Instance
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

# Of one request; and rows that wait in an instance.
MOST_BYTES, MOST_ROWS, MOST_WAITING = 8 << 20, 1024, 4096
# Seconds that requests have which are under way when the job is stopped.
GRACE = 5
# Seconds between two looks at how many rows were predicted.
TELL = 1.0


def columns_of(request: Mapping[str, Any]) -> list[str]:
    """Return the columns that the model reads: those requested, of its training, or the task's most usual ones."""
    task = request["cell"]["task"]
    if request["columns"]:
        return list(request["columns"])
    sets = tasks.COLUMNS[task]
    return list(next((one for one in sets if set(one) <= set(request["trained_on"])), sets[-1]))


def bound(address: str, port: int, host: str) -> socket.socket:
    """Return a socket of the address and port that the instances of a host share; ends with advice where it cannot."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # asyncio sets TCP_NODELAY where the protocol is named: else each answer waits 40 ms for an acknowledgement.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        made.bind((address, port))
    except OSError as error:
        sys.exit(
            f"port {port} of {address} cannot be used on {host}: {error.strerror}. Name another one with "
            "-e serve_port=PORT or -e serve_address=ADDRESS"
        )
    return made


def application(waiting: batches.Batches, about: Mapping[str, Any]) -> Starlette:
    """Return what answers requests. about: what is served, for GET /."""

    async def show(_request: Request) -> Response:
        return JSONResponse({**about, "rows": waiting.rows})

    async def health(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def predict(request: Request) -> Response:
        given = await read(request)
        values = given if isinstance(given, list) else [given]
        check(values, about["columns"])
        try:
            predicted = await asyncio.wrap_future(waiting.submit(values))
        except batches.Busy:
            raise HTTPException(
                503, f"{waiting.most} rows wait already: try again", headers={"Retry-After": "1"}
            ) from None
        except batches.Broken as error:
            raise HTTPException(422, str(error)) from None
        return JSONResponse(predicted if isinstance(given, list) else predicted[0])

    async def refuse(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)

    async def fail(_request: Request, error: Exception) -> Response:
        return JSONResponse({"error": f"{type(error).__name__}: {error}"}, 500)

    routes = [
        Route("/", show),
        Route("/health", health),
        Route("/predict", predict, methods=["POST"]),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: refuse, Exception: fail})


async def read(request: Request) -> Any:
    """Return the JSON of a request's body. Raises HTTPException."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise HTTPException(413, f"a request has at most {MOST_BYTES >> 20} MiB: divide the rows among several")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body of the request is not JSON: {error}") from None


def check(values: list[Any], columns: list[str]) -> None:
    """Raise HTTPException for what are not rows; what each row has is checked with the others of its batch."""
    example = json.dumps(dict.fromkeys(columns, "..."))
    if not values:
        raise HTTPException(422, f"there are no rows: send {example}, or a list of such rows")
    if len(values) > MOST_ROWS:
        raise HTTPException(413, f"a request has at most {MOST_ROWS} rows, not {len(values)}: divide them")
    for number, row in enumerate(values):
        if not isinstance(row, dict):
            raise HTTPException(422, f"row {number} is not an object such as {example}")


def serve(
    request: Mapping[str, Any], job: Path, host: str, rank: int, tell: Callable[[int], None], again: bool
) -> None:
    """Load the model and answer requests until this process is asked to end. Raises OSError, ValueError.

    tell: is called with the number of rows that were predicted, first with 0. again: whether the other instances of the
    host have their memory already.
    """
    plan = json.loads((job / "plan.json").read_text(encoding="utf-8"))
    mine = next(entry for entry in plan["hosts"] if entry["host"] == host)
    address, port = request["address"] or mine["address"], request["port"]
    # It is bound now, so that a port in use is an error at once, and accepts connections when the model is there.
    listening = bound(address, port, host)
    columns, cell = columns_of(request), request["cell"]
    instance = Instance({**request, "columns": columns}, 1 if again else len(mine["ranks"]), [])
    about = {
        "model": cell["model"],
        "columns": columns,
        "predicted": list(tasks.PREDICTED[cell["task"]]),
        **{key: cell[key] for key in ("task", "precision", "engine", "batch_size", "sequence_length")},
        "host": host,
        "rank": rank,
        "instances": len(mine["ranks"]),
    }
    waiting = batches.Batches(instance.predict, cell["batch_size"], MOST_WAITING)
    # The first call takes longest: libraries choose their kernels, and torch.compile compiles.
    warm = waiting.submit([dict.fromkeys(columns, "the first row")])
    waiting.close()
    waiting.run()
    warm.result()
    waiting.rows = 0
    settings = uvicorn.Config(
        application(waiting, about),
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=GRACE,
    )
    server = uvicorn.Server(settings)

    def end(*_signal: object) -> None:
        server.should_exit = True

    signal.signal(signal.SIGTERM, end)

    def answer() -> None:
        try:
            server.run(sockets=[listening])
        finally:
            waiting.close()

    # The model keeps the main thread, in which it was loaded.
    thread = threading.Thread(target=answer, name="http", daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.05)
    if not server.started:
        sys.exit(f"no requests are accepted at http://{address}:{port} on {host}")
    tell(0)
    threading.Thread(target=tell_now_and_then, args=(waiting, tell), daemon=True).start()
    waiting.run()
    thread.join(GRACE)


def tell_now_and_then(waiting: batches.Batches, tell: Callable[[int], None]) -> None:
    """Tell how many rows were predicted, whenever there are more."""
    told = 0
    while True:
        time.sleep(TELL)
        if waiting.rows != told:
            told = waiting.rows
            tell(told)


def end_with_rank() -> None:
    """End this process when the one that started it has ended."""
    while os.read(0, 1):
        pass
    os._exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description="serve a model by one instance")
    parser.add_argument("--request", type=json.loads, required=True, help="what is served, as JSON")
    parser.add_argument("--told", type=int, required=True, help="the descriptor that is written to")
    parser.add_argument("--again", action="store_true", help="the other instances of the host have loaded theirs")
    options = parser.parse_args()
    threading.Thread(target=end_with_rank, daemon=True).start()
    told = os.fdopen(options.told, "w", buffering=1)
    job, host, rank = Path(os.environ["AMX_CLUSTER_JOB"]), os.environ["AMX_CLUSTER_HOST"], int(os.environ["RANK"])
    try:
        serve(options.request, job, host, rank, lambda rows: print(rows, file=told), options.again)
    except models.Unavailable as error:
        sys.exit(f"rank {rank} on {host} cannot serve: {error}")


if __name__ == "__main__":
    main()
