"""The built archive, installed by ansible-galaxy, works from a directory of the user, by the names of playbooks."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from support.checkout import BIN, ROOT
from support.cluster import CONTAINERS, EPHEMERAL, HEAD, Play, directory, on, status, words
from support.journeys import check

NAME = "mine"


def an_installed_archive_trains() -> list[str]:
    """Build and install the collection; then site, train, status and results by FQCN, without the checkout."""
    home = EPHEMERAL / "installed"
    shutil.rmtree(home, ignore_errors=True)
    mine = home / "mine"
    mine.mkdir(parents=True)
    collection = install(home)
    # As README says: the example's job and script, copied.
    for name in ("csv.yml", "messages", "scripts"):
        source = collection / "jobs" / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, mine / name)
    text = (mine / "csv.yml").read_text(encoding="utf-8")
    (mine / f"{NAME}.yml").write_text(text.replace("\nname: csv\n", f"\nname: {NAME}\n"), encoding="utf-8")

    def play(name: str, *options: str) -> Play:
        return Play(name, *options, playbook=f"amx.cluster.{name}", where=mine, env=environment(home))

    site = play("site").succeed()
    trained = play("train", "-e", f"amx_job={NAME}.yml").succeed()
    shown = play("status").succeed()
    play("results", "-e", f"amx_job={NAME}").succeed()
    refused = play("train", "-e", "amx_job=none.yml").fail()
    ended = status(NAME)
    kept = sorted(path.name for path in (mine / "results" / NAME).iterdir())
    copied = on(HEAD, f"grep -rl {ROOT} {directory(NAME)} 2>/dev/null | head").split()
    check("failed=0" in site and "unreachable=0" in site, f"of site:\n{site[-2000:]}")
    check(ended.get("state") == "succeeded", f"status of the job: {ended}")
    check(NAME in words(shown), f"status does not list the job:\n{shown[-2000:]}")
    check("report.html" in kept and "output" in kept, f"what was fetched: {kept}")
    check("amx.cluster." in trained and "playbooks/" not in trained, f"commands that it names:\n{trained[-3000:]}")
    check("none.yml" in refused, f"of a job file that is not there:\n{refused[-2000:]}")
    check(not copied, f"the job's files name the checkout: {copied}")
    check(not (collection / "results").exists(), "results are in the collection")
    return [
        f"the archive, installed with ansible-galaxy into an empty directory: site, train (a CSV file), status and "
        f"results by FQCN from a directory of the user's own, on {len(CONTAINERS)} hosts"
    ]


def install(home: Path) -> Path:
    """Build the archive, install it into a directory, and return where the collection is."""
    galaxy = str(BIN / "ansible-galaxy")
    subprocess.run(
        [galaxy, "collection", "build", "--output-path", str(home)], cwd=ROOT, check=True, capture_output=True
    )
    (archive,) = home.glob("amx-cluster-*.tar.gz")
    # Those that it depends on are in the package ansible; there is no Galaxy here that could be asked for them.
    subprocess.run(
        [galaxy, "collection", "install", str(archive), "--no-deps", "-p", str(home / "collections")],
        cwd=home,
        env=environment(home),
        check=True,
        capture_output=True,
    )
    return home / "collections/ansible_collections/amx/cluster"


def environment(home: Path) -> dict[str, str]:
    """Return the environment of a user who has never seen the checkout."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "DOCKER_HOST", "SSH_AUTH_SOCK") if name in os.environ}
    return {
        **kept,
        "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_COLLECTIONS_PATH": str(home / "collections"),
        "ANSIBLE_NOCOLOR": "1",
    }
