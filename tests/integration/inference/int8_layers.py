"""Compare int8 layers with those that they were made of; PYTHONPATH has the inference modules."""

from __future__ import annotations

import copy
from typing import Any

import int8
import torch
from torch import nn


def compare(model: nn.Module, values: Any, static: bool) -> None:
    """Print `right` where outputs differ by at most 5 % of their standard deviation, else by how much."""
    with torch.inference_mode():
        expected = model(values.float())
        quantized = copy.deepcopy(model)
        int8.quantize(quantized, *((quantized, [values.float()]) if static else ()))
        assert isinstance(quantized[0], int8.Quantized)
        found = quantized(values)
    assert found.dtype == values.dtype
    largest = float((found.float() - expected).abs().max() / expected.std())
    print("right" if largest < 0.05 else largest)


if __name__ == "__main__":
    torch.manual_seed(1)
    linear = nn.Sequential(nn.Linear(64, 48), nn.GELU(), nn.Linear(48, 16, bias=False)).eval()
    texts = torch.randn(3, 5, 64)
    compare(linear, texts, static=False)
    compare(linear, texts, static=True)
    compare(linear, texts.bfloat16(), static=False)
    pictures = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.Flatten()).eval()
    compare(pictures, torch.randn(2, 3, 16, 16), static=True)
    # Inputs that are all above zero: the zero point is 0.
    compare(linear, texts.abs() + 1, static=False)
    # A convolution that saw nothing while it was calibrated is left as it is; the layer after it saw its bias.
    unseen = nn.Sequential(*pictures, nn.Linear(16 * 8 * 8, 4))
    int8.quantize(unseen, unseen, [torch.zeros(2, 3, 16, 16)])
    print("right" if type(unseen[0]) is nn.Conv2d and isinstance(unseen[3], int8.Linear) else unseen)
