"""Multiply in bf16 and in int8 with torch, and print the results' errors as the last line, in JSON."""

import json

import torch

M, K, N = 64, 128, 64
torch.manual_seed(0)
a, b = torch.randn(M, K).bfloat16(), torch.randn(K, N).bfloat16()
bf16 = (a @ b).double() - a.double() @ b.double()

# As quantized linear layers do it: activations of 8 bits without sign and with a zero point, weights with a sign.
zero_point = 128
activations = torch.randint(0, 256, (M, K), dtype=torch.uint8)
weights = torch.randint(-128, 128, (N, K), dtype=torch.int8)
packed = torch.ops.onednn.qlinear_prepack(weights, [M, K])
scales, zeros = torch.ones(N), torch.zeros(N, dtype=torch.int64)
quantized = torch.ops.onednn.qlinear_pointwise(
    activations, 1.0, zero_point, packed, scales, zeros, None, 1.0, 0, torch.float32, "none", [], ""
)
int8 = quantized.long() - (activations.long() - zero_point) @ weights.long().T
print(json.dumps({"bf16": bf16.abs().max().item(), "int8": int8.abs().max().item()}))
