"""Models, datasets and metrics of the Hugging Face hub: real plays and the real huggingface_hub on a stand-in hub.

The control node fetches with the Python that runs these tests (requirements.txt names huggingface_hub), the head
with the one of the environment that site.yml installed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import checkout, playbooks
from support.at_length import only_at_length
from support.hub import Hub
from support.weights import safetensors

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "hf_ThisMustNeverBeSeen"
HERE = socket.gethostname()
# huggingface_hub writes 10 MiB at a time: so large that some are written when a transfer breaks in the middle.
LARGE = 32 << 20
INSTEAD = "or take it from a directory (directory:)"
FETCH = """
import sys
from pathlib import Path
from typing import Any
from ansible_collections.amx.cluster.plugins.module_utils._data import hub
try:
    print(hub.fetch(hub.Request("model", "acme/tiny"), Path(sys.argv[1]), sys.argv[2]).path)
except hub.HubError as error:
    sys.exit(str(error))
"""


class Control:
    """A control node's directory with an inventory of one host, this machine, and a play of the role data_cache."""

    def __init__(self, folder: Path, hub: Hub, environment: Path) -> None:
        self.folder = folder
        self.head_python = environment / "bin/python"
        self.hub = hub
        self.address = hub.address
        self.model = folder / "model"
        (self.model / "vocabulary").mkdir(parents=True)
        (self.model / "config.json").write_text('{"layers": 1}')
        (self.model / "vocabulary/words.txt").write_text("one\ntwo\n")
        (self.model / "model.safetensors").write_bytes(safetensors(os.urandom(5000)))
        self.connection = "local"
        told = {
            "ansible.builtin.copy": {
                "content": "{{ data_cache_paths | default({}) | to_json }}",
                "dest": str(folder / "paths.json"),
                "mode": "0644",
            },
            "changed_when": False,
        }
        play = {"hosts": "cluster", "gather_facts": False, "roles": ["amx.cluster.data_cache"], "post_tasks": [told]}
        (folder / "play.yml").write_text(yaml.safe_dump([play]))

    def play(self, at: str = "control", kind: str = "model", revision: str = "main", *options: str, **more: Any) -> str:
        """Run the play for acme/tiny, `more` being its variables. Returns its output; `code` and `seconds` are left."""
        variables = {
            "ansible_connection": self.connection,
            "cluster_cache": str(self.folder / "control"),
            "data_cache_head_python": str(self.head_python),
            "data_cache_hub": self.address,
            "data_cache_kind": kind,
            "data_cache_sources": {"models/tiny": {"hub": "acme/tiny", "revision": revision, "at": at}},
            **more,
        }
        playbooks.write_inventory(self.folder, self.folder / "prefix", {"node0": {}}, **variables)
        del self.hub.requests[:]
        (self.folder / "paths.json").unlink(missing_ok=True)
        started = time.monotonic()
        ran = playbooks.play(self.folder, "play.yml", *options, env=clean_environment(self.folder))
        self.code, self.seconds = ran.returncode, time.monotonic() - started
        return ran.stdout

    def path(self) -> Path:
        """Where the last play said that the model is."""
        return Path(json.loads((self.folder / "paths.json").read_text())["models/tiny"])

    def files_asked(self) -> list[str]:
        """The names of the files whose contents were asked for."""
        return sorted(
            Path(asked.path).name
            for asked in self.hub.requests
            if asked.method == "GET" and not asked.path.startswith("/api/")
        )


def clean_environment(folder: Path) -> dict[str, str]:
    """The environment of a person who has no settings and no token for the hub."""
    kept = {name: value for name, value in checkout.environment().items() if not name.startswith(("HF_", "HUGGING"))}
    return {**kept, "HF_HOME": str(folder / "home")}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as served:
        served.token = TOKEN
        yield served


@pytest.fixture
def control(tmp_path: Path, hub: Hub, environment: Path) -> Control:
    return Control(tmp_path, hub, environment)


@pytest.mark.parametrize(
    ("at", "kind", "published"),
    [
        ("control", "model", "model"),
        ("head", "dataset", "dataset"),
        pytest.param("control", "metric", "space", marks=only_at_length("as a model and a dataset")),
    ],
)
def test_is_fetched_once(control: Control, at: str, kind: str, published: str) -> None:
    control.hub.publish(published, "acme/tiny", control.model)
    said = control.play(at, kind)
    assert control.code == 0, said
    assert contents(control.path()) == contents(control.model)
    assert control.files_asked() == ["config.json", "model.safetensors", "words.txt"]
    said = control.play(at, kind)
    assert "changed=0" in said, said
    assert [asked.path.split("/revision/")[-1] for asked in control.hub.requests] == ["main"], "one question is enough"


def test_check_mode_fetches_nothing(control: Control) -> None:
    control.hub.publish("model", "acme/tiny", control.model)
    said = control.play("control", "model", "main", "--check")
    assert (control.code, control.files_asked()) == (0, []), said
    assert "changed=1" in said


def test_a_commit_that_is_there_asks_nothing(control: Control) -> None:
    commit = control.hub.publish("model", "acme/tiny", control.model)
    control.play(revision=commit)
    assert control.files_asked() == ["config.json", "model.safetensors", "words.txt"]
    said = control.play(revision=commit)
    assert "changed=0" in said, said
    assert control.hub.requests == []


def test_some_of_its_files(control: Control) -> None:
    control.hub.publish("model", "acme/tiny", control.model)
    said = control.play(data_cache_sources={"models/tiny": {"hub": "acme/tiny", "files": ["*.json"]}})
    assert control.code == 0, said
    assert control.files_asked() == ["config.json"]
    assert list(contents(control.path())) == ["config.json"]
    said = control.play(data_cache_sources={"models/tiny": {"hub": "acme/tiny", "files": ["*.onnx", "x"]}})
    message = (
        "model acme/tiny has no file like *.onnx, x; it has config.json, model.safetensors, vocabulary/words.txt: "
        "correct files"
    )
    assert message in " ".join(said.split())


def test_it_is_sent_to_a_head_that_is_another_machine(control: Control) -> None:
    control.connection = "ansible.builtin.local"  # the role takes only `local` for this machine
    control.hub.publish("model", "acme/tiny", control.model)
    said = control.play()
    assert control.code == 0, said
    assert control.path().parent == control.folder / "prefix/cache/models"
    copied = contents(control.path())
    assert "Made by amx.cluster" in copied.pop(".amx-cluster.json").decode()
    assert copied == contents(control.model)
    assert not any(path.is_symlink() for path in control.path().rglob("*"))
    assert "changed=0" in control.play()


@pytest.mark.parametrize("at", ["control", pytest.param("head", marks=only_at_length("as on the control node"))])
def test_a_branch_that_has_moved(control: Control, at: str) -> None:
    control.hub.publish("model", "acme/tiny", control.model)
    control.play(at)
    before, content = control.path(), contents(control.path())
    (control.model / "config.json").write_text('{"layers": 2}')
    control.hub.publish("model", "acme/tiny", control.model)
    said = control.play(at)
    assert control.code == 0, said
    assert control.files_asked() == ["config.json"], "what both commits have is there already"
    assert contents(control.path()) == contents(control.model)
    assert control.path() != before
    assert contents(before) == content, "a running job would have lost its model"


def test_a_hub_that_is_away(control: Control) -> None:
    commit = control.hub.publish("model", "acme/tiny", control.model)
    control.play()
    path = control.path()
    control.address = "http://127.0.0.1:9"
    said = control.play()
    assert "changed=0" in said, said
    assert control.path() == path
    assert f"commit {commit} of the previous run is used." in " ".join(said.split())


@pytest.mark.parametrize(
    ("at", "case", "message"),
    [
        ("control", "unknown", "The hub {hub} has no model acme/tiny"),
        ("head", "gated", "at {hub}/acme/tiny, set data_cache_hub_token"),
        ("control", "token", "The hub {hub} does not accept the token"),
        ("head", "revision", "model acme/tiny has no revision 'v9' (it has main, v1): set revision"),
        ("control", "refused", f"The hub http://127.0.0.1:9 cannot be reached from {HERE}"),
    ],
)
def test_refusals(control: Control, at: str, case: str, message: str) -> None:
    if case != "unknown":
        control.hub.publish("model", "acme/tiny", control.model)
        control.hub.publish("model", "acme/tiny", control.model, "v1")
    if case == "gated":
        control.hub.gated.add("acme/tiny")
    control.address = "http://127.0.0.1:9" if case == "refused" else control.address
    given = {"data_cache_hub_token": "hf_AnotherOne"} if case == "token" else {}
    said = control.play(at, "model", "v9" if case == "revision" else "main", **given)
    print(f"{case}, at: {at}: {control.seconds:.1f} s")
    told = re.findall(r"(?m)^\[ERROR\]: Task failed: Module failed: (.*)$", said)
    assert control.code == 2, said
    assert len(told) == 1, said
    assert message.format(hub=control.hub.address) in told[0]
    assert "Traceback" not in said
    assert "changed=0" in said


def test_no_token_is_shown(control: Control) -> None:
    control.hub.publish("model", "acme/tiny", control.model)
    control.hub.gated.add("acme/tiny")
    log = {"data_cache_hub_token": TOKEN}
    for at in ("control", "head"):
        said = control.play(at, "model", "main", "-vvvv", "--diff", **log)
        assert control.code == 0, said
        assert TOKEN not in said
        assert {asked.token for asked in control.hub.requests if asked.server == "hub"} == {TOKEN}
        assert {asked.token for asked in control.hub.requests if asked.server == "content"} == {""}
        assert contents(control.path()) == contents(control.model)
    wrong = TOKEN[::-1]
    said = control.play("control", "model", "v9", "-vvvv", data_cache_hub_token=wrong)
    assert control.code == 2, said
    assert wrong not in said
    left = [path for path in control.folder.rglob("*") if path.is_file() and path.name != "hosts.yml"]
    assert not [path for path in left if TOKEN.encode() in path.read_bytes()]


def test_a_python_without_huggingface_hub(control: Control) -> None:
    venv.create(control.folder / "bare")
    python = control.folder / "bare/bin/python"
    said = control.play(data_cache_control_python=str(python))
    assert (
        f"{python} on {HERE} cannot import huggingface_hub (No module named 'huggingface_hub'): install it there, name "
        "a Python that has it (data_cache_control_python, data_cache_head_python), "
    ) in said


def started_fetch(control: Control) -> subprocess.Popen[str]:
    """Start to fetch acme/tiny as the head does, without a play."""
    del control.hub.requests[:]
    return subprocess.Popen(
        [control.head_python, "-c", FETCH, control.folder / "cache", control.address],
        env={**clean_environment(control.folder), "PYTHONPATH": str(ROOT / ".collections")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def fetch(control: Control) -> tuple[str, str]:
    """The same to its end. Returns the folder that was said, and the error."""
    with started_fetch(control) as process:
        said, error = process.communicate(timeout=300)
    return said.strip(), error


@only_at_length("a hub that is away is refused as well, and at once")
def test_a_hub_that_does_not_answer(control: Control) -> None:
    control.hub.mute = "/api/"
    said, error = fetch(control)
    assert not said
    assert f"The hub {control.address} cannot be reached from {HERE}" in error


def test_a_transfer_that_breaks_off_goes_on(control: Control) -> None:
    (control.model / "model.safetensors").write_bytes(safetensors(os.urandom(LARGE)))
    control.hub.publish("model", "acme/tiny", control.model)
    control.hub.break_off = {"model.safetensors": 1}
    said, error = fetch(control)
    assert said, error
    assert contents(Path(said)) == contents(control.model)
    starts = [asked.range for asked in control.hub.requests if asked.server == "content" and asked.method == "GET"]
    assert starts == ["", "bytes=10485760-"]


def test_a_fetch_that_was_killed(control: Control) -> None:
    control.hub.publish("model", "acme/tiny", control.model)
    control.hub.mute = "model.safetensors"
    with started_fetch(control) as process:
        end = time.monotonic() + 60
        while len(set((control.folder / "cache").glob("*/snapshots/*/**/*.*"))) < 2 and time.monotonic() < end:
            time.sleep(0.1)
        process.kill()
    control.hub.mute = ""
    said, error = fetch(control)
    assert control.files_asked() == ["model.safetensors"], error
    assert contents(Path(said)) == contents(control.model)


def test_where_large_files_are_is_named_when_it_cannot_be_reached(control: Control) -> None:
    control.hub.publish("model", "acme/tiny", control.model)
    content = control.hub.servers["content"]
    content.shutdown()
    content.server_close()
    place = f"http://127.0.0.1:{content.server_port}, where the hub {control.address} has files,"
    assert f"{place} cannot be reached from {HERE}" in fetch(control)[1]


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_what_arrives_damaged(control: Control, name: str) -> None:
    control.hub.publish("model", "acme/tiny", control.model)
    control.hub.damage = {name: 1}
    said, error = fetch(control)
    assert said, error
    assert contents(Path(said)) == contents(control.model)
    shutil.rmtree(control.folder / "cache")
    control.hub.damage = {name: 2}
    assert fetch(control)[1] == (
        f"model acme/tiny, fetched from the hub {control.address}, failed verification twice: {name} is damaged. "
        f"Look for a proxy or mirror that alters or caches files, {INSTEAD}\n"
    )


def test_what_is_damaged_here(control: Control) -> None:
    control.hub.publish("model", "acme/tiny", control.model)
    path = Path(fetch(control)[0])
    (path / "config.json").write_text('{"layers": 9}')  # as long as it was
    (path / "vocabulary/words.txt").unlink()
    said, error = fetch(control)
    assert Path(said) == path, error
    assert contents(path) == contents(control.model)
    assert "model.safetensors" not in control.files_asked()
