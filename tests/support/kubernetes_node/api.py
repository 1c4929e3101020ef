"""A small client of the API server, for what tests set up and for the stand-ins: no package is needed."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

Object = dict[str, Any]


class RefusedError(Exception):
    """What the API server answered instead. code: HTTP's."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Client:
    """Reads and writes objects as the user of a kubeconfig with a token, as this directory's node.py writes it."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        self.server: str = config["clusters"][0]["cluster"]["server"]
        self.token: str = config["users"][0]["user"]["token"]
        self.context = ssl.create_default_context(cafile=config["clusters"][0]["cluster"]["certificate-authority"])

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """Return what the server answers, from JSON where it is that. Raises RefusedError and OSError."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        request = urllib.request.Request(self.server + path, data=data, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=30) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")
            raise RefusedError(error.code, said) from None
        return json.loads(text) if text.startswith("{") else text

    def list(self, kind: str, api: str = "v1", namespace: str = "", selector: str = "") -> list[Object]:
        """Return all objects of a kind, of one namespace or of all."""
        query = f"?labelSelector={urllib.parse.quote(selector)}" if selector else ""
        found: list[Object] = self.call("GET", path(api, kind, namespace) + query)["items"]
        return found

    def create(self, one: Object) -> Object:
        """Create an object. Raises RefusedError, with code 409 where it is there already."""
        made: Object = self.call(
            "POST", path(one["apiVersion"], one["kind"], one["metadata"].get("namespace", "")), one
        )
        return made

    def apply(self, one: Object) -> Object:
        """Create an object, or make it what it should be."""
        where = path(one["apiVersion"], one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"])
        done: Object = self.call("PATCH", f"{where}?fieldManager=tests&force=true", one, "application/apply-patch+yaml")
        return done

    def delete(self, kind: str, api: str, namespace: str, name: str) -> None:
        """Delete an object, which may be gone already."""
        try:
            self.call("DELETE", path(api, kind, namespace, name), {"propagationPolicy": "Background"})
        except RefusedError as error:
            if error.code != 404:
                raise


def path(api: str, kind: str, namespace: str = "", name: str = "") -> str:
    """Return the path of objects of a kind, or of one of them."""
    base = f"/api/{api}" if "/" not in api else f"/apis/{api}"
    inside = f"/namespaces/{namespace}" if namespace else ""
    return f"{base}{inside}/{kind.lower().removesuffix('s')}s" + (f"/{name}" if name else "")
