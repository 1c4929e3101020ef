"""Weights of a Trainer's losses: means over all rows of a step, as its log and clipping take them for, or not.

A model that gets num_items_in_batch divides its loss by the labels of all ranks' batches, and the Trainer multiplies it
by the ranks. The Trainer of transformers 5 takes each model whose forward() has **kwargs for one that does so. The loss
of many is the mean of a batch all the same, as of BertForSequenceClassification: their losses and gradients get
multiplied by the ranks, and are not divided by the steps of gradient accumulation (transformers 5.23, trainer.py,
compute_loss and training_step).
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
from typing import Any

ITEMS = "num_items_in_batch"
UNEVEN = "batch_rebalance"


@functools.lru_cache
def is_mean(model: Any) -> bool:
    """Return whether a transformers class computes its loss as the mean of a batch, whatever items it is given.

    False where its forward's source does not show it.
    """
    if not model.__module__.startswith("transformers."):
        return False
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(model.forward))))
    except (OSError, TypeError, SyntaxError):
        return False
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if any(isinstance(node, ast.Name) and node.id == ITEMS for node in ast.walk(tree)):
        return False
    own = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "loss_function"]
    if own:
        return not any(word.arg in (None, ITEMS) for call in own for word in call.keywords)
    names = [getattr(call.func, "id", getattr(call.func, "attr", "")) for call in calls]
    return any(name.endswith(("Loss", "loss_fct")) for name in names)


def facts(trainer: Any, items: Any) -> dict[str, Any]:
    """Return how a Trainer's losses are weighted where its model's are means of a batch; else nothing.

    trainer: in its first step. items: the num_items_in_batch that this step got, or None. The result: {model, ranks
    and accumulation (by which losses and gradients are multiplied, each 1 where they are not), uneven (whether rows in
    small batches weigh more)}.
    """
    model = trainer.model
    while hasattr(model, "get_base_model"):
        model = model.get_base_model()
    kind: Any = type(model)
    own = getattr(sys.modules.get("transformers.trainer"), "Trainer", None)
    is_own = own is not None and getattr(trainer.compute_loss, "__func__", None) is own.compute_loss
    if not is_own or trainer.compute_loss_func or trainer.label_smoother or not is_mean(kind):
        return {}
    args = trainer.args
    ranks, accumulation = trainer.accelerator.num_processes, args.gradient_accumulation_steps
    uneven = getattr(args, "train_sampling_strategy", "") == UNEVEN and ranks * accumulation > 1
    is_multiplied = trainer.model_accepts_loss_kwargs and items is not None
    # What a script says of its loss overrides what the Trainer takes it for.
    says = getattr(trainer, "loss_is_scaled_for_ga", None)
    # The batches of this step: a dataset may have fewer.
    steps = getattr(trainer, "current_gradient_accumulation_steps", accumulation)
    factors = {
        "ranks": ranks if is_multiplied and args.average_tokens_across_devices else 1,
        "accumulation": steps if is_multiplied and says is not False else 1,
    }
    return {"model": kind.__name__, **factors, "uneven": uneven}
