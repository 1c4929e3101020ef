"""sharding: full or optimizer - transformers' Trainer shards its model over the ranks by FSDP2, also on CPUs.

The launch gives the Trainer its arguments `fsdp` and `fsdp_config`. Five things are missing there (accelerate 1.15,
transformers 5.23): accelerate ignores FSDP, without a word, where it trains on CPUs; it shards the embeddings of BERT,
RoBERTa and the like twice, which fails; the Trainer cannot evaluate before it trains; it saves no model where the state
is saved in shards; and it removes old checkpoints on the host of rank 0 only.
"""

from __future__ import annotations

import functools
from typing import Any

from amx_cluster.observer.rank import Rank


def watch_accelerate(module: Any) -> None:
    """Make accelerate's state take FSDP for ranks on CPUs, as it does for those on other devices."""
    state = module.AcceleratorState
    construct = state.__init__

    @functools.wraps(construct)
    def __init__(self: Any, *args: Any, fsdp_plugin: Any = None, **kwargs: Any) -> None:
        construct(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
        kinds = module.DistributedType
        if fsdp_plugin is None or self.distributed_type != kinds.MULTI_CPU:
            return
        self.distributed_type = kinds.FSDP
        module.PartialState._shared_state["distributed_type"] = kinds.FSDP
        self.fsdp_plugin = fsdp_plugin
        if self._mixed_precision == "bf16":
            import torch
            from torch.distributed.fsdp import MixedPrecisionPolicy

            # accelerate's own would sum gradients in bfloat16, and round the loss to it.
            policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
            fsdp_plugin.mixed_precision_policy = policy
        elif self._mixed_precision != "no":
            fsdp_plugin.set_mixed_precision(self._mixed_precision)

    state.__init__ = __init__


def watch_preparation(module: Any) -> None:
    """Make accelerate leave out what it has sharded as a part of another module, such as BertEmbeddings."""
    prepare = module.fsdp2_prepare_model

    @functools.wraps(prepare)
    def fsdp2_prepare_model(accelerator: Any, model: Any) -> Any:
        from torch.distributed import fsdp
        from torch.distributed.tensor import DTensor

        shard = fsdp.fully_shard

        def is_sharded(unit: Any) -> bool:
            parameters = [*unit.parameters()]
            return bool(parameters) and all(isinstance(parameter, DTensor) for parameter in parameters)

        def fully_shard(unit: Any, **options: Any) -> Any:
            if isinstance(unit, list):
                unit = [each for each in unit if not is_sharded(each)]
                return shard(unit, **options) if unit else unit
            # The model itself has its settings of FSDP, whatever is sharded in it.
            return unit if unit is not model and is_sharded(unit) else shard(unit, **options)

        fsdp.fully_shard = fully_shard
        try:
            return prepare(accelerator, model)
        finally:
            fsdp.fully_shard = shard

    module.fsdp2_prepare_model = fsdp2_prepare_model


def watch_trainer(module: Any) -> None:
    """Make the Trainer evaluate a model before its training. It saves the model complete: at the end of the training,
    and where the script requests it."""
    trainer = module.Trainer
    evaluation_loop, train, save_model = trainer.evaluation_loop, trainer.train, trainer.save_model

    @functools.wraps(evaluation_loop)
    def unsharded_evaluation(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.is_fsdp_enabled or self.accelerator._models:
            return evaluation_loop(self, *args, **kwargs)
        # FSDP2 takes a model with its optimizer only, which there is not yet. Each rank has loaded the whole model.
        self.is_fsdp_enabled = False
        try:
            return evaluation_loop(self, *args, **kwargs)
        finally:
            self.is_fsdp_enabled = True
            self.accelerator._models.clear()
            model = self.accelerator.unwrap_model(self.model, keep_fp32_wrapper=False)
            vars(model).pop("_is_accelerate_prepared", None)

    @functools.wraps(train)
    def merging_train(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = train(self, *args, **kwargs)
        if self.args.save_strategy != "no":
            merge(self, self.args.output_dir)
        return result

    @functools.wraps(save_model)
    def merging_save(self: Any, output_dir: str | None = None, _internal_call: bool = False) -> Any:
        if not _internal_call:  # which is a checkpoint, and stays in shards
            merge(self, output_dir or self.args.output_dir)
        return save_model(self, output_dir, _internal_call)

    trainer.evaluation_loop, trainer.train, trainer.save_model = unsharded_evaluation, merging_train, merging_save


def merge(trainer: Any, directory: str) -> None:
    """Gather the weights on rank 0, and save the model there; once for each step, as scripts save it at the end, too.

    All ranks take part. Rank 0 needs memory for all weights, the others for the largest one.
    """
    made = trainer.state.global_step, directory
    if getattr(trainer, "_amx_cluster_merged", None) != made and trainer.is_fsdp_enabled:
        trainer._save(directory, state_dict=trainer.accelerator.get_state_dict(trainer.model))
        trainer._amx_cluster_merged = made


def refuse(rank: Rank, args: Any, model: Any) -> None:
    """End a rank whose Trainer is about to train a model that is not sharded, or would miss parts of its best one.

    Raises RuntimeError.
    """
    wanted = rank.sharding
    if args.load_best_model_at_end and len(rank.together) < rank.size:
        raise RuntimeError(
            f"sharding: {wanted} is set, and hosts that do not share their output directory have a part of each "
            "checkpoint only: leave load_best_model_at_end out of the job file's args"
        )
    kinds = {base.__name__ for module in model.modules() for base in type(module).__mro__}
    if not kinds & {"FSDPModule", "FullyShardedDataParallel"}:
        raise RuntimeError(
            f"sharding: {wanted} is set, and this script's Trainer prepares its model without FSDP: leave sharding out "
            "of the job file"
        )


def rotate(rank: Rank, args: Any, state: Any) -> None:
    """Remove old checkpoints where rank 0 does not write, as the Trainer does there: each has a part of the model."""
    if 0 not in rank.together and rank.number == min(rank.together):
        from transformers.trainer_utils import rotate_checkpoints

        rotate_checkpoints(args.output_dir, args.save_total_limit, state.best_model_checkpoint)
