"""Measure the peak memory of training beside its forecast: `memory.py [NAME ...] [--json FILE] [--preload LIBRARY]`.

Trains small models with random weights for some steps on this machine: whole or by LoRA (where peft is installed), with
and without gradient checkpointing, on one and two ranks, sharded. Run it with the Python of the stack `native`. A
rank's peak is VmHWM of /proc/PID/status, from its start to its end; that of a setting is the sum of its ranks'. Prints
a Markdown table, and writes what was measured to --json, which the unit test of the forecast reads
(tests/unit/plugins/module_utils/_jobs/memory_measured.json); docs/models_and_datasets.md has the range of errors.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / ".collections"), str(HERE.parent)]
STEPS = 3

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 512,
    "intermediate_size": 1408,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}
DEEP = {**LLAMA, "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12}
QWEN = {
    **LLAMA,
    "model_type": "qwen2",
    "architectures": ["Qwen2ForCausalLM"],
    "num_key_value_heads": 2,
    "vocab_size": 64000,
    "tie_word_embeddings": True,
}
BERT = {
    "model_type": "bert",
    "architectures": ["BertForSequenceClassification"],
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}
MINILM = {**BERT, "hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 6}
DISTILBERT = {
    "model_type": "distilbert",
    "architectures": ["DistilBertForSequenceClassification"],
    "dim": 768,
    "hidden_dim": 3072,
    "n_layers": 6,
    "n_heads": 12,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "attention_dropout": 0.1,
    "dropout": 0.1,
}
VIT = {
    "model_type": "vit",
    "architectures": ["ViTForImageClassification"],
    "hidden_size": 384,
    "intermediate_size": 1536,
    "num_hidden_layers": 12,
    "num_attention_heads": 6,
    "image_size": 224,
    "patch_size": 16,
    "num_channels": 3,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}

# name: (config.json, arguments of the job, ranks of the host, sharding, precision)
SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any], int, str, str]] = {}


def setting(
    name: str,
    config: dict[str, Any],
    batch: int,
    length: int = 0,
    ranks: int = 1,
    sharding: str = "none",
    precision: str = "bf16",
    **args: Any,
) -> None:
    """Add a setting."""
    named = {"per_device_train_batch_size": batch, **args}
    if length:
        named["max_length" if "CausalLM" in config["architectures"][0] else "max_seq_length"] = length
    SETTINGS[name] = (config, named, ranks, sharding, precision)


LORA: dict[str, Any] = {"use_peft": True, "lora_r": 16, "lora_target_modules": ["all-linear"]}
CHECKPOINTING: dict[str, Any] = {"gradient_checkpointing": True}
setting("llama-full", LLAMA, 4, 512)
setting("llama-full-fp32", LLAMA, 4, 512, precision="fp32")
setting("llama-checkpointing", LLAMA, 4, 1024, **CHECKPOINTING)
setting("llama-lora", DEEP, 4, 512, **LORA)
setting("llama-lora-checkpointing", DEEP, 4, 1024, **LORA, **CHECKPOINTING)
setting("llama-ddp", LLAMA, 4, 512, ranks=2)
setting("llama-lora-ddp", DEEP, 4, 512, ranks=2, **LORA, **CHECKPOINTING)
setting("llama-fsdp", DEEP, 2, 512, ranks=2, sharding="full")
setting("llama-fsdp-checkpointing", DEEP, 4, 512, ranks=2, sharding="full", **CHECKPOINTING)
setting("qwen-checkpointing", QWEN, 2, 1024, **CHECKPOINTING)
setting("bert-full", BERT, 16, 128)
setting("bert-long-fp32", BERT, 4, 512, precision="fp32", **CHECKPOINTING)
setting("minilm-ddp", MINILM, 32, 128, ranks=2)
setting("distilbert-full", DISTILBERT, 16, 256)
setting("vit-full", VIT, 16)


# --------------------------------------------------------------------------------------------------------- a rank


def train(name: str, output: str) -> None:
    """Be a rank of a setting, and print its peak."""
    import torch
    import transformers

    config, args, ranks, sharding, precision = SETTINGS[name]
    torch.manual_seed(0)
    model = _model(config, args, precision)
    rows = _rows(config, args)
    if sharding == "full":
        _train_sharded(model, rows, args, precision)
    else:
        settings = transformers.TrainingArguments(
            output_dir=output,
            use_cpu=True,
            bf16=precision == "bf16",
            per_device_train_batch_size=args["per_device_train_batch_size"],
            gradient_checkpointing=bool(args.get("gradient_checkpointing")),
            max_steps=STEPS,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            **({"ddp_backend": "gloo", "ddp_find_unused_parameters": False} if ranks > 1 else {}),
        )
        transformers.Trainer(
            model=model, args=settings, train_dataset=rows, data_collator=transformers.default_data_collator
        ).train()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    sys.stdout.write(f"\nPEAK {int(status['VmHWM'].split()[0]) * 1024}\n")
    sys.stdout.flush()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _model(config: dict[str, Any], args: dict[str, Any], precision: str) -> Any:
    import torch
    import transformers

    made = transformers.AutoConfig.for_model(**{key: value for key, value in config.items() if key != "architectures"})
    made.use_cache = False
    kind = getattr(transformers, config["architectures"][0])
    if not args.get("use_peft"):
        return kind(made)
    from peft import LoraConfig, get_peft_model

    # Frozen weights are loaded in bf16, as train_decoder.py does it.
    model = kind._from_config(made, dtype=torch.bfloat16 if precision == "bf16" else torch.float32)
    targets = args["lora_target_modules"]
    return get_peft_model(
        model,
        LoraConfig(
            r=args["lora_r"],
            lora_alpha=32,
            lora_dropout=0.05,
            target_modules=targets[0] if targets == ["all-linear"] else targets,
            task_type="CAUSAL_LM",
        ),
    )


def _parameters(config: dict[str, Any]) -> int:
    import torch
    import transformers

    made = transformers.AutoConfig.for_model(**{key: value for key, value in config.items() if key != "architectures"})
    with torch.device("meta"):
        model = getattr(transformers, config["architectures"][0])(made)
    return sum(one.numel() for one in model.parameters())


def _rows(config: dict[str, Any], args: dict[str, Any]) -> list[dict[str, Any]]:
    import torch

    count = 2 * STEPS * args["per_device_train_batch_size"]
    if "image_size" in config:
        side = config["image_size"]
        return [{"pixel_values": torch.randn(3, side, side), "labels": 1} for _row in range(count)]
    length = args.get("max_length") or args["max_seq_length"]
    rows = []
    for row in range(count):
        tokens = torch.randint(1, config["vocab_size"], (length,)).tolist()
        # One row of each batch is shorter: with padding, attention has a mask.
        mask = [1] * length if row % args["per_device_train_batch_size"] else [1] * (length - 8) + [0] * 8
        rows.append(
            {"input_ids": tokens, "attention_mask": mask, "labels": tokens if "max_length" in args else row % 2}
        )
    return rows


def _train_sharded(model: Any, rows: list[dict[str, Any]], args: dict[str, Any], precision: str) -> None:
    import torch
    from torch.distributed.fsdp import fully_shard

    torch.distributed.init_process_group("gloo")
    mesh = torch.distributed.init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    if args.get("gradient_checkpointing"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    batch = args["per_device_train_batch_size"]
    model.train()
    for step in range(STEPS):
        chosen = rows[step * batch : (step + 1) * batch]
        inputs = {key: torch.tensor([row[key] for row in chosen]) for key in chosen[0]}
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = model(**inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


# -------------------------------------------------------------------------------------------------------- the table


def measure(name: str, preload: str) -> list[int]:
    """Run a setting, and return the peak of each rank in bytes."""
    ranks = SETTINGS[name][2]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    running = []
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(ranks):
            env = {
                **os.environ,
                "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // ranks)),
                "LD_PRELOAD": ":".join(filter(None, [preload, str(Path(sys.prefix) / "lib/libiomp5.so")])),
                "KMP_BLOCKTIME": "1",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                **({"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)} if ranks > 1 else {}),
            }
            command = [sys.executable, __file__, "--rank", name, "--json", folder]
            running.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
        texts = [process.communicate()[0] for process in running]
    failed = [process.returncode for process in running if process.returncode]
    if failed:
        raise SystemExit(f"{name}: a rank ended with {failed[0]}\n{texts[0]}")
    return [int(text.rsplit("PEAK ", 1)[1]) for text in texts]


def table(rows: list[dict[str, Any]]) -> str:
    """Return the Markdown table of what was measured, beside the forecast."""
    from ansible_collections.amx.cluster.plugins.module_utils._jobs import memory_forecast, model_shape
    from support.memory_rows import settings_of

    lines = ["| model | trained | ranks | batch x length | forecast | measured | |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        shape = model_shape.of_config(row["config"])
        wanted = settings_of(row, shape)
        found, peak = memory_forecast.forecast(shape, wanted).host, row["peak"]
        how = [
            "LoRA" if wanted.lora else "whole",
            row["precision"],
            *(["checkpointing"] if wanted.checkpointing else []),
        ]
        how += ["sharded"] if row["sharding"] == "full" else []
        lines.append(
            f"| {row['config']['model_type']}, {shape.parameters() / 1e6:.0f} M | {', '.join(how)} | {row['ranks']} | "
            f"{wanted.batch} x {wanted.length} | {found / 2**30:.2f} GiB | {peak / 2**30:.2f} GiB | "
            f"{100 * (found / peak - 1):+.0f} % |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=", ".join(SETTINGS))
    parser.add_argument("--json", default="", help="file to which what was measured is written")
    parser.add_argument("--preload", default="", help="path of tcmalloc")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--table", default="", metavar="FILE", help="print the table of such a file, and measure nothing"
    )
    options = parser.parse_args()
    if options.table:
        sys.stdout.write(table(json.loads(Path(options.table).read_text(encoding="utf-8"))) + "\n")
        return
    if options.rank:
        train(options.names[0], options.json)
        return
    found = []
    for name in options.names or SETTINGS:
        config, args, ranks, sharding, precision = SETTINGS[name]
        peaks = measure(name, options.preload)
        found.append(
            {
                "name": name,
                "config": config,
                "args": args,
                "ranks": ranks,
                "sharding": sharding,
                "precision": precision,
                "parameters": _parameters(config),
                "peak": sum(peaks),
            }
        )
        sys.stderr.write(f"{name}: {sum(peaks) / 2**30:.2f} GiB\n")
        if options.json:
            lines = ",\n".join(f" {json.dumps(row)}" for row in found)
            Path(options.json).write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    sys.stdout.write(table(found) + "\n")


if __name__ == "__main__":
    main()
