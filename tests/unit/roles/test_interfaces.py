"""Each role's argument_specs and defaults agree, and it has the README without which Galaxy refuses a collection."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.checkout import ROOT

NAMES_DEFAULT = re.compile(r"\b(By|The) default\b", re.IGNORECASE)


def differences(role: str, points: dict[str, Any], defaults: dict[str, Any]) -> list[str]:
    """Return what is wrong with a role's interface, one sentence each.

    Every option stands in defaults, except those a caller must give (`required: true`), and every default is an
    option. Names begin with the role's, so that roles cannot read each other's variables by accident. A default that is
    computed cannot be in argument_specs, from which ansible-doc shows `null` for it: the description has it in words.
    """
    found = [] if "main" in points else ["there is no entry point main"]
    found += [
        f"entry point {point} has no short_description"
        for point in points
        if not points[point].get("short_description")
    ]
    options = {name: option for spec in points.values() for name, option in (spec.get("options") or {}).items()}
    for name, option in options.items():
        found += [f"option {name} has no {key}" for key in ("type", "description") if not option.get(key)]
        default = defaults.get(name)
        if not name.startswith(f"{role}_"):
            found.append(f"option {name} does not begin with {role}_")
        if option.get("required"):
            if name in defaults:
                found.append(f"option {name} is required, but has a default")
        elif name not in defaults:
            found.append(f"option {name} is not in defaults/main.yml")
        elif isinstance(default, str) and "{{" in default and not NAMES_DEFAULT.search(str(option.get("description"))):
            found.append(f"option {name} has the default {default}: describe it, 'By default ...'")
        if "default" in option and name in defaults and option["default"] != default:
            found.append(
                f"option {name} has the default {option['default']!r} in argument_specs, {default!r} in defaults"
            )
    return found + [f"default {name} is not in argument_specs" for name in defaults if name not in options]


@pytest.mark.parametrize("role", sorted((ROOT / "roles").iterdir()), ids=lambda role: role.name)
def test_argument_specs_and_defaults_agree(role: Path) -> None:
    points = yaml.safe_load((role / "meta/argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]
    path = role / "defaults/main.yml"
    defaults = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else None
    assert differences(role.name, points, defaults or {}) == []
    assert (role / "README.md").is_file()


@pytest.mark.parametrize("role", sorted((ROOT / "roles").iterdir()), ids=lambda role: role.name)
def test_the_example_of_a_readme_names_what_is_there(role: Path) -> None:
    """Its playbook or role, variables of the role with allowed values, and all of its tags."""
    text = (role / "README.md").read_text(encoding="utf-8")
    plays = yaml.safe_load(textwrap.dedent("\n".join(re.findall(r"^    .*|^$", text, re.MULTILINE))))
    last = plays[-1]
    if imported := last.get("ansible.builtin.import_playbook"):
        assert (ROOT / "playbooks" / f"{imported.removeprefix('amx.cluster.')}.yml").is_file()
        given = last["vars"]
    else:
        (used,) = last["roles"]
        assert used["role"] == f"amx.cluster.{role.name}"
        given = used["vars"]
    points = yaml.safe_load((role / "meta/argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]
    options = {name: option for point in points.values() for name, option in (point.get("options") or {}).items()}
    assert given.keys() <= options.keys()
    main = points["main"].get("options") or {}
    assert [name for name, option in main.items() if option.get("required") and name not in given] == []
    kinds: dict[str, Any] = {"dict": dict, "list": list, "int": int, "float": (int, float), "raw": object}
    for name, value in given.items():
        assert value in options[name].get("choices", [value])
        assert isinstance(value, kinds.get(options[name]["type"], str))
    tags = set(re.findall(r"\btags: (\w+)", "".join(path.read_text() for path in (role / "tasks").glob("*.yml"))))
    assert {tag for tag in tags - {"always"} if f"`{tag}`" not in text} == set()
