"""optimize - parts of a step that PyTorch computes slowly on CPUs are replaced, without a change to the script.

| part | what it replaces |
|---|---|
| dropout | the random numbers of dropout, which PyTorch draws one after another on one core (masks.py) |
| attention | scaled_dot_product_attention where PyTorch computes in float32 or writes all scores (attention.py) |
| optimizer | Adam and AdamW that go through the weights one operation after another (optimizer.py) |
| loss | logits of causal language models at positions without a label (loss.py) |
| padding | padding of rows that are classified by their first token (padding.py) |

A part falls back to PyTorch wherever it does not apply. What PyTorch does not have as expected is left as it is, with a
line in the job's log.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterable
from typing import Any

ENCODERS = ("albert", "bert", "camembert", "distilbert", "electra", "roberta", "xlm_roberta")
# A part's own module, and the modules whose import lets it be installed.
MODULES = {
    "dropout": ("masks", ("torch",)),
    "attention": ("attention", ("torch",)),
    "optimizer": ("optimizer", ("torch",)),
    "loss": ("loss", ("transformers.modeling_utils",)),
    "padding": ("padding", tuple(f"transformers.models.{name}.modeling_{name}" for name in ENCODERS)),
}


def watched(parts: Iterable[str]) -> dict[str, Callable[[Any], None]]:
    """Return by the name of a module the function that installs parts in it, once it has been imported."""
    by_module: dict[str, list[str]] = {}
    for part in parts:
        for module in MODULES[part][1]:
            by_module.setdefault(module, []).append(part)
    return {module: functools.partial(_install, parts) for module, parts in by_module.items()}


def _install(parts: list[str], module: Any) -> None:
    for part in parts:
        try:
            importlib.import_module(f"amx_cluster.optimize.{MODULES[part][0]}").install(module)
        except Exception as error:
            package = module.__name__.partition(".")[0]
            version = getattr(sys.modules.get(package), "__version__", "")
            text = f"optimize: {part} is off with {package} {version}: {type(error).__name__}: {error}"
            print(text, file=sys.stderr, flush=True)


def install(parts: Iterable[str]) -> None:
    """Install parts in the modules that they replace something of, importing these."""
    for name, watch in watched(parts).items():
        watch(importlib.import_module(name))
