"""Encoders of transformers that compute nothing of padding, where only the first token of each row is used.

The published scripts pad rows to the longest that is allowed. Where a model classifies rows by their first token, no
other token's state leaves the model, and masks keep padding away from every other token. Here the encoder gets the
tokens of all rows in one sequence, without padding. Attention is computed by row: of rows of like length together,
with a mask where they differ. Embeddings, pooler, head and loss are the model's own.

A model whose modules are not all known, a hook, or a setting that shows states of tokens leaves all to transformers.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from amx_cluster.optimize import calls

# A family's prefix, where its encoder is in the model below a head, the encoder's class, and for each head that uses a
# row's first token alone which of its modules gets the states of all tokens; none where the head's own code takes the
# first. The head of ElectraForMultipleChoice can be set to use all tokens.
ROWS, CHOICES = "ForSequenceClassification", "ForMultipleChoice"
_roberta = {ROWS: "classifier", CHOICES: "pooler"}
FAMILIES = {
    "albert": ("Albert", "encoder", "AlbertTransformer", {ROWS: "", CHOICES: ""}),
    "bert": ("Bert", "encoder", "BertEncoder", {ROWS: "pooler", CHOICES: "pooler"}),
    "camembert": ("Camembert", "encoder", "CamembertEncoder", _roberta),
    "distilbert": ("DistilBert", "transformer", "Transformer", {ROWS: "", CHOICES: ""}),
    "electra": ("Electra", "encoder", "ElectraEncoder", {ROWS: "classifier"}),
    "roberta": ("Roberta", "encoder", "RobertaEncoder", _roberta),
    "xlm_roberta": ("XLMRoberta", "encoder", "XLMRobertaEncoder", _roberta),
}
# The numbers of states of padding (positions times size) from which it is faster to leave them out, and its share.
WORTH, SHARE = 1 << 16, 0.1
# Rows are of like length if the shortest has this share of the longest one's tokens, or misses so many of them; lengths
# are multiples of STEP.
ALIKE, NEAR, STEP = 0.75, 16, 16
# Modules that compute each token by itself, or hold others.
KNOWN = {
    "torch.nn.modules.activation": ("GELU", "ReLU", "SiLU", "Tanh"),
    "torch.nn.modules.container": ("ModuleDict", "ModuleList", "ParameterDict"),
    "torch.nn.modules.dropout": ("Dropout",),
    "torch.nn.modules.linear": ("Identity", "Linear"),
    "torch.nn.modules.normalization": ("LayerNorm",),
    "torch.nn.modules.sparse": ("Embedding",),
    "peft.tuners.lora.layer": ("Linear",),
    "peft.utils.other": ("ModulesToSaveWrapper",),
}
SHOWN = ("output_attentions", "output_hidden_states")
# What a call may set: others reach attention, or are answered by what the encoder computes.
WORDS = {"attention_mask", "input_ids", "inputs_embeds", "labels", "position_ids", "return_dict", "token_type_ids"}
# What the Trainer adds, and nothing below these heads reads.
WORDS |= {"num_items_in_batch"}
_call = threading.local()
# Positions of padding that training has not computed so far.
left_out = 0


class Put(torch.autograd.Function):
    """Rows of a tensor at places of a larger one, which is zero elsewhere. Its gradient is what Take does."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, places: Any, length: int) -> Any:
        ctx.save_for_backward(places)
        return tensor.new_zeros((length, *tensor.shape[1:])).index_copy_(0, places, tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return Take.apply(gradient, *ctx.saved_tensors), None, None


class Take(torch.autograd.Function):
    """Rows of a tensor at places, no place twice. Its gradient is what Put does."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, places: Any) -> Any:
        ctx.save_for_backward(places)
        ctx.length = len(tensor)
        return tensor.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return Put.apply(gradient, *ctx.saved_tensors, ctx.length), None


@dataclass(frozen=True)
class Group:
    """Rows of like length: where their tokens are in the sequence of all, and where in (rows, longest)."""

    shape: tuple[int, int]
    tokens: Any
    places: Any
    mask: Any


class Rows:
    """The rows of a batch without their padding. Layers hand it on as the attention mask.

    mask: (rows, length), True at tokens; places: (tokens) of the tokens among all positions; length: of the sequence of
    all tokens, which ends with copies of the first, in no row.
    """

    def __init__(self, mask: Any) -> None:
        self.shape = tuple(mask.shape)
        self.places = mask.flatten().nonzero().flatten()
        self.lengths = mask.sum(1).tolist()
        self.groups = list(self._groups())
        self.order = torch.cat([group.tokens for group in self.groups])
        self.length = min(calls.filled(len(self.order)), mask.numel())

    def _groups(self) -> Iterator[Group]:
        starts, start = [], 0
        for length in self.lengths:
            starts.append(start)
            start += length
        rows = sorted(range(len(self.lengths)), key=self.lengths.__getitem__, reverse=True)
        while rows:
            longest = self.lengths[rows[0]]
            least = min(ALIKE * longest, longest - NEAR)
            alike = [row for row in rows if self.lengths[row] >= least]
            rows = rows[len(alike) :]
            width = -(-longest // STEP) * STEP
            lengths = torch.tensor([self.lengths[row] for row in alike])
            mask = torch.arange(width) < lengths[:, None]
            tokens = torch.cat([torch.arange(starts[row], starts[row] + self.lengths[row]) for row in alike])
            is_whole = bool(mask.all())
            yield Group(
                (len(alike), width),
                tokens,
                mask.flatten().nonzero().flatten(),
                None if is_whole else mask[:, None, None],
            )

    def are_of(self, states: Any) -> bool:
        """Return whether states are of these rows, and finite: of others, masks do not keep padding away."""
        return calls.is_plain(states) and tuple(states.shape[:2]) == self.shape and is_finite(states)

    def pack(self, states: Any) -> Any:
        """Return the states of tokens: (1, self.length, size) of (rows, length, size)."""
        taken = Take.apply(states.flatten(0, 1), self.places)
        return torch.cat([taken, taken[:1].detach().expand(self.length - len(taken), -1)])[None]

    def unpack(self, states: Any) -> Any:
        """Return states at their positions: (rows, length, size), zero at padding, of (1, self.length, size)."""
        rows, length = self.shape
        return Put.apply(states[0, : len(self.places)], self.places, rows * length).view(rows, length, -1)

    def attend(self, attention: Callable[..., Any], module: Any, tensors: Any, **words: Any) -> Any:
        """Return attention by row: (1, self.length, heads, size) of tensors (1, heads, self.length, size)."""
        flat = [each[0].transpose(0, 1) for each in tensors]
        made = []
        for group in self.groups:
            rows, width = group.shape
            padded = [
                Put.apply(Take.apply(each, group.tokens), group.places, rows * width)
                .view(rows, width, *each.shape[1:])
                .transpose(1, 2)
                for each in flat
            ]
            out, _ = attention(module, *padded, group.mask, **words)
            made.append(Take.apply(out.flatten(0, 1), group.places))
        return Put.apply(torch.cat(made), self.order, self.length)[None], None


def is_finite(tensor: Any) -> bool:
    """Return whether all numbers of a tensor are finite, and their squares' sum is."""
    dtype = torch.promote_types(tensor.dtype, torch.float32)
    return math.isfinite(torch.linalg.vector_norm(tensor.detach(), dtype=dtype).item())


def _wanted_rows(model: Any, encoder: Any, reader: str, mask: Any, words: Any) -> Any:
    """Return the Rows of a call whose padding need not be computed, or None. reader: as in FAMILIES."""
    below = model.base_model
    if not (
        calls.is_plain(mask)
        and mask.dim() in (2, 3)
        and not calls.are_seen()
        and not calls.are_compiled()
        and not calls.are_saved_otherwise()
        and not any(getattr(config, name, False) for config in (model.config, below.config) for name in SHOWN)
        and not any(each is not None and each is not False for name, each in words.items() if name not in WORDS)
    ):
        return None
    is_token = mask.flatten(0, -2) != 0
    padding = is_token.numel() - int(is_token.count_nonzero())
    # transformers maps DistilBERT's own name to hidden_size.
    is_worth = padding * below.config.hidden_size >= WORTH and padding >= SHARE * is_token.numel()
    is_worth = is_worth and bool(is_token[:, 0].all())
    return Rows(is_token) if is_worth and is_usual(model, encoder, reader) else None


def is_usual(model: Any, encoder: Any, reader: str) -> bool:
    """Return whether encoder and head are transformers' own, without hooks, and attention is PyTorch's."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    below, family = model.base_model, type(encoder).__module__
    config = below.config
    # Embeddings are computed for padding, too.
    others = {model, *below.embeddings.modules()}
    modules = [each for each in model.modules() if each not in others]
    return (
        config._attn_implementation == "sdpa"
        and _is_of(ALL_ATTENTION_FUNCTIONS["sdpa"], "transformers")
        and not getattr(config, "is_decoder", False)
        and not getattr(config, "chunk_size_feed_forward", 0)
        and not calls.are_all_hooked()
        and (not reader or _reads_first(getattr(below if reader == "pooler" else model, reader, None), family))
        and all(map(_is_own, {type(each) for each in modules}))
        and all(_is_usual(each, family) for each in modules)
        and all(getattr(each, "config", config) is config for each in encoder.modules())
        and not any(getattr(each, "is_causal", False) for each in encoder.modules())
    )


def _reads_first(module: Any, family: str) -> bool:
    """Return whether a module, or each that peft has in its place, is the family's own, which takes the first token."""
    saved = getattr(module, "modules_to_save", None)
    own = [module] if saved is None else [module.original_module, *saved.values()]
    return all(type(each).__module__ == family for each in own)


def _is_usual(module: Any, family: str) -> bool:
    """Return whether a module is known, and neither hooked, compiled nor changed by itself."""
    kind = type(module)
    return (
        (kind.__module__ in (family, "transformers.activations") or kind.__name__ in KNOWN.get(kind.__module__, ()))
        and module._compiled_call_impl is None
        and not calls.is_hooked(module)
        and not any(callable(getattr(kind, name, None)) for name in module.__dict__)
    )


def _is_own(kind: Any) -> bool:
    """Return whether the methods that its module gives a class are those of its package, and not replaced."""
    bases = [each for each in kind.__mro__ if each.__module__ == kind.__module__]
    methods = [each for base in bases for each in base.__dict__.values() if inspect.isfunction(each)]
    return all(_is_of(each, kind.__module__.partition(".")[0]) for each in methods)


def _is_of(function: Any, package: str) -> bool:
    """Return whether a function's code is a package's, PyTorch's, contextlib's or of optimize, by its file."""
    path = function.__code__.co_filename
    return path == contextlib.__file__ or any(
        f"/{each}/" in path for each in (package, "torch", "amx_cluster/optimize")
    )


def _replace_head(head: Any, encoder: str, reader: str) -> None:
    """Replace a head's forward by one that asks the encoder to leave padding out."""
    theirs = head.forward
    place = list(inspect.signature(theirs).parameters).index("attention_mask") - 1

    @functools.wraps(theirs)
    def forward(self: Any, *args: Any, **words: Any) -> Any:
        if torch.compiler.is_compiling():
            return theirs(self, *args, **words)
        mask = args[place] if len(args) > place else words.get("attention_mask")
        below = getattr(self.base_model, encoder, None)
        rows = None if mask is None or below is None else _wanted_rows(self, below, reader, mask, words)
        _call.wanted = rows and (below, rows)
        try:
            return theirs(self, *args, **words)
        finally:
            _call.wanted = None

    head.forward = forward


def _replace_encoder(encoder: Any) -> None:
    """Replace an encoder's forward by one that leaves padding out where its head asks for it."""
    theirs = encoder.forward
    if list(inspect.signature(theirs).parameters)[1:3] != ["hidden_states", "attention_mask"]:
        raise AttributeError(f"{encoder.__name__}.forward has other parameters")

    @functools.wraps(theirs)
    def forward(self: Any, hidden_states: Any, attention_mask: Any = None, *args: Any, **words: Any) -> Any:
        if torch.compiler.is_compiling():
            return theirs(self, hidden_states, attention_mask, *args, **words)
        below, rows = getattr(_call, "wanted", None) or (None, None)
        _call.wanted = None
        if below is not None and rows is not None and below is self and rows.are_of(hidden_states):
            output = theirs(self, rows.pack(hidden_states), rows, *args, **words)
            # Where a weight is not a number, transformers' way shows which of padding's gradients are none.
            if is_finite(output.last_hidden_state):
                if self.training:
                    global left_out
                    left_out += rows.shape[0] * rows.shape[1] - rows.length
                output.last_hidden_state = rows.unpack(output.last_hidden_state)
                return output
        return theirs(self, hidden_states, attention_mask, *args, **words)

    encoder.forward = forward


def _replace_attention(interface: Any) -> None:
    """Replace transformers' attention by one that computes by row where its mask is a Rows."""
    theirs = interface.get_interface

    @functools.wraps(theirs)
    def get_interface(self: Any, *args: Any, **words: Any) -> Any:
        attention = theirs(self, *args, **words)
        if torch.compiler.is_compiling():
            return attention
        return functools.update_wrapper(functools.partial(_attend, attention), attention)

    interface.get_interface = get_interface


def _attend(attention: Any, *args: Any, **words: Any) -> Any:
    """Compute attention as the layers of FAMILIES call it where their mask is a Rows, all else as it is."""
    if len(args) == 5 and isinstance(args[4], Rows):
        module, query, key, value, rows = args
        return rows.attend(attention, module, (query, key, value), **words)
    return attention(*args, **words)


def install(modeling: Any) -> None:
    """Replace the heads and the encoder of a family's module.

    Raises AttributeError or ValueError where it does not have what this needs.
    """
    from transformers.modeling_utils import AttentionInterface

    calls.try_checks()
    prefix, place, encoder, heads = FAMILIES[modeling.__name__.rpartition("modeling_")[2]]
    for head, reader in heads.items():
        _replace_head(getattr(modeling, prefix + head), place, reader)
    _replace_encoder(getattr(modeling, encoder))
    if not hasattr(AttentionInterface.get_interface, "__wrapped__"):
        _replace_attention(AttentionInterface)
