# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All objects of a job, in the order in which they are created, and as files for Git and review."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import project
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import without_secrets
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import (
    indexed_job,
    objects,
    pytorchjob,
    trainjob,
)
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.derivation import Derived

RENDERERS: dict[str, Callable[[Derived, Mapping[str, bytes]], list[objects.Object]]] = {
    "Job": indexed_job.render,
    "PyTorchJob": pytorchjob.render,
    "TrainJob": trainjob.render,
}
HEADER = "# Written by amx.cluster (playbooks/manifest.yml) from the job file and cluster_kubernetes: render it again."
SECRET_FILE = "secret.yml"


def job_files(derived: Derived, job: Job, tree: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the files of a job for its ConfigMap: what the pods read, and the job's own scripts or project.

    job: as the control node has it. tree: what project_files.read returned as its project, empty without one.
    """
    files = {
        "job.yml": without_secrets(job.file).encode(),
        "job.json": _json(derived.run.to_json()),
        "kubernetes.json": _json({**derived.for_pods(), "project": _project(tree)}),
    }
    if job.project:
        foreign = [entry["file"] for entry in tree["files"] if not _is_utf_8(entry["file"])]
        if foreign:
            raise ValueError(
                f"project: {job.project} has {foreign[0]!r}, whose name is not UTF-8: rename it, or name it in "
                ".clusterignore"
            )
        for entry in tree["files"]:
            files[f"{project.DIRECTORY}/{entry['file']}"] = (job.project / entry["file"]).read_bytes()
        for name, text in tree["installed"].items():
            files[f"{project.DIRECTORY}/{name}"] = text.encode()
    else:
        scripts = [job.script, *([job.prepare.script] if job.prepare else [])]
        files.update({script.name: script.read_bytes() for script in scripts if script.is_absolute()})
    return files


def _is_utf_8(path: str) -> bool:
    return path == path.encode("utf-8", "ignore").decode("utf-8")


def _project(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return what pods make a project of, besides the contents: a ConfigMap has neither links nor permissions."""
    if not tree:
        return {}
    executable = [entry["file"] for entry in tree["files"] if entry["executable"]]
    return {**{name: tree[name] for name in ("paths", "shared", "links")}, "executable": executable}


def _json(document: Any) -> bytes:
    return (json.dumps(document, indent=1) + "\n").encode()


def render(derived: Derived, files: Mapping[str, bytes]) -> list[objects.Object]:
    """Return the objects of a job in the order in which they are created; its Secret is not among them."""
    settings = derived.settings
    return [
        *([objects.namespace(derived)] if settings.create_namespace else []),
        *([] if settings.pvc else [objects.volume_claim(derived)]),
        objects.config_map(derived, files),
        *([objects.prepare(derived, files)] if derived.is_prepared else []),
        *RENDERERS[settings.kind](derived, files),
    ]


def named(made: list[objects.Object]) -> dict[str, objects.Object]:
    """Return objects by the names of their files, which sort in the order in which the objects are created."""
    width = 10
    return {
        f"{(place + 1) * width:02d}-{item['kind'].lower()}-{item['metadata']['name']}.yml": item
        for place, item in enumerate(made)
    }


def to_yaml(item: objects.Object) -> str:
    """Return an object as YAML, texts of several lines as they are written."""
    import yaml  # only here: the control node has it, while pods may not

    class Dumper(yaml.SafeDumper):
        """Keeps lines: scripts in a ConfigMap are to be read and compared."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
        # YAML 1.1 reads U+0085 in a text that is written by lines as the end of one.
        style = '"' if "\x85" in value else "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    # Texts of the inventory are of Ansible's own types, which are no YAML.
    plain = json.loads(json.dumps(item))
    dumped: str = yaml.dump(plain, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120)
    return f"{HEADER}\n---\n{dumped}"


def differences(directory: Path, files: Mapping[str, str]) -> tuple[dict[str, str], list[Path]]:
    """Return the files to be written into a directory, and those in it that an earlier rendering left.

    A file of another origin is neither: raises ValueError where one has the name of a file to be written.
    """
    changed, stale = {}, []
    for name, text in files.items():
        path = directory / name
        old = path.read_text(encoding="utf-8") if path.is_file() else None
        if old is not None and not old.startswith(HEADER):
            raise ValueError(f"{path} is not a file of playbooks/manifest.yml: move it, or set manifest_to")
        if old != text:
            changed[name] = text
    for path in sorted(directory.glob("*.yml")):
        if path.name not in files and path.read_text(encoding="utf-8").startswith(HEADER):
            stale.append(path)
    return changed, stale
