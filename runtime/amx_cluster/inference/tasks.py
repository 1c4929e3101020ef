"""Input and output of a model, for each task (known_models.TASKS).

Inputs are a mapping of tensors that a model's forward() takes, all with the same first dimension. Outputs are a mapping
of tensors with that dimension too, whatever the engine: `logits` (text-classification, image-classification,
text-ranking), `embedding` (feature-extraction: shape (entries, size), fp32),
`start_logits` and `end_logits` (question-answering), `tokens` (text-generation: the new tokens, shape (entries,
new_tokens), -1 after the end of a text, -2 where logits were NaN or infinite).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from amx_cluster.inference.loaded import Loaded, Unavailable
from ansible_collections.amx.cluster.plugins.module_utils._data import answers, chats, model_files
from ansible_collections.amx.cluster.plugins.module_utils._data.sentence_models import EMBEDDING, RANKING, SIGMOID
from ansible_collections.amx.cluster.plugins.module_utils._jobs.known_models import COLUMNS, columns_in

# Beside known_models.PREDICTED, where a prompt has more tokens than the model reads: how many of its first were cut.
CUT = "prompt_tokens_cut"
# Tokens that two parts of a context share that is longer than the model reads at once, and the longest answer.
STRIDE = 64
ANSWER_TOKENS = 30
# Characters of a text that is always encoded whole, and the tokens by which the beginning of a longer one has to be
# longer than what the model reads, as its last ones may differ from those of the whole text.
FREE, MARGIN = 1 << 14, 64
# Characters of a beginning for each token: more than most tokens have.
CHARACTERS = 8
# Digits after the point of a number of an embedding, whose length is about 1: more than fp32 has.
DIGITS = 8


class Tokens(tuple[int, ...]):
    """A text that came as the numbers of its tokens, special ones included."""


class Inputs(dict[str, Any]):
    """Tensors by the names of forward()'s arguments, and what decode needs to know of them.

    rows: for each entry the index of the row that it is of; a question with a long context has several entries.
    offsets: for each entry, for question-answering, the characters (first, after the last) of each token in the
    context, None for tokens outside it. cut: for each entry, for text-generation, how many tokens were left out.
    unmasked: whether only entries of one length may be asked together.
    """

    rows: list[int]
    offsets: list[list[tuple[int, int] | None]]
    unmasked = False

    def __init__(
        self, tensors: Mapping[str, Any], rows: Sequence[int] = (), offsets: Sequence[Any] = (), cut: Sequence[int] = ()
    ) -> None:
        super().__init__(tensors)
        self.rows = list(rows) or list(range(self.entries()))
        self.offsets = list(offsets)
        self.cut = list(cut) or [0] * self.entries()

    def entries(self) -> int:
        """Return the first dimension of the tensors."""
        return len(next(iter(self.values()))) if self else 0


def choose_columns(task: str, names: Sequence[str]) -> list[str]:
    """Return the columns of a file with these names that a task reads. Raises ValueError when it has none."""
    columns = columns_in(task, names)
    if columns:
        return columns
    choices = " or ".join("+".join(columns) for columns in COLUMNS[task])
    raise ValueError(f"{task} needs the columns {choices}, and there are: {', '.join(names)}")


def synthetic(loaded: Loaded, batch_size: int, sequence_length: int | None, seed: int) -> Inputs:
    """Return random inputs: (batch_size, sequence_length) tokens without padding, or pictures (batch_size, 3, edge,
    edge) of `loaded.image_size`. The same seed gives the same inputs.

    Raises Unavailable for a sequence that is longer than the model takes.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    if loaded.task == "image-classification":
        channels = int(getattr(loaded.config, "num_channels", 3))
        shape = (batch_size, channels, loaded.image_size, loaded.image_size)
        return Inputs({"pixel_values": torch.randn(shape, generator=generator)})
    length = sequence_length or 128
    check_length(loaded, length, loaded.new_tokens)
    # The first numbers of a vocabulary are special tokens: padding among them changes what the model does.
    first = min(999, int(loaded.config.vocab_size) // 2)
    tokens = torch.randint(first, int(loaded.config.vocab_size), (batch_size, length), generator=generator)
    tensors = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    if "token_type_ids" in getattr(loaded.tokenizer, "model_input_names", ()):  # a trace takes what it was made with
        tensors["token_type_ids"] = torch.zeros_like(tokens)
    return Inputs(model_files.without_types(tensors, loaded.config))


def check_length(loaded: Loaded, sequence_length: int, new_tokens: int = 0) -> None:
    """Raise Unavailable when the model cannot take so many tokens."""
    longest = loaded.longest()
    if longest is not None and sequence_length + new_tokens > longest:
        addition = f" with {new_tokens} new ones" if new_tokens else ""
        raise Unavailable(
            f"{loaded.name} takes at most {longest} tokens, and sequence_length is {sequence_length}{addition}"
        )


def encode(
    loaded: Loaded,
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    sequence_length: int | None,
    fixed: bool = False,
) -> Inputs:
    """Turn rows into inputs. `columns`: one or two texts; question and context; a prompt; the path of a picture.

    Texts are cut to sequence_length tokens (None: the model's longest), prompts at their beginning, but not within a
    chat template. Long contexts of question-answering become several entries that overlap. Padded to the longest of
    them; fixed: to sequence_length, so that every call has the same shape. Raises Unavailable where the model has no
    tokenizer (image processor), and ValueError, KeyError or OSError for a row that is broken - encode rows one by one
    to find out which.
    """
    if loaded.task == "image-classification":
        return _pictures(loaded, [row[columns[0]] for row in rows])
    if loaded.tokenizer is None:
        raise Unavailable(f"{loaded.name} has no tokenizer: its directory needs tokenizer.json or vocab.txt")
    length = sequence_length or loaded.longest() or 512
    check_length(loaded, length)
    tokenizer = loaded.tokenizer
    if loaded.task == "text-generation":
        return _prompts(loaded, rows, columns[0], length, fixed)
    for row in rows:
        for column in columns:
            if not isinstance(row[column], (str, Tokens)):
                raise ValueError(f"{column} is {row[column]!r}, not a text")
    texts = [[row[column] for row in rows] for column in columns]
    options: dict[str, Any] = {
        "max_length": length,
        "padding": "max_length" if fixed else "longest",
        "return_tensors": "pt",
    }
    if loaded.task == "question-answering":
        return _questions(loaded, texts, options)
    tokenizer.padding_side, tokenizer.truncation_side = model_files.padding_side(loaded.config), "right"
    unmasked = loaded.config.model_type in model_files.UNMASKED
    prompt = loaded.sentences.get("prompt") or ""
    texts[0] = [text if isinstance(text, Tokens) else prompt + text for text in texts[0]]
    texts = [[text if isinstance(text, Tokens) else bounded(loaded, text, length) for text in each] for each in texts]
    if any(isinstance(text, Tokens) for text in texts[0]):
        encoded = _of_tokens(tokenizer, texts[0], options)
    else:
        encoded = tokenizer(*texts, truncation=True, return_attention_mask=unmasked or None, **options)
    model_files.check_tokens(encoded["input_ids"].tolist(), loaded.config, tokenizer)
    inputs = Inputs(_of_forward(loaded, encoded))
    inputs.unmasked = unmasked
    return inputs


def bounded(loaded: Loaded, text: str, length: int) -> str:
    """Return a text, of a long one a beginning, that has the same first tokens, so many as the model reads.

    To encode all of a text of megabytes takes gigabytes, and half a minute. A beginning is enough where twice its half
    makes no difference to the tokens. Of two long texts that are read together, the other one may get an odd token.
    """
    size = max(FREE, CHARACTERS * (length + MARGIN))

    def encoded(characters: int) -> list[int]:
        tokens = loaded.tokenizer(text[:characters], add_special_tokens=False, verbose=False)["input_ids"]
        return list(tokens)

    before: list[int] = []
    while size < len(text):
        tokens = encoded(size)
        if len(tokens) > length + MARGIN and tokens[:length] == before[:length]:
            return text[:size]
        size, before = 2 * size, tokens
    return text


def _of_tokens(tokenizer: Any, texts: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Return what a tokenizer does for texts of which some came as tokens."""
    parts = []
    for text in texts:
        if isinstance(text, Tokens):
            ids = list(text)[: options["max_length"]]
            made = {"input_ids": ids, "attention_mask": [1] * len(ids), "token_type_ids": [0] * len(ids)}
        else:
            encoded = tokenizer(text, truncation=True, max_length=options["max_length"], return_attention_mask=True)
            made = {"token_type_ids": [0] * len(encoded["input_ids"]), **encoded}
        parts.append(made)
    return tokenizer.pad(parts, **options)


def _prompts(loaded: Loaded, rows: Sequence[Mapping[str, Any]], column: str, length: int, fixed: bool) -> Inputs:
    """Return the inputs of prompts, padded on the left. Raises ValueError for one that the model cannot go on with."""
    import torch

    tokenizer, longest = loaded.tokenizer, loaded.longest()
    begin = tokenizer.bos_token_id
    encoded, cut = [], []
    for ids in chats.prompts(rows, column, tokenizer, loaded.by_template):
        if len(ids) > length and loaded.by_template:
            raise ValueError(
                f"it has {len(ids)} tokens within the chat template, and sequence_length is {length}: shorten it, or "
                "set sequence_length"
            )
        if not ids and begin is None:
            raise ValueError("the prompt is empty, and the model has no token that a text begins with")
        kept = ids or [begin]
        if len(ids) > length:  # the end of a prompt is what is gone on with
            kept = [begin, *ids[len(ids) - length + 1 :]] if ids[0] == begin and length > 1 else ids[-length:]
        if longest is not None and len(kept) + loaded.new_tokens > longest:
            raise ValueError(
                f"it has {len(kept)} tokens, and with {loaded.new_tokens} new ones more than the {longest} positions "
                "of the model: shorten it, or set a smaller sequence_length or new_tokens"
            )
        encoded.append(kept)
        cut.append(max(0, len(ids) - length))
    model_files.check_tokens(encoded, loaded.config, tokenizer)
    width = length if fixed else max(map(len, encoded))
    padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id or 0
    tensors = {
        "input_ids": torch.tensor([[padding] * (width - len(ids)) + ids for ids in encoded]),
        "attention_mask": torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in encoded]),
    }
    return Inputs(tensors, cut=cut)


def _of_forward(loaded: Loaded, encoded: Mapping[str, Any]) -> dict[str, Any]:
    names = ("input_ids", "attention_mask", "token_type_ids")
    kept = {name: encoded[name] for name in names if name in encoded}
    return model_files.without_types(kept, loaded.config)


def _questions(loaded: Loaded, texts: Sequence[Sequence[str]], options: Mapping[str, Any]) -> Inputs:
    tokenizer = loaded.tokenizer
    if not tokenizer.is_fast:
        raise Unavailable(f"{loaded.name}: question-answering needs a fast tokenizer (tokenizer.json)")
    tokenizer.padding_side = tokenizer.truncation_side = "right"
    length = options["max_length"]
    stride = min(STRIDE, length // 4)
    # A question may take half of the tokens: the context has to move on.
    questions = []
    for text in (text.strip() for text in texts[0]):
        where = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        questions.append(text[: where[: length // 2][-1][1]] if where else text)
    encoded = tokenizer(
        questions,
        list(texts[1]),
        truncation="only_second",
        stride=stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        **options,
    )
    model_files.check_tokens(encoded["input_ids"].tolist(), loaded.config, tokenizer)
    rows = encoded["overflow_to_sample_mapping"].tolist()
    offsets = [
        [tuple(where) if inside == 1 else None for inside, where in zip(encoded.sequence_ids(part), spans)]
        for part, spans in enumerate(encoded["offset_mapping"].tolist())
    ]
    return Inputs(_of_forward(loaded, encoded), rows, offsets)


def _pictures(loaded: Loaded, paths: Sequence[str]) -> Inputs:
    if loaded.image_processor is None:
        raise Unavailable(
            f"{loaded.name} cannot read pictures: that needs preprocessor_config.json in its directory, and Pillow "
            "(`requirements: [pillow]` in the job)"
        )
    import PIL.Image

    pictures = []
    for path in paths:
        with PIL.Image.open(path) as picture:
            pictures.append(picture.convert("RGB"))
    return Inputs({"pixel_values": loaded.image_processor(pictures, return_tensors="pt")["pixel_values"]})


def in_batches(
    call: Callable[[Inputs], Mapping[str, Any]], inputs: Inputs, batch_size: int, fixed: bool = False
) -> dict[str, Any]:
    """Ask a model about any number of inputs, batch by batch; return the outputs of all of them in their order.

    Entries of like length come together, without the padding that they do not need. fixed: every call has the shape
    (batch_size, length of the inputs); the last batch is filled up with copies.
    """
    import torch

    count = inputs.entries()
    order = list(range(count))
    mask = inputs.get("attention_mask")
    lengths = mask.sum(dim=1).tolist() if mask is not None else [0] * count
    if not fixed and mask is not None:
        order.sort(key=lambda entry: lengths[entry])
    computed: list[Mapping[str, Any]] = []
    left_over = list(order)
    while left_over:
        chosen = left_over[:batch_size]
        if inputs.unmasked and not fixed:
            chosen = [entry for entry in chosen if lengths[entry] == lengths[chosen[0]]]
        del left_over[: len(chosen)]
        filled = chosen + chosen[-1:] * (batch_size - len(chosen)) if fixed else chosen
        batch = {name: tensor[filled] for name, tensor in inputs.items()}
        if not fixed and mask is not None:
            longest = max(1, max(lengths[entry] for entry in chosen))
            left = bool((batch["attention_mask"][:, 0] == 0).any())  # padded on the left, for generation
            cut = slice(-longest, None) if left else slice(0, longest)
            batch = {name: tensor[:, cut] for name, tensor in batch.items()}
        outputs = call(Inputs(batch))
        computed.append({name: tensor[: len(chosen)].clone() for name, tensor in outputs.items()})
    if not computed:
        return {}
    place = torch.tensor(order).argsort()
    return {name: _joined([part[name] for part in computed])[place] for name in computed[0]}


def _joined(parts: Sequence[Any]) -> Any:
    """Concatenate outputs whose lengths may differ: logits of padding become the least there is."""
    import torch

    if parts[0].dim() != 2 or len({part.shape[1] for part in parts}) == 1:
        return torch.cat(list(parts))
    longest = max(part.shape[1] for part in parts)
    least = torch.finfo(torch.float32).min
    return torch.cat(
        [torch.nn.functional.pad(part.float(), (0, longest - part.shape[1]), value=least) for part in parts]
    )


def decode(
    loaded: Loaded, outputs: Mapping[str, Any], inputs: Inputs, rows: Sequence[Mapping[str, Any]], columns: Any = None
) -> list[dict[str, Any]]:
    """Return the predicted columns (known_models.PREDICTED) of each row; `outputs` are those of all of its `inputs`.

    columns: as for encode, question-answering needs them where they have other names than question and context.
    A label is a name of the configuration's id2label, its score the probability (0 to 1). A model of regression
    predicts `predicted_score` alone, one of several labels at once those above one half, joined by `;`.
    """
    if loaded.task == "question-answering":
        return _answers(outputs, inputs, rows, (columns or COLUMNS[loaded.task][0])[1])
    if loaded.task == "text-generation":
        return [{**text, **({CUT: cut} if cut else {})} for text, cut in zip(_texts(loaded, outputs), inputs.cut)]
    if loaded.task == EMBEDDING:
        return [{"predicted_embedding": row} for row in outputs["embedding"].double().round(decimals=DIGITS).tolist()]
    logits = outputs["logits"].float()
    if loaded.task == RANKING and loaded.sentences["activation"] == SIGMOID:
        logits = logits.sigmoid()
    names = loaded.config.id2label
    kind = getattr(loaded.config, "problem_type", None)
    if kind == "regression" or logits.shape[1] == 1:
        return [{"predicted_score": value} for value in logits[:, 0].tolist()]
    if kind == "multi_label_classification":
        return [
            {
                "predicted_label": ";".join(str(names[label]) for label, value in enumerate(row) if value > 0.5),
                "predicted_score": max(row),
            }
            for row in logits.sigmoid().tolist()
        ]
    scores, labels = logits.softmax(dim=1).max(dim=1)
    return [
        {"predicted_label": str(names[label]), "predicted_score": score}
        for label, score in zip(labels.tolist(), scores.tolist())
    ]


def _answers(
    outputs: Mapping[str, Any], inputs: Inputs, rows: Sequence[Mapping[str, Any]], context: str
) -> list[dict[str, Any]]:
    best: dict[int, tuple[float, str]] = {}
    starts, ends = outputs["start_logits"].float(), outputs["end_logits"].float()
    for entry, row in enumerate(inputs.rows):
        span = answers.best_span(starts[entry].tolist(), ends[entry].tolist(), inputs.offsets[entry], ANSWER_TOKENS)
        if span is not None and (row not in best or span[0] > best[row][0]):
            best[row] = span[0], str(rows[row][context])[slice(*span[1])]
    empty = (None, "")
    return [
        {"predicted_answer": best.get(row, empty)[1], "predicted_score": best.get(row, empty)[0]}
        for row in range(len(rows))
    ]


def _texts(loaded: Loaded, outputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    if loaded.tokenizer is None:
        raise Unavailable(f"{loaded.name} has no tokenizer: its directory needs tokenizer.json or vocab.txt")
    known = [[token for token in row if token >= 0] for row in outputs["tokens"].tolist()]
    return [{"generated_text": text} for text in loaded.tokenizer.batch_decode(known, skip_special_tokens=True)]
