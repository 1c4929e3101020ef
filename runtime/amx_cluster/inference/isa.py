"""The instructions that oneDNN used for a request, from what its verbose mode prints.

https://uxlfoundation.github.io/oneDNN/dev_guide_verbose.html: a line for each primitive that ran,
onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core_bf16,undef,src:bf16::blocked:ab::f0,,,8x768:..,0.12
with its kind, its implementation (and behind the colon the instruction set), and its time in ms at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._hosts.onednn import printed_by

# Those in which a model computes; reorders and others only move values.
PRODUCTS = ("matmul", "inner_product", "convolution", "deconvolution", "rnn")
NONE = "no oneDNN: products are MKL's or torch's own"


def probe(request: Callable[[], Any]) -> str | None:
    """Make one request with oneDNN's verbose mode on, and return a summary of what it printed (see summary).

    What the request itself prints is lost. None where this torch has no such switch.
    """
    printed = printed_by(request)
    return None if printed is None else summary(printed)


def summary(printed: str) -> str:
    """Return which implementation took most of the time of products, such as `matmul brg_matmul:avx512_core_bf16`.

    With the share of the time that oneDNN's products had in it where there were others; NONE without any.
    """
    times: dict[str, float] = {}
    for line in printed.splitlines():
        words = line.split(",")
        if not words[0].startswith(("onednn_verbose", "dnnl_verbose")) or "exec" not in words:
            continue
        place = words.index("exec")
        if len(words) < place + 5 or words[place + 2] not in PRODUCTS:
            continue
        try:
            took = float(words[-1])
        except ValueError:
            continue
        name = f"{words[place + 2]} {words[place + 3]}"
        times[name] = times.get(name, 0.0) + took
    if not times:
        return NONE
    first, most = max(times.items(), key=lambda item: item[1])
    share = most / sum(times.values()) if sum(times.values()) else 1.0
    return first if share > 0.995 else f"{first} ({share:.0%} of the time of products)"
