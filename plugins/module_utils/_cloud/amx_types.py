# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instance families of EC2 whose CPUs have AMX, with where that is from.

A virtual machine has AMX only where the hypervisor passes it on: amx_info and the preflight of site.yml look at the
flags of the host's kernel, whatever stands here.
"""

from __future__ import annotations

from typing import NamedTuple

_BLOG = "https://aws.amazon.com/blogs/compute/accelerate-cpu-based-ai-inference-workloads-using-intel-amx-on-amazon-ec2"
_CPU = "not checked"


class Family(NamedTuple):
    """cpu: the generation. source: a page that says that these instances have AMX, or that none was checked."""

    cpu: str
    source: str


FAMILIES = {
    **dict.fromkeys(("m7i", "m7i-flex", "c7i", "c7i-flex", "r7i", "r7iz"), Family("Sapphire Rapids", _CPU)),
    **dict.fromkeys(("i7i", "i7ie"), Family("Emerald Rapids", _CPU)),
    **dict.fromkeys(("m8i", "m8i-flex", "c8i", "c8i-flex", "r8i", "r8i-flex"), Family("Granite Rapids", _BLOG)),
}


def warning(instance_type: str) -> str:
    """Return what to say about a type that is not known to have AMX; empty for one that is."""
    family = instance_type.partition(".")[0]
    if family in FAMILIES:
        return ""
    known = ", ".join(FAMILIES)
    return f"{instance_type} is not among the types with AMX ({known}): bf16 is slow without it (docs/amx.md)"
