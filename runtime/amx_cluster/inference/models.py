"""The models of the inference benchmark: from a directory, or of a well-known architecture with random weights.

Nothing here needs a hub. A *cell* is a mapping of which these keys count: `model` (a name for messages), `task`, and
one of `path` (a directory as save_pretrained writes it), `small` and `configured` (a name of ARCHITECTURES: a small
variant of it, or one of its full size, both with random weights of a fixed seed).
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amx_cluster.inference.architectures import ARCHITECTURES
from amx_cluster.inference.loaded import Loaded, Unavailable
from ansible_collections.amx.cluster.plugins.module_utils._data import contents, model_files, sentence_models
from ansible_collections.amx.cluster.plugins.module_utils._jobs import known_models
from ansible_collections.amx.cluster.plugins.module_utils._jobs.inference_requests import INT8
from ansible_collections.amx.cluster.plugins.module_utils._jobs.known_models import EMBEDDING, RANKING

# The class of transformers that loads a model for a task.
AUTO_CLASSES = {
    "text-classification": "AutoModelForSequenceClassification",
    "question-answering": "AutoModelForQuestionAnswering",
    "text-generation": "AutoModelForCausalLM",
    "image-classification": "AutoModelForImageClassification",
    EMBEDDING: "AutoModel",
    RANKING: "AutoModelForSequenceClassification",
}
SEED = 20
# Any of them in a model's directory: it has a tokenizer.
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "tokenizer.model")
# Ends of the names of classes that were trained without a head for a task: theirs is new.
PRETRAINED = ("Model", "ForMaskedLM", "ForPreTraining", "ForCausalLM")
GENERATES = ("ForCausalLM", "LMHeadModel")
# What a process has in memory with torch and transformers, before any model (measured: docs/inference_engines.md).
PROCESS_BYTES = 350_000_000


def load(cell: Mapping[str, Any], new_head: bool = False) -> Loaded:
    """Load a cell's model for its task: eval mode, fp32, on the CPU, without any access to a hub.

    A relative `path` is one in the job directory. new_head: a model that was trained for another task has a head of
    random weights. Raises Unavailable, before anything large is read, for a directory that is missing or is no model's,
    a model of another task, and a name that is not in ARCHITECTURES; then for files that lack weights.
    """
    config = configuration(cell)
    automatic = _automatic(cell, config)
    directory = model_directory(cell)
    sentences = _sentences(cell, config, directory)
    how = getattr(config, INT8, None) or {}
    missing: list[str] = []
    if directory is None or how:
        import torch

        torch.manual_seed(SEED)
        model = automatic.from_config(config).float().eval()
        if directory is not None:
            from amx_cluster.inference import int8

            int8.restore(model, directory, how)
    else:
        try:
            model, missing = model_files.load_weights(
                automatic,
                str(directory),
                config,
                new_head=new_head,
                without_pooler=cell["task"] == EMBEDDING,
                local_files_only=True,
            )
        except model_files.ModelError as error:
            raise Unavailable(str(error)) from error
    model = model.float().eval().requires_grad_(False)
    tokenizer = _tokenizer(directory)
    if tokenizer is not None and cell["task"] != known_models.GENERATION:
        try:
            model_files.set_padding(tokenizer, model.config)
        except model_files.ModelError as error:
            raise Unavailable(f"the model {cell['model']}: {error}") from error
    return Loaded(
        name=cell["model"],
        model=model,
        config=config,
        task=cell["task"],
        tokenizer=tokenizer,
        image_processor=_image_processor(directory),
        image_size=_image_size(cell, config, directory),
        new_weights=missing,
        random=directory is None,
        int8=how.get("inputs", ""),
        by_template=_by_template(cell, config, tokenizer),
        new_tokens=int(cell.get("new_tokens") or 0) if cell["task"] == "text-generation" else 0,
        sentences=sentences,
    )


def _sentences(cell: Mapping[str, Any], config: Any, directory: Path | None) -> dict[str, Any]:
    """Return how vectors and scores of texts are made; of other tasks nothing. Raises Unavailable."""
    if cell["task"] not in (EMBEDDING, RANKING):
        return {}
    config.use_cache = False
    try:
        return sentence_models.described(directory, config.to_dict()) if directory else sentence_models.PLAIN
    except ValueError as error:
        raise Unavailable(f"the model {cell['model']}: {error}") from error


def _by_template(cell: Mapping[str, Any], config: Any, tokenizer: Any) -> bool:
    """Return whether prompts go through the chat template: as the cell says, else as the model was trained, else where
    it has one. A cell without the key asks without it."""
    if cell["task"] != "text-generation" or tokenizer is None:
        return False
    wanted = cell.get("chat_template", False)
    if wanted is None:
        trained = getattr(config, model_files.TRAINED_ON, None)
        wanted = trained == "chats" if trained else bool(tokenizer.chat_template)
    if wanted and not tokenizer.chat_template:
        raise Unavailable(
            f"the tokenizer of {cell['model']} has no chat template: set chat_template: false to ask without it"
        )
    return bool(wanted)


def model_directory(cell: Mapping[str, Any]) -> Path | None:
    """Return the directory of a cell's model, None for a variant from a configuration. Raises Unavailable."""
    if not cell.get("path"):
        return None
    directory = Path(os.environ.get("AMX_CLUSTER_JOB", "."), cell["path"])
    if not directory.is_dir():
        raise Unavailable(f"the model {cell['model']} is missing: there is no directory {directory}")
    if not (directory / "config.json").is_file():
        raise Unavailable(f"the model {cell['model']} has no config.json in {directory}: name a model's directory")
    return directory


def configuration(cell: Mapping[str, Any]) -> Any:
    """Return the configuration (of transformers) of a cell's model, which fits its task; raises Unavailable."""
    import transformers

    directory = model_directory(cell)
    if directory is not None:
        try:
            config = transformers.AutoConfig.from_pretrained(str(directory), local_files_only=True)
        except (OSError, ValueError, KeyError) as error:
            raise Unavailable(f"the model {cell['model']} cannot be read: {_short(error)}") from error
    else:
        name = cell.get("small") or cell.get("configured")
        if name not in ARCHITECTURES:
            raise Unavailable(f"the model {cell['model']} is not one of {', '.join(ARCHITECTURES)}, and has no path")
        architecture = ARCHITECTURES[name]
        config = getattr(transformers, architecture.config)(
            **(architecture.small if cell.get("small") else architecture.full)
        )
    _check_task(cell, config)
    return config


def _check_task(cell: Mapping[str, Any], config: Any) -> None:
    task = cell["task"]
    automatic = _automatic(cell, config)
    variant = cell.get("small") or cell.get("configured")
    if not cell.get("path") and variant in ARCHITECTURES and task not in known_models.MODELS[variant].tasks:
        raise Unavailable(f"{cell['model']} does {', '.join(known_models.MODELS[variant].tasks)}: not {task}")
    classes = automatic._model_mapping.get(type(config), None)
    if classes is None:
        raise Unavailable(f"{cell['model']} is a {config.model_type}, for which transformers has no model for {task}")
    names = {class_.__name__ for class_ in (classes if isinstance(classes, tuple) else (classes,))}
    trained = next(iter(getattr(config, "architectures", None) or []), "")
    if task == "text-generation":
        fits = not trained or trained.endswith(GENERATES)
    else:
        fits = not trained or trained in names or trained.endswith((*PRETRAINED, *GENERATES))
    if task == RANKING:
        if trained not in names:
            config.num_labels = 1  # of a new head
        elif config.num_labels != 1:
            raise Unavailable(f"{cell['model']} has {config.num_labels} labels, and {task} needs a model with one")
    if task == EMBEDDING and (config.is_encoder_decoder or not hasattr(config, "vocab_size")):
        raise Unavailable(f"{cell['model']} is a {trained}, and {task} needs an encoder of texts")
    if not fits:
        raise Unavailable(f"{cell['model']} is a {trained}, which is not a model for {task}")


def task_of(cell: Mapping[str, Any]) -> str:
    """Return the task that a cell's model was trained for. Raises Unavailable where its config.json does not say it."""
    import transformers

    directory = model_directory(cell)
    config = transformers.AutoConfig.from_pretrained(str(directory), local_files_only=True)
    trained = next(iter(config.architectures or []), "")
    task = known_models.tasks_of(config.to_dict())[0]
    if not task:
        known = ", ".join(known_models.TASKS)
        raise Unavailable(f"{directory} is a {trained or 'model of no class'}, and models for {known} are run")
    return task


def _automatic(cell: Mapping[str, Any], config: Any) -> Any:
    """Return transformers' class that loads the model; raises Unavailable for a task that is none."""
    import transformers

    if cell["task"] not in AUTO_CLASSES:
        raise Unavailable(f"{cell['task']} is not one of the tasks {', '.join(AUTO_CLASSES)}")
    return getattr(transformers, AUTO_CLASSES[cell["task"]])


def _tokenizer(directory: Path | None) -> Any:
    import transformers

    if directory is None or not any((directory / name).is_file() for name in TOKENIZER_FILES):
        return None
    try:
        return transformers.AutoTokenizer.from_pretrained(str(directory), local_files_only=True)
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise Unavailable(f"the tokenizer in {directory} cannot be read: {_short(error)}") from error


def _image_processor(directory: Path | None) -> Any:
    """Return what turns pictures into tensors; None without Pillow, which the stacks do not have."""
    if directory is None or not (directory / "preprocessor_config.json").is_file():
        return None
    if importlib.util.find_spec("PIL") is None:
        return None
    import transformers

    try:
        return transformers.AutoImageProcessor.from_pretrained(str(directory), local_files_only=True)
    except (OSError, ValueError, ImportError):
        return None


def _image_size(cell: Mapping[str, Any], config: Any, directory: Path | None) -> int:
    """Return the pixels of an edge that the model is asked with; 0 for other tasks."""
    if cell["task"] != "image-classification":
        return 0
    if directory is None:
        full, small = ARCHITECTURES[cell.get("small") or cell["configured"]].image_size
        return small if cell.get("small") else full
    size = getattr(config, "image_size", None)
    if not isinstance(size, int):
        try:
            size = json.loads((directory / "preprocessor_config.json").read_text(encoding="utf-8"))["size"]
        except (OSError, ValueError, KeyError):
            size = None
        if isinstance(size, dict):
            size = size.get("height") or size.get("shortest_edge")
    return size if isinstance(size, int) else 224


# ------------------------------------------------------------------------------------------------------------- memory


def weights(cell: Mapping[str, Any]) -> int:
    """Return the parameters of a cell's model, without loading it. Raises Unavailable.

    From the headers of the safetensors in its directory; else from its configuration, built without memory.
    """
    directory = model_directory(cell)
    files = sorted(directory.glob("*.safetensors")) if directory else []
    if files:
        try:
            return sum(math.prod(tensor["shape"]) for file in files for tensor in contents.header(file).values())
        except (OSError, ValueError) as error:
            raise Unavailable(str(error)) from error
    import torch

    config = configuration(cell)
    with torch.device("meta"):
        model = _automatic(cell, config).from_config(config)
    return sum(parameter.numel() for parameter in model.parameters())


def needed_bytes(cell: Mapping[str, Any], parameters: int, config: Any = None) -> int:
    """Estimate the memory of one instance of a cell at its peak, in bytes: the process, weights, activations.

    Weights are loaded in fp32, and in the cell's precision besides while they are converted. parameters: see weights.
    """
    copies = {"fp32": 4, "bf16": 6, "fp16": 6, "int8": 5}[cell["precision"]]
    # torch.compile keeps packed copies of the weights, a frozen trace too.
    packed = {"eager": 0, "ipex": 4}.get(cell["engine"], 4 if cell["precision"] == "fp32" else 2)
    return PROCESS_BYTES + parameters * (copies + packed) + _activations(cell, config)


def _activations(cell: Mapping[str, Any], config: Any) -> int:
    """Bytes of the largest values that live at once: a layer's, the attention's, the logits, and the KV cache."""
    batch = int(cell.get("batch_size") or 1)
    if config is None:
        return 0
    if cell["task"] == "image-classification":
        # ResNet's first feature maps are its largest: 64 channels of a quarter of the pixels, some of them at once.
        return batch * 4 * 8 * 64 * 112 * 112
    tokens = batch * (int(cell.get("sequence_length") or 128) + int(cell.get("new_tokens") or 0))
    hidden = int(getattr(config, "hidden_size", 0) or getattr(config, "dim", 768))
    layers = int(getattr(config, "num_hidden_layers", 0) or getattr(config, "n_layers", 12))
    inner = int(getattr(config, "intermediate_size", 0) or getattr(config, "hidden_dim", 4 * hidden))
    layer = tokens * (8 * hidden + 3 * inner) * 4
    cache = 2 * tokens * hidden * layers * 4 if cell["task"] == "text-generation" else 0
    logits = batch * int(config.vocab_size) * 4 * 2 if cell["task"] == "text-generation" else 0
    return layer + cache + logits


def available_bytes(root: Path = Path("/")) -> int:
    """Return the memory that this process may still take: MemAvailable, and what its cgroups (version 1 or 2) leave.

    root: where /proc and /sys are. Raises OSError when /proc/meminfo cannot be read.
    """
    meminfo = (root / "proc/meminfo").read_text(encoding="ascii")
    lines = dict(line.split(":", 1) for line in meminfo.splitlines() if ":" in line)
    return min([int(lines["MemAvailable"].split()[0]) * 1024, *_cgroup_rooms(root)])


def _cgroup_rooms(root: Path) -> list[int]:
    rooms = []
    try:
        membership = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    for line in membership:
        _number, controllers, path = line.split(":", 2)
        if controllers == "":
            base, names = root / "sys/fs/cgroup", ("memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            base, names = root / "sys/fs/cgroup/memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        # In a container the path may be that of the host, which is not there: its own group is the root then.
        inside = [base / path.lstrip("/"), *(base / path.lstrip("/")).parents]
        for directory in inside[: inside.index(base) + 1] if base in inside else [base]:
            try:
                limit = (directory / names[0]).read_text(encoding="ascii").strip()
                used = int((directory / names[1]).read_text(encoding="ascii"))
                stat = dict(line.split() for line in (directory / "memory.stat").read_text().splitlines())
            except (OSError, ValueError):
                continue
            if limit != "max":
                cached = int(stat.get("total_inactive_file", stat.get("inactive_file", 0)))
                rooms.append(max(0, int(limit) - used + cached))
    return rooms


def check_memory(cell: Mapping[str, Any], instances: int) -> None:
    """Raise Unavailable when this host cannot take so many instances, before any of them has loaded its model."""
    needed, room = needed_bytes(cell, weights(cell), configuration(cell)), available_bytes()
    if needed * instances > room:
        raise Unavailable(
            f"{cell['model']} in {cell['precision']} needs about {gibibytes(needed)} for each of {instances} "
            f"instance{'s' * (instances != 1)}, {gibibytes(needed * instances)} in all, and the host has "
            f"{gibibytes(room)} left: use fewer instances, smaller batches or a smaller model"
        )


def gibibytes(size: int) -> str:
    """Return bytes for a message."""
    return f"{size / 2**30:.1f} GiB"


def _short(error: BaseException) -> str:
    """Return the first line of an error, at most 300 characters."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
