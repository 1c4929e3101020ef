"""What roles have of the options of `amx`."""

from __future__ import annotations

from pathlib import Path

import option_docs
import pytest
import yaml
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import table
from support.checkout import ROOT


def write_role(root: Path, name: str, block: str) -> None:
    for file in ("defaults/main.yml", "meta/argument_specs.yml"):
        path = root / "roles" / name / file
        path.parent.mkdir(parents=True)
        path.write_text(f"first: 1\n{block}last: 2\n")


def test_blocks_are_written_and_all_else_stays(tmp_path: Path) -> None:
    write_role(tmp_path, "serve", f"{option_docs.BEGIN}\nserve_old: gone\n# end options\n")
    texts = option_docs.roles(tmp_path)
    defaults = yaml.safe_load(texts[tmp_path / "roles/serve/defaults/main.yml"])
    documented = yaml.safe_load(texts[tmp_path / "roles/serve/meta/argument_specs.yml"])
    assert defaults["serve_port"] == "{{ lookup('amx.cluster.extra_var', 'serve_port') }}"
    assert documented["serve_port"]["type"] == "raw"
    assert "C(-e amx_serve_port), or V(8000)" in documented["serve_port"]["description"]
    assert defaults.keys() == documented.keys() >= {"first", "serve_job", "serve_override", "last"}
    assert "serve_old" not in defaults


@pytest.mark.parametrize(("name", "block"), [("serve", ""), ("pass_on", f"{option_docs.BEGIN}\n# end options\n")])
def test_a_role_without_its_block_is_an_error(tmp_path: Path, name: str, block: str) -> None:
    write_role(tmp_path, name, block)
    with pytest.raises(ValueError, match=f"roles/{name}/defaults/main.yml"):
        option_docs.roles(tmp_path)


def test_choices_that_are_the_text_stay_as_they_are_typed() -> None:
    assert option_docs.description(table.BY_OPTION["reset"]).startswith("V(jobs), V(previous), V(results), ")


def test_every_variable_is_one_of_a_role_a_playbook_or_a_runtime() -> None:
    roles = {path.name for path in (ROOT / "roles").iterdir()} | {"report", "load", "kubernetes", "cluster"}
    for option in table.EVERY:
        assert all(any(name.startswith(f"{role}_") for role in roles) for name in option.variables), option.name


def test_options_of_one_name_have_one_default() -> None:
    for option in table.EVERY:
        assert option.default == table.BY_OPTION[option.name].default
