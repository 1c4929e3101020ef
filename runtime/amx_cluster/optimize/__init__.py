"""optimize - parts of a step that PyTorch computes slowly on CPUs are replaced, without a change to the script.

| part | what it replaces |
|---|---|
| dropout | the random numbers of dropout, which PyTorch draws one after another on one core (masks.py) |
| attention | scaled_dot_product_attention where PyTorch computes in float32 or writes all scores (attention.py) |
| optimizer | Adam and AdamW that go through the weights one operation after another (optimizer.py) |

A part falls back to PyTorch wherever it does not apply. What PyTorch does not have as expected is left as it is, with a
line in the job's log.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

MODULES = {"dropout": "masks", "attention": "attention", "optimizer": "optimizer"}


def watch(torch: Any, parts: list[str]) -> None:
    """Replace these parts in PyTorch, which has just been imported."""
    for part in parts:
        try:
            importlib.import_module(f"amx_cluster.optimize.{MODULES[part]}").install(torch)
        except Exception as error:
            text = f"optimize: {part} is left to PyTorch {torch.__version__}: {type(error).__name__}: {error}"
            print(text, file=sys.stderr, flush=True)
