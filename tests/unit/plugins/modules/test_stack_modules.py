"""The modules of stacks and data as Ansible runs them, in check mode too, and that they return what they document."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._stacks import venv as environments
from ansible_collections.amx.cluster.plugins.modules import (
    file_set,
    file_set_info,
    requirements_info,
    stack_info,
    venv,
    venv_activate,
    venv_check_info,
    venv_info,
    wheelhouse,
)
from support import modules

pytestmark = pytest.mark.slow


STACK = {"name": "mine", "backend": "gloo", "interpreter": "3.11"}
HOSTS = {
    name: {"pythons": {"own": ["3.11", "/usr/bin/python3"], "others": {}, "fixed": [], "error": ""}, "os": "debian 12"}
    for name in ("node0", "node1")
}


def run(module: ModuleType, **options: Any) -> dict[str, Any]:
    """Return what a module returns when it is run as a program, as Ansible does, without its own options."""
    result = modules.run(module, **options)
    # Ansible adds these to every result, and to one that has a path.
    added = {"invocation", "owner", "group", "mode", "size", "uid", "gid", "state"}
    result = {key: value for key, value in result.items() if key not in added}
    if hasattr(module, "RETURN"):
        assert set(result) <= {"changed", "failed", "msg", "diff", *modules.documented(module)}
    return result


def install(prefix: Path, name: str, stack: dict[str, Any] | None = None) -> None:
    """Make a virtual environment of one empty directory; it has passed its checks if it has a stack."""
    environments.begin(prefix / "envs" / name)
    if stack:
        environments.mark(prefix / "envs" / name, stack)


def test_gather_virtual_environments(tmp_path: Path) -> None:
    assert run(venv_info, prefix=str(tmp_path)) == {
        "changed": False, "installed": [], "active": "", "path": "", "stack": {}, "ready": False, "problems": [],
    }  # fmt: skip
    install(tmp_path, "mine-1", STACK)
    environments.activate(tmp_path, "mine-1")
    found = run(venv_info, prefix=str(tmp_path), name="mine-1", find="1")
    assert (found["active"], found["path"], found["stack"]) == ("mine-1", str(tmp_path / "envs/mine-1"), STACK)
    assert (found["ready"], found["found"]) == (True, "mine-1")
    wheel = {"file": "torch-2-cp27-cp27m-linux_x86_64.whl", "unpacked": 1}
    (problem,) = run(venv_info, prefix=str(tmp_path), name="mine-2", wheels=[wheel])["problems"]
    assert f"which cannot use {wheel['file']}: set torch_stack_python" in problem


def test_activate(tmp_path: Path) -> None:
    install(tmp_path, "mine-1", STACK)
    install(tmp_path, "mine-2")
    environments.activate(tmp_path, "mine-1")
    options = {"prefix": str(tmp_path), "name": "mine-2", "keep": 0}
    refused = run(venv_activate, **options)
    assert refused["failed"]
    assert refused["msg"].startswith(f"{tmp_path}/envs/mine-2 has not passed its checks: run site.yml")
    looked = run(venv_activate, **options, stack=STACK, _ansible_check_mode=True)
    assert (looked["changed"], looked["previous"], looked["removed"]) == (True, "mine-1", [])
    assert looked["diff"] == {"before": "mine-1\n", "after": "mine-2\n"}
    assert (environments.active(tmp_path), environments.installed(tmp_path)) == ("mine-1", ["mine-1"])
    done = run(venv_activate, **options, stack=STACK)
    assert (done["changed"], done["previous"], done["removed"]) == (True, "mine-1", ["mine-1"])
    assert (environments.active(tmp_path), environments.installed(tmp_path)) == ("mine-2", ["mine-2"])
    again = run(venv_activate, **options, stack=STACK)
    assert (again["changed"], again["removed"]) == (False, [])
    mpi = {"PATH": "/opt/mpi/bin"}
    assert run(venv_activate, **options, stack=STACK, mpi=mpi)["changed"]
    assert not run(venv_activate, **options, stack=STACK)["changed"]
    assert environments.marker(tmp_path / "envs/mine-2") == {**STACK, "mpi": mpi}


def test_check_a_virtual_environment(tmp_path: Path) -> None:
    result = run(venv_check_info, path=str(tmp_path), stack=STACK, versions={})
    assert (result["changed"], result["found"]) == (False, {})
    assert result["problems"][0].startswith("the checks did not start: ")


def test_get_a_stack() -> None:
    catalogue = {"mine": {"python": ["3.11"], "backend": "gloo", "packages": {"transformers": "5.23.0"}}}
    result = run(stack_info, name="mine", catalogue=catalogue, hosts=HOSTS)
    assert result["stack"]["interpreter"] == "3.11"
    assert result["pythons"]["node1"] == {"path": "/usr/bin/python3", "package": ""}
    assert result["stack"]["arguments"]["cpu"] == {"use_cpu": True}
    refused = run(stack_info, name="my", catalogue=catalogue)
    assert refused["msg"].startswith("cluster_stack is 'my', which is not in the catalogue")


URL = "https://me:s3cret-word@127.0.0.1:9/simple"


def test_no_module_shows_the_credentials_of_an_index(tmp_path: Path) -> None:
    """Neither what it returns nor its options, which Ansible shows with -vvv; an error has the host only."""
    packages = {"transformers": "5.23.0"}
    catalogue = {"mine": {"python": ["3.11"], "backend": "gloo", "packages": packages, "index_urls": [URL]}}
    chosen = modules.run(stack_info, name="mine", catalogue=catalogue, hosts=HOSTS)
    assert chosen["stack"]["index_urls"] == ["https://127.0.0.1:9/simple"]
    install(tmp_path, "mine-1")
    marked = modules.run(venv_activate, prefix=str(tmp_path), name="mine-1", stack={**STACK, "index_urls": [URL]})
    assert marked["changed"]
    again = modules.run(venv_activate, prefix=str(tmp_path), name="mine-1", stack={**STACK, "index_urls": [URL]})
    assert not again["changed"]
    indexes: dict[str, Any] = {
        "index_urls": [URL],
        "find_links": [URL],
        "proxy": URL.replace("simple", ""),
        "index_timeout": 1,
    }
    request: dict[str, Any] = {"requirements": ["none==1"], "python": "3.11", "glibc": ["2.36"], "index_url": URL}
    collected = modules.run(wheelhouse, path=str(tmp_path / "houses"), **request, **indexes)
    assert "https://***@127.0.0.1:9/simple: " in collected["msg"]
    wheel = {"name": "pip", "version": "1", "file": "pip-1-py3-none-any.whl", "sha256": "0" * 64}
    installed = modules.run(
        venv, path=str(tmp_path / "envs/mine-2"), wheels=[wheel], wheel_directory=str(tmp_path), **indexes
    )
    assert installed["failed"]
    for answer in (chosen, marked, again, collected, installed):
        assert "s3cret-word" not in json.dumps(answer)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if b"s3cret-word" in path.read_bytes()]


def test_credentials_that_pip_cannot_read_are_refused(tmp_path: Path) -> None:
    login = {"host": "a.example", "user": "me", "password": "two s3cret words"}
    options: dict[str, Any] = {"credentials": [login], "index_urls": ["https://a.example/simple"]}
    wheel = {"name": "pip", "version": "1", "file": "pip-1-py3-none-any.whl", "sha256": "0" * 64}
    (tmp_path / "envs").mkdir()
    answers = [
        modules.run(venv, path=str(tmp_path / "envs/a"), wheels=[wheel], wheel_directory=str(tmp_path), **options),
        modules.run(wheelhouse, path=str(tmp_path), requirements=["none==1"], python="3.11", glibc=["2.36"], **options),
    ]
    for answer in answers:
        assert answer["msg"].startswith("the password in the credentials for a.example ")
        assert "s3cret" not in json.dumps(answer)


def test_compare_requirements() -> None:
    result = run(requirements_info, requirements=["pytest < 1", "no-such-package >= 2"])
    assert result["missing"] == ["no-such-package >= 2"]
    assert result["conflicts"] == [f"pytest < 1 conflicts with pytest {pytest.__version__}, which is installed"]
    assert result["installed"]["pytest"] == pytest.__version__


def test_verify_files(tmp_path: Path) -> None:
    (tmp_path / "model/sub").mkdir(parents=True)
    (tmp_path / "model/sub/a").write_text("a")
    listed = run(file_set_info, path=str(tmp_path / "model"), record=str(tmp_path / "record.json"))
    assert [entry["file"] for entry in listed["files"]] == ["sub/a"]
    assert (tmp_path / "record.json").exists()
    options: dict[str, Any] = {"path": str(tmp_path / "copy"), "files": listed["files"]}
    looked = run(file_set, **options, strict=True, _ansible_check_mode=True)
    assert (looked["changed"], looked["differences"]) == (True, {"sub/a": "is missing"})
    assert not (tmp_path / "copy").exists()
    assert run(file_set, **options)["changed"]
    (tmp_path / "copy/sub/a").write_text("b")
    refused = run(file_set, **options, strict=True)
    assert refused["msg"] == f"{tmp_path}/copy failed verification: sub/a is damaged; run again"
    (tmp_path / "copy/sub/a").write_text("a")
    assert run(file_set, **options, strict=True) == {"changed": False, "differences": {}}
