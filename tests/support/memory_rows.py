"""Measurements of tests/benchmarks/memory.py, as the forecast of memory takes them."""

from __future__ import annotations

from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.memory_forecast import Lora, Settings
from ansible_collections.amx.cluster.plugins.module_utils._jobs.model_shape import Shape


def settings_of(row: dict[str, Any], shape: Shape) -> Settings:
    """Return the settings of a row that was measured."""
    args = row["args"]
    lora = Lora(args["lora_r"], tuple(shape.matrices())) if args.get("use_peft") else None
    bf16 = row["precision"] == "bf16"
    return Settings(
        batch=args["per_device_train_batch_size"],
        length=args.get("max_length") or args.get("max_seq_length") or shape.positions,
        bf16=bf16,
        bf16_weights=bool(lora) and bf16,
        checkpointing=bool(args.get("gradient_checkpointing")),
        lora=lora,
        ranks=row["ranks"],
        on_host=row["ranks"],
        sharding=row["sharding"],
    )
