"""Models that train each other, with an optimizer each, as in a GAN: two that all ranks share, one of each rank."""

import json
from pathlib import Path

import torch
from torch import distributed, nn


def main() -> None:
    distributed.init_process_group("gloo")
    torch.manual_seed(distributed.get_rank())  # each rank has other data
    generator = nn.parallel.DistributedDataParallel(nn.Linear(4, 8))
    shared = nn.parallel.DistributedDataParallel(nn.Linear(8, 1))
    critic = nn.Linear(8, 1)  # this rank's own
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.01) for model in (generator, shared, critic)]
    steps = 0
    for _step in range(20):
        made = generator(torch.randn(4, 4))
        for judge, optimizer in ((shared, optimizers[1]), (critic, optimizers[2])):
            loss = judge(made.detach()).mean() - judge(torch.randn(4, 8)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        optimizers[0].zero_grad()
        (-critic(made).mean()).backward()
        optimizers[0].step()
        steps += 1
    if distributed.get_rank() == 0:
        Path("output").mkdir()
        Path("output/all_results.json").write_text(json.dumps({"steps": steps}))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
