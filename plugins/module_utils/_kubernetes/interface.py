# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interface of the control node and the programs in an image, and the check that they fit: both have this file.

control/ runs on the control node, pod/ in the pods of a job; neither imports from the other.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import archive

# Where things are in a pod; the image has PREFIX, the ConfigMap is mounted at JOB and the volume at STORAGE.
PREFIX, JOB, STORAGE, SCRATCH = "/opt/amx-cluster", "/etc/amx-cluster/job", "/storage", "/run/amx-cluster"
# The command of every container, before its action (pod/main.py).
PROGRAM = (f"{PREFIX}/env/bin/python", "-S", f"{PREFIX}/programs", "pod")
FAILED = 1
"""The exit code of the command pod when the job has failed: Kubernetes starts a pod again only where it was lost."""
# Seconds: how long a pod lives that is only read through, and how long it has to end.
READER_SECONDS, READER_ENDING = 3600, 10

VERSION = 2
"""Of the files in the ConfigMap and on the volume: another one where older programs would misread them."""


@functools.cache
def digest() -> str:
    """Return what tells these programs from others: the name of their archive."""
    return archive.name(archive.of_this())


def skew(rendered: Mapping[str, Any]) -> str:
    """Return a warning where the objects were rendered by other programs than these; else an empty string.

    rendered: kubernetes.json. Raises ValueError where these programs cannot read the job.
    """
    theirs = rendered.get("interface", 1)
    if theirs != VERSION:
        raise ValueError(
            f"the image has interface {VERSION} of the collection, and the job was rendered with interface {theirs}: "
            f"{'build the image again with playbooks/image.yml' if theirs > VERSION else 'render the job again'}, with "
            "the same version of the collection for both"
        )
    if rendered.get("programs") != digest():
        return (
            f"the image has other programs ({digest()}) than the control node had when the job was rendered "
            f"({rendered.get('programs')}): build the image again with playbooks/image.yml"
        )
    return ""
