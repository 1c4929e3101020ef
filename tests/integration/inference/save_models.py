"""Write the small models with tokenizers of answers.py: save_models.py DIRECTORY"""

from __future__ import annotations

import sys
from pathlib import Path

import transformers
from answers import save

if __name__ == "__main__":
    place = Path(sys.argv[1])
    save(place, "distilbert", transformers.AutoModelForSequenceClassification)
    save(place, "bert-base", transformers.AutoModelForQuestionAnswering)
    save(place, "llama-1b", transformers.AutoModelForCausalLM)
