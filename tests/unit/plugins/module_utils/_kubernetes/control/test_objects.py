"""The objects of a job: valid for judges that are not ours, whatever it requests, and what must be in them."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._jobs import project_files
from ansible_collections.amx.cluster.plugins.module_utils._jobs.job_file import load
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes import interface
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import kinds, manifest, objects, settings
from hypothesis import HealthCheck, given
from hypothesis import settings as how
from hypothesis import strategies as st
from support.checkout import ROOT
from support.kubernetes_jobs import derive, judge, pods, render

pytestmark = pytest.mark.slow


SMOKE = ROOT / "jobs/smoke.yml"


def write(folder: Path, **fields: Any) -> Path:
    """Write a job file with a script."""
    (folder / "train.py").write_text("print('trained')\n")
    path = folder / "mine.yml"
    path.write_text(yaml.safe_dump({"name": "mine", "script": "train.py", "kind": "torch", **fields}))
    return path


@st.composite
def clusters(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return fields of a job, and of cluster_kubernetes, that go together."""
    workers = draw(st.integers(1, 64))
    given_settings: dict[str, Any] = {
        "kind": draw(st.sampled_from(sorted(kinds.TRAINING))),
        "workers": workers,
        "cpus": draw(st.integers(8, 512)),
        "memory": f"{draw(st.integers(16, 4096))}Gi",
        "numa_nodes": draw(st.integers(1, 4)),
        "create_namespace": draw(st.booleans()),
        "namespace": draw(st.sampled_from(["default", "team-a"])),
        "node_selector": draw(st.sampled_from([{}, {settings.AMX_LABEL: "true"}])),
        "tolerations": draw(st.sampled_from([[], [{"key": "training", "operator": "Exists"}]])),
        "image_pull_secret": draw(st.sampled_from(["registry", "other"])),
        **draw(st.sampled_from([{"pvc": "theirs"}, {"storage_class": "nfs", "storage": "1Ti"}, {}])),
    }
    pods_of_job = draw(st.integers(1, workers))
    job: dict[str, Any] = {
        "hosts": pods_of_job,
        "restarts": draw(st.integers(0, 3)),
        "ranks_per_node": draw(st.sampled_from(["auto", 1, 2, "<=4"])),
        "args": {"dataloader_num_workers": draw(st.integers(0, 8))},
    }
    if given_settings["kind"] != "TrainJob":
        job["min_hosts"] = draw(st.integers(1, pods_of_job))
    return job, given_settings


@how(suppress_health_check=[HealthCheck.too_slow], max_examples=25, deadline=None)
@given(clusters())
def test_every_object_is_valid_for_another_judge_and_has_what_was_derived(
    cluster: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    job, given_settings = cluster
    derived = derive(SMOKE, job, **given_settings)
    made = render(derived)
    for one in made.values():
        judge(one)
    for spec in pods(made):
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            amounts = container["resources"]
            # Guaranteed quality of service: of every container, both, and the same.
            assert amounts["requests"] == amounts["limits"] and {"cpu", "memory"} <= set(amounts["limits"])
            assert int(amounts["requests"]["cpu"]) < given_settings["cpus"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        (shm,) = (volume["emptyDir"] for volume in spec["volumes"] if volume["name"] == "shm")
        assert shm["medium"] == "Memory" and shm["sizeLimit"]
    claims = [one for one in made.values() if one["kind"] == "PersistentVolumeClaim"]
    assert len(claims) == (0 if "pvc" in given_settings else 1)
    assert 1 <= derived.least_pods <= derived.pods == job["hosts"]
    last = list(made.values())[-1]
    if last["kind"] == "PyTorchJob":
        elastic = last["spec"]["elasticPolicy"]
        assert (elastic["minReplicas"], elastic["maxReplicas"]) == (derived.least_pods, derived.pods)
        assert elastic["maxRestarts"] == job["restarts"]
        assert elastic["rdzvBackend"] == "c10d"
        assert last["spec"]["nprocPerNode"] == str(derived.ranks)
    elif last["kind"] == "TrainJob":
        trainer = last["spec"]["trainer"]
        # Without a number the trainer would start a process for each CPU.
        assert (trainer["numNodes"], trainer["numProcPerNode"]) == (derived.pods, derived.ranks)
    else:
        assert last["spec"]["completions"] == last["spec"]["parallelism"] == derived.pods
        assert last["spec"]["completionMode"] == "Indexed"
    assert derived.ranks <= derived.resources.cpus


def test_a_first_pod_that_others_find() -> None:
    assert derive(kind="PyTorchJob").first_pod == "smoke-worker-0"
    assert derive(kind="TrainJob").first_pod == "smoke-node-0-0.smoke"
    made = list(render(derive(kind="Job")).values())
    service, job = made[-2:]
    template = job["spec"]["template"]
    assert template["spec"]["subdomain"] == service["metadata"]["name"] == "smoke"
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    prepare = next(one for one in made if one["metadata"]["name"] == "smoke-prepare")
    # Or the first pod's name would lead to it, too.
    assert not service["spec"]["selector"].items() <= prepare["spec"]["template"]["metadata"]["labels"].items()


def test_files_of_the_config_map(tmp_path: Path) -> None:
    path = write(tmp_path, env={"HF_TOKEN": "hf_value", "LEVEL": "3"}, env_from=["OTHER_TOKEN"])
    derived = derive(path)
    made = render(derived, path)
    text = "".join(map(manifest.to_yaml, made.values()))
    assert "hf_value" not in text, "a secret is in a file for Git"
    assert str(tmp_path) not in text, "a path of the control node is in a file for Git"
    config = next(one for one in made.values() if one["kind"] == "ConfigMap")
    assert config["data"]["train.py"] == "print('trained')\n"
    assert json.loads(config["data"]["kubernetes.json"])["first_pod"] == "mine-0.mine"
    assert [pod["containers"][0]["envFrom"] for pod in pods(made)] == [[{"secretRef": {"name": "mine-env"}}]]
    judge(objects.secret(derived, {"OTHER_TOKEN": "x"}))
    assert yaml.safe_load(manifest.to_yaml(config)) == config


def test_the_same_twice_and_another_for_another_script(tmp_path: Path) -> None:
    path = write(tmp_path)
    first, again = derive(path), derive(path)
    assert first == again
    (tmp_path / "train.py").write_text("print('otherwise')\n")
    assert derive(path).run.settings.start != first.run.settings.start


def test_too_many_files(tmp_path: Path) -> None:
    path = write(tmp_path)
    (tmp_path / "train.py").write_text("# " + "x" * 950_000 + "\n")
    with pytest.raises(ValueError, match=r"the largest is train.py with 950003.*a ConfigMap takes 900000"):
        render(derive(path), path)


@pytest.mark.parametrize("name", ["a.py", "dir/a.py", "dir_a.py", "Ä b.py", ".hidden", "x" * 300])
def test_keys_of_files(name: str) -> None:
    key = objects.key_of(name)
    assert objects.KEY.fullmatch(key) or (len(key) <= 253 and not key.startswith("."))
    judge({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {key: ""}})


def test_files_of_an_earlier_rendering(tmp_path: Path) -> None:
    written = {"10-a.yml": f"{manifest.HEADER}\na\n", "20-b.yml": f"{manifest.HEADER}\nb\n"}
    for name, text in written.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "own.yml").write_text("mine\n")
    changed, stale = manifest.differences(tmp_path, {"10-a.yml": written["10-a.yml"], "30-c.yml": "c"})
    assert (list(changed), [path.name for path in stale]) == (["30-c.yml"], ["20-b.yml"])
    with pytest.raises(ValueError, match=r"own.yml is not a file of playbooks/manifest.yml"):
        manifest.differences(tmp_path, {"own.yml": "c"})


def test_names_count_where_there_are_many_files() -> None:
    """A ConfigMap with 20,000 empty files is more than etcd takes."""
    files = {f"project/package/module_{number}/__init__.py": b"" for number in range(20_000)}
    with pytest.raises(ValueError, match=r"20000 files of job smoke have \d+ bytes with their names"):
        objects.config_map(derive(), files)


def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    project = tmp_path / "mine"
    project.mkdir()
    (project / "train.py").touch()
    Path(os.fsdecode(os.fsencode(project) + b"/gr\xe9.csv")).touch()
    path = tmp_path / "mine.yml"
    path.write_text(yaml.safe_dump({"name": "mine", "project": "mine", "script": "train.py", "kind": "torch"}))
    job = load(path)
    with pytest.raises(
        ValueError, match=r"mine has 'gr\\udce9.csv', whose name is not UTF-8: rename it, or name it in"
    ):
        manifest.job_files(derive(path), job, project_files.read(job)["project"])


@pytest.mark.parametrize("text", ["a\x85b\nc\n", "a\u2028b\nc\n", "\ta\r\nb\n", "a\x00\nb", "---\n...\n"])
def test_files_are_the_same_after_yaml(text: str) -> None:
    assert yaml.safe_load(manifest.to_yaml({"data": {"a": text}})) == {"data": {"a": text}}


def test_a_project_is_in_the_config_map(tmp_path: Path) -> None:
    path = tmp_path / "words.yml"
    fields = {"name": "words", "project": str(ROOT / "molecule/jobs/project"), "script": "train.py", "kind": "torch"}
    path.write_text(yaml.safe_dump(fields))
    job = load(path)
    tree = project_files.read(job)["project"]
    derived = derive(path)
    files = manifest.job_files(derived, job, tree)
    assert files["project/src/words/data.py"] == (ROOT / "molecule/jobs/project/src/words/data.py").read_bytes()
    for one in manifest.render(derived, files):
        judge(one)
    (spec,) = pods(manifest.named(manifest.render(derived, files)))
    (items,) = (volume["configMap"]["items"] for volume in spec["volumes"] if volume["name"] == "job")
    assert "project/src/words/data.py" in [item["path"] for item in items]


@pytest.mark.parametrize("restarts", [0, 2])
def test_kubernetes_replaces_lost_pods_and_none_that_has_failed(restarts: int) -> None:
    """torchrun restarts ranks; the exit code of a pod whose job has failed ends the object."""
    made = {kind: render(derive(SMOKE, {"restarts": restarts}, kind=kind)) for kind in sorted(kinds.TRAINING)}
    found = {
        kind: next(one for one in made[kind].values() if (one["kind"], one["metadata"]["name"]) == (kind, "smoke"))[
            "spec"
        ]
        for kind in sorted(kinds.TRAINING)
    }
    job = found["Job"]
    rule = job["podFailurePolicy"]["rules"][0]
    assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [interface.FAILED])
    assert job["template"]["spec"]["containers"][0]["name"] == rule["onExitCodes"]["containerName"]
    assert (job["backoffLimit"], job["template"]["spec"]["restartPolicy"]) == (restarts * 4, "Never")
    pytorch = found["PyTorchJob"]
    worker = pytorch["pytorchReplicaSpecs"]["Worker"]
    # The operator fails a job whose running containers were started again so often (0: at the first time).
    assert pytorch["runPolicy"]["backoffLimit"] == (restarts * 4 + 1 if restarts else 0)
    assert worker["restartPolicy"] == ("OnFailure" if restarts else "Never")
    runtime = next(one for one in made["TrainJob"].values() if one["kind"] == "TrainingRuntime")["spec"]["template"]
    (replicated,) = runtime["spec"]["replicatedJobs"]
    assert runtime["spec"]["failurePolicy"]["maxRestarts"] == restarts
    assert runtime["spec"]["failurePolicy"]["rules"][0]["onJobFailureReasons"] == ["PodFailurePolicy"]
    rule = replicated["template"]["spec"]["podFailurePolicy"]["rules"][0]
    assert rule["onExitCodes"]["containerName"] == "node"
    # A Job with such a policy is refused unless its pods are never started again in place.
    assert replicated["template"]["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_objects_name_their_start() -> None:
    derived = derive(SMOKE)
    for one in render(derived).values():
        if one["kind"] != "PersistentVolumeClaim":
            assert one["metadata"]["annotations"] == {"amx.cluster/start": derived.run.settings.start}
    run = dataclasses.replace(derived.run.settings, user="ann", since="2026-11-22T10:00:00Z")
    annotated = objects.metadata(dataclasses.replace(derived, run=dataclasses.replace(derived.run, settings=run)))
    assert annotated["annotations"]["amx.cluster/user"] == "ann"
    assert annotated["annotations"]["amx.cluster/since"] == "2026-11-22T10:00:00Z"
