"""The connection to an API server: what it sends, what it returns, and what it says where it cannot."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import api as connection
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.api import Api, ApiError
from support.api_server import REVIEWS, TEAM, Server, api_server, resources, status

PODS = f"{TEAM}/pods"


def test_no_kubeconfig(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"there is no kubeconfig at {tmp_path}/none: name yours in cluster_kube"):
        Api.connect(str(tmp_path / "none"))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/a:{tmp_path}/b")
    with pytest.raises(ValueError, match=rf"there is no kubeconfig at {tmp_path}/a, {tmp_path}/b: .* KUBECONFIG$"):
        Api.connect()
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ValueError, match=rf"there is no kubeconfig at {tmp_path}/.kube/config: "):
        Api.connect()


def test_one_of_several_files_is_enough(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/none:{server.kubeconfig(tmp_path)}")
    assert Api.connect().context == "test"


def test_no_context(server: Server, tmp_path: Path) -> None:
    path = server.kubeconfig(tmp_path, "prod", "lab")
    with pytest.raises(ValueError, match=rf"^no context tset in {path}; there are: lab, prod$"):
        Api.connect(path, "tset")
    assert Api.connect(path, "lab").context == "lab"
    assert Api.connect(path).context == "prod"


@pytest.mark.parametrize("text", ["", "{", "a: b", "clusters: []\ncontexts: []\n", "[]"])
def test_no_kubeconfig_in_the_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"^{path} cannot be used as a kubeconfig: \S"):
        Api.connect(str(path))


def test_no_server(tmp_path: Path) -> None:
    with api_server() as server:
        path = server.kubeconfig(tmp_path)
    with socket.socket() as silent:  # nobody else takes its port meanwhile
        silent.bind(("127.0.0.1", 0))
        url = re.sub(r"\d+$", str(silent.getsockname()[1]), server.url)
        Path(path).write_text(Path(path).read_text().replace(server.url, url))
        with pytest.raises(ApiError, match=rf"^cannot reach {url}: Connection refused$"):
            Api.connect(path)


@pytest.mark.parametrize("answers", [{"/version": {"version": "nginx"}}, {"/apis": "<html>"}, {PODS: "<html>"}])
def test_another_server(server: Server, tmp_path: Path, answers: dict[str, Any]) -> None:
    server.answers.update(answers)
    with pytest.raises(ApiError, match=r"^cannot reach http.*: what answers there is no API server of Kubernetes$"):
        Api.connect(server.kubeconfig(tmp_path), namespace="team").list("v1", "Pod")


def test_version_and_credentials(api: Api, server: Server) -> None:
    assert api.version() == (1, 30)
    assert server.requests[-1]["token"] == "Bearer t0ken"
    server.answers["/version"] = status(401, "Unauthorized")
    with pytest.raises(ApiError, match=r"does not accept the credentials of context test") as raised:
        api.version()
    assert raised.value.status == 401


def test_rights(api: Api, server: Server) -> None:
    def review(request: dict[str, Any]) -> Any:
        asked = request["body"]["spec"]["resourceAttributes"]
        return 201, {"status": {"allowed": asked["verb"] == "get" and asked.get("subresource") == "log"}}

    server.answers[REVIEWS] = review
    assert api.allowed("get", "pods/log")
    assert not api.allowed("create", "pytorchjobs", "kubeflow.org")
    assert server.requests[-1]["body"]["spec"]["resourceAttributes"] == {
        "verb": "create",
        "resource": "pytorchjobs",
        "subresource": "",
        "group": "kubeflow.org",
        "namespace": "team",
    }


def test_objects(api: Api, server: Server) -> None:
    server.answers[f"{PODS}/demo-0"] = {"kind": "Pod", "metadata": {"name": "demo-0"}}
    server.answers[f"{PODS}/secret"] = status(403, 'pods "secret" is forbidden')
    server.answers[PODS] = {"kind": "PodList", "items": [{"metadata": {"name": "demo-0"}}]}
    assert (api.read("v1", "Pod", "demo-0") or {})["metadata"]["name"] == "demo-0"
    assert api.read("v1", "Pod", "demo-1") is None
    with pytest.raises(ApiError, match=r'^pods "secret" is forbidden$') as raised:
        api.read("v1", "Pod", "secret")
    assert raised.value.status == 403
    assert api.list("v1", "Pod", "amx.cluster/job=demo") == [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "demo-0"}}
    ]
    assert server.requests[-1]["query"] == {"labelSelector": "amx.cluster/job=demo"}


def test_kinds_are_asked_of_the_server(api: Api, server: Server) -> None:
    server.answers["/apis/kubeflow.org/v1"] = resources(PyTorchJob="pytorchjobs")
    server.answers["/apis/kubeflow.org/v1/namespaces/team/pytorchjobs/demo"] = {"metadata": {"name": "demo"}}
    assert api.read("kubeflow.org/v1", "PyTorchJob", "demo") is not None
    assert api.resource("kubeflow.org/v1", "MPIJob") == ""
    assert api.resource("trainer.kubeflow.org/v1alpha1", "TrainJob") == ""
    assert api.read("trainer.kubeflow.org/v1alpha1", "TrainJob", "demo") is None
    assert api.list("trainer.kubeflow.org/v1alpha1", "TrainJob") == []


def test_kinds_are_kept_in_no_file(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client would write, and later read, one of a guessable name in the directory that all users share."""
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(shared))
    assert api.resource("batch/v1", "Job") == "jobs"
    assert api.resource("batch/v1", "CronJob") == ""
    assert list(shared.iterdir()) == []


def test_events_come_in_their_order(api: Api, server: Server) -> None:
    times = [{"lastTimestamp": "2026-11-22T12:00:02Z"}, {"eventTime": "2026-11-22T12:00:01.5Z"}]
    items = [{"metadata": {"name": f"e{place}"}, **one} for place, one in enumerate(times)]
    server.answers[f"{TEAM}/events"] = {"items": items}
    assert [event["metadata"]["name"] for event in api.events("u-1")] == ["e1", "e0"]
    assert server.requests[-1]["query"] == {"fieldSelector": "involvedObject.uid=u-1"}


def test_a_log_that_never_comes_is_not_waited_for(api: Api, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ANSWER", 0.1)
    refused = threading.Event()

    def answer(_request: dict[str, Any]) -> str:
        refused.wait(5)
        return "late"

    server.answers[f"{PODS}/demo-0/log"] = answer
    with pytest.raises(ApiError, match="cannot reach"):
        list(api.log("demo-0", "train"))
    refused.set()


@pytest.mark.slow
def test_a_log_that_is_followed_begins_soon_and_may_pause(
    api: Api, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HANDSHAKE", 0.3)
    dead = threading.Event()

    def pauses(_request: dict[str, Any]) -> Iterator[str]:
        for text in ("first\n", "second\n"):
            yield text
            time.sleep(0.6)

    server.answers[f"{PODS}/demo-0/log"] = lambda request: pauses(request)
    assert list(api.log("demo-0", "train", follow=True)) == ["first", "second"]
    server.answers[f"{PODS}/demo-0/log"] = lambda _request: str(dead.wait(20))
    began = time.monotonic()
    with pytest.raises(ApiError, match=f"^cannot reach {server.url}: .*timed out") as no:
        list(api.log("demo-0", "train", follow=True))
    assert time.monotonic() - began < 10
    assert no.value.status == 0
    dead.set()


def test_a_server_that_dies_when_a_command_is_to_begin(
    api: Api, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has accepted the connection, and answers nothing."""
    monkeypatch.setattr(connection, "HANDSHAKE", 0.3)
    dead = threading.Event()
    server.answers[f"{PODS}/demo-0/exec"] = lambda _request: str(dead.wait(20))
    expected = (
        f"{server.url} has not answered for 0.3 s when pod status was to be run in pod demo-0: see whether it is "
        "reachable (kubectl --context test get pods), and whether a proxy or firewall blocks WebSocket connections to "
        "it; then try again"
    )
    with pytest.raises(ApiError, match=f"^{re.escape(expected)}$") as no:
        api.exec("demo-0", "train", ["python", "-S", "programs", "pod", "status"])
    assert no.value.status == 0
    assert api.version() == (1, 30), "the client is still of use"
    dead.set()


def test_logs(api: Api, server: Server) -> None:
    server.answers[f"{PODS}/demo-0/log"] = "first\nsecond ä\nno end"
    assert list(api.log("demo-0", "train", tail=9)) == [
        "first",
        "second ä",
        "no end",
    ]
    assert server.requests[-1]["query"] == {"container": "train", "tailLines": "9"}
    refused = 'container "train" in pod "demo-1" is waiting to start: ContainerCreating'
    server.answers[f"{PODS}/demo-1/log"] = status(400, refused)
    with pytest.raises(ApiError, match=f"^{refused}$"):
        api.log("demo-1", "train", follow=True)


def test_a_command_that_cannot_be_run(api: Api, server: Server) -> None:
    server.answers[f"{PODS}/demo-0/exec"] = status(403, 'pods "demo-0" is forbidden: cannot create "pods/exec"')
    with pytest.raises(ApiError, match=r'^pod status cannot be run in pod demo-0: pods "demo-0" is forbidden') as no:
        api.exec("demo-0", "train", ["python", "-S", "programs", "pod", "status"])
    assert no.value.status == 403


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"status": "Success"}', 0),
        ('{"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "3"}]}}', 3),
    ],
)
def test_exit_codes(text: str, code: int) -> None:
    assert connection._exit_code(text, "demo-0") == code


def test_no_exit_code() -> None:
    with pytest.raises(ApiError, match=r"lost before its command ended"):
        connection._exit_code("", "demo-0")
    with pytest.raises(ApiError, match=r"cannot be run in pod demo-0: no such file"):
        connection._exit_code('{"status": "Failure", "message": "no such file", "details": {}}', "demo-0")


def test_objects_are_changed_on_one_condition(api: Api, server: Server) -> None:
    one = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "demo"}, "data": {"a": "1"}}
    made = api.create(one)
    with pytest.raises(ApiError) as refused:
        api.create(one)
    assert refused.value.status == 409
    version = made["metadata"]["resourceVersion"]
    changed = api.replace({**one, "data": {"a": "2"}}, version)
    assert changed["data"] == {"a": "2"}
    with pytest.raises(ApiError, match="modified"):
        api.replace(one, version)
    api.annotate("v1", "ConfigMap", "demo", {"note": "kept"})
    found = api.read("v1", "ConfigMap", "demo") or {}
    assert (found["data"], found["metadata"]["annotations"]) == ({"a": "2"}, {"note": "kept"})
    assert not api.delete("v1", "ConfigMap", "demo", uid="of another"), "another start has made it"
    assert api.delete("v1", "ConfigMap", "demo", uid=found["metadata"]["uid"], seconds=5)
    assert server.requests[-2]["body"]["propagationPolicy"] == "Foreground", "a Job alone would leave its pods"
    assert not api.delete("v1", "ConfigMap", "demo")


def test_an_object_that_does_not_go(api: Api, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PAUSE", 0.01)
    server.answers[f"{PODS}/demo-0"] = {"metadata": {"name": "demo-0"}}
    with pytest.raises(ApiError, match="Pod demo-0 was deleted, and is still there after 0 s"):
        api.delete("v1", "Pod", "demo-0", seconds=0.05)


def test_objects_of_the_cluster_are_in_no_namespace(api: Api, server: Server) -> None:
    server.answers["/api/v1/nodes"] = {"items": [{"metadata": {"name": "node0"}}]}
    assert [one["metadata"]["name"] for one in api.list("v1", "Node")] == ["node0"]
