from __future__ import annotations

import json
import re
import traceback
from dataclasses import fields
from pathlib import Path
from typing import Any

import job_schema
import jsonschema
import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._documents import plain
from ansible_collections.amx.cluster.plugins.module_utils._jobs import batches
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import (
    DEFAULTS,
    Checkpoints,
    Job,
    Measure,
    Prepare,
    Source,
    Watch,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import FIELDS, JobFileError, load, parse

SCHEMA = jsonschema.Draft202012Validator(job_schema.schema())
EXAMPLE = "transformers/examples/pytorch/question-answering/run_qa.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two scripts for jobs."""
    for name in ("train.py", "prepare.py", "other/train.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def errors(folder: Path, text: str) -> list[str]:
    """What is wrong with a job file of this text."""
    (folder / "job.yml").write_text(text)
    with pytest.raises(JobFileError) as caught:
        load(folder / "job.yml")
    return caught.value.errors


def test_every_field_has_a_form_and_a_default_that_its_form_accepts(folder: Path) -> None:
    assert list(FIELDS) == [each.name for each in fields(Job) if each.name not in ("file", "secrets")]
    data = {name: value for name, value in plain(DEFAULTS).items() if FIELDS.get(name) and value not in (None, {}, [])}
    job = parse({"name": "a", "script": "train.py", "project": ".", **data}, folder / "job.yml")
    assert {name: getattr(job, name) for name in data} == {name: DEFAULTS[name] for name in data}


def test_defaults(folder: Path) -> None:
    (folder / "job.yml").write_text("{name: a, script: train.py}")
    assert load(folder / "job.yml") == Job(file=folder / "job.yml", name="a", script=folder / "train.py")


def test_every_field(folder: Path) -> None:
    (folder / "job.yml").write_text(
        """
        name: bert-2.x_y
        description: All of it
        script: other/../train.py
        args: {learning_rate: 1.0e-4, fp16: false, layers: [1, 2]}
        prepare: {script: prepare.py, args: {pairs: 3}}
        models: {minilm: {package: minilm==1.0+cpu, path: minilm/model}}
        metrics: {squad: {hub: evaluate-metric/squad}}
        requirements: ["peft[x,y]==0.1"]
        precision: bf16
        hosts: 2
        ranks_per_node: <=2
        comm_cores: 0
        reserved_cores: auto
        threads_per_core: 2
        env: {KMP_BLOCKTIME: 1, LD_PRELOAD: ""}
        env_launcher: {I_MPI_HYDRA_BRANCH_COUNT: 16}
        env_from: [HF_TOKEN, WANDB_API_KEY, HF_TOKEN]
        expect: {eval_accuracy: 1}
        restarts: 2
        min_hosts: 1
        keep_global_batch: true
        stall_seconds: 0
        wait: true
        kind: ranks
        launcher: torchrun
        watch: {gradients: false}
        """
    )
    assert load(folder / "job.yml") == Job(
        file=folder / "job.yml",
        name="bert-2.x_y",
        description="All of it",
        script=folder / "train.py",
        args={"learning_rate": 1e-4, "fp16": False, "layers": [1, 2]},
        prepare=Prepare(folder / "prepare.py", {"pairs": 3}),
        models={"minilm": Source(package="minilm==1.0+cpu", path="minilm/model")},
        metrics={"squad": Source(hub="evaluate-metric/squad")},
        requirements=["peft[x,y]==0.1"],
        precision="bf16",
        hosts=2,
        ranks_per_node="<=2",
        comm_cores=0,
        reserved_cores="auto",
        threads_per_core=2,
        env={"KMP_BLOCKTIME": "1", "LD_PRELOAD": ""},
        env_launcher={"I_MPI_HYDRA_BRANCH_COUNT": "16"},
        env_from=["HF_TOKEN", "WANDB_API_KEY"],
        expect={"eval_accuracy": 1.0},
        restarts=2,
        min_hosts=1,
        keep_global_batch=True,
        stall_seconds=0,
        wait=True,
        kind="ranks",
        launcher="torchrun",
        watch=Watch(gradients=False),
    )


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("threads_per_core: all", "threads_per_core", "all"),
        ("hosts: [node2, node0]", "hosts", ["node2", "node0"]),
        ("measure: false", "measure", None),
        ("measure: true", "measure", Measure()),
        ("measure: {}", "measure", Measure()),
        ("measure: {split: false}", "measure", Measure(split=False)),
        ("measure: {profile: 3}", "measure", Measure(profile=3)),
        ("measure: {profile: true}", "measure", Measure(profile=5)),
        ("measure: {profile: false}", "measure", Measure()),
        # What kind was called before.
        ("trainer: true", "kind", "trainer"),
        ("trainer: false", "kind", "torch"),
    ],
)
def test_other_values(folder: Path, text: str, field: str, value: object) -> None:
    (folder / "job.yml").write_text(f"{{name: a, script: train.py, {text}}}")
    assert getattr(load(folder / "job.yml"), field) == value


def test_a_job_survives_the_way_through_json(folder: Path) -> None:
    (folder / "job.yml").write_text(
        """
        {name: a, script: train.py, prepare: {script: prepare.py}, checkpoints: {steps: 5}, models: {m: {hub: x/y}},
         watch: {stall: false}, hosts: [b], measure: {warmup_steps: 2}}
        """
    )
    job = load(folder / "job.yml")
    assert Job.from_json(json.loads(json.dumps(job.to_json()))) == job


COUNT = (
    "is neither a whole number of at least 1, nor auto (one rank per NUMA node), nor socket (one per socket), "
    "nor '<=N' (N, or fewer where there are fewer cores)"
)
NAME = "is not a name: lower-case letters, digits, '.', '_' and '-', at most 63, the first a letter or a digit"
# What the JSON Schema of job files refuses, too, and what only the code does.
WRONG_FORM = [
    ("ranks_per_nodes: 2", "ranks_per_nodes: unknown field; did you mean ranks_per_node?"),
    ("12: 2", f"12: unknown field; known fields: {', '.join(FIELDS)}"),
    ("description: 3", "description: 3 is not text"),
    ("args: [a]", "args: a list where a mapping with names as keys is expected"),
    ("args: {--seed: 1}", "args: --seed: write the argument without its dashes"),
    ("args: {seed: {a: 1}}", "args: seed: {'a': 1} is neither text, a number, true, false nor a list of them"),
    ("prepare: prepare.py", "prepare: text where a mapping such as {script: prepare.py} is expected"),
    ("prepare: {args: {}}", "prepare: script: is missing"),
    ("prepare: {script: prepare.py, arg: {}}", "prepare: arg: unknown field; known fields: script, args, job_args"),
    ("models: {A: {package: a==1, path: a}}", f"models: A: 'A' {NAME}"),
    ("models: {a: {}}", "models: a: none where one of package, directory, hub is expected"),
    (
        "data: {a: {hub: b, package: c==1}}",
        "data: a: package and hub where one of package, directory, hub is expected",
    ),
    ("data: {a: {hub: b, at: moon}}", "data: a: at: 'moon' is not one of control, head"),
    ("data: {a: {hub: b, path: c}}", "data: a: path: unknown field; known fields: hub, revision, files, at"),
    (
        "data: {a: {hub: b, files: '*'}}",
        "data: a: files: text where a list of patterns such as '*.json' is expected",
    ),
    ("data: {a: {hub: a/b/c}}", "data: a: hub: 'a/b/c' is not a repository such as google-bert/bert-base-uncased"),
    ("models: {a: {package: a==1}}", "models: a: path: is missing"),
    ("models: {a: {package: a>1, path: a}}", "models: a: package: 'a>1' is not pinned as NAME==VERSION"),
    ("requirements: peft", "requirements: text where a list of packages is expected"),
    ("requirements: [peft>1]", "requirements: 'peft>1' is not pinned as NAME==VERSION or git+URL@REF"),
    ("checkpoints: 10", "checkpoints: a number where a mapping such as {steps: 500, keep: 2} is expected"),
    ("checkpoints: {keep: 1}", "checkpoints: steps: is missing"),
    ("checkpoints: {step: 1}", "checkpoints: step: unknown field; known fields: steps, keep; steps: is missing"),
    ("precision: fp8", "precision: 'fp8' is not one of auto, fp32, bf16, fp16, int8"),
    ("hosts: 0", "hosts: 0 is not a whole number of at least 1"),
    ("ranks_per_node: <=0", f"ranks_per_node: '<=0' {COUNT}"),
    ("reserved_cores: few", "reserved_cores: 'few' is not a whole number of at least 0"),
    (
        "threads_per_core: 0",
        "threads_per_core: 0 is neither a whole number of at least 1 nor all (every hardware thread of a core)",
    ),
    ("env: {A-B: 1}", "env: A-B: 'A-B' is not a name of an environment variable"),
    ("env: {A: true}", "env: A: True is neither text nor a number"),
    ("env: {A_TOKEN: [hf_x]}", "env: A_TOKEN: a list is neither text nor a number"),
    ("env_from: [A-B]", "env_from: 'A-B' is not a name of an environment variable"),
    ("expect: {loss: low}", "expect: loss: 'low' is not a number"),
    ("hosts: []", "hosts: [] is not a list of names of hosts, each named once"),
    ("hosts: [a, a]", "hosts: ['a', 'a'] is not a list of names of hosts, each named once"),
    ("restarts: true", "restarts: True is not a whole number of at least 0"),
    ("stall_seconds: 1.5", "stall_seconds: 1.5 is not a whole number of at least 0"),
    ("keep_global_batch: 1", "keep_global_batch: 1 is neither true nor false"),
    (
        "global_batch: 0",
        "global_batch: 0 is neither a whole number of samples of at least 1, nor '<=N' (N, or fewer that "
        "the ranks divide)",
    ),
    ("kind: verification", "kind: 'verification' is not one of trainer, torch, ranks, inference"),
    ("launcher: srun", "launcher: 'srun' is not one of mpirun, torchrun, kubernetes, slurm, instances"),
    ("watch: {gradient: false}", "watch: gradient: unknown field; known fields: gradients, stall, group"),
    ("measure: 5", "measure: 5 is neither true, false nor a mapping such as {warmup_steps: 5, split: true}"),
    ("measure: {steps: 5}", "measure: steps: unknown field; known fields: warmup_steps, split, profile"),
    (
        "measure: {profile: 0}",
        "measure: profile: 0 is neither true, false nor a whole number of at least 1: how many steps are profiled",
    ),
    ("checkpoints: {steps: 0}", "checkpoints: steps: 0 is not a whole number of at least 1"),
    ("hosts: all", "hosts: 'all' is not a whole number of at least 1"),
    ("comm_cores: -1", "comm_cores: -1 is not a whole number of at least 0"),
    ("env_launcher: [A]", "env_launcher: a list where a mapping with names as keys is expected"),
    ("env_from: {A: b}", "env_from: a mapping where a list of names in job_env is expected"),
    ("wait: soon", "wait: 'soon' is neither true nor false"),
    ("watch: {stall: 0}", "watch: stall: 0 is neither true nor false"),
]
WRONG_MEANING = [
    (
        "kind: torch\nglobal_batch: 8",
        "global_batch: is not for kind torch: the script divides its own batches",
    ),
    (
        "global_batch: 8\nargs: {gradient-accumulation-steps: 2}",
        "args: gradient_accumulation_steps: would change the batch that follows from global_batch: leave it out "
        "(per_device_train_batch_size is the most that a rank takes at once)",
    ),
    (
        "global_batch: 8\nargs: {per_device_train_batch_size: many}",
        "args: per_device_train_batch_size: 'many' is not a whole number of at least 1",
    ),
    ("global_batch: 8\nhosts: 3\nranks_per_node: 1", batches.refusal(8, [1, 1, 1])),
    ("args: {1: a}", "args: a mapping where a mapping with names as keys is expected"),
    ("prepare: {script: none.py}", "prepare: script: there is no file {folder}/none.py"),
    (
        "data: {a: {directory: here, at: head}}",
        "data: a: directory: here is not an absolute path, as one on the head must be",
    ),
    (
        "data: {a: {directory: /no/where}}",
        "data: a: directory: there is no directory /no/where on the control node",
    ),
    ("models: {a: {package: a==1, path: ../b}}", "models: a: path: ../b is not a path within the package"),
    ("metrics: {output: {hub: a}}", "metrics: output: is a directory that the job directory has already"),
    (
        "{checkpoints: {steps: 5}, kind: torch}",
        "checkpoints: is not for kind torch: the script saves its own",
    ),
    (
        "{checkpoints: {steps: 5}, args: {save_steps: 3}}",
        "checkpoints: and the argument save_steps say the same: leave one of them out",
    ),
    (
        "checkpoints: {steps: 5}\nrestarts: 2\nargs: {save-only-model: true}",
        "args: save_only_model: leaves optimizer and learning rate schedule out of checkpoints, and checkpoints: and "
        "restarts: would go on from these: leave save_only_model out",
    ),
    (
        "sharding: full\nkind: torch",
        "sharding: is not for kind torch: the script shards its own model, if at all",
    ),
    (
        "{args: {fsdp: full_shard}, sharding: full}",
        "args: fsdp: and sharding: full both decide how the model is sharded: leave one of them out",
    ),
    (
        "{args: {fsdp-config: a.json}, sharding: full}",
        "args: fsdp_config: and sharding: full both decide how the model is sharded: leave one of them out",
    ),
    (
        "{args: {output-dir: elsewhere}}",
        "args: output_dir: elsewhere is not where checkpoints and results are looked for: leave it out",
    ),
    (
        "{args: {use_peft: true}, sharding: full}",
        "args: use_peft: LoRA leaves the model as it is, and sharding: full is for training all of it: leave one of "
        "them out",
    ),
    (
        "sharding: optimizer\ngradient_compression: bf16",
        "gradient_compression: is for DistributedDataParallel, and sharding: optimizer does without it: leave one of "
        "them out",
    ),
    (
        "args: {model_name_or_path: google-bert/BERT-base}",
        "args: model_name_or_path: google-bert/BERT-base would be looked for on the hub, and ranks work offline: "
        "provide it with models: {bert-base: {hub: google-bert/BERT-base}} and name it models/bert-base",
    ),
    (
        "{args: {config_name: models/b}, models: {a: {hub: x/a}}}",
        "args: config_name: models/b has no matching entry: models has only a",
    ),
    ("args: {tokenizer_name: models/b}", "args: tokenizer_name: models/b has no matching entry: models is empty"),
    (
        "env: {A_TOKEN: '{{ vault_token }}'}",
        "env: A_TOKEN: job files have no templates: set job_env: {A_TOKEN: ...} in the inventory, and write "
        "env_from: [A_TOKEN] here",
    ),
    (
        "env: {I_MPI_HYDRA_DEBUG: 1}",
        "env: I_MPI_HYDRA_DEBUG is read by the launcher, not by ranks: write it under env_launcher",
    ),
    (
        "env_launcher: {A_TOKEN: hf_x}",
        "env_launcher: A_TOKEN looks like a secret, and the launcher's variables are no secrets: use env_from",
    ),
    (
        "env_launcher: {AMX_CLUSTER_BEAT: x}",
        "env_launcher: AMX_CLUSTER_BEAT is a variable of the collection itself: leave it out",
    ),
    ("{env: {A: 1}, env_from: [A]}", "env_from: A has a value under env, too: leave one of them out"),
    (
        "args: {output_dir: /data/out}",
        "args: output_dir: /data/out is not where checkpoints and results are looked for: leave it out",
    ),
]


@pytest.mark.parametrize(("field", "error"), [*WRONG_FORM, *WRONG_MEANING])
def test_wrong_field(folder: Path, field: str, error: str) -> None:
    more = field[1:-1].replace("}, ", "}\n").replace("false", "false\n") if field.startswith("{") else field
    text = f"name: a\nscript: train.py\n{more}"
    assert errors(folder, text) == [error.replace("{folder}", str(folder))]
    assert SCHEMA.is_valid(yaml.safe_load(text)) == ((field, error) in WRONG_MEANING)


GLUE_SCRIPT = "transformers/examples/pytorch/text-classification/run_glue.py"
GLUE_METRIC = "metrics: {glue: {hub: evaluate-metric/glue}}"


def test_a_task_of_glue_without_its_dataset(folder: Path) -> None:
    assert errors(folder, f"name: a\nscript: {GLUE_SCRIPT}\nargs: {{task_name: sst2}}") == [
        "args: task_name: sst2 is a configuration of nyu-mll/glue, and ranks work offline: provide it with "
        f"data: {{glue: {{hub: nyu-mll/glue}}}} and {GLUE_METRIC}"
    ]
    # Ranks that reach the hub load it from there.
    reaching = f"name: a\nscript: {GLUE_SCRIPT}\nenv: {{HF_HUB_OFFLINE: '0'}}\nargs: {{task_name: sst2}}"
    (folder / "job.yml").write_text(reaching)
    assert load(folder / "job.yml").args["task_name"] == "sst2"


@pytest.mark.parametrize("task", ["cola", "mnli", "sst2"])
def test_a_task_of_glue_whose_columns_are_found_by_its_name_alone(folder: Path, task: str) -> None:
    text = f"""
name: a
script: {GLUE_SCRIPT}
data: {{g: {{hub: nyu-mll/glue}}}}
args: {{dataset_name: datasets/g, dataset_config_name: {task}}}"""
    told = (
        f"args: dataset_config_name: {task}: run_glue.py takes columns and splits of this task only by its name: set "
        f"task_name: {task}, and provide {GLUE_METRIC}"
    )
    assert errors(folder, text) == [told]
    for sound in (text.replace(f": {task}", ": mrpc"), text.replace("args: {", f"args: {{task_name: {task}, ")):
        (folder / "job.yml").write_text(sound)
        assert load(folder / "job.yml").args["dataset_name"] == "datasets/g"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ["holds nothing where a mapping of fields such as name and script is expected"]),
        ("- a", ["holds a list where a mapping of fields such as name and script is expected"]),
        ("7", ["holds a number where a mapping of fields such as name and script is expected"]),
        ("{}", ["name: is missing", "script: is missing"]),
        ("{name: A b, script: train.py}", [f"name: 'A b' {NAME}"]),
        (f"{{name: {'a' * 64}, script: train.py}}", [f"name: '{'a' * 64}' {NAME}"]),
        ("{name: a, script: 3}", ["script: 3 is not a path"]),
        (
            "{name: a, script: examples/run.py}",
            [
                "script: there is no file {folder}/examples/run.py; one of the transformers examples is "
                "transformers/examples/DIRECTORY/.../NAME.py"
            ],
        ),
        ("{name: a, script: other}", ["script: there is no file {folder}/other"]),
        (
            "{name: a, script: transformers/examples/../run.py}",
            [
                "script: transformers/examples/../run.py is not a script of the transformers examples, "
                "transformers/examples/DIRECTORY/.../NAME.py"
            ],
        ),
        (
            f"{{name: a, script: {EXAMPLE}, args: {{dataset_name: squad}}}}",
            [
                "args: dataset_name: squad would be looked for on the hub, and ranks work offline: provide it with "
                "data: {squad: {hub: squad}} and name it datasets/squad"
            ],
        ),
        (
            "{name: a, script: train.py, prepare: {script: other/train.py}}",
            [
                "{folder}/train.py and {folder}/other/train.py would have the same name in the job directory: "
                "rename one of them"
            ],
        ),
    ],
)
def test_wrong_file(folder: Path, text: str, found: list[str]) -> None:
    assert errors(folder, text) == [error.replace("{folder}", str(folder)) for error in found]


def test_a_script_of_the_transformers_examples(folder: Path) -> None:
    (folder / "job.yml").write_text(
        f"""
        name: a
        script: {EXAMPLE}
        models: {{bert: {{hub: google-bert/bert-base-cased}}}}
        data: {{squad: {{hub: rajpurkar/squad}}}}
        args: {{model_name_or_path: models/bert, tokenizer_name: models/bert/tokenizer, dataset_name: datasets/squad}}
        checkpoints: {{steps: 100}}
        """
    )
    job = load(folder / "job.yml")
    assert job.script == Path(EXAMPLE)
    assert job.checkpoints == Checkpoints(100)


@pytest.mark.parametrize(
    "text",
    [
        "{args: {model_name_or_path: google-bert/x}, env: {HF_HUB_OFFLINE: 0}}",
        "{args: {model_name_or_path: google-bert/x}, kind: torch}",
        "{args: {model_name_or_path: /data/x}}",
        "{args: {model_name_or_path: data/x}}",
        "{args: {dataset_name: squad}}",
    ],
)
def test_what_a_script_of_ones_own_may_name(folder: Path, text: str) -> None:
    (folder / "job.yml").write_text("{name: a, script: train.py, " + text[1:])
    load(folder / "job.yml")


def test_override(folder: Path) -> None:
    (folder / "job.yml").write_text("{name: a, script: train.py, hosts: 4, args: {seed: 1, epochs: 3}}")
    job = load(folder / "job.yml", {"hosts": 2, "args": {"seed": 2}})
    assert (job.hosts, job.args) == (2, {"seed": 2, "epochs": 3})
    form = "where a mapping of fields is expected, as with -e '{override: {hosts: 2}}'"
    wrong: dict[str, Any] = {
        f"override is a list {form}": [1],
        f"override is text {form}": "{hosts:",
        "host: unknown field; did you mean hosts?": {"host": 2},
    }
    for said, override in wrong.items():
        with pytest.raises(JobFileError, match=re.escape(said)):
            load(folder / "job.yml", override)


def test_secrets_leave_a_job_by_name_only(folder: Path) -> None:
    (folder / "job.yml").write_text("{name: a, script: train.py, env: {A: 1, A_TOKEN: hf_x}}")
    job = load(folder / "job.yml", {"env": {"PASSWORD": 12345}})
    assert (job.env, job.secrets) == ({"A": "1"}, {"A_TOKEN": "hf_x", "PASSWORD": "12345"})
    assert "hf_x" not in f"{job}{job.to_json()}"
    assert Job.from_json(job.to_json()).secrets == {"A_TOKEN": "***", "PASSWORD": "***"}


@pytest.mark.parametrize(
    "text", ["env: {A_TOKEN: 'hf_x}", "env:\n  A_TOKEN: hf_x: hf_x", "env: {A_TOKEN: !vault hf_x}", "hf_x: @hf_x"]
)
def test_an_error_of_yaml_quotes_no_line(folder: Path, text: str) -> None:
    (folder / "job.yml").write_text(text)
    with pytest.raises(JobFileError, match="is not YAML: line") as caught:
        load(folder / "job.yml")
    assert "hf_x" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("field", ["script", "prepare"])
def test_a_script_that_is_not_python(folder: Path, field: str) -> None:
    (folder / "broken.py").write_text("import os\ndef main(:\n")
    (folder / "zero.py").write_bytes(b"a\0")
    for name, said in {"broken.py": ", line 2, is not Python: ", "zero.py": "is not Python: "}.items():
        fields = f"script: {name}" if field == "script" else f"script: train.py\nprepare: {{script: {name}}}"
        (error,) = errors(folder, f"name: a\n{fields}")
        where = "prepare: script" if field == "prepare" else field
        assert error.startswith(f"{where}: {folder}/{name}")
        assert said in error


def test_one_script_may_prepare_and_train(folder: Path) -> None:
    (folder / "job.yml").write_text("{name: a, script: train.py, prepare: {script: train.py}}")
    assert load(folder / "job.yml").prepare == Prepare(folder / "train.py")


def message(path: Path) -> str:
    """The whole message with which a job file is refused."""
    with pytest.raises(JobFileError) as caught:
        load(path)
    return str(caught.value)


def test_every_error_is_told_at_once(folder: Path) -> None:
    (folder / "job.yml").write_text("{nam: a, hosts: 0, script: none.py}")
    assert message(folder / "job.yml") == (
        f"{folder}/job.yml: this job cannot be run:\n"
        "  nam: unknown field; did you mean name?\n"
        "  name: is missing\n"
        f"  script: there is no file {folder}/none.py\n"
        "  hosts: 0 is not a whole number of at least 1"
    )


def test_the_name_of_a_job_is_found(folder: Path) -> None:
    (folder / "jobs").mkdir()
    (folder / "jobs/first.yml").write_text('name: "reviews" # ours\nscript: ../train.py\n')
    (folder / "jobs/second.yml").write_text("name: reviews.2\nscript: ../train.py\n")
    (folder / "train.py").touch()
    assert load(folder / "reviews").file == folder / "jobs/first.yml"
    assert load(folder / "reviews.2", {"hosts": 2}).hosts == 2
    (folder / "reviews").mkdir()  # a directory of results, or of data
    assert load(folder / "reviews").file == folder / "jobs/first.yml"
    assert "cannot be read: [Errno 21]" in message(folder / "jobs")
    (folder / "jobs/third.yaml").write_text("name: null\nscript: ../train.py\n")
    assert message(folder / "third").startswith(f"{folder}/jobs/third.yaml: name: None is not a name: ")
    assert message(folder / "review").startswith(f"{folder}/review: there is no such job file; job files are ")


def test_no_file(folder: Path) -> None:
    assert message(folder / "demo.yml") == f"{folder}/demo.yml: there is no such job file"
    for name in ("site.yml", "smoke.yml", "jobs/other.yml"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("name: a\nkind: ranks\n")
    (folder / "galaxy.yml").write_text("namespace: a\n")
    (folder / "data.yml").write_bytes(b"\xff")
    listed = ", ".join(f"{folder}/{name}" for name in ("site.yml", "smoke.yml", "jobs/other.yml"))
    assert message(folder / "demo.yml") == f"{folder}/demo.yml: there is no such job file; job files are {listed}"
    assert message(folder / "none/demo.yml") == f"{folder}/none/demo.yml: there is no such job file"
    assert message(folder / "a") == f"{folder}/a: there is no such job file; those of this name are {listed}"


@pytest.mark.parametrize(
    ("content", "start"),
    [
        (b"name: [a", "is not YAML: line 1, column 9: "),
        (b"name: a\0", "is not YAML: unacceptable character #x0000"),
        (b"\xff\xfe\xfd", "cannot be read: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ],
)
def test_unreadable(folder: Path, content: bytes, start: str) -> None:
    (folder / "job.yml").write_bytes(content)
    assert re.match(re.escape(f"{folder}/job.yml: {start}"), message(folder / "job.yml"))


def test_a_folder_is_no_job_file(folder: Path) -> None:
    assert message(folder / "other") == f"{folder}/other: cannot be read: [Errno 21] Is a directory: '{folder}/other'"


@pytest.mark.slow
def test_parse_takes_any(folder: Path) -> None:
    """Values of any YAML type lead to a message, never to another exception."""
    values: list[Any] = ["null", "true", "1", "1.5", "text", "[]", "[1]", "{}", "{a: 1}", "2026-01-01"]
    for field in FIELDS:
        for value in values:
            (folder / "job.yml").write_text(f"{{{field}: {value}}}")
            with pytest.raises(JobFileError, match=re.escape(str(folder))):
                load(folder / "job.yml")
