"""The collection, installed by ansible-galaxy from a git server, works from a directory that `amx init` makes."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

from support.checkout import BIN, ROOT
from support.cluster import CONTAINERS, EPHEMERAL, HEAD, Play, directory, on, status, until, words
from support.journeys import check
from support.served import free_ports

NAME = "mine"


def an_installed_collection_trains() -> list[str]:
    """Install the collection; then site, train, status and results by FQCN, without the checkout."""
    home = EPHEMERAL / "installed"
    shutil.rmtree(home, ignore_errors=True)
    mine = home / "mine"
    home.mkdir(parents=True)
    collection = install(home)
    subprocess.run([str(collection / "cli/amx"), "init", str(mine)], env=environment(home), check=True)
    text = (mine / "jobs/csv.yml").read_text(encoding="utf-8")
    (mine / f"jobs/{NAME}.yml").write_text(text.replace("\nname: csv\n", f"\nname: {NAME}\n"), encoding="utf-8")

    def play(name: str, *options: str) -> Play:
        return Play(name, *options, playbook=f"amx.cluster.{name}", where=mine, env=environment(home))

    site = play("site").succeed()
    trained = play("train", "-e", f"amx_job=jobs/{NAME}.yml").succeed()
    shown = play("status").succeed()
    play("results", "-e", f"amx_job={NAME}").succeed()
    refused = play("train", "-e", "amx_job=none.yml").fail()
    ended = status(NAME)
    kept = sorted(path.name for path in (mine / "results" / NAME).iterdir())
    copied = on(HEAD, f"grep -rl {ROOT} {directory(NAME)} 2>/dev/null | head").split()
    check("Done in " in site, f"of site:\n{site[-2000:]}")
    check(ended.get("state") == "succeeded", f"status of the job: {ended}")
    check(NAME in words(shown), f"status does not list the job:\n{shown[-2000:]}")
    check("report.html" in kept and "output" in kept, f"what was fetched: {kept}")
    check("amx.cluster." in trained and "playbooks/" not in trained, f"commands that it names:\n{trained[-3000:]}")
    check("none.yml" in refused, f"of a job file that is not there:\n{refused[-2000:]}")
    check(not copied, f"the job's files name the checkout: {copied}")
    check(not (collection / "results").exists(), "results are in the collection")
    return [
        f"the collection, installed with ansible-galaxy from a git server into an empty directory: site, train (a CSV "
        f"file), status and results by FQCN from a directory of `amx init`, on {len(CONTAINERS)} hosts"
    ]


def install(home: Path) -> Path:
    """Install the tree as it is from a git server on this machine; return where the collection is."""
    repository, port = home / "amx.cluster.git", free_ports()
    git = ["git", f"--git-dir={repository}", f"--work-tree={ROOT}", "-c", "user.name=me", "-c", "user.email=me@example"]
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message=The tree"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    words_of_galaxy = [
        str(BIN / "ansible-galaxy"),
        "collection",
        "install",
        "--no-deps",
        "-p",
        str(home / "collections"),
    ]
    address = ["--listen=127.0.0.1", f"--port={port}", f"--base-path={home}"]
    with subprocess.Popen(["git", "daemon", "--export-all", *address], start_new_session=True) as server:
        try:
            until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
            # Those that it depends on are in the package ansible; there is no Galaxy here that could be asked for them.
            subprocess.run(
                [*words_of_galaxy, f"git+git://127.0.0.1:{port}/amx.cluster.git"],
                cwd=home,
                env=environment(home),
                check=True,
                capture_output=True,
            )
        finally:
            os.killpg(server.pid, signal.SIGTERM)
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
