from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._stacks import archive, wheelhouse
from support.stand_ins import make_wheel

pytestmark = pytest.mark.slow


OPTIONS: dict[str, Any] = {
    "requirements": ["a==1", "b==2"],
    "constraints": None,
    "dependencies": True,
    "installed": {},
    "unpack": False,
    "cuda_build": "refuse",
    "python": "3.11",
    "only": None,
    "index_url": "none",
    "index_urls": [],
    "find_links": [],
    "sources": [],
    "index_timeout": 60,
    "ca_certificate": None,
    "proxy": None,
    "credentials": [],
}


def test_the_key_changes_with_the_request(tmp_path: Path) -> None:
    (tmp_path / "constraints.txt").write_text("c==3")
    limits = {"constraints": str(tmp_path / "constraints.txt")}
    key = wheelhouse.key({**OPTIONS, **limits}, "2.36")
    assert re.fullmatch(r"cp311-[0-9a-f]{12}", key)
    assert wheelhouse.key({**OPTIONS, **limits, "requirements": ["b==2", "a==1"]}, "2.36") == key
    others = {
        wheelhouse.key(OPTIONS, "2.36"),
        wheelhouse.key({**OPTIONS, **limits, "requirements": ["a==1"]}, "2.36"),
        wheelhouse.key({**OPTIONS, **limits, "python": "3.12"}, "2.36"),
        wheelhouse.key({**OPTIONS, **limits, "installed": {"d": "1"}}, "2.36"),
        wheelhouse.key({**OPTIONS, **limits, "unpack": True}, "2.36"),
        wheelhouse.key({**OPTIONS, **limits, "cuda_build": "allow"}, "2.36"),
        wheelhouse.key({**OPTIONS, **limits}, "2.28"),
    }
    assert len(others - {key}) == 7


def test_the_key_of_an_archive() -> None:
    wheel = {"name": "a", "version": "1", "sha256": "ab"}
    key = wheelhouse.key_of_archive({"wheels": [wheel]}, "3.11")
    assert re.fullmatch(r"cp311-[0-9a-f]{12}", key)
    assert wheelhouse.key_of_archive({"wheels": [{**wheel, "sha256": "cd"}]}, "3.11") != key


def run(command: list[str], variables: Mapping[str, str], pass_fds: Sequence[int] = ()) -> tuple[int, str, str]:
    given = {**os.environ, **variables}
    ran = subprocess.run(command, env=given, pass_fds=pass_fds, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout, ran.stderr


def ask(url: str, _login: Mapping[str, str] | None, certificate: str | None) -> str:
    assert certificate in (None, os.environ.get("PIP_CERT"))
    return "" if Path(url).is_dir() else "there is no such directory"


def collect(tmp_path: Path, **options: Any) -> tuple[list[str], list[str], Path]:
    """Collect from a directory of small wheels, with the real pip. Returns the names in the manifest, the indexes that
    did not answer, and the wheelhouse."""
    links = tmp_path / "links"
    make_wheel(links, "a", "1", requires=["dependency", "installed"])
    make_wheel(links, "b", "2")
    make_wheel(links, "dependency", "3", files={"dependency.py": "NUMBER = 3\n"})
    make_wheel(links, "installed", "4")
    make_wheel(links, "installed", "5")
    house = tmp_path / "houses" / "house"
    given = {**OPTIONS, "find_links": [str(links), str(tmp_path / "nowhere")], **options}
    found, silent = wheelhouse.collect(given, house, "2.36", run, ask)
    assert wheelhouse.read(house) == found
    return [f"{wheel['name']}-{wheel['version']}" for wheel in found], silent, house


def test_a_wheelhouse_with_dependencies(tmp_path: Path) -> None:
    staging = tmp_path / "houses" / "house.partial"
    _ownership.make(staging, "wheels")
    make_wheel(staging, "a", "0")  # of an interrupted run, and no longer requested
    found, silent, house = collect(tmp_path)
    assert found == ["a-1", "b-2", "dependency-3", "installed-5"]
    assert silent == [f"{tmp_path}/nowhere: there is no such directory"]
    assert not staging.exists()
    assert sorted(path.name for path in house.iterdir()) == [
        _ownership.MARK,
        *(f"{name}-py3-none-any.whl" for name in found),
        "manifest.json",
        "requirements.txt",
    ]
    assert (house / "requirements.txt").read_text().startswith("a==1 --hash=sha256:")


def test_a_wheel_that_an_interrupted_run_left_incomplete(tmp_path: Path) -> None:
    """The index is a directory, which gives no hash by which pip could know it."""
    staging = tmp_path / "houses" / "house.partial"
    _ownership.make(staging, "wheels")
    whole = make_wheel(staging, "a", "1", requires=["dependency", "installed"])
    whole.write_bytes(whole.read_bytes()[:100])
    assert collect(tmp_path)[0] == ["a-1", "b-2", "dependency-3", "installed-5"]


@pytest.mark.usefixtures("unconfigured")
def test_packages_come_from_where_the_project_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that is not searched, or does not answer, ends it: another one may have a package of that name."""
    own, links = str(tmp_path / "own"), str(tmp_path / "links")

    def source(option: str, url: str, package: str = "") -> dict[str, str]:
        return {"option": option, "url": url, "origin": "requirements.txt, line 1", "package": package}

    def refusal(*sources: dict[str, str], **options: Any) -> str:
        with pytest.raises(ValueError, match=r"^requirements.txt, line 1: ") as caught:
            collect(tmp_path, sources=list(sources), **options)
        assert not (tmp_path / "houses/house").exists()
        return str(caught.value).removeprefix("requirements.txt, line 1: ")

    private = "https://u:p@private.example/simple/"
    what = "***@private.example/simple/ is not searched: set "
    assert refusal(source("--index-url", private)).startswith(
        f"--index-url https://{what}torch_stack_index_url: https://private.example/simple in the inventory (user and "
    )
    first = "https://first.example/simple"
    assert (
        f"https://{what}torch_stack_index_urls: [{first}, https://private.example/simple] in the inventory"
        in refusal(source("--extra-index-url", private), index_url=first, index_urls=[first])
    )
    assert f"set torch_stack_find_links: [{links}, {tmp_path}/nowhere, {own}] in" in refusal(
        source("--find-links", own)
    )
    assert "torch_stack_index_url: none" in refusal(source("--no-index", ""), index_urls=[first])
    said = refusal(source("--find-links", f"{tmp_path}/nowhere"))
    assert said.endswith("/nowhere does not answer, and nothing else is searched instead: there is no such directory")
    said = refusal(source("--extra-index-url", private, "a"))
    assert said.startswith("--extra-index-url https://***@private.example/simple/ for a is not searched: set ")
    assert "a comes from git = x, which is not read: write a @ git+URL@REF" in refusal(
        source("elsewhere", "git = x", "a")
    )
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://configured.example/simple")
    assert f"index_urls: [{first}, " in refusal(
        source("--extra-index-url", private), index_url=first, index_urls=[first]
    )
    fine = [
        source("--extra-index-url", "https://configured.example/simple"),
        source("--find-links", links),
        source("--no-index", ""),
        source("--index-url", "https://pypi.org/simple/"),
        source("--extra-index-url", private, "no-such-requirement"),
        source("elsewhere", "path = ../b", "b"),
    ]
    wheel = make_wheel(tmp_path / "own", "b", "2")
    assert collect(tmp_path, sources=fine, wheels=[str(wheel)])[0][:2] == ["a-1", "b-2"]
    keys = {
        wheelhouse.key({**OPTIONS, "unpack": True, **changed}, "2.36")
        for changed in ({}, {"sources": fine}, {"index_url": first}, {"index_urls": [first]}, {"find_links": [own]})
    }
    assert len(keys) == 5
    assert wheelhouse.key({**OPTIONS, "index_url": first}, "2.36") == wheelhouse.key(OPTIONS, "2.36")


# Another process that collects: it writes a file when it has begun, and waits until there is a file `go`.
OTHER = """
import json, os, sys, time
sys.path[:0] = json.loads(sys.argv[1])
from pathlib import Path
import test_wheelhouse
from ansible_collections.amx.cluster.plugins.module_utils._stacks import wheelhouse
folder = Path(sys.argv[2])
def ask(*_words, **_more):
    (folder / f"begun.{os.getpid()}").touch()
    while not (folder / "go").exists():
        time.sleep(0.05)
    return ""
options = {**test_wheelhouse.OPTIONS, "find_links": [str(folder / "links")]}
house = folder / "houses" / "house"
found, _silent = wheelhouse.collect(options, house, "2.36", test_wheelhouse.run, ask)
assert wheelhouse.read(house) == found
print(" ".join(wheel["file"] for wheel in found))
"""


def other(tmp_path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", OTHER, json.dumps([str(Path(__file__).parent), *sys.path]), str(tmp_path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("killed", [False, True])
def test_two_that_collect_one_wheelhouse_at_the_same_time(tmp_path: Path, killed: bool) -> None:
    make_wheel(tmp_path / "links", "a", "1")
    make_wheel(tmp_path / "links", "b", "2")
    first = other(tmp_path)
    while not list(tmp_path.glob("begun.*")):
        assert first.poll() is None, first.communicate()
        time.sleep(0.05)
    second = other(tmp_path)
    lock = tmp_path / "houses/.house.lock"
    try:
        while not any(os.path.realpath(path) == str(lock) for path in Path(f"/proc/{second.pid}/fd").iterdir()):
            assert second.poll() is None, second.communicate()
            time.sleep(0.05)
        assert [path.name for path in tmp_path.glob("begun.*")] == [f"begun.{first.pid}"]
        if killed:
            first.kill()
    finally:
        (tmp_path / "go").touch()
    said = [process.communicate(timeout=100) for process in (first, second)]
    assert [process.returncode for process in (first, second)] == [-9 if killed else 0, 0], said
    files = ["a-1-py3-none-any.whl", "b-2-py3-none-any.whl"]
    assert [words.split() for words, _errors in said] == [[] if killed else files, files]
    names = sorted(path.name for path in (tmp_path / "houses/house").iterdir())
    assert names == [_ownership.MARK, *files, "manifest.json", "requirements.txt"]
    there = {path.name for path in (tmp_path / "houses").iterdir()}
    assert there == {_ownership.MARK, ".house.lock", "house"}


def test_packages_beside_what_is_installed(tmp_path: Path) -> None:
    found, _silent, house = collect(tmp_path, requirements=["a"], installed={"Installed": "4"}, unpack=True)
    assert found == ["a-1", "dependency-3"]
    assert (house / "packages/dependency.py").read_text() == "NUMBER = 3\n"
    assert not (house / "packages/installed.py").exists()


def test_one_of_the_wheels(tmp_path: Path) -> None:
    """As for hosts that fetch the others themselves: the manifest has the SHA-256 of all of them."""
    found, _silent, house = collect(tmp_path, only=["B"])
    assert found == ["a-1", "b-2", "dependency-3", "installed-5"]
    assert [path.name for path in house.glob("*.whl")] == ["b-2-py3-none-any.whl"]
    wheels = wheelhouse.read(house)
    assert [wheel["name"] for wheel in wheels if "bytes" in wheel] == ["b"]
    assert {len(wheel["sha256"]) for wheel in wheels} == {64}


def test_what_cannot_be_resolved(tmp_path: Path) -> None:
    error = "the wheels could not be collected: "
    missing = f"Not reachable: {tmp_path}/nowhere: there is no such directory"
    with pytest.raises(ValueError, match=rf"(?s)^{error}.*none==1.*\n{re.escape(missing)}$"):
        collect(tmp_path, requirements=["none==1"])
    assert not (tmp_path / "houses/house").exists()


def test_wheels_of_the_users_own(tmp_path: Path) -> None:
    """They are taken from where they are, before those of an index, and what they require is collected, too."""
    own = make_wheel(tmp_path / "own", "b", "7", requires=["dependency"])
    options = {"requirements": ["a", "b>2"], "installed": {"installed": "4"}, "wheels": [str(own)]}
    found, _silent, house = collect(tmp_path, **options, unpack=True)
    assert found == ["a-1", "b-7", "dependency-3"]
    assert (house / own.name).read_bytes() == own.read_bytes()
    key = wheelhouse.key({**OPTIONS, **options}, "2.36")
    assert wheelhouse.key({**OPTIONS, **options, "wheels": []}, "2.36") != key
    make_wheel(tmp_path / "own", "b", "7", requires=["dependency>1"])
    assert wheelhouse.key({**OPTIONS, **options}, "2.36") != key


@pytest.mark.parametrize(
    "text",
    [
        "[global]\nuser = true",
        "[install]\nprefix = /nonexistent/prefix",
        "[global]\ntarget = /nonexistent/target",
        "[global]\nrequire-hashes = true\nrequire-virtualenv = true\nno-binary = :all:\nplatform = win32",
        "[global]\nno-index = true\nfind-links =\n    {links}\n    {more}\n    /nonexistent",
        "[install]\nroot = /nonexistent/root\ndry-run = true\n[download]\nno-deps = true\ndest = /nonexistent",
        "[global]\nextra-index-url =\n    file://{more}\n    file://{links}\npython = /nonexistent/python",
    ],
)
def test_a_configuration_of_pip_for_other_purposes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """What a user has for their own `pip install` neither breaks a collection nor has it install anywhere else."""
    (tmp_path / "more").mkdir()
    (tmp_path / "pip.conf").write_text(text.format(links=tmp_path / "links", more=tmp_path / "more"))
    for name in [name for name in os.environ if name.startswith("PIP_") and name != "PIP_CERT"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("PIP_REQUIRE_VIRTUALENV", "1")
    found, _silent, house = collect(tmp_path, requirements=["a"], installed={"installed": "4"}, unpack=True, only=["a"])
    assert found == ["a-1", "dependency-3"]
    assert (house / "packages/a-1.dist-info").is_dir()


# The index with CPU builds, which cannot be reached here.
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


@pytest.fixture
def unconfigured(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip without this machine's configuration, which may have a torch of its own."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)


BUILT = "cp311-cp311-manylinux_2_28_x86_64"


def publish(index: Path, name: str, version: str, tag: str = "py3-none-any", requires: Iterable[str] = ()) -> None:
    """Put a small wheel into a package index that is a directory."""
    wheel = make_wheel(index / name, name, version, tag, requires=requires)
    (index / name / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')


def collect_torch(tmp_path: Path, requirement: str, **options: Any) -> dict[str, str]:
    """Collect torch where the main index has its CUDA build only. Returns {name: version}."""

    def asked(url: str, _login: Mapping[str, str] | None, certificate: str | None) -> str:
        return "no answer within 5 s" if url == CPU_INDEX else ""

    main = tmp_path / "main"
    publish(main, "torch", "2.13.0", BUILT, requires=["nvidia-cudnn", "triton"])
    publish(main, "nvidia-cudnn", "9.0")
    publish(main, "triton", "3.7")
    indexes = {"index_url": f"file://{main}", "index_urls": [CPU_INDEX]}
    given = {**OPTIONS, "requirements": [requirement], **indexes, **options}
    found, _silent = wheelhouse.collect(
        given, tmp_path / "houses" / f"house{options.get('cuda_build', '')}", "2.36", run, asked
    )
    return {wheel["name"]: wheel["version"] for wheel in found}


@pytest.mark.usefixtures("unconfigured")
def test_the_ways_out_without_the_index_of_cpu_builds(tmp_path: Path) -> None:
    """The message names three of them, and each leads to a wheelhouse."""
    with pytest.raises(ValueError, match=r"No index that answers has the CPU build of torch") as raised:
        collect_torch(tmp_path, "torch==2.13.0+cpu")
    said = str(raised.value)
    assert f"Not reachable: {CPU_INDEX}: no answer within 5 s" in said
    for way in (
        "set torch_stack_index_urls to a mirror of",
        "torch_stack_archive to its path",
        "torch_stack_cuda_build to",
    ):
        assert way in said
    assert not (tmp_path / "houses/house").exists()
    # A mirror of the index.
    publish(tmp_path / "mirror", "torch", "2.13.0+cpu", BUILT)
    mirror = {"index_urls": [f"file://{tmp_path}/mirror"]}
    assert collect_torch(tmp_path, "torch==2.13.0+cpu", **mirror) == {"torch": "2.13.0+cpu"}
    # What was collected there is the archive for a control node that reaches nothing.
    brought = tmp_path / "houses/house"
    content = archive.read(brought)
    archive.check(content, ["torch==2.13.0+cpu"], "3.11", "2.36")
    unpacked = wheelhouse.unpack(brought, tmp_path / "houses/archive", content)
    assert [one["version"] for one in unpacked] == ["2.13.0+cpu"]


@pytest.mark.usefixtures("unconfigured")
def test_the_cuda_build_is_taken_where_it_is_allowed(tmp_path: Path) -> None:
    assert collect_torch(tmp_path, "torch==2.13.0", cuda_build="allow") == {
        "nvidia-cudnn": "9.0",
        "torch": "2.13.0",
        "triton": "3.7",
    }
    with pytest.raises(
        ValueError, match=r"(?s)it would install nvidia-cudnn, triton on hosts without a GPU.*Ways out:"
    ):
        collect_torch(tmp_path, "torch==2.13.0")


@pytest.mark.usefixtures("unconfigured")
def test_the_cpu_build_is_taken_where_both_are_allowed(tmp_path: Path) -> None:
    publish(tmp_path / "mirror", "torch", "2.13.0+cpu", BUILT)
    both = {"index_urls": [f"file://{tmp_path}/mirror"]}
    assert collect_torch(tmp_path, "torch==2.13.0", cuda_build="allow", **both) == {"torch": "2.13.0+cpu"}


def test_wheels_that_were_built_here_are_preferred(tmp_path: Path) -> None:
    own = tmp_path / "built"
    assert wheelhouse.built(own, ["oneccl-bind-pt==2.8.0"], "3.11", "2.36") == []
    for libc in (28, 31, 39):
        make_wheel(own, "oneccl-bind-pt", "2.8.0+cpu", f"cp311-cp311-manylinux_2_{libc}_x86_64")
    make_wheel(own, "oneccl-bind-pt", "2.8.1", "cp311-cp311-manylinux_2_28_x86_64")
    make_wheel(own, "oneccl-bind-pt", "2.8.0", "cp312-cp312-manylinux_2_28_x86_64")
    (own / ".build-1").mkdir()
    pins = ["a==1", "oneccl-bind-pt==2.8.0"]
    (path,) = wheelhouse.built(own, pins, "3.11", "2.36")
    assert path == f"{own}/oneccl_bind_pt-2.8.0+cpu-cp311-cp311-manylinux_2_31_x86_64.whl"
    assert wheelhouse.built(own, pins, "3.10", "2.36") == []
    with pytest.raises(ValueError, match=r"2_28_x86_64.whl needs glibc 2.28, and a host has 2.17: build the wheel"):
        wheelhouse.built(own, pins, "3.11", "2.17")
    wanted = {"requirements": pins, "wheels": [path]}
    for only in (None, ["a", "oneccl_bind_pt"]):
        names, _silent, house = collect(tmp_path / ("some" if only else "all"), **wanted, only=only)
        assert "oneccl-bind-pt-2.8.0+cpu" in names
        assert (house / Path(path).name).read_bytes() == Path(path).read_bytes()


def test_a_wheel_that_was_copied_in_part(tmp_path: Path) -> None:
    make_wheel(tmp_path, "oneccl-bind-pt", "2.8.0+cpu", "cp311-cp311-manylinux_2_28_x86_64")
    (wheel,) = tmp_path.iterdir()
    wheel.write_bytes(wheel.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"28_x86_64.whl is no wheel, or a part of one: copy it again, or remove it"):
        wheelhouse.built(tmp_path, ["oneccl-bind-pt==2.8.0"], "3.11", "2.36")
    wheel.unlink()
    wheel.symlink_to("nowhere")
    with pytest.raises(ValueError, match=r"is no wheel"):
        wheelhouse.built(tmp_path, ["oneccl-bind-pt==2.8.0"], "3.11", "2.36")


def test_bindings_that_no_index_has(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"\nNo index that answers has this oneccl-bind-pt: build 2\.8\.0 by tools/build_"
    ):
        collect(tmp_path, requirements=["a==1", "oneccl-bind-pt==2.8.0"])
    with pytest.raises(ValueError, match=r"other-package") as caught:
        collect(tmp_path, requirements=["a==1", "other-package==2.8.0"])
    assert "oneccl" not in str(caught.value)
