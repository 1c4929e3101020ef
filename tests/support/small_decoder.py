"""Make a small decoder that knows some English, and a file of instructions for it: small_decoder.py DIRECTORY

DIRECTORY gets model/ (a Llama of 1.2 million weights that has read the docstrings of Python's standard library, with a
tokenizer and a chat template of its own) and own/train.jsonl: what functions are for, as their docstrings begin. Runs
with the Python of the stack native. Takes about 40 s on one core.

`small_decoder.py DIRECTORY NAME=NUMBER ...` makes one with these values in its configuration, and without weights.
"""

from __future__ import annotations

import ast
import json
import sys
import sysconfig
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
LENGTH, BATCH, STEPS = 128, 16, 150


def sentences(library: Path) -> dict[str, str]:
    """Return {name of a function or class: the first sentence of its docstring}."""
    by_text: dict[str, str] = {}
    for path in sorted(library.glob("*.py")):
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and (text := ast.get_docstring(node)):
                sentence = " ".join(text.split("\n\n")[0].split())
                if 20 <= len(sentence) <= 200 and not node.name.startswith("_"):
                    by_text.setdefault(f"{path.stem}.{node.name}", sentence)
    return by_text


def tokenizer_of(texts: list[str]) -> PreTrainedTokenizerFast:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=2000, special_tokens=SPECIAL, initial_alphabet=alphabet)
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<|pad|>", eos_token="<|end|>", model_max_length=512, chat_template=TEMPLATE
    )


def make(directory: Path, **sizes: int) -> None:
    """Make the decoder and its instructions. sizes: values of its configuration, with which it has no weights."""
    by_text = sentences(Path(sysconfig.get_path("stdlib")))
    texts = list(by_text.values())
    tokenizer = tokenizer_of(texts)
    torch.manual_seed(0)
    small = {"hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 4, "num_attention_heads": 4}
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        architectures=["LlamaForCausalLM"],
        **{**small, **sizes},
    )
    tokenizer.save_pretrained(directory / "model")
    if sizes:
        config.save_pretrained(directory / "model")
    else:
        trained(config, tokenizer, texts).save_pretrained(directory / "model")
    (directory / "own").mkdir()
    with (directory / "own/train.jsonl").open("w", encoding="utf-8") as file:
        for name, sentence in by_text.items():
            file.write(json.dumps({"instruction": f"What is {name} for?", "output": sentence}) + "\n")


def trained(config: LlamaConfig, tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> LlamaForCausalLM:
    model = LlamaForCausalLM(config)
    stream = torch.tensor(
        [token for text in texts for token in [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]]
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _step in range(STEPS):
        starts = torch.randint(len(stream) - LENGTH, (BATCH,))
        rows = torch.stack([stream[start : start + LENGTH] for start in starts])
        loss = model(input_ids=rows, labels=rows).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"{len(texts)} sentences, {len(stream)} tokens, {model.num_parameters()} weights, loss {loss.item():.2f}")
    return model


if __name__ == "__main__":
    make(Path(sys.argv[1]), **{name: int(value) for name, value in (word.split("=") for word in sys.argv[2:])})
