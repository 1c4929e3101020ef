# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forecast of the peak memory of a training, from a model's shape and a job's settings, before anything is loaded.

What autograd keeps of a layer was counted with torch.autograd.graph.saved_tensors_hooks (torch 2.13, transformers
5.23), and the sums were compared with peaks that tests/benchmarks/memory.py measured: docs/models_and_datasets.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.amx.cluster.plugins.module_utils._jobs.model_shape import Shape

FULL, OPTIMIZER, UNSHARDED = "full", "optimizer", "none"

PROCESS = 640 * 2**20
"""Python with torch, transformers and their libraries, and their threads' arenas."""

PROCESS_LORA = 60 * 2**20
"""What importing peft adds."""

BUCKET = 25 * 2**20
"""DistributedDataParallel's, of which two are on their way."""

SHORT = 256
"""The longest row of which `optimize: attention` keeps the softmax in bf16, also without dropout."""

CHUNK = 2**27
"""Logits that `optimize: loss` has at once, in bytes of fp32: CHUNK of runtime/amx_cluster/optimize/loss.py."""

BLOCKS = 2**26
"""Parts of it in fp32, in bytes: twice the 2 MiB that each of 16 threads has."""

PIECES = 1.1
"""Memory that an allocator takes for each byte in use, where pieces of many sizes come and go."""

STATES = {"adamw": 8, "sgd": 0, "adafactor": 0, "lion": 4, "adagrad": 4, "rmsprop": 4}
"""Bytes of an optimizer's state for each parameter that is trained, by the beginning of the Trainer's `optim`."""


@dataclass(frozen=True)
class Lora:
    """Adapters: their rank, and the names of the matrices that have one."""

    rank: int
    targets: tuple[str, ...]
    dropout: float = 0.05


@dataclass(frozen=True)
class Settings:
    """Settings of a job that decide how much memory a rank takes.

    length: tokens of a row. bf16: whether it computes in bfloat16 by autocast; bf16_weights: whether weights that are
    not trained are loaded in it. state_bytes: of the optimizer, for each parameter. ranks: of the group; on_host: of
    one host. accumulates: whether gradients of several batches are summed, which stay meanwhile.
    blocks: whether attention is computed some heads at a time (the part attention of optimize). chunks: whether logits
    are, some tokens at a time (the part loss).
    """

    batch: int
    length: int
    bf16: bool = False
    bf16_weights: bool = False
    checkpointing: bool = False
    state_bytes: int = 8
    lora: Lora | None = None
    ranks: int = 1
    on_host: int = 1
    sharding: str = UNSHARDED
    accumulates: bool = False
    blocks: bool = False
    chunks: bool = False


@dataclass(frozen=True)
class Forecast:
    """The parts of a rank's peak in bytes, and of how many ranks a host has.

    activations: what exists besides at the moment of the peak, logits, casts of weights and temporaries included.
    """

    process: int
    parameters: int
    gradients: int
    states: int
    activations: int
    buffers: int
    on_host: int = 1

    @property
    def rank(self) -> int:
        """The peak of a rank."""
        parts = (self.process, self.parameters, self.gradients, self.states, self.activations, self.buffers)
        return sum(parts)

    @property
    def host(self) -> int:
        """The peak of a host."""
        return self.rank * self.on_host


def forecast(shape: Shape, wanted: Settings) -> Forecast:
    """Return what a rank takes at its peak, which is the larger of two moments of a step.

    One is the beginning of the backward pass, when all activations are there and next to no gradients; the other its
    end, when all gradients are there. What is freed between them is used again.
    """
    tokens = wanted.batch * wanted.length
    every = shape.parameters()
    adapters = _adapters(shape, wanted.lora)
    trained = adapters if wanted.lora else every
    shared = wanted.ranks if wanted.sharding == FULL else 1
    parameters = every * (2 if wanted.lora and wanted.bf16_weights else 4) + 4 * adapters
    gradients = 4 * trained
    states = wanted.state_bytes * trained // (1 if wanted.sharding == UNSHARDED else wanted.ranks)
    layer = tokens * _of_layer(shape, wanted)
    kept = shape.layers * (tokens * shape.hidden * _residual(wanted) if wanted.checkpointing else layer)
    written = 12 * shape.heads * wanted.length * tokens if _writes(shape, wanted) else 0  # for attention's gradients
    casts = _casts(shape, wanted)
    outer = 0 if wanted.lora else 4 * (shape.embedding + shape.head)
    head = _of_head(shape, wanted)
    buffers = 0
    if wanted.ranks > 1 and wanted.sharding == FULL:
        # Embedding and head stay whole from the forward pass on, and so do two layers, all with their gradients; what
        # is exchanged of the former is copied. Layers are whole when they are loaded, and the allocator keeps that.
        ends = shape.embedding + shape.head
        buffers = 8 * (ends + 2 * shape.layer()) + 4 * ends + 4 * shape.layers * shape.layer()
    elif wanted.ranks > 1:
        buffers = gradients + 2 * min(BUCKET, gradients)
    gradients //= shared
    inner = gradients - outer // shared
    # glibc keeps what is freed below 32 MiB for later use, in pieces; larger tensors, of tokens by the vocabulary or of
    # the vocabulary's gradients, come and go.
    # A layer's gradients of activations are about half as large as these; one that is computed again is there besides.
    began = kept + (layer * 3 // 2 if wanted.checkpointing else layer // 2) + (inner if wanted.accumulates else 0)
    small = (max(began, inner + layer * 3 // 2) + written) * PIECES
    large = head + outer if wanted.accumulates else max(head, outer)
    activations = round(small) + large + casts - gradients
    return Forecast(
        process=PROCESS + (PROCESS_LORA if wanted.lora else 0),
        parameters=parameters // shared,
        gradients=gradients,
        states=states,
        activations=activations,
        buffers=buffers,
        on_host=wanted.on_host,
    )


def evaluation(shape: Shape, wanted: Settings, batch: int) -> int:
    """Return what the ranks of a host take while a decoder is evaluated after a step, with so many rows at once.

    There are no gradients then, and of activations those of one layer. Logits are there in fp32, and again as their
    logarithms, from which the loss is taken; those that autocast computed are in bfloat16 besides.
    """
    trained, tokens = forecast(shape, wanted), batch * wanted.length
    logits = 4 * shape.vocabulary * tokens
    logits = _chunk(logits, wanted) if _has_chunks(wanted) else logits * (10 if wanted.bf16 else 8) // 4
    kept = trained.process + trained.parameters + trained.states + trained.buffers
    return (kept + _casts(shape, wanted) + logits + tokens * _of_layer(shape, wanted)) * wanted.on_host


def _has_chunks(wanted: Settings) -> bool:
    """Return whether logits are computed some tokens at a time; sharded weights leave that to PyTorch."""
    return wanted.chunks and wanted.sharding != FULL


def _chunk(logits: int, wanted: Settings) -> int:
    """Return the bytes of a chunk of so many bytes of logits in fp32, in the type of a step, and of its BLOCKS."""
    return min(logits, CHUNK) // (2 if wanted.bf16 else 1) + min(logits, BLOCKS)


def _casts(shape: Shape, wanted: Settings) -> int:
    """Return the bytes of weights in bfloat16 beside those in fp32: autocast keeps them until the forward pass ends,
    and autograd those that it saved."""
    copied = shape.layers * shape.layer() + (shape.head or shape.embedding) * shape.decoder
    return 2 * copied if wanted.bf16 and not (wanted.lora and wanted.bf16_weights) else 0


def _adapters(shape: Shape, lora: Lora | None) -> int:
    """Return the parameters of LoRA's adapters."""
    if not lora:
        return 0
    matrices = shape.matrices()
    return shape.layers * sum(lora.rank * sum(matrices[name]) for name in lora.targets)


def _residual(wanted: Settings) -> int:
    """Return the bytes of an element between layers: of embeddings, which autocast leaves as they are."""
    return 2 if wanted.lora and wanted.bf16_weights else 4


def _of_layer(shape: Shape, wanted: Settings) -> int:
    """Return the bytes that autograd keeps of a layer for each token."""
    size = 2 if wanted.bf16 else 4
    hidden, inner, attention, lora = shape.hidden, shape.inner, shape.attention, wanted.lora
    # With dropout, sdpa on CPUs computes in fp32 as eager attention does: it writes weights, what is dropped, and the
    # rest. Else it has a mask, as soon as a batch has padding.
    written = _writes(shape, wanted)
    kept = 12 * shape.heads * wanted.length if written else size * wanted.length * bool(shape.vocabulary)
    short = wanted.bf16 and wanted.length <= SHORT
    if wanted.blocks and shape.sdpa and (short or shape.attention_dropout):
        kept += size * shape.heads * wanted.length  # the softmax alone
    if not shape.decoder:
        # Norms' inputs; inputs of matrices, which autocast copies for each; the MLP before and after its GELU.
        kept += 16 * hidden + (12 + size if written else 4 * size) * hidden + 2 * size * inner
        return kept + (2 * size * hidden if shape.dropout else 0)
    # Keys and values are repeated for all heads, as soon as there is a mask.
    kept += 4 * size * attention + 4 * shape.heads
    if not lora:
        return kept + 16 * hidden + (5 * 2 if wanted.bf16 else 2 * 4) * hidden + 4 * size * inner
    dropped, matrices = 4 if lora.dropout else 0, shape.matrices()
    kept += 8 * hidden + 3 * size * inner
    return kept + sum((dropped + size) * matrices[name][0] + size * lora.rank for name in lora.targets)


def _writes(shape: Shape, wanted: Settings) -> bool:
    """Return whether attention writes all its weights and scores."""
    return shape.writes_attention and not (wanted.blocks and shape.sdpa)


def _of_head(shape: Shape, wanted: Settings) -> int:
    """Return the bytes of logits: three of each in fp32 while the loss goes backward.

    In chunks, of which some rows at a time are in fp32, they are beside the gradient of their matrix, which is there in
    fp32 and once more in the type of a step.
    """
    if not shape.decoder:
        return 0
    tokens = wanted.batch * wanted.length
    logits = 4 * shape.vocabulary * tokens
    if _has_chunks(wanted):
        gradient = 0 if wanted.lora else (6 if wanted.bf16 else 8) * shape.vocabulary * shape.hidden
        return _chunk(logits, wanted) + gradient + 4 * shape.hidden * tokens
    return 3 * logits + 4 * shape.hidden * tokens
