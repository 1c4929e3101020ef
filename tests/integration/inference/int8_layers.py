"""Compare int8 layers with those that they were made of; PYTHONPATH has the inference modules."""

from __future__ import annotations

import copy
from typing import Any

import torch
from amx_cluster.inference import int8
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


def alone(model: nn.Module, values: Any, static: bool) -> None:
    """Print `right` where each row of a batch has the outputs that it has without the others.

    To the last bit; with AMX, whose kernels for other numbers of rows may round otherwise, within 4e-7. The others are
    large, padding, infinite or no numbers; what is not finite has outputs that are none either.
    """
    quantized = copy.deepcopy(model)
    int8.quantize(quantized, *((quantized, [values.float()]) if static else ()))
    others = [values[:1] * scale for scale in (600.0, 0.0, 1e-30)]
    worst = [values[:1].clone() for _ in range(3)]
    for other, number in zip(worst, (float("inf"), float("-inf"), float("nan"))):
        other.flatten()[0] = number
    with torch.inference_mode():
        found = quantized(torch.cat([values, *others, *worst]))
        off = [(found[row : row + 1] - quantized(values[row : row + 1])).abs().max() for row in range(len(values))]
        same = max(off) <= (4e-7 if torch.cpu._is_amx_tile_supported() else 0)
        ends = [bool(row.isfinite().all()) for row in found]
    count = len(values) + len(others)
    print("right" if same and ends == [True] * count + [False] * len(worst) else (same, ends))


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
    # An expert of a mixture may get no token; zeros are no range.
    with torch.inference_mode():
        int8.quantize(linear)
        print("right" if linear(torch.zeros(0, 64)).shape == (0, 16) else "no tokens")
    for kind in (torch.float32, torch.bfloat16):
        for static in (False, True):
            torch.manual_seed(1)
            alone(nn.Sequential(nn.Linear(64, 48)).eval(), torch.randn(7, 5, 64).to(kind), static)
    alone(pictures, torch.randn(3, 3, 16, 16), static=True)
    # A host without VNNI has half the levels.
    vars(int8)["levels"] = lambda: 127
    compare(nn.Sequential(nn.Linear(64, 48)).eval(), texts, static=False)
    alone(nn.Sequential(nn.Linear(64, 48)).eval(), texts, static=False)
