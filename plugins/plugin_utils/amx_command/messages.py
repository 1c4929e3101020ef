# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options in messages, with the names that they have for ansible-playbook.

Messages name an option -e NAME=VALUE, without the prefix of its name.
"""

from __future__ import annotations

import re

from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import table

NAME = re.compile(r"(?<![\w-])(-e\s+(?:'\{)?)(\w+)")


def for_ansible(text: str) -> str:
    """Return a text in which each option has the name that ansible-playbook takes."""
    return NAME.sub(lambda found: found[1] + (table.PREFIX if found[2] in table.NAMES else "") + found[2], text)
