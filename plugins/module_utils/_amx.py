# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instruction sets a CPU offers to training."""

from __future__ import annotations

# From the best for training to the least; each with the /proc/cpuinfo flags that must all be there.
ISAS: dict[str, tuple[str, ...]] = {
    "amx": ("amx_tile", "amx_bf16"),
    "avx512_bf16": ("avx512_bf16",),
    "avx512_vnni": ("avx512_vnni",),
    "avx512": ("avx512f", "avx512bw", "avx512vl", "avx512dq"),
    "avx2": ("avx2",),
}
# Those whose matrix products in bfloat16 are faster than in float32.
BF16_ISAS = ("amx", "avx512_bf16")


def cpu_flags(cpuinfo: str) -> frozenset[str]:
    """Return the flags of the first CPU in the text of /proc/cpuinfo; empty where it names none (not x86)."""
    for line in cpuinfo.splitlines():
        name, _colon, value = line.partition(":")
        if name.strip() == "flags":
            return frozenset(value.split())
    return frozenset()


def best_isa(flags: frozenset[str]) -> str:
    """Return the best instruction set in ISAS that the flags show, or "none"."""
    return next((isa for isa, needed in ISAS.items() if flags.issuperset(needed)), "none")
