"""oneCCL without mpirun for real: DistributedDataParallel and the Trainer by torchrun, on one host and between two.

What ranks are set to, and how they are launched, is the product's: its plan, rank.py and launch.sh. The environment is
one with torch, IPEX, transformers, accelerate and oneccl-bind-pt (docs/stacks.md, "oneCCL").

STAND-INS: the two hosts are network and mount namespaces of this machine with a /dev/shm of their own, and ssh enters
the second one.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import load
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import image
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.interface import PREFIX
from ansible_collections.amx.cluster.plugins.module_utils._stacks import arguments, catalogue, intel_mpi
from support import kubernetes_jobs, real_jobs, runs, runtimes, separate_hosts

VARIABLE = "AMX_CLUSTER_ONECCL_ENV"
ENV = Path(os.environ.get(VARIABLE, "/nowhere"))
HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(
    not ENV.is_dir(),
    reason=f"no package index has oneccl-bind-pt: set {VARIABLE} to an environment with IPEX into which a wheel of "
    "tools/build_oneccl.py is installed",
)
SSH = """#!/bin/bash
while [ "$1" = -o ]; do shift 2; done
cd /
exec ip netns exec {second} unshare --uts --mount bash -c '
    mount --bind {base}/node1 {base}/node0 && mount -t tmpfs tmpfs /dev/shm && exec bash -c "$1"' bash "$2"
"""
# To the only host, for mpirun, which does not know that it is this one.
SSH_ALONE = """#!/bin/bash
while [[ $1 == -* ]]; do [ "$1" = -o ] && shift; shift; done
cd / && exec bash -c "${*:2}"
"""
POD = """
hostname "$1" && mount --bind "$2" /etc/hosts && mount -t tmpfs tmpfs /dev/shm && exec timeout -k 5 "${@:3}"
"""
FIRST = 'mount -t tmpfs tmpfs /dev/shm && exec timeout -k 5 "$1" bash "$2"'


def stack() -> dict[str, Any]:
    """Return the entry of a catalogue for what is installed in the environment."""
    (site,) = ENV.glob("lib/python3*/site-packages")
    versions = {item.metadata["Name"]: item.version for item in importlib.metadata.distributions(path=[str(site)])}
    by_name = {name.replace("_", "-"): version for name, version in versions.items()}
    packages = {
        name: by_name[name] for name in ("torch", arguments.IPEX, "transformers", "accelerate", catalogue.BINDINGS)
    }
    return {
        "name": "ipex-2.8",
        "backend": "ccl",
        "bindings": "oneccl_bindings_for_pytorch",
        "interpreter": site.parent.name.removeprefix("python"),
        "packages": packages,
        "arguments": arguments.by_version(packages, "ccl"),
    }


class Hosts:
    """One host, or two in namespaces, with a job in the directory of each."""

    def __init__(self, base: Path, count: int) -> None:
        name = uuid.uuid4().hex[:6]
        self.base, self.spaces = base, [f"amx-{name}-{number}" for number in range(count)] if count > 1 else []
        self.interface = "eth0" if self.spaces else "lo"
        self.addresses = [f"10.77.0.{number + 1}" for number in range(count)] if self.spaces else ["127.0.0.1"]
        programs = {
            "python": f'#!/bin/sh\nexec {ENV}/bin/python "$@"\n',
            "torchrun": f'#!/bin/sh\nexec {ENV}/bin/python -m torch.distributed.run "$@"\n',
            "ssh": SSH.format(second=self.spaces[-1], base=base) if self.spaces else SSH_ALONE,
        }
        (base / "env/bin").mkdir(parents=True)
        (base / "env/lib").symlink_to(ENV / "lib")
        (base / "env/amx-cluster.json").write_text(json.dumps(stack()))
        for program, text in programs.items():
            (base / "env/bin" / program).write_text(text)
            (base / "env/bin" / program).chmod(0o755)

    def __enter__(self) -> Hosts:
        for space in self.spaces:
            _run("ip", "netns", "add", space)
        if self.spaces:
            first, second = self.spaces
            peer = ("peer", "name", self.interface, "netns", second)
            _run("ip", "link", "add", self.interface, "netns", first, "type", "veth", *peer)
        for space, address in zip(self.spaces, self.addresses):
            _run("ip", "-n", space, "addr", "add", f"{address}/24", "dev", self.interface)
            for interface in ("lo", self.interface):
                _run("ip", "-n", space, "link", "set", interface, "up")
        return self

    def __exit__(self, *_error: object) -> None:
        for space in self.spaces:
            _run("ip", "netns", "delete", space)

    def train(
        self, script: str, ranks: int, seconds: int = 300, has_worker: bool = True, **job: Any
    ) -> list[dict[str, Any]]:
        """Train with so many ranks on each host; return what the ranks print."""
        settings = {"head": "node0", "head_address": self.addresses[0], "shared_directory": False}
        fields = {"kind": "torch", "launcher": "torchrun", "precision": "fp32", **job}
        made = runs.run(settings, script=HERE / script, **fields)
        cpus = sorted(os.sched_getaffinity(0))
        workers = ",".join(str(cpus[rank % len(cpus)]) for rank in range(ranks))
        allocation = {
            "ranks": [{"env": {}, "domain_cpus": cpus} for _rank in range(ranks)],
            "env": {
                "OMP_NUM_THREADS": "1",
                "CCL_WORKER_COUNT": "1",
                **({"CCL_WORKER_AFFINITY": workers} if has_worker else {"CCL_WORKER_OFFLOAD": "0"}),
                "I_MPI_PIN_DOMAIN": f"[{','.join([hex(sum(1 << cpu for cpu in cpus))[2:]] * ranks)}]",
            },
            "threads_per_rank": 1,
            "core_map": runs.core_map(),
        }
        hosts: list[dict[str, Any]] = [
            {"host": f"node{number}", "address": address, "interface": self.interface, "isa": "avx512_bf16"}
            for number, address in enumerate(self.addresses)
        ]
        hosts = [{**host, "allocation": allocation} for host in hosts]
        installed = stack()
        # As the installation of the stack reads it, for mpirun.
        installed["mpi"] = intel_mpi.sourced(self.base / "env", intel_mpi.bindings_folder(installed))
        plan = runs.planned(made, installed, hosts, env=str(self.base / "env"), runtime=runtimes.installed())
        assert plan["backend"] == "ccl"
        for host in hosts:
            place = self.base / str(host["host"]) / "jobs/demo"
            for name, text in {**real_jobs.directory_files(made, plan, installed), "host": f"{host['host']}\n"}.items():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_text(text)
        enter = ["ip", "netns", "exec", self.spaces[0]] if self.spaces else []
        command = [
            "unshare",
            "--mount",
            "bash",
            "-c",
            FIRST,
            "bash",
            str(seconds),
            str(self.base / "node0/jobs/demo/launch.sh"),
        ]
        if not self.spaces:
            command = ["timeout", "-k", "5", str(seconds), "bash", command[-1]]
        ran = subprocess.run([*enter, *command], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, (ran.stdout + ran.stderr)[-9000:]
        return reports(ran.stdout, ranks * len(hosts))

    def in_pods(self, commands: list[list[str]], variables: list[dict[str, str]], seconds: int = 300) -> str:
        """Run a command in each host, as its container would with these variables alone; return what all print."""
        hosts, running = self.base / "hosts", []
        hosts.write_text(
            "127.0.0.1 localhost\n"
            + "".join(f"{address} worker-{number}\n" for number, address in enumerate(self.addresses))
        )
        logs = [self.base / f"worker-{number}.log" for number in range(len(self.spaces))]
        for space, command, own, log in zip(self.spaces, commands, variables, logs):
            enter = ["unshare", "--uts", "--mount", "bash", "-c", POD, "bash", log.stem, str(hosts), str(seconds)]
            environ = {"PATH": os.environ["PATH"], "HOME": str(self.base), **own}
            with log.open("w") as output:
                words = ["ip", "netns", "exec", space, *enter, *command]
                running.append(subprocess.Popen(words, env=environ, stdout=output, stderr=subprocess.STDOUT))
        for process in running:
            process.wait()
        printed = "".join(log.read_text() for log in logs)
        assert [process.returncode for process in running] == [0] * len(running), printed[-9000:]
        return printed

    def received(self) -> list[int]:
        """Return the bytes that each host has received from the other."""
        shown = [
            _run("ip", "-json", "-statistics", "-n", space, "link", "show", self.interface) for space in self.spaces
        ]
        return [json.loads(text)[0]["stats64"]["rx"]["bytes"] for text in shown]


def reports(printed: str, ranks: int) -> list[dict[str, Any]]:
    """Return what so many ranks have printed of themselves."""
    lines = [json.loads(line) for line in re.findall(r"\{[^{}]*\}", printed) if '"weights"' in line]
    assert sorted(line["rank"] for line in lines) == list(range(ranks)), printed[-9000:]
    return lines


def have_trained(lines: list[dict[str, Any]], precision: str = "bf16") -> None:
    """Fail unless all ranks have trained the same weights by oneCCL, and compute with these (see ipex.environment).

    In bf16 with modules of IPEX; in fp32 it has none for BERT.
    """
    assert {(line["backend"], line["wrapped"]) for line in lines} == {("ccl", "DistributedDataParallel")}
    assert len({line["weights"] for line in lines}) == 1, lines
    assert all(line["apart"] < 0.02 and (line["ipex"] > 0) == (precision == "bf16") for line in lines), lines


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def hosts(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Hosts]:
    if request.param > 1 and not separate_hosts.can_mount():
        pytest.skip("namespaces of a network need root")
    with Hosts(tmp_path, request.param) as made:
        yield made


@pytest.mark.parametrize(("hosts", "ranks"), [(1, 2), (2, 1), (2, 2)], indirect=["hosts"])
@pytest.mark.parametrize("backend", ["auto", "ccl"])
def test_ddp_by_torchrun(hosts: Hosts, ranks: int, backend: str) -> None:
    lines = hosts.train("oneccl_ranks.py", ranks, backend=backend)
    assert {line["backend"] for line in lines} == {"ccl"}
    assert {line["sum"] for line in lines} == {sum(range(1, len(lines) + 1))}
    assert len({line["weights"] for line in lines}) == 1, lines
    # Tensors travel over the network, not through memory that two hosts do not share.
    assert all(number > 4_000_000 for number in hosts.received())


@pytest.mark.parametrize("hosts", [1], indirect=True)
@pytest.mark.parametrize("launcher", ["mpirun", "torchrun"])
@pytest.mark.parametrize("has_worker", [True, False])
def test_collectives_go_on_while_ranks_compute(hosts: Hosts, launcher: str, has_worker: bool) -> None:
    """Also without a worker, by a thread of the bindings."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("a thread that is bound to a CPU is known by others of the rank on more")
    lines = hosts.train("oneccl_ranks.py", 2, launcher=launcher, has_worker=has_worker)
    assert {(line["backend"], line["ends_alone"], line["workers"]) for line in lines} == {("ccl", True, has_worker)}


@pytest.mark.parametrize(("hosts", "precision"), [(1, "fp32"), (1, "bf16"), (2, "bf16")], indirect=["hosts"])
def test_the_trainer_by_torchrun(hosts: Hosts, precision: str) -> None:
    ranks = 2 // max(1, len(hosts.spaces))
    args = {"output_dir": "output", "max_steps": 4, "per_device_train_batch_size": 4, "report_to": "none"}
    args["learning_rate"] = 0.01
    lines = hosts.train("oneccl_trainer.py", ranks, kind="trainer", precision=precision, args=args)
    have_trained(lines, precision)


@pytest.mark.parametrize("hosts", [1], indirect=True)
def test_the_trainer_by_mpirun(hosts: Hosts) -> None:
    args = {"output_dir": "output", "max_steps": 4, "per_device_train_batch_size": 4, "report_to": "none"}
    lines = hosts.train("oneccl_trainer.py", 2, kind="trainer", launcher="mpirun", precision="bf16", args=args)
    have_trained(lines)


@pytest.mark.parametrize("hosts", [2], indirect=True)
def test_pods_of_the_collection(hosts: Hosts) -> None:
    base = hosts.base
    file = base / "trains.yml"
    args = {"max_steps": 4, "per_device_train_batch_size": 4, "report_to": "none", "learning_rate": 0.01}
    file.write_text(json.dumps({"name": "trains", "script": str(HERE / "oneccl_trainer.py"), "args": args}))
    override = {"ranks_per_node": 1, "precision": "bf16"}
    derived = kubernetes_jobs.derive(file, override, stack(), workers=2, cpus=4, memory="8Gi")
    assert derived.backend == "ccl"
    shutil.copytree(runtimes.installed(), base / "programs")
    kubernetes_jobs.write(base / "job", derived, load(file, override))
    (base / "storage").mkdir()
    commands, variables = [], []
    for number, address in enumerate(hosts.addresses):
        scratch = base / f"scratch{number}"
        scratch.mkdir()
        commands.append([str(base / "env/bin/python"), "-S", str(base / "programs"), "pod", "train"])
        places = [base, base / "job", base / "storage", scratch, scratch / "outcome"]
        pod = {"POD": f"worker-{number}", "NODE": f"node{number}", "INDEX": str(number), "NETWORK": f"{address}/24"}
        own = {**pod, "PLACES": ":".join(map(str, places))}
        rendezvous = {"PET_NNODES": "2:2", "PET_RDZV_ENDPOINT": "worker-0:29500"}
        variables.append({**{f"AMX_CLUSTER_{name}": value for name, value in own.items()}, **rendezvous})
    lines = reports(hosts.in_pods(commands, variables), 2)
    have_trained(lines)


@pytest.mark.parametrize("hosts", [2], indirect=True)
def test_a_pytorchjob_that_calls_torchrun_itself(hosts: Hosts) -> None:
    """The command and the variables of Hugging Face's PyTorchJob, in the image of the stack.

    Its script is another one, without data from a hub; the variables PET_* are what the training operator makes of
    rdzvBackend c10d, and of as many replicas at least as there are.
    """
    own = image.oneccl_variables(stack())
    own = {
        name: value.replace(PREFIX, str(hosts.base)).replace("$PATH", "/usr/bin:/bin") for name, value in own.items()
    }
    options = ["--no_cuda", "--ddp_backend", "ccl", "--use_ipex", "--bf16", "--max_steps", "4", "--report_to", "none"]
    options += ["--learning_rate", "0.01"]
    command = ["torchrun", str(HERE / "oneccl_trainer.py"), "--output_dir", str(hosts.base / "output"), *options]
    rendezvous = {"RDZV_BACKEND": "c10d", "RDZV_ENDPOINT": "worker-0:29400", "RDZV_ID": "transformers"}
    operator = {**rendezvous, "NNODES": "2:2", "MAX_RESTARTS": "10", "NPROC_PER_NODE": "1"}
    pod = {
        **own,
        "CCL_WORKER_COUNT": "1",
        "LOGLEVEL": "INFO",
        **{f"PET_{key}": value for key, value in operator.items()},
    }
    lines = reports(hosts.in_pods([command, command], [pod, pod]), 2)
    have_trained(lines)
