#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: file_set
short_description: Verify files by their SHA-256, and copy the missing and damaged ones
extends_documentation_fragment: amx.cluster.internal
options:
  path: {type: path, required: true, description: The directory on the host. It is created if it is missing}
  files: {type: list, elements: dict, required: true,
    description: "The files that the directory should have, as M(amx.cluster.wheelhouse) and
    M(amx.cluster.file_set_info) return them. Each has C(file), its path in the directory, C(sha256) and C(bytes), and
    may have C(source), its path on the control node where that is not the same path in O(source)"}
  record: {type: path,
    description: "A file on the host that keeps the SHA-256 of the files, so that files that have not changed are not
    read again"}
  name: {type: str, description: "What the files are, of which the action shows how many were new"}
  source: {type: path, description: The directory on the control node that has the files}
  archive: {type: path, description: "A tar file on the host with files of O(files), which are unpacked first"}
  strict: {type: bool, default: false, description: Whether to fail when a file is missing or damaged}
  private: {type: bool, default: false, description: "Whether no other user can read O(path), if it is created"}
"""
EXAMPLES = "\n# Internal\n"

import tarfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._data import file_set, relay
from ansible_collections.amx.cluster.plugins.module_utils._data.records import Record
from ansible_collections.amx.cluster.plugins.module_utils._internal import argument_spec


def unpack(archive: Path, directory: Path, names: list[str]) -> None:
    """Unpack the files of these names into the directory, each at once, and remove the archive."""
    try:
        with archive.open("rb") as stream:
            relay.unpack(stream, directory, names)
    finally:
        archive.unlink()


def main() -> None:
    module = AnsibleModule(argument_spec=argument_spec(DOCUMENTATION), supports_check_mode=True)
    options = module.params
    directory = Path(options["path"])
    changed = False
    try:
        if not directory.is_dir():
            changed = True
            if not module.check_mode:
                _ownership.make(directory, "copied files", mode=0o700 if options["private"] else 0o777)
        if options["archive"] and not module.check_mode:
            unpack(Path(options["archive"]), directory, [entry["file"] for entry in options["files"]])
        record = Record(Path(options["record"]) if options["record"] else None)
        differences = file_set.differences(directory, options["files"], record)
        if not module.check_mode:
            record.save()
            for file in differences:
                (directory / file).parent.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError, tarfile.TarError) as error:
        module.fail_json(msg=f"{directory} cannot be read: {error}")
    result = {"differences": differences}
    if differences and options["strict"] and not module.check_mode:
        module.fail_json(msg=f"{directory} failed verification: {file_set.describe(differences)}; run again", **result)
    module.exit_json(changed=changed, **result)


if __name__ == "__main__":
    main()
