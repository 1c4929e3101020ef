"""A rank of test_ipex.py, run by the Python of the stack: trains a small BERT with stock PyTorch, then with IPEX.

Prints, as one line of JSON for each of ENGINES, what it saw: the losses, the time, a digest of the weights at the end.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from transformers import BertConfig, BertForSequenceClassification

STEPS, WARMUP = 40, 5
# IPEX last: its import alone replaces operators of torch.
ENGINES = ("torch bf16", "torch fp32", "ipex bf16", "ipex fp32")


def train(engine: str) -> dict[str, object]:
    """Train the same model on this rank's own samples, whose label follows from their first token.

    IPEX packs weights of bf16 on CPUs with AVX-512 or AVX-NE-CONVERT only, and refuses to elsewhere.
    """
    dtype = torch.bfloat16 if engine.endswith("bf16") else torch.float32
    found: dict[str, object] = {}
    torch.manual_seed(0)
    size = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
    config = BertConfig(
        **size, vocab_size=64, max_position_embeddings=32, num_labels=4, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    tokens = torch.randint(64, (64, 16), generator=torch.Generator().manual_seed(1 + dist.get_rank()))
    labels = tokens[:, 0] % 4
    model.train()
    if engine.startswith("ipex"):
        import intel_extension_for_pytorch as ipex

        packs = dtype == torch.float32 or ipex._C.onednn_has_bf16_support()
        found.update(ipex=ipex.__version__, packs=packs)
        model, optimizer = ipex.optimize(model, optimizer=optimizer, dtype=dtype, weights_prepack=packs)
    weight = model.bert.encoder.layer[0].intermediate.dense.weight
    ranks = DistributedDataParallel(model)
    losses, started = [], 0.0
    for step in range(STEPS):
        if step == WARMUP:
            dist.barrier()
            started = time.monotonic()
        optimizer.zero_grad()
        with torch.amp.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            loss = ranks(input_ids=tokens, labels=labels).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    seconds = time.monotonic() - started
    weights = b"".join(one.detach().float().numpy().tobytes() for one in model.parameters())
    return {
        "engine": engine,
        "rank": dist.get_rank(),
        "torch": torch.__version__,
        **found,
        "weights": str(weight.dtype),
        "ms_per_step": round(1000 * seconds / (STEPS - WARMUP), 1),
        "first": losses[0],
        "last": losses[-1],
        "digest": hashlib.sha256(weights).hexdigest()[:16],
    }


def main() -> None:
    dist.init_process_group("gloo")
    for engine in ENGINES:
        # One write a line: both ranks share the output.
        sys.stdout.write(json.dumps(train(engine)) + "\n")
        sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
