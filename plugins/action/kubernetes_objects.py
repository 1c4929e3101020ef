# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.amx.cluster.plugins.module_utils import _io
from ansible_collections.amx.cluster.plugins.module_utils._jobs import project_files
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import load
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run, Settings
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run_files import secrets
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import (
    derivation,
    manifest,
    objects,
    settings,
)
from ansible_collections.amx.cluster.plugins.plugin_utils import document, inventory_in_use, job_on_kubernetes

display = Display()

NEVER_COMMIT = f"# The values of a job's secrets are never committed.\n{manifest.SECRET_FILE}\n"


class ActionModule(ActionBase):
    """Renders the objects of a job on the control node. Neither a host nor a cluster is contacted."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            {
                **job_on_kubernetes.ARGUMENTS,
                "path": {"type": "path"},
                "secret": {"type": "bool", "default": False},
                **document.ARGUMENTS,
            }
        )
        if not options["job"]:
            return {"failed": True, "msg": job_on_kubernetes.NO_JOB}
        try:
            return self.render(options)
        except (OSError, ValueError) as error:
            return {"failed": True, "msg": inventory_in_use.commands(str(error), task_vars)}

    def render(self, options: dict[str, Any]) -> dict[str, Any]:
        """Write the objects into the directory, and show what was derived."""
        chosen = settings.read(options["kubernetes"])
        job = load(Path(options["job"]), options["override"])
        tree = project_files.read(job)["project"]
        run = Run(job, Settings(head="", backend=options["backend"], project=project_files.summary(tree)))
        derived = derivation.derive(run, options["stack"], chosen)
        contents = manifest.job_files(derived, job, tree)
        made = manifest.render(derived, contents)
        files = {name: manifest.to_yaml(one) for name, one in manifest.named(made).items()}
        secret = self.secret(options, derived, run)

        directory = Path(options["path"] or Path("manifests", derived.name)).expanduser().absolute()
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
        if not options["secret"] or not derived.secret:
            return ""
        values = secrets(run, options["job_env"], options["override"])
        return manifest.to_yaml(objects.secret(derived, values))

    def show(self, options: dict[str, Any], derived: derivation.Derived, result: dict[str, Any]) -> None:
        if options["format"] == "json":
            document.emit({"version": 1, **{key: result[key] for key in ("path", "files", "derived")}}, options)
            return
        context = f" --context {derived.settings.context}" if derived.settings.context else ""
        display.display(derivation.describe(derived))
        # The files of a job may be more than the annotation in which kubectl keeps what it has applied itself.
        apply = f"kubectl{context} apply --server-side -f {result['path']}"
        display.display(f"{len(result['files'])} files in {result['path']}: {apply}")
