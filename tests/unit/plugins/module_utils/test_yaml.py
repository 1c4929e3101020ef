"""What users write in YAML: nothing in it is passed over in silence."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils import _yaml
from ansible_collections.amx.cluster.plugins.module_utils._cloud import request
from ansible_collections.amx.cluster.plugins.module_utils._jobs import job_file
from ansible_collections.amx.cluster.plugins.plugin_utils import predictions, requested
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import arguments, table


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: 2\na: 3", "line 3, column 1: the key a is there twice, first in line 1: remove one"),
        ("x: {a: 1, 'a': 2}", "line 1, column 11: the key a is there twice, first in line 1: remove one"),
        ('{"a": {"b": 1,\n"b": 1}}', "line 2, column 1: the key b is there twice, first in line 1: remove one"),
        ("- [{1: a, 0x1: b}]", "line 1, column 11: the key 0x1 is there twice, first in line 1: remove one"),
        ("yes: a\ntrue: b", "line 2, column 1: the key true is there twice, first in line 1: remove one"),
        ("a: &a {b: *a}", "line 1, column 11: *a is within what it stands for"),
        ("a: &a [1, [*a]]", "line 1, column 12: *a is within what it stands for"),
        (
            "a: [1",
            "is not YAML: line 1, column 6: while parsing a flow sequence, expected ',' or ']', but got '<stream end>'",
        ),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(yaml.YAMLError) as raised:
        _yaml.load(text)
    assert _yaml.problem(raised.value) == problem


@pytest.mark.parametrize(
    "text",
    [
        "base: &base {a: 1, b: 2}\none: {<<: *base, a: 3}\ntwo: {<<: *base, b: 4, c: *base}",
        "a: &a {x: 1}\nb: &b {<<: *a, x: 2}\nc: {<<: *b, x: 3}\nd: {<<: [*a, *b], x: 4}",
        "1: a\n'1': b\n1.5: c\nnull: d",
        "[{a: 1}, {a: 1}]",
        "",
        "a: 2026-11-27\nb: .nan",
    ],
)
def test_what_is_read_as_ever(text: str) -> None:
    assert repr(_yaml.load(text)) == repr(yaml.safe_load(text))


def test_a_key_twice_is_refused_wherever_users_write_yaml(tmp_path: Path) -> None:
    path = tmp_path / "file.yml"
    path.write_text("name: demo\nargs: {num_train_epochs: 1, num_train_epochs: 2}\n")
    twice = "line 2, column 29: the key num_train_epochs is there twice"
    for read in (job_file.load, job_file.without_secrets, request.load, predictions._setting):
        with pytest.raises((ValueError, yaml.YAMLError)) as raised:
            read(path)
        assert twice in (str(raised.value) if isinstance(raised.value, ValueError) else _yaml.problem(raised.value))
    with pytest.raises(ValueError, match=r"^amx_override: line 1, column 8: the key a is there twice"):
        requested.structured("override", "{a: 1, a: 2}")
    train = next(command for command in table.COMMANDS if command.name == "train")
    with pytest.raises(arguments.UsageError, match="the key a is there twice"):
        arguments._value_of(train, "--set", "{a: 1, a: 2}")
