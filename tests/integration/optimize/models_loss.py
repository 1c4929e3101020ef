"""Small language models of transformers, with heads and losses as scripts have them, for programs_loss.py.

Imported where the parts are installed: they replace forward() of the classes of transformers that are defined later.
"""

from __future__ import annotations

import functools
from typing import Any

import peft
import torch
import torch.nn.functional as F
import transformers
from torch.utils.checkpoint import checkpoint

VOCABULARY = 37
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GATED = {**SIZES, "intermediate_size": 24, "num_key_value_heads": 1}


class Derived(transformers.LlamaForCausalLM):
    """As scripts do: another loss is added, and the logits are looked at."""

    def forward(self, *args: Any, labels: Any = None, **words: Any) -> Any:
        made = super().forward(*args, labels=labels, **words)
        if labels is not None and not isinstance(made, tuple):
            made.loss = made.loss + 0.01 * made.logits.float().square().mean()
        return made


class OfHead(transformers.LlamaForCausalLM):
    """As scripts do: the head is called in forward() of a class of its own."""

    def logits(self, hidden: Any) -> Any:
        return self.lm_head(input=hidden)

    def forward(self, input_ids: Any = None, labels: Any = None, inputs_embeds: Any = None, **_words: Any) -> Any:
        hidden = self.model(input_ids=input_ids, inputs_embeds=inputs_embeds).last_hidden_state
        logits = self.logits(hidden)
        loss = None if labels is None else self.loss_function(logits, labels, VOCABULARY)
        return transformers.modeling_outputs.CausalLMOutput(loss=loss, logits=logits)


class Again(OfHead):
    """The logits are computed again in the backward pass, in order not to be kept."""

    reentrant = False

    def logits(self, hidden: Any) -> Any:
        return checkpoint(self.lm_head, hidden, use_reentrant=self.reentrant)


class AgainReentrant(Again):
    reentrant = True


class Partial(OfHead):
    def scaled(self, *args: Any, by: float, **words: Any) -> Any:
        made = OfHead.forward(self, *args, **words)
        made.loss = made.loss if made.loss is None else by * made.loss
        return made

    forward = functools.partialmethod(scaled, by=2.0)


class Unnamed(OfHead):
    """It does not say which module is its head."""

    def get_output_embeddings(self) -> Any:
        raise NotImplementedError


OF_LLAMA = {
    "derived": Derived,
    "head by name": OfHead,
    "head again": Again,
    "head again reentrant": AgainReentrant,
    "partial forward": Partial,
    "unnamed head": Unnamed,
}


class OwnHead(torch.nn.Linear):
    def forward(self, hidden: Any) -> Any:
        return super().forward(hidden) * 0.5


class OfFloat32(torch.nn.Linear):
    """A head that computes in float32 whatever its input is, as some scripts do."""

    def forward(self, hidden: Any) -> Any:
        return F.linear(hidden.float(), self.weight.float())


def smoothed(logits: Any, labels: Any, vocab_size: int, **_words: Any) -> Any:
    shifted = F.pad(labels, (0, 1), value=-100)[..., 1:].reshape(-1)
    return F.cross_entropy(logits.view(-1, vocab_size), shifted, label_smoothing=0.1)


def model(p: dict[str, Any]) -> Any:
    """Return a model as the fields of a program say."""
    name, tied = p["model"], {"tie_word_embeddings": p["tied"]}
    off = {"attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}
    if name in ("llama", "own head", "own loss", "head of float32", *OF_LLAMA):
        made = OF_LLAMA.get(name, transformers.LlamaForCausalLM)(transformers.LlamaConfig(**GATED, **tied))
    elif name == "qwen2":
        made = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**GATED, **tied))
    elif name == "gpt2":
        sizes: dict[str, Any] = {"vocab_size": VOCABULARY, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64}
        made = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(**sizes, **off, **tied, bos_token_id=1, eos_token_id=2)
        )
    elif name == "phi":
        made = transformers.PhiForCausalLM(transformers.PhiConfig(**GATED, **tied))
    elif name == "gemma2":
        made = transformers.Gemma2ForCausalLM(transformers.Gemma2Config(**GATED, head_dim=8, **tied))
    elif name == "opt":
        sizes = {**SIZES, "ffn_dim": 24, "word_embed_proj_dim": 16, "dropout": 0.0}
        made = transformers.OPTForCausalLM(transformers.OPTConfig(**sizes, **tied))
    elif name == "t5":
        sizes = {"vocab_size": VOCABULARY, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}
        config = transformers.T5Config(**sizes, dropout_rate=0.0, **tied, decoder_start_token_id=0, pad_token_id=0)
        made = transformers.T5ForConditionalGeneration(config)
    else:
        still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "intermediate_size": 24}
        config = transformers.BertConfig(**SIZES, **still, **tied, is_decoder=name == "bert decoder")
        made = (transformers.BertLMHeadModel if name == "bert decoder" else transformers.BertForMaskedLM)(config)
    if name in ("own head", "head of float32"):
        head = (OwnHead if name == "own head" else OfFloat32)(16, VOCABULARY, bias=False)
        head.weight = made.lm_head.weight
        made.lm_head = head
    if name == "own loss":
        made.loss_function = smoothed
    return made


def with_lora(model: Any, of_head: bool) -> Any:
    """Return the model with adapters in all of its linear layers but the head, or in the head alone."""
    head = model.get_output_embeddings()
    linear = [name for name, each in model.named_modules() if isinstance(each, torch.nn.Linear) and each is not head]
    last = [name for name, each in model.named_modules() if each is head]
    words = {"target_modules": last if of_head else linear, "init_lora_weights": False}
    return peft.get_peft_model(model, peft.LoraConfig(r=2, lora_alpha=4, **words))
