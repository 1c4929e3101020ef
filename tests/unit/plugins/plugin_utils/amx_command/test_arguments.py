"""What users type, and what ansible-playbook is started with."""

from __future__ import annotations

import json
import shlex

import pytest
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import arguments, table
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command.arguments import UsageError


def run(line: str) -> arguments.Run:
    name, rest = arguments.split(shlex.split(line))
    return arguments.read(arguments.command(name), rest)


def words(line: str) -> str:
    return shlex.join(run(line).words("PLAYBOOK"))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("status", "PLAYBOOK"),
        ("train jobs/demo.yml", "PLAYBOOK -e amx_job=jobs/demo.yml"),
        ("-i inventories/mine train a.yml -v", "-i inventories/mine -v PLAYBOOK -e amx_job=a.yml"),
        ("train a.yml -vv -K --limit node1 -i x", "-i x -l node1 -vv --ask-become-pass PLAYBOOK -e amx_job=a.yml"),
        ("-v site -v --check --diff", "--check --diff -vv PLAYBOOK"),
        ("site -e a=1 --extra-vars '{b: 2}'", "-e a=1 -e '{b: 2}' PLAYBOOK"),
        ("site -- --start-at-task 'Check it'", "--start-at-task 'Check it' PLAYBOOK"),
        (
            "site --ssh-mesh-rotate --torch-stack-use previous",
            "PLAYBOOK -e ssh_mesh_rotate=true -e torch_stack_use=previous",
        ),
        ("plan --estimate jobs/demo.yml", "PLAYBOOK -e amx_job=jobs/demo.yml -e amx_estimate=true"),
        ("scale a.yml --no-again", "PLAYBOOK -e amx_job=a.yml -e amx_again=false"),
        ("infer a.yml --p99-ms 50 --again false", "PLAYBOOK -e amx_job=a.yml -e amx_p99_ms=50 -e amx_again=false"),
        ("tune a.yml --write-to job", "PLAYBOOK -e amx_job=a.yml -e amx_write_to=job"),
        ("train --profile a.yml", "PLAYBOOK -e amx_job=a.yml -e amx_profile=true"),
        (
            "train --profile 10 a.yml --job-resume auto",
            "PLAYBOOK -e amx_job=a.yml -e job_resume=auto -e amx_profile=10",
        ),
        ("train a.yml --resume", "PLAYBOOK -e amx_job=a.yml -e job_resume=true"),
        ("train a.yml --job-resume", "PLAYBOOK -e amx_job=a.yml -e job_resume=true"),
        (
            "predict a b.csv --output c.csv --document d",
            "PLAYBOOK -e amx_job=a -e amx_data=b.csv -e amx_output_file=c.csv -e amx_output=d -e amx_format=json",
        ),
        ("train a.yml --no-refuse-memory", "PLAYBOOK -e amx_job=a.yml -e job_refuse_memory=false"),
        ("train a.yml --ignore-memory", "PLAYBOOK -e amx_job=a.yml -e job_refuse_memory=false"),
        ("train a.yml --ignore-memory=true", "PLAYBOOK -e amx_job=a.yml -e job_refuse_memory=false"),
        ("train a.yml --ignore-memory=false", "PLAYBOOK -e amx_job=a.yml -e job_refuse_memory=true"),
        ("train a.yml --no-job-refuse-memory", "PLAYBOOK -e amx_job=a.yml -e job_refuse_memory=false"),
        ("serve a --serve-port=80 --name b", "PLAYBOOK -e amx_job=a -e amx_serve_port=80 -e amx_serve_name=b"),
        ("predict demo rows.csv", "PLAYBOOK -e amx_job=demo -e amx_data=rows.csv"),
        ("predict --model dir rows.csv", "PLAYBOOK -e amx_data=rows.csv -e amx_model=dir"),
        ("reset", "PLAYBOOK"),
        ("reset jobs data", "PLAYBOOK -e amx_reset=jobs,data"),
        (
            "cloud spr.yml --state absent --images",
            "PLAYBOOK -e amx_cloud=spr.yml -e amx_state=absent -e amx_images=true",
        ),
        ("cloud-train spr.yml a.yml", "PLAYBOOK -e amx_cloud=spr.yml -e amx_job=a.yml"),
        ("doctor --json", "PLAYBOOK -e amx_format=json"),
        ("status --query 'jobs[].name'", """PLAYBOOK -e '{"amx_query": "jobs[].name"}' -e amx_format=json"""),
        ("train 'my job.yml'", """PLAYBOOK -e '{"amx_job": "my job.yml"}'"""),
    ],
)
def test_arguments_become_those_of_ansible_playbook(line: str, expected: str) -> None:
    assert words(line) == expected


@pytest.mark.parametrize(
    ("options", "override"),
    [
        ("--set hosts=4", {"hosts": 4}),
        ("--hosts 4", {"hosts": 4}),
        ("--hosts '[a, b]' --set wait=true", {"hosts": ["a", "b"], "wait": True}),
        ("--set args.learning_rate=3e-5 --set args.max_steps=50", {"args": {"learning_rate": "3e-5", "max_steps": 50}}),
        ("--set env.A=b=c --set name=", {"env": {"A": "b=c"}, "name": None}),
        ("--set 'expect={loss: 1.5}'", {"expect": {"loss": 1.5}}),
    ],
)
def test_fields_of_the_job_file(options: str, override: dict[str, object]) -> None:
    assert run(f"train a.yml {options}").variables["amx_override"] == override


def test_mappings_are_given_as_they_are() -> None:
    found = run("tune a.yml --env-values '{CCL_ALLREDUCE: [ring, direct]}'")
    assert found.variables["amx_env_values"] == {"CCL_ALLREDUCE": ["ring", "direct"]}
    given = found.words("PLAYBOOK")[-1]
    assert json.loads(given) == {"amx_env_values": {"CCL_ALLREDUCE": ["ring", "direct"]}}
    assert run("image --image-packages '[a==1]'").variables == {"image_packages": ["a==1"]}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("trian a.yml", "amx: unknown command trian; did you mean train?"),
        ("cloud_train a b", "amx: unknown command cloud_train; did you mean cloud-train?"),
        ("xyz", "amx: unknown command xyz; `amx --help` lists all"),
        ("tune a.yml --budgt 3", "amx tune: unknown option --budgt; did you mean --budget?"),
        ("tune a.yml --write_to job", "amx tune: unknown option --write_to; did you mean --write-to?"),
        ("status --estimate", "amx status: unknown option --estimate; `amx status --help` lists all"),
        ("train", "amx train: JOB is missing: the job file, or the name of a job"),
        (
            "predict demo",
            "amx predict: DATA is missing: the CSV, JSON lines or Parquet file; head:PATH for one on the head",
        ),
        ("train a b", "amx train: unexpected argument b; usage: amx train JOB"),
        ("scale a --steps", "amx scale: argument --steps: expected one argument"),
        ("scale a --again=often", "amx scale: --again: often is not true or false"),
        ("train a --ignore-memory=often", "amx train: --ignore-memory: often is not true or false"),
        ("train a --set hosts", "amx train: --set hosts is not FIELD=VALUE, such as args.max_steps=50"),
        ("train a --set a.b=1 --set a.b=2", "amx train: --set a.b=2: a.b is set to 1 already: leave one out"),
        ("train a --set hosts=1 --hosts 2", "amx train: --set hosts=2: hosts is set to 1 already: leave one out"),
        ("train a --set a.b=1 --set a=2", "amx train: --set a=2: a is set to {'b': 1} already: leave one out"),
        ("train a --set a=1 --set a.b=2", "amx train: --set a.b=2: a is set to 1"),
        ("train a --set 'a=[1'", "amx train: --set: [1 is not YAML"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(line: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        run(line)
    assert str(refused.value) == message


def test_json_is_printed_or_written() -> None:
    assert run("status --json").prints_json
    assert not run("status --json --output a.json").prints_json
    assert not run("status").prints_json


@pytest.mark.parametrize("command", table.COMMANDS, ids=lambda command: command.name)
def test_every_option_is_passed_on_by_its_name(command: table.Command) -> None:
    given = [command.name, *(one.name for one in command.arguments)]
    for option in command.options:
        value = "a=1" if option is table.OVERRIDE else "x"
        given += [option.switch] if option.alone else [option.switch, value]
    name, rest = arguments.split(given)
    chosen = arguments.command(name)
    if chosen.instead:  # the first argument
        del rest[0]
    expected = {one.variable for one in (*chosen.arguments[bool(chosen.instead) :], *chosen.options)}
    assert set(arguments.read(chosen, rest).variables) == expected
