# Copyright (c) 2026, the amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options for reaching package indexes; the arguments are module_utils/_stacks/indexes.ARGUMENTS."""

    DOCUMENTATION = r"""
options:
  index_timeout:
    description: Seconds within which an index must answer; one that does not is left out.
    type: int
    default: 5
  ca_certificate:
    description: A file with the certificates of authorities that indexes are trusted by, where the module runs.
    type: path
  proxy:
    description: The proxy for all indexes, such as V(http://proxy.example.com:3128).
    type: str
  credentials:
    description: Credentials for indexes. They are passed to pip in a file that only its user can read.
    type: list
    elements: dict
    default: []
    suboptions:
      host:
        description: The host name of the index.
        type: str
        required: true
      user:
        description: The name of the user there.
        type: str
        required: true
      password:
        description: The password or token of the user.
        type: str
        required: true
"""

    # Which indexes there are; the arguments are CHOICE there.
    CHOICE = r"""
options:
  index_url:
    description: The main package index, instead of the one in pip's configuration. V(none) for no index at all.
    type: str
  index_urls:
    description: Further package indexes. One that does not answer within O(index_timeout) is left out.
    type: list
    elements: str
    default: []
  find_links:
    description: Directories of wheels, and pages with links to wheels. One that does not answer is left out.
    type: list
    elements: str
    default: []
  sources:
    description:
      - Where a project says that its packages come from. The module fails if an index or a directory of these is not
        searched, or does not answer, since another one may have a package of the same name.
    type: list
    elements: dict
    default: []
    suboptions:
      option:
        description:
          - The option of pip, V(--index-url), V(--extra-index-url), V(--find-links) or V(--no-index); or V(elsewhere)
            for what is no package index.
        type: str
        required: true
      url:
        description: The URL or the directory.
        type: str
        required: true
      origin:
        description: Where it is written, for messages.
        type: str
        required: true
      package:
        description: The package that it is for, in the normalized form. By default it is for all.
        type: str
        default: ""
"""
