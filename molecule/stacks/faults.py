"""Faults of an installation, one after another, on hosts on which site.yml has just installed the stack tiny.

Called by verify.yml, see tests/support/cluster.py. Each starts from what the one before has left.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import shutil
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from support.cluster import CONTAINERS, EPHEMERAL, PATIENCE, PREFIX, Play, addresses, on, words
from support.journeys import check, make

CACHE = EPHEMERAL / "cache" / "wheelhouse"
# Copied for faults on the control node, so that the cache stays as it is.
COPY = EPHEMERAL / "copy"
# The modules of tiny-2, see prepare.yml: so many that pip can be interrupted while it installs them.
PARTS = 6000


def site(*options: str) -> Play:
    """Start site.yml; trust between the hosts is there already."""
    return Play("site", "--tags", "always,torch_stack", *options)


def refused(play: Play, *parts: str) -> None:
    """Wait for a play that must fail and say these words, and leave the virtual environment in use as it is."""
    before = in_use()
    output = words(play.fail())
    missing = [part for part in parts if part not in output]
    check(not missing, f"{play.command} does not say {missing}:\n{output[-3000:]}")
    check(in_use() == before, f"{before} became {in_use()}")


def in_use() -> set[str]:
    """Return the virtual environments in use on the hosts, seen to work: the name, and the version of tiny_core."""
    program = "import tiny_core; print(tiny_core.__version__)"
    found = set()
    for host in CONTAINERS:
        name = Path(on(host, f"readlink {PREFIX}/env", fails=False).strip()).name
        found.add(f"{name} {on(host, f'{PREFIX}/env/bin/python -c {program!r}', fails=False).strip()}")
    return found


def uses(stack: str, version: str) -> str:
    """Check which stack the hosts use, and return its virtual environment."""
    now = in_use()
    (one,) = now if len(now) == 1 else ("different ones",)
    check(one.startswith(f"{stack}-cp") and one.endswith(f" {version}"), f"in use: {now}")
    return one.split()[0]


def house_of(package: str, version: str, cache: Path = CACHE) -> Path:
    """Return the directory on the control node with the wheels of a stack, by one of them."""
    return next(path.parent for path in cache.glob(f"*/{package}-{version}-*.whl"))


def wheels_cross_once() -> list[str]:
    """Compare the bytes that all hosts received from the control node while site.yml ran first with the wheels'."""

    def received(when: str) -> int:
        return sum(int((EPHEMERAL / f"received_{when}_{host}").read_text()) for host in CONTAINERS)

    crossed = received("after") - received("before")
    size = sum(path.stat().st_size for path in house_of("tiny_data", "1.0").glob("*.whl"))
    check(size <= crossed <= 1.1 * size, f"{crossed} bytes crossed for wheels of {size}")
    return [
        f"{crossed / 1e6:.1f} MB came from the control node for {len(CONTAINERS)} hosts and wheels of "
        f"{size / 1e6:.1f} MB: {crossed / size:.3f} times"
    ]


def killed_in_the_middle() -> list[str]:
    before = in_use()
    play = site("-e", "cluster_stack=tiny-2")
    count = f"ls {PREFIX}/envs/tiny-2-*/lib/python3*/site-packages/tiny_core 2>/dev/null | grep -c ^part"
    end, parts = time.monotonic() + PATIENCE, 0
    while not 0 < parts < PARTS and not play.ended() and time.monotonic() < end:
        parts = int(on("node1", count) or 0)
    check(not play.ended(), "the play ended before pip was at work")
    play.kill()
    check(in_use() == before, f"{before} became {in_use()}")
    site("-e", "cluster_stack=tiny-2").succeed()
    uses("tiny-2", "2.0")
    complete = int(on("node1", count))
    check(complete == PARTS, f"{complete} files of {PARTS}")
    return [f"killed with {parts} of {PARTS} files installed: the old environment worked on; run again: ready"]


def rolled_back() -> list[str]:
    new = uses("tiny-2", "2.0")
    site("-e", "torch_stack_use=previous").succeed()
    old = uses("tiny", "1.0")
    site("-e", f"torch_stack_use={new}").succeed()
    uses("tiny-2", "2.0")
    kept = on("node0", f"ls {PREFIX}/envs").split()
    check(sorted(kept) == sorted([old, new]), f"{kept} are kept")
    refused(
        site("-e", "torch_stack_use=nothing"),
        "torch_stack_use is 'nothing', and there is no such virtual environment",
    )
    return [f"{old} and back to {new}, one variable and no wheel later; {len(kept)} environments kept"]


def damaged_on_the_head() -> list[str]:
    """A wheel that was damaged on its way is sent again, that one only."""
    on("node0", f"for wheel in {PREFIX}/wheels/*/tiny_core-1*; do echo >> $wheel; done", fails=False)
    for host in CONTAINERS:
        on(host, f"rm -rf {PREFIX}/envs/tiny-cp*", fails=False)
    output = site("-e", "cluster_stack=tiny").succeed()
    check("MB of wheels of" in words(output), output[-1500:])
    uses("tiny", "1.0")
    return ["a wheel damaged on the head was sent again, and installed"]


def damaged_on_the_control_node() -> list[str]:
    """After it was collected: nothing may reach the hosts."""
    shutil.rmtree(COPY, ignore_errors=True)
    shutil.copytree(CACHE, COPY)
    for host in CONTAINERS:
        on(host, f"rm -rf {PREFIX}/envs/tiny-2-* {PREFIX}/wheels/*", fails=False)
    wheel = next(house_of("tiny_core", "2.0", COPY).glob("tiny_core-*.whl"))
    content = bytearray(wheel.read_bytes())
    content[50] ^= 1
    wheel.write_bytes(content)
    play = site("-e", "cluster_stack=tiny-2", "-e", f"torch_stack_wheelhouse={COPY}")
    refused(play, f"{wheel.name} is damaged; remove this directory there and run again")
    return [f"{wheel.name}: refused by its SHA-256, named with its directory; the environment in use untouched"]


def from_an_archive() -> list[str]:
    """The wheelhouse as a tar file, on a control node that has collected nothing."""
    house = house_of("tiny_core", "2.0")
    brought, bare = EPHEMERAL / "brought.tar", EPHEMERAL / "bare"
    with tarfile.open(brought, "w") as tar:
        tar.add(house, arcname=house.name)
    options = {
        "cluster_stack": "tiny-2",
        "torch_stack_wheelhouse": str(EPHEMERAL / "nothing"),
        "torch_stack_source": "archive",
    }
    site("-e", json.dumps({**options, "torch_stack_archive": str(brought)})).succeed()
    name = uses("tiny-2", "2.0")
    bare.mkdir(exist_ok=True)
    refused(site("-e", json.dumps({**options, "torch_stack_archive": str(bare)})), "has no manifest.json")
    return [f"{name} from a tar file; a directory without a manifest refused"]


@contextlib.contextmanager
def index() -> Iterator[str]:
    """A package index of the small wheels, on the control node's address in the hosts' network."""
    gateway = addresses("management")["node0"].rpartition(".")[0] + ".1"
    root = EPHEMERAL / "index"
    shutil.rmtree(root, ignore_errors=True)
    for wheel in (EPHEMERAL / "wheels").glob("*.whl"):
        page = root / "simple" / wheel.name.partition("-")[0].replace("_", "-") / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        with page.open("a") as file:
            file.write(f'<a href="/files/{wheel.name}#sha256={digest}">{wheel.name}</a>\n')
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


def from_an_index() -> list[str]:
    """Each host by itself, with the hashes that the control node resolved."""
    for host in CONTAINERS:
        on(host, f"rm -rf {PREFIX}/envs/tiny-cp* {PREFIX}/wheels/*", fails=False)
    with index() as url:
        options = {"cluster_stack": "tiny", "torch_stack_index_url": url, "torch_stack_source": "index"}
        output = site("-e", json.dumps(options)).succeed()
    name = uses("tiny", "1.0")
    check("secret" not in output, "the index's password is in the output")
    for part in ("left out, as they did not answer: http://127.0.0.1:9/simple: ", "http://192.0.2.1/simple: "):
        check(part in words(output), f"{part!r} is missing:\n{output[-3000:]}")
    return [f"{name}, fetched by each host; two indexes that do not answer left out and named, no password shown"]


def stand_ins_do_not_pass_the_check() -> list[str]:
    """The way of a stack with ccl, up to its check, which must see through the stand-ins."""
    play = site("-e", "cluster_stack=ipex-2.8")
    refused(
        play,
        "torch.distributed cannot be imported",
        "oneccl_bindings_for_pytorch cannot be imported",
        "libiomp5.so is missing",
    )
    output = words(play.output())
    for part in ("oneccl-bind-pt 2.8.0 is not installed", "another package replaced it"):
        check(part not in output, f"it says {part!r}:\n{output[-3000:]}")
    return [
        "installed from STAND-INS with the names and versions of ipex-2.8 (no real torch, IPEX or oneCCL), every pin "
        "as asked; the check refused them, and the environment in use stayed"
    ]


JOURNEYS = (
    wheels_cross_once,
    killed_in_the_middle,
    rolled_back,
    damaged_on_the_head,
    damaged_on_the_control_node,
    from_an_archive,
    from_an_index,
    stand_ins_do_not_pass_the_check,
)

# What only `make test-all` runs, and why.
AT_LENGTH = {
    from_an_archive: "test_archive.py has what is an archive; what is in it is installed as from the control node",
    stand_ins_do_not_pass_the_check: "test_venv_check.py has what the check sees through",
}

if __name__ == "__main__":
    sys.exit(make([[journey] for journey in JOURNEYS], at_length=AT_LENGTH))
