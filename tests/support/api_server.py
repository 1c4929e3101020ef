"""A small HTTP server that answers as an API server does, with what a test gives it, and a kubeconfig for it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml


def resources(**kinds: str) -> dict[str, Any]:
    """Return an API's kinds, each with the name that it has in paths. Those of a cluster end with a slash."""
    listed = [{"kind": kind, "name": name.strip("/"), "namespaced": "/" not in name} for kind, name in kinds.items()]
    below = [{**resource, "name": f"{resource['name']}/{name}"} for resource in listed for name in ("status", "log")]
    return {"kind": "APIResourceList", "resources": [*listed, *below]}


KINDS = {
    "/api/v1": resources(
        ConfigMap="configmaps",
        Event="events",
        Namespace="namespaces/",
        Node="nodes/",
        PersistentVolumeClaim="persistentvolumeclaims",
        Pod="pods",
        Secret="secrets",
        Service="services",
    ),
    "/apis/authorization.k8s.io/v1": resources(SelfSubjectAccessReview="selfsubjectaccessreviews/"),
    "/apis/batch/v1": resources(Job="jobs"),
}
PLURALS = {resource["name"] for api in KINDS.values() for resource in api["resources"]} | {"pytorchjobs"}
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
TEAM, BATCH = "/api/v1/namespaces/team", "/apis/batch/v1/namespaces/team"
# Where the server says which APIs there are besides its core.
GROUPS = "/apis"
VERSION = {"major": "1", "minor": "30+", "gitVersion": "v1.30.1-eks-1"}


def status(code: int, message: str) -> tuple[int, dict[str, Any]]:
    """Return an answer with which the API refuses a request."""
    return code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}


def groups(answers: Iterable[str]) -> dict[str, Any]:
    """Return the groups of APIs among the paths that have an answer, such as /apis/batch/v1."""
    versions_of = [path.split("/")[2:] for path in answers if path.startswith(f"{GROUPS}/") and path.count("/") == 3]
    versions = [{"groupVersion": f"{group}/{version}", "version": version} for group, version in versions_of]
    listed = [
        {"name": group, "versions": [version], "preferredVersion": version}
        for (group, _name), version in zip(versions_of, versions)
    ]
    return {"kind": "APIGroupList", "groups": listed}


@dataclass
class Server:
    """answers: by path, an object, (status code, object), text, or what returns one of them for a request.

    What is iterated over is text in parts, each sent when it comes.
    """

    url: str
    answers: dict[str, Any] = field(default_factory=dict)
    requests: list[dict[str, Any]] = field(default_factory=list)
    others: Any = field(default_factory=lambda: status(404, "not found"))

    def kubeconfig(self, directory: Path, *contexts: str) -> str:
        """Write a kubeconfig whose contexts, the first of them current, are all this server. Returns its path."""
        names = contexts or ("test",)
        path = directory / "config"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": names[0],
            "clusters": [{"name": "here", "cluster": {"server": self.url}}],
            "users": [{"name": "me", "user": {"token": "t0ken"}}],
            "contexts": [{"name": name, "context": {"cluster": "here", "user": "me"}} for name in names],
        }
        path.write_text(yaml.safe_dump(document))
        return str(path)


class Store:
    """The objects of an API server, by their paths: they are created, changed, listed and deleted."""

    def __init__(self) -> None:
        self.there: dict[str, dict[str, Any]] = {}
        self.version = 0
        self.lock = threading.Lock()

    def keep(self, path: str, item: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        uid = item["metadata"].get("uid") or f"uid-{self.version}"
        self.there[path] = {**item, "metadata": {**item["metadata"], "uid": uid, "resourceVersion": str(self.version)}}
        return self.there[path]

    def answer(self, request: dict[str, Any]) -> Any:
        with self.lock:
            return self._answer(request["method"], request["path"], request["body"], request["query"])

    def _answer(self, method: str, path: str, body: Any, query: dict[str, str]) -> Any:
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            return status(409, f"{path} already exists") if path in self.there else (201, self.keep(path, body))
        if path not in self.there:
            below = {key: item for key, item in self.there.items() if key.rpartition("/")[0] == path}
            wanted = [term.split("=") for term in query.get("labelSelector", "").split(",") if term]
            listed = [
                item
                for item in below.values()
                if all(item["metadata"].get("labels", {}).get(key[0]) in key[1:] or not key[1:] for key in wanted)
            ]
            is_list = method == "GET" and path.rpartition("/")[2] in PLURALS
            return {"items": listed} if is_list else status(404, f"{path} not found")
        item = self.there[path]
        if method == "DELETE":
            if (body.get("preconditions") or {}).get("uid", item["metadata"]["uid"]) != item["metadata"]["uid"]:
                return status(409, "the UID in the precondition does not match")
            return self.there.pop(path)
        if method == "PATCH" and isinstance(body, dict):
            notes = {**(item["metadata"].get("annotations") or {}), **body["metadata"]["annotations"]}
            return self.keep(path, {**item, "metadata": {**item["metadata"], "annotations": notes}})
        if method == "PATCH":
            changes = {change["path"]: change["value"] for change in body}
            about = item["metadata"]
            if changes.pop("/metadata/resourceVersion") != about["resourceVersion"]:
                return status(409, "the object has been modified")
            notes = {key: changes.pop(f"/metadata/{key}") for key in ("labels", "annotations")}
            made = {**item, **{key[1:]: value for key, value in changes.items()}}
            return self.keep(path, {**made, "metadata": {**about, **notes}})
        return item


@contextmanager
def api_server(answers: dict[str, Any] | None = None) -> Iterator[Server]:
    """Run a server with these answers; /version has one, and so have the kinds of every server."""
    server = Server("", {"/version": VERSION, **KINDS, **(answers or {})})

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_args: Any) -> None:
            """Print nothing."""

        def answer(self) -> None:
            parts = urlsplit(self.path)
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            request = {"method": self.command, "path": parts.path, "query": query, "body": body}
            server.requests.append({**request, "token": self.headers.get("Authorization", "")})
            answer: Any = server.answers.get(parts.path, server.others)
            if parts.path == GROUPS and GROUPS not in server.answers:
                answer = groups(server.answers)
            if isinstance(answer, Callable):  # type: ignore[arg-type]
                answer = answer(request)
            code, document = answer if isinstance(answer, tuple) else (200, answer)
            if isinstance(document, Iterator):
                self.send_response(code)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for part in document:
                    self.wfile.write(f"{len(part):x}\r\n{part}\r\n".encode())
                self.wfile.write(b"0\r\n\r\n")
                return
            data = document.encode() if isinstance(document, str) else json.dumps(document).encode()
            try:
                self.send_response(code)
                self.send_header("Content-Type", "text/plain" if isinstance(document, str) else "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except ConnectionError:  # the client has not waited
                self.close_connection = True

        do_GET = do_POST = do_PATCH = do_DELETE = answer

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{httpd.server_address[1]}"
    thread = threading.Thread(target=httpd.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()
