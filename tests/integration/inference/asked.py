"""Ask small decoders, compare what they are asked with what they were trained on, merge an adapter, and print JSON.

asked.py DIRECTORY     on a Python with torch, transformers and peft; PYTHONPATH as in test_model_files.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import prepare_decoder
import torch
import train_decoder
import transformers
from amx_cluster.inference.loaded import Unavailable
from ansible_collections.amx.cluster.plugins.module_utils._data import chats, rows
from support.small_decoder import tokenizer_of
from tokenizers.processors import TemplateProcessing

TEXTS = ["What is a heap for ? It keeps the least at the front .", "Answer briefly , and in English ."]
ROWS: list[tuple[str, dict[str, Any]]] = [
    ("instruction", {"instruction": TEXTS[0], "output": "To sort ."}),
    ("instruction", {"instruction": TEXTS[0], "input": "a list", "system": TEXTS[1], "output": "To sort ."}),
    ("question", {"question": TEXTS[0], "input": "a list", "answer": "To sort ."}),
    (
        "messages",
        {
            "messages": [
                {"role": "system", "content": TEXTS[1]},
                {"role": "user", "content": TEXTS[0]},
                {"role": "assistant", "content": "To sort .", "weight": 0},
                {"role": "user", "content": "And a stack ?"},
                {"role": "assistant", "content": "To undo ."},
            ]
        },
    ),
    (
        "conversations",
        {"conversations": [{"from": "human", "value": TEXTS[0]}, {"from": "gpt", "value": "To sort ."}]},
    ),
    (
        "prompt",
        {
            "prompt": [{"role": "user", "content": TEXTS[0]}],
            "completion": [{"role": "assistant", "content": "To sort ."}],
        },
    ),
    ("prompt", {"prompt": TEXTS[0], "completion": " To sort ."}),
]


def differing(tokenizer: Any) -> list[str]:
    """Return the columns of rows that are asked with other tokens than those before the answer in training."""
    found = []
    for column, row in ROWS:
        counts = prepare_decoder.Counts()
        ids, labels = next(iter(prepare_decoder.tokens([("row 1", row)], tokenizer, 512, counts)))
        before = ids[: next(place for place, label in enumerate(labels) if label != prepare_decoder.IGNORED)]
        (asked,) = chats.prompts([row], column, tokenizer, bool(counts.chats))
        if asked != before:
            found.append(f"{column}: {asked}, trained on {before}")
    return found


def tokenizers() -> dict[str, Any]:
    made = {name: tokenizer_of([*TEXTS, "To sort ."]) for name in ("plain", "begins", "begins and ends")}
    for name, special in {"begins": "<|system|> $A", "begins and ends": "<|system|> $A <|end|>"}.items():
        one = made[name]
        one.bos_token = "<|system|>"
        tokens = [(token, one.convert_tokens_to_ids(token)) for token in ("<|system|>", "<|end|>")]
        one.backend_tokenizer.post_processor = TemplateProcessing(single=special, special_tokens=tokens)
    return made


class Decoder:
    """A small GPT-2 with 32 positions, asked by the modules of predictions."""

    def __init__(self, place: Path, tokenizer: Any, trained_on: str = "") -> None:
        self.place = place
        torch.manual_seed(0)
        config = transformers.GPT2Config(
            vocab_size=len(tokenizer), n_embd=16, n_layer=1, n_head=2, n_positions=32, bos_token_id=None, eos_token_id=1
        )
        if trained_on:
            config.amx_cluster_trained_on = trained_on
        transformers.GPT2LMHeadModel(config).save_pretrained(place)
        tokenizer.save_pretrained(place)

    def ask(self, prompts: list[Any], column: str = "prompt", **cell: Any) -> Any:
        """Return (predicted, {row: why not}), or why the model cannot be asked."""
        from amx_cluster.inference import instance

        whole = {
            **{"model": "small", "task": "text-generation", "path": str(self.place), "precision": "fp32"},
            **{"engine": "eager", "batch_size": 4, "sequence_length": 24, "new_tokens": 4, "stop_at_end": True},
            **{"chat_template": None, **cell},
        }
        records = [rows.Record(number, {column: prompt}) for number, prompt in enumerate(prompts)]
        try:
            one = instance.Instance(whole, [column], 1, [])
        except Unavailable as error:
            return str(error)
        _good, added, broken = one.predict(records, lambda _done: None)
        return [added, {record.line: record.problem for record in broken}]


def merging(place: Path, tokenizer: Any) -> dict[str, float]:
    """Merge an adapter with a small update; return how far the merged weights are from what they should be."""
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=96, num_hidden_layers=1, num_attention_heads=2
    )
    base = transformers.LlamaForCausalLM(config)
    base.save_pretrained(place / "base")
    data = prepare_decoder.Arguments(model_name_or_path=str(place / "base"), use_peft=True, merge=True)
    model = train_decoder.load_model(data, SimpleNamespace(bf16=True))
    for name, one in model.named_parameters():
        if "lora_B" in name:
            one.data.normal_(0, 1e-4)
    layer = model.base_model.model.model.layers[0].self_attn.q_proj
    update = (2.0 * layer.lora_B["default"].weight @ layer.lora_A["default"].weight).detach()
    trainer = SimpleNamespace(
        args=SimpleNamespace(output_dir=str(place / "merged")),
        save_model=lambda _place: None,
        model=model,
        accelerator=SimpleNamespace(unwrap_model=lambda one: one),
        is_world_process_zero=lambda: True,
    )
    train_decoder.save(trainer, data, tokenizer)
    before = base.state_dict()
    after = transformers.AutoModelForCausalLM.from_pretrained(place / "merged", dtype="auto").state_dict()
    changed, kept = "model.layers.0.self_attn.q_proj.weight", "model.embed_tokens.weight"
    error = (after[changed] - before[changed] - update).norm() / update.norm()
    return {"kept": float((after[kept] - before[kept]).abs().max()), "error": float(error)}


def main() -> None:
    transformers.utils.logging.set_verbosity_error()
    folder = Path(sys.argv[1])
    made = tokenizers()
    found: dict[str, Any] = {"tokens": {name: differing(one) for name, one in made.items()}}
    found["merged"] = merging(folder / "lora", made["plain"])
    long = " ".join(TEXTS * 8)
    plain = Decoder(folder / "texts", made["plain"], "texts")
    found["of texts"] = plain.ask(["heap", long, "", TEXTS[0]])
    found["alone"] = plain.ask(["heap"])
    found["its end"] = plain.ask([made["plain"].decode(made["plain"](long)["input_ids"][-24:])])
    found["past its positions"] = plain.ask(["heap", long], sequence_length=30)
    found["as a chat"] = plain.ask(["heap"], chat_template=True)
    found["no room"] = plain.ask(["heap"], new_tokens=32)
    chats = Decoder(folder / "chats", made["plain"])
    found["of chats"] = chats.ask(["heap", long])
    found["messages"] = chats.ask([[{"role": "user", "content": "heap"}], "heap"], "messages")
    found["chats as texts"] = chats.ask(["heap"], chat_template=False)
    made["plain"].chat_template = None
    found["no template"] = Decoder(folder / "none", made["plain"]).ask(["heap"], chat_template=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
