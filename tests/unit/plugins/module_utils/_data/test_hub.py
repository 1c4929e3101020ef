"""What needs no hub: what is kept and verified, and what errors mean. tests/integration/test_hub.py has the rest."""

from __future__ import annotations

import errno
import hashlib
import platform
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._data import hub
from ansible_collections.amx.cluster.plugins.module_utils._data.hub import Request, _explain, _File, _Store

COMMIT = "0123456789" * 4
REQUEST = Request("model", "acme/tiny")
HUB = "https://huggingface.co"


def git_sum(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


FILES = {
    "config.json": _File(2, git_sum(b"{}")),
    "model.bin": _File(4, hashlib.sha256(b"1234").hexdigest()),
    "of a mirror without sums": _File(None, ""),
    "sub/empty": _File(0, git_sum(b"")),
}


@pytest.fixture
def store(tmp_path: Path) -> _Store:
    _ownership.make(tmp_path / "hub", "repositories of the hub")
    store = _Store(tmp_path / "hub", REQUEST)
    for name, content in zip(FILES, (b"{}", b"1234", b"anything", b"")):
        path = store.snapshot(COMMIT) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return store


def test_a_complete_commit(store: _Store) -> None:
    assert store.snapshot(COMMIT).parent.parent.name == "models--acme--tiny"
    assert not store.is_complete(COMMIT), "nothing was verified yet"
    assert store.differences(COMMIT, FILES) == {}
    assert store.is_complete(COMMIT)
    assert not store.is_complete(COMMIT[::-1])


@pytest.mark.parametrize(
    ("name", "content", "difference"),
    [
        ("config.json", b"[]", "is damaged"),
        ("model.bin", b"1243", "is damaged"),
        ("model.bin", b"123", "is damaged"),
        ("sub/empty", b"?", "is damaged"),
        ("sub/empty", None, "is missing"),
        ("of a mirror without sums", None, "is missing"),
    ],
)
def test_what_differs(store: _Store, name: str, content: bytes | None, difference: str) -> None:
    store.differences(COMMIT, FILES)
    (store.snapshot(COMMIT) / name).unlink()
    if content is not None:
        (store.snapshot(COMMIT) / name).write_bytes(content)
    assert not store.is_complete(COMMIT)
    assert store.differences(COMMIT, FILES) == {name: difference}
    assert not store.is_complete(COMMIT)


def test_a_file_that_was_only_touched_is_verified_again(store: _Store) -> None:
    store.differences(COMMIT, FILES)
    (store.snapshot(COMMIT) / "config.json").touch()
    assert not store.is_complete(COMMIT)
    assert store.differences(COMMIT, FILES) == {}
    assert store.is_complete(COMMIT)


def test_a_damaged_record_is_no_proof(store: _Store) -> None:
    store.differences(COMMIT, FILES)
    (store.directory / "verified" / f"{COMMIT}.json").write_text("{")
    assert not store.is_complete(COMMIT)


def test_the_target_of_a_damaged_link_is_dropped(store: _Store) -> None:
    path, blob = store.snapshot(COMMIT) / "model.bin", store.directory / "blobs/1"
    blob.parent.mkdir()
    path.rename(blob)
    path.symlink_to("../../blobs/1")
    store.drop(COMMIT, "model.bin")
    assert not path.is_symlink()
    assert not blob.exists()


def test_a_damaged_file_of_somebody_elses_directory_stays(tmp_path: Path) -> None:
    others = _Store(tmp_path, REQUEST)
    path = others.snapshot(COMMIT) / "model.bin"
    path.parent.mkdir(parents=True)
    path.touch()
    with pytest.raises(hub.HubError, match=f"is damaged: remove {path}, in a directory that this collection has not"):
        others.drop(COMMIT, "model.bin")
    assert path.exists()


def test_revisions_are_remembered(store: _Store) -> None:
    assert store.commit("refs/pr/1") == ""
    store.remember("refs/pr/1", COMMIT)
    assert store.commit("refs/pr/1") == COMMIT
    store.remember(COMMIT, COMMIT)
    assert store.commit(COMMIT) == ""


def answered(status: int, code: str = "", message: str = "") -> Exception:
    """An error as huggingface_hub raises it for an answer, inside of one that only says that something went wrong."""
    headers = {"X-Error-Code": code, "X-Error-Message": message}
    error, outer = Exception(f"{status} for url"), FileNotFoundError("cannot be found in the cache")
    error.response = SimpleNamespace(status_code=status, headers=headers)  # type: ignore[attr-defined]
    outer.__cause__ = error
    return outer


class TransportError(Exception):
    """Named as the base class of httpx's errors of the network."""


def of_the_network(request: Any = None) -> Exception:
    error, outer = TransportError("[Errno -2] Name or service not known"), FileNotFoundError("cannot be found")
    error.request = request  # type: ignore[attr-defined]
    outer.__cause__ = error
    return outer


HERE = platform.node()


@pytest.mark.parametrize(
    ("error", "wanted", "message"),
    [
        (
            answered(403, "GatedRepo"),
            Request("dataset", "acme/data", token="hf_1"),
            "dataset acme/data is gated, and was requested with the token in data_cache_hub_token: accept its terms "
            "at https://huggingface.co/datasets/acme/data, set data_cache_hub_token to a token of the same account, "
            "or take it from a directory (directory:)",
        ),
        (
            answered(404, "RepoNotFound"),
            Request("space", "evaluate-metric/f1", token="hf_1"),
            "The hub https://huggingface.co has no space evaluate-metric/f1, or does not show it; it was requested "
            "with the token in data_cache_hub_token. Check its name; if it is private, set data_cache_hub_token to a "
            "token that may read it; or take it from a directory (directory:)",
        ),
        (
            answered(503, "", "Down for maintenance"),
            REQUEST,
            f"The hub https://huggingface.co answered 503 (Down for maintenance) when {HERE} requested model "
            "acme/tiny: run again later, which fetches the missing files, or take it from a directory (directory:)",
        ),
        (
            answered(401, "", "Invalid credentials in Authorization header"),
            REQUEST,
            "The hub https://huggingface.co does not accept the token with which model acme/tiny was requested "
            f"(data_cache_hub_token, or HF_TOKEN or a login on {HERE}): replace it, or take it from a directory "
            "(directory:)",
        ),
        (
            answered(404, "RevisionNotFound"),
            REQUEST,
            "model acme/tiny has no revision 'main': set revision to a branch, tag or commit of it",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            REQUEST,
            f"model acme/tiny cannot be stored on {HERE}: No space left on device",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "/data/hub"),
            REQUEST,
            f"model acme/tiny cannot be stored on {HERE}: Permission denied: /data/hub",
        ),
        (
            of_the_network(SimpleNamespace(url="https://huggingface.co/acme/tiny/resolve/main/config.json")),
            REQUEST,
            f"The hub https://huggingface.co cannot be reached from {HERE}, or not any more, to fetch model acme/tiny: "
            "[Errno -2] Name or service not known. Check the network and proxy (HTTPS_PROXY) and run again, which "
            "fetches the missing files; name another hub in data_cache_hub; let the other machine fetch (at: "
            "head, at: control); or take it from a directory (directory:)",
        ),
        (
            ValueError("Expecting value: line 1 column 1"),
            REQUEST,
            "model acme/tiny at revision main could not be fetched from https://huggingface.co: ValueError: Expecting "
            "value: line 1 column 1. Check the address of the hub (data_cache_hub), or take it from a directory "
            "(directory:)",
        ),
    ],
)
def test_what_errors_mean(error: Exception, wanted: Request, message: str) -> None:
    assert _explain(error, wanted, HUB) == message


def test_the_server_that_has_the_large_files_is_named() -> None:
    message = _explain(of_the_network(SimpleNamespace(url="https://cdn.example.com/1234")), REQUEST, HUB)
    assert message.startswith(f"https://cdn.example.com, where the hub {HUB} has files, cannot be reached from {HERE},")


@pytest.mark.parametrize(
    ("error", "expected"),
    [(of_the_network(), True), (answered(503), True), (answered(404, "RevisionNotFound"), False)],
)
def test_when_what_was_fetched_before_may_be_used(error: Exception, expected: bool) -> None:
    assert hub._is_unavailable(error) is expected


@pytest.mark.parametrize(
    "name",
    [
        "../../../../thesis.tex",
        "/etc/passwd",
        "sub/../../../x",
        "a//b",
        "./a",
        "a/.",
        "",
        "a\\..\\b",
        "a\nb",
        "..",
        "a/",
    ],
)
def test_names_that_lead_elsewhere_are_refused_before_any_change(store: _Store, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "thesis.tex"
    victim.write_text("years")
    fetched: list[str] = []
    with pytest.raises(hub.HubError, match="nothing was changed"):
        hub._complete(store, COMMIT, {"model.bin": _File(3, "0" * 40), name: _File(3, "0" * 40)}, fetched.append)
    assert victim.exists()
    assert (store.snapshot(COMMIT) / "model.bin").exists()
    assert not fetched


def test_names_of_one_spelling_are_refused(store: _Store) -> None:
    with pytest.raises(hub.HubError, match=r"'Model.bin', which differs from 'model.bin' in upper and lower case"):
        hub._complete(store, COMMIT, {**FILES, "Model.bin": _File(4, "")}, lambda _name: None)


@pytest.mark.parametrize("target", ["../../../../outside", "/outside", "../../../models--other/blobs/1"])
def test_a_link_that_leads_elsewhere_is_neither_followed_nor_removed(
    store: _Store, tmp_path: Path, target: str
) -> None:
    target = target.replace("/outside", f"{tmp_path}/outside") if target.startswith("/") else target
    for outside in (tmp_path / "outside", tmp_path / "hub/outside", store.cache / "models--other/blobs/1"):
        outside.parent.mkdir(parents=True, exist_ok=True)
        outside.write_text("years")
    path = store.snapshot(COMMIT) / "model.bin"
    path.unlink()
    path.symlink_to(target)
    with pytest.raises(hub.HubError, match="a link to another place"):
        hub._complete(store, COMMIT, FILES, lambda _name: None)
    with pytest.raises(hub.HubError, match="outside of its directory"):
        store.drop(COMMIT, "model.bin")
    directory = store.snapshot(COMMIT) / "linked"
    directory.symlink_to(tmp_path)
    with pytest.raises(hub.HubError, match="a link to another place"):
        hub._complete(store, COMMIT, {"linked/outside": _File(3, "0" * 40)}, lambda _name: None)
    assert (tmp_path / "outside").read_text() == "years"
