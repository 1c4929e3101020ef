# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheelhouses: directories with the wheels of a request and their manifest, collected on the control node."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _io, _ownership
from ansible_collections.amx.cluster.plugins.module_utils._data import file_set
from ansible_collections.amx.cluster.plugins.module_utils._stacks import archive, indexes, pip, requirements, wheels
from ansible_collections.amx.cluster.plugins.module_utils._stacks.requirements import canonical
from ansible_collections.amx.cluster.plugins.module_utils._text import masked

# Seconds to wait for another process that collects or builds the same: the wheels of a stack are 2 GB and more.
PATIENCE = 3600
# On hosts; on the control node, where the role torch_stack keeps sources of transformers, and project_wheel projects.
WHEELS = _ownership.Places("wheels", ("wheels",))
DOWNLOADS = _ownership.Places("downloads", ("wheelhouse", "git_wheels", "transformers", "projects"))


def key(options: Mapping[str, Any], glibc: str) -> str:
    """Return the name of a request's wheelhouse: it changes when anything in the request does."""
    limits = Path(options["constraints"]).read_text(encoding="utf-8") if options["constraints"] else ""
    if options["installed"] or options["unpack"]:
        # No more than what else the hosts have; the wheels of a stack are the same from wherever they come.
        where = [options[name] for name in ("index_url", "index_urls", "find_links", "sources")]
        beside = [requirements.pinned(options["installed"]), options["unpack"], indexes.without_logins(where)]
        limits = json.dumps([limits, *beside])
    request: list[Any] = [sorted(options["requirements"]), limits, options["python"], glibc]
    if options.get("wheels"):
        request.append(sorted(file_set.sha256(Path(path)) for path in options["wheels"]))
    if options["cuda_build"] == "allow":
        request.append("cuda_build")
    if options.get("excluded"):
        request.append(["excluded", *sorted(options["excluded"])])
    return _key(options["python"], json.dumps(request))


def key_of_archive(manifest: Mapping[str, Any], python: str) -> str:
    """Return the name of the wheelhouse that is made of an archive with this manifest."""
    return _key(python, requirements.hashed(manifest["wheels"]))


def _key(python: str, text: str) -> str:
    return f"cp{python.replace('.', '')}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def built(directory: Path, pins: Collection[str], python: str, glibc: str) -> list[str]:
    """Return the paths of wheels in a directory that are what NAME==VERSION requests, for this Python, one for each.

    They are named after the GNU C library that they need: the newest that hosts with `glibc` have is taken. Raises
    ValueError where all need a newer one, or it cannot be read.
    """
    paths = []
    for pin in pins:
        name, _equal, version = pin.partition("==")
        stem = re.escape(f"{canonical(name).replace('-', '_')}-{version}")
        tag = f"cp{python.replace('.', '')}"
        pattern = re.compile(rf"{stem}(\+\w+)?-{tag}-{tag}-manylinux_2_(\d+)_x86_64\.whl")
        by_libc = {
            int(match[2]): path for path in sorted(directory.glob("*.whl")) if (match := pattern.fullmatch(path.name))
        }
        usable = [libc for libc in by_libc if libc <= int(glibc.split(".")[1])]
        if by_libc and not usable:
            raise ValueError(
                f"{by_libc[min(by_libc)]} needs glibc 2.{min(by_libc)}, and a host has {glibc}: build the wheel on a "
                "system like that host, or remove it"
            )
        if usable and not zipfile.is_zipfile(by_libc[max(usable)]):
            raise ValueError(
                f"{by_libc[max(usable)]} is no wheel, or a part of one: copy it again, or remove it and build it by "
                "tools/build_oneccl.py"
            )
        paths += [str(by_libc[max(usable)])] if usable else []
    return paths


def read(wheelhouse: Path) -> list[dict[str, Any]]:
    """Return the wheels in a wheelhouse, as its manifest has them."""
    return list(json.loads((wheelhouse / wheels.MANIFEST).read_text(encoding="utf-8"))["wheels"])


def unpack(source: Path, wheelhouse: Path, manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Make a wheelhouse of an archive with this manifest and return its wheels. Raises ValueError, OSError."""
    _ownership.make(wheelhouse.parent, _ownership.CONTAINER)
    with locked(wheelhouse):
        if wheelhouse.is_dir():  # made by another process meanwhile
            return read(wheelhouse)
        archive.unpack(source, staging(wheelhouse), manifest)
        return _finish(wheelhouse, wheels.manifest(staging(wheelhouse)))


def collect(
    options: Mapping[str, Any], wheelhouse: Path, glibc: str, run: pip.Run, ask: Callable[..., str]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Collect the wheels of a request from package indexes: (its wheels, the indexes that did not answer and why).

    options: those of the module wheelhouse. wheelhouse: appears complete or not at all; an interrupted download is
    resumed, and another process that collects the same is waited for. ask: as indexes.Ask, with the keyword
    `certificate`, a file of the authorities that indexes are trusted by, or None. Raises ValueError, OSError.
    """
    _ownership.make(wheelhouse.parent, _ownership.CONTAINER)
    with locked(wheelhouse) as descriptor:
        if wheelhouse.is_dir():  # collected by another process meanwhile
            return read(wheelhouse), []
        return _collect(options, wheelhouse, glibc, functools.partial(run, pass_fds=[descriptor]), ask)


def _collect(
    options: Mapping[str, Any], wheelhouse: Path, glibc: str, run: pip.Run, ask: Callable[..., str]
) -> tuple[list[dict[str, Any]], list[str]]:
    directory = staging(wheelhouse)
    _ownership.claim(directory, "wheels")
    with tempfile.TemporaryDirectory() as scratch:
        pinned, lock = options["requirements"], []
        own = {canonical(Path(path).name.partition("-")[0]): path for path in options.get("wheels") or []}
        looked_for = set(map(requirements.name, pinned)) - set(own)
        tool = pip_of(options, Path(scratch), glibc, run, ask, looked_for)
        if options["dependencies"]:
            wanted = [*own.values(), *pinned]  # before others that require them
            limits = options["constraints"], options["installed"]
            resolved = tool.resolve(wanted, *limits, Path(scratch), options.get("excluded") or [])
            if options["cuda_build"] == "refuse":
                pip.refuse_cuda(resolved)
            have = set(map(canonical, options["installed"]))
            pinned = requirements.pinned({name: v for name, v in resolved.items() if canonical(name) not in have})
        words = {pin: own.get(canonical(pin.partition("==")[0]), pin) for pin in pinned}
        if options["dependencies"] and options["only"] is not None:
            lock = pip.locked(tool.report(words.values(), Path(scratch)))
        only = None if options["only"] is None else {canonical(name) for name in options["only"]}
        fetched = [pin for pin in pinned if only is None or canonical(pin.partition("==")[0]) in only]
        _drop_others(directory, fetched)
        tool.run("download", "--no-deps", "--dest", str(directory), *(words[pin] for pin in fetched))
        if options["unpack"]:
            target = directory / "packages"
            shutil.rmtree(target, ignore_errors=True)
            files = sorted(map(str, directory.glob("*.whl")))
            tool.run("install", "--no-deps", "--no-compile", "--target", str(target), *files)
    made = wheels.manifest(directory)
    if only is not None:
        here = {wheel["name"]: wheel for wheel in made["wheels"]}
        made["wheels"] = [here.get(wheel["name"], wheel) for wheel in lock]
    return _finish(wheelhouse, made), tool.unreachable


def pip_of(
    options: Mapping[str, Any],
    scratch: Path,
    glibc: str,
    run: pip.Run,
    ask: Callable[..., str],
    requested: Collection[str] = (),
) -> pip.Pip:
    """Return pip with the indexes that answer, to look for packages of these canonical names.

    Raises ValueError where they would not come from where a project says that they do.
    """
    settings = pip.settings(run)
    certificate = options["ca_certificate"] or settings.get("cert")
    options = {**options, "proxy": options["proxy"] or settings.get("proxy")}
    # Not only for pip: the indexes are asked through the proxy, too.
    os.environ.update(indexes.proxies(options["proxy"]))
    main = options["index_url"] or (indexes.NONE if settings.get("no_index") else settings["index_url"])
    urls = [*([] if main == indexes.NONE else [main]), *options["index_urls"], *options["find_links"]]
    silent = indexes.unreachable(
        urls, options["credentials"], functools.partial(ask, certificate=certificate), options["index_timeout"]
    )
    used = {
        "--index-url": [] if main == indexes.NONE else [main],
        "--extra-index-url": options["index_urls"],
        "--find-links": options["find_links"],
    }
    conflicts = indexes.without_effect(options["sources"], requested, used, settings, silent)
    if conflicts:
        raise ValueError("\n".join(conflicts))
    variables = indexes.on_control_node(options, main, settings, silent, scratch)
    reasons = [masked(f"{url}: {reason}") for url, reason in silent.items()]
    return pip.Pip(run, options["python"], glibc, variables, reasons)


def _drop_others(directory: Path, fetched: list[str]) -> None:
    """Remove wheels that an interrupted run left incomplete, or that are no longer requested.

    pip keeps a file that is there already where the index gives no hash of it.
    """
    wanted = {(canonical(name), version) for name, _sep, version in (pin.partition("==") for pin in fetched)}
    for path in directory.glob("*.whl"):
        name, version = path.name.split("-")[:2]
        if (canonical(name), version) not in wanted or not zipfile.is_zipfile(path):
            path.unlink()


def staging(wheelhouse: Path) -> Path:
    """Return the directory that becomes `wheelhouse` once it is complete."""
    return wheelhouse.with_name(wheelhouse.name + ".partial")


def locked(wheelhouse: Path) -> contextlib.AbstractContextManager[int]:
    """Lock a directory that is to be made; see _io.locked. pip has to inherit the lock: it may outlive this process."""
    return _ownership.locked(wheelhouse.with_name(f".{wheelhouse.name}.lock"), PATIENCE)


def _finish(wheelhouse: Path, made: dict[str, Any]) -> list[dict[str, Any]]:
    """Write what belongs to the wheels, and put the directory into its place."""
    directory = staging(wheelhouse)
    _io.write_text(directory / "requirements.txt", requirements.hashed(made["wheels"]))
    _io.write_json(directory / wheels.MANIFEST, made)
    directory.replace(wheelhouse)
    return list(made["wheels"])
