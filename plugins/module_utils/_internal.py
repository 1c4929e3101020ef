# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of internal modules, declared once: in their DOCUMENTATION."""

from __future__ import annotations

import json
import re
from typing import Any

# An option is {SETTINGS, description: TEXT}, of which the settings are read here: hosts need not have PyYAML.
OPTION = re.compile(r"^  (\w+): \{(.*?),?\s+description:", re.MULTILINE | re.DOTALL)
SETTING = re.compile(r"(\w+): (\[.*?\]|\{.*?\}|\"[^\"]*\"|[^,]+)")


def argument_spec(documentation: str) -> dict[str, dict[str, Any]]:
    """Return the argument specification of a module by its documentation."""
    return {
        name: {key: _value(text.strip()) for key, text in SETTING.findall(settings)}
        for name, settings in OPTION.findall(documentation)
    }


def _value(text: str) -> Any:
    """Return a value that YAML has in one line: a word, text in quotes, a number, or a list of words."""
    if text.startswith("[") and text != "[]":
        return [_value(word.strip()) for word in text[1:-1].split(",")]
    try:
        return json.loads(text)
    except ValueError:
        return text
