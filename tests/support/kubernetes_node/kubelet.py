"""The kubelets of the nodes: each with a directory, a control group and an engine of its own, as it seems to it.

Two kubelets on one engine would end each other's pods as strangers: the second one sees the engine through engine.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from support.checkout import ROOT
from support.kubernetes_node.processes import Processes, free_ports

SOCKET = "/var/run/docker.sock"
ENGINE = f"unix://{SOCKET}"
ENGINE_SUFFIX = "-engine"
DOMAIN = "cluster.local"
# What pods of a node may have together.
MEMORY = 4 * 2**30
# By which the pods' containers are known in the engine: the second node's are spelt otherwise (engine.py).
LABELS = ("io.kubernetes.pod.uid", "ib.kubernetes.pod.uid")


@dataclass(frozen=True)
class Node:
    """A kubelet. directory: with all that it writes. address: where it listens. cpu: the one that it has for pods."""

    name: str
    directory: Path
    address: str
    group: str
    cpu: int
    is_first: bool

    def __str__(self) -> str:
        return f"{self.name} (CPU {self.cpu} for pods)"

    @property
    def engine(self) -> Path:
        """The socket of its engine."""
        return Path(SOCKET) if self.is_first else self.directory / "engine.sock"


def nodes(state: Path, address: str, identity: str) -> list[Node]:
    """Return the two nodes of this machine."""
    return [
        Node(name, state / name, address, f"amx-{identity}-{name}", cpu, name == "node-a")
        for name, cpu in (("node-a", 1), ("node-b", 0))
    ]


def sandbox_image(built: Path) -> str:
    """Return the image of pods' sandboxes, made of busybox where the engine does not have it."""
    busybox = built / "busybox"
    name = f"amx-cluster-node:sandbox-{hashlib.sha256(busybox.read_bytes()).hexdigest()[:12]}"
    if subprocess.run(["docker", "image", "inspect", name], capture_output=True, check=False).returncode:
        tar = subprocess.run(["tar", "-C", str(built), "-c", "busybox"], check=True, capture_output=True).stdout
        command = 'ENTRYPOINT ["/busybox", "sleep", "infinity"]'
        subprocess.run(["docker", "import", "-c", command, "-", name], input=tar, check=True, capture_output=True)
    return name


def configuration(node: Node) -> dict[str, object]:
    """Return the kubelet's configuration: nothing of the engine that is not a pod's is ever removed."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    others = ",".join(str(cpu) for cpu in range(os.cpu_count() or 1) if cpu != node.cpu)
    [port] = free_ports(1)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "port": port,
        "healthzPort": 0,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.group}",
        "clusterDNS": [node.address],
        "clusterDomain": DOMAIN,
        "cpuManagerPolicy": "static",
        "cpuManagerReconcilePeriod": "5s",
        "reservedSystemCPUs": others,
        "systemReserved": {"memory": str(max(total - MEMORY, 0))},
        "evictionHard": dict.fromkeys(("memory.available", "nodefs.available", "imagefs.available"), "0%"),
        "failSwapOn": False,
        "featureGates": {"DevicePlugins": False, "SizeMemoryBackedVolumes": True},
        "imageGCHighThresholdPercent": 100,
        "makeIPTablesUtilChains": False,
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "10s",
        "volumePluginDir": str(node.directory / "plugins"),
    }


def start(node: Node, processes: Processes, built: Path, kubeconfig: Path, image: str) -> None:
    """Start the kubelet of a node. What it keeps in the system's directories lies in its own, mounted there for it."""
    root = node.directory / "root"
    own = {"/var/log/pods": "pods", "/var/log/containers": "containers", "/var/lib/kubelet": "kubelet"}
    for name in ("root", "plugins", "shim", "certificates", *own.values()):
        (node.directory / name).mkdir(parents=True)
    for path in own:
        Path(path).mkdir(parents=True, exist_ok=True)
    make_group(node.group)
    # What is mounted for pods has to be seen by the engine.
    subprocess.run(["mount", "--bind", str(root), str(root)], check=True)
    subprocess.run(["mount", "--make-shared", str(root)], check=True)
    if not node.is_first:
        environ = {"PYTHONPATH": str(ROOT / "tests")}
        command = [sys.executable, "-m", "support.kubernetes_node.engine", SOCKET, str(node.engine)]
        processes.start(f"{node.name}{ENGINE_SUFFIX}", command, **environ)
    config = node.directory / "config.json"
    config.write_text(json.dumps(configuration(node), indent=1))
    command = [
        *(f"{built}/kubelet", f"--kubeconfig={kubeconfig}", f"--config={config}", f"--hostname-override={node.name}"),
        *("--container-runtime=docker", f"--docker-endpoint=unix://{node.engine}"),
        *(f"--container-runtime-endpoint=unix://{node.directory}/shim.sock", f"--pod-infra-container-image={image}"),
        *(f"--experimental-dockershim-root-directory={node.directory}/shim", f"--root-dir={root}"),
        *(f"--cert-dir={node.directory}/certificates", f"--node-ip={node.address}", f"--docker=unix://{node.engine}"),
    ]
    mounts = "".join(f'mount --bind "{node.directory}/{name}" {path} && ' for path, name in own.items())
    alone = ["unshare", "--mount", "--propagation=unchanged", "sh", "-c"]
    processes.start(node.name, [*alone, f'mount --make-private / && {mounts}exec "$@"', "kubelet", *command])


def hierarchies(*kinds: str) -> list[Path]:
    """Return where the control groups of each controller are mounted. kinds: of file system."""
    mounted = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return [Path(where) for _what, where, kind, *_ in mounted if kind in kinds]


def make_group(name: str) -> None:
    """Make a control group, in all hierarchies."""
    for hierarchy in hierarchies("cgroup"):
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            if (group / file).exists():
                (group / file).write_text((hierarchy / file).read_text())


def remove(state: Path, identity: str) -> None:
    """Remove what kubelets that have ended leave: containers, mounts, control groups."""
    for label in LABELS:
        listing = ["docker", "ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={label}"]
        found = subprocess.run(listing, capture_output=True, text=True, check=False).stdout.split()
        mine = [one for one in found if is_of(one, identity)]
        if mine:
            subprocess.run(["docker", "rm", "--force", "--volumes", *mine], capture_output=True, check=False)
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in reversed([path for path in mounted if path.startswith(f"{state}/")]):
        subprocess.run(["umount", "--lazy", place], check=False)
    for hierarchy in hierarchies("cgroup", "cgroup2"):
        for group in hierarchy.glob(f"amx-{identity}-node-*"):
            remove_groups(group)


def is_of(container: str, identity: str) -> bool:
    """Return whether a container is of these nodes: another checkout may have nodes, too."""
    form = "{{.HostConfig.CgroupParent}}"
    command: Sequence[str] = ["docker", "inspect", "--format", form, container]
    parent = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return f"amx-{identity}-node-" in parent


def remove_groups(group: Path) -> None:
    """Remove a control group and those inside."""
    for inside in group.iterdir():
        if inside.is_dir():
            remove_groups(inside)
    try:
        group.rmdir()
    except OSError as error:
        print(f"{group}: {error.strerror}", flush=True)
