"""Programs that classify padded rows by models of transformers.

Two things differ by design and are not drawn: dropout in the encoder, whose masks have other shapes; and which
gradients of padding's own embeddings are NaN where a gradient, not a state, is. All weights of layers are NaN then.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import pickle
from typing import Any

import torch
from layouts import laid
from records import Record

HAS_EXACT = True
# Two layers of large weights and several steps make errors of rounding so much larger. What is wrong is larger still.
ROUNDING = 256.0
VARIED = ("model", "rows", "shape", "train", "seed")
FIELDS: dict[str, tuple[Any, ...]] = {
    "model": (
        *("bert", "roberta", "distilbert", "electra", "albert", "camembert", "xlm-roberta"),
        *("derived", "pooled", "mpnet", "deberta-v2", "modernbert"),
    ),
    "head": (
        *("rows", "regression", "several labels", "choice", "token", "question", "mean", "own layer", "decoder"),
        *("chunks", "identity", "linear", "eager below", "states shown below"),
    ),
    "attention": ("sdpa", "eager"),
    "dtype": ("float32", "bfloat16", "float64"),
    "autocast": ("none", "bfloat16", "float16"),
    "shape": ((8, 40), (2, 130), (16, 17), (1, 300), (40, 8)),
    "rows": (
        *("right", "left", "holes", "alike", "of one token", "whole", "a row of padding alone", "both sides"),
        *("one long", "two lengths"),
    ),
    "mask": ("int64", "bool", "float32", "none", "twos", "four dimensions", "int32", "large", "negative"),
    "layout": ("contiguous", "transposed", "columns", "every second", "offset"),
    "words": (
        {},
        {"output_hidden_states": True},
        {"output_attentions": True},
        {"return_dict": False},
        {"unknown": 1},
        {"is_causal": True},
    ),
    "inputs": ("ids", "embeds", "positions", "types", "positional"),
    "mode": ("train", "eval", "no_grad", "inference_mode"),
    "train": ("all", "lora", "head", "half", "inputs", "nothing"),
    "backward": ("backward", "grad", "twice", "create_graph", "accumulated", "two forwards", "in a thread", "negative"),
    "hook": (
        *("none", "forward of a layer", "pre of a layer", "backward of a layer", "forward of the pooler"),
        *("global forward", "of a weight", "of saved tensors", "on the model", "forward of an instance"),
        *("forward of a class", "own attention", "parametrized", "on embeddings", "method of an instance"),
        *("wrapped forward of a class", "own attention, wrapped", "causal layers"),
    ),
    "wrap": (
        *("none", "gradient_checkpointing", "gradient_checkpointing reentrant", "functional_call", "func.grad", "jvp"),
        *(
            "deepcopy",
            "pickle",
            "aot_eager",
            "mode of functions",
            "mode of dispatch",
            "fp32 outputs",
            "compiled layers",
        ),
    ),
    "special": ("none", "nan in the pad's embedding", "inf in the pad's embedding", "nan in a weight", "huge"),
    "steps": (1, 2, 4),
    "seed": tuple(range(50)),
}


def run(record: Record, p: dict[str, Any]) -> None:
    torch.manual_seed(p["seed"])
    record.train(Program(record, p), p["steps"])


class Program:
    def __init__(self, record: Record, p: dict[str, Any]) -> None:
        self.record, self.p, self.undo = record, p, contextlib.ExitStack()
        self.models = importlib.import_module("models_padding")
        self.dtype = record.type_of(p)
        self.model = self.models.model(p).to(self.dtype)
        self._special()
        if p["train"] == "lora":
            self.model = self.models.with_lora(self.model).to(self.dtype)
        elif p["train"] != "all":
            for at, (name, each) in enumerate(self.model.named_parameters()):
                of = {"head": "classif" in name or "qa_" in name, "half": at % 2 == 0}
                each.requires_grad_(of.get(p["train"], False))
        self._hooks()
        if p["wrap"].startswith("gradient_checkpointing"):
            again = {"use_reentrant": p["wrap"].endswith("reentrant")}
            self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=again)
        if p["wrap"] == "deepcopy":
            self.model = copy.deepcopy(self.model)
        if p["wrap"] == "pickle" and p["hook"] == "none":
            self.model = pickle.loads(pickle.dumps(self.model))
        self.model.train(p["mode"] != "eval")
        trained = [each for each in self.model.parameters() if each.requires_grad]
        self.optimizer = torch.optim.SGD(trained, lr=0.001) if trained else None
        self.call = self._called()

    def _layer(self) -> Any:
        """Return a module inside the encoder."""
        names = ("ayer", "Block")
        return next(each for each in self.model.modules() if type(each).__name__.endswith(names))

    def _special(self) -> None:
        with torch.no_grad():
            embedding = self.model.get_input_embeddings().weight
            chosen = self.p["special"]
            if chosen.endswith("embedding"):
                embedding[self._pad()] = float(chosen.partition(" ")[0])
            elif chosen == "nan in a weight":
                next(each for name, each in self.model.named_parameters() if "layer" in name)[0] = float("nan")
            elif chosen == "huge":
                embedding[3] = 1e30

    def _pad(self) -> int:
        return int(getattr(self.model.config, "pad_token_id", 0) or 0)

    def _hooks(self) -> None:
        name, layer = self.p["hook"], self._layer()
        modules = torch.nn.modules.module
        if name == "forward of a layer":
            layer.register_forward_hook(lambda _m, _i, out: self._note("a layer", out))
        elif name == "pre of a layer":
            layer.register_forward_pre_hook(
                lambda _m, given: self._note("a layer's input", given[0] if given else None)
            )
        elif name == "backward of a layer":
            inner = next(each for each in layer.modules() if type(each) is torch.nn.Linear)
            inner.register_full_backward_hook(lambda _m, _into, out: self._note("a gradient", out[0]))
        elif name == "forward of the pooler":
            for each in self.model.modules():
                if "Pooler" in type(each).__name__ or "Head" in type(each).__name__:
                    each.register_forward_hook(lambda _m, given, _out: self._note("the head's input", given[0]))
        elif name == "global forward":
            handle = modules.register_module_forward_hook(
                lambda module, _i, out: self._note("a layer", out) if module is layer else None
            )
            self.undo.callback(handle.remove)
        elif name == "of a weight":
            weight = next((each for each in self.model.parameters() if each.requires_grad), None)
            if weight is not None:
                weight.register_hook(lambda gradient: gradient * 2)
        elif name == "on the model":
            self.model.register_forward_hook(lambda _m, _i, out: self._note("logits", out[-1]))
        elif name == "forward of an instance":
            theirs = layer.forward
            layer.forward = lambda states, *args, **words: theirs(states - _first(states).mean(), *args, **words)
        elif name.endswith("forward of a class"):
            kind, theirs = type(layer), type(layer).forward

            def forward(module: Any, states: Any, *args: Any, **words: Any) -> Any:
                return theirs(module, states - states.mean(), *args, **words)

            kind.forward = functools.wraps(theirs)(forward) if name.startswith("wrapped") else forward
            self.undo.callback(setattr, kind, "forward", theirs)
        elif name == "method of an instance":
            method = next((each for each in ("feed_forward_chunk", "ff_chunk") if hasattr(layer, each)), "forward")
            inner = getattr(layer, method)
            setattr(layer, method, lambda states, *args, **words: inner(states - states.mean(), *args, **words))
        elif name == "causal layers":
            for each in self.model.modules():
                if hasattr(each, "is_causal"):
                    each.is_causal = True
        elif name.startswith("own attention"):
            attentions = importlib.import_module("transformers.modeling_utils").ALL_ATTENTION_FUNCTIONS
            theirs = attentions["sdpa"]

            def own(module: Any, query: Any, key: Any, value: Any, mask: Any, **words: Any) -> Any:
                return theirs(module, query - query.mean(), key, value, mask, **words)

            attentions["sdpa"] = functools.wraps(theirs)(own) if name.endswith("wrapped") else own
            self.undo.callback(attentions.__setitem__, "sdpa", theirs)
        elif name == "parametrized":
            inner = next(each for each in layer.modules() if type(each) is torch.nn.Linear)
            torch.nn.utils.parametrizations.spectral_norm(inner)
        elif name == "on embeddings":
            self.model.get_input_embeddings().register_forward_hook(lambda _m, _i, out: out * 1.5)

    def _note(self, label: str, out: Any) -> None:
        tensor = _first(out)
        if torch.is_tensor(tensor):
            self.record.tensor(label, tensor)

    def _mask(self, number: int) -> Any:
        """Return where tokens are: (rows, length) of bool."""
        (rows, length), how = self.p["shape"], self.p["rows"]
        chance = torch.Generator().manual_seed(self.p["seed"] * 100 + number)
        lengths = torch.randint(1, length + 1, (rows,), generator=chance)
        if how == "alike":
            lengths[:] = max(1, length // 2)
        elif how == "of one token":
            lengths[:] = 1
        elif how == "whole":
            lengths[:] = length
        elif how == "one long":
            lengths = lengths.clamp(max=3)
            lengths[-1] = length
        elif how == "two lengths":
            lengths = torch.where(lengths > length // 2, length, 2)
        mask = torch.arange(length) < lengths[:, None]
        if how == "left":
            mask = mask.flip(1)
        elif how == "holes":
            mask &= torch.rand(mask.shape, generator=chance) > 0.3
            mask[:, 0] = True
        elif how == "a row of padding alone":
            mask[0] = False
        elif how == "both sides":
            mask = mask.roll(1, 1)
        return mask

    def _given(self, number: int) -> tuple[Any, dict[str, Any]]:
        p = self.p
        is_token = self._mask(number)
        chance = torch.Generator().manual_seed(p["seed"] * 100 + number + 50)
        rows, length = p["shape"]
        ids = torch.randint(3, self.models.TOKENS, (rows, length), generator=chance)
        ids = torch.where(is_token, ids, self._pad())
        given: dict[str, Any] = {"input_ids": ids}
        kind = p["mask"]
        if kind in ("int64", "bool", "float32", "int32"):
            given["attention_mask"] = is_token.to(getattr(torch, kind))
        elif kind == "four dimensions":
            given["attention_mask"] = is_token[:, None, None, :].expand(rows, 1, length, length)
        elif kind != "none":
            given["attention_mask"] = is_token.long() * {"twos": 2, "large": 1 << 40, "negative": -1}[kind]
        if p["inputs"] == "types" and p["model"] in ("bert", "electra", "albert", "derived"):
            given["token_type_ids"] = (torch.arange(length) % 2).expand(rows, length).contiguous()
        if p["inputs"] == "positions":
            given["position_ids"] = torch.arange(length).flip(0).expand(rows, length).contiguous() % 100
        given = {name: laid(each, p["layout"])[0] if each.dim() == 2 else each for name, each in given.items()}
        if p["inputs"] == "embeds":
            embeds = self.model.get_input_embeddings()(given.pop("input_ids")).detach().requires_grad_()
            given["inputs_embeds"] = embeds
        labels: Any = torch.randint(0, 3, (rows,), generator=chance)
        if p["head"] == "choice":
            given = {name: each[:, None].expand(rows, 2, *each.shape[1:]) for name, each in given.items()}
            labels = labels.clamp(max=1)
        elif p["head"] == "regression":
            labels = labels.to(self.dtype)
        elif p["head"] == "several labels":
            labels = torch.nn.functional.one_hot(labels, 3).to(self.dtype)
        elif p["head"] == "token":
            labels = torch.where(is_token, ids % 3, -100)
        if p["head"] == "question":
            given["start_positions"], given["end_positions"] = labels, labels
        else:
            given["labels"] = labels
        args: tuple[Any, ...] = ()
        if p["inputs"] == "positional" and "attention_mask" in given and p["train"] != "lora":
            args = given.pop("input_ids"), given.pop("attention_mask")
        return args, given

    def _called(self) -> Any:
        model, wrap = self.model, self.p["wrap"]
        if wrap == "functional_call":
            numbers = dict(model.named_parameters())
            return lambda *args, **words: torch.func.functional_call(model, numbers, args, words)
        if wrap == "aot_eager":
            torch._dynamo.reset()  # after many programs it compiles no more
            return torch.compile(model, backend="aot_eager")
        if wrap == "compiled layers":
            torch._dynamo.reset()
            for each in self.model.modules():
                if type(each).__name__.endswith(("Layer", "Block")):
                    each.compile(backend="aot_eager")
        if wrap == "fp32 outputs":
            model.forward = _to_float32(model.forward)
        return model

    def step(self, number: int) -> None:
        p, record = self.p, self.record
        args, given = self._given(number)
        if self.optimizer and p["backward"] != "accumulated":
            self.optimizer.zero_grad()
        with contextlib.ExitStack() as stack:
            is_low = p["autocast"] != "none" and not record.is_exact
            stack.enter_context(torch.autocast("cpu", getattr(torch, p["autocast"], torch.bfloat16), enabled=is_low))
            if p["mode"] == "no_grad":
                stack.enter_context(torch.no_grad())
            if p["mode"] == "inference_mode":
                stack.enter_context(torch.inference_mode())
            if p["hook"] == "of saved tensors":
                stack.enter_context(torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t))
            if p["wrap"] == "mode of functions":
                stack.enter_context(_Functions(record))
            if p["wrap"] == "mode of dispatch":
                stack.enter_context(_Dispatch(record))
            if p["wrap"] in ("func.grad", "jvp"):
                self._transformed(args, given)
                return
            out = record.attempt("call", functools.partial(self.call, *args, **given, **p["words"]))
            if p["backward"] == "two forwards":
                out = self.call(*args, **given)
        loss, logits = (out[0], out[1]) if isinstance(out, tuple) else (out.loss, out[1])
        record.note("output", "has", [*getattr(out, "keys", list)()])
        record.tensor("loss", loss)
        record.tensor("logits", logits)
        for name in ("hidden_states", "attentions"):
            for each in getattr(out, name, None) or ():
                record.tensor(name, each)
        if loss is None or not loss.requires_grad:
            return
        self._backward(loss, given)
        for name, each in self.model.named_parameters():
            record.tensor(f"gradient of {name}", each.grad)
        if "inputs_embeds" in given and given["inputs_embeds"].is_leaf:
            record.tensor("gradient of embeds", given["inputs_embeds"].grad)
        if self.optimizer:
            self.optimizer.step()

    def _backward(self, loss: Any, given: dict[str, Any]) -> None:
        record, how = self.record, self.p["backward"]
        if how == "in a thread":
            from threading import Thread

            thread = Thread(target=loss.backward)
            thread.start()
            thread.join()
        elif how in ("grad", "create_graph"):
            trained = [each for each in self.model.parameters() if each.requires_grad]
            trained = trained or [given["inputs_embeds"]]
            grads = record.attempt(
                "backward", lambda: torch.autograd.grad(loss, trained, create_graph=how != "grad", allow_unused=True)
            )
            for each in grads:
                record.tensor("gradient", each)
            if how == "create_graph":
                norm = sum(each.double().square().sum() for each in grads if each is not None)
                if torch.is_tensor(norm) and norm.requires_grad:
                    record.attempt("backward", norm.backward)
        elif how == "twice":
            record.attempt("backward", functools.partial(loss.backward, retain_graph=True))
            record.attempt("backward", loss.backward)
        else:
            record.attempt("backward", (-loss if how == "negative" else loss).backward)

    def _transformed(self, args: Any, given: dict[str, Any]) -> None:
        numbers = {name: each.detach() for name, each in self.model.named_parameters()}

        def loss(numbers: Any) -> Any:
            return torch.func.functional_call(self.model, numbers, args, given).loss

        if self.p["wrap"] == "func.grad":
            made = self.record.attempt("call", lambda: torch.func.grad(loss)(numbers))
            for name, each in made.items():
                self.record.tensor(name, each)
        else:
            made = self.record.attempt("call", lambda: torch.func.jvp(loss, (numbers,), (numbers,)))
            self.record.tensor("jvp", made[1])


def _first(out: Any) -> Any:
    return out[0] if isinstance(out, tuple) and out else getattr(out, "last_hidden_state", out)


def _to_float32(forward: Any) -> Any:
    @functools.wraps(forward)
    def converted(*args: Any, **words: Any) -> Any:
        out = forward(*args, **words)
        if not isinstance(out, tuple):
            out.loss = out.loss.float()
        return out

    return converted


class _Functions(torch.overrides.TorchFunctionMode):
    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record = record

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func is torch.nn.functional.layer_norm:
            self.record.note("layer_norm", "has the shape", tuple(made.shape))
        return made


class _Dispatch(torch.utils._python_dispatch.TorchDispatchMode):
    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record = record

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if "layer_norm" in str(func) and "backward" not in str(func):
            self.record.note("layer_norm", "has the shape", tuple(made[0].shape))
        return made
