"""Pages of the site are made from the files that they are about."""

from __future__ import annotations

from pathlib import Path

import pytest
import site_reference


def test_playbooks(tmp_path: Path) -> None:
    (tmp_path / "playbooks").mkdir()
    path = tmp_path / "playbooks/a.yml"
    path.write_text(
        "---\n# Do it: ansible-playbook -i mine\n# a.yml -e job=x [-e y=1 -e z=2] With a job: more, -e a=b.\n"
        "- hosts: all\n# no\n"
    )
    page = site_reference.playbooks(tmp_path)
    assert page.split("## a.yml\n")[1].split("\n") == [
        "",
        "Do it:",
        "",
        "    ansible-playbook -i mine a.yml -e job=x",
        "      [-e y=1 -e z=2]",
        "",
        "With a job: more, `-e a=b`.",
        "",
    ]
    path.write_text("---\n- hosts: all\n")
    with pytest.raises(ValueError, match=r"^there is no comment at the beginning$"):
        site_reference.playbooks(tmp_path)


def test_variables(tmp_path: Path) -> None:
    path = tmp_path / "inventories/example/group_vars/cluster.yml"
    path.parent.mkdir(parents=True)
    path.write_text("# How to read this.\n\n# a_b (a | b; default: a): what it sets\n# (docs/x.md).\n# a_b: a\n")
    assert r"| `a_b` | a \| b | a | what it sets ([docs/x.md](../docs/x.md)). |" in site_reference.variables(tmp_path)
    path.write_text("# How to read this.\n\n# a_b: what it sets\n")
    with pytest.raises(ValueError, match="not of the form NAME"):
        site_reference.variables(tmp_path)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["string", "number"]}, "string or number"),
        ({"type": "array", "items": {"type": "integer"}}, "list of integer"),
        ({"anyOf": [{"type": "integer"}, {"const": "auto"}]}, "integer or `auto`"),
        ({"enum": ["a", "b"]}, "`a`, `b`"),
    ],
)
def test_types_in_words(schema: dict[str, object], words: str) -> None:
    assert site_reference.kind(schema) == words


def test_every_playbook_and_variable_of_the_project_has_its_entry() -> None:
    root = site_reference.ROOT
    page = site_reference.playbooks()
    assert all(f"## {path.name}\n" in page for path in (root / "playbooks").glob("*.yml"))
    assert "`cluster_network`" in site_reference.variables()
    assert "`script`" in site_reference.job_schema()
    assert "| [scale](../roles/scale/README.md) | Run a job on several numbers of hosts |" in site_reference.roles()
