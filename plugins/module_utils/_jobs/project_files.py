# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the user's own for a job: its project, and the packages that both require besides the stack."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import project
from ansible_collections.amx.cluster.plugins.module_utils._jobs import provided
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import JobFileError
from ansible_collections.amx.cluster.plugins.module_utils._stacks import packaging_files, project_wheel
from ansible_collections.amx.cluster.plugins.module_utils._stacks.package_sources import Source
from ansible_collections.amx.cluster.plugins.module_utils._stacks.packaging_files import Requirement
from ansible_collections.amx.cluster.plugins.module_utils._text import masked


def read(job: Job, build: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Return what a job brings: {project, requirements, git, wheels}, before anything is copied.

    project: the tree (project.Project.to_json), with its digest and size, `paths` (directories in the job directory
    from which its modules are imported), `installed` (files that an installation adds), `shared` (what of the job
    directory is linked into it), and `contents` (entries of the store); empty without one. requirements: {as written:
    where}. git: those that are Git URLs, likewise. wheels: the user's own, each {path, name, version, requires}.
    package_sources: where the project says that packages come from, each package_sources.Source.

    build: {cache: a directory, and options of indexes.CHOICE and indexes.ARGUMENTS}, as build_options returns it.
    Raises JobFileError.
    """
    try:
        tree = _project(job, build) if job.project else {}
        wanted = [Requirement(text, job.file.name) for text in job.requirements]
        declared = packaging_files.declared(job.project) if job.project else []
        wanted += [requirement for requirement in declared if isinstance(requirement, Requirement)]
        _check_git(wanted)
        wheels = packaging_files.wheels(job.wheels)
    except ValueError as error:
        raise JobFileError(job.file, [f"project: {error}" if job.project else str(error)]) from error
    wanted += [Requirement(text, Path(wheel["path"]).name) for wheel in wheels for text in wheel["requires"]]
    plain, git = (
        {
            requirement.text: requirement.origin
            for requirement in wanted
            if packaging_files.is_git(requirement.text) is of
        }
        for of in (False, True)
    )
    sources = [asdict(source) for source in declared if isinstance(source, Source)]
    return {"project": tree, "requirements": plain, "git": git, "wheels": wheels, "package_sources": sources}


def build_options(variable: Callable[[str, Any], Any]) -> dict[str, Any]:
    """Return how a project is built, by the inventory's variables: variable(name, default)."""
    of_index = {name: f"torch_stack_{name}" for name in ("index_url", "index_urls", "find_links", "index_timeout")}
    names = {
        **of_index,
        "ca_certificate": "torch_stack_index_ca",
        "proxy": "torch_stack_index_proxy",
        "credentials": "torch_stack_index_credentials",
        "cache": "cluster_cache",
    }
    return {option: variable(name, None) for option, name in names.items()}


def _project(job: Job, build: Mapping[str, Any]) -> dict[str, Any]:
    directory = job.project or Path()
    tree = project.scan(directory, job.project_max_mb)
    copied = {entry["file"] for entry in tree.files} | set(tree.links)
    for script in (job.script, *([job.prepare.script] if job.prepare else [])):
        if script_name(job, script) not in copied:
            raise ValueError(f"{script_name(job, script)} is left out by an ignore file in {directory}")
    shared = _shared(job)
    taken = project.taken(tree, shared)
    if taken:
        raise ValueError(taken)
    links: dict[str, str] = {}
    metadata = packaging_files.distribution_files(directory)
    installed = {f"{project_wheel.INSIDE}/{name}": text for name, text in metadata.items()}
    if project_wheel.built_by(directory, copied):
        cache = Path(build["cache"], "projects") if build.get("cache") else project_wheel.CACHE
        given = {name: value for name, value in build.items() if name != "cache" and value}
        texts, links = project_wheel.read(tree, _run, cache, given)
        installed = texts or installed
    made = {name: os.path.relpath(path, PurePosixPath(name).parent) for name, path in links.items()}
    paths = [f"{project.DIRECTORY}/{path}".rstrip("/") for path in packaging_files.import_paths(directory)]
    return {
        **tree.to_json(),
        **tree.summary(),
        "files": tree.files,
        "contents": tree.contents(),
        "links": {**tree.links, **made},
        "installed": installed,
        "paths": [*paths, *([project.INSTALLED] if installed or links else [])],
        "shared": shared,
    }


def _run(command: list[str], variables: Mapping[str, str]) -> tuple[int, str, str]:
    environ = {**os.environ, **variables}
    ran = subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout, ran.stderr


def _shared(job: Job) -> list[str]:
    """Return what of the job directory is linked into its project: what a run writes, and what it is provided with."""
    entries = [name for field in provided.DIRECTORIES for name in provided.sources(vars(job), field)]
    written = [name for name in project.WRITTEN if name != "data" or job.prepare]
    return [*written, *entries, *job.metrics]


def _check_git(wanted: list[Requirement]) -> None:
    for requirement in wanted:
        if not packaging_files.is_git(requirement.text):
            continue
        text = masked(f"{requirement.origin}: {requirement.text}")
        url, marker, _condition = requirement.text.partition(";")
        if marker:
            raise ValueError(
                f"{text}: a package in a Git repository is built for all: remove what is after the semicolon"
            )
        if "[" in url.partition("git+")[0]:
            raise ValueError(
                f"{text}: extras of a package in a Git repository are not read: list their packages instead"
            )
        if not packaging_files.GIT.fullmatch(url.strip()):
            raise ValueError(f"{text} is not git+URL@REF: name the tag, branch or commit that is to be used")


def script_name(job: Job, script: Path) -> str:
    """Return the path of a job's own script in the directory that it is run in."""
    return script.relative_to(job.project).as_posix() if job.project else script.name


def summary(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return what plan and results have of a project; empty without one."""
    if not tree:
        return {}
    size = {"files": len(tree["files"]), "bytes": tree["bytes"]}
    return {"directory": tree["directory"], "digest": tree["digest"], **size, "paths": tree["paths"]}
