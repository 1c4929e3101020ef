"""Steps of transformers' Trainer: the positions of their rows, and how their losses are weighted."""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any

from amx_cluster.observer import loss_weight


class Steps:
    """Counts positions of the rows that a Trainer trains with, and looks at its losses once."""

    def __init__(self) -> None:
        self.positions = self.tokens = self.not_computed = self.batches = self.squares = 0
        self.is_first = True
        self.loss_weight: dict[str, Any] = {}

    def watch(self, trainer: Any) -> None:
        """Count at each step of a class of Trainer."""
        theirs = trainer.training_step

        @functools.wraps(theirs)
        def training_step(this: Any, model: Any, inputs: Any, *args: Any, **words: Any) -> Any:
            mask, before = None, left_out()
            with contextlib.suppress(Exception):
                mask = inputs["attention_mask"]
            if self.is_first:
                self.is_first = False
                with contextlib.suppress(Exception):
                    self.loss_weight = loss_weight.facts(this, args[0] if args else words.get(loss_weight.ITEMS))
            made = theirs(this, model, inputs, *args, **words)
            with contextlib.suppress(Exception):
                self.add(mask, left_out() - before)
            return made

        trainer.training_step = training_step

    def add(self, mask: Any, not_computed: int) -> None:
        """Count a batch.

        mask: (rows, positions), or (rows, choices, positions); others are left out. not_computed: positions of padding
        that the step left out, which may be the same ones several times.
        """
        if mask.dim() in (2, 3):
            positions, tokens = mask.numel(), int(mask.count_nonzero())
            not_computed = min(positions - tokens, not_computed)
            self.positions += positions
            self.tokens += tokens
            self.not_computed += not_computed
            self.batches += 1
            self.squares += (positions - not_computed) ** 2

    def facts(self) -> dict[str, Any]:
        """Return what was seen so far.

        {positions, tokens, not_computed (positions without a token that `optimize: padding` left out), batches,
        squares (the sum of squares of the positions that were computed of each batch), loss_weight (as
        loss_weight.facts returns it, where that is something)}.
        """
        counted = ("positions", "tokens", "not_computed", "batches", "squares") if self.positions else ()
        weight = {"loss_weight": self.loss_weight} if self.loss_weight else {}
        return {**{name: getattr(self, name) for name in counted}, **weight}


def left_out() -> int:
    """Return how many positions of padding `optimize: padding` has left out so far."""
    return getattr(sys.modules.get("amx_cluster.optimize.padding"), "left_out", 0)
