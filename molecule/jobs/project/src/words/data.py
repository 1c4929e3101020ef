"""Examples of words: each is long or short."""

from __future__ import annotations

import torch


def examples(vocabulary: list[str], rank: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a rank's share of the vocabulary, one-hot, and whether each word is long."""
    mine = torch.arange(rank, len(vocabulary), size)
    labels = torch.tensor([int(len(vocabulary[place]) > 5) for place in mine])
    return torch.nn.functional.one_hot(mine, len(vocabulary)).float(), labels
