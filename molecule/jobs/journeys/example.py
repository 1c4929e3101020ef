"""A script of the transformers examples on hosts without a way out: what it needs comes from git and a hub."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import yaml
from support.checkout import ROOT
from support.cluster import (
    CONTAINERS,
    EPHEMERAL,
    HEAD,
    PREFIX,
    Play,
    directory,
    docker,
    job_file,
    log,
    on,
    train,
    words,
)
from support.hub import Hub
from support.journeys import check
from support.smoke_job import SCRIPTS
from support.stand_ins import EXAMPLE_TASK, METRIC, make_examples, make_wheel

CATALOGUE = yaml.safe_load((ROOT / "roles/torch_stack/vars/stacks.yml").read_text(encoding="utf-8"))
VERSION = CATALOGUE["__torch_stack_catalogue"]["native"]["packages"]["transformers"]
NAME = "example"
ARGS = {
    "model_name_or_path": "models/bert",
    "from_scratch": True,
    "train_file": "datasets/pairs/train.csv",
    "validation_file": "datasets/pairs/validation.csv",
    "max_seq_length": 32,
    "max_steps": 4,
}


def example() -> list[str]:
    """Run an example with a model, a dataset and a metric of a hub; then with an argument that it does not know."""
    path = EPHEMERAL / NAME
    wheels, repository, published = path / "wheels", path / "transformers", path / "hub"
    shutil.rmtree(path, ignore_errors=True)
    make_wheel(wheels, "glue-words", "1.2.0", requires=["glue-letters"])
    make_wheel(wheels, "glue-letters", "3.0.0")
    make_examples(repository, VERSION, "accelerate >= 0.12.0\nglue-words < 2\n")
    command = [sys.executable, str(SCRIPTS / "generated_pairs.py"), "--output_dir", str(published)]
    sizes = ["--train_pairs", "96", "--validation_pairs", "48", "--seed", "1"]
    subprocess.run([*command, *sizes], check=True, capture_output=True)
    (published / "same").mkdir()
    (published / "same/same.py").write_text(METRIC)
    (published / "pairs").mkdir()
    for name in ("train.csv", "validation.csv"):
        (published / name).rename(published / "pairs" / name)

    given = {"torch_stack_examples": "git", "torch_stack_examples_from": f"file://{repository}"}
    Play("site", "--tags", "always,torch_stack", "-e", json.dumps(given)).succeed()
    installed = packages()

    gateway = docker("inspect", "-f", "{{range .NetworkSettings.Networks}}{{.Gateway}} {{end}}", CONTAINERS[HEAD])
    with Hub(gateway.split()[0]) as hub:
        hub.publish("model", "stand-in/bert", published / "model")
        hub.publish("dataset", "stand-in/pairs", published / "pairs")
        hub.publish("space", "stand-in/same", published / "same")
        job = {
            "name": NAME,
            "script": f"transformers/examples/{EXAMPLE_TASK}/run_text.py",
            "models": {"bert": {"hub": "stand-in/bert"}},
            "data": {"pairs": {"hub": "stand-in/pairs", "at": "head"}},
            "metrics": {"same": {"hub": "stand-in/same"}},
            "args": ARGS,
            "ranks_per_node": 1,
            "checkpoints": {"steps": 2, "keep": 1},
        }
        sources = {
            "data_cache_hub": hub.address,
            "torch_stack_index_url": "none",
            "torch_stack_index_urls": [],
            "torch_stack_find_links": [str(wheels)],
        }
        train(job_file(job), "-e", json.dumps(sources)).succeed()
        fetched, text = fetches(hub), log(NAME)
        kept = on(HEAD, f"cd {directory(NAME)}/output && ls -d checkpoint-*").split()
        output = train(job_file({**job, "args": {**ARGS, "learnin_rate": 1}}), "-e", json.dumps(sources)).fail()
        again = fetches(hub)[len(fetched) :]
    for host in CONTAINERS:
        said = f"{host}: beside from the directory of the example, words 1.2.0"
        check(said in text, f"{host} says not so:\n{text[-2000:]}")
    check(text.count("same: 0.5") == len(CONTAINERS), f"the metric is not everywhere:\n{text[-2000:]}")
    check(kept == ["checkpoint-4"], f"checkpoints that were kept: {kept}")
    check(packages() == installed, "the example's requirements were installed into the stack's virtual environment")
    check("--learnin_rate" in words(output).partition("msg: ")[2], f"of a misspelt argument:\n{output[-2000:]}")
    check(not again, f"fetched again: {again}")
    return [
        f"example from git on {len(CONTAINERS)} hosts, with what it requires besides the stack: {len(fetched)} files "
        "of a model, a dataset (fetched by the head) and a metric from a hub (a stand-in), none again for a second "
        "run; an argument that the script does not know is named"
    ]


def fetches(hub: Hub) -> list[str]:
    """Return the files that were fetched from the hub."""
    return [request.path for request in hub.requests if request.method == "GET" and "/resolve/" in request.path]


def packages() -> list[str]:
    """Return what lies in the stack's virtual environment, on every host."""
    return [on(host, f"ls {PREFIX}/env/lib/python3*/site-packages") for host in CONTAINERS]
