"""Train a small BERT by the Trainer, unchanged, and print what this rank has."""

import json

import torch
import torch.distributed as dist
from transformers import BertConfig, BertForSequenceClassification, HfArgumentParser, Trainer, TrainingArguments


class Rows(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        words = torch.randint(5, 100, (16,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": (words[0] > 50).long()}


(training,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
torch.manual_seed(0)
config = BertConfig(vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128)
trainer = Trainer(model=BertForSequenceClassification(config), args=training, train_dataset=Rows())
trainer.train()
weights = sum(float(parameter.detach().double().abs().sum()) for parameter in trainer.model.parameters())
kinds = {"backend": dist.get_backend(), "wrapped": type(trainer.model_wrapped).__name__}
kinds["ipex"] = sum("intel_extension" in type(module).__module__ for module in trainer.model_wrapped.modules())

# What has trained is what computes: a plain model with the same weights has the same outputs.
trained = {name: value.float() for name, value in trainer.model.state_dict().items()}
plain = BertForSequenceClassification(config)
plain.load_state_dict(trained)
batch = torch.utils.data.default_collate([Rows()[index] for index in range(16)])
with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=training.bf16):
    outputs = [model.eval()(**batch).logits.float() for model in (trainer.model, plain)]
kinds["apart"] = float((outputs[0] - outputs[1]).abs().max())
print(json.dumps({"rank": dist.get_rank(), "weights": weights, **kinds}), flush=True)
