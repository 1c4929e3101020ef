"""Time steps of models as PyTorch computes them beside the same with `optimize` of the job file, by turns.

    optimized_steps.py [--threads 1] [--rounds 5] [--precision bf16] [--models bert ...] [--ways auto dropout ...]
                       [--batches 1] [--other-python ENV/bin/python] [--profile 3] [--losses 50]

Ways are `auto` and its parts; `auto` with activation checkpointing; torch.compile; and ipex.optimize of Intel Extension
for PyTorch. One that cannot be had here is left out, with the reason. --other-python is the Python of an environment
with another PyTorch, whose steps take turns with these as one more way; lines at the end name the models whose steps
are slower than those by more than 5%, both in seconds and in CPU time. --batches multiplies the rows of a step.

Each model trains in one process for each way, from the same random weights and rows; they take turns, a step each.
Prints the median seconds of a step, the lowest and the highest, and the median ratio of the steps of a turn: that as
PyTorch computes it over that of the way; the same of CPU time; the peak of memory; and how much of that a step takes
beyond what stays between steps (weights, states of the optimizer). The last line is JSON. With --profile, so many steps
of each are profiled instead, as `measure: {profile: 3}` of a job file does, and the shares of each kind of operation
are printed. With --losses, the losses of so many steps without dropout are compared instead: of `auto` with PyTorch's
in bf16, and of these with PyTorch's in fp32.

Preload tcmalloc and Intel's OpenMP (LD_PRELOAD), as jobs do: with the C library's allocator, the kernel clears the
memory of large tensors anew in every step.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import importlib
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

OBSERVE = Path(__file__).resolve().parents[3] / "runtime"
PARTS = ["dropout", "attention", "optimizer", "loss", "padding"]
AS_IT_IS, CHECKPOINTED, COMPILED, IPEX = "as it is", "checkpointing", "torch.compile", "ipex.optimize"
WAYS = {AS_IT_IS: [], "auto": PARTS, **{part: [part] for part in PARTS}, CHECKPOINTED: PARTS, COMPILED: [], IPEX: []}
SLOWER = 0.95
"""Ratio below which a step counts as slower than with another PyTorch."""
COMPILERS = ("g++", "clang++", "c++")


def _text(config: Any, batch: int, length: int) -> Any:
    import torch

    rows = torch.randint(0, 30000, (batch, length))
    return {"input_ids": rows, "attention_mask": torch.ones_like(rows), "labels": config(batch, rows)}


def padded(made: Callable[[int], tuple[Any, Any]], batch: int, share: float) -> tuple[Any, Any]:
    """Return a model, and a function that draws rows of which about this share of the positions holds tokens.

    Lengths are as of sentences, and others in each step.
    """
    import torch

    model, rows = made(batch)
    length = rows["input_ids"].shape[1]
    generator = torch.Generator().manual_seed(0)

    def draw() -> Any:
        spread = torch.randn(batch, generator=generator).mul(0.35).exp()
        lengths = (spread * (share * length / math.exp(0.35**2 / 2))).round().long().clamp(4, length)
        return {**rows, "attention_mask": (torch.arange(length) < lengths[:, None]).long()}

    return model, draw


def bert(batch: int = 32) -> tuple[Any, Any]:
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    size = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    labels = lambda batch, _rows: torch.randint(0, 2, (batch,))  # noqa: E731
    return BertForSequenceClassification(BertConfig(**size)), _text(labels, batch, 128)


def distilbert(batch: int = 8) -> tuple[Any, Any]:
    import torch
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    size = {"dim": 384, "n_layers": 6, "n_heads": 12, "hidden_dim": 1536}
    labels = lambda batch, _rows: torch.randint(0, 2, (batch,))  # noqa: E731
    return DistilBertForSequenceClassification(DistilBertConfig(**size)), _text(labels, batch, 384)


def vit() -> tuple[Any, Any]:
    import torch
    from transformers import ViTConfig, ViTForImageClassification

    size = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6, "intermediate_size": 1536}
    rows = {"pixel_values": torch.randn(16, 3, 224, 224), "labels": torch.randint(0, 2, (16,))}
    return ViTForImageClassification(ViTConfig(**size)), rows


def resnet50() -> tuple[Any, Any]:
    import torch
    from transformers import ResNetConfig, ResNetForImageClassification

    rows = {"pixel_values": torch.randn(16, 3, 224, 224), "labels": torch.randint(0, 1000, (16,))}
    return ResNetForImageClassification(ResNetConfig(num_labels=1000)), rows  # the sizes are ResNet-50's


def decoder(vocabulary: int = 32000, prompt: float = 0.0) -> tuple[Any, Any]:
    """prompt: the share of a row's tokens at its beginning that have no label."""
    from transformers import LlamaConfig, LlamaForCausalLM

    size = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6, "intermediate_size": 1024}

    def labels(_batch: int, rows: Any) -> Any:
        made = rows.clone()
        made[:, : round(prompt * rows.shape[1])] = -100
        return made

    return LlamaForCausalLM(LlamaConfig(vocab_size=vocabulary, **size)), _text(labels, 8, 256)


def decoder_lora(vocabulary: int = 32000, prompt: float = 0.0) -> tuple[Any, Any]:
    from peft import LoraConfig, get_peft_model

    model, rows = decoder(vocabulary, prompt)
    return get_peft_model(model, LoraConfig(r=8, lora_dropout=0.05, target_modules="all-linear")), rows


MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "BERT, 32 x 128": bert,
    "DistilBERT, 8 x 384": distilbert,
    "BERT, MRPC's lengths, 32 x 128": functools.partial(padded, bert, 32, 0.41),
    "DistilBERT, SQuAD's lengths, 12 x 384": functools.partial(padded, distilbert, 12, 0.44),
    "ViT, 16 images": vit,
    "ResNet-50, 16 images": resnet50,
    "decoder, 8 x 256": decoder,
    "decoder with LoRA, 8 x 256": decoder_lora,
    "SFT, 60 % prompt": functools.partial(decoder, prompt=0.6),
    "SFT, 60 %, 152,000 words": functools.partial(decoder, 152000, 0.6),
    "decoder, 152,000 words": functools.partial(decoder, 152000),
    "LoRA, 60 % prompt": functools.partial(decoder_lora, prompt=0.6),
    "LoRA, 60 %, 152,000 words": functools.partial(decoder_lora, 152000, 0.6),
    "LoRA, 152,000 words": functools.partial(decoder_lora, 152000),
}


def work(model_name: str, way: str, threads: int, precision: str, profile: int, losses: int, batches: int) -> None:
    """Make a step for each line of the standard input and print its seconds, then memory; or profile, or print losses.

    profile, losses: how many steps are profiled, or have their losses printed.
    """
    sys.path[:0] = [str(OBSERVE), str(OBSERVE.parent / ".collections")]
    import torch

    if WAYS[way]:
        import amx_cluster.optimize

        amx_cluster.optimize.install(WAYS[way])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model, rows = MODELS[model_name]()
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-4)
    model.train()
    if way == CHECKPOINTED:
        # Its name changes with transformers 6.
        (getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable)()
    if way == IPEX:
        import intel_extension_for_pytorch as ipex

        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        model, optimizer = ipex.optimize(model, optimizer=optimizer, dtype=dtype)
    called = torch.compile(model) if way == COMPILED else model

    def step() -> float:
        batch = rows() if callable(rows) else rows
        batch = {name: each.repeat(batches, *[1] * (each.dim() - 1)) for name, each in batch.items()}
        if losses and "input_ids" in batch and "BERT" in model_name:
            batch = {**batch, "labels": (batch["input_ids"][:, 1] > 15000).long()}  # which can be learned
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = called(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    if losses:
        torch.manual_seed(1)
        for module in model.modules():
            for name in ("p", "dropout", "attention_dropout"):
                if isinstance(getattr(module, name, None), float):
                    setattr(module, name, 0.0)
        sys.stdout.write(json.dumps([step() for _number in range(losses)]))
        return
    if profile:
        from amx_cluster.observer.profiling import Profiling

        profiling = Profiling(3, profile)
        for made in range(3 + profile + 1):
            profiling.after(made, 0.0)
            step()
        sys.stdout.write(json.dumps(profiling.found["kinds"]))
        return
    for _line in sys.stdin:
        began, used = time.perf_counter(), time.process_time()
        step()
        sys.stdout.write(f"{time.perf_counter() - began} {time.process_time() - used} {peak()}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{of_step(step)}\n")


def peak() -> int:
    """Return the most memory that this process has had so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def of_step(step: Callable[[], float]) -> int:
    """Return how much more memory a step takes at its peak than the process holds between steps, in bytes."""
    loaded = ctypes.CDLL(None)  # what an allocator keeps of freed memory would count as held
    try:
        loaded.MallocExtension_ReleaseFreeMemory()
    except AttributeError:
        loaded.malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    held = in_memory("VmRSS")
    step()
    return in_memory("VmHWM") - held


def in_memory(name: str) -> int:
    """Return a size in bytes out of /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def missing(way: str) -> str:
    """Return why a way cannot be had here; an empty string where it can."""
    if way == COMPILED:
        compiler = os.environ.get("CXX") or next(filter(shutil.which, COMPILERS), "")
        return "" if compiler and shutil.which(compiler) else f"there is no C++ compiler ({', '.join(COMPILERS)})"
    if way == IPEX:
        try:
            importlib.import_module("intel_extension_for_pytorch")
        except Exception as error:  # whatever its libraries raise with another PyTorch
            return f"intel_extension_for_pytorch cannot be imported: {error}"
    return ""


def started(options: argparse.Namespace, model: str, way: str, precision: str) -> subprocess.Popen[str]:
    """Start the process of a model and a way, which does what work() does."""
    numbers = {name: str(getattr(options, name)) for name in ("threads", "profile", "losses", "batches")}
    words = [word for name, number in numbers.items() for word in (f"--{name}", number)]
    python, way = (sys.executable, way) if way in WAYS else (options.other_python, AS_IT_IS)
    return subprocess.Popen(
        [python, __file__, *words, "--precision", precision, "--work", model, way],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": numbers["threads"]},
    )


def printed(process: subprocess.Popen[str]) -> Any:
    """Return the JSON that a worker prints. Raises CalledProcessError."""
    output, _none = process.communicate()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return json.loads(output)


def measure(
    model: str, ways: list[str], options: argparse.Namespace
) -> tuple[dict[str, list[tuple[float, ...]]], dict[str, int], dict[str, str]]:
    """Return the steps of each way without the first two, the memory of one in bytes, and why ways are left out.

    A step: its seconds, its seconds of CPU time, and the peak of memory so far, in bytes.
    """
    workers = {way: started(options, model, way, options.precision) for way in ways}
    found: dict[str, list[tuple[float, ...]]] = {way: [] for way in ways}
    failed: dict[str, str] = {}
    for turn in range(options.rounds + 2):
        for way, worker in [*workers.items()]:
            assert worker.stdin and worker.stdout
            try:
                worker.stdin.write("\n")
                worker.stdin.flush()
            except BrokenPipeError:
                pass
            line = worker.stdout.readline()
            if not line:
                failed[way] = f"{model}: its process ended with exit code {workers.pop(way).wait()}"
                del found[way]
                if way == AS_IT_IS:
                    sys.exit(failed[way])
                continue
            if turn > 1:
                found[way].append(tuple(map(float, line.split())))
    # One after the other: each makes another step.
    memory = {way: printed(worker) for way, worker in workers.items()}
    return found, memory, failed


def compare(model: str, options: argparse.Namespace) -> str:
    """Return how far losses are from PyTorch's in bf16, and these from its own in fp32: the largest and the mean."""

    def losses(way: str, precision: str) -> list[float]:
        made: list[float] = printed(started(options, model, way, precision))
        return made

    def apart(one: list[float], other: list[float]) -> str:
        differences = [abs(a - b) for a, b in zip(one, other)]
        return f"{max(differences):.1e} (mean {statistics.mean(differences):.1e})"

    mine, stock, exact = losses("auto", "bf16"), losses(AS_IT_IS, "bf16"), losses(AS_IT_IS, "fp32")
    return (
        f"{model}: from {stock[0]:.3f} to {stock[-1]:.3f}; auto differs from PyTorch in bf16 by {apart(mine, stock)}, "
        f"that from fp32 by {apart(stock, exact)}"
    )


def other_torch(python: str) -> str:
    """Return the name of the PyTorch of a Python, with its version. Raises CalledProcessError."""
    command = [python, "-c", "import torch, transformers; print('torch', torch.__version__)"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def ratio(found: dict[str, list[tuple[float, ...]]], of: str, way: str, at: int = 0) -> float:
    """Return the median ratio of the steps of two ways in a turn: their seconds, or CPU time (1)."""
    return statistics.median(one[at] / other[at] for one, other in zip(found[of], found[way]))


def slower(model: str, found: dict[str, list[tuple[float, ...]]], other: str) -> str:
    """Return which ways of a model are slower than with another PyTorch, as a line; an empty string where none is.

    Other processes make seconds longer, and waiting threads CPU time: a regression shows in both.
    """
    ways = [way for way in (AS_IT_IS, "auto") if {way, other} <= {*found}]
    most = {way: max(ratio(found, other, way, at) for at in (0, 1)) for way in ways}
    listed = ", ".join(f"{way} {most[way]:.2f}" for way in most if most[way] < SLOWER)
    return f"{model}: slower than with {other}: {listed}" if listed else ""


def shares(model: str, ways: list[str], options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Return {way: {kind of operation: its share of a step}}."""
    found = {}
    for way in ways:
        kinds = printed(started(options, model, way, options.precision))
        found[way] = {kind: seconds / sum(kinds.values()) for kind, seconds in kinds.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--precision", default="bf16", choices=["bf16", "fp32"])
    parser.add_argument("--models", nargs="+", default=list(MODELS), help="by the beginning of their names")
    parser.add_argument("--ways", nargs="*", default=["auto", *PARTS], choices=[*WAYS])
    parser.add_argument("--batches", type=int, default=1, help="so many times the rows")
    parser.add_argument("--other-python", help="a Python with another PyTorch, whose steps take turns with these")
    parser.add_argument("--profile", type=int, default=0, help="profile so many steps, and time none")
    parser.add_argument("--losses", type=int, default=0, help="compare the losses of so many steps, and time none")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        model_name, way = options.work
        numbers = options.profile, options.losses, options.batches
        work(model_name, way, options.threads, options.precision, *numbers)
        return
    others = [other_torch(options.other_python)] if options.other_python else []
    left_out = {way: reason for way in options.ways if (reason := missing(way))}
    results, peaks, memories, regressions = {}, {}, {}, []
    for model in [name for name in MODELS if any(name.lower().startswith(each.lower()) for each in options.models)]:
        ways = [way for way in [*others, *options.ways] if way not in left_out]
        if options.losses:
            sys.stdout.write(f"{compare(model, options)}\n")
            continue
        if options.profile:
            for way, kinds in shares(model, [AS_IT_IS, *ways], options).items():
                told = "  ".join(f"{kind} {share:.1%}" for kind, share in kinds.items())
                sys.stdout.write(f"{model:38} {way:14} {told}\n")
            sys.stdout.flush()
            continue
        found, memories[model], failed = measure(model, [AS_IT_IS, *ways], options)
        left_out.update(failed)
        results[model] = {way: [each[0] for each in made] for way, made in found.items()}
        peaks[model] = {way: made[-1][2] for way, made in found.items()}
        regressions += [line for other in others if (line := slower(model, found, other))]
        for way, made in found.items():
            seconds = results[model][way]
            spread = f"{min(seconds):.3f} to {max(seconds):.3f}"
            sys.stdout.write(
                f"{model:38} {way:14} {statistics.median(seconds):.3f} s ({spread})  {ratio(found, AS_IT_IS, way):.2f}"
                f"  CPU {statistics.median(each[1] for each in made):.3f} s  {ratio(found, AS_IT_IS, way, 1):.2f}"
                f"  peak {peaks[model][way] / 1e9:.2f} GB, of a step {memories[model][way] / 1e9:.2f} GB\n"
            )
        sys.stdout.flush()
    sys.stdout.writelines(f"{line}\n" for line in regressions)
    for way, reason in left_out.items():
        sys.stdout.write(f"{way} is left out: {reason}\n")
    report = {"threads": options.threads, "precision": options.precision, "steps": results, "left_out": left_out}
    report |= {"peaks": peaks, "memories": memories, "slower": regressions}
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
