# Copyright (c) 2026 The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fine-tune a decoder (a language model that continues a text), all of it or by LoRA, on what prepare_decoder.py wrote.

Takes every argument of Hugging Face TrainingArguments, and those of prepare_decoder's Arguments. Rank 0 writes
all_results.json and the model to --output_dir, in the number format that the model came in: an adapter with
--use_peft, with --merge the whole model, and the adapter beside it in adapter/. Runs on one rank or on many, as
train_text.py. A wrong input gives one message and exit code 2.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prepare_decoder import FOLDER, IGNORED, PREPARED, Arguments, load_tokenizer
from train_text import (
    InputError,
    agreed,
    be_quiet,
    begin_results,
    check_finite,
    check_steps,
    check_trained,
    ended,
    evaluate_before,
    parts_of,
    write_results,
)

from ansible_collections.amx.cluster.plugins.module_utils._data.model_files import TRAINED_ON, load_weights  # isort: skip (as above)


def load_prepared(data: Arguments, directory: Path = FOLDER) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (the document that prepare_decoder.py writes, {split: dataset}), mapped into memory. Raises InputError."""
    from datasets import Dataset

    try:
        prepared = json.loads((directory / PREPARED).read_text(encoding="utf-8"))
        splits = {split: Dataset.from_file(str(directory / f"{split}.arrow")) for split in prepared["splits"]}
    except (OSError, ValueError) as error:
        raise InputError(
            f"{directory}/ has no prepared data: the job needs prepare: {{script: prepare_decoder.py, job_args: true}}"
        ) from error
    for name, now in (("model", data.model_name_or_path), ("max_length", data.max_length), ("packing", data.packing)):
        if prepared[name] != now:
            raise InputError(f"{directory}/ was prepared for {name} {prepared[name]}, not {now}: prepare it anew")
    return prepared, splits


class Collator:
    """Makes a batch of rows of data/: padded on the right, each text in a row with positions from 0.

    Models of transformers keep texts apart whose positions begin anew, if there is no attention mask
    (masking_utils.find_packed_sequence_indices, transformers 4.53 and later).
    """

    def __init__(self, padding: int, packing: bool) -> None:
        self.padding, self.packing = padding, packing

    def __call__(self, rows: list[dict[str, list[int]]]) -> dict[str, Any]:
        import torch

        width = max(len(row["input_ids"]) for row in rows)

        def filled(lists: list[list[int]], rest: int) -> Any:
            return torch.tensor([[*values, *[rest] * (width - len(values))] for values in lists])

        batch = {
            "input_ids": filled([row["input_ids"] for row in rows], self.padding),
            "labels": filled([row["labels"] for row in rows], IGNORED),
        }
        if self.packing:
            places = [[place for length in row["lengths"] for place in range(length)] for row in rows]
            batch["position_ids"] = filled(places, 0)
        else:
            batch["attention_mask"] = filled([[1] * len(row["input_ids"]) for row in rows], 0)
        return batch


def load_model(data: Arguments, training: Any) -> Any:
    """Return the model, with its adapters in fp32 where it is trained by LoRA. Raises InputError."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    names = {"auto": "bfloat16" if data.use_peft and training.bf16 else "float32"}
    dtype = getattr(torch, names.get(data.dtype, data.dtype))
    try:
        config = AutoConfig.from_pretrained(data.model_name_or_path)
    except (OSError, ValueError) as error:
        raise InputError(f"model {data.model_name_or_path}: {error}") from error
    if data.from_scratch:
        model = AutoModelForCausalLM.from_config(config).to(dtype)
    else:
        model, _new = load_weights(AutoModelForCausalLM, data.model_name_or_path, config, dtype=dtype)
    model.config.use_cache = False  # which only generating needs
    if not data.use_peft:
        return model
    try:
        from peft import LoraConfig, PeftModel, get_peft_model
    except ImportError as error:
        raise InputError(f"--use_peft needs peft, which stack native has: {error}") from error
    if data.adapter:
        return PeftModel.from_pretrained(model, data.adapter, is_trainable=True)
    modules = data.lora_target_modules
    config = LoraConfig(
        r=data.lora_r,
        lora_alpha=data.lora_alpha,
        lora_dropout=data.lora_dropout,
        target_modules=modules[0] if modules == ["all-linear"] else modules,
        task_type="CAUSAL_LM",
    )
    return get_peft_model(model, config)


def merged(model: Any, data: Arguments) -> Any:
    """Return the whole model with what its adapters have learnt, in fp32: what they do not change is as it came.

    The weights that were trained beside them may be of fewer bits, in which a small change would leave no trace.
    """
    import torch
    from peft import get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
    from transformers import AutoConfig, AutoModelForCausalLM

    if data.from_scratch:  # there are no others
        return model.float().merge_and_unload()
    config = AutoConfig.from_pretrained(data.model_name_or_path)
    fresh, _new = load_weights(AutoModelForCausalLM, data.model_name_or_path, config, dtype=torch.float32)
    setattr(fresh.config, TRAINED_ON, getattr(model.config, TRAINED_ON, None))
    fresh = get_peft_model(fresh, model.peft_config["default"])
    set_peft_model_state_dict(fresh, get_peft_model_state_dict(model))
    return fresh.merge_and_unload()


def save(trainer: Any, data: Arguments, tokenizer: Any) -> None:
    """Write the trained model on rank 0, in the number format of its configuration; all ranks have to call it."""
    import torch
    from transformers import AutoConfig

    output = Path(trainer.args.output_dir)
    if data.use_peft:
        trainer.save_model(str(output / "adapter" if data.merge else output))
    if not data.use_peft or data.merge:
        # With shards of a model, every rank has to take part in collecting it.
        state = {} if data.use_peft else trainer.accelerator.get_state_dict(trainer.model)
        if trainer.is_world_process_zero():
            model = trainer.accelerator.unwrap_model(trainer.model)
            if data.use_peft:
                model = merged(model, data)
                state = model.state_dict()
            dtype = AutoConfig.from_pretrained(data.model_name_or_path).dtype or torch.float32
            model.config.use_cache = True
            # Weights that are tied have several names in the state, and one here.
            names = {name for name, _parameter in (*model.named_parameters(), *model.named_buffers())} & set(state)
            as_it_came = {
                name: tensor.to(dtype) if tensor.is_floating_point() else tensor
                for name, tensor in state.items()
                if name in names
            }
            model.save_pretrained(output, state_dict=as_it_came)
            model.config.dtype = dtype  # where save_pretrained has noted that of the weights that were trained
            model.config.save_pretrained(output)
    if trainer.is_world_process_zero():
        tokenizer.save_pretrained(output)


def with_perplexity(metrics: dict[str, Any]) -> dict[str, Any]:
    """Return metrics with the perplexity of each loss of an evaluation."""
    losses = {name: value for name, value in metrics.items() if name.startswith("eval") and name.endswith("_loss")}
    return {**metrics, **{f"{name[:-5]}_perplexity": math.exp(min(value, 700)) for name, value in losses.items()}}


def run(data: Arguments, training: Any) -> None:
    """Evaluate, train, evaluate, and write model and results on rank 0. Raises InputError on every rank alike."""
    import transformers

    be_quiet(training)
    prepared, splits = agreed(lambda: load_prepared(data))
    will_train, will_evaluate = parts_of(training, splits)
    if will_train:
        check_steps(training, len(splits["train"]))
    tokenizer = agreed(lambda: load_tokenizer(data))
    transformers.set_seed(training.seed)
    model = agreed(lambda: load_model(data, training))
    chats = any(split.get("chats") for split in prepared["splits"].values())
    setattr(model.config, TRAINED_ON, "chats" if chats else "texts")
    # The collator needs the lengths of packed texts, which the model does not take.
    training.remove_unused_columns = False
    training.prediction_loss_only = True
    padding = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    trainer = transformers.Trainer(
        model=model,
        args=training,
        train_dataset=splits.get("train"),
        eval_dataset=splits.get("validation"),
        data_collator=Collator(padding or 0, data.packing),
    )
    results = begin_results(trainer)
    results["trained_parameters"] = sum(
        parameter.numel() for parameter in model.parameters() if parameter.requires_grad
    )
    results["parameters"] = sum(parameter.numel() for parameter in model.parameters())
    if will_evaluate and will_train and data.eval_before:
        results.update(evaluate_before(trainer))
    if will_train:
        results.update(trainer.train(resume_from_checkpoint=training.resume_from_checkpoint).metrics)
        results.update({f"train_{name}": prepared["splits"]["train"][name] for name in ("rows", "tokens")})
        agreed(lambda: check_trained(trainer, results))
    if will_evaluate:
        results.update(trainer.evaluate(metric_key_prefix="eval"))
    agreed(lambda: check_finite(results))
    if will_train:
        save(trainer, data, tokenizer)
    write_results(trainer, with_perplexity(results))


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code, 2 for an input error."""
    return ended("train_decoder", run, Arguments, arguments)


if __name__ == "__main__":
    sys.exit(main())
