"""From a job file with a project to its job directory, as the role does it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.action import file_set as file_set_action
from ansible_collections.amx.cluster.plugins.action import job_read
from ansible_collections.amx.cluster.plugins.module_utils._jobs import derive, placing, results
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job import Job
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import load
from ansible_collections.amx.cluster.plugins.module_utils._jobs.plan import Plan
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run import Run
from ansible_collections.amx.cluster.plugins.module_utils._jobs.run_files import run_files
from ansible_collections.amx.cluster.plugins.modules import file_set
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes import hosts
from ansible_collections.amx.cluster.plugins.plugin_utils.runtimes.runtime import Request
from support import modules, runtimes
from support.runs import STACK, host, planned
from support.stand_ins import make_wheel

SCRIPT = "import json, os, sys, utils, words\nprint(json.dumps([sys.argv, os.getcwd(), os.environ['PYTHONPATH']]))\n"
FILES = {
    "scripts/train.py": SCRIPT,
    "prepare.py": "",
    "utils.py": "",
    "src/words/__init__.py": "",
    "requirements.txt": "tqdm\nlosses @ git+https://example.com/losses.git@v1\n",
    "pyproject.toml": '[project]\nname = "words"\nversion = "1"\n',
    "models/layers.py": "",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine" / name).write_text(text)
    (tmp_path / "outside.py").touch()
    (tmp_path / "model").mkdir()
    (tmp_path / "model/weights").touch()
    return tmp_path


def read(folder: Path, **fields: Any) -> dict[str, Any]:
    job = {"name": "demo", "kind": "torch", "project": "mine", "script": "scripts/train.py", **fields}
    (folder / "demo.yml").write_text(yaml.safe_dump({name: value for name, value in job.items() if value is not None}))
    return modules.run_action(job_read, {"file": str(folder / "demo.yml"), "hosts": ["node0"]})


def make(folder: Path, seen: dict[str, Any]) -> Path:
    """Make the job directory of what was read, with the contents of its project in a store."""
    store, env = folder / "cache/projects/files", folder / "env"
    store.mkdir(parents=True)
    (env / "bin").mkdir(parents=True)
    (env / "bin/python").symlink_to(sys.executable)
    (env / "amx-cluster.json").write_text(json.dumps(STACK))
    for entry in seen["project"]["contents"]:
        shutil.copyfile(entry["source"], store / entry["file"])
    run = Run.from_json(seen["run"])
    plan = planned(run, STACK, [host("node0", 1)], env=str(env), runtime=runtimes.installed())
    cached = {"node0": {"models/mine": str(folder / "model")}}
    request = Request(run, plan=plan, project=seen["project"], cached=cached)
    placement = hosts.start_document(request, str(folder / "jobs")).placement()
    placing.place(placement, "node0")
    return Path(placement.path)


@pytest.mark.slow
def test_a_rank_runs_in_its_project(folder: Path) -> None:
    models = {"mine": {"directory": "model"}}
    seen = read(folder, models=models, prepare={"script": "prepare.py", "args": {"n": 1}})
    path = make(folder, seen)
    project = path / "project"
    assert (project / "scripts/train.py").read_text() == SCRIPT
    assert (project / "models/mine/weights").exists()
    assert (project / "models/layers.py").exists()
    assert (project / "output").resolve() == path / "output"
    assert (project / "data").resolve() == path / "data"
    assert seen["prepare"] == ["prepare.py", "--n", "1"]
    assert json.loads((path / "project.json").read_text())["digest"] == seen["project"]["digest"]
    assert "scripts/train.py" in (path / "launch.sh").read_text()

    launcher = {"PMI_RANK": "0", "PMI_SIZE": "1", "MPI_LOCALRANKID": "0", "PATH": "/usr/bin:/bin"}
    words = [sys.executable, "-S", str(runtimes.installed()), "rank", "project/scripts/train.py", "--seed", "1"]
    ran = subprocess.run(words, cwd=path, env=launcher, capture_output=True, text=True, check=False)
    arguments, directory, paths = json.loads(ran.stdout or ran.stderr)
    assert (arguments, directory) == (["scripts/train.py", "--seed", "1"], str(project))
    own = [f"{path}/{name}" for name in ("project", "project/src", "project/.installed", "packages")]
    assert paths.split(":") == [str(runtimes.installed()), *own]
    metadata = "import importlib.metadata as m; print(m.version('words'))"
    environ = {"PYTHONPATH": paths}
    ran = subprocess.run([sys.executable, "-c", metadata], env=environ, capture_output=True, text=True, check=True)
    assert ran.stdout == "1\n"


def test_what_plan_and_results_say(folder: Path) -> None:
    seen = read(folder)
    run = Run.from_json(json.loads(json.dumps(seen["run"])))
    plan = planned(run, STACK, [host("node0", 1)])
    digest = seen["project"]["digest"]
    assert plan["project"]["digest"] == digest
    assert plan["project"]["files"] == len(FILES)
    shown = {"state": "succeeded", "reason": "", "hosts": 1, "ranks": 1, "threads_per_rank": [1], "precision": "fp32"}
    rows = results.rows({**shown, "seconds": 1, "metrics": {}, "output": "o", "project": plan["project"]})
    assert ("project", f"mine {digest[:12]} (7 files, 0.2 kB)") in rows
    assert run.job == Job.from_json(json.loads(json.dumps(run.job.to_json())))
    assert "\n    project/scripts/train.py\n" in run_files(Plan.from_json(plan), run, STACK)["launch.sh"]
    verification = derive.verification(run.job, folder / "outside.py")
    assert verification.project is None


def test_what_is_required(folder: Path) -> None:
    own = make_wheel(folder / "own", "losses-extra", "2.0", requires=["scipy"])
    pinned = "git+ssh://git@example.com/a/b.git@main"
    seen = read(folder, requirements=["peft==0.1", pinned], wheels=["own"])
    assert seen["requirements"] == {
        "peft==0.1": "demo.yml",
        "tqdm": "requirements.txt, line 1",
        "scipy": "losses_extra-2.0-py3-none-any.whl",
    }
    assert seen["git"] == {
        pinned: "demo.yml",
        "losses @ git+https://example.com/losses.git@v1": "requirements.txt, line 2",
    }
    assert [(one["path"], one["name"], one["version"]) for one in seen["wheels"]] == [(str(own), "losses-extra", "2.0")]
    without = read(folder, project=None, script="outside.py")
    assert (without["project"], without["requirements"], without["git"], without["wheels"]) == ({}, {}, {}, [])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"project": "none"}, "project: there is no directory {folder}/none on the control node"),
        ({"script": "../outside.py"}, "script: ../outside.py is not in the project {folder}/mine: name it by its path"),
        ({"script": "none.py"}, "script: there is no file {folder}/mine/none.py"),
        (
            {"prepare": {"script": "../outside.py"}},
            "prepare: script: ../outside.py is not in the project {folder}/mine",
        ),
        ({"project_max_mb": 0}, "project_max_mb: 0 is not a whole number"),
        ({"project": None, "script": "outside.py", "project_max_mb": 1}, "project_max_mb: is the size of a project"),
        ({"wheels": ["none.whl"]}, "wheels: there is no {folder}/none.whl on the control node"),
        ({"wheels": ["outside.py"]}, "wheels: {folder}/outside.py is not named as wheels are"),
        ({"requirements": ["git+https://example.com/a.git"]}, "is not pinned as NAME==VERSION or git+URL@REF"),
    ],
)
def test_a_job_that_cannot_be(folder: Path, fields: dict[str, Any], said: str) -> None:
    answer = read(folder, **fields)
    assert said.format(folder=folder) in answer["msg"]
    assert "\n" not in answer["msg"]


@pytest.mark.parametrize(
    ("files", "fields", "said"),
    [
        (
            {".clusterignore": "scripts/"},
            {},
            "project: scripts/train.py is left out by an ignore file in {folder}/mine",
        ),
        ({"output/old.txt": ""}, {}, "project: {folder}/mine has output, where "),
        (
            {"models/mine/a": ""},
            {"models": {"mine": {"directory": "model"}}},
            "project: {folder}/mine has models/mine, where ",
        ),
        (
            {"requirements.txt": "git+https://example.com/a.git\n"},
            {},
            "project: requirements.txt, line 1: git+https://example.com/a.git is not git+URL@REF: name the tag",
        ),
    ],
)
def test_a_project_that_cannot_be(folder: Path, files: dict[str, str], fields: dict[str, Any], said: str) -> None:
    for name, text in files.items():
        (folder / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "mine" / name).write_text(text)
    assert said.format(folder=folder) in read(folder, **fields)["msg"]


def test_data_of_the_project_is_its_own_without_prepare(folder: Path) -> None:
    (folder / "mine/data").mkdir()
    (folder / "mine/data/train.csv").touch()
    assert not read(folder).get("failed")
    assert "has data, where" in read(folder, prepare={"script": "prepare.py"})["msg"]


def test_a_model_in_the_project(folder: Path) -> None:
    """An argument that names a directory of the project is not taken for one of the hub."""
    (folder / "demo.yml").write_text(
        "{name: demo, project: mine, script: scripts/train.py, args: {model_name_or_path: models}}"
    )
    assert load(folder / "demo.yml").project == folder / "mine"


@pytest.mark.parametrize("count", [1, 9])
def test_files_are_copied_from_where_they_are(tmp_path: Path, count: int) -> None:
    """One by one, or packed where they are many and small; each under another name than its own."""
    sources = [tmp_path / f"source{number}" for number in range(count)]
    for number, source in enumerate(sources):
        source.write_text(str(number) * 10)
    from ansible_collections.amx.cluster.plugins.module_utils._data.file_set import sha256

    files: list[dict[str, Any]] = [
        {"file": sha256(source), "sha256": sha256(source), "bytes": 10, "source": str(source)} for source in sources
    ]
    put: list[str] = []
    store = tmp_path / "store"
    options = {"path": str(store), "files": files, "source": str(tmp_path)}
    task = SimpleNamespace(args=options, async_val=0, check_mode=False, diff=False, action="file_set")
    rest: dict[str, Any] = dict.fromkeys(("play_context", "loader", "templar", "shared_loader_obj"))

    def put_file(source: str, target: str) -> None:
        put.append(Path(target).name)
        shutil.copyfile(source, target)

    connection = SimpleNamespace(put_file=put_file, _shell=SimpleNamespace(tmpdir=None))
    plugin = file_set_action.ActionModule(task=task, connection=connection, **rest)
    plugin._execute_module = lambda module_args, **_others: modules.run(
        file_set, **{name: value for name, value in module_args.items() if name != "source"}
    )
    answer = plugin.run(task_vars={})
    assert (answer["changed"], answer["sent_bytes"], len(answer["differences"])) == (True, 10 * count, count)
    assert {path.name for path in store.glob("[!.]*")} == {entry["file"] for entry in files}
    assert len(put) == 1
    sources[0].write_text("another")
    (store / files[0]["file"]).unlink()
    answer = plugin.run(task_vars={})
    assert answer["msg"].endswith("is damaged; it was changed meanwhile: run again")
