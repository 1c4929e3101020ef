# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run_files import library_files
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import image

COLLECTION = Path(__file__).parents[2]


def programs() -> dict[str, Path]:
    """Return the programs of pods by their paths in the image: those of ranks, the pod's own, and the logic."""
    ranks, own = COLLECTION / "roles/job/files", COLLECTION / "roles/image/files"
    found = {"rank.py": ranks / "rank.py", "pod.py": own / "pod.py"}
    found.update({str(path.relative_to(ranks)): path for path in (ranks / "observe").rglob("*.py")})
    utils = COLLECTION / "plugins/module_utils"
    for name in library_files([found["pod.py"].read_text(encoding="utf-8")]):
        found[name] = utils / name.partition("plugins/module_utils/")[2]
    return dict(sorted(found.items()))


class ActionModule(ActionBase):
    """Makes the directory on the control node from which the image of a stack is built."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _result, options = self.validate_argument_spec(
            {
                "path": {"type": "path", "required": True},
                "stack": {"type": "dict", "required": True},
                "wheels": {"type": "list", "elements": "dict", "required": True},
                "wheelhouse": {"type": "path", "required": True},
                "base": {"type": "str", "required": True},
                "examples": {"type": "path"},
                "build_args": {"type": "dict", "default": {}},
            }
        )
        options = {
            **options,
            **{name: json.loads(json.dumps(options[name])) for name in ("stack", "wheels", "build_args")},
        }
        examples = Path(options["examples"]) if options["examples"] else None
        if examples and not examples.is_dir():
            return {"failed": True, "msg": f"image_examples: there is no directory {examples} on the control node"}
        try:
            made = image.context(
                options["stack"],
                options["wheels"],
                Path(options["wheelhouse"]),
                options["base"],
                programs(),
                examples,
                options["build_args"],
            )
            digest = made.digest()
            directory = Path(options["path"], image.tag(options["stack"]["name"], digest))
            if not self._task.check_mode:
                made.write(directory)
        except (OSError, ValueError) as error:
            return {"failed": True, "msg": str(error)}
        return {"changed": False, "path": str(directory), "digest": digest, "tag": directory.name}
