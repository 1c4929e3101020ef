# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options of actions that report; the arguments are plugin_utils/document.ARGUMENTS."""

    DOCUMENTATION = r"""
options:
  format:
    description: Whether the report is text for a person, or one JSON document on one line.
    type: str
    choices: [text, json]
    default: text
  query:
    description: A JMESPath expression that selects from the JSON document. It needs the Python library jmespath.
    type: str
    default: ""
  output:
    description: The file on the control node to which the JSON document is written, instead of to the terminal.
    type: path
"""
