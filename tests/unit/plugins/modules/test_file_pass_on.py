from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.modules import file_pass_on
from support import modules

pytestmark = pytest.mark.slow


def host(name: str, **more: Any) -> dict[str, Any]:
    return {"host": name, "address": "127.0.0.1", "python": "/none/python3", **more}


def run(path: Path, hosts: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return modules.run(file_pass_on, path=str(path), head="head", hosts=hosts, **more)


@pytest.mark.parametrize("hosts", [[], [host("a", missing={})], [host("a")]])
def test_nothing_is_missing(tmp_path: Path, hosts: list[dict[str, Any]]) -> None:
    answer = run(tmp_path, hosts)
    assert (answer["changed"], answer["rounds"], answer["failures"]) == (False, 0, {})


def test_check_mode(tmp_path: Path) -> None:
    assert run(tmp_path, [host("a")], names=["data"], _ansible_check_mode=True)["changed"]
    assert run(tmp_path, [host("a", missing={"a": "is missing"})], _ansible_check_mode=True)["changed"]


def test_the_head_lacks_the_files(tmp_path: Path) -> None:
    answer = run(tmp_path, [host("a", missing={"b": "is missing"})], names=["data"])
    assert answer["msg"] == f"head has no b, data in {tmp_path}: run again"
    (tmp_path / "data").touch()
    assert run(tmp_path / "none", [host("a")], names=["x"], source=str(tmp_path))["msg"].endswith(
        f"{tmp_path}: run again"
    )


def test_hosts_that_did_not_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").touch()
    (tmp_path / "ssh").write_text("#!/bin/sh\necho no >&2; exit 255\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    answer = run(tmp_path, [host("a")], names=["data"])
    assert answer["failures"] == {"a": "a: no"}
    assert answer["msg"] == (
        f"{tmp_path} could not be copied to these hosts:\n- a: a: no\nCheck them with playbooks/doctor.yml, then run "
        "again, which copies what is missing."
    )
