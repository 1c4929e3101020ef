"""Write what the scripts beside this one train on, with random weights: small.py DIRECTORY

llama/, a decoder with a chat template; encoder/, a BERT. Both have a tokenizer of WORDS.
"""

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ["<pad>", "<end>", "<user>", "<assistant>", "<unknown>"]
WORDS = [f"w{number}" for number in range(40)]
TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}> {{ message.content }} <end> {% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)
SIZE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}


def main(directory: Path) -> None:
    names = {word: number for number, word in enumerate([*SPECIAL, *WORDS])}
    words = Tokenizer(models.WordLevel(names, unk_token="<unknown>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    ends = {"pad_token": "<pad>", "eos_token": "<end>", "unk_token": "<unknown>"}
    common = {"vocab_size": len(names), "max_position_embeddings": 64, "pad_token_id": 0, "eos_token_id": 1, **SIZE}
    torch.manual_seed(1)
    encoder = BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **common)
    for name, model in (("llama", LlamaForCausalLM(LlamaConfig(**common))), ("encoder", BertModel(encoder))):
        model.save_pretrained(directory / name)
        PreTrainedTokenizerFast(
            tokenizer_object=words, chat_template=TEMPLATE, model_max_length=64, **ends
        ).save_pretrained(directory / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
