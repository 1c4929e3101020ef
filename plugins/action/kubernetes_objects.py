# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils import _io
from ansible_collections.amx.cluster.plugins.module_utils._jobs import project_files
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import load, secrets
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run, Settings
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import (
    derivation,
    manifest,
    objects,
    settings,
)
from ansible_collections.amx.cluster.plugins.plugin_utils import document, screen
from ansible_collections.amx.cluster.plugins.plugin_utils.control_node_action import ControlNodeAction

display = Display()

NEVER_COMMIT = f"# The values of a job's secrets are never committed.\n{manifest.SECRET_FILE}\n"


class ActionModule(ControlNodeAction):
    """Renders the objects of a job on the control node. Neither a host nor a cluster is contacted."""

    ROLE = "manifest"
    ARGUMENTS: ClassVar[dict[str, Any]] = {
        "kubernetes": {"type": "raw", "required": True},
        "stack": {"type": "dict", "required": True},
        "backend": {"type": "str", "default": "auto"},
        "optimize": {"type": "raw", "default": "auto"},
        "job_env": {"type": "raw", "default": {}, "no_log": True},
        **document.ARGUMENTS,
    }

    def act(self, options: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Write the objects into the directory, and show what was derived."""
        if not options["job"]:
            raise ValueError("no job was named: add -e job=FILE, such as -e job=jobs/demo.yml")
        chosen = settings.read(options["kubernetes"])
        job = load(Path(options["job"]), options["override"])
        tree = project_files.read(job, project_files.build_options(self.variable_of(task_vars)))["project"]
        of_inventory = {name: options[name] for name in ("backend", "optimize")}
        run = Run(job, Settings(head="", **of_inventory, project=project_files.summary(tree)))
        derived = derivation.derive(run, options["stack"], chosen)
        contents = manifest.job_files(derived, job, tree)
        made = manifest.render(derived, contents)
        files = {name: manifest.to_yaml(item) for name, item in manifest.named(made).items()}
        secret = self.secret(options, derived, run)

        directory = Path(options["to"] or Path("manifests", derived.name)).expanduser().absolute()
        changed, stale = manifest.differences(directory, files)
        if not self._task.check_mode:
            directory.mkdir(parents=True, exist_ok=True)
            for name, text in changed.items():
                _io.write_text(directory / name, text)
            for path in stale:
                path.unlink()
            if secret:
                _io.write_text(directory / ".gitignore", NEVER_COMMIT)
                _io.write_text(directory / manifest.SECRET_FILE, secret, 0o600)
        result = {
            "changed": bool(changed or stale),
            "path": str(directory),
            "files": [*files, *([manifest.SECRET_FILE] if secret else [])],
            "derived": {
                **derived.for_pods(),
                "precision": derived.run.job.precision,
                **derived.resources.of_container(),
                "shm": derived.resources.shm,
                "notes": list(derived.notes),
            },
        }
        self.show(options, derived, result)
        return result

    def secret(self, options: dict[str, Any], derived: derivation.Derived, run: Run) -> str:
        """Return the file of the job's Secret where it is requested, else nothing."""
        if not options["with_secret"] or not derived.secret:
            return ""
        values = secrets(run.job, options["job_env"], options["override"])
        return manifest.to_yaml(objects.secret(derived, values))

    def show(self, options: dict[str, Any], derived: derivation.Derived, result: dict[str, Any]) -> None:
        if options["format"] == "json":
            document.emit({"version": 1, **{key: result[key] for key in ("path", "files", "derived")}}, options)
            return
        context = f" --context {derived.settings.context}" if derived.settings.context else ""
        screen.show(derivation.describe(derived))
        # The files of a job may be more than the annotation in which kubectl keeps what it has applied itself.
        apply = f"kubectl{context} apply --server-side -f {result['path']}"
        display.display(f"{len(result['files'])} files in {result['path']}: {apply}")
