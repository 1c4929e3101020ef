"""Compare embeddings and scores of small models with those of sentence-transformers: sentences.py DIRECTORY [MODEL ...]

Prints {model: the largest difference}; each MODEL is a directory of one more. PYTHONPATH has the inference modules and
sentence-transformers.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from amx_cluster.inference.instance import Instance
from amx_cluster.inference.tasks import Tokens
from ansible_collections.amx.cluster.plugins.module_utils._data.rows import Record
from ansible_collections.amx.cluster.plugins.module_utils._data.sentence_models import POOLINGS
from answers import WORDS
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.base.modules import Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling

TEXTS = [
    "the cat sat",
    "",
    " ",
    *(" ".join(WORDS[(at + n) % 20] for n in range(at)) for at in range(3, 60, 5)),
    "CAT 🙂",
]
QUERIES = ["where is the cat ?", "", "who ran " * 30]
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
SMALL: dict[str, dict[str, Any]] = {
    "bert": SIZES,
    "roberta": {**SIZES, "max_position_embeddings": 66, "type_vocab_size": 1},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64},
    "mpnet": SIZES,
    "albert": {**SIZES, "embedding_size": 16},
    "deberta-v2": {**SIZES, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "modernbert": {**SIZES, "global_attn_every_n_layers": 2},
    "qwen3": {**SIZES, "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 512},
    "fnet": SIZES,
}
SHORT = 24


def plain(place: Path, kind: str, automatic: Any, **more: Any) -> Path:
    """Write a small model without files of sentence-transformers, with a tokenizer of WORDS."""
    ends = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
    config = transformers.AutoConfig.for_model(kind, vocab_size=len(WORDS) + 5, **SMALL[kind], **ends, **more)
    torch.manual_seed(1)
    model = automatic.from_config(config)
    for parameter in model.parameters():
        parameter.data.mul_(2)  # random weights of the usual size hardly tell two texts apart
    model.save_pretrained(place)
    vocabulary = place / "words.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]) + "\n")
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if getattr(config, "type_vocab_size", 0) > 1 else [])]
    tokenizer = transformers.BertTokenizerFast(vocab=str(vocabulary), model_max_length=64, model_input_names=names)
    tokenizer.save_pretrained(place)
    return place


def asked(path: Path, task: str, columns: list[str], rows: list[Any], **cell: Any) -> list[Any]:
    """Return what is predicted of each row, alone and in batches, which must agree."""
    length = cell.pop("sequence_length", 64)
    made = {"model": path.name, "task": task, "path": str(path), "precision": "fp32", "engine": "eager"}
    one = Instance({**made, "batch_size": 7, "sequence_length": length, "emulation": True, **cell}, columns, 1, [])
    records = [Record(number, dict(zip(columns, row))) for number, row in enumerate(rows)]
    _good, together, broken = one.predict(records, lambda _done: None)
    assert not broken, broken
    alone = [one.predict([record], lambda _done: None)[1][0] for record in records[:12]]
    values = [torch.tensor([next(iter(row.values())) for row in part]) for part in (together, alone)]
    close(values[0][:12], values[1], 2e-6 if made["precision"] == cell.get("precision", "fp32") else 0.05)
    if task == "feature-extraction":
        prompt = one.loaded.sentences["prompt"]
        tokens = [Tokens(one.loaded.tokenizer(prompt + text)["input_ids"]) for (text,) in rows[:4]]
        _good, by_tokens, _broken = one.predict(
            [Record(n, {"text": ids}) for n, ids in enumerate(tokens)], lambda _: None
        )
        close(torch.tensor([row["predicted_embedding"] for row in by_tokens]), values[0][:4], 0.05)
    return values[0].tolist()


def close(values: Any, expected: Any, most: float = 2e-6) -> float:
    values, expected = (torch.as_tensor(np.array(one), dtype=torch.float64) for one in (values, expected))
    largest = float((values - expected).abs().max() / max(1.0, float(expected.abs().max())))
    assert values.shape == expected.shape and largest <= most, (values.shape, expected.shape, largest)
    return largest


def embeddings(path: Path, most: float = 2e-6, **cell: Any) -> float:
    dtype = torch.bfloat16 if cell.get("precision") == "bf16" else torch.float32
    reference = SentenceTransformer(str(path), local_files_only=True, model_kwargs={"dtype": dtype})
    # Its own side of padding changes the vectors of a model with absolute positions: one text after the other.
    expected = [reference.encode([text])[0] for text in TEXTS]
    got = asked(path, "feature-extraction", ["text"], [(text,) for text in TEXTS], **cell)
    similar = torch.nn.functional.cosine_similarity(torch.tensor(got), torch.tensor(np.array(expected)).float())
    assert float(similar.min()) > 1 - 50 * most
    return close(got, expected, most)


def scores(path: Path, most: float = 2e-6, **cell: Any) -> float:
    pairs = [(query, text) for query in QUERIES for text in TEXTS[::2]]
    expected = CrossEncoder(str(path), local_files_only=True).predict(pairs)
    return close(asked(path, "text-ranking", ["query", "document"], pairs, **cell), expected, most)


def main() -> None:
    directory, found = Path(sys.argv[1]), {}
    for kind in SMALL:
        path = plain(directory / kind, kind, transformers.AutoModel)
        modes = "lasttoken" if kind == "qwen3" else "mean"
        if kind == "qwen3":  # as its embedding models are: a decoder, with the last token's vector
            encoder = Transformer(str(path))
            encoder.processor.padding_side = "left"
            SentenceTransformer(modules=[encoder, Pooling(32, modes), Normalize()]).save_pretrained(str(path))
        found[kind] = embeddings(path)
    for mode in (*POOLINGS.values(), ("mean", "cls")):
        modules = [Transformer(str(directory / "bert"), max_seq_length=SHORT), Pooling(32, mode), Normalize()]
        path = directory / f"bert {mode}"
        prompts = {"prompts": {"query": "cat cat"}, "default_prompt_name": "query"}
        SentenceTransformer(modules=modules, **prompts).save_pretrained(str(path))
        found[path.name] = embeddings(path, sequence_length=SHORT)
    shutil.copytree(path, directory / "left")
    tokenizer = json.loads((path / "tokenizer_config.json").read_text())
    (directory / "left/tokenizer_config.json").write_text(json.dumps({**tokenizer, "padding_side": "left"}))
    found["left"] = embeddings(directory / "left", sequence_length=SHORT)
    plain(directory / "masked", "mpnet", transformers.AutoModelForMaskedLM)
    found["without a pooler"] = embeddings(directory / "masked")
    for engine in ({"precision": "bf16"}, {"engine": "trace"}):
        found[str(engine)] = embeddings(directory / "roberta", 0.03 if "precision" in engine else 2e-6, **engine)
    for kind in ("bert", "roberta", "distilbert", "deberta-v2"):
        path = plain(directory / f"ranking {kind}", kind, transformers.AutoModelForSequenceClassification, num_labels=1)
        found[path.name] = scores(path)
    for activation in (torch.nn.Identity(), torch.nn.Sigmoid()):
        saved = directory / type(activation).__name__
        CrossEncoder(str(path), activation_fn=activation, max_length=SHORT).save_pretrained(str(saved))
        found[saved.name] = scores(saved, sequence_length=SHORT)
    for path in map(Path, sys.argv[2:]):
        found[path.name] = embeddings(path, 1e-6, sequence_length=256)
        found[f"{path.name} in bf16"] = embeddings(path, 0.005, sequence_length=256, precision="bf16")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
