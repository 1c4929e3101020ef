"""transformers' Trainer: how far it is, and which checkpoints it has saved."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from typing import Any

from amx_cluster.observer import sharding
from amx_cluster.observer.gradients import Gradients
from amx_cluster.observer.group import Group
from amx_cluster.observer.notices import Notices
from amx_cluster.observer.saving import mark_saved
from amx_cluster.observer.training_steps import Steps
from ansible_collections.amx.cluster.plugins.module_utils._jobs.wire import PROGRESS

# Steps of an attempt in which libraries and caches warm up.
WARMUP = 5


def watch(trainer: Any, group: Group, gradients: Gradients, notices: Notices) -> None:
    """Make transformers' Trainer report its steps to progress.json, at most once a second, on rank 0.

    Where a host is to be taken back, it saves a checkpoint.
    """
    from transformers import TrainerCallback

    rank, activity = group.rank, group.activity
    steps = Steps()
    steps.watch(trainer.Trainer)
    with contextlib.suppress(AttributeError):  # of a transformers that evaluates in another way
        evaluate_in_order(trainer.Trainer)

    class Progress(TrainerCallback):
        """Keeps progress.json.

        That is {step, max_steps, epoch, samples_per_step, began, first_step, steady, time, metrics, training}.
        """

        begun = 0  # of all Trainers of the script

        def __init__(self) -> None:
            self.metrics: dict[str, float] = {}
            self.began = self.wrote = 0.0
            self.first_step = 0
            # Which step ended the warm-up of this attempt, and when.
            self.steady: dict[str, float] | None = None
            self.training: dict[str, Any] = {}
            self.number: int | None = None

        def on_train_begin(
            self, args: Any, state: Any, control: Any, model: Any = None, optimizer: Any = None, **others: Any
        ) -> None:
            group.refuse_alone(getattr(args, "world_size", None))
            if rank.sharding:
                sharding.refuse(rank, args, model)
            with contextlib.suppress(Exception):
                gradients.trainer(model, optimizer)
            self.began = time.time()
            self.first_step, self.steady = state.global_step, None
            self.training = training(args, model, others.get("train_dataloader"))
            self.keep({"begin": state.global_step})
            self.report(args, state)

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **_others: Any) -> None:
            if rank.measure and not rank.sharding and "touched" not in self.training:
                self.training["touched"] = touched(model)

        def on_substep_end(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
            activity.note()

        on_prediction_step = on_evaluate = on_substep_end

        def on_save(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
            activity.note()
            with contextlib.suppress(OSError):  # then it does not count as complete
                mark_saved(rank, os.path.join(args.output_dir, f"checkpoint-{state.global_step}"))
                notices.note_saved(state.global_step)
                if rank.sharding:
                    sharding.rotate(rank, args, state)

        def on_step_end(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
            activity.step()
            if notices.is_due(state.global_step):
                control.should_save = True
            if self.steady is None and state.global_step >= self.first_step + WARMUP:
                self.steady = {"step": state.global_step, "time": time.time()}
            if time.time() - self.wrote >= 1:
                self.report(args, state)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_others: Any) -> None:
            activity.note()
            logged = {key: value for key, value in (logs or {}).items() if isinstance(value, (int, float))}
            self.metrics.update(logged)
            self.keep({"step": state.global_step, "metrics": logged})
            self.report(args, state)

        def keep(self, entry: dict[str, Any]) -> None:
            """Send the supervisor an entry of the job's curves."""
            if rank.number != 0 or not rank.speaks():
                return
            if self.number is None:
                self.number, Progress.begun = Progress.begun, Progress.begun + 1
            rank.logged.append({"trainer": self.number, "time": time.time(), **entry})

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
                    "samples_per_step": samples_per_step(args),
                    "began": self.began,
                    "first_step": self.first_step,
                    "steady": self.steady,
                    "time": self.wrote,
                    "metrics": self.metrics,
                    "training": {**self.training, **steps.facts()},
                },
            )

    trainer.DEFAULT_CALLBACKS.append(Progress)
    if rank.sharding:
        sharding.watch_trainer(trainer)


def evaluate_in_order(trainer: Any) -> None:
    """Make a Trainer evaluate and predict the rows of a dataset in its order, also with `group_by_length`.

    transformers (5.23 and before) draws these, too, by length: scripts that compare predictions with rows, such as
    those for answers to questions, then compare them with other rows. Raises AttributeError.
    """
    choose = trainer._get_eval_sampler

    @functools.wraps(choose)
    def _get_eval_sampler(self: Any, *given: Any, **named: Any) -> Any:
        from torch.utils.data import SequentialSampler

        dataset = [*given, *named.values(), None][0]
        if is_grouped(self.args) and hasattr(dataset, "__len__"):
            return SequentialSampler(dataset)
        return choose(self, *given, **named)

    trainer._get_eval_sampler = _get_eval_sampler


def is_grouped(args: Any) -> bool:
    """Return whether TrainingArguments draw rows of like length together."""
    return getattr(args, "train_sampling_strategy", "") == "group_by_length" or getattr(args, "group_by_length", False)


def train_on_cpus(module: Any) -> None:
    """Make TrainingArguments of a script that reads no arguments mean CPUs, in jobs that train: else they refuse bf16.

    In other jobs, as of independent ranks, these would form a group.
    """
    if os.environ.get("ACCELERATE_USE_CPU") != "true":
        return
    begin = module.TrainingArguments.__post_init__

    @functools.wraps(begin)
    def __post_init__(self: Any) -> None:
        setattr(self, "use_cpu" if hasattr(self, "use_cpu") else "no_cuda", True)  # before transformers 4.34
        begin(self)

    module.TrainingArguments.__post_init__ = __post_init__


def samples_per_step(args: Any) -> int:
    """Return the global batch of a Trainer with these arguments. Raises AttributeError."""
    return int(args.train_batch_size * args.gradient_accumulation_steps * args.world_size)


def training(args: Any, model: Any, loader: Any) -> dict[str, Any]:
    """Return what a training is made up of, as far as it can be seen.

    {samples (of an epoch), epochs (that are set), parameters (that are trained), gradient_bytes, embedding_bytes (of
    them, of embeddings, which are complete last), sums (batches of all ranks in a step: {ranks, accumulation}, where
    they are drawn at random), settings (what the job's fields set as well)}.
    """
    facts: dict[str, Any] = {"epochs": getattr(args, "num_train_epochs", None)}
    with contextlib.suppress(AttributeError):
        facts["settings"] = {
            "global_batch": None if getattr(args, "auto_find_batch_size", False) else samples_per_step(args),
            "precision": "bf16" if args.bf16 else None if args.fp16 else "fp32",
            "checkpoints": 0 if args.save_strategy != "steps" else args.save_steps if args.save_steps >= 1 else None,
        }
    if getattr(args, "train_sampling_strategy", "random") == "random" and not is_grouped(args):
        with contextlib.suppress(AttributeError):
            facts["sums"] = {"ranks": args.world_size, "accumulation": args.gradient_accumulation_steps}
    with contextlib.suppress(Exception):
        facts["samples"] = len(loader.dataset)
    with contextlib.suppress(Exception):
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        facts["parameters"] = sum(parameter.numel() for parameter in trained)
        facts["gradient_bytes"] = sum(parameter.numel() * parameter.element_size() for parameter in trained)
        facts["embedding_bytes"] = sum(table.numel() * table.element_size() for table in embeddings(model))
    return facts


def embeddings(model: Any) -> list[Any]:
    """Return the tables of embeddings that are trained."""
    tables = [module.weight for module in model.modules() if type(module).__name__ == "Embedding"]
    return [table for table in {id(table): table for table in tables}.values() if table.requires_grad]


def touched(model: Any) -> float | None:
    """Return the share of the embeddings' rows that have a gradient; None where that cannot be seen."""
    with contextlib.suppress(Exception):
        tables = [table.grad for table in embeddings(model)]
        rows = sum(int(table.ne(0).any(dim=1).sum()) for table in tables)
        return rows / sum(table.shape[0] for table in tables)
    return None
