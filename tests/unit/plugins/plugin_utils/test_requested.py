"""Options of the command line, by their names with and without the prefix."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.plugin_utils import requested


def on_the_command_line(monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]) -> list[tuple[str, str]]:
    """Have these variables on it; return the deprecations that are shown."""
    shown: list[tuple[str, str]] = []
    monkeypatch.setattr(requested, "given", lambda _loader: given)
    monkeypatch.setattr(
        requested.display, "deprecated", lambda text, version, collection_name: shown.append((text, version))
    )
    return shown


def read(name: str, variables: dict[str, Any]) -> Any:
    return requested.read(None, name, variables, lambda value: value, "none")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"amx_job": "a"}, "amx_job"),
        ({"job": "a"}, "job"),
        ({"amx_job": "a", "job": "a"}, "amx_job"),
        ({"other": "a"}, ""),
    ],
)
def test_an_option_has_two_names(given: dict[str, Any], found: str) -> None:
    assert requested.variable("job", given) == found


def test_both_names_with_different_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    on_the_command_line(monkeypatch, {"amx_job": "a", "job": "b"})
    with pytest.raises(ValueError, match="are both set, and differ: set amx_job alone"):
        requested.check(None)


def test_a_value_is_that_of_the_variable_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = on_the_command_line(monkeypatch, {"amx_job": "raw"})
    assert read("job", {"amx_job": "evaluated", "job": "of the inventory"}) == "evaluated"
    assert read("data", {"data": "of the inventory"}) == "none"
    assert shown == []


def test_previous_names_are_deprecated_in_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"job": "a", "data": "b", "job_resume": True, "mine": 1, "amx_again": True}
    shown = on_the_command_line(monkeypatch, given)
    assert (read("job", given), read("data", given)) == ("a", "b")
    ((text, version),) = set(shown)
    assert text == (
        "the variables job, data of the command line: name them amx_job, amx_data, or use the command `amx`."
    )
    assert version == "2.0.0"
    assert requested.deprecation(["amx_job", "mine"]) == ""
    assert "the variable job of the command line: name it amx_job," in requested.deprecation(["job"])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("amx_jobb", "amx_jobb: unknown option; did you mean amx_job?"),
        ("amx_own_thing", ""),
        ("jobb", ""),
    ],
)
def test_a_misspelt_name_with_the_prefix_is_refused(name: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on_the_command_line(monkeypatch, {name: 1})
    if said:
        with pytest.raises(ValueError, match="did you mean") as refused:
            requested.check(None)
        assert str(refused.value) == said
    else:
        requested.check(None)


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("override", "{hosts: 2, args: {max_steps: 50}}", {"hosts": 2, "args": {"max_steps": 50}}),
        ("override", "hosts: 2\nargs:\n  max_steps: 50\n", {"hosts": 2, "args": {"max_steps": 50}}),
        ("override", {"hosts": 2}, {"hosts": 2}),
        ("override", "", ""),
        ("setting", "setting.yml", "setting.yml"),
        ("of", "[a, b]", ["a", "b"]),
        ("job", "{a}.yml", "{a}.yml"),
    ],
)
def test_a_mapping_may_be_text(monkeypatch: pytest.MonkeyPatch, name: str, given: Any, value: Any) -> None:
    on_the_command_line(monkeypatch, {f"amx_{name}": given})
    assert read(name, {f"amx_{name}": given}) == value


def test_text_that_is_no_mapping_is_refused_without_its_content(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"amx_override": "{env: {TOKEN: secret}"}
    on_the_command_line(monkeypatch, given)
    with pytest.raises(ValueError, match="amx_override is not YAML: write it as") as raised:
        read("override", given)
    assert "secret" not in str(raised.value)
