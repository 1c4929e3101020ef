"""Print for models of transformers whether their loss ignores num_items_in_batch, and whether loss_weight says so.

    loss_families.py RUNTIME

A line for each class: its name and the two answers in JSON, or why it has none.
"""

import json
import sys
from typing import Any

import torch
import transformers

SIZE = {
    "vocab_size": 50,
    "hidden_size": 16,
    "dim": 16,
    "embedding_size": 16,
    "num_hidden_layers": 1,
    "n_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "n_heads": 2,
    "intermediate_size": 16,
    "hidden_dim": 16,
    "d_model": 16,
    "d_ff": 16,
    "d_kv": 8,
    "num_layers": 1,
    "num_heads": 2,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "num_decoder_layers": 1,
    "n_embd": 16,
    "n_layer": 1,
    "n_head": 2,
    "max_position_embeddings": 64,
    "max_window_layers": 1,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "dropout": 0.0,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
FAMILIES = (
    *(
        "Albert",
        "Bart",
        "Bert",
        "Camembert",
        "DebertaV2",
        "DistilBert",
        "Electra",
        "GPT2",
        "GPTNeoX",
        "Gemma2",
        "Llama",
    ),
    *("Mistral", "ModernBert", "MPNet", "OPT", "Phi3", "Qwen2", "Qwen3", "Roberta", "T5", "XLMRoberta", "XLNet"),
)
ENDINGS = ("ForSequenceClassification", "ForTokenClassification", "ForMaskedLM", "ForCausalLM", "ForMultipleChoice")
MORE = ("GPT2LMHeadModel", "T5ForConditionalGeneration", "BartForConditionalGeneration")


def loss(model: Any, ids: torch.Tensor, labels: torch.Tensor, **words: Any) -> float:
    with torch.no_grad():
        return float(model(input_ids=ids, labels=labels, **words).loss)


def answers(name: str) -> tuple[bool, bool]:
    """Return whether a class ignores the items that it is given, and what loss_weight says."""
    from amx_cluster.observer import loss_weight

    kind = getattr(transformers, name)
    names = set(kind.config_class().to_dict()) | set(kind.config_class.attribute_map)
    config = kind.config_class(**{key: value for key, value in SIZE.items() if key in names})
    config.decoder_start_token_id = 1
    model = kind(config).eval()
    torch.manual_seed(0)
    shape = (2, 3, 6) if name.endswith("MultipleChoice") else (2, 6)
    ids = torch.randint(3, 50, shape)
    ids[..., -1] = 2
    labels = torch.tensor([0, 1]) if name.endswith(("SequenceClassification", "MultipleChoice")) else ids % 2
    plain, given = (loss(model, ids, labels, **words) for words in ({}, {"num_items_in_batch": 1000}))
    return plain == given, loss_weight.is_mean(kind)


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    transformers.logging.set_verbosity_error()
    for name in [family + ending for family in FAMILIES for ending in ENDINGS] + list(MORE):
        if not hasattr(transformers, name):
            continue
        try:
            made: tuple[Any, ...] = answers(name)
        except Exception as error:  # it takes no such argument, and the Trainer gives it none; or wants other rows
            made = (str(error),)
        print(json.dumps([name, *made]), flush=True)


if __name__ == "__main__":
    main()
