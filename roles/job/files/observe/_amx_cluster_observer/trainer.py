"""transformers' Trainer: how far it is, and which checkpoints it has saved."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any

from _amx_cluster_observer import sharding
from _amx_cluster_observer.gradients import Gradients
from _amx_cluster_observer.group import Group
from _amx_cluster_observer.saving import mark_saved
from _amx_cluster_observer.wire import PROGRESS


def watch(trainer: Any, group: Group, gradients: Gradients) -> None:
    """Have transformers' Trainer report its steps to progress.json, at most once a second, on rank 0."""
    from transformers import TrainerCallback

    rank, activity = group.rank, group.activity

    class Progress(TrainerCallback):
        """Keeps progress.json: {step, max_steps, epoch, samples_per_step, began, first_step, time, metrics}."""

        def __init__(self) -> None:
            self.metrics: dict[str, float] = {}
            self.began = self.wrote = 0.0
            self.first_step = 0

        def on_train_begin(
            self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **_others: Any
        ) -> None:
            group.refuse_alone(getattr(args, "world_size", None))
            if rank.sharding:
                sharding.refuse(rank, args, model)
            with contextlib.suppress(Exception):
                gradients.trainer(model, optimizer)
            self.began = time.time()
            self.first_step = state.global_step
            self.report(args, state)

        def on_substep_end(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
            activity.note()

        on_prediction_step = on_evaluate = on_substep_end

        def on_save(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
            activity.note()
            with contextlib.suppress(OSError):  # then it does not count as complete
                mark_saved(rank, os.path.join(args.output_dir, f"checkpoint-{state.global_step}"))
                if rank.sharding:
                    sharding.rotate(rank, args, state)

        def on_step_end(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
            activity.step()
            if time.time() - self.wrote >= 1:
                self.report(args, state)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_others: Any) -> None:
            activity.note()
            self.metrics.update({key: value for key, value in (logs or {}).items() if isinstance(value, (int, float))})
            self.report(args, state)

        def report(self, args: Any, state: Any) -> None:
            if rank.number != 0 or not state.max_steps:
                return
            self.wrote = time.time()
            rank.write(
                PROGRESS,
                {
                    "step": state.global_step,
                    "max_steps": state.max_steps,
                    "epoch": state.epoch,
                    "samples_per_step": args.train_batch_size * args.gradient_accumulation_steps * args.world_size,
                    "began": self.began,
                    "first_step": self.first_step,
                    "time": self.wrote,
                    "metrics": self.metrics,
                },
            )

    trainer.DEFAULT_CALLBACKS.append(Progress)
    if rank.sharding:
        sharding.watch_trainer(trainer)
