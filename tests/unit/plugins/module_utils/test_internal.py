"""Options of internal modules, by their documentation."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils import _internal

MODULES = Path(_internal.__file__).parents[1] / "modules"
FILES = [path for path in sorted(MODULES.glob("*.py")) if "argument_spec(DOCUMENTATION)" in path.read_text()]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_options_are_read_as_yaml_is(path: Path) -> None:
    assigned = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign)]
    documentation = next(
        ast.literal_eval(node.value) for node in assigned if "DOCUMENTATION" in ast.unparse(node.targets[0])
    )
    options = yaml.safe_load(documentation)["options"]
    expected = {
        name: {key: value for key, value in option.items() if key != "description"} for name, option in options.items()
    }
    assert _internal.argument_spec(documentation) == expected
