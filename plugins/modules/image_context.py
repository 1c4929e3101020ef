# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is the documentation of an action plugin, which runs on the control node.

from __future__ import annotations

DOCUMENTATION = r"""
module: image_context
short_description: Make the directory from which the image of a stack is built
version_added: 1.0.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Writes a Dockerfile, the wheels of a stack, the programs of the collection that pods run, and if requested the
    examples of transformers to a new directory on the control node, from which docker or podman builds the image.
  - The name of the directory is the tag of the image, which changes when anything in it does.
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.idempotent_module
options:
  path:
    description: The directory in which the new one is made.
    type: path
    required: true
  stack:
    description: The stack, as M(amx.cluster.stack_info) returns it.
    type: dict
    required: true
  wheels:
    description: Its wheels, as M(amx.cluster.wheelhouse) returns them.
    type: list
    elements: dict
    required: true
  wheelhouse:
    description: The directory with the wheels.
    type: path
    required: true
  base:
    description: The image to start from, by a name that changes with its content, such as the engine's ID of it.
    type: str
    required: true
  examples:
    description: The directory C(examples) of transformers, if it is to be in the image.
    type: path
  build_args:
    description: Variables of the build, such as proxies. Only their names are written.
    type: dict
    default: {}
seealso:
  - module: amx.cluster.stack_info
  - module: amx.cluster.wheelhouse
"""

EXAMPLES = r"""
- name: Make the directory of the image
  amx.cluster.image_context:
    path: ~/.cache/amx.cluster/images
    stack: "{{ chosen.stack }}"
    wheels: "{{ collected.wheels }}"
    wheelhouse: "{{ collected.path }}"
    base: debian:12-slim
"""

RETURN = r"""
path:
  description: The directory.
  type: str
  returned: success
digest:
  description: The digest of everything in it.
  type: str
  returned: success
tag:
  description: The tag of the image, the name of the stack with the beginning of the digest.
  type: str
  returned: success
  sample: native-3f0c1a2b4d5e
"""
