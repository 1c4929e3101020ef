"""Write the small models with tokenizers of answers.py: save_models.py DIRECTORY NAME ..."""

from __future__ import annotations

import sys
from pathlib import Path

import transformers
from answers import save

KINDS = {
    "distilbert": transformers.AutoModelForSequenceClassification,
    "bert-base": transformers.AutoModelForQuestionAnswering,
    "llama-1b": transformers.AutoModelForCausalLM,
}

if __name__ == "__main__":
    for name in sys.argv[2:]:
        save(Path(sys.argv[1]), name, KINDS[name])
