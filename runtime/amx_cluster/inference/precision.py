"""Numbers of fewer bits: bf16, fp16 and int8, and what of them this CPU multiplies.

What was compared, and why these ways were taken: docs/inference_engines.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amx_cluster.inference.loaded import Unavailable
from ansible_collections.amx.cluster.plugins.module_utils._hosts import amx
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import PRECISIONS

# CPU flags (Linux, arch/x86/include/asm/cpufeatures.h) of instructions that multiply a precision; any of them will do.
INSTRUCTIONS = {
    "bf16": ("avx512_bf16", "amx_bf16"),
    "fp16": ("avx512_fp16", "amx_fp16"),
    "int8": ("avx512_vnni", "avx_vnni", "amx_int8"),
}


def cpu_flags() -> frozenset[str]:
    """Return the flags of this host's first CPU. Raises OSError."""
    return amx.cpu_flags(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace"))


def emulated(precision: str, flags: frozenset[str]) -> bool:
    """Return whether a CPU with these flags has no instructions for products in this precision."""
    needed = INSTRUCTIONS.get(precision)
    return needed is not None and not flags.intersection(needed)


def check(precision: str, emulation: bool, flags: frozenset[str]) -> bool:
    """Return whether the precision is emulated; raises Unavailable where it would be and that was not asked for."""
    if precision not in PRECISIONS:
        raise Unavailable(f"{precision} is not one of the precisions {', '.join(PRECISIONS)}")
    without = emulated(precision, flags)
    if without and not emulation:
        names = " or ".join(INSTRUCTIONS[precision])
        raise Unavailable(
            f"this CPU has no instructions for {precision} ({names}): set `emulation: true` to run it more slowly"
        )
    return without


def dtype(precision: str) -> Any:
    """Return torch's type of what is computed outside of int8 layers."""
    import torch

    return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
