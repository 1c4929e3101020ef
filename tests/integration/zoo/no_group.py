"""A script of one's own that was never made for several ranks: each trains a model of its own."""

import torch
from torch import nn

model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _step in range(10):
    model(torch.randn(4, 8)).mean().backward()
    optimizer.step()
