"""Training scripts as people write them, small: each yields the loss of every step.

Sizes are above those from which the parts act. What has dropout says so: its masks differ from PyTorch's by design.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

STEPS = 20
BATCH, LENGTH, SIZE, HEADS = 8, 64, 32, 4
Losses = Iterator[Any]
SCRIPTS: dict[str, Script] = {}


class Script:
    """near: the relative difference of losses that rounding may make; 0 where it is that of the type.

    finite: the steps whose losses are no NaN, or one more.
    """

    def __init__(
        self, run: Callable[[], Losses], dropout: bool, precision: str, near: float, finite: int = STEPS
    ) -> None:
        self.run, self.dropout, self.precision, self.finite = run, dropout, precision, finite
        self.near = near or {"float32": 2e-4, "bfloat16": 2e-2, "float64": 1e-9, "float16": 5e-3}[precision]


def script(dropout: bool = False, precision: str = "float32", near: float = 0, finite: int = STEPS) -> Any:
    def keep(run: Callable[[], Losses]) -> Callable[[], Losses]:
        SCRIPTS[run.__name__] = Script(run, dropout, precision, near, finite)
        return run

    return keep


def numbers(*shape: int, seed: int = 0) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def tokens(seed: int, batch: int = BATCH, length: int = LENGTH, most: int = 64) -> Any:
    return torch.randint(0, most, (batch, length), generator=torch.Generator().manual_seed(seed))


class Attention(nn.Module):
    """kind: how query, key and value come about."""

    def __init__(self, dropout: float = 0.0, kind: str = "packed", size: int = SIZE, causal: bool = False) -> None:
        super().__init__()
        self.dropout, self.kind, self.causal = dropout, kind, causal
        self.qkv = nn.Linear(size, size if kind == "keys are queries" else 3 * size)
        self.out = nn.Linear(size, size)

    def forward(self, x: Any, mask: Any = None) -> Any:
        batch, length, size = x.shape
        found = self.qkv(x).view(batch, length, -1, HEADS, size // HEADS).permute(2, 0, 3, 1, 4)
        query, key, value = found if len(found) == 3 else (found[0].contiguous(),) * 3
        if self.kind == "input itself":
            query = key = value = x.view(batch, length, HEADS, -1).transpose(1, 2).contiguous()
        words = {"dropout_p": self.dropout if self.training else 0.0, "is_causal": self.causal}
        seen = F.scaled_dot_product_attention(query, key, value, mask, **words)
        return self.out(seen.transpose(1, 2).reshape(batch, length, size))


class Model(nn.Module):
    def __init__(self, dropout: float = 0.0, kind: str = "packed", layers: int = 2, out: int = SIZE, **words: Any):
        super().__init__()
        self.attentions = nn.ModuleList(Attention(dropout, kind, **words) for _layer in range(layers))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(SIZE), nn.Linear(SIZE, 64), nn.GELU(), nn.Linear(64, SIZE), nn.Dropout(dropout))
            for _layer in range(layers)
        )
        self.norm, self.head = nn.LayerNorm(SIZE), nn.Linear(SIZE, out)

    def forward(self, x: Any, mask: Any = None) -> Any:
        for attention, mlp in zip(self.attentions, self.mlps):
            x = x + attention(x, mask)
            x = x + mlp(x)
        return self.head(self.norm(x))


def given(step: int) -> Any:
    return numbers(BATCH, LENGTH, SIZE, seed=step % 4)


def loss_of(model: Any, step: int = 0) -> Any:
    x = given(step)
    return F.mse_loss(model(x).float(), x.roll(1, 1))


def adam(model: Any, rate: float = 3e-3, **words: Any) -> Any:
    return torch.optim.AdamW(model.parameters() if isinstance(model, nn.Module) else model, lr=rate, **words)


def train(model: Any, optimizer: Any = None, loss: Any = loss_of, before: Any = None, after: Any = None) -> Losses:
    optimizer = optimizer or adam(model)
    for step in range(STEPS):
        optimizer.zero_grad()
        value = loss(model, step)
        value.backward()
        if before:
            before(step)
        optimizer.step()
        if after:
            after(step)
        yield value


def group() -> Any:
    """Return torch.distributed with one rank."""
    import torch.distributed as dist

    if not dist.is_initialized():
        dist.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
    return dist


def cnn() -> Any:
    layers = [nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 3), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(8 * 12 * 12, 10))


def of_images(model: Any, step: int) -> Any:
    return F.cross_entropy(model(numbers(16, 3, 16, 16, seed=step % 4)), torch.arange(16) % 10)


@script()
def channels_last_cnn_with_flat_all_reduce() -> Losses:
    model = cnn().to(memory_format=torch.channels_last)

    def average(_step: int) -> None:
        params = list(model.parameters())
        flat, at = torch.cat([each.grad.reshape(-1) for each in params]), 0
        group().all_reduce(flat)
        for each in params:
            each.grad = flat[at : at + each.numel()].view(each.shape)
            at += each.numel()

    return train(model, None, of_images, before=average)


@script()
def channels_last_cnn() -> Losses:
    return train(cnn().to(memory_format=torch.channels_last), loss=of_images)


@script()
def transposed_weights_with_gradients_by_grad() -> Losses:
    weights = [nn.Parameter(numbers(SIZE, 48, seed=1).t() / 8), nn.Parameter(numbers(48, SIZE, seed=2).t() / 8)]
    optimizer, x = adam(weights), given(0)
    for _step in range(STEPS):
        loss = (x @ weights[1] @ weights[0] - x).square().mean() + weights[0].sum() * 1e-3
        for each, grad in zip(weights, torch.autograd.grad(loss, weights)):
            each.grad = grad.contiguous()
        optimizer.step()
        yield loss


@script()
def parameters_of_one_buffer() -> Losses:
    whole = numbers(SIZE, 2 * SIZE) / 6
    first, second = (nn.Parameter(each) for each in whole.chunk(2, 1))
    return train([first, second], adam([first, second]), lambda _m, at: (given(at) @ first @ second).square().mean())


@script()
def gradients_that_are_expanded() -> Losses:
    bias = nn.Parameter(numbers(LENGTH, SIZE))
    optimizer = torch.optim.Adam([bias], 0.05)
    for step in range(STEPS):
        loss = (given(step) + bias).mean((0, 1)).square().sum() + bias.sum()
        bias.grad = torch.autograd.grad(bias.sum(), bias)[0] + 0 * bias.detach() if step % 2 else None
        bias.grad = torch.autograd.grad(bias.sum(), bias)[0] if bias.grad is None else bias.grad
        optimizer.step()
        yield loss


def gan(penalty: Callable[[Any, Any], Any], critic: Any, wasserstein: bool) -> Losses:
    maker = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, SIZE))
    ours, theirs = adam(maker, 1e-3, betas=(0.5, 0.9)), adam(critic, 1e-3, betas=(0.5, 0.9))
    score = lambda x: critic(x).mean((1, 2))  # noqa: E731
    for step in range(STEPS):
        real, made = given(step), maker(numbers(BATCH, LENGTH, 16, seed=100 + step))
        good, bad = score(real), score(made.detach())
        apart = (bad - good).mean() if wasserstein else (F.softplus(-good) + F.softplus(bad)).mean()
        loss = apart + penalty(score, (real, made.detach()))
        theirs.zero_grad()
        loss.backward()
        theirs.step()
        ours.zero_grad()
        (-score(made)).mean().backward()
        ours.step()
        yield loss


@script(dropout=True)
def gan_with_gradient_penalty() -> Losses:
    def penalty(score: Any, pair: Any) -> Any:
        real = pair[0].clone().requires_grad_()
        grad = torch.autograd.grad(score(real).sum(), real, create_graph=True)[0]
        return 5 * grad.square().sum((1, 2)).mean()

    return gan(penalty, Model(0.1, "input itself"), False)


@script(dropout=True)
def wgan_gp() -> Losses:
    def penalty(score: Any, pair: Any) -> Any:
        share = torch.rand(BATCH, 1, 1, generator=torch.Generator().manual_seed(3))
        between = (share * pair[0] + (1 - share) * pair[1]).requires_grad_()
        grad = torch.autograd.grad(score(between).sum(), between, create_graph=True)[0]
        return 10 * (grad.flatten(1).norm(dim=1) - 1).square().mean()

    return gan(penalty, Model(0.1, "keys are queries"), True)


@script(dropout=True)
def wgan_with_clipped_weights() -> Losses:
    critic = Model(0.1)

    def penalty(_score: Any, _pair: Any) -> Any:
        for each in critic.parameters():
            each.data.clamp_(-0.2, 0.2)
        return 0.0

    return gan(penalty, critic, True)


@script(dropout=True)
def sam() -> Losses:
    model = Model(0.1)
    optimizer = adam(model)
    for step in range(STEPS):
        loss_of(model, step).backward()
        norm = torch.stack([each.grad.norm() for each in model.parameters()]).norm()
        moves = [0.05 * each.grad / norm for each in model.parameters()]
        with torch.no_grad():
            torch._foreach_add_(list(model.parameters()), moves)
        optimizer.zero_grad()
        loss = loss_of(model, step)
        loss.backward()
        with torch.no_grad():
            torch._foreach_sub_(list(model.parameters()), moves)
        optimizer.step()
        optimizer.zero_grad()
        yield loss


@script(dropout=True)
def maml() -> Losses:
    model = Model(0.1, "keys are queries", 1)
    optimizer = adam(model)
    for step in range(STEPS):
        fast = dict(model.named_parameters())
        for task in range(2):
            x = given(step + task)
            loss = F.mse_loss(torch.func.functional_call(model, fast, (x,)), x)
            grads = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
            fast = {name: each - 0.1 * grad for (name, each), grad in zip(fast.items(), grads)}
        x = given(step + 2)
        loss = F.mse_loss(torch.func.functional_call(model, fast, (x,)), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss


@script(dropout=True)
def ema() -> Losses:
    model = Model(0.1)
    kept = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    for loss in train(model, after=lambda _step: kept.update_parameters(model)):
        yield loss + loss_of(kept.eval()).detach()


@script(dropout=True)
def swa() -> Losses:
    model = Model(0.1)
    optimizer = adam(model)
    kept, rate = torch.optim.swa_utils.AveragedModel(model), torch.optim.swa_utils.SWALR(optimizer, 1e-3)

    def after(step: int) -> None:
        if step > 10:
            kept.update_parameters(model)
            rate.step()

    for loss in train(model, optimizer, after=after):
        yield loss + loss_of(kept.eval()).detach()


class Words(nn.Module):
    def __init__(self, dropout: float = 0.1, sparse: bool = False, tied: bool = True) -> None:
        super().__init__()
        self.words, self.model = nn.Embedding(64, SIZE, sparse=sparse), Model(dropout, causal=True, out=64)
        if tied:
            self.model.head.weight = self.words.weight

    def forward(self, given: Any) -> Any:
        return self.model(self.words(given))


def of_words(model: Any, step: int) -> Any:
    found = tokens(step % 4)
    return F.cross_entropy(model(found)[:, :-1].flatten(0, 1), found[:, 1:].flatten())


@script(dropout=True)
def tied_weights() -> Losses:
    return train(Words(), loss=of_words)


@script(dropout=True)
def sparse_gradients_of_an_embedding() -> Losses:
    model = Words(sparse=True, tied=False)
    others = [each for each in model.parameters() if each is not model.words.weight]
    sparse = torch.optim.SparseAdam(model.words.parameters(), 1e-2)
    optimizer = adam(others)
    for loss in train(model, optimizer, of_words, after=lambda _step: sparse.step()):
        yield loss
        sparse.zero_grad()


def checkpointed(reentrant: bool) -> Losses:
    from torch.utils.checkpoint import checkpoint

    model = Model(0.1)

    def loss(_model: Any, step: int) -> Any:
        x = given(step).requires_grad_()
        for attention, mlp in zip(model.attentions, model.mlps):
            layer = lambda x, attention=attention, mlp=mlp: mlp(x + attention(x))  # noqa: E731
            x = x + checkpoint(layer, x, use_reentrant=reentrant)
        return F.mse_loss(model.head(x), given(step))

    return train(model, loss=loss)


@script(dropout=True)
def checkpointing() -> Losses:
    return checkpointed(False)


@script(dropout=True)
def checkpointing_reentrant() -> Losses:
    return checkpointed(True)


@script()
def functional_call_and_grad() -> Losses:
    model = Model()
    optimizer = adam(model)

    def loss(params: Any, x: Any) -> Any:
        return F.mse_loss(torch.func.functional_call(model, params, (x,)), x.roll(1, 1))

    for step in range(STEPS):
        grads, value = torch.func.grad_and_value(loss)(dict(model.named_parameters()), given(step))
        for name, each in model.named_parameters():
            each.grad = grads[name]
        optimizer.step()
        yield value


@script()
def gradients_per_sample_by_vmap() -> Losses:
    model = Model(layers=1)
    optimizer = adam(model)

    def loss(params: Any, x: Any) -> Any:
        return F.mse_loss(torch.func.functional_call(model, params, (x[None],)), x[None].roll(1, 1))

    for step in range(STEPS):
        params = {name: each.detach() for name, each in model.named_parameters()}
        grads, values = torch.func.vmap(torch.func.grad_and_value(loss), (None, 0))(params, given(step))
        for name, each in model.named_parameters():
            norms = grads[name].flatten(1).norm(dim=1).clamp(min=1e-2)
            each.grad = torch.einsum("b...,b->...", grads[name], 1 / norms) / BATCH
        optimizer.step()
        yield values.mean()


@script(dropout=True)
def ddp() -> Losses:
    group()
    return train(nn.parallel.DistributedDataParallel(Model(0.1)))


@script(dropout=True)
def ddp_with_gradients_as_views() -> Losses:
    group()
    return train(nn.parallel.DistributedDataParallel(Model(0.1), gradient_as_bucket_view=True))


@script(dropout=True)
def fsdp() -> Losses:
    group()
    from torch.distributed.fsdp import FullyShardedDataParallel

    cpu = torch.device("cpu")
    model = FullyShardedDataParallel(Model(0.1), device_id=cpu)
    return train(model)


@script(dropout=True)
def fsdp_with_original_parameters() -> Losses:
    group()
    from torch.distributed.fsdp import FullyShardedDataParallel

    return train(FullyShardedDataParallel(Model(0.1), device_id=torch.device("cpu"), use_orig_params=True))


@script(dropout=True)
def fsdp2() -> Losses:
    group()
    from torch.distributed.fsdp import fully_shard

    model = Model(0.1)
    mesh = torch.distributed.init_device_mesh("cpu", (1,))
    return train(fully_shard(model, mesh=mesh))


@script(dropout=True)
def zero_redundancy_optimizer() -> Losses:
    group()
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = nn.parallel.DistributedDataParallel(Model(0.1))
    return train(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=3e-3))


@script(dropout=True)
def groups_of_parameters() -> Losses:
    model = Model(0.1)
    optimizer = torch.optim.Adam([{"params": model.attentions.parameters(), "lr": 1e-3}], lr=3e-3)
    optimizer.add_param_group({"params": list(model.mlps.parameters()), "betas": (0.8, 0.9), "amsgrad": True})
    optimizer.add_param_group({"params": [*model.norm.parameters(), *model.head.parameters()], "maximize": False})
    return train(model, optimizer)


@script(dropout=True)
def decay_excluded() -> Losses:
    model = Model(0.1)
    sides = [[each for each in model.parameters() if (each.dim() > 1) == is_wide] for is_wide in (True, False)]
    return train(model, adam([{"params": sides[0], "weight_decay": 0.1}, {"params": sides[1], "weight_decay": 0.0}]))


@script(dropout=True)
def frozen_parts_thawed_later() -> Losses:
    model = Model(0.1)
    model.attentions[0].requires_grad_(False)
    return train(model, after=lambda step: model.attentions[0].requires_grad_(step > 8))


@script(dropout=True)
def lora_with_peft() -> Losses:
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(llama(), LoraConfig(r=4, lora_dropout=0.1, target_modules=["q_proj", "v_proj"]))
    return train(model, adam([each for each in model.parameters() if each.requires_grad]), of_a_decoder)


@script()
def compiled_with_aot_eager() -> Losses:
    return train(torch.compile(Model(layers=1), backend="aot_eager"))


@script(dropout=True)
def compiled_in_part() -> Losses:
    model = Model(0.1, layers=1)
    model.mlps[0] = torch.compile(model.mlps[0][:-1], backend="aot_eager")
    return train(model)


@script(dropout=True)
def quantisation_aware() -> Losses:
    from torch.ao.quantization import FakeQuantize

    model, fake = Model(0.1), FakeQuantize()

    def loss(_model: Any, step: int) -> Any:
        weights = {name: fake(each) if each.dim() > 1 else each for name, each in model.named_parameters()}
        x = fake(given(step))
        return F.mse_loss(torch.func.functional_call(model, weights, (x,)), x.roll(1, 1))

    return train(model, loss=loss)


@script(dropout=True)
def accumulated_gradients() -> Losses:
    model = Model(0.1)
    optimizer = adam(model)
    for step in range(STEPS):
        total = sum((loss_of(model, step + part) / 2 for part in range(2)), torch.zeros(()))
        total.backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad(set_to_none=step % 4 == 1)
        yield total


@script(dropout=True)
def clipped_gradients() -> Losses:
    model = Model(0.1)
    return train(model, before=lambda _step: nn.utils.clip_grad_norm_(model.parameters(), 0.1))


@script(dropout=True)
def one_cycle() -> Losses:
    model = Model(0.1)
    optimizer = adam(model)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=STEPS + 1)
    return train(model, optimizer, after=lambda _step: rate.step())


@script(dropout=True)
def warm_up_and_cosine() -> Losses:
    model = Model(0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(3e-3))
    rates = torch.optim.lr_scheduler
    rate = rates.SequentialLR(optimizer, [rates.LinearLR(optimizer), rates.CosineAnnealingLR(optimizer, 15)], [5])
    return train(model, optimizer, after=lambda _step: rate.step())


@script(near=2e-3)
def lbfgs_beside_adam() -> Losses:
    model = Model(layers=1)
    second = torch.optim.LBFGS(model.head.parameters(), max_iter=3, lr=0.1)
    first = adam([each for name, each in model.named_parameters() if not name.startswith("head")])

    def closure() -> Any:
        second.zero_grad()
        loss = loss_of(model, 0)
        loss.backward()
        return loss

    for _step in range(STEPS):
        loss = second.step(closure)
        first.step()
        first.zero_grad()
        yield loss


@script(dropout=True)
def contrastive() -> Losses:
    model = Model(0.1)

    def loss(model: Any, step: int) -> Any:
        one, other = (F.normalize(model(given(step)).mean(1), dim=-1) for _view in range(2))
        return F.cross_entropy(one @ other.t() / 0.05, torch.arange(BATCH))

    return train(model, loss=loss)


@script(dropout=True)
def r_drop() -> Losses:
    def loss(model: Any, step: int) -> Any:
        first, second = (model(tokens(step)).log_softmax(-1) for _pass in range(2))
        return F.kl_div(first, second, log_target=True, reduction="batchmean") / LENGTH + of_words(model, step)

    return train(Words(), loss=loss)


@script(dropout=True)
def lstm() -> Losses:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(SIZE, 40, 2, batch_first=True, dropout=0.2)
            self.head = nn.Linear(40, SIZE)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0])

    return train(Recurrent())


@script(dropout=True)
def multihead_attention() -> Losses:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(SIZE, HEADS, dropout=0.1, batch_first=True)

        def forward(self, x: Any) -> Any:
            hidden = torch.zeros(len(x), LENGTH, dtype=torch.bool)
            hidden[:, -5:] = True
            return self.attention(x, x, x, key_padding_mask=hidden, need_weights=False)[0]

    return train(Layer())


@script(dropout=True)
def transformer_encoder() -> Losses:
    layer = nn.TransformerEncoderLayer(SIZE, HEADS, 64, dropout=0.1, batch_first=True)
    return train(nn.TransformerEncoder(layer, 2))


@script(dropout=True)
def transformer_encoder_and_decoder() -> Losses:
    model = nn.Transformer(SIZE, HEADS, 1, 1, 64, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
    return train(
        model, loss=lambda m, at: F.mse_loss(m(given(at), given(at + 1), tgt_mask=mask, tgt_is_causal=True), given(at))
    )


SMALL = {"hidden_size": SIZE, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": HEADS}


def llama(**words: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(vocab_size=64, num_key_value_heads=2, **SMALL, **words))


def of_a_decoder(model: Any, step: int) -> Any:
    found = tokens(step % 4)
    return model(input_ids=found, labels=found).loss


def in_bf16(loss: Any) -> Any:
    def in_autocast(model: Any, step: int) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return loss(model, step)

    return in_autocast


def classified(model: Any, step: int) -> Any:
    seen = torch.ones(BATCH, LENGTH, dtype=torch.long)
    seen[1:, -7:] = 0
    labels = torch.arange(BATCH) % 2
    return model(input_ids=tokens(step % 4), attention_mask=seen, labels=labels).loss


@script(dropout=True)
def bert() -> Losses:
    from transformers import BertConfig, BertForSequenceClassification

    return train(BertForSequenceClassification(BertConfig(vocab_size=64, **SMALL)), loss=classified)


@script(dropout=True, precision="bfloat16")
def bert_in_autocast() -> Losses:
    from transformers import BertConfig, BertForSequenceClassification

    return train(BertForSequenceClassification(BertConfig(vocab_size=64, **SMALL)), loss=in_bf16(classified))


@script(dropout=True)
def distilbert() -> Losses:
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    config = DistilBertConfig(vocab_size=64, dim=SIZE, hidden_dim=64, n_layers=2, n_heads=HEADS)
    return train(DistilBertForSequenceClassification(config), loss=classified)


STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def padded(family: str = "bert", head: str = "SequenceClassification") -> Any:
    """Return an encoder without dropout."""
    import transformers

    config = transformers.AutoConfig.for_model(family, vocab_size=64, **SMALL, **STILL)
    return getattr(transformers, f"AutoModelFor{head}").from_config(config).train()


def in_padded_rows(model: Any, step: int) -> Any:
    """Return the loss of rows of other lengths in each batch."""
    lengths = torch.randint(2, LENGTH, (BATCH, 1), generator=torch.Generator().manual_seed(step))
    seen = (torch.arange(LENGTH) < lengths).long()
    return model(input_ids=tokens(step % 4) * seen, attention_mask=seen, labels=torch.arange(BATCH) % 2).loss


@script()
def padded_rows() -> Losses:
    return train(padded(), loss=in_padded_rows)


@script(precision="bfloat16")
def padded_rows_in_autocast() -> Losses:
    return train(padded(), loss=in_bf16(in_padded_rows))


@script()
def padded_rows_of_roberta_with_checkpointing() -> Losses:
    model = padded("roberta")
    model.gradient_checkpointing_enable()
    return train(model, loss=in_padded_rows)


@script()
def padded_rows_of_albert_in_evaluation_mode() -> Losses:
    return train(padded("albert").eval(), loss=in_padded_rows)


@script()
def padded_rows_of_electra_with_adapters() -> Losses:
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(padded("electra"), LoraConfig(r=4, task_type="SEQ_CLS", target_modules=["query", "dense"]))
    return train(model, loss=in_padded_rows)


@script()
def padded_choices_of_ddp() -> Losses:
    def chosen(model: Any, step: int) -> Any:
        seen = (torch.arange(LENGTH) < torch.arange(3, 3 + BATCH)[:, None] % LENGTH).long()
        rows, seen = ((each.view(-1, 2, LENGTH)) for each in (tokens(step % 4), seen))
        return model(input_ids=rows, attention_mask=seen, labels=torch.arange(len(rows)) % 2).loss

    group()
    return train(nn.parallel.DistributedDataParallel(padded(head="MultipleChoice")), loss=chosen)


@script()
def layers_that_name_the_mask_beside_an_encoder() -> Losses:
    """Train a model of transformers whose layers call attention with other arguments than BERT's."""
    import transformers.models.bert.modeling_bert  # noqa: F401
    from transformers import InstructBlipVisionConfig, InstructBlipVisionModel

    sizes = {"hidden_size": SIZE, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": HEADS}
    model = InstructBlipVisionModel(InstructBlipVisionConfig(**sizes, image_size=28, patch_size=14))
    return train(model, loss=lambda m, at: m(numbers(4, 3, 28, 28, seed=at % 4))[0].square().mean())


@script()
def padded_rows_of_which_a_script_reads_the_states() -> Losses:
    def read(model: Any, step: int) -> Any:
        seen = (torch.arange(LENGTH) < torch.arange(3, 3 + BATCH)[:, None] % LENGTH).long()
        made = model(input_ids=tokens(step % 4), attention_mask=seen, output_hidden_states=step % 2 == 0)
        states = made.hidden_states[-1] if made.hidden_states else made.logits
        return states.square().mean() + made.logits.square().mean()

    return train(padded(), loss=read)


@script(precision="bfloat16")
def llama_in_autocast() -> Losses:
    return train(llama(), loss=in_bf16(of_a_decoder))


@script(precision="bfloat16", near=5e-2)
def llama_in_bf16() -> Losses:
    return train(llama().bfloat16(), loss=of_a_decoder)


@script(dropout=True)
def llama_with_dropout_and_checkpointing() -> Losses:
    model = llama(attention_dropout=0.1)
    model.gradient_checkpointing_enable()
    return train(model.train(), loss=of_a_decoder)


def of_answers(model: Any, step: int) -> Any:
    """Return the loss as supervised fine-tuning has it: prompts, of other lengths in each row, have no labels."""
    found = tokens(step % 4)
    prompt = torch.arange(BATCH)[:, None] % 4 + LENGTH // 2
    return model(input_ids=found, labels=torch.where(torch.arange(LENGTH) < prompt, -100, found)).loss


@script()
def supervised_fine_tuning() -> Losses:
    return train(llama(tie_word_embeddings=True), loss=of_answers)


@script(precision="bfloat16")
def supervised_fine_tuning_in_autocast() -> Losses:
    return train(llama(tie_word_embeddings=True), loss=in_bf16(of_answers))


@script(dropout=True, precision="bfloat16")
def supervised_fine_tuning_of_adapters_in_bf16() -> Losses:
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(llama().bfloat16(), LoraConfig(r=4, lora_dropout=0.1, target_modules="all-linear"))
    return train(model, adam([each for each in model.parameters() if each.requires_grad]), in_bf16(of_answers))


@script()
def losses_of_logits() -> Losses:
    """Label smoothing and z-loss, of logits that the script reads."""

    def loss(model: Any, step: int) -> Any:
        found = tokens(step % 4)
        made = model(input_ids=found, labels=found)
        logits = made.logits[:, :-1].flatten(0, 1)
        smooth = F.cross_entropy(logits, found[:, 1:].flatten(), label_smoothing=0.1)
        return made.loss + smooth + 1e-3 * logits.logsumexp(-1).square().mean()

    return train(llama(), loss=loss)


@script()
def sums_of_logits_over_ranks() -> Losses:
    """An exchange in place, which no operator of PyTorch's sees."""
    import torch.distributed as dist

    group()

    def loss(model: Any, step: int) -> Any:
        made = model(input_ids=tokens(step % 4), labels=tokens(step % 4))
        logits = made.logits.detach()
        dist.all_reduce(logits)
        return made.loss + logits.square().mean()

    return train(llama(), loss=loss)


@script(dropout=True)
def gpt2() -> Losses:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=64, n_positions=LENGTH, n_embd=SIZE, n_layer=2, n_head=HEADS)
    config.bos_token_id = config.eos_token_id = 0
    return train(GPT2LMHeadModel(config), loss=of_a_decoder)


@script(dropout=True)
def vit() -> Losses:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(image_size=32, patch_size=4, num_labels=10, **SMALL)
    config.attention_probs_dropout_prob = config.hidden_dropout_prob = 0.1
    labels = torch.arange(8) % 10

    def loss(model: Any, step: int) -> Any:
        return model(pixel_values=numbers(8, 3, 32, 32, seed=step % 4), labels=labels).loss

    return train(ViTForImageClassification(config), loss=loss)


@script(dropout=True)
def t5() -> Losses:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(vocab_size=64, d_model=SIZE, d_kv=8, d_ff=64, num_layers=2, num_heads=HEADS)
    config.decoder_start_token_id = 0
    return train(T5ForConditionalGeneration(config), loss=of_a_decoder)


@script(dropout=True)
def whisper() -> Losses:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    words: dict[str, Any] = {"d_model": SIZE, "encoder_layers": 1, "decoder_layers": 1, "num_mel_bins": 16}
    words |= {"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, "attention_dropout": 0.1}
    words |= {"encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_source_positions": 64, "max_target_positions": 64}
    words |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    model = WhisperForConditionalGeneration(WhisperConfig(vocab_size=64, dropout=0.1, **words))

    def loss(model: Any, step: int) -> Any:
        return model(input_features=numbers(BATCH, 16, 128, seed=step % 4), labels=tokens(step % 4)).loss

    return train(model.train(), loss=loss)


@script(dropout=True, precision="bfloat16")
def autocast() -> Losses:
    return train(Model(0.1), loss=in_bf16(loss_of))


@script(precision="bfloat16")
def autocast_without_dropout() -> Losses:
    return train(Model(), loss=in_bf16(loss_of))


@script(dropout=True, precision="float16")
def scaled_gradients_in_fp16() -> Losses:
    model, scaler = Model(0.1), torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=4)
    optimizer = adam(model)
    for step in range(STEPS):
        with torch.autocast("cpu", torch.float16):
            loss = loss_of(model, step)
        scaler.scale(loss * (1e6 if step == 5 else 1)).backward()
        if step % 2:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        norms = torch.stack([each.grad.norm() for each in model.parameters()])
        yield loss + scaler.get_scale() / 2**20 + norms.clamp(max=1).nan_to_num(1).mean()
        optimizer.zero_grad()


def trainer(**words: Any) -> Losses:
    import transformers

    rows = [{"input_ids": each, "labels": each} for each in tokens(0, 4 * BATCH)]
    with tempfile.TemporaryDirectory() as output:
        words = {"per_device_train_batch_size": BATCH, "max_steps": STEPS, "logging_steps": 1, **words}
        args = transformers.TrainingArguments(
            output, use_cpu=True, report_to=[], disable_tqdm=True, save_strategy="no", learning_rate=3e-3, **words
        )
        made = transformers.Trainer(model=llama(attention_dropout=0.1), args=args, train_dataset=rows)
        made.remove_callback(transformers.PrinterCallback)
        made.train()
        yield from [row["loss"] for row in made.state.log_history if "loss" in row]


@script(dropout=True)
def transformers_trainer() -> Losses:
    return trainer()


@script(dropout=True, precision="bfloat16")
def transformers_trainer_in_bf16() -> Losses:
    return trainer(bf16=True, optim="adamw_torch", gradient_accumulation_steps=2, max_grad_norm=0.5)


@script(dropout=True)
def accelerator() -> Losses:
    from accelerate import Accelerator

    made = Accelerator(cpu=True)
    model = Model(0.1)
    model, optimizer = made.prepare(model, adam(model))
    for step in range(STEPS):
        loss = loss_of(model, step)
        made.backward(loss)
        made.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        yield loss


@script(dropout=True)
def distillation_of_a_deepcopied_teacher() -> Losses:
    model = Model(0.1)
    teacher = copy.deepcopy(model).eval().requires_grad_(False)
    student, x = copy.deepcopy(model), given
    for layer in student.mlps:
        layer[1].reset_parameters()
    return train(student, loss=lambda m, at: F.mse_loss(m(x(at)), teacher(x(at))))


@script(dropout=True)
def hessian_vector_products() -> Losses:
    model = Model(0.1, "input itself", 1)
    params = list(model.parameters())

    def loss(_model: Any, step: int) -> Any:
        value = loss_of(model, step)
        grads = torch.autograd.grad(value, params, create_graph=True, allow_unused=True)
        known = [(each, grad) for each, grad in zip(params, grads) if grad is not None]
        product = sum((grad * numbers(*each.shape, seed=7)).sum() for each, grad in known)
        return value + 0.01 * product.square()

    return train(model, loss=loss)


@script(dropout=True)
def adversarial_inputs() -> Losses:
    model = Model(0.1, "keys are queries")

    def loss(model: Any, step: int) -> Any:
        x = given(step).requires_grad_()
        value = F.mse_loss(model(x), x.detach())
        moved = x + 0.1 * torch.autograd.grad(value, x, create_graph=True)[0].sign()
        return F.mse_loss(model(moved), x.detach())

    return train(model, loss=loss)


@script()
def implicit_layer() -> Losses:
    cell, head = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)

    def loss(_model: Any, step: int) -> Any:
        x = given(step)
        with torch.no_grad():
            found = torch.zeros_like(x)
            for _turn in range(10):
                found = torch.tanh(cell(found) * 0.5 + x)
        found = torch.tanh(cell(found) * 0.5 + x)
        start = found.detach().requires_grad_()
        again = torch.tanh(cell(start) * 0.5 + x)

        def solve(grad: Any) -> Any:
            solved = grad
            for _turn in range(5):
                solved = torch.autograd.grad(again, start, solved, retain_graph=True)[0] + grad
            return solved

        found.register_hook(solve)
        return F.mse_loss(head(found), x)

    return train(nn.ModuleList([cell, head]), loss=loss)


@script(dropout=True)
def weight_norm() -> Losses:
    model = Model(0.1)
    for layer in model.mlps:
        nn.utils.parametrizations.weight_norm(layer[1])
    return train(model)


@script(dropout=True)
def spectral_norm_and_orthogonal() -> Losses:
    model = Model(0.1)
    nn.init.orthogonal_(model.head.weight)
    nn.utils.parametrizations.spectral_norm(model.mlps[0][1])
    nn.utils.parametrizations.orthogonal(model.attentions[0].out)
    return train(model)


@script(dropout=True)
def pruned() -> Losses:
    from torch.nn.utils import prune

    model = Model(0.1)
    prune.l1_unstructured(model.mlps[0][1], "weight", 0.5)
    return train(model)


@script(dropout=True)
def state_reset() -> Losses:
    model = Model(0.1)
    optimizer = adam(model)
    return train(model, optimizer, after=lambda step: optimizer.state.clear() if step == 8 else None)


@script(dropout=True)
def saved_and_resumed() -> Losses:
    model = Model(0.1)
    optimizer = adam(model)
    for step in range(STEPS):
        if step == 10:
            with tempfile.TemporaryFile() as file:
                torch.save((model.state_dict(), optimizer.state_dict(), torch.get_rng_state()), file)
                file.seek(0)
                weights, state, rng = torch.load(file)
            model, optimizer = Model(0.1), None
            optimizer = torch.optim.AdamW(model.parameters(), lr=1.0)
            model.load_state_dict(weights)
            optimizer.load_state_dict(state)
            torch.set_rng_state(rng)
        loss = loss_of(model, step)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield loss


@script(dropout=True)
def parameters_replaced_midway() -> Losses:
    model = Model(0.1)
    optimizer = adam(model)

    def after(step: int) -> None:
        if step == 6:
            model.head = nn.Linear(SIZE, SIZE)
            optimizer.add_param_group({"params": model.head.parameters()})
        if step == 12:
            weight = model.mlps[0][1].weight
            weight.data = weight.data.t().contiguous().t()

    return train(model, optimizer, after=after)


@script(dropout=True)
def hooks_of_gradients() -> Losses:
    model = Model(0.1)
    for each in model.parameters():
        each.register_hook(lambda grad: grad.t().contiguous().t() * 2 if grad.dim() == 2 else grad.clamp(-1, 1))
    return train(model)


@script(dropout=True)
def optimizer_in_the_backward_pass() -> Losses:
    model = Model(0.1)
    optimizers = {each: torch.optim.AdamW([each], lr=3e-3) for each in model.parameters()}

    def step(param: Any) -> None:
        optimizers[param].step()
        optimizers[param].zero_grad()

    for each in model.parameters():
        each.register_post_accumulate_grad_hook(step)
    for at in range(STEPS):
        loss = loss_of(model, at)
        loss.backward()
        yield loss


@script(dropout=True)
def a_mask_that_is_filled_anew() -> Losses:
    model, mask = Model(0.1, layers=1), torch.zeros(LENGTH, LENGTH)

    def loss(model: Any, step: int) -> Any:
        total = torch.zeros(())
        for turn in range(2):
            mask.fill_(0).masked_fill_(numbers(LENGTH, LENGTH, seed=step + turn) > 1, -1e9)
            total = total + F.mse_loss(model(given(step), mask), given(step))
        return total

    return train(model, loss=loss)


@script(dropout=True)
def a_view_of_the_result() -> Losses:
    projection = nn.Linear(SIZE, 3 * SIZE)

    def loss(_model: Any, step: int) -> Any:
        x = torch.cat([given(step), given(step + 1)])
        query, key, value = projection(x).unsqueeze(1).chunk(3, -1)
        out = F.scaled_dot_product_attention(query, key, value, dropout_p=0.2)
        out.mul_(2)
        return F.mse_loss(out.view(-1, SIZE), x.view(-1, SIZE))

    return train(projection, loss=loss)


@script(dropout=True, precision="float64")
def double_precision() -> Losses:
    model = Model(0.1).double()
    x = given(0).double()
    return train(model, loss=lambda m, at: F.mse_loss(m(x), x))


@script(dropout=True, finite=8)
def nan_appears() -> Losses:
    """A diverged query projection of which nothing but the layers around it is trained: NaN at the same step."""
    model = Model(0.1)
    model.attentions[1].requires_grad_(False)

    def after(step: int) -> None:
        if step == 8:
            model.attentions[1].qkv.weight.data[:8].fill_(float("inf"))

    return train(model, after=after)


@script(dropout=True, precision="bfloat16", finite=8)
def nan_appears_in_autocast() -> Losses:
    model = Model(0.1)

    def after(step: int) -> None:
        if step == 8:
            model.attentions[1].qkv.weight.data[:8].fill_(float("nan"))

    return train(model, loss=in_bf16(loss_of), after=after)
