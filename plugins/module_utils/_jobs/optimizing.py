# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which parts of a step the ranks of a job compute faster than PyTorch: the job field optimize, and cluster_optimize.

What each of them does: runtime/amx_cluster/optimize.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs import kinds
from ansible_collections.amx.cluster.plugins.module_utils._stacks.arguments import number

AUTO, NONE = "auto", "none"
ATTENTION, LOSS = "attention", "loss"
PARTS = {
    "dropout": "masks drawn on all threads",
    ATTENTION: "in the type of its inputs",
    "optimizer": "Adam fused",
    LOSS: "logits of a decoder at labelled tokens only",
    "padding": "rows without it in encoders that classify them",
}
"""What each part computes otherwise than PyTorch."""
TORCH = (2, 13)
"""The version of PyTorch whose operators were looked into."""
TRAINING = (kinds.TRAINER.name, kinds.TORCH.name)
"""The kinds of job that `auto` is for."""


def parts(
    wanted: str | Sequence[str] | None, kind: str, stack: Mapping[str, Any], inventory: str | Sequence[str] = AUTO
) -> list[str]:
    """Return the parts for a job of a kind that sets optimize so, with a stack, in the order of PARTS.

    inventory: cluster_optimize, for a job that leaves it open (None). Like `auto`, that is for jobs that train and
    stacks that can have it. Raises ValueError where a job names parts that the stack's PyTorch cannot have.
    """
    chosen = inventory if wanted is None else wanted
    if chosen == NONE:
        return []
    can = has(stack)
    if wanted is None or wanted == AUTO:
        named = PARTS if chosen == AUTO else chosen
        return [part for part in PARTS if part in named] if can and kind in TRAINING else []
    if not can:
        raise ValueError(
            f"optimize: {', '.join(wanted)} needs torch {'.'.join(map(str, TORCH))} or newer, and stack "
            f"{stack.get('name', '')} has {_torch(stack) or 'none'}: set cluster_stack: native, or leave it out"
        )
    return [part for part in PARTS if part in wanted]


def has(stack: Mapping[str, Any]) -> bool:
    """Return whether a stack has the PyTorch that the parts are for."""
    torch = _torch(stack)
    return bool(torch) and number(torch.partition("+")[0]) >= TORCH


def _torch(stack: Mapping[str, Any]) -> str:
    return str((stack.get("packages") or {}).get("torch", ""))
