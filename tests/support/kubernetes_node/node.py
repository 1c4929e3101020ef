"""Real nodes of Kubernetes on this machine, for tests: tests/support/kubernetes_node.sh start | stop.

start: builds Kubernetes 1.20.2 where that is not kept (build.sh), and starts etcd, kube-apiserver (RBAC, tokens),
kube-controller-manager, kube-scheduler, and a kubelet for each node, which runs pods on the machine's Docker engine
with cores of their own (static CPU manager). Two machines are not there, so that the two nodes are this machine twice:
a node keeps all CPUs but one for its system, and each has another one for pods. Stand-ins are DNS (dns.py) and
Kubeflow's training operator (training_operator.py). Writes the kubeconfigs of an administrator and of an ordinary user.
stop: ends all of that, and removes pods' containers, control groups, mounts and state.

Exit code 3 with a reason where this machine cannot do it.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import yaml
from support.checkout import ROOT
from support.kubernetes_node import kubelet, objects
from support.kubernetes_node.api import Client, RefusedError
from support.kubernetes_node.processes import Processes, free_ports, until

HERE = Path(__file__).parent
CACHE = ROOT / ".cache" / "kubernetes"
LOGS = CACHE / "run"
IDENTITY = hashlib.sha256(str(ROOT).encode()).hexdigest()[:6]
# What is written while it runs: sockets have short names, and the volume is not in the checkout.
STATE = Path(f"/var/lib/amx-kubernetes-{IDENTITY}")
ADMIN, USER = CACHE / "admin.kubeconfig", CACHE / "user.kubeconfig"
CONTEXT = "amx-test"
NAMESPACE = "training"
IMPOSSIBLE = 3
# Of Docker's API: the latest that the kubelet was made for.
DOCKER_API = (1, 40)


class ImpossibleError(Exception):
    """This machine cannot run a node. It says why."""


class FailedError(Exception):
    """It could, but something failed. It says what."""


def say(text: str) -> None:
    print(text, flush=True)


def output(*command: str) -> str:
    """Return what a command writes. Raises CalledProcessError."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def check_machine() -> str:
    """Return the address of the Docker engine's bridge. Raises ImpossibleError where no node can run."""
    if os.geteuid() != 0:
        raise ImpossibleError("a kubelet needs root")
    os_release = Path("/etc/os-release").read_text() if Path("/etc/os-release").exists() else ""
    if not re.search(r"^ID(_LIKE)?=.*debian", os_release, re.MULTILINE) or not shutil.which("apt-get"):
        raise ImpossibleError("Kubernetes is built from Debian's packages, and this is no Debian")
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        raise ImpossibleError(
            "the control groups of this machine are version 2, which Kubernetes 1.20 is not built for"
        )
    if (os.cpu_count() or 1) < 2:
        raise ImpossibleError("two nodes need two CPUs")
    if os.environ.get("DOCKER_HOST", kubelet.ENGINE) != kubelet.ENGINE:
        raise ImpossibleError(f"DOCKER_HOST is not {kubelet.ENGINE}: pods run on this machine's own engine")
    try:
        driver = output("docker", "info", "--format", "{{.CgroupDriver}}")
        oldest = output("docker", "version", "--format", "{{.Server.MinAPIVersion}}")
        bridge = output("docker", "network", "inspect", "bridge", "--format", "{{json (index .IPAM.Config 0)}}")
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        raise ImpossibleError(f"no Docker engine: {said.strip()}") from None
    if tuple(int(part) for part in oldest.split(".")) > DOCKER_API:
        raise ImpossibleError(f"the Docker engine speaks its API from {oldest} on only, and the kubelet an older one")
    if driver != "cgroupfs":
        raise ImpossibleError(f"the Docker engine has control groups by {driver}, and the kubelet by cgroupfs")
    # An engine that runs for the first time names no gateway: it has taken the first address.
    found = json.loads(bridge)
    return str(found.get("Gateway") or ipaddress.ip_network(found["Subnet"])[1])


def programs() -> Path:
    """Return the directory of Kubernetes' programs, built now where they are not kept."""
    digest = hashlib.sha256((HERE / "build.sh").read_bytes()).hexdigest()[:12]
    built = CACHE / f"build-{digest}"
    if not built.exists():
        log = CACHE / "build.log"
        CACHE.mkdir(parents=True, exist_ok=True)
        say(f"Building Kubernetes 1.20.2 from Debian's sources: some minutes, once (log: {log})")
        began = time.monotonic()
        with log.open("wb") as file:
            done = subprocess.run(["sh", str(HERE / "build.sh"), str(built)], stdout=file, stderr=file, check=False)
        if done.returncode:
            end = log.read_text(errors="replace").splitlines()[-3:]
            raise FailedError(f"Kubernetes could not be built: {' | '.join(end)}")
        say(f"Built it in {time.monotonic() - began:.0f} s")
    return built


def kubeconfig(path: Path, server: str, authority: Path, user: str, token: str, namespace: str) -> None:
    """Write the kubeconfig of a user, as JSON, which is YAML."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": CONTEXT,
        "clusters": [
            {
                "name": CONTEXT,
                "cluster": {"server": server, "certificate-authority": str(authority)},
            }
        ],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": user, "namespace": namespace}}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps(content, indent=1) + "\n")


def start_server(processes: Processes, built: Path, address: str) -> None:
    """Start etcd, the API server, the controllers and the scheduler; two users have tokens."""
    client_port, peer_port, port, controllers, scheduler = free_ports(5)
    tokens = {"admin": secrets.token_hex(16), objects.USER: secrets.token_hex(16)}
    STATE.mkdir(mode=0o711)
    for name in ("etcd", "certificates"):
        (STATE / name).mkdir(mode=0o700)
    file = STATE / "tokens.csv"
    file.touch(mode=0o600)
    file.write_text(f"{tokens['admin']},admin,1,system:masters\n{tokens[objects.USER]},{objects.USER},2\n")
    key = STATE / "certificates/service-accounts.key"
    output("openssl", "genrsa", "-out", str(key), "2048")
    etcd = f"http://127.0.0.1:{client_port}"
    processes.start(
        "etcd",
        [
            *(f"{built}/etcd", f"--data-dir={STATE}/etcd"),
            *(f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}"),
            *(f"--listen-peer-urls=http://127.0.0.1:{peer_port}", "--logger=zap", "--log-level=warn"),
        ],
    )
    processes.start(
        "kube-apiserver",
        [
            *(f"{built}/kube-apiserver", f"--etcd-servers={etcd}", f"--cert-dir={STATE}/certificates"),
            *("--bind-address=127.0.0.1", f"--secure-port={port}", f"--advertise-address={address}"),
            *("--service-account-issuer=tests", f"--service-account-signing-key-file={key}"),
            *(f"--service-account-key-file={key}", f"--token-auth-file={file}", "--authorization-mode=RBAC"),
            *("--service-cluster-ip-range=10.255.0.0/24", "--kubelet-preferred-address-types=InternalIP"),
        ],
    )
    own = f"https://127.0.0.1:{port}", STATE / "certificates/apiserver.crt"
    kubeconfig(ADMIN, *own, "admin", tokens["admin"], NAMESPACE)
    kubeconfig(USER, *own, objects.USER, tokens[objects.USER], NAMESPACE)
    if not until(lambda: answers(processes), 120):
        raise FailedError(f"the API server did not come up: {processes.tail('kube-apiserver')}")
    for name, its_port, more in (
        ("kube-controller-manager", controllers, [f"--service-account-private-key-file={key}"]),
        ("kube-scheduler", scheduler, []),
    ):
        (STATE / name).mkdir(mode=0o700)
        common = [f"--kubeconfig={ADMIN}", "--port=0", f"--secure-port={its_port}", "--bind-address=127.0.0.1"]
        command = [f"{built}/{name}", *common, f"--cert-dir={STATE}/{name}", "--leader-elect=false", *more]
        processes.start(name, command)


def answers(processes: Processes) -> bool:
    """Return whether the API server is ready. Raises FailedError when it has ended."""
    for name in ("etcd", "kube-apiserver"):
        if not processes.runs(name):
            raise FailedError(f"{name} has ended: {processes.tail(name)}")
    try:
        return bool(Client(ADMIN).call("GET", "/readyz") == "ok")
    except (OSError, RefusedError):
        return False


def ready(client: Client, names: Sequence[str]) -> bool:
    """Return whether all nodes are."""
    conditions = {
        node["metadata"]["name"]: {one["type"]: one["status"] for one in node["status"].get("conditions", [])}
        for node in client.list("Node")
    }
    return all(conditions.get(name, {}).get("Ready") == "True" for name in names)


def start() -> None:
    processes = Processes(LOGS)
    if processes.names():
        if all(processes.runs(name) for name in processes.names()):
            say("Kubernetes runs already")
            return
        stop()
    address = check_machine()
    built = programs()
    began = time.monotonic()
    start_server(processes, built, address)
    client = Client(ADMIN)
    nodes = kubelet.nodes(STATE, address, IDENTITY)
    image = kubelet.sandbox_image(built)
    for node in nodes:
        kubelet.start(node, processes, built, ADMIN, image)
    client.apply(yaml.safe_load(objects.CRD.read_text()))
    objects.make(client, NAMESPACE, STATE / "volumes")
    environ = {"PYTHONPATH": str(ROOT / "tests")}
    modules = "support.kubernetes_node"
    processes.start("dns", [sys.executable, "-m", f"{modules}.dns", str(ADMIN), address], **environ)
    processes.start("training_operator", [sys.executable, "-m", f"{modules}.training_operator", str(ADMIN)], **environ)
    names = [node.name for node in nodes]
    if not until(lambda: ready(client, names), 120):
        raise FailedError("\n".join(f"{name} is not ready: {processes.tail(name)}" for name in names))
    for node in nodes:
        objects.label(client, node.name)
    say(f"Kubernetes runs since {time.monotonic() - began:.0f} s: {', '.join(map(str, nodes))}")
    say("Stand-ins: DNS (support/kubernetes_node/dns.py), Kubeflow's training operator (training_operator.py)")
    say(f"kubeconfig of an ordinary user: {USER}, of the administrator: {ADMIN}; context {CONTEXT}")


def stop() -> None:
    """End all processes, the kubelets before pods are removed, which they would start again."""
    processes = Processes(LOGS)
    names = processes.names()
    for name in sorted(names, key=lambda name: (not name.startswith("node-"), name == "etcd")):
        if not name.endswith(kubelet.ENGINE_SUFFIX):
            processes.end(name)
    kubelet.remove(STATE, IDENTITY)
    for name in names:
        processes.end(name)
    shutil.rmtree(STATE, ignore_errors=True)
    for file in (ADMIN, USER):
        file.unlink(missing_ok=True)
    if names:
        say(f"Ended {', '.join(names)}")


def main(words: list[str]) -> int:
    if words not in (["start"], ["stop"]):
        print("usage: kubernetes_node.sh start | stop", file=sys.stderr)
        return 2
    if words == ["stop"]:
        stop()
        return 0
    try:
        start()
    except ImpossibleError as error:
        say(f"No node of Kubernetes: {error}")
        return IMPOSSIBLE
    except FailedError as error:
        say(f"Kubernetes did not start (logs: {LOGS}): {error}")
        stop()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
