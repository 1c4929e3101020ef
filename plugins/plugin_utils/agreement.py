# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask on the terminal before something is changed."""

from __future__ import annotations

from ansible.errors import AnsiblePromptInterrupt, AnsiblePromptNoninteractive
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.utils.display import Display

display = Display()


def is_given(question: str, assumed: object = False) -> bool:
    """Return whether the answer to a question is yes. Without a terminal nobody is asked, which is yes, too.

    assumed: what --yes is: true where nobody is to be asked.
    """
    if boolean(assumed, strict=False):
        return True
    try:
        answer = display.prompt_until(f"{question} [y/N] ")
    except AnsiblePromptNoninteractive:
        return True
    except AnsiblePromptInterrupt:
        return False
    return answer.decode(errors="replace").strip().lower() in ("y", "yes")
