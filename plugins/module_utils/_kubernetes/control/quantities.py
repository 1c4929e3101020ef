# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantities as Kubernetes writes them: 128Gi, 500m."""

from __future__ import annotations

import re
from fractions import Fraction

MI, GI = 1 << 20, 1 << 30
_SUFFIXES = {
    "": Fraction(1),
    "m": Fraction(1, 1000),
    **{letter: Fraction(1000 ** (place + 1)) for place, letter in enumerate(("k", "M", "G", "T", "P"))},
    **{f"{letter}i": Fraction(1024 ** (place + 1)) for place, letter in enumerate("KMGTP")},
}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|k|[MGTP]|[KMGTP]i)?")


def number(value: object) -> Fraction:
    """Return a quantity as a number: of bytes for memory, of CPUs. Raises ValueError for what is none."""
    match = None if isinstance(value, bool) else _QUANTITY.fullmatch(str(value).strip())
    if not match:
        raise ValueError(f"{value!r} is not a quantity such as 128Gi or 500m")
    return Fraction(match[1]) * _SUFFIXES[match[2] or ""]


def memory(size: int) -> str:
    """Return bytes as a quantity, rounded down to whole MiB, in GiB where it is a whole number of them."""
    whole = size // MI
    return f"{whole // 1024}Gi" if whole and whole % 1024 == 0 else f"{whole}Mi"
