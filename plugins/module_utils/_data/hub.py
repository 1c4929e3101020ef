# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Repositories of the Hugging Face hub, fetched with huggingface_hub and verified by the sums that the hub tells.

They are kept as huggingface_hub keeps them: a folder for each commit, so that a branch that has moved leaves the folder
of the earlier commit to the jobs that use it, and a file that both have is there once. Beside it a record tells which
commits are whole, so that these are not asked for again. Works with huggingface_hub from 0.12, the oldest stack's.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.amx.cluster.plugins.module_utils._data import file_set

COMMIT = re.compile(r"[0-9a-f]{40}")
WORDS = {"model": "model", "dataset": "data set", "space": "space"}
# The hub is asked to answer within so many seconds. A hub behind a firewall that drops packets is told as fast.
TIMEOUT = 10
WORKERS = 8  # as many files at a time as huggingface_hub's own snapshot_download
INSTEAD = "take it from a folder (directory:)"


class HubError(ValueError):
    """Why a repository could not be fetched, and what to do."""


@dataclass(frozen=True)
class Wish:
    """What is asked of which hub; kind: model, dataset or space; files: patterns (fnmatch) of paths, none for all."""

    kind: str
    repository: str
    revision: str = "main"
    token: str = ""
    files: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{WORDS[self.kind]} {self.repository}"


@dataclass(frozen=True)
class Snapshot:
    """The folder that holds a commit of a repository; `warning` is what the user should know about it."""

    path: Path
    commit: str
    changed: bool
    warning: str = ""


@dataclass(frozen=True)
class _File:
    """A file as the hub tells it; digest: its SHA-256 or, in 40 digits, git's SHA-1, empty when the hub tells none."""

    size: int | None
    digest: str


class _Store:
    """The folders of a repository, and the record of what was found whole in them."""

    def __init__(self, folder: Path, wish: Wish) -> None:
        self.folder = folder / f"{wish.kind}s--{wish.repository.replace('/', '--')}"

    def snapshot(self, commit: str) -> Path:
        return self.folder / "snapshots" / commit

    def commit(self, revision: str) -> str:
        """Return the commit that a branch or tag was when the hub was last asked, empty when it never was."""
        try:
            return (self.folder / "refs" / revision).read_text(encoding="utf-8").strip()
        except OSError:
            return ""

    def remember(self, revision: str, commit: str) -> None:
        """Keep which commit a branch or tag is, where huggingface_hub does."""
        if revision != commit and self.commit(revision) != commit:
            reference = self.folder / "refs" / revision
            reference.parent.mkdir(parents=True, exist_ok=True)
            reference.write_text(commit, encoding="utf-8")

    def is_whole(self, commit: str) -> bool:
        """Whether all files of a commit were verified here and have not changed since."""
        seen = self._seen(commit)
        return bool(seen) and all(entry[1:] == _told(self.snapshot(commit) / name) for name, entry in seen.items())

    def wanting(self, commit: str, files: Mapping[str, _File]) -> dict[str, str]:
        """Return {file: "is missing" or "is damaged"} and record what was read."""
        seen = self._seen(commit)
        found, kept = {}, {}
        for name, expected in files.items():
            path = self.snapshot(commit) / name
            told = _told(path)
            if not told:
                found[name] = "is missing"
            elif seen.get(name) != [expected.digest, *told] and not _is_as_told(path, expected):
                found[name] = "is damaged"
            else:
                kept[name] = [expected.digest, *told]
        if not found:
            record = self._record(commit)
            record.parent.mkdir(parents=True, exist_ok=True)
            beside = record.with_suffix(".new")
            beside.write_text(json.dumps(kept), encoding="utf-8")
            beside.replace(record)
        return found

    def drop(self, commit: str, name: str) -> None:
        """Remove a damaged file, and what it links to, so that it is fetched again."""
        path = self.snapshot(commit) / name
        path.resolve().unlink(missing_ok=True)
        path.unlink(missing_ok=True)

    def _record(self, commit: str) -> Path:
        return self.folder / "verified" / f"{commit}.json"

    def _seen(self, commit: str) -> dict[str, list[Any]]:
        """Return {file: [digest, size, time]} of what was verified."""
        try:
            seen: dict[str, list[Any]] = json.loads(self._record(commit).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}  # none, or a damaged one: everything is verified again
        return seen


def fetch(wish: Wish, folder: Path, address: str = "", only_look: bool = False) -> Snapshot:
    """Have a commit of a repository whole in a folder below `folder`.

    address: the hub's, empty for huggingface_hub's own default. only_look: say what would be fetched and fetch nothing.
    Files that are whole are not fetched again, neither after an interruption nor for another commit; of others,
    whatever huggingface_hub keeps is used. A revision that is a commit, and is there, asks nothing of the hub. A branch
    of a hub that cannot be reached is what it was when last asked. Raises HubError.
    """
    hub = _library(address)
    api = hub.HfApi()
    address = hub.constants.ENDPOINT
    if wish.files:  # some files are another snapshot than all
        folder = folder / hashlib.sha256(json.dumps(sorted(wish.files)).encode()).hexdigest()[:8]
    store = _Store(folder, wish)
    if COMMIT.fullmatch(wish.revision) and store.is_whole(wish.revision):
        return Snapshot(store.snapshot(wish.revision), wish.revision, changed=False)
    asked = {"repo_type": wish.kind, "token": wish.token or None}
    try:
        info = api.repo_info(wish.repository, revision=wish.revision, timeout=TIMEOUT, files_metadata=True, **asked)
    except Exception as error:
        kept = store.commit(wish.revision)
        if _has_no_say(error) and kept and store.is_whole(kept):
            warning = (
                f"The hub {address} cannot be asked for revision {wish.revision} of {wish} ({_reason(error)}): "
                f"commit {kept} is used, which it was when last asked."
            )
            return Snapshot(store.snapshot(kept), kept, changed=False, warning=warning)
        raise HubError(_explain(error, wish, address, _revisions(api, wish, error, asked))) from error
    whole = store.is_whole(info.sha)
    if not whole and not only_look:

        def download(name: str) -> None:
            # Not snapshot_download: it lists the files once more, and waits for that list without end.
            there = {"revision": info.sha, "cache_dir": str(folder), "etag_timeout": TIMEOUT, **asked}
            try:
                hub.hf_hub_download(wish.repository, name, **there)
            except Exception as error:
                if not _broke_off(error):
                    raise
                hub.hf_hub_download(wish.repository, name, **there)  # older versions do not go on by themselves

        siblings = {sibling.rfilename: sibling for sibling in info.siblings or []}
        files = {
            name: _expected(sibling)
            for name, sibling in siblings.items()
            if not wish.files or any(fnmatch.fnmatchcase(name, pattern) for pattern in wish.files)
        }
        if siblings and not files:
            raise HubError(f"{wish} has no file like {', '.join(wish.files)}; it has {', '.join(sorted(siblings)[:8])}")
        try:
            _complete(store, info.sha, files, download)
        except HubError as error:
            raise HubError(f"{wish}, fetched from the hub {address}, {error}, or {INSTEAD}") from error
        except Exception as error:
            raise HubError(_explain(error, wish, address)) from error
    if not only_look:
        store.remember(wish.revision, info.sha)
    return Snapshot(store.snapshot(info.sha), info.sha, changed=not whole)


def _complete(store: _Store, commit: str, files: Mapping[str, _File], download: Callable[[str], None]) -> None:
    """Download what is wanting of a commit, and once more what has arrived damaged."""
    if not files:
        raise HubError("holds no files: check its name")
    wanting = store.wanting(commit, files)
    for _attempt in range(2):
        if wanting:
            for name in [name for name, what in wanting.items() if what == "is damaged"]:
                store.drop(commit, name)
            with ThreadPoolExecutor(WORKERS) as pool:
                list(pool.map(download, wanting))
            wanting = store.wanting(commit, files)
    if wanting:
        told = ", ".join(f"{name} {what}" for name, what in sorted(wanting.items())[:3])
        raise HubError(f"did not come whole, twice: {told}. Look for a proxy or mirror that alters or keeps files")


def _library(address: str) -> Any:
    """Return huggingface_hub, which reads its settings from the environment when it is imported."""
    if address:
        os.environ["HF_ENDPOINT"] = address.rstrip("/")
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # one request less on networks that let few through
    # Files of several repositories that are one must not be damaged by one: drop() removes what a link leads to.
    os.environ["HF_HUB_DISABLE_SHARED_BLOBS"] = "1"
    os.environ.setdefault("HF_HUB_DOWNLOAD_TIMEOUT", str(TIMEOUT))
    try:
        import huggingface_hub
    except ImportError as error:
        raise HubError(
            f"{sys.executable} on {platform.node()} cannot import huggingface_hub ({error}): install it there, name a "
            "Python that has it (data_cache_control_python, data_cache_head_python), let the other machine fetch "
            f"(at: head, at: control), or {INSTEAD}"
        ) from error
    return huggingface_hub


def _told(path: Path) -> list[int]:
    """Return size and time of a file, nothing when there is none."""
    try:
        told = path.stat()
    except OSError:
        return []
    return [told.st_size, told.st_mtime_ns]


def _expected(sibling: Any) -> _File:
    large = sibling.lfs or {}
    return _File(sibling.size, large.get("sha256") or sibling.blob_id or "")


def _is_as_told(path: Path, expected: _File) -> bool:
    size = path.stat().st_size
    if expected.size is not None and size != expected.size:
        return False
    if not expected.digest:
        return True
    if len(expected.digest) == 64:
        return file_set.sha256(path) == expected.digest
    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)  # as git names a file
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest() == expected.digest


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error, what caused it, what caused that."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _response(error: BaseException) -> Any:
    """Return the hub's answer in an error, None when there was none."""
    answers = (getattr(cause, "response", None) for cause in _chain(error))
    return next((answer for answer in answers if answer is not None), None)


def _has_no_say(error: BaseException) -> bool:
    """Whether an error says nothing of the repository: the hub was not reached, or is out of order itself."""
    answer = _response(error)
    return answer is None or answer.status_code >= 500


def _names(error: BaseException) -> set[str]:
    """The names of the classes of an error and its causes: which libraries they come from differs by version."""
    return {base.__name__ for cause in _chain(error) for base in type(cause).__mro__}


def _broke_off(error: BaseException) -> bool:
    """Whether a connection broke while a file was on its way."""
    return bool(_names(error) & {"ProtocolError", "RemoteProtocolError", "ReadError"})


def _server(error: BaseException) -> str:
    """Return scheme, name and port of the server of which nothing came, empty when no error tells."""
    for cause in _chain(error):
        with contextlib.suppress(RuntimeError):  # what httpx raises when an error has no request
            url = urlsplit(str(getattr(getattr(cause, "request", None), "url", "")))
            if url.netloc:
                return f"{url.scheme}://{url.netloc}"
    return ""


def _reason(error: BaseException) -> str:
    """Return the innermost cause of an error in a line."""
    innermost = list(_chain(error))[-1]
    return " ".join(str(innermost).split()).rstrip(".") or type(innermost).__name__


def _revisions(api: Any, wish: Wish, error: BaseException, asked: Mapping[str, Any]) -> str:
    """Return which revisions a repository has when the error is that it lacks one, else nothing."""
    answer = _response(error)
    if answer is None or answer.headers.get("X-Error-Code") != "RevisionNotFound":
        return ""
    try:
        refs = api.list_repo_refs(wish.repository, **asked)
    except Exception:  # only an addition to the message
        return ""
    names = [reference.name for reference in [*refs.branches, *refs.tags]]
    return f" (it has {', '.join(names[:10])}{' and others' if names[10:] else ''})"


def _explain(error: BaseException, wish: Wish, address: str, revisions: str = "") -> str:
    """Say what an error means for the user."""
    answer = _response(error)
    token = "the token in data_cache_hub_token" if wish.token else "no token in data_cache_hub_token"
    if answer is None:
        return _explain_without_answer(error, wish, address)
    code, said = answer.headers.get("X-Error-Code", ""), answer.headers.get("X-Error-Message", "")
    if code == "GatedRepo":
        kind = "" if wish.kind == "model" else f"{wish.kind}s/"
        return (
            f"{wish} is gated, and was asked for with {token}: accept its terms at {address}/{kind}{wish.repository}, "
            f"set data_cache_hub_token to a token of the same account, or {INSTEAD}"
        )
    if code == "RevisionNotFound":
        return f"{wish} has no revision {wish.revision!r}{revisions}: set revision to a branch, tag or commit of it"
    if answer.status_code == 401 and "credentials" in said:
        return (
            f"The hub {address} does not know the token with which {wish} was asked for (data_cache_hub_token, or what "
            f"HF_TOKEN or a login left on {platform.node()}): replace it, or {INSTEAD}"
        )
    if code == "RepoNotFound" or answer.status_code in (401, 403, 404):
        return (
            f"The hub {address} shows no {wish}; it was asked with {token}. Check its name; if it is private, "
            f"set data_cache_hub_token to a token that may read it; or {INSTEAD}"
        )
    return (
        f"The hub {address} answered {answer.status_code} ({said or _reason(error)}) when {platform.node()} asked for "
        f"{wish}: run again later, it goes on with the files that are wanting, or {INSTEAD}"
    )


def _explain_without_answer(error: BaseException, wish: Wish, address: str) -> str:
    """The same when the hub gave no answer: the network, the disk, or something else that answers."""
    here, reason = platform.node(), _reason(error)
    for cause in _chain(error):
        if isinstance(cause, OSError) and (cause.filename or cause.errno in (errno.ENOSPC, errno.EDQUOT)):
            return f"{wish} cannot be kept on {here}: {cause.strerror}{f': {cause.filename}' if cause.filename else ''}"
    if _names(error) & {"TransportError", "RequestException", "OfflineModeIsEnabled"}:
        server = _server(error) or address
        itself = urlsplit(server).netloc == urlsplit(address).netloc
        what = f"The hub {address}" if itself else f"{server}, where the hub {address} has files,"
        return (
            f"{what} cannot be reached from {here}, or not any more, to fetch {wish}: {reason}. Check the network and "
            "proxy (HTTPS_PROXY) and run again, it goes on with the files that are wanting; name another hub in "
            f"data_cache_hub; let the other machine fetch (at: head, at: control); or {INSTEAD}"
        )
    return (
        f"{wish} at revision {wish.revision} could not be fetched from {address}: {type(error).__name__}: {reason}. "
        f"Check the address of the hub (data_cache_hub), or {INSTEAD}"
    )
