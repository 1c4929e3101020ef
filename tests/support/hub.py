"""A stand-in for the Hugging Face hub, for tests: what huggingface_hub's snapshot_download asks of it, and no more.

It answers for models, datasets and spaces as huggingface.co does: information about a repository, its tree and its
refs at a revision, HEAD and GET of files with ranges, large files (LARGE) through a redirect to another server that
must never see a token, and the same errors: X-Error-Code, and 401 without one for what is not there, to an anonymous
user. It knows neither Xet nor pages of long listings, and keeps everything in memory.

    with Hub() as hub:
        hub.publish("model", "acme/tiny", Path("directory"))      # then HF_ENDPOINT=hub.address
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

LARGE = (".bin", ".safetensors")  # what is in LFS
API = re.compile(r"/api/(model|dataset|space)s/(.+?)(?:/(revision|tree)/([^/]+)|/(refs))?")
FILE = re.compile(r"/(?:(dataset|space)s/)?(.+?)/resolve/([^/]+)/(.+)")


class Request(NamedTuple):
    """A request: `server` is "hub", or "content" for the one that has the large files."""

    server: str
    method: str
    path: str
    token: str
    range: str


class Hub:
    """`requests` is what it was asked. Gated repositories give their files to `token` only. `break_off` says how often
    the transfer of a file, by its path in the repository, still breaks after half of it; `damage` the same for a
    wrong byte in it. Requests whose path has `mute` in it are never answered."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.branches: dict[tuple[str, str], dict[str, str]] = {}  # {(kind, repository): {revision: commit}}
        self.files: dict[str, dict[str, bytes]] = {}  # {commit: {path: content}}
        self.gated: set[str] = set()
        self.token = ""
        self.break_off: dict[str, int] = {}
        self.damage: dict[str, int] = {}
        self.mute = ""
        self.over = threading.Event()
        self.requests: list[Request] = []
        handler = type("Answer", (_Answer,), {"hub": self})
        self.servers = {name: ThreadingHTTPServer((host, 0), handler) for name in ("hub", "content")}
        self.address = f"http://{host}:{self.servers['hub'].server_port}"

    def __enter__(self) -> Hub:
        for server in self.servers.values():
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for server in self.servers.values():
            server.shutdown()
            server.server_close()

    def publish(self, kind: str, repository: str, directory: Path, revision: str = "main") -> str:
        """Publish the files of a directory, as they are now, as a revision of a repository. Returns the commit."""
        files = {str(p.relative_to(directory)): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}
        commit = hashlib.sha1(repr([kind, repository, files]).encode()).hexdigest()
        self.files[commit] = files
        self.branches.setdefault((kind, repository), {})[revision] = commit
        return commit


class _Answer(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        path, token = unquote(url.path), self.headers.get("Authorization", "").removeprefix("Bearer ")
        name = next(name for name, server in self.hub.servers.items() if server is self.server)
        self.hub.requests.append(Request(name, self.command, path, token, self.headers.get("Range", "")))
        if self.hub.mute and self.hub.mute in path:
            self.hub.over.wait()
        if name == "content":
            self.file(*next((c, p) for c, files in self.hub.files.items() for p in files if path == f"/{c}/{p}"))
        elif match := API.fullmatch(url.path):
            kind, repository, part, revision, refs = match.groups()
            commit = self.commit(kind, repository, unquote(revision or "main"), token)
            if commit and refs:
                branches = self.hub.branches[kind, repository].items()
                named = [{"name": b, "ref": f"refs/heads/{b}", "targetCommit": c} for b, c in branches]
                self.json({"branches": named, "tags": [], "converts": []})
            elif commit and part == "tree":
                self.json([self.entry(path, data) for path, data in self.hub.files[commit].items()])
            elif commit:
                blobs = "blobs" in parse_qs(url.query)
                files = [self.sibling(path, data, blobs) for path, data in self.hub.files[commit].items()]
                counted = {"downloads": 0, "likes": 0, "tags": [], "private": False}
                self.json({"id": repository, "sha": commit, "siblings": files, **counted})
        elif match := FILE.fullmatch(url.path):
            kind, repository, revision, path = match.groups()
            commit = self.commit(kind or "model", repository, unquote(revision), token)
            path = unquote(path)
            if not commit:
                return
            if repository in self.hub.gated and token != self.hub.token:
                self.error(403 if token else 401, "GatedRepo", f"Access to {repository} is restricted.")
            elif path not in self.hub.files[commit]:
                self.error(404, "EntryNotFound", "Entry not found")
            elif path.endswith(LARGE):
                data = self.hub.files[commit][path]
                place = f"http://{self.headers['Host'].split(':')[0]}:{self.hub.servers['content'].server_port}"
                etag = f'"{hashlib.sha256(data).hexdigest()}"'
                linked = {"X-Linked-Size": str(len(data)), "X-Linked-ETag": etag}
                self.send(302, b"", {"Location": f"{place}/{commit}/{path}", "X-Repo-Commit": commit, **linked})
            else:
                self.file(commit, path)
        else:
            self.error(404, "", "Not Found")

    do_HEAD = do_GET

    def commit(self, kind: str, repository: str, revision: str, token: str) -> str | None:
        """The commit of a revision, itself a commit perhaps; None when the answer was that there is none."""
        branches = self.hub.branches.get((kind, repository))
        if token and token != self.hub.token:
            self.error(401, "", "Invalid credentials in Authorization header")
        elif branches is None and token:
            self.error(404, "RepoNotFound", "Repository not found")
        elif branches is None:
            self.error(401, "", "Invalid username or password.")
        elif revision not in branches and revision not in self.hub.files:
            self.error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        else:
            return branches.get(revision, revision)
        return None

    def file(self, commit: str, path: str) -> None:
        data = self.hub.files[commit][path]
        if match := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            start = int(match[1])
            where = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}
        else:
            start, where = 0, {}
        etag = self.entry(path, data)["oid"]
        sent = data[start:]
        if self.command == "GET" and self.hub.damage.get(path, 0):
            self.hub.damage[path] -= 1
            sent = bytes([sent[0] ^ 1]) + sent[1:]
        breaks = self.command == "GET" and self.hub.break_off.get(path, 0) > 0
        self.hub.break_off[path] = self.hub.break_off.get(path, 0) - breaks
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes", **where}
        self.send(206 if where else 200, sent, headers, cut=len(sent) // 2 if breaks else None)

    @staticmethod
    def entry(path: str, data: bytes) -> dict[str, Any]:
        """A file as /tree tells it."""
        oid = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        lfs = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
        entry = {"type": "file", "path": path, "size": len(data), "oid": oid}
        return {**entry, "lfs": lfs} if path.endswith(LARGE) else entry

    def sibling(self, path: str, data: bytes, blobs: bool) -> dict[str, Any]:
        """A file as the information about a repository tells it."""
        entry = self.entry(path, data)
        lfs = {"lfs": {**entry["lfs"], "sha256": entry["lfs"]["oid"]}} if "lfs" in entry else {}
        return {"rfilename": path, **({"size": len(data), "blobId": entry["oid"], **lfs} if blobs else {})}

    def json(self, document: object) -> None:
        self.send(200, json.dumps(document).encode(), {"Content-Type": "application/json"})

    def error(self, status: int, code: str, message: str) -> None:
        headers = {"X-Error-Message": message, "Content-Type": "application/json"}
        body = json.dumps({"error": message}).encode()
        self.send(status, body, {**headers, "X-Error-Code": code} if code else headers)

    def send(self, status: int, body: bytes, headers: dict[str, str], cut: int | None = None) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # who asked may have gone
            self.wfile.write(b"" if self.command == "HEAD" else body[:cut])
        self.close_connection = cut is not None

    def log_message(self, format: str, *args: object) -> None:
        """Keep the tests' output free of a line for every request; `requests` has them."""
