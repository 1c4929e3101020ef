# Copyright (c) 2026, the amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of every module of the collection: its Pythons, and attributes, whose support each module names."""

    DOCUMENTATION = r"""
options: {}
requirements:
  - Python 3.9 or newer on the host that runs the module
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
  diff_mode:
    description:
      - Will return details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
  idempotent:
    description:
      - When run twice in a row outside check mode, with the same arguments, the second invocation indicates no change.
      - This assumes that the system controlled or queried by the module has not changed in a relevant way.
"""

    INFO_MODULE = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - This module does not modify state.
  diff_mode:
    support: N/A
    details:
      - This module does not modify state.
  idempotent:
    support: full
    details:
      - This module does not modify state.
"""

    IDEMPOTENT_MODULE = r"""
options: {}
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
"""

    # Idempotent, and it shows what it changes in diff mode.
    DIFF_MODULE = r"""
options: {}
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
"""

    NOT_IDEMPOTENT_MODULE = r"""
options: {}
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: none
"""
