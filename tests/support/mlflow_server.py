"""A server with as much of MLflow's REST API as an upload asks for.

STAND-IN: tests/integration/test_curves.py has the real one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class Store:
    """Contents of the server. fails: an endpoint that answers with an error of the server, once."""

    def __init__(self) -> None:
        self.experiments: dict[str, str] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.fails = ""
        self.token = ""
        self.redirect: tuple[int, str] | None = None

    def answer(self, path: str, given: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path == self.fails:
            self.fails = ""
            return 500, {"error_code": "INTERNAL_ERROR", "message": "the disk is full\nTraceback"}
        if path == "experiments/search":
            return 200, {}
        if path == "experiments/get-by-name":
            if given["experiment_name"] not in self.experiments:
                return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no such experiment"}
            return 200, {"experiment": {"experiment_id": self.experiments[given["experiment_name"]]}}
        if path == "experiments/create":
            self.experiments[given["name"]] = str(len(self.experiments) + 1)
            return 200, {"experiment_id": self.experiments[given["name"]]}
        if path == "runs/search":
            runs = [
                {
                    "info": {"run_id": name},
                    "data": {"tags": [{"key": key, "value": value} for key, value in run["tags"].items()]},
                }
                for name, run in self.runs.items()
                if not run["deleted"] and given["filter"] == f"tags.`amx_cluster.start` = '{run['start']}'"
            ]
            return 200, {"runs": runs} if runs else {}
        if path == "runs/create":
            name, tags = f"run{len(self.runs)}", {tag["key"]: tag["value"] for tag in given["tags"]}
            start = tags["amx_cluster.start"]
            self.runs[name] = {"tags": tags, "start": start, "deleted": False, "metrics": [], "params": [], **given}
            self.runs[name]["tags"] = tags
            return 200, {"run": {"info": {"run_id": name}}}
        run = self.runs[given.pop("run_id")]
        if path == "runs/log-batch":
            sizes = {key: len(value) for key, value in given.items()}
            assert sizes.get("metrics", 0) <= 1000
            assert sizes.get("params", 0) <= 100
            for key, value in given.items():
                run[key] += value
        elif path == "runs/set-tag":
            run["tags"][given["key"]] = given["value"]
        elif path == "runs/delete":
            run["deleted"] = True
        elif path == "runs/update":
            run.update(given)
        return 200, {}


@contextmanager
def running() -> Iterator[tuple[str, Store]]:
    """Yield the address of a server, and what it has."""
    store = Store()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.reply(json.loads(self.rfile.read(int(self.headers["Content-Length"])), parse_constant=int))

        def do_GET(self) -> None:
            self.reply({name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()})

        def reply(self, given: dict[str, Any]) -> None:
            before, _api, path = urlsplit(self.path).path.partition("/api/2.0/mlflow/")
            code, document = (404, {}) if before or not path else store.answer(path, given)
            if store.token and self.headers["Authorization"] != store.token:
                code, document = 401, {}
            if store.redirect:
                code = store.redirect[0]
            self.send_response(code)
            if store.redirect:
                self.send_header("Location", store.redirect[1])
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, *_words: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", store
    finally:
        server.shutdown()
        server.server_close()
