"""What is true of prepared data and trained decoders, asked with the Python of the stack: judge.py QUESTION [ARGUMENT]

packing: prints {model type: the greatest difference between the logits of texts in a row and of each alone}, of
models with random weights. answers: prints {how: the likeliest next 8 tokens} of the model in ARGUMENT before, the
merged one, and the one before with the adapter. refusals: prints what prepare_decoder.py says to each of the command
lines in ARGUMENT.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "jobs/scripts"))

from prepare_decoder import PACKS, main
from train_decoder import Collator

SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def packing() -> dict[str, float]:
    found = {}
    for kind in PACKS:
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, use_cache=False, **SMALL)).eval()
        texts = [torch.randint(3, 64, (length,)).tolist() for length in (7, 12, 5, 9)]
        rows = [texts[:2], texts[2:]]
        batch = Collator(0, packing=True)(
            [
                {
                    "input_ids": [token for text in row for token in text],
                    "labels": [],
                    "lengths": [len(text) for text in row],
                }
                for row in rows
            ]
        )
        del batch["labels"]
        with torch.no_grad():
            together = model(**batch).logits
            apart = [[model(input_ids=torch.tensor([text])).logits[0] for text in row] for row in rows]
        worst = 0.0
        for row, alone in zip(together, apart):
            joined = torch.cat(alone)
            worst = max(worst, float((row[: len(joined)] - joined).abs().max()))
        found[kind] = worst
    return found


def answers(folder: str) -> dict[str, list[list[int]]]:
    from peft import PeftModel

    place = Path(folder)
    before = AutoModelForCausalLM.from_pretrained(place / "models/decoder", dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(place / "models/decoder")
    asked = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": f"What is {name} for?"}], add_generation_prompt=True
        )["input_ids"]
        for name in ("csv.reader", "shutil.copyfile", "calendar.monthrange")
    ]

    def said(model: torch.nn.Module) -> list[list[int]]:
        model.eval()
        return [
            model.generate(input_ids=torch.tensor([ids]), max_new_tokens=8, do_sample=False)[0][len(ids) :].tolist()
            for ids in asked
        ]

    found = {"before": said(before)}
    merged = AutoModelForCausalLM.from_pretrained(place / "output", dtype=torch.float32)
    found["merged"] = said(merged)
    if (place / "output/adapter").is_dir():
        found["adapter"] = said(PeftModel.from_pretrained(before, place / "output/adapter"))
    return found


def refusals(given: str) -> list[tuple[int, str]]:
    found = []
    for arguments in json.loads(given):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            code = main(arguments)
        found.append((code, said.getvalue().strip()))
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    questions: dict[str, Callable[..., Any]] = {"packing": packing, "answers": answers, "refusals": refusals}
    ask = questions[sys.argv[1]]
    print(json.dumps(ask(*sys.argv[2:])))
