from __future__ import annotations

from pathlib import Path

import docs_site


def test_the_page_of_playbooks_is_made_of_their_first_comments(tmp_path: Path) -> None:
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks/a.yml").write_text(
        "---\n# Do it: ansible-playbook -i mine\n# a.yml -e job=x [-e y=1 -e z=2] With a job: more, -e a=b.\n"
        "- hosts: all\n# no\n"
    )
    assert docs_site.playbooks(tmp_path).split("## a.yml\n")[1].split("\n") == [
        "",
        "Do it:",
        "",
        "    ansible-playbook -i mine a.yml -e job=x",
        "      [-e y=1 -e z=2]",
        "",
        "With a job: more, `-e a=b`.",
        "",
    ]


def test_what_is_internal_is_left_out() -> None:
    modules = docs_site.ROOT / "plugins/modules"
    left_out = docs_site.internal(str(modules), [path.name for path in modules.iterdir()])
    assert {"show.yml", "own_path.py"} <= left_out
    assert "core_allocation.py" not in left_out
