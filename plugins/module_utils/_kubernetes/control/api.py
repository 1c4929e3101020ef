# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection to the API server of a cluster, in one namespace: objects, logs, and commands in pods.

Objects are plain dicts, as the API has them. The client is imported when it is used: other playbooks do not need it.
"""

from __future__ import annotations

import json
import os
import queue
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.objects import Object

Objects = list[Object]
CLIENT = "kubernetes==35.0.0"
DEFAULT_KUBECONFIG = "~/.kube/config"
# Seconds for a connection, for an answer, and until a command or a log that is followed begins.
CONNECT, ANSWER, HANDSHAKE = 5, 30, 30
PAUSE = 1.0  # seconds between two looks at an object that is being deleted
# With which errors of connections begin: names of the client's objects, and numbers.
UNREADABLE = re.compile(
    r"^(<[^>]*>: |\S*Connection\S*\(.*?\): |Failed to establish a new connection: |\[Errno -?\d+\] )+"
)
JSON_PATCH, MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"
# The client keeps the kinds of a server in a file, by default one of a guessable name in /tmp; here none can be.
NO_CACHE = f"{os.devnull}/none"
# Of a command in a pod: what it prints, its errors, and how it ended (the protocol v4.channel.k8s.io).
CHANNELS = (1, 2, 3)


class ApiError(ValueError):
    """Refusal of the API server, with the status code of HTTP; 0 where it did not answer at all."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


def kubeconfig_paths(kubeconfig: str = "") -> list[Path]:
    """Return the files of a kubeconfig: the one given, else those of KUBECONFIG, else ~/.kube/config.

    Raises ValueError where none of them exists.
    """
    text = kubeconfig or os.environ.get("KUBECONFIG", "") or DEFAULT_KUBECONFIG
    given = [Path(part).expanduser() for part in text.split(os.pathsep) if part]
    existing = [path for path in given if path.is_file()]
    if not existing:
        raise ValueError(
            f"there is no kubeconfig at {', '.join(map(str, given)) or text}: name yours in cluster_kubernetes "
            "(kubeconfig), or set the environment variable KUBECONFIG"
        )
    return existing


@dataclass(frozen=True)
class Api:
    """A connection to an API server.

    settings: a kubernetes.client.Configuration. server: its URL. context: its name in the kubeconfig. namespace: that
    of all objects which are read and written.
    """

    settings: Any
    server: str
    context: str
    namespace: str
    _kinds: dict[tuple[str, str], Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def connect(cls, kubeconfig: str = "", context: str = "", namespace: str = "default") -> Api:
        """Return a connection by a context of a kubeconfig, by default the current one of the user's own.

        Raises ValueError where there is no such file or context, or no server answers.
        """
        paths = kubeconfig_paths(kubeconfig)
        try:
            import kubernetes.client
            import kubernetes.config
            import yaml
        except ImportError:
            raise ValueError(
                "the client of Kubernetes is missing on the control node (requirements.txt): "
                f"pip install {CLIENT}, with the Python that runs Ansible"
            ) from None
        shown = ", ".join(map(str, paths))
        text = os.pathsep.join(map(str, paths))
        # The client raises what it meets in a file that is none.
        of_client = (kubernetes.config.ConfigException, yaml.YAMLError)
        try:
            contexts, current = kubernetes.config.list_kube_config_contexts(config_file=text)
            names = sorted(str(entry["name"]) for entry in contexts)
            if context and context not in names:
                raise ApiError(f"no context {context} in {shown}; there are: {', '.join(names) or 'none'}")
            settings = kubernetes.client.Configuration()
            settings.retries = False
            kubernetes.config.load_kube_config(
                config_file=text, context=context or None, client_configuration=settings, persist_config=False
            )
        except ApiError:
            raise
        except (*of_client, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{shown} cannot be used as a kubeconfig: {_first_line(error)}") from None
        api = cls(settings, settings.host, context or str(current["name"]), namespace)
        api.version()
        return api

    # Requests

    @cached_property
    def client(self) -> Any:
        """The client of the API, all of whose requests have a time limit."""
        import kubernetes.client

        class Client(kubernetes.client.ApiClient):
            """Send the requests by which the dynamic client finds out kinds, too."""

            def call_api(self, *args: Any, _request_timeout: Any = None, **options: Any) -> Any:
                limit = _request_timeout or (CONNECT, ANSWER)
                return super().call_api(*args, _request_timeout=limit, **options)

        return Client(self.settings)

    @cached_property
    def _dynamic(self) -> Any:
        import kubernetes.dynamic

        return kubernetes.dynamic.DynamicClient(self.client, cache_file=NO_CACHE)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise what the client raises as ApiError."""
        import kubernetes.client
        import urllib3.exceptions

        try:
            yield
        except kubernetes.client.ApiException as error:
            raise self._error(error) from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiError(f"cannot reach {self.server}: {_reason(error)}") from None
        except (AttributeError, KeyError, TypeError):  # the dynamic client takes every answer for one of the API
            raise self._no_api() from None

    def _no_api(self) -> ApiError:
        return ApiError(f"cannot reach {self.server}: what answers there is no API server of Kubernetes")

    def _error(self, error: Any) -> ApiError:
        """Return an error of the client as ours."""
        status = int(error.status or 0)
        if status == 0:
            return ApiError(f"cannot reach {self.server}: {_reason(error.reason)}")
        if status == 401:
            return ApiError(
                f"{self.server} does not accept the credentials of context {self.context}: log in again, or name "
                "another context in cluster_kubernetes",
                status,
            )
        return ApiError(_message(error.body) or f"{self.server} answered {status} {error.reason}", status)

    def version(self) -> tuple[int, int]:
        """Return the server's version, such as (1, 30), and (0, 0) for a build that has none. Raises ApiError."""
        options = {"response_type": "object", "auth_settings": ["BearerToken"], "_return_http_data_only": True}
        with self._errors():
            answer = self.client.call_api("/version", "GET", **options)
        if not isinstance(answer, dict) or "gitVersion" not in answer:
            raise self._no_api()
        numbers = re.match(r"v?(\d+)\.(\d+)", str(answer["gitVersion"]))
        return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)

    def resource(self, api_version: str, kind: str) -> str:
        """Return the name of a kind in the API, such as pytorchjobs; empty where the server has no such kind."""
        resource = self._kind(api_version, kind)
        return str(resource.name) if resource else ""

    def _kind(self, api_version: str, kind: str) -> Any:
        """Return a kind as the dynamic client has it; None where the server has no such kind. Raises ApiError."""
        key = (api_version, kind)
        if key not in self._kinds:
            from kubernetes.dynamic.exceptions import ResourceNotFoundError

            # Without a prefix, all groups of the server are searched for a kind of the core.
            prefix = "apis" if "/" in api_version else "api"
            try:
                with self._errors():
                    self._kinds[key] = self._dynamic.resources.get(prefix=prefix, api_version=api_version, kind=kind)
            except ResourceNotFoundError:
                self._kinds[key] = None
        return self._kinds[key]

    def _call(self, verb: str, api_version: str, kind: str, **options: Any) -> Object:
        """Return what the server answers to a verb of the dynamic client, as JSON. Raises ApiError."""
        resource = self._kind(api_version, kind)
        if resource is None:
            raise ApiError(f"{self.server} has no {kind} ({api_version})", 404)
        inside = {"namespace": self.namespace} if resource.namespaced else {}
        with self._errors():
            answer = getattr(resource, verb)(**inside, serializer=_json, **options)
        if not isinstance(answer, dict):
            raise self._no_api()
        return answer

    def allowed(self, verb: str, resource: str, group: str = "") -> bool:
        """Return whether this user may do something. resource: with a subresource as in pods/exec. Raises ApiError."""
        name, _slash, subresource = resource.partition("/")
        attributes = {"verb": verb, "resource": name, "subresource": subresource, "group": group}
        review = {"spec": {"resourceAttributes": {**attributes, "namespace": self.namespace}}}
        answer = self._call("create", "authorization.k8s.io/v1", "SelfSubjectAccessReview", body=review)
        return bool(answer.get("status", {}).get("allowed"))

    def read(self, api_version: str, kind: str, name: str) -> Object | None:
        """Return an object; None where it is not there, nor its kind. Raises ApiError."""
        try:
            return self._call("get", api_version, kind, name=name)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def list(self, api_version: str, kind: str, labels: str = "", fields: str = "") -> Objects:
        """Return the objects of a kind that selectors match; none where there is no such kind. Raises ApiError."""
        if not self.resource(api_version, kind):
            return []
        selectors = {"label_selector": labels or None, "field_selector": fields or None}
        items = self._call("get", api_version, kind, **selectors).get("items") or []
        # The items of a list have no kind of their own.
        return [{"apiVersion": api_version, "kind": kind, **item} for item in items]

    def events(self, uid: str) -> Objects:
        """Return the events about an object, the oldest first. Raises ApiError.

        Events stay for an hour, also those of a deleted object of the same name: only its uid tells them apart.
        """
        return sorted(self.list("v1", "Event", fields=f"involvedObject.uid={uid}"), key=event_time)

    # Changes

    def create(self, definition: Object) -> Object:
        """Create an object, and return it. Raises ApiError with the status 409 where there is one of its name."""
        return self._call("create", definition["apiVersion"], definition["kind"], body=definition)

    def replace(self, definition: Object, version: str) -> Object:
        """Replace labels, annotations and data of an object, and return it. version: its resourceVersion.

        Raises ApiError with the status 409 where it has another version, and 404 where it is not there.
        """
        about = definition["metadata"]
        changes = {
            "metadata/resourceVersion": version,
            **{f"metadata/{key}": about.get(key) or {} for key in ("labels", "annotations")},
            **{key: definition.get(key) or {} for key in ("data", "binaryData")},
        }
        body = [{"op": "add", "path": f"/{path}", "value": value} for path, value in changes.items()]
        options = {"name": about["name"], "body": body, "content_type": JSON_PATCH}
        return self._call("patch", definition["apiVersion"], definition["kind"], **options)

    def annotate(self, api_version: str, kind: str, name: str, annotations: Mapping[str, str]) -> None:
        """Add annotations to an object, whatever else it has. Raises ApiError."""
        body = {"metadata": {"annotations": dict(annotations)}}
        self._call("patch", api_version, kind, name=name, body=body, content_type=MERGE_PATCH)

    def delete(self, api_version: str, kind: str, name: str, *, uid: str = "", seconds: float = 0) -> bool:
        """Delete an object with all that it owns; return whether it was there.

        uid: of the only object of that name which is meant. seconds: in which it has to be gone. Raises ApiError.
        """
        options = {"propagationPolicy": "Foreground", **({"preconditions": {"uid": uid}} if uid else {})}
        try:
            self._call("delete", api_version, kind, name=name, body=options)
        except ApiError as error:
            if error.status == 404 or (uid and error.status == 409):
                return False
            raise
        until = time.monotonic() + seconds
        while seconds and self.read(api_version, kind, name) is not None:
            if time.monotonic() > until:
                raise ApiError(f"{kind} {name} was deleted, and is still there after {seconds:.0f} s")
            time.sleep(PAUSE)
        return True

    # In pods

    def log(self, pod: str, container: str = "", follow: bool = False, tail: int = 0) -> Iterator[str]:
        """Return the lines of a container's log, without their ends; with `follow` until it ends.

        tail: the last so many lines only. Raises ApiError at once where there is no such log, or none begins in
        HANDSHAKE seconds (servers are silent until the first line is there), and later where the connection is lost.
        """
        query = {"container": container, "follow": "true" if follow else "", "tailLines": tail or ""}
        with self._errors():
            response = self._kind("v1", "Pod").log.get(
                name=pod,
                namespace=self.namespace,
                query_params=[(name, str(value)) for name, value in query.items() if value],
                header_params={"Accept": "*/*"},
                _request_timeout=(CONNECT, HANDSHAKE if follow else ANSWER),
                serialize=False,
            )
        opened = getattr(response.connection, "sock", None)
        if follow and opened is not None:
            opened.settimeout(None)
        return self._lines(response)

    def _lines(self, response: Any) -> Iterator[str]:
        import urllib3.exceptions

        rest = b""
        try:
            for chunk in response.stream(amt=65536, decode_content=True):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (line.decode("utf-8", "replace") for line in lines)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiError(f"the connection to {self.server} was lost: {_reason(error)}") from None
        finally:
            response.release_conn()
        if rest:
            yield rest.decode("utf-8", "replace")

    def exec(self, pod: str, container: str, command: Sequence[str], timeout: float = ANSWER) -> tuple[int, str, str]:
        """Run a command in a container: (its exit code, what it printed, its errors). timeout: seconds.

        Raises ApiError where it cannot be started, or has not ended in time.
        """
        import kubernetes.client
        import websocket

        name = " ".join(command[-2:])
        try:
            stream = self._begin(pod, container, command)
        except queue.Empty:
            raise ApiError(
                f"{self.server} has not answered for {HANDSHAKE:g} s when {name} was to be run in pod {pod}: see "
                f"whether it is reachable (kubectl --context {self.context} get pods), and whether a proxy or firewall "
                "blocks WebSocket connections to it; then try again"
            ) from None
        except kubernetes.client.ApiException as error:
            match = re.search(r"Handshake status (\d+)", str(error.reason))
            status = int(match[1]) if match else int(error.status or 0)
            raise ApiError(f"{name} cannot be run in pod {pod}: {_handshake(str(error.reason))}", status) from None
        until = time.monotonic() + timeout
        stream.sock.settimeout(timeout)  # for the rest of a message of which a part has come
        try:
            while stream.is_open() and time.monotonic() < until:
                stream.update(timeout=max(0.0, until - time.monotonic()))
            if stream.is_open():
                raise ApiError(f"{name} in pod {pod} has not ended in {timeout:.0f} s")
            out, errors, status_text = (str(stream.read_channel(channel)) for channel in CHANNELS)
        except (OSError, ValueError, websocket.WebSocketException) as error:
            if isinstance(error, ApiError):
                raise
            raise ApiError(f"the connection to pod {pod} was lost: {_reason(error)}") from None
        finally:
            stream.close()
        return _exit_code(status_text, pod), out, errors

    def _begin(self, pod: str, container: str, command: Sequence[str]) -> Any:
        """Return the connection to a command that was started. Raises ApiException, and Empty without an answer.

        The client knows no time limit for that, so that it waits in a thread of its own.
        """
        import kubernetes.client
        import kubernetes.stream

        outcomes: queue.Queue[Any] = queue.Queue()
        given_up = threading.Event()
        # While it connects, a client takes no other requests.
        core = kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(self.settings))

        def connect() -> None:
            try:
                stream = kubernetes.stream.stream(
                    core.connect_get_namespaced_pod_exec,
                    pod,
                    self.namespace,
                    container=container,
                    command=list(command),
                    stdin=False,
                    stdout=True,
                    stderr=True,
                    tty=False,
                    _preload_content=False,
                )
            except Exception as error:  # raised where it is waited for
                outcomes.put(error)
                return
            outcomes.put(stream)
            if given_up.is_set():
                stream.close()

        threading.Thread(target=connect, daemon=True).start()
        try:
            outcome = outcomes.get(timeout=HANDSHAKE)
        except queue.Empty:
            given_up.set()
            raise
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def event_time(event: dict[str, Any]) -> str:
    """Return when an event was last seen (RFC 3339); what reports it decides in which field."""
    return str(
        event.get("lastTimestamp")
        or (event.get("series") or {}).get("lastObservedTime")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
        or ""
    )


def _json(_client: Any, answer: Any) -> Any:
    """Return an answer as it is, where the dynamic client would make an object of it."""
    return answer


def _message(body: object) -> str:
    """Return the message of the server's own status, empty for an answer that is none."""
    try:
        status = json.loads(body if isinstance(body, (str, bytes)) else "")
        return str(status["message"])
    except (ValueError, KeyError, TypeError):
        return ""


def _exit_code(status: str, pod: str) -> int:
    """Return the exit code of a command by the status that the server sends at its end. Raises ApiError without one."""
    try:
        outcome = json.loads(status)
        if outcome["status"] == "Success":
            return 0
        causes = outcome.get("details", {}).get("causes", [])
        codes = [int(cause["message"]) for cause in causes if cause.get("reason") == "ExitCode"]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ApiError(f"the connection to pod {pod} was lost before its command ended") from None
    if not codes:
        raise ApiError(f"the command cannot be run in pod {pod}: {outcome.get('message', 'no reason was given')}")
    return codes[0]


def _handshake(reason: str) -> str:
    """Return what the server said when it refused a websocket: the message of its status in the client's error."""
    match = re.search(r'"message": ?"((?:[^"\\]|\\.)*)"', reason)
    return re.sub(r'\\+"', '"', match[1]) if match else reason.splitlines()[0] if reason else "no reason was given"


def _reason(error: object) -> str:
    """Return why a connection failed, without the object that the client names."""
    inner = getattr(error, "reason", None) or error
    text = str(inner).strip() or type(inner).__name__
    return UNREADABLE.sub("", text.replace("\n", ": "))


def _first_line(error: object) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
