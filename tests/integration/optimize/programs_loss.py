"""Programs that compute the loss of a causal language model of transformers, and may read its logits."""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import io
import pickle
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from layouts import laid, with_special
from records import Record
from torch.utils.checkpoint import checkpoint

HAS_EXACT = True
VARIED = ("model", "labels", "read", "train", "seed")
FIELDS: dict[str, tuple[Any, ...]] = {
    "model": (
        "llama",
        "qwen2",
        "gpt2",
        "phi",
        "gemma2",
        "opt",
        "bert decoder",
        "derived",
        "own head",
        "own loss",
        "t5",
        "masked bert",
        "head of float32",
        "head by name",
        "head again",
        "head again reentrant",
        "partial forward",
        "unnamed head",
    ),
    "tied": (True, False),
    "dtype": ("float32", "bfloat16", "float64"),
    "autocast": ("none", "bfloat16", "float16"),
    "shape": ((3, 9), (1, 2), (1, 1), (2, 40), (5, 21)),
    "labels": (
        "prompt",
        "all",
        "one",
        "none",
        "a row without",
        "padded right",
        "padded left",
        "shifted",
        "ignored by another number",
        "too large",
        "negative",
        "int32",
        "float",
        "positional",
        "of another length",
    ),
    "layout": ("contiguous", "transposed", "columns", "every second", "offset", "expanded"),
    "items": ("none", "number", "tensor", "float"),
    "words": (
        {},
        {"output_hidden_states": True},
        {"return_dict": False},
        {"use_cache": True},
        {"logits_to_keep": 4},
        {"ignore_index": 3},
        {"unknown": 1},
        {"label_smoothing": 0.1},
    ),
    "read": (
        "nothing",
        "values",
        "values before the backward pass",
        "values after a step",
        "values after a change of data",
        "accuracy",
        "z-loss",
        "another loss of them",
        "another loss of a part",
        "smoothed",
        "float64 loss",
        "weighted",
        "sum of losses",
        "losses of tokens",
        "no loss",
        "hook",
        "retain_grad",
        "hook and change",
        "hook that changes in place",
        "changed in a function of autograd",
        "detached and changed",
        "changed in place",
        "changed in a view",
        "changed before a view is read",
        "saved",
        "pickled",
        "deepcopied",
        "numpy",
        "facts",
        "gradient for the logits",
        "gradient passed on",
        "gradient passed on and kept",
        "gradient changed and passed on",
        "concatenated",
        "stored in a list",
        "out",
        "set_",
        "requires_grad_",
        "compared",
        "iterated",
        "entropy of each step",
        "type",
        "transposed loss",
        "loss of three dimensions",
    ),
    "mode": ("train", "eval", "no_grad", "inference_mode"),
    "train": ("all", "all but the head", "head", "lora", "lora of the head", "nothing", "inputs", "bias"),
    "backward": (
        "backward",
        "grad",
        "twice",
        "of half",
        "negative",
        "twice with two gradients",
        "two forwards",
        "two backwards",
        "create_graph",
        "accumulated",
        "scaled",
        "in a loss of others",
        "inputs",
        "set to none",
        "in a thread",
        "for several gradients",
    ),
    "between": (
        "nothing",
        "change of the head",
        "change by out",
        "step of another optimizer",
        "new head",
        "copy of the model",
        "gradients off",
        "hidden changed",
    ),
    "hook": (
        "none",
        "forward of the head",
        "pre of the head",
        "backward of the head",
        "global forward",
        "of the weight",
        "after accumulation",
        "of saved tensors",
        "on the model",
        "on the last layer",
        "forward of the instance",
        "parametrized",
        "spectral norm",
    ),
    "wrap": (
        "none",
        "fp32 outputs",
        "checkpoint",
        "checkpoint reentrant",
        "gradient_checkpointing",
        "functional_call",
        "func.grad",
        "jvp",
        "deepcopy",
        "aot_eager",
        "mode of functions",
        "mode of dispatch",
        "trainer",
    ),
    "special": ("none", "nan", "inf", "huge", "zero"),
    "of": ("head", "embedding", "a prompt's embedding"),
    "steps": (1, 2, 5),
    "seed": tuple(range(50)),
}


def run(record: Record, p: dict[str, Any]) -> None:
    torch.manual_seed(p["seed"])
    # transformers computes losses in float32, whatever the model's type is.
    of_float = mock.patch.object(torch.Tensor, "float", torch.Tensor.double if record.is_exact else torch.Tensor.float)
    program = Program(record, p)
    program.undo.enter_context(of_float)
    record.train(program, p["steps"])


class Halved(torch.autograd.Function):
    """It changes what it is given, as losses over parts of a vocabulary do."""

    @staticmethod
    def forward(ctx: Any, logits: Any) -> Any:
        logits.div_(2)
        ctx.mark_dirty(logits)
        return logits

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient / 2


class Program:
    def __init__(self, record: Record, p: dict[str, Any]) -> None:
        self.record, self.p = record, p
        self.undo = contextlib.ExitStack()
        self.kept: list[Any] = []
        self.hidden: list[Any] = []
        self.models = importlib.import_module("models_loss")
        model = self.models.model(p)
        for parameter in model.parameters():
            parameter.data.mul_(2)
        self.model = model.to(record.type_of(p))
        self._train()
        self._special()
        self._hooks()
        trained = [each for each in self.model.parameters() if each.requires_grad]
        rate = 0.02 / 1024 if p["backward"] == "scaled" else 0.02
        self.optimizer = torch.optim.SGD(trained, lr=rate) if trained else None
        if p["wrap"] == "gradient_checkpointing":
            self.model.gradient_checkpointing_enable()
        if p["wrap"] == "deepcopy":
            self.model = copy.deepcopy(self.model)
            trained = [each for each in self.model.parameters() if each.requires_grad]
        self.model.train(p["mode"] != "eval")
        self.call = self._called()

    @property
    def head(self) -> Any:
        return self.model.lm_head if self.p["model"] == "unnamed head" else self.model.get_output_embeddings()

    def _train(self) -> None:
        chosen, head = self.p["train"], self.head
        if chosen.startswith("lora") and self.p["model"] != "gpt2":
            self.model = self.models.with_lora(self.model, chosen == "lora of the head")
        elif chosen != "all" and not chosen.startswith("lora"):
            for name, each in self.model.named_parameters():
                is_head = each is head.weight
                each.requires_grad_(
                    {"all but the head": not is_head, "head": is_head, "bias": name.endswith("bias")}.get(chosen, False)
                )

    def _special(self) -> None:
        if self.p["special"] == "none":
            return
        with torch.no_grad():
            embedding = self.model.get_input_embeddings().weight
            if self.p["of"] == "a prompt's embedding":
                embedding[5] = with_special(embedding[5].clone(), self.p["special"], self.p["seed"])
            else:
                weight = self.head.weight if self.p["of"] == "head" else embedding
                weight.copy_(with_special(weight.clone(), self.p["special"], self.p["seed"]))

    def _hooks(self) -> None:
        name, head, note = self.p["hook"], self.head, self.record.note
        if self.p["between"] == "hidden changed":
            self.model.base_model.register_forward_hook(lambda _m, _i, out: self.hidden.append(out[0]))
        if name == "forward of the head":
            head.register_forward_hook(lambda _m, _i, out: out * 1.5)
        elif name == "pre of the head":
            head.register_forward_pre_hook(lambda _m, given: (given[0] * 1.5,))
        elif name == "backward of the head":
            head.register_full_backward_hook(lambda _m, into, _out: tuple(None if e is None else e * 2 for e in into))
        elif name == "global forward":
            handle = torch.nn.modules.module.register_module_forward_hook(
                lambda module, _i, out: out * 1.5 if module is head else None
            )
            self.undo.callback(handle.remove)
        elif name == "of the weight" and head.weight.requires_grad:
            head.weight.register_hook(lambda gradient: gradient * 2)
        elif name == "after accumulation" and head.weight.requires_grad:
            head.weight.register_post_accumulate_grad_hook(
                lambda each: note("weight", "has its gradient", each.grad is not None)
            )
        elif name == "of saved tensors":
            self.undo.enter_context(torch.autograd.graph.saved_tensors_hooks(lambda each: each * 1, lambda each: each))
        elif name == "on the model":
            self.model.register_forward_hook(
                lambda _m, _i, out: note("model", "gives", sorted(out) if hasattr(out, "keys") else len(out))
            )
        elif name == "on the last layer":
            layer = list(self.model.modules())[-2]
            layer.register_forward_hook(lambda _m, _i, out: None)
        elif name == "forward of the instance":
            theirs = head.forward
            head.forward = lambda hidden: theirs(hidden) * 0.7
        elif name == "parametrized" and type(head) is torch.nn.Linear:

            class Doubled(torch.nn.Module):
                def forward(self, weight: Any) -> Any:
                    return weight * 2

            torch.nn.utils.parametrize.register_parametrization(head, "weight", Doubled())
        elif name == "spectral norm" and type(head) is torch.nn.Linear:
            torch.nn.utils.parametrizations.spectral_norm(head)

    def _called(self) -> Any:
        wrap, model = self.p["wrap"], self.model
        if wrap == "fp32 outputs":
            from accelerate.utils.operations import convert_outputs_to_fp32

            model.forward = convert_outputs_to_fp32(model.forward)
        elif wrap == "aot_eager":
            torch._dynamo.reset()  # after many programs it compiles no more
            return torch.compile(model, backend="aot_eager")
        elif wrap == "functional_call":
            return lambda **given: torch.func.functional_call(
                model, {name: each * 1.0 for name, each in model.named_parameters()}, (), given, tie_weights=True
            )
        elif wrap.startswith("checkpoint"):
            return self._checkpointed
        elif wrap == "mode of functions":
            return self._in(torch.overrides.BaseTorchFunctionMode)
        elif wrap == "mode of dispatch":
            from torch.utils._python_dispatch import BaseTorchDispatchMode

            return self._in(BaseTorchDispatchMode)
        return model

    def _in(self, mode: Any) -> Any:
        def call(*args: Any, **given: Any) -> Any:
            with mode():
                return self.model(*args, **given)

        return call

    def _checkpointed(self, *args: Any, **given: Any) -> Any:
        again = self.p["wrap"].endswith("reentrant")
        dummy = torch.ones((), requires_grad=True)

        def both(_dummy: Any) -> Any:
            made = self.model(*args, **given)
            return made["loss"] if hasattr(made, "keys") else made[0]

        loss = checkpoint(both, dummy, use_reentrant=again)
        return self.models.transformers.modeling_outputs.CausalLMOutput(loss=loss, logits=torch.zeros(1))

    def _given(self, step: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        p, chance = self.p, torch.Generator().manual_seed(1000 * self.p["seed"] + step)
        rows, length = p["shape"]
        ids = torch.randint(6, self.models.VOCABULARY, (rows, length), generator=chance)
        labels, mask = ids.clone(), torch.ones_like(ids)
        kind = p["labels"]
        if kind in ("prompt", "shifted", "positional", "int32", "float", "too large", "negative"):
            labels[:, : (length + 1) // 2] = -100
            if p["of"] == "a prompt's embedding":
                ids[0, 0] = 5
        elif kind == "one":
            labels[:] = -100
            labels[-1, -1] = 3
        elif kind == "none":
            labels[:] = -100
        elif kind == "a row without":
            labels[0] = -100
        elif kind.startswith("padded"):
            for row in range(rows):
                padding = slice(length - row, None) if kind == "padded right" and row else slice(0, row)
                labels[row, padding], mask[row, padding], ids[row, padding] = -100, 0, 0
        elif kind == "ignored by another number":
            labels[:, : length // 2] = 3
        if kind == "too large":
            labels[0, -1] = self.models.VOCABULARY
        elif kind == "negative":
            labels[0, -1] = -3
        elif kind == "of another length":
            labels = labels[:, 1:]
        if kind == "int32":
            labels = labels.int()
        elif kind == "float":
            labels = labels.float()
        labels = laid(labels, p["layout"])[0] if labels.numel() else labels
        given: dict[str, Any] = {"attention_mask": mask, **p["words"]}
        if p["train"] == "inputs" or p["wrap"] == "func.grad":
            embedded = self.model.get_input_embeddings()(ids).detach().requires_grad_()
            self.embedded = given["inputs_embeds"] = embedded
        else:
            given["input_ids"] = ids
        if kind == "shifted":
            given["shift_labels"] = F.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()
        self.count = int((labels != -100).sum())
        items = {"number": self.count, "tensor": torch.tensor(self.count), "float": torch.tensor(float(self.count + 1))}
        if p["items"] in items:
            given["num_items_in_batch"] = items[p["items"]]
        if kind != "positional":
            given["labels"] = labels
        self.labels = labels
        return (), given

    def forward(self, step: int) -> Any:
        p, record = self.p, self.record
        args, given = self._given(step)
        if p["labels"] == "positional" and self.p["model"] in ("llama", "qwen2", "phi", "gemma2"):
            names = ("input_ids", "attention_mask", "position_ids", "past_key_values", "inputs_embeds")
            args = (*(given.pop(name, None) for name in names), self.labels)
        lower = getattr(torch, p["autocast"], torch.bfloat16)
        with (
            torch.autocast("cpu", dtype=lower, enabled=p["autocast"] != "none" and not record.is_exact),
            torch.inference_mode(p["mode"] == "inference_mode"),
            torch.set_grad_enabled(p["mode"] not in ("no_grad", "inference_mode")),
        ):
            if p["wrap"] == "jvp":
                return record.attempt("jvp", self._jvp, given)
            return record.attempt("forward", functools.partial(self.call, *args, **given))

    def _jvp(self, given: dict[str, Any]) -> Any:
        embedded = given.pop("inputs_embeds", None)
        if embedded is None:
            embedded = self.model.get_input_embeddings()(given.pop("input_ids")).detach()

        def loss(each: Any) -> Any:
            return self.model(inputs_embeds=each, **given)[0]

        value, tangent = torch.func.jvp(loss, (embedded,), (torch.ones_like(embedded),))
        self.tensor("tangent", tangent)
        return self.models.transformers.modeling_outputs.CausalLMOutput(loss=value, logits=torch.zeros(1))

    def tensor(self, label: str, tensor: Any) -> None:
        """Record what a script sees of a tensor by its attributes, and its values."""
        if tensor is None or not isinstance(tensor, torch.Tensor):
            self.record.note(label, "is", repr(tensor))
            return
        facts = (None if self.record.is_exact else str(tensor.dtype), tuple(tensor.shape), tensor.stride())
        self.record.note(label, "has", (*facts, tensor.requires_grad, tensor.grad_fn is not None, tensor.is_leaf))
        self.record.tensor(label, tensor.detach().clone(), "float16" if tensor.dtype is torch.float16 else "")

    def step(self, step: int) -> None:
        p, record = self.p, self.record
        if step and record.precise == "float32":
            record.precise = "float32 after steps"
        if p["wrap"] == "func.grad":
            self._functional(step)
            return
        made = self.forward(step)
        if isinstance(made, tuple):
            loss, logits = made[0], made[1] if len(made) > 1 else None
        else:
            loss, logits = made.loss, made.logits
        if p["backward"] == "two forwards":
            loss = loss + self.forward(step + 100)[0]
        if not isinstance(logits, torch.Tensor) or logits.dim() != 3:
            logits = None
        loss = self._read(loss, logits)
        self.tensor("loss", loss)
        self._between(logits)
        if loss is not None and loss.requires_grad:
            self._backward(loss, logits)
        for name, each in self.model.named_parameters():
            if each.grad is not None:
                self.tensor(f"gradient of {name}", each.grad)
        if self.p["train"] == "inputs" and getattr(self, "embedded", None) is not None:
            self.tensor("gradient of the inputs", self.embedded.grad)
        if self.optimizer is not None:
            record.attempt("step", self.optimizer.step)
            self.optimizer.zero_grad(set_to_none=p["backward"] != "accumulated")
        if (
            p["read"] in ("values", "values after a step", "concatenated", "values after a change of data")
            and logits is not None
        ):
            if p["read"] == "values after a change of data":
                with torch.no_grad():
                    self.head.weight.data.mul_(1.5)
            if p["read"] != "values" or step == 0:
                self.tensor("logits after a step", record.attempt("late", lambda: logits.detach().clone()))
        if p["steps"] > 1 and step + 1 == p["steps"]:
            for name, each in self.model.named_parameters():
                self.tensor(f"{name} at the end", each)

    def _functional(self, step: int) -> None:
        _args, given = self._given(step)
        embedded = given.pop("inputs_embeds").detach()
        given.pop("input_ids", None)
        gradient = self.record.attempt(
            "func.grad", torch.func.grad(lambda each: self.model(inputs_embeds=each, **given)[0]), embedded
        )
        self.tensor("gradient by func", gradient)

    def _read(self, loss: Any, logits: Any) -> Any:
        name, record = self.p["read"], self.record
        if logits is None or loss is None:
            return loss
        rows = F.pad(self.labels.long(), (0, 1), value=-100)[..., 1:]
        rows = rows[:, -logits.shape[1] :].clamp(-100, self.models.VOCABULARY - 1)
        rows = torch.where(rows < 0, -100, rows)
        if rows.shape != logits.shape[:2]:
            rows = logits.new_zeros(logits.shape[:2], dtype=torch.long)

        def attempt(function: Any, *args: Any) -> Any:
            return record.attempt(name, function, *args)

        flat = functools.partial(lambda: logits.reshape(-1, logits.shape[-1]))
        target = rows.reshape(-1)
        if name in ("values before the backward pass",):
            self.tensor("logits", logits)
        elif name == "accuracy":
            found = attempt(lambda: (logits.argmax(-1) == rows).float().sum())
            record.note("accuracy", "has a shape", found.shape)
        elif name == "z-loss":
            return loss + attempt(lambda: 1e-2 * logits.float().logsumexp(-1).square().mean())
        elif name == "another loss of them":
            return loss + attempt(lambda: F.cross_entropy(flat().float(), target))
        elif name == "another loss of a part":
            return loss + attempt(
                lambda: F.cross_entropy(
                    logits[:, ::2].reshape(-1, self.models.VOCABULARY).float(), rows[:, ::2].reshape(-1)
                )
            )
        elif name == "smoothed":
            return attempt(lambda: F.cross_entropy(flat().float(), target, label_smoothing=0.2))
        elif name == "float64 loss":
            return attempt(lambda: F.cross_entropy(flat().double(), target))
        elif name == "weighted":
            return attempt(
                lambda: F.cross_entropy(flat().float(), target, weight=torch.linspace(0.5, 2, self.models.VOCABULARY))
            )
        elif name == "sum of losses":
            return attempt(lambda: F.cross_entropy(flat().float(), target, reduction="sum"))
        elif name == "losses of tokens":
            each = attempt(lambda: F.cross_entropy(flat().float(), target, reduction="none"))
            self.tensor("losses of tokens", each)
            return each.mean()
        elif name == "no loss":
            return attempt(lambda: logits.float().square().mean())
        elif name == "hook" and logits.requires_grad:
            attempt(logits.register_hook, lambda gradient: self.tensor("gradient in a hook", gradient))
        elif name == "hook and change" and logits.requires_grad:
            attempt(logits.register_hook, lambda gradient: gradient * 2)
            return loss + logits.float().mean()
        elif name == "changed in a function of autograd" and logits.requires_grad:
            changed = attempt(lambda: Halved.apply(logits))
            self.tensor("changed", changed)
            return changed.float().square().mean()
        elif name == "hook that changes in place" and logits.requires_grad:
            attempt(logits.register_hook, lambda gradient: gradient.mul_(2))
        elif name == "retain_grad" and logits.requires_grad:
            attempt(logits.retain_grad)
            self.kept.append(logits)
        elif name == "detached and changed":
            changed = attempt(lambda: logits.detach().mul_(2))
            self.tensor("changed", changed)
            self.tensor("logits", logits)
        elif name == "changed in place":
            attempt(lambda: logits.mul_(2))
            self.tensor("logits", logits)
        elif name == "changed in a view":
            attempt(lambda: logits[:, 0].detach().zero_())
            self.tensor("logits", logits)
        elif name == "changed before a view is read":
            view = logits[:, -1:]
            attempt(lambda: logits.detach().zero_())
            self.tensor("view", view)
        elif name == "saved":
            file = io.BytesIO()
            attempt(lambda: torch.save(logits.detach(), file))
            self.tensor("loaded", torch.load(io.BytesIO(file.getvalue())))
        elif name == "pickled":
            self.tensor("unpickled", attempt(lambda: pickle.loads(pickle.dumps(logits.detach()))))
        elif name == "deepcopied":
            self.tensor("a copy", attempt(lambda: copy.deepcopy(logits.detach())))
        elif name == "numpy":
            found = attempt(lambda: logits.detach().float().numpy())
            self.tensor("numpy", torch.from_numpy(found.copy()))
        elif name == "facts":
            names = ("ndim", "device", "layout", "is_leaf", "itemsize", "nbytes", "is_sparse", "is_quantized", "names")
            record.note(
                "logits", "have facts", None if record.is_exact else [str(getattr(logits, name)) for name in names]
            )
            record.note(
                "logits",
                "are of sizes",
                (len(logits), logits.numel(), logits.dim(), logits.is_contiguous(), logits.is_floating_point()),
            )
            record.note(
                "logits",
                "are a tensor",
                (isinstance(logits, torch.Tensor), torch.is_tensor(logits), callable(logits.data_ptr)),
            )
            record.note(
                "logits", "have memory", logits.data_ptr() != 0 and logits.untyped_storage().nbytes() >= logits.nbytes
            )
        elif name == "gradient for the logits" and loss.requires_grad:
            found = attempt(lambda: torch.autograd.grad(loss, logits, retain_graph=True, allow_unused=True)[0])
            self.tensor("gradient for the logits", found)
        elif name.startswith("gradient ") and loss.requires_grad and logits.requires_grad:
            # As a pipeline of stages does.
            weights = [each for each in self.model.parameters() if each.requires_grad][-1:]
            is_kept = name != "gradient passed on"
            back = functools.partial(logits.backward, retain_graph=is_kept, inputs=weights)
            for _turn in range(2):
                (gradient,) = attempt(lambda: torch.autograd.grad(loss, logits, retain_graph=True, allow_unused=True))
                if gradient is None or not weights:
                    break
                if name == "gradient changed and passed on":
                    gradient.mul_(3)
                attempt(back, gradient)
                self.tensor("gradient of a weight", weights[0].grad)
                if not is_kept:
                    (gradient,) = attempt(lambda: torch.autograd.grad(loss, logits, retain_graph=True))
                    self.tensor("gradient for the logits", gradient)
                    return logits.detach().float().mean()
        elif name == "concatenated":
            self.kept.append(logits.detach())
            self.tensor("logits of steps", attempt(lambda: torch.cat(self.kept)))
        elif name == "stored in a list":
            self.kept.append(logits)
        elif name == "out":
            out = torch.empty(logits.shape, dtype=logits.dtype)
            attempt(lambda: torch.mul(logits.detach(), 2, out=out))
            self.tensor("out", out)
        elif name == "set_":
            other = torch.zeros(1, dtype=logits.dtype)
            attempt(lambda: other.set_(logits.detach()))
            self.tensor("set", other)
        elif name == "requires_grad_":
            made = attempt(lambda: logits.detach().requires_grad_())
            attempt(lambda: made.float().square().sum().backward())
            self.tensor("gradient of a leaf", made.grad)
        elif name == "compared":
            record.note(
                "logits",
                "compare",
                (attempt(lambda: logits is logits), bool((logits == logits).all()), bool(logits.isnan().any())),
            )
        elif name == "iterated":
            for each in attempt(lambda: list(logits)):
                self.tensor("row", each)
        elif name == "entropy of each step":
            logs = attempt(lambda: torch.log_softmax(logits.detach().float(), -1))
            self.tensor("entropy", -(logs.exp() * logs).sum(-1))
        elif name == "type":
            self.tensor("as another type", attempt(lambda: logits.to(torch.float64)))
            self.tensor("half", attempt(lambda: logits.half()))
            self.tensor("added", attempt(lambda: 1 + logits))
        elif name == "transposed loss":
            return attempt(lambda: F.cross_entropy(logits.float().transpose(1, 2), rows))
        elif name == "loss of three dimensions":
            return attempt(
                lambda: F.cross_entropy(
                    logits.float().view(-1, self.models.VOCABULARY),
                    F.one_hot(rows.clamp(0).view(-1), self.models.VOCABULARY).float(),
                )
            )
        return loss

    def _between(self, logits: Any) -> None:
        name, head = self.p["between"], self.head
        weight = getattr(head, "weight", None)
        if weight is None or (weight.is_inference() if hasattr(weight, "is_inference") else False):
            return
        if name == "change of the head":
            with torch.no_grad():
                weight.mul_(1.5)
        elif name == "change by out" and not self.p["hook"].startswith(("param", "spec")):
            with torch.no_grad():
                torch.mul(weight, 1.5, out=weight)
        elif name == "step of another optimizer" and weight.requires_grad and weight.is_leaf:
            weight.grad = torch.ones_like(weight)
            torch.optim.SGD([weight], lr=0.5).step()
            weight.grad = None
        elif name == "new head" and type(head) is torch.nn.Linear and not self.p["hook"].startswith(("param", "spec")):
            self.model.set_output_embeddings(copy.deepcopy(head))
        elif name == "copy of the model":
            copy.deepcopy(self.model)
        elif name == "hidden changed" and self.hidden:
            with torch.no_grad():
                self.hidden[-1].mul_(1.5)
        elif name == "gradients off":
            torch.set_grad_enabled(False)
            self.undo.callback(torch.set_grad_enabled, True)
        if name == "copy of the model" and logits is not None:
            self.tensor("logits", logits)

    def _backward(self, loss: Any, logits: Any) -> None:
        name, record = self.p["backward"], self.record
        trained = [each for each in self.model.parameters() if each.requires_grad]

        def attempt(function: Any, *args: Any, **words: Any) -> Any:
            return record.attempt("backward", functools.partial(function, *args, **words))

        if name == "grad" and trained:
            for at, each in enumerate(attempt(torch.autograd.grad, loss, trained, allow_unused=True)):
                self.tensor(f"gradient {at}", each)
        elif name == "twice":
            attempt(loss.backward, retain_graph=True)
            attempt(loss.backward)
        elif name == "two backwards":
            attempt(loss.backward)
            attempt(loss.backward)
        elif name == "of half":
            attempt((loss / 2).backward)
        elif name == "negative":
            attempt((-3 * loss).backward)
        elif name == "scaled":
            attempt(loss.backward, torch.full_like(loss, 1024.0))
        elif name == "twice with two gradients":
            attempt(loss.backward, torch.full_like(loss, 2.0), retain_graph=True)
            attempt(loss.backward, torch.full_like(loss, -0.5))
        elif name == "create_graph" and trained:
            made = attempt(torch.autograd.grad, loss, trained, create_graph=True, allow_unused=True)
            penalty = sum(each.square().sum() for each in made if each is not None)
            if getattr(penalty, "requires_grad", False):
                attempt(penalty.backward)
        elif name == "in a loss of others":
            attempt((loss * loss + sum(each.square().sum() for each in trained[:2])).backward)
        elif name == "inputs" and trained:
            attempt(loss.backward, inputs=trained[:1])
        elif name == "for several gradients" and trained:
            several = torch.tensor([1.0, -2.0], dtype=loss.dtype)
            for each in attempt(torch.autograd.grad, loss, trained[-1:], several, is_grads_batched=True):
                self.tensor("gradients", each)
        elif name == "in a thread":
            import threading

            thread = threading.Thread(target=loss.backward)
            thread.start()
            thread.join()
        else:
            attempt(loss.backward)
        for each in self.kept:
            if each.requires_grad and each.retains_grad:
                self.tensor("retained gradient", each.grad)
