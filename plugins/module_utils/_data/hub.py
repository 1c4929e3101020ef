# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Repositories of the Hugging Face hub, fetched with huggingface_hub and verified by the checksums of the hub.

They are kept as huggingface_hub keeps them: a directory for each commit, so that a branch that has moved leaves the
directory of the previous commit to the jobs that use it, and a file that both have is there once. Beside it is a record
of each complete commit, so that the hub is not asked for it again. Works with huggingface_hub from 0.12 on, the version
of the oldest stack.
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
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._data.file_set import DAMAGED, MISSING, describe, sha256
from ansible_collections.amx.cluster.plugins.module_utils._data.records import Record, stamp
from ansible_collections.amx.cluster.plugins.module_utils._io import write_text

COMMIT = re.compile(r"[0-9a-f]{40}")
KINDS = ("model", "dataset", "space")
# Seconds within which the hub has to answer. A hub behind a firewall that drops packets is reported as fast.
TIMEOUT = 10
WORKERS = 8  # as many files at a time as huggingface_hub's own snapshot_download
INSTEAD = "take it from a directory (directory:)"


class HubError(ValueError):
    """Error of a repository that cannot be fetched: the cause, and what to do."""


@dataclass(frozen=True)
class Request:
    """Files to fetch from a repository of the hub; kind: one of KINDS; files: patterns (fnmatch) of paths, none for
    all."""

    kind: str
    repository: str
    revision: str = "main"
    token: str = ""
    files: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.repository}"


@dataclass(frozen=True)
class Snapshot:
    """The directory with a commit of a repository; `warning` is what the user should know about it."""

    path: Path
    commit: str
    changed: bool
    warning: str = ""


@dataclass(frozen=True)
class _File:
    """A file as the hub lists it; digest: its SHA-256 or, in 40 digits, git's SHA-1; empty when the hub has none."""

    size: int | None
    digest: str


class _Store:
    """The directories of a repository, and the records of what was verified in them."""

    def __init__(self, directory: Path, request: Request) -> None:
        self.own = _ownership.is_own(directory)
        if request.files:  # some files are another snapshot than all
            directory = directory / hashlib.sha256(json.dumps(sorted(request.files)).encode()).hexdigest()[:8]
        self.cache = directory
        self.directory = directory / f"{request.kind}s--{request.repository.replace('/', '--')}"

    def snapshot(self, commit: str) -> Path:
        return self.directory / "snapshots" / commit

    def commit(self, revision: str) -> str:
        """Return the commit at which a branch or tag was in the previous run, empty when there was none."""
        try:
            return (self.directory / "refs" / revision).read_text(encoding="utf-8").strip()
        except OSError:
            return ""

    def remember(self, revision: str, commit: str) -> None:
        """Keep which commit a branch or tag is, where huggingface_hub does."""
        if revision != commit and self.commit(revision) != commit:
            reference = self.directory / "refs" / revision
            reference.parent.mkdir(parents=True, exist_ok=True)
            write_text(reference, commit)

    def record(self, commit: str) -> Record:
        """Return the record of a commit's files, which is kept once all of them were verified."""
        return Record(self.directory / "verified" / f"{commit}.json")

    def is_complete(self, commit: str) -> bool:
        """Return whether all files of a commit were verified here and have not changed since."""
        return self.record(commit).is_current()

    def check(self, commit: str, names: Iterable[str]) -> None:
        """Raise HubError for a name that would lead out of the snapshot, or two that some file systems take for one."""
        seen: dict[str, str] = {}
        for name in names:
            problem = problem_of_name(name)
            other = seen.setdefault(name.casefold(), name)
            if not problem and other != name:
                problem = f"differs from {other!r} in upper and lower case alone"
            if not problem and not self._within(self.snapshot(commit) / name):
                problem = "is, in the snapshot, a link to another place"
            if problem:
                raise HubError(f"lists the file {name[:200]!r}, which {problem}: nothing was changed; look at the hub")

    def _within(self, path: Path) -> bool:
        """Return whether a file, and what it links to, is in the snapshots or blobs of the repository."""
        allowed = [(self.directory / part).resolve() for part in ("snapshots", "blobs")]
        return all(
            any(top in place.parents for top in allowed)
            for place in (path.parent.resolve() / path.name, path.resolve())
        )

    def differences(self, commit: str, files: Mapping[str, _File]) -> dict[str, str]:
        """Return {file: MISSING or DAMAGED}; where there are none, record that the commit is complete."""
        record = self.record(commit)
        problems = {}
        for name, expected in files.items():
            path = self.snapshot(commit) / name
            before = stamp(path)
            if not before:
                problems[name] = MISSING
            elif record.digest(path) != expected.digest and not _is_as_expected(path, expected):
                problems[name] = DAMAGED
            else:
                record.enter(path, before, expected.digest)
        if not problems:
            record.keep_only(self.snapshot(commit) / name for name in files)
            record.save()
        return problems

    def drop(self, commit: str, name: str) -> None:
        """Remove a damaged file, and what it links to, so that it is fetched again."""
        path = self.snapshot(commit) / name
        if not self.own:
            raise HubError(f"is damaged: remove {path}, in a directory that this collection has not made")
        if not self._within(path):
            raise HubError(f"has the file {name!r} outside of its directory {self.directory}: remove {path}")
        path.resolve().unlink(missing_ok=True)
        path.unlink(missing_ok=True)


def fetch(request: Request, directory: Path, address: str = "", check_only: bool = False) -> Snapshot:
    """Fetch a commit of a repository into a directory below `directory`, unless it is there already.

    address: the hub's, empty for huggingface_hub's own default. check_only: report whether files would be fetched, and
    fetch none. Complete files are not fetched again, neither after an interruption nor for another commit; of others,
    whatever huggingface_hub keeps is used. For a revision that is a commit, and is there, the hub is not asked. When
    the hub is unavailable, a branch is at the commit of the previous run. Raises HubError.
    """
    hub = _library(address)
    api = hub.HfApi()
    address = hub.constants.ENDPOINT
    if not check_only:
        _ownership.make(directory, "repositories of the hub")
    store = _Store(directory, request)
    if COMMIT.fullmatch(request.revision) and store.is_complete(request.revision):
        return Snapshot(store.snapshot(request.revision), request.revision, changed=False)
    common = {"repo_type": request.kind, "token": request.token or None}
    try:
        info = api.repo_info(
            request.repository, revision=request.revision, timeout=TIMEOUT, files_metadata=True, **common
        )
    except Exception as error:
        kept = store.commit(request.revision)
        if _is_unavailable(error) and kept and store.is_complete(kept):
            warning = (
                f"The hub {address} is unavailable ({_reason(error)}): for revision {request.revision} of {request}, "
                f"commit {kept} of the previous run is used."
            )
            return Snapshot(store.snapshot(kept), kept, changed=False, warning=warning)
        raise HubError(_explain(error, request, address, _revisions(api, request, error, common))) from error
    complete = store.is_complete(info.sha)
    if not complete and not check_only:

        def download(name: str) -> None:
            # Not snapshot_download: it lists the files once more, and waits for that list indefinitely.
            options = {"revision": info.sha, "cache_dir": str(store.cache), "etag_timeout": TIMEOUT, **common}
            try:
                hub.hf_hub_download(request.repository, name, **options)
            except Exception as error:
                if not _is_broken_connection(error):
                    raise
                hub.hf_hub_download(request.repository, name, **options)  # older versions do not resume by themselves

        siblings = {sibling.rfilename: sibling for sibling in info.siblings or []}
        files = {
            name: _expected(sibling)
            for name, sibling in siblings.items()
            if not request.files or any(fnmatch.fnmatchcase(name, pattern) for pattern in request.files)
        }
        if siblings and not files:
            raise HubError(
                f"{request} has no file like {', '.join(request.files)}; it has {', '.join(sorted(siblings)[:8])}: "
                "correct files"
            )
        try:
            _complete(store, info.sha, files, download)
        except HubError as error:
            raise HubError(f"{request}, fetched from the hub {address}, {error}, or {INSTEAD}") from error
        except Exception as error:
            raise HubError(_explain(error, request, address)) from error
    if not check_only:
        store.remember(request.revision, info.sha)
    return Snapshot(store.snapshot(info.sha), info.sha, changed=not complete)


def kept(request: Request, directory: Path) -> Path:
    """Return where a repository's commit is that was fetched last for this revision, or would be. Asks no hub."""
    store = _Store(directory, request)
    return store.snapshot(request.revision if COMMIT.fullmatch(request.revision) else store.commit(request.revision))


def _complete(store: _Store, commit: str, files: Mapping[str, _File], download: Callable[[str], None]) -> None:
    """Download the missing files of a commit, and once more what has arrived damaged."""
    if not files:
        raise HubError("has no files: check its name")
    store.check(commit, files)
    problems = store.differences(commit, files)
    for _attempt in range(2):
        if problems:
            for name in [name for name, problem in problems.items() if problem == DAMAGED]:
                store.drop(commit, name)
            with ThreadPoolExecutor(WORKERS) as pool:
                list(pool.map(download, problems))
            problems = store.differences(commit, files)
    if problems:
        first = describe(dict(sorted(problems.items())[:3]))
        raise HubError(f"failed verification twice: {first}. Look for a proxy or mirror that alters or caches files")


def problem_of_name(name: str) -> str:
    """Return why a file of this name, which a server or an archive lists, is not written; empty when it may be."""
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "is absolute, or has an empty part, `.` or `..`"
    if "\\" in name or any(ord(letter) < 32 or ord(letter) == 127 for letter in name):
        return "has a backslash or a control character"
    return ""


def _library(address: str) -> Any:
    """Return huggingface_hub, which reads its settings from the environment when it is imported."""
    if address:
        os.environ["HF_ENDPOINT"] = address.rstrip("/")
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # one request less where few are allowed
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


def _expected(sibling: Any) -> _File:
    large = sibling.lfs or {}
    return _File(sibling.size, large.get("sha256") or sibling.blob_id or "")


def _is_as_expected(path: Path, expected: _File) -> bool:
    size = path.stat().st_size
    if expected.size is not None and size != expected.size:
        return False
    if not expected.digest:
        return True
    if len(expected.digest) == 64:
        return sha256(path) == expected.digest
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


def _is_unavailable(error: BaseException) -> bool:
    """Return whether an error is none of the repository: the hub cannot be reached, or fails itself."""
    answer = _response(error)
    return answer is None or answer.status_code >= 500


def _names(error: BaseException) -> set[str]:
    """The names of the classes of an error and its causes: which libraries they come from differs by version."""
    return {base.__name__ for cause in _chain(error) for base in type(cause).__mro__}


def _is_broken_connection(error: BaseException) -> bool:
    """Return whether a connection broke while a file was transferred."""
    return bool(_names(error) & {"ProtocolError", "RemoteProtocolError", "ReadError"})


def _server(error: BaseException) -> str:
    """Return scheme, name and port of the server that did not answer, empty when no error has them."""
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


def _revisions(api: Any, request: Request, error: BaseException, common: Mapping[str, Any]) -> str:
    """Return which revisions a repository has when the error is that one is missing, else nothing."""
    answer = _response(error)
    if answer is None or answer.headers.get("X-Error-Code") != "RevisionNotFound":
        return ""
    try:
        refs = api.list_repo_refs(request.repository, **common)
    except Exception:  # only an addition to the message
        return ""
    names = [reference.name for reference in [*refs.branches, *refs.tags]]
    return f" (it has {', '.join(names[:10])}{' and others' if names[10:] else ''})"


def _explain(error: BaseException, request: Request, address: str, revisions: str = "") -> str:
    """Return what an error means for the user."""
    answer = _response(error)
    token = "the token in data_cache_hub_token" if request.token else "no token (data_cache_hub_token is empty)"
    if answer is None:
        return _explain_without_answer(error, request, address)
    code, message = answer.headers.get("X-Error-Code", ""), answer.headers.get("X-Error-Message", "")
    if code == "GatedRepo":
        kind = "" if request.kind == "model" else f"{request.kind}s/"
        return (
            f"{request} is gated, and was requested with {token}: accept its terms at "
            f"{address}/{kind}{request.repository}, "
            f"set data_cache_hub_token to a token of the same account, or {INSTEAD}"
        )
    if code == "RevisionNotFound":
        return (
            f"{request} has no revision {request.revision!r}{revisions}: set revision to a branch, tag or commit of it"
        )
    if answer.status_code == 401 and "credentials" in message:
        return (
            f"The hub {address} does not accept the token with which {request} was requested (data_cache_hub_token, or "
            f"HF_TOKEN or a login on {platform.node()}): replace it, or {INSTEAD}"
        )
    if code == "RepoNotFound" or answer.status_code in (401, 403, 404):
        return (
            f"The hub {address} has no {request}, or does not show it; it was requested with {token}. Check its name; "
            f"if it is private, set data_cache_hub_token to a token that may read it; or {INSTEAD}"
        )
    return (
        f"The hub {address} answered {answer.status_code} ({message or _reason(error)}) when {platform.node()} "
        f"requested {request}: run again later, which fetches the missing files, or {INSTEAD}"
    )


def _explain_without_answer(error: BaseException, request: Request, address: str) -> str:
    """Return the same when the hub gave no answer: the network, the disk, or something else that answers."""
    here, reason = platform.node(), _reason(error)
    for cause in _chain(error):
        if isinstance(cause, OSError) and (cause.filename or cause.errno in (errno.ENOSPC, errno.EDQUOT)):
            where = f": {cause.filename}" if cause.filename else ""
            return f"{request} cannot be stored on {here}: {cause.strerror}{where}"
    if _names(error) & {"TransportError", "RequestException", "OfflineModeIsEnabled"}:
        server = _server(error) or address
        itself = urlsplit(server).netloc == urlsplit(address).netloc
        subject = f"The hub {address}" if itself else f"{server}, where the hub {address} has files,"
        return (
            f"{subject} cannot be reached from {here}, or not any more, to fetch {request}: {reason}. Check the "
            "network and proxy (HTTPS_PROXY) and run again, which fetches the missing files; name another hub in "
            f"data_cache_hub; let the other machine fetch (at: head, at: control); or {INSTEAD}"
        )
    return (
        f"{request} at revision {request.revision} could not be fetched from {address}: {type(error).__name__}: "
        f"{reason}. Check the address of the hub (data_cache_hub), or {INSTEAD}"
    )
