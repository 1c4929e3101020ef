# Copyright (c) 2026, the amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """How package indexes are reached; the arguments are _package_indexes.ARGUMENTS."""

    DOCUMENTATION = r"""
options:
  index_timeout:
    description: Seconds that an index has to answer; one that does not is left out.
    type: int
    default: 5
  ca_certificate:
    description: A file of certificates by which indexes are trusted, where the module runs.
    type: path
  proxy:
    description: The proxy for all indexes, such as V(http://proxy.example.com:3128).
    type: str
  credentials:
    description: How to log in on indexes. They reach pip in a file that only its user can read.
    type: list
    elements: dict
    default: []
    suboptions:
      host:
        description: The index's host name.
        type: str
        required: true
      user:
        description: The user's name there.
        type: str
        required: true
      password:
        description: The user's password or token.
        type: str
        required: true
"""
