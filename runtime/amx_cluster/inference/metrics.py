# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics of an instance for Prometheus: requests, and what waits, runs and was computed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import prometheus_client
from prometheus_client import core
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

if TYPE_CHECKING:
    from amx_cluster.inference.batches import Batches
    from amx_cluster.inference.openai_api import Interface

# Seconds: from a row of a small classifier to a long text.
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
OTHER = "other"


class Metrics:
    """Metrics of one instance, which the thread of HTTP counts, and reads of what the model's thread has counted."""

    def __init__(self, waiting: Batches, openai: Interface | None) -> None:
        self.waiting, self.openai = waiting, openai
        self.generation = generation = openai.generation if openai is not None else None
        self.registry = prometheus_client.CollectorRegistry()
        registry = {"registry": self.registry}
        self.requests = prometheus_client.Counter(
            "amx_http_requests", "Answered requests", ("path", "code"), **registry
        )
        self.seconds = prometheus_client.Histogram(
            "amx_http_request_duration_seconds", "Time of a request", ("path",), buckets=SECONDS, **registry
        )
        self.in_flight = prometheus_client.Gauge("amx_http_requests_in_flight", "Requests under way", **registry)
        if generation is not None:
            first = prometheus_client.Histogram(
                "amx_time_to_first_token_seconds", "Time until a text begins", buckets=SECONDS, **registry
            )
            generation.first_token = first.observe
        self.registry.register(self)
        prometheus_client.ProcessCollector(registry=self.registry)

    def collect(self) -> Iterator[Any]:
        """Yield what the model's thread has counted."""
        waiting, generation = self.waiting, self.generation
        yield core.CounterMetricFamily("amx_rows", "Rows that were predicted", waiting.rows)
        yield core.GaugeMetricFamily("amx_rows_waiting", "Rows that wait for the model", waiting.count)
        yield core.GaugeMetricFamily("amx_oldest_wait_seconds", "Time that the oldest row waits", waiting.waited())
        if self.openai is not None:
            prompted = self.openai.prompted + (generation.prompted if generation is not None else 0)
            yield core.CounterMetricFamily("amx_prompt_tokens", "Tokens of prompts that were read", prompted)
        if generation is not None:
            yield core.CounterMetricFamily("amx_generated_tokens", "Tokens that were generated", generation.generated)
            yield core.GaugeMetricFamily("amx_texts_waiting", "Texts that wait", generation.waiting)
            yield core.GaugeMetricFamily("amx_texts_running", "Texts that are generated", len(generation.running))

    async def show(self, _request: Request) -> Response:
        """Answer GET /metrics."""
        text = prometheus_client.generate_latest(self.registry)
        return Response(text, headers={"Content-Type": prometheus_client.CONTENT_TYPE_LATEST})

    def around(self, app: ASGIApp, routes: list[Route]) -> ASGIApp:
        """Return an application that counts the requests of another one. routes: paths that have their own label."""

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            known = any(route.matches(scope)[0] == Match.FULL and route.path == scope["path"] for route in routes)
            path, began, code = scope["path"] if known else OTHER, time.monotonic(), 500

            async def noted(message: Message) -> None:
                nonlocal code
                if message["type"] == "http.response.start":
                    code = message["status"]
                await send(message)

            with self.in_flight.track_inprogress():
                try:
                    await app(scope, receive, noted)
                finally:
                    self.requests.labels(path, code).inc()
                    self.seconds.labels(path).observe(time.monotonic() - began)

        return counted
