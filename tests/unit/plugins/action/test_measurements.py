"""Measurements on the control node, run after run, as the role measure calls its actions."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.action import (
    job_read,
    measurement_check,
    measurement_next,
    measurement_report,
)
from ansible_collections.amx.cluster.plugins.module_utils._measure import sweep
from ansible_collections.amx.cluster.plugins.plugin_utils import document, measurements, requested
from support.modules import run_action

HOSTS = ["node0", "node1"]
CORES = {"ranks_per_node": 1, "comm_cores": 0, "reserved_cores": 0, "threads_per_core": 1}


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "train.py").touch()
    (tmp_path / "demo.yml").write_text("{name: demo, script: train.py, args: {seed: 1}}")
    request = {"job": str(tmp_path / "demo.yml"), "repeats": 1}
    return {"kind": "sweep", "request": request, "hosts": HOSTS, "results": str(tmp_path / "results")}


def wanting(options: dict[str, Any], **request: Any) -> dict[str, Any]:
    """Return the options of a task that requests something else."""
    return {**options, "request": {**options["request"], **request}}


def step(options: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Record a run and choose the next one."""
    measurement = run_action(measurement_check, {**options, "format": "json"})["measurement"]
    return run_action(measurement_next, {"measurement": measurement, **more})


def tried(chosen: dict[str, Any], speed: float | None, hosts: int = 1) -> dict[str, Any]:
    """Return what came of the run that a step has chosen; None: it failed."""
    ranks = [{"threads_per_rank": 2, "ranks": [{}, {}]}] * chosen["run"].get("hosts", hosts)
    return {
        "job": chosen["run"]["job"],
        "state": "failed" if speed is None else "succeeded",
        "reason": "" if speed else "no space left on node1",
        "plan": {"stack": "native", "precision": "bf16", "backend": "gloo", "hosts": ranks},
        "outcome": {"metrics": {"train_samples_per_second": speed}, "seconds": 9.0} if speed else {},
    }


def content(options: dict[str, Any], name: str = "demo-scale/sweep.json") -> dict[str, Any]:
    return dict(json.loads(Path(options["results"], name).read_text()))


def test_a_sweep_is_continued_where_it_stopped(options: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    checked = run_action(measurement_check, options)
    assert (checked["ended"], checked["interrupted"], checked["questions"]) == (False, [], {})
    assert capsys.readouterr().out == "Sweep of job demo on 2 hosts: 0 runs have been made, 3 are left\n"
    assert not Path(options["results"]).exists()
    assert step(options)["run"]["job"] == "demo+sanity"
    chosen = step(options, tried=tried({"run": {"job": "demo+sanity", "hosts": 2}}, 50.0), head={"cpu": "Xeon"})
    assert chosen["run"]["job"] == "demo+one-process-r1"
    chosen = step(options, tried=tried(chosen, 60.0))
    assert chosen["run"]["job"] == "demo+on-1-r1"
    # Interrupted here: what was started is known, and the sanity run comes first again.
    assert "[1/3] demo+one-process-r1 on 1 host, 2 ranks: 60.0 samples/s" in capsys.readouterr().out
    assert run_action(measurement_check, options)["interrupted"] == ["demo+on-1-r1"]
    assert "1 runs have been made, 2 are left" in capsys.readouterr().out
    chosen = step(options)
    assert chosen["run"]["job"] == "demo+sanity"
    for speed in (50.0, 100.0):
        chosen = step(options, tried=tried(chosen, speed))
    assert chosen["run"]["job"] == "demo+on-2-r1"
    chosen = step(options, tried=tried(chosen, 150.0))
    assert (chosen["run"], chosen["trial"]) == ({}, {})
    assert (content(options)["state"], content(options)["cpu"]) == ("complete", "Xeon")
    checked = run_action(measurement_check, options)
    assert checked["ended"]
    capsys.readouterr()
    shown = {"measurement": checked["measurement"], "format": "json", "query": "counts[].speedup.median"}
    assert not run_action(measurement_report, shown)["changed"]
    assert json.loads(capsys.readouterr().out) == [1.0, 1.5]
    run_action(measurement_report, {"measurement": checked["measurement"]})
    assert f"All figures: {options['results']}/demo-scale/sweep.json" in capsys.readouterr().out


def test_a_step_can_be_read_as_a_job(options: dict[str, Any]) -> None:
    derived = step(options)["trial"]
    read = run_action(job_read, {"file": options["request"]["job"], "hosts": HOSTS, "derive": derived})
    assert (read["job"]["name"], read["hosts"]) == ("demo+sanity", HOSTS)
    assert read["job"]["args"] == {"seed": 1, "do_train": True, "save_strategy": "no", "max_steps": 2}


def test_a_failed_sanity_run(options: dict[str, Any]) -> None:
    chosen = step(options, tried=tried(step(options), None))
    assert re.fullmatch(r"The sanity run demo\+sanity failed, .*: no space left on node1", chosen["msg"])
    assert content(options)["sanity"]["reason"] == "no space left on node1"


def test_a_second_process_is_refused_while_the_first_measures(options: dict[str, Any]) -> None:
    """It would take the trial of the first for one that was interrupted, and stop it."""
    with subprocess.Popen(["sleep", "100"]) as first:
        step(options)
        file = Path(options["results"]) / ".demo-scale.process"
        assert file.read_text() == measurements.process(os.getppid())
        file.write_text(measurements.process(first.pid))
        for options["request"]["again"] in (False, True):
            with pytest.raises(KeyError):
                step(options)
            refused = run_action(measurement_check, options)["msg"]
            assert refused.startswith(f"process {first.pid} of this machine makes the sweep of job demo already")
            assert "msg" not in run_action(measurement_check, options, check=True)
        first.kill()
        os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie
        step(options)
    for other in (f"{os.getpid()} 1", "", "of someone else"):  # the number is another process's since
        file.write_text(other)
        step(options)


def test_again_moves_a_measurement_aside(options: dict[str, Any]) -> None:
    step(options)
    Path(options["results"], "demo-scale/note").write_text("kept")
    Path(options["request"]["job"]).with_name("train.py").write_text("changed = True\n")
    said = run_action(measurement_check, options)["msg"]
    assert "results of both cannot be mixed" in said
    assert "- the content of train.py differs" in said
    again = wanting(options, again=True)
    assert not run_action(measurement_check, again).get("failed")
    step(again)
    (aside,) = Path(options["results"]).glob("demo-scale.*")
    assert (aside / "note").read_text() == "kept"
    assert not Path(options["results"], "demo-scale/note").exists()


def test_in_check_mode_a_sweep_shows_its_runs(options: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    Path(options["request"]["job"]).write_text("{name: demo, script: train.py, hosts: 1}")  # of other runs
    measurement = run_action(measurement_check, {**options, "format": "json"})["measurement"]
    run_action(measurement_next, {"measurement": measurement}, check=True)
    assert capsys.readouterr().out == ("Would be run: demo+sanity, demo+one-process-r1, demo+on-1-r1, demo+on-2-r1\n")
    assert not Path(options["results"]).exists()


def test_the_link_of_the_slowest_host() -> None:
    hosts = [{"host": "node0", "link_mbit": 25000}, {"host": "node1", "link_mbit": 10000}, {"host": "node2"}]
    assert sweep.slowest_link({"hosts": hosts}, ["node0", "node1"]) == 10000
    assert sweep.slowest_link({"hosts": hosts}, ["node0", "node2"]) is None
    assert sweep.slowest_link({}, ["node0"]) is None


def test_optimize_is_varied_where_the_stack_of_the_head_has_it(options: dict[str, Any]) -> None:
    options = wanting({**options, "kind": "tuning", "optimize": "none"}, vary="optimize", repeats=2)
    accepted = {"node0": [{"settings": {**CORES, "backend": "gloo"}, "allocation": "a"}]}
    options["hosts"] = ["node0"]
    chosen = step(options, found=accepted, head={"packages": {"torch": "2.13.0+cpu"}})
    assert chosen["trial"]["fields"]["optimize"] == "none"
    chosen = step(options, tried=tried(chosen, 100.0))
    assert chosen["trial"]["fields"]["optimize"] == "auto"
    chosen = step(wanting(options, again=True), found=accepted, head={"packages": {"torch": "2.8.0"}})
    assert "optimize" not in chosen["trial"]["fields"]
    refused = run_action(measurement_check, {**options, "optimize": "all"})
    assert refused["msg"].startswith("cluster_optimize: 'all' is neither auto, none nor ")


def test_a_tuning_writes_its_winner(options: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    options = wanting({**options, "kind": "tuning"}, repeats=2, vary="comm_cores", write="true")
    checked = run_action(measurement_check, options)
    assert checked["questions"]["vary"] == ["comm_cores"]
    assert checked["questions"]["backends"]["gloo"] == ["gloo"]
    settings = [{**CORES, "backend": "gloo", "comm_cores": cores} for cores in (0, 1)]
    accepted = [{"settings": each, "allocation": str(each)} for each in settings]
    assert "has no settings that are valid on every one of node0, node1" in step(options, found={"node0": []})["msg"]
    chosen = step(options, found=dict.fromkeys(HOSTS, accepted))
    assert run_action(measurement_check, options)["interrupted"] == ["demo+tune-1"]
    while chosen["run"]:
        assert chosen["trial"]["fields"]["comm_cores"] == chosen["run"]["settings"]["comm_cores"]
        speed = 100.0 + 50 * chosen["run"]["settings"]["comm_cores"]
        chosen = step(options, tried=tried(chosen, speed, hosts=2), found=dict.fromkeys(HOSTS, accepted))
    assert content(options, "demo-tune/tune.json")["verdict"] == "faster"
    checked = run_action(measurement_check, options)
    assert (checked["ended"], checked["interrupted"]) == (True, [])
    assert "6 trials have been made, it has ended" in capsys.readouterr().out
    file = Path(options["request"]["job"])
    assert run_action(measurement_report, {"measurement": checked["measurement"]}, check=True)["changed"]
    assert "comm_cores" not in file.read_text()
    assert run_action(measurement_report, {"measurement": checked["measurement"]})["changed"]
    assert yaml.safe_load(file.read_text())["comm_cores"] == 1
    assert f"Written to {file}." in capsys.readouterr().out
    said = run_action(measurement_report, {"measurement": checked["measurement"]})["msg"]
    assert said.startswith(f"{file} has been changed since it was tuned: apply the diff in ")


def test_an_order_of_rows_is_that_of_its_hosts(options: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    options = {**options, "kind": "sampling", "request": {"job": options["request"]["job"]}, "hosts": ["node0"]}
    file = Path(options["request"]["job"])
    # Whose args no line can be added to.
    file.write_text("name: demo\nscript: train.py\nenv: &a {seed: '1'}\nargs: *a\n")
    assert "node0 has transformers 4.51.3: " in step(options, found={"node0": {"transformers": "4.51.3"}})["msg"]
    assert not Path(options["results"], "demo-sampling").exists()
    chosen = step(options, found={"node0": {"transformers": "5.23.0"}})
    while chosen["run"]:
        came = tried(chosen, 100.0 + (chosen["run"]["setting"] == "group_by_length"), hosts=1)
        came["outcome"]["metrics"] = {"eval_loss": 0.5, **came["outcome"].get("metrics", {})}
        chosen = step(options, tried=came)
    found = content(options, "demo-sampling/sampling.json")
    assert (found["verdict"], found["diff"]) == ("faster", "")
    assert "there is no diff: " in found["notes"][0]
    run_action(measurement_check, options)
    assert "Tuning of train_sampling_strategy of job demo on 1 host: " in capsys.readouterr().out
    said = run_action(measurement_check, {**options, "hosts": HOSTS})["msg"]
    assert "the hosts differ: node0, now node0, node1" in said


def test_a_job_that_fails_is_not_tuned(options: dict[str, Any]) -> None:
    options = {**options, "kind": "tuning", "request": {"job": options["request"]["job"]}}
    accepted = [{"settings": {**CORES, "backend": "gloo"}, "allocation": "a"}]
    chosen = step(options, found={"node0": accepted})
    assert step(options, tried=tried(chosen, None))["run"] == {}
    measurement = run_action(measurement_check, options)["measurement"]
    said = run_action(measurement_report, {"measurement": measurement})["msg"]
    assert said == "job demo was not tuned: the job itself failed: no space left on node1"


def test_inference_is_measured_and_recommended(options: dict[str, Any], tmp_path: Path) -> None:
    wanted = {"models": ["distilbert-small", "job:gone"], "precisions": ["fp32"], "batch_sizes": [1], "seconds": 1}
    job = {"name": "speed", "kind": "inference", "inference": wanted}
    (tmp_path / "speed.yml").write_text(json.dumps(job))
    options = {**options, "kind": "inference", "request": {"job": str(tmp_path / "speed.yml"), "p99_ms": "50"}}
    checked = run_action(measurement_check, {**options, "prefix": "/opt/amx"})
    assert list(checked["questions"]["models"]) == ["job:gone"]
    assert checked["questions"]["instances_per_node"] == [1, "auto", "cores"]
    one = {"name": "1", "ranks_per_node": 1, "reserved_cores": 0, "instances": 1, "threads": 2, "allocation": "a"}
    accepted = {host: [{**one, "error": ""}] for host in HOSTS}
    models = {"job:gone": {"error": "no such directory", "config": base64.b64encode(b"{}").decode(), "job": ""}}
    chosen = step(options, found=accepted, head={"models": models, "cpu": "Xeon", "stack": "native"})
    told = chosen["trial"]["fields"]["request"]
    assert [cell["model"] for cell in told["cells"]] == ["distilbert-small"]
    measured = {
        **{"instances": 1, "state": "measured", "reason": "", "first_call_seconds": 0.1, "peak_memory_bytes": 1},
        **{"throughput": {"value": 50.0, "low": 49.0, "high": 51.0}, "overhead": 0.0, "isa": "avx512", "open_loop": []},
        **{"latencies_us": {"values": [20000.0], "count": 1}, "emulated": False, "int8_route": None},
        **{"agreement": None, "generation": None},
    }
    cells = {cell["id"]: measured for cell in told["cells"]}
    said = {"job": chosen["run"]["job"], "state": "succeeded", "reason": "", "outcome": {}}
    assert step(options, tried=said, found=dict.fromkeys(HOSTS, cells))["run"] == {}
    document = content(options, "speed-inference/inference.json")
    assert document["limit_p99_ms"] == 50.0
    (refused,) = {cell["reason"] for cell in document["cells"] if cell["model"] == "job:gone"}
    assert re.fullmatch(r"the model that job gone trained .* playbooks/train.yml .*\(no such directory\)", refused)
    setting = Path(options["results"], "speed-inference/recommended-distilbert-small.yml")
    assert yaml.safe_load(setting.read_text())["precision"] == "fp32"


def test_options_of_another_kind_of_tuning_are_refused() -> None:
    task = {"kind": "sampling", "request": {"job": "a.yml"}, "hosts": HOSTS, "results": "here"}
    given = {"learning_rates": "1e-5", "write_to": "inventory", "metric": "eval_f1"}
    with pytest.raises(ValueError, match=r"^write_to, learning_rates: not for sampling, leave them out$"):
        measurements.requested(task, given.get, {}, lambda value: value)


def test_what_is_set_on_the_command_line_wins() -> None:
    task = {"kind": "sweep", "request": {"job": "a.yml", "repeats": 5, "steps": 9}, "hosts": HOSTS, "results": "here"}
    given = {"repeats": "7"}
    earlier = {"scale_steps": 4, "scale_scaling": "weak", "scale_results": "there", "tune_results": "nowhere"}
    found = measurements.requested(task, given.get, {**earlier, "counts": [3]}, lambda value: value)
    assert found["request"] == {"job": "a.yml", "repeats": "7", "steps": 9, "scaling": "weak"}
    assert (found["results"], found["hosts"]) == ("there", HOSTS)
    tuning = {**task, "kind": "tuning", "request": {}}
    found = measurements.requested(tuning, lambda _name: None, {"tune_batch_sizes": True}, lambda value: value)
    assert found["request"] == {"tune_batch": True}


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"repeat": 3}, "request: repeat is not one of job, override, again, counts, repeats, "),
        ({"again": "perhaps"}, "again: 'perhaps' is not true or false"),
        ({"constant_global_batch": "maybe"}, "constant_global_batch: 'maybe' is not true or false"),
    ],
)
def test_refusals(options: dict[str, Any], request_: dict[str, Any], message: str) -> None:
    assert message in run_action(measurement_check, wanting(options, **request_))["msg"]


def test_an_estimate_is_made_anew_each_time(options: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    options = {**options, "kind": "estimate", "request": {"job": options["request"]["job"]}}
    links = {"node0": 10000, "node1": 10000}
    measurement = run_action(measurement_check, options)["measurement"]
    assert capsys.readouterr().out == "Estimate of job demo: 5 steps on node0, after 5 of warm-up\n"
    run_action(measurement_next, {"measurement": measurement}, check=True)
    assert capsys.readouterr().out == "Would be run: demo+estimate (10 steps on node0)\n"
    assert not Path(options["results"]).exists()
    chosen = step(options, found=links)
    assert chosen["trial"]["fields"] == {"hosts": ["node0"]}
    read = run_action(
        job_read, {"file": options["request"]["job"], "hosts": HOSTS, "derive": chosen["trial"], "purpose": "trial"}
    )
    assert (read["hosts"], read["job"]["args"]["max_steps"]) == (["node0"], 10)
    assert run_action(measurement_check, options)["interrupted"] == ["demo+estimate"]
    said = step(options, tried=tried(chosen, None))["msg"]
    assert said == "Job demo has no estimate: demo+estimate failed: no space left on node1"
    assert run_action(measurement_check, options)["interrupted"] == []
    chosen = step(options, found=links)
    came = tried(chosen, 20.0)
    rank = {"compute": 0.5, "communication": 0.0, "input": 0.0, "other": 0.0}
    measured = {"step_seconds": {"mean": 0.5}, "samples_per_second": 20.0, "samples_per_step": 10, "ranks": [rank]}
    came["outcome"]["measured"] = measured
    training = {"samples": 100, "epochs": 2.0, "parameters": 1000, "gradient_bytes": 4000}
    came["progress"] = {"samples_per_step": 10, "training": training}
    capsys.readouterr()
    assert step(options, tried=came)["run"] == {}
    shown = {"measurement": measurement, "format": "json", "query": "rows[].[hosts, steps]"}
    run_action(measurement_report, shown)
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == [[1, 20], [2, 10]]
    assert {path.name for path in Path(options["results"]).iterdir()} == {".demo-estimate.process", "demo-estimate"}


@pytest.mark.parametrize(
    ("kind", "request_", "message"),
    [
        ("torch", {}, "job demo is of kind torch, which "),
        ("trainer", {"steps": 0}, "steps: 0 is not a whole number"),
        ("trainer", {"estimate": "perhaps"}, "estimate: 'perhaps' is not true or false"),
    ],
)
def test_refusals_of_an_estimate(options: dict[str, Any], kind: str, request_: dict[str, Any], message: str) -> None:
    Path(options["request"]["job"]).write_text(f"{{name: demo, script: train.py, kind: {kind}}}")
    request = {"job": options["request"]["job"], **request_}
    assert message in run_action(measurement_check, {**options, "kind": "estimate", "request": request})["msg"]


def test_a_kind_that_there_is_not(options: dict[str, Any]) -> None:
    said = run_action(measurement_check, {**options, "kind": "search"})["msg"]
    assert said == "kind: 'search' is not one of sweep, tuning, learning_rate, sampling, inference, estimate"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("repeat", "repeat: unknown option; did you mean amx_repeats?"),
        ("amx_scalling", "amx_scalling: unknown option; did you mean amx_scaling?"),
        *((name, "") for name in ("repeats", "amx_repeats", "cluster_user", "job_env", "ansible_user", "my_own")),
    ],
)
def test_misspelt_options(name: str, said: str) -> None:
    assert requested.misspelt([name], (*document.ARGUMENTS, *measurements.names("sweep"))) == said
