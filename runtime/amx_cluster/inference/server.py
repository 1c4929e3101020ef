# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One instance of a served model: it answers HTTP requests on a Unix socket, to which HAProxy passes them.

    python -m amx_cluster.inference.server --socket PATH [--address ADDRESS --port PORT] [--again]

The server of its host starts it (_jobs/servers/host_server.py). Without HAProxy, it also accepts requests on an address
and port that all instances of its host share: the kernel divides new connections among them (SO_REUSEPORT, socket(7)).

    GET /            what is served, as JSON
    GET /health      200 once the model is loaded (before, no connection is accepted), 503 while rows wait for long
    /v1/..., /rerank OpenAI's interface (openai_api.py, openai_rows.py)
    GET /metrics     for Prometheus (metrics.py)
    POST /predict    a row {"text": "..."}, or a list of rows -> what is predicted of it, or a list
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import h11
import uvicorn
from amx_cluster.inference import batches, loaded, metrics, openai_api, openai_rows
from amx_cluster.inference.instance import Instance, problem_of
from ansible_collections.amx.cluster.plugins.module_utils._data import rows
from ansible_collections.amx.cluster.plugins.module_utils._jobs import inference_requests, known_models
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import DRAIN, IDLE, LIMITS, RECEIVE
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

# Of one request; rows that wait in an instance; entries of the model that the rows of a request may be.
MOST_BYTES, MOST_ROWS, MOST_WAITING, MOST_ENTRIES = 8 << 20, 1024, 4096, 1024
# Characters of a request for tasks that encode all of a text, however long it is.
MOST_TEXT = 1 << 20
WHOLE_TEXTS = ("question-answering", "text-generation")
# Bytes of requests that are being received, and of rows that wait.
MOST_HELD = 64 << 20
# Connections of an instance; descriptors that are left for all else.
CONNECTIONS, DESCRIPTORS = 1000, 128
# Connections that asyncio accepts at a time, fewer than descriptors are left; and those that wait for that.
ACCEPTED, BACKLOG = 16, 1024
# Seconds that connections have which are closed, and the thread of HTTP at the end.
GRACE = 5
# Exit code of an instance whose model hangs.
HUNG = 75
# Limits are so many times the seconds of the slowest call of the model, where that is more, unless they were set.
SLOWER = {"health": 5, "hung": 20}
# Seconds between two looks at how long the model computes.
LOOK = 1.0


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


def of_path(path: str) -> socket.socket:
    """Return a Unix socket that no other user can connect to."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        made.bind(path)
    finally:
        os.umask(before)
    return made


class Protocol(H11Protocol):
    """uvicorn's protocol, with a time limit for the head of a request, and connections that are limited in number."""

    most = CONNECTIONS
    head: asyncio.TimerHandle | None = None
    crowded = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Close the connection that is idle for longest where there are too many, or refuse this one."""
        super().connection_made(transport)
        self.used = self.loop.time()
        self.head = self.loop.call_later(RECEIVE, self.end_slow)
        open_ones = [connection for connection in self.connections if not connection.transport.is_closing()]
        if len(open_ones) > self.most:
            idle = [connection for connection in open_ones if connection is not self and connection.is_idle()]
            self.crowded = not idle
            if idle:
                min(idle, key=lambda connection: connection.used).transport.abort()
            elif len(open_ones) > self.most + DESCRIPTORS // 2:
                transport.abort()

    def is_idle(self) -> bool:
        """Return whether no request is under way."""
        return self.cycle is None or self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Limit the time in which the head of a request comes."""
        self.used = self.loop.time()
        if self.crowded:
            self.refuse(
                "503 Service Unavailable", f"there are {self.most} connections: try again", "retry-after: 1\r\n"
            )
            return
        if self.head is None:
            self.head = self.loop.call_later(RECEIVE, self.end_slow)
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self.end_head()

    def end_head(self) -> None:
        """End the time limit of the head."""
        if self.head is not None:
            self.head.cancel()
            self.head = None

    def end_slow(self) -> None:
        """Close a connection on which no head of a request has come."""
        self.head = None
        if self.is_idle():
            self.refuse("408 Request Timeout", f"the head of the request did not come within {RECEIVE} s")

    def refuse(self, status: str, error: str, headers: str = "") -> None:
        """Answer what is no request yet, and close the connection."""
        if not self.transport.is_closing():
            body = json.dumps({"error": error})
            headers += f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            self.transport.write(f"HTTP/1.1 {status}\r\n{headers}{body}".encode())
            self.transport.close()
            self.loop.call_later(GRACE, self.transport.abort)

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection, also one whose client reads no answer."""
        super().timeout_keep_alive_handler()
        self.loop.call_later(GRACE, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self.end_head()
        super().connection_lost(exc)


def settings(app: Any) -> uvicorn.Config:
    """Return uvicorn's settings, and have so many connections that descriptors are left."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < CONNECTIONS + DESCRIPTORS <= hard or hard == resource.RLIM_INFINITY:
        soft = CONNECTIONS + DESCRIPTORS
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    Protocol.most = max(16, min(CONNECTIONS, soft - DESCRIPTORS))
    return uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        backlog=ACCEPTED,
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=DRAIN,
    )


def limit(name: str, limits: Mapping[str, float], slowest: float) -> float:
    """Return the seconds of a limit: the one that was set, or one that fits to the slowest call of the model."""
    return limits[name] if name in limits else max(LIMITS[name], SLOWER.get(name, 0) * slowest)


def application(
    waiting: batches.Batches,
    about: Mapping[str, Any],
    limits: Mapping[str, float] = MappingProxyType({}),
    openai: openai_api.Interface | None = None,
) -> Starlette:
    """Return what answers requests. about: what is served, for GET /. limits: of LIMITS, those that were set."""
    held = 0  # bytes of bodies that are being received
    again = {"Retry-After": "1"}

    async def show(_request: Request) -> Response:
        return JSONResponse({**about, "rows": waiting.rows})

    async def health(_request: Request) -> Response:
        seconds = waiting.waited()
        if seconds > limit("health", limits, waiting.slowest):
            return PlainTextResponse(f"the oldest row waits for {seconds:.0f} s\n", 503, again)
        return PlainTextResponse("ok\n")

    async def read(request: Request) -> Any:
        """Return the JSON of a request's body. Raises HTTPException."""
        nonlocal held
        body = bytearray()
        refusal: HTTPException | None = None

        async def receive() -> None:
            nonlocal held, refusal
            async for part in request.stream():
                if refusal:  # the rest is read all the same: a client reads no answer while it sends
                    continue
                body.extend(part)
                held += len(part)
                if len(body) > MOST_BYTES:
                    text = f"a request has at most {MOST_BYTES >> 20} MiB: divide the rows among several"
                    refusal = HTTPException(413, text)
                elif held > MOST_HELD and held > len(body):
                    refusal = HTTPException(429, "other requests are being received: try again", headers=again)
                if refusal:
                    held -= len(body)
                    body.clear()

        try:
            await asyncio.wait_for(receive(), RECEIVE)
            if refusal:
                raise refusal
            return rows.parse_json(bytes(body).removeprefix(rows.MARK))  # as in files
        except ClientDisconnect:
            raise HTTPException(400, "the connection ended before the body of the request") from None
        except asyncio.TimeoutError:
            text = f"the body of the request did not come within {RECEIVE} s"
            raise HTTPException(408, text, headers={"Connection": "close"}) from None
        except rows.DataError as error:
            raise HTTPException(400, f"the body of the request {error}") from None
        finally:
            held -= len(body)

    async def ask(request: Request, values: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return what is predicted of rows. Raises HTTPException."""
        try:
            answer = asyncio.wrap_future(waiting.submit(values))
        except batches.Busy:
            raise HTTPException(
                429, "so many rows wait already that no more are taken: try again", headers=again
            ) from None
        gone = asyncio.ensure_future(request.receive())  # after the body, the end of the connection
        seconds = limit("request", limits, 0)
        done, _pending = await asyncio.wait({answer, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        has_gone = gone in done
        gone.cancel()
        if answer not in done:
            answer.cancel()  # the model goes on with others
            if has_gone:
                raise HTTPException(499, "the client has gone")  # which nobody reads, but /metrics counts
            raise HTTPException(
                504, f"there is no answer within {seconds:g} s: send fewer rows, or try again", headers=again
            )
        try:
            return answer.result()
        except batches.Broken as error:
            raise HTTPException(422, str(error)) from None
        except batches.TooMuch as error:
            raise HTTPException(
                413,
                f"the texts are {error} chunks of what the model reads at once, and a request has at most "
                f"{waiting.most_entries}: divide or shorten them",
            ) from None

    async def predict(request: Request) -> Response:
        given = await read(request)
        values = check(given if isinstance(given, list) else [given], about["columns"], about["task"])
        predicted = await ask(request, values)
        return await openai_rows.as_json(predicted if isinstance(given, list) else predicted[0])

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        openais = request.url.path.startswith((openai_api.PATHS, openai_rows.RERANK))
        body = openai_api.error_body(error) if openais else {"error": error.detail}
        return JSONResponse(body, error.status_code, headers=error.headers)

    async def fail(request: Request, error: Exception) -> Response:
        return await refuse(request, HTTPException(500, f"{type(error).__name__}: {error}"))

    routes = [
        Route("/", show),
        Route("/health", health),
        Route("/predict", predict, methods=["POST"]),
    ]
    if openai is not None:
        if about["task"] in known_models.OF_SENTENCES:
            routes += openai_rows.Rows(openai, read, ask, MOST_ROWS).routes()
        routes += openai.routes(read, limit("request", limits, 0))
    numbers = metrics.Metrics(waiting, openai)
    routes.insert(0, Route("/metrics", numbers.show))
    app = Starlette(routes=routes, exception_handlers={HTTPException: refuse, Exception: fail})
    app.add_middleware(numbers.around, routes=routes)
    return app


def check(values: list[Any], columns: list[str], task: str) -> list[dict[str, str]]:
    """Return the columns of rows that the model reads. Raises HTTPException for what are not rows, or lack one."""
    example = json.dumps(dict.fromkeys(columns, "..."))
    if not values:
        raise HTTPException(422, f"there are no rows: send {example}, or a list of such rows")
    if len(values) > MOST_ROWS:
        raise HTTPException(413, f"a request has at most {MOST_ROWS} rows, not {len(values)}: divide them")
    for number, row in enumerate(values):
        if not isinstance(row, dict):
            raise HTTPException(422, f"row {number} is not an object such as {example}")
    if task in WHOLE_TEXTS:
        texts = [row[name] for row in values for name in columns if name in row]
        size = sum(len(text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)) for text in texts)
        if size > MOST_TEXT:
            raise HTTPException(413, f"a request has at most {MOST_TEXT} characters, not {size}: divide or shorten it")
    problems = {number: problem_of(rows.Record(number, row), columns, task) for number, row in enumerate(values)}
    if any(problems.values()):
        broken = batches.Broken({number: problem for number, problem in problems.items() if problem})
        raise HTTPException(422, str(broken))
    return [{column: row[column] for column in columns} for row in values]


def serve(
    request: inference_requests.Serving,
    job_directory: Path,
    host: str,
    rank: int,
    path: str,
    address: tuple[str, int] | None,
    again: bool,
) -> None:
    """Load the model and answer requests until this process is asked to end. Raises OSError, ValueError.

    path: of the Unix socket. address: the address and port besides that; None for neither. again: whether the other
    instances of the host have their memory already.
    """
    plan = json.loads((job_directory / "plan.json").read_text(encoding="utf-8"))
    mine = next(entry for entry in plan["hosts"] if entry["host"] == host)
    # They are bound now, so that a port in use is an error at once, and accept connections when the model is there.
    listening = [*([bound(*address, host)] if address else []), of_path(path)]
    cell, limits = request.cell, request.limits
    columns = known_models.read_columns(cell["task"], request.columns, request.trained_on)
    loading = 1 if again else len(mine["ranks"])  # that share the memory which is free now
    instance = Instance(cell, columns, loading, [])
    about = {
        "model": cell["model"],
        "columns": columns,
        "predicted": list(known_models.PREDICTED[cell["task"]]),
        **{key: cell[key] for key in ("task", "precision", "engine", "batch_size", "sequence_length")},
        "host": host,
        "rank": rank,
        "instances": len(mine["ranks"]),
    }
    openai = openai_api.Interface(instance, known_models.short_name(cell["model"]), loading)
    waiting = batches.Batches(
        instance.predict,
        cell["batch_size"],
        MOST_WAITING,
        MOST_HELD,
        instance.entries,
        MOST_ENTRIES,
        beside=openai.generation,
    )
    # The first call takes longest: libraries choose their kernels, and torch.compile compiles.
    warm = waiting.submit([dict.fromkeys(columns, "the first row")])
    waiting.close()
    waiting.run()
    warm.result()
    waiting.rows = 0
    waiting.slowest = 0.0
    server = uvicorn.Server(settings(application(waiting, about, limits, openai)))

    def end(*_signal: object) -> None:
        server.should_exit = True

    signal.signal(signal.SIGTERM, end)

    def answer() -> None:
        try:
            server.run(sockets=listening)
        finally:
            waiting.close()

    # The model keeps the main thread, in which it was loaded.
    thread = threading.Thread(target=answer, name="http", daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.05)
    if not server.started:
        sys.exit(f"no requests are accepted by instance {rank} on {host}")
    for accepting in listening:
        accepting.listen(BACKLOG)
    threading.Thread(target=end_when_hung, args=(waiting, limits, host), daemon=True).start()
    waiting.run()
    thread.join(GRACE)


def end_when_hung(waiting: batches.Batches, limits: Mapping[str, float], host: str) -> None:
    """End this process when one call of the model takes longer than the limit; another one is started."""
    while True:
        time.sleep(LOOK)
        seconds = waiting.silent()
        if seconds > limit("hung", limits, waiting.slowest):
            print(f"the model on {host} has computed for {seconds:.0f} s on one batch: it hangs", flush=True)
            os._exit(HUNG)


def main() -> None:
    parser = argparse.ArgumentParser(description="serve a model by one instance")
    parser.add_argument("--socket", required=True, help="the path of the Unix socket on which it accepts requests")
    parser.add_argument("--address", default="", help="an address on which it accepts them, too")
    parser.add_argument("--port", type=int, default=0, help="the port of that")
    parser.add_argument("--again", action="store_true", help="the other instances of the host have loaded theirs")
    options = parser.parse_args()
    job, host, rank = Path(os.environ["AMX_CLUSTER_JOB"]), os.environ["AMX_CLUSTER_HOST"], int(os.environ["RANK"])
    address = (options.address, options.port) if options.address else None
    try:
        request = inference_requests.Serving.from_json(inference_requests.of_job(job))
        serve(request, job, host, rank, options.socket, address, options.again)
    except loaded.Unavailable as error:
        sys.exit(f"instance {rank} on {host} cannot serve: {error}")


if __name__ == "__main__":
    main()
