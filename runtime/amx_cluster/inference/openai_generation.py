# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of several requests that a decoder goes on with together: they join and leave the running batch at any token.

transformers' own continuous batching has one generator of random numbers for all requests, so that a seed means
nothing, and is not in all versions that stacks have.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from amx_cluster.inference.batches import Busy
from amx_cluster.inference.openai_text import Text

# Below it, a temperature is that of the most probable token.
COLDEST = 1e-4
# Tokens of a prompt with which its continuation is decoded: the first token of a text may lose its space.
CONTEXT = 8


@dataclass
class Chunk:
    """The newest part of a text. reason: why it ended, "stop" or "length"; else empty. error: why it failed."""

    text: str
    tokens: int
    reason: str = ""
    error: str = ""


@dataclass(eq=False)
class Completion:
    """A text that is wanted. prompt: its tokens. emit: receives Chunks, in the thread of the model.

    goes_on: whether the text goes on with the prompt's, as an answer in a chat does not.

    unwanted: set by any thread, where nobody waits for it any more. since: when it was wanted (monotonic). text,
    generator: of its tokens, and of its random numbers, once it runs.
    """

    prompt: Sequence[int]
    emit: Callable[[Chunk], None]
    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    stops: Sequence[str] = ()
    goes_on: bool = False
    unwanted: bool = False
    tokens: list[int] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)
    text: Any = None
    generator: Any = None

    def needed(self) -> int:
        """Return the positions that it takes at most."""
        return len(self.prompt) + self.max_tokens


@dataclass
class Batch:
    """Completions with one key-value cache. mask: (completions, positions in the cache), 0 for padding on the left."""

    completions: list[Completion]
    cache: Any
    mask: Any


class Generation:
    """Completions that wait, and those that run. All but `submit` and `busy` belong to the thread of the model."""

    def __init__(
        self, model: Any, tokenizer: Any, most: int, most_tokens: int, most_waiting: int, autocast: Any = None
    ) -> None:
        """most: completions that run together. most_tokens: positions of the key-value cache of all of them.

        autocast: the type that torch computes in where weights have another one, else None.
        """
        self.model, self.tokenizer = model, tokenizer
        self.most, self.most_tokens, self.most_waiting, self.autocast = most, most_tokens, most_waiting, autocast
        # Not model.forward, which the engine compile has compiled for texts of one length.
        self._forward = type(model).forward
        self._names = inspect.signature(self._forward).parameters
        ends = model.generation_config.eos_token_id
        self.ends: set[Any] = {*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id} - {None}
        self.processors = processors(model.generation_config)
        self.generated = self.prompted = 0  # tokens
        self.wake: Callable[[], None] = lambda: None
        self.first_token: Callable[[float], None] = lambda _seconds: None
        self._waiting: deque[Completion] = deque()
        self._batches: list[Batch] = []
        self._changed = threading.Lock()

    def submit(self, completions: Sequence[Completion]) -> None:
        """Add completions to those that wait. Raises Busy where too many wait already."""
        with self._changed:
            if self._waiting and len(self._waiting) + len(completions) > self.most_waiting:
                raise Busy
            self._waiting.extend(completions)
        self.wake()

    @property
    def waiting(self) -> int:
        """The number of completions that wait."""
        return len(self._waiting)

    @property
    def running(self) -> list[Completion]:
        """The completions that run."""
        return [completion for batch in self._batches for completion in batch.completions]

    def busy(self) -> bool:
        """Return whether there is something to do."""
        return bool(self._waiting or self._batches)

    def step(self) -> None:
        """Add a token to each completion that runs, and begin one that waits, if there is memory for it."""
        import torch

        with torch.inference_mode(), torch.autocast("cpu", self.autocast, enabled=self.autocast is not None):
            for batch in self._batches:
                self._leave(batch, [completion for completion in batch.completions if not completion.unwanted])
                self._attempt(batch, self._extend)
            self._batches = [batch for batch in self._batches if batch.completions]
            new = self._next()
            if new is not None:
                batch = Batch([new], None, torch.ones(1, len(new.prompt), dtype=torch.long))
                self._attempt(batch, self._begin)
                if batch.completions and self._batches and can_join(self._batches[0].cache) and can_join(batch.cache):
                    _merge(self._batches[0], batch)
                elif batch.completions:
                    self._batches.append(batch)

    @staticmethod
    def _attempt(batch: Batch, compute: Callable[[Batch], None]) -> None:
        """Compute the next tokens of a batch. Whatever a model raises ends the texts of this batch alone."""
        if not batch.completions:
            return
        try:
            compute(batch)
        except Exception as error:
            for completion in batch.completions:
                completion.emit(Chunk("", len(completion.tokens), error=f"{type(error).__name__}: {error}"))
            batch.completions = []

    def _next(self) -> Completion | None:
        """Return the completion that begins now, in the order in which they came."""
        with self._changed:
            self._waiting = deque(completion for completion in self._waiting if not completion.unwanted)
            running = self.running
            if not self._waiting or len(running) >= self.most:
                return None
            longest = max(completion.needed() for completion in (*running, self._waiting[0]))
            if running and longest * (len(running) + 1) > self.most_tokens:
                return None
            return self._waiting.popleft()

    def _begin(self, batch: Batch) -> None:
        import torch

        completion = batch.completions[0]
        before = completion.prompt[-CONTEXT:] if completion.goes_on else ()
        completion.text, completion.generator = Text(self._decode, completion.stops, before), torch.Generator()
        if completion.seed is None:
            completion.generator.seed()
        else:
            completion.generator.manual_seed(completion.seed)
        logits = self._call(batch, torch.tensor([list(completion.prompt)]))
        self.prompted += len(completion.prompt)
        self.first_token(time.monotonic() - completion.since)
        self._choose(batch, logits)

    def _decode(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def _extend(self, batch: Batch) -> None:
        import torch

        batch.mask = torch.nn.functional.pad(batch.mask, (0, 1), value=1)
        last = [[completion.tokens[-1]] for completion in batch.completions]
        self._choose(batch, self._call(batch, torch.tensor(last)))

    def _call(self, batch: Batch, tokens: Any) -> Any:
        """Return the logits of the next token of each completion, (completions, words)."""
        inputs = {"input_ids": tokens, "attention_mask": batch.mask, "past_key_values": batch.cache, "use_cache": True}
        if "position_ids" in self._names:
            inputs["position_ids"] = (batch.mask.cumsum(dim=1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        if "logits_to_keep" in self._names:
            inputs["logits_to_keep"] = 1
        outputs = self._forward(self.model, **inputs)
        batch.cache = outputs.past_key_values
        return outputs.logits[:, -1].float()

    def _choose(self, batch: Batch, logits: Any) -> None:
        """Add a token to each completion of a batch; those that end leave it."""
        import torch

        going_on = []
        for completion, row in zip(batch.completions, logits):
            if bool((row.isnan() | row.isposinf()).any()):
                error = "what the model computes of it is not a number (NaN or infinity)"
                completion.emit(Chunk("", len(completion.tokens), error=error))
                continue
            if self.processors:
                before = torch.tensor([[*completion.prompt, *completion.tokens]])
                for process in self.processors:
                    row = process(before, row[None])[0]
            token = chosen(row, completion.temperature, completion.top_p, completion.generator)
            if self._add(completion, token):
                going_on.append(completion)
        self._leave(batch, going_on)

    def _add(self, completion: Completion, token: int) -> bool:
        """Add a token to a completion, and return whether it goes on."""
        self.generated += 1
        completion.tokens.append(token)
        text: Text = completion.text
        ended = token in self.ends
        new = "" if ended else text.add(token)
        reason = "stop" if ended or text.ended else "length" if len(completion.tokens) >= completion.max_tokens else ""
        if reason:
            new += text.end()
            reason = "stop" if text.ended else reason
        if new or reason:
            completion.emit(Chunk(new, len(completion.tokens), reason))
        return not reason

    @staticmethod
    def _leave(batch: Batch, going_on: Sequence[Completion]) -> None:
        """Leave only these completions in a batch, and only as much padding as they need."""
        import torch

        if len(going_on) == len(batch.completions):
            return
        index = torch.tensor([number for number, completion in enumerate(batch.completions) if completion in going_on])
        batch.completions = list(going_on)
        if not going_on or not can_join(batch.cache):
            return
        batch.mask = batch.mask[index]
        first = int(batch.mask.any(dim=0).int().argmax())
        batch.mask = batch.mask[:, first:]
        for layer in batch.cache.layers:
            layer.keys = layer.keys[index][:, :, first:]
            layer.values = layer.values[index][:, :, first:]


def processors(config: Any) -> list[Any]:
    """Return what changes the logits of all texts of a model, as `generate` of transformers applies it.

    config: its generation_config; of that, repetitions and words that are forbidden count, see docs/serving.md.
    """
    import transformers

    made: list[Any] = []
    if (config.repetition_penalty or 1.0) != 1.0:
        made.append(transformers.RepetitionPenaltyLogitsProcessor(config.repetition_penalty))
    if config.no_repeat_ngram_size:
        made.append(transformers.NoRepeatNGramLogitsProcessor(config.no_repeat_ngram_size))
    if config.bad_words_ids:
        made.append(transformers.NoBadWordsLogitsProcessor(config.bad_words_ids, config.eos_token_id))
    if config.suppress_tokens:
        made.append(transformers.SuppressTokensLogitsProcessor(config.suppress_tokens))
    return made


def chosen(logits: Any, temperature: float, top_p: float, generator: Any) -> int:
    """Return the next token by logits (words): the most probable one, or a random one by their probabilities."""
    import torch

    if temperature < COLDEST:
        return int(logits.argmax())
    # Of the difference from the greatest, a small temperature makes no infinity.
    probabilities = ((logits - logits.max()) / temperature).softmax(dim=-1)
    if top_p < 1:
        ordered, order = probabilities.sort(descending=True)
        ordered[1:][ordered.cumsum(dim=-1)[:-1] >= top_p] = 0
        probabilities = torch.zeros_like(probabilities).scatter(0, order, ordered)
    return int(torch.multinomial(probabilities, 1, generator=generator))


def can_join(cache: Any) -> bool:
    """Return whether a cache is keys and values of all positions, to which padding on the left can be added.

    A window that slides over them would count padding, and other states (Mamba) would take it in.
    """
    layers: list[Any] = getattr(cache, "layers", None) or []
    return bool(layers) and all(type(layer).__name__ == "DynamicLayer" for layer in layers)


def _merge(batch: Batch, new: Batch) -> None:
    """Add the completions of another batch to a batch."""
    import torch

    def joined(left: Any, right: Any, dim: int) -> Any:
        length, outer = max(left.shape[dim], right.shape[dim]), (0, 0) * (-1 - dim)
        pad = torch.nn.functional.pad
        return torch.cat([pad(tensor, (*outer, length - tensor.shape[dim], 0)) for tensor in (left, right)])

    for layer, other in zip(batch.cache.layers, new.cache.layers):
        layer.keys, layer.values = joined(layer.keys, other.keys, -2), joined(layer.values, other.values, -2)
    batch.mask = joined(batch.mask, new.mask, -1)
    batch.completions += new.completions


def bytes_per_token(generation: Generation) -> int:
    """Return what a position in the key-value cache takes, by generating two tokens; 0 for a model without a cache."""
    import torch

    chunks: list[Chunk] = []
    first = Completion([0] * 8, chunks.append, 2, 0.0)
    ends = generation.ends
    generation.ends = set()
    generation.submit([first])
    generation.step()
    layers = [layer for batch in generation._batches for layer in getattr(batch.cache, "layers", None) or []]
    tensors = [tensor for layer in layers for tensor in vars(layer).values() if isinstance(tensor, torch.Tensor)]
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors) // len(first.prompt)
    while generation.busy():
        generation.step()
    generation.ends, generation.generated, generation.prompted = ends, 0, 0
    return 0 if any(chunk.error for chunk in chunks) else size
