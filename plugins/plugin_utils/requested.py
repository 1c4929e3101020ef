# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What requests of measurements and predictions have in common, on the control node."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Any

from ansible import context
from ansible.utils.vars import load_extra_vars


def plain(value: object) -> Any:
    """Return a value of Ansible's as plain data, which can be merged and copied."""
    return json.loads(json.dumps(value))


def given(loader: Any) -> dict[str, Any]:
    """Return the variables that a user has set with -e, before templates in them are evaluated."""
    return dict(load_extra_vars(loader)) if context.CLIARGS else {}


def refuse_misspelt(loader: Any, options: Sequence[str]) -> None:
    """Raise ValueError where a variable that a user has set with -e nearly is one of the options."""
    said = misspelt(list(given(loader)), options)
    if said:
        raise ValueError(said)


def misspelt(names: Sequence[str], options: Sequence[str]) -> str:
    """Return what is wrong with the names of a user's variables: one that nearly is an option is a mistake."""
    for name in names:
        near = difflib.get_close_matches(name, options, n=1, cutoff=0.8)
        if near and name not in options:
            return f"{name}: unknown option; did you mean {near[0]}?"
    return ""
