"""Faults of an installation, one after another, on the hosts of this scenario.

    python faults.py '{HOST: CONTAINER, ...}' '{HOST: ADDRESS, ...}'

Starts from hosts on which site.yml has just installed the stack tiny. Each fault prints a line; the first one that is
not met as it should be ends the run with the output of its play.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PROJECT = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
SCENARIO = Path(os.environ["MOLECULE_SCENARIO_DIRECTORY"])
EPHEMERAL = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"])
CACHE = EPHEMERAL / "cache" / "wheelhouse"
PREFIX = "/opt/amx-cluster"
CONTAINERS: dict[str, str] = json.loads(sys.argv[1])
ADDRESSES: dict[str, str] = json.loads(sys.argv[2])


def command(*extra: str) -> list[str]:
    """site.yml on this scenario's hosts; trust between them is there already."""
    inventories = [PROJECT / "molecule/shared/inventory", SCENARIO / "inventory", EPHEMERAL / "inventory"]
    play = [str(Path(sys.executable).parent / "ansible-playbook"), str(PROJECT / "playbooks/site.yml")]
    return [*play, *(f"--inventory={path}" for path in inventories), "--tags", "always,torch_stack", *extra]


def play(*extra: str, fails: bool = False) -> str:
    """Run site.yml and return what it said; exits with that when it did not end as it should."""
    ran = subprocess.run(command(*extra), cwd=PROJECT, capture_output=True, text=True, check=False)
    if (ran.returncode != 0) != fails:
        sys.exit(f"site.yml {' '.join(extra)} ended with {ran.returncode}:\n{ran.stdout[-6000:]}\n{ran.stderr[-2000:]}")
    return " ".join(ran.stdout.split())


def on(host: str, *words: str) -> str:
    """Run a command on a host as the user who owns the installation, and return what it printed."""
    execute = ["docker", "exec", "--user", "train", CONTAINERS[host], *words]
    return subprocess.run(execute, capture_output=True, text=True, check=True).stdout.strip()


def expect(said: bool, what: str) -> None:
    if not said:
        sys.exit(f"not as it should be: {what}")


def in_use() -> set[str]:
    """The environments in use on the hosts, seen to work: their tiny_core, or an error, behind the name."""
    program = "import tiny_core; print(tiny_core.__version__)"
    return {
        f"{Path(on(host, 'readlink', f'{PREFIX}/env')).name} {on(host, f'{PREFIX}/env/bin/python', '-c', program)}"
        for host in CONTAINERS
    }


def received() -> int:
    """Bytes that all hosts have received from the control machine since the scenario was prepared."""
    total = 0
    for host, address in ADDRESSES.items():
        find = f"ip -o -4 address | grep -F ' {address}/' | cut -d' ' -f2"
        now = on(host, "sh", "-c", f"cat /sys/class/net/$({find})/statistics/rx_bytes")
        total += int(now) - int((EPHEMERAL / f"received_{host}").read_text())
    return total


def wheels_crossed_once() -> str:
    house = next(path for path in CACHE.iterdir() if any(path.glob("tiny_data-*.whl")))
    size = sum(path.stat().st_size for path in house.glob("*.whl"))
    crossed = received()
    expect(size <= crossed <= 1.1 * size, f"{crossed} bytes crossed for wheels of {size}")
    return (
        f"{crossed / 1e6:.1f} MB came from the control machine for {len(CONTAINERS)} hosts and wheels of "
        f"{size / 1e6:.1f} MB: {crossed / size:.3f} times"
    )


def killed_in_the_middle() -> str:
    before = in_use()
    process = subprocess.Popen(
        command("-e", "cluster_stack=tiny-2"),
        cwd=PROJECT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    half = f"ls {PREFIX}/envs/tiny-2-*/lib/python3*/site-packages/tiny_core | grep -c ^part"
    until = time.monotonic() + 120
    parts = 0
    while process.poll() is None and time.monotonic() < until:
        with contextlib.suppress(subprocess.CalledProcessError, ValueError):
            parts = int(on("node1", "sh", "-c", f"{half} 2>/dev/null"))
        if 0 < parts < 15000:
            break
        time.sleep(0.05)
    expect(process.poll() is None, "the play ended before pip was at work")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    expect(in_use() == before, f"{before} became {in_use()}")
    play("-e", "cluster_stack=tiny-2")
    now = in_use()
    expect(len(now) == 1 and all(name.endswith(" 2.0") for name in now), f"{now} is in use")
    count = on("node1", "sh", "-c", half)
    expect(count == "15000", f"{count} files of 15000")
    return f"killed with {parts} of 15000 files installed: the old environment worked on; run again: ready"


def gone_back() -> str:
    play("-e", "torch_stack_use=previous")
    (back,) = in_use()
    expect(back.startswith("tiny-cp") and back.endswith(" 1.0"), back)
    play("-e", f"torch_stack_use={back.split()[0]}")
    kept = on("node0", "sh", "-c", f"ls {PREFIX}/envs").split()
    expect(len(kept) == 2, f"{kept} are kept")
    wrong = play("-e", "torch_stack_use=nothing", fails=True)
    expect("torch_stack_use is 'nothing', and there is no such virtual environment" in wrong, wrong[-800:])
    return f"{back}, one variable and no wheel later; {len(kept)} environments kept"


def damaged_wheel() -> str:
    """On the control machine, after it was collected: nothing may reach the hosts."""
    before = in_use()
    house = CACHE / "damaged"
    if house.exists():
        shutil.rmtree(house)
    # Collected for another prefix first, so that only the copy is damaged.
    collect = ["-e", "cluster_stack=tiny-3", "-e", f"torch_stack_wheelhouse={house}"]
    play(*collect, "-e", "torch_stack_prefix=/tmp/elsewhere")
    wheel = next(house.glob("*/tiny_core-*.whl"))
    content = bytearray(wheel.read_bytes())
    content[50] ^= 1
    wheel.write_bytes(content)
    said = play(*collect, fails=True)
    content[50] ^= 1
    wheel.write_bytes(content)
    expect(f"{wheel.name} is damaged; remove this directory there and run again" in said, said[-1500:])
    expect(in_use() == before, f"{before} became {in_use()}")
    return f"{wheel.name}: refused by its SHA-256, named with its folder; the environment in use untouched"


def damaged_on_the_way() -> str:
    """On the head: mended by sending that one wheel again."""
    remove = f"rm -rf {PREFIX}/envs/tiny-2-*"
    on("node0", "sh", "-c", f"{remove}; for wheel in {PREFIX}/wheels/*/tiny_core-2*; do echo >> $wheel; done")
    on("node1", "sh", "-c", remove)
    said = play("-e", "cluster_stack=tiny-2")
    expect("MB of wheels of" in said, said[-1500:])
    (now,) = in_use()
    expect(now.endswith(" 2.0"), now)
    return "a wheel damaged on the head was sent again, and installed"


def archive() -> str:
    """The wheelhouse as a tar file, on a control machine that has collected nothing."""
    house = next((CACHE / "damaged").glob("cp*"))  # which is whole again
    brought = EPHEMERAL / "brought.tar"
    with tarfile.open(brought, "w") as tar:
        tar.add(house, arcname=house.name)
    nothing = EPHEMERAL / "nothing"
    told = ["-e", "cluster_stack=tiny-3", "-e", f"torch_stack_wheelhouse={nothing}", "-e", "torch_stack_source=archive"]
    play(*told, "-e", f"torch_stack_archive={brought}")
    (now,) = in_use()
    expect(now.startswith("tiny-3") and now.endswith(" 3.0"), now)
    bare = EPHEMERAL / "bare"
    bare.mkdir(exist_ok=True)
    said = play(*told, "-e", f"torch_stack_archive={bare}", fails=True)
    expect("has no manifest.json" in said, said[-800:])
    return f"{now} from a tar file; a folder without a manifest refused"


@contextlib.contextmanager
def index() -> Iterator[str]:
    """A package index of the small wheels, on the control machine's address in the hosts' network."""
    gateway = ADDRESSES["node0"].rpartition(".")[0] + ".1"
    root = EPHEMERAL / "index"
    shutil.rmtree(root, ignore_errors=True)
    for wheel in (EPHEMERAL / "wheels").glob("*.whl"):
        folder = root / "simple" / wheel.name.partition("-")[0].replace("_", "-")
        folder.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        with (folder / "index.html").open("a") as page:
            page.write(f'<a href="/files/{wheel.name}#sha256={digest}">{wheel.name}</a>\n')
    (root / "files").symlink_to(EPHEMERAL / "wheels")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(root))  # type: ignore[arg-type]

        def log_message(self, *_args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer((gateway, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://me:secret@{gateway}:{server.server_address[1]}/simple"
        server.shutdown()


def from_an_index() -> str:
    """Each host by itself, with the hashes that the control machine resolved."""
    with index() as url:
        told = json.dumps({"cluster_stack": "tiny", "torch_stack_index_url": url, "torch_stack_source": "index"})
        for host in CONTAINERS:
            on(host, "sh", "-c", f"rm -rf {PREFIX}/envs/tiny-cp* {PREFIX}/wheels/*")
        said = play("-e", told)
    (now,) = in_use()
    expect(now.startswith("tiny-cp") and now.endswith(" 1.0"), now)
    expect("secret" not in said, "the index's password is in the output")
    expect("Left out: http://127.0.0.1:9/simple: " in said and "http://192.0.2.1/simple: " in said, said[-3000:])
    return f"{now}, fetched by each host; two indexes that do not answer left out and named, no password shown"


def no_room() -> str:
    before = in_use()
    for container in CONTAINERS.values():
        small = "mkdir -p /small && mount -t tmpfs -o size=20m,mode=777 none /small"
        subprocess.run(["docker", "exec", container, "sh", "-c", small], check=True)
    said = play("-e", "torch_stack_prefix=/small", fails=True)
    expect("/small has 0.0 GB free and the installation takes 0.5 GB" in said, said[-1500:])
    expect(in_use() == before, f"{before} became {in_use()}")
    return "named with the host, the room there is and the room it takes; nothing changed"


def misfit() -> str:
    added = {"torch_stack_catalogue": {"odd": {"python": ["3.11"], "backend": "gloo", "packages": {}}}}
    added["torch_stack_catalogue"]["odd"]["packages"] = {"torch": "2.7.1+cpu", "intel-extension-for-pytorch": "2.8.0"}
    said = play("-e", json.dumps({**added, "cluster_stack": "odd"}), fails=True)
    expect("intel-extension-for-pytorch 2.8.0 needs torch 2.8.0" in said, said[-1500:])
    return "torch 2.7.1 with IPEX 2.8.0: refused before anything was fetched"


def stand_ins() -> str:
    """The way of a stack with ccl, up to its check, which must see through the stand-ins."""
    before = in_use()
    said = play("-e", "cluster_stack=ipex-2.8", fails=True)
    for word in (
        "torch.distributed cannot be imported",
        "oneccl_bindings_for_pytorch cannot be imported",
        "libiomp5.so is missing",
    ):
        expect(word in said, said[-3000:])
    expect(
        "oneccl-bind-pt 2.8.0 is not installed" not in said and "another package replaced it" not in said, said[-3000:]
    )
    expect(in_use() == before, f"{before} became {in_use()}")
    return (
        "installed from STAND-INS with the names and versions of ipex-2.8 (no real torch, IPEX or oneCCL), every pin "
        "as asked; the check refused them, and the environment in use stayed"
    )


FAULTS: tuple[Callable[[], str], ...] = (
    wheels_crossed_once, killed_in_the_middle, gone_back, damaged_on_the_way, damaged_wheel, archive, from_an_index,
    no_room, misfit, stand_ins,
)  # fmt: skip

if __name__ == "__main__":
    for fault in FAULTS:
        started = time.monotonic()
        told = fault()
        print(f"{fault.__name__.replace('_', ' ')}: {told} ({time.monotonic() - started:.0f} s)", flush=True)
    play()
