"""The emulated machine with AMX: Bochs, as a Sapphire Rapids, in a container (molecule/amx/image).

`amx_machine.py BASE INSTALLED DIRECTORY` makes what it needs: an image of the machine from the image of bare hosts, and
a disk, in DIRECTORY, from that of installed ones. What is there already is kept.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support import runtimes
from support.checkout import ROOT

RECIPE = ROOT / "molecule/amx/image"
GUEST = ROOT / "molecule/amx/guest"
# Seconds until all commands have run, with other tests beside them. On a free core it is some minutes.
PATIENCE = 3600.0
# By name, what a guest is to run, with argv and perhaps stdin and env.
Commands = Mapping[str, Mapping[str, Any]]
MARK, END, PANIC = "amx-test: ", "amx-test ends", "Kernel panic"


def build(base: str, installed: str, directory: Path) -> None:
    """Make the image and, unless it is there, the disk. directory gets machine.json, with the names of the images."""
    directory.mkdir(parents=True, exist_ok=True)
    image = f"{base}-bochs"
    docker("build", "--network", "host", "--build-arg", f"BASE={base}", "--tag", image, str(RECIPE))
    if not (directory / "disk.img").exists():
        script = (
            "mkdir /tmp/root; tar --extract --directory /tmp/root; truncate --size 8G /disk/new;"
            "mke2fs -q -t ext4 -O ^has_journal -d /tmp/root /disk/new; mv /disk/new /disk/disk.img"
        )
        container = docker("create", installed).strip()
        try:
            with subprocess.Popen(["docker", "export", container], stdout=subprocess.PIPE) as exported:
                made = ["docker", "run", "--rm", "-i", f"--volume={directory}:/disk", "--entrypoint=sh", image, "-euc"]
                subprocess.run([*made, script], stdin=exported.stdout, check=True)
        finally:
            docker("rm", container)
    names = {"image": image, "installed": installed}
    (directory / "machine.json").write_text(json.dumps(names), encoding="utf-8")


def docker(*words: str) -> str:
    """Run docker, and return what it printed; what it reports goes to this process's. Raises CalledProcessError."""
    return subprocess.run(["docker", *words], check=True, stdout=subprocess.PIPE, text=True).stdout


class Machine:
    """Files that `build` has made in a directory. label: that of its containers in the engine."""

    def __init__(self, directory: Path, label: str) -> None:
        self.directory, self.label = directory, label
        self.names: dict[str, str] = json.loads((directory / "machine.json").read_text(encoding="utf-8"))

    def run(
        self, kernel: str, commands: Commands, cleared: Sequence[str] = (), extra: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Boot a kernel ("6.1", "5.10") and run commands in it; return the answer of each by its name.

        An answer has code, output, errors and seconds. cleared: CPU flags that the kernel ignores. extra: further
        files in /run/payload, {name: content}. Raises RuntimeError if not all commands have ended in time.
        """
        with payload(commands, extra) as files:
            (files / "machine").mkdir()
            volumes = [f"{self.directory}:/disk:ro", f"{files}/machine:/machine", f"{files}/payload:/payload:ro"]
            words = [f"--label={self.label}", *(f"--volume={volume}" for volume in volumes)]
            words += [self.names["image"], kernel, ",".join(cleared)]
            container = docker("create", *words).strip()
            try:
                docker("start", container)
                return wait(container, files / "machine/console", commands)
            finally:
                docker("rm", "--force", "--volumes", container)

    def run_here(self, commands: Commands, extra: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Run the commands in a container with the same files as the disk, on this machine's own CPU and kernel."""
        with payload(commands, extra) as files:
            words = [f"--label={self.label}", "--rm", "--env=AMX_TEST_ENDS=1", "--entrypoint=python3"]
            words += [f"--volume={files}/payload:/run/payload:ro", self.names["installed"]]
            return read(docker("run", *words, "/run/payload/guest.py"))[0]

    def installed_file(self, path: str) -> str:
        """Return the text of a file of the disk."""
        return docker("run", f"--label={self.label}", "--rm", "--entrypoint=cat", self.names["installed"], path)


def wait(container: str, console: Path, commands: Commands) -> dict[str, Any]:
    """Wait for the answers to commands on the console of a machine."""
    deadline = time.monotonic() + PATIENCE
    while True:
        running = docker("inspect", "--format", "{{.State.Running}}", container).strip() == "true"
        output = console.read_text(encoding="utf-8", errors="replace") if console.exists() else ""
        answers, ended = read(output)
        if ended and answers.keys() == commands.keys():
            return answers
        if ended or not running or PANIC in output or time.monotonic() > deadline:
            log = subprocess.run(["docker", "logs", container], capture_output=True, text=True, check=False)
            raise RuntimeError(
                f"the machine {'runs' if running else 'has stopped'}, with answers to {', '.join(answers) or 'none'}"
                f" of {', '.join(commands)}:\n{log.stdout}{log.stderr}\n{output[-6000:]}"
            )
        time.sleep(1)


def read(console: str) -> tuple[dict[str, Any], bool]:
    """Return the answers in what a guest printed on its console, and whether it has come to its end."""
    answers, ended = {}, False
    for line in console.splitlines():
        if line.startswith(MARK):
            try:
                answer = json.loads(line.removeprefix(MARK))
            except ValueError:  # it is being written
                continue
            answers[answer.pop("name")] = answer
        ended = ended or line.startswith(END)
    return answers, ended


@contextmanager
def payload(commands: Commands, extra: Mapping[str, str] | None) -> Iterator[Path]:
    """Yield a directory whose `payload` the guest gets: its program, the collection, and Ansible's part of modules."""
    with tempfile.TemporaryDirectory(prefix="amx_machine_") as temporary:
        write_payload(Path(temporary) / "payload", commands)
        for name, text in (extra or {}).items():
            path = Path(temporary) / "payload" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        yield Path(temporary)


def write_payload(payload: Path, commands: Commands) -> None:
    """Write the files of a payload."""
    import ansible

    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    collection = payload / "lib/ansible_collections/amx/cluster"
    shutil.copytree(GUEST, payload, ignore=ignored)
    for name in ("modules", "module_utils"):
        shutil.copytree(ROOT / "plugins" / name, collection / "plugins" / name, ignore=ignored)
    shutil.copytree(runtimes.installed(), payload / "runtime", ignore=ignored)
    package = Path(ansible.__file__).parent
    shutil.copytree(package / "module_utils", payload / "lib/ansible/module_utils", ignore=ignored)
    shutil.copy(package / "release.py", payload / "lib/ansible/release.py")
    (payload / "lib/ansible/__init__.py").touch()
    (payload / "commands.json").write_text(json.dumps(commands), encoding="utf-8")


if __name__ == "__main__":
    build(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
