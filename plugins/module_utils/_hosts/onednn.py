# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The instructions with which oneDNN ran a product, from what its verbose mode prints of it.

https://uxlfoundation.github.io/oneDNN/dev_guide_verbose.html: a line for each primitive that ran, with its
implementation, and behind the colon the instruction set:
onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx10_1_512_amx,undef,src:bf16::blocked:ab::f0 wei:bf16:...
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import tempfile
from collections.abc import Callable
from typing import Any

PRODUCT = re.compile(r"^(?:onednn|dnnl)_verbose,.*\bexec,cpu,(?:matmul|inner_product),([^,]+),", re.MULTILINE)


def implementation(printed: str) -> str:
    """Return the implementation of the first product, such as `brg_matmul:avx10_1_512_amx`; "" without one."""
    product = PRODUCT.search(printed)
    return product[1] if product else ""


def is_amx(name: str) -> bool:
    """Return whether an implementation computes with AMX."""
    return name.endswith("_amx") or "_amx_" in name


def product_ran_with(multiply: Callable[[], Any]) -> str:
    """Call `multiply`, which multiplies with torch, and return the implementation that oneDNN reports of it.

    What this process prints meanwhile is lost. "" where oneDNN did not multiply, or torch cannot have it report.
    """
    return implementation(printed_by(multiply) or "")


def printed_by(function: Callable[[], Any]) -> str | None:
    """Call a function with oneDNN's verbose mode on, and return what this process printed; None without such a mode.

    Where this torch has no such mode, the function is not called.
    """
    try:
        from torch.backends import mkldnn

        switch = mkldnn.verbose(mkldnn.VERBOSE_ON)
    except (ImportError, AttributeError):
        return None
    sys.stdout.flush()
    kept = os.dup(1)
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 1)
        try:
            with switch:
                function()
            ctypes.CDLL(None).fflush(None)  # C's stdout has a buffer of its own
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        caught.seek(0)
        return caught.read().decode(errors="replace")
