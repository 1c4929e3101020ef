from __future__ import annotations

import re
from pathlib import Path

import generated_docs
import pytest
import role_interfaces
import yaml

PAGE = """# Page

<!-- begin numbers: written by `make docs` -->
{text}<!-- end numbers -->

More.
"""


def test_a_block_is_written_anew() -> None:
    for before in ("", "anything\n\nold\n"):
        page, names = generated_docs.generated(PAGE.format(text=before), {"numbers": lambda: "| 1 |\n"})
        assert (page, names) == (PAGE.format(text="\n| 1 |\n\n"), ["numbers"])
        assert generated_docs.generated(page, {"numbers": lambda: "| 1 |\n"})[0] == page


def test_two_blocks() -> None:
    two = PAGE.format(text="") + PAGE.format(text="").replace("numbers", "letters")
    page, names = generated_docs.generated(two, {"letters": lambda: "a", "numbers": lambda: "1"})
    assert names == ["numbers", "letters"]
    assert re.findall(r"^[a-z0-9]$", page, re.M) == ["1", "a"]


@pytest.mark.parametrize(
    ("page", "error"),
    [
        (PAGE.format(text=""), "block 'numbers' is none of letters: add it to BLOCKS in tools/generated_docs.py"),
        (PAGE.replace("end numbers", "end letters"), "a block begins and does not end, or ends under another name"),
    ],
)
def test_blocks_that_cannot_be_written(page: str, error: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        generated_docs.generated(page, {"letters": lambda: "a"})


def test_a_block_in_no_page(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("Nothing is generated here.\n")
    (tmp_path / "docs/page.md").write_text(PAGE.format(text=""))
    texts, problems = generated_docs.pages(tmp_path, {"numbers": lambda: "1", "letters": lambda: "a"})
    assert list(texts) == [tmp_path / "README.md", tmp_path / "docs/page.md"]
    assert problems == ["block 'letters' is in no page: add it to one, or remove it from BLOCKS"]


def role(tmp_path: Path, options: dict[str, object], defaults: dict[str, object]) -> Path:
    made = tmp_path / "roles" / "mine"
    for name, content in {
        "meta/argument_specs.yml": {"argument_specs": {"main": {"short_description": "Do it", "options": options}}},
        "defaults/main.yml": defaults,
    }.items():
        (made / name).parent.mkdir(parents=True)
        (made / name).write_text(yaml.safe_dump(content))
    return made


def test_an_interface_that_contradicts_itself(tmp_path: Path) -> None:
    made = role(
        tmp_path,
        {
            "mine_a": {"type": "int", "default": 1, "description": "The first."},
            "mine_b": {"type": "str", "required": True, "description": "The second."},
            "other": {"type": "str"},
            "mine_d": {"type": "str", "description": "The fourth."},
        },
        {"mine_a": 2, "mine_b": "x", "mine_c": 3, "mine_d": "{{ cluster_d }}"},
    )
    assert role_interfaces.differences(made) == [
        "option other has no description",
        "option mine_a has the default 1 in argument_specs, 2 in defaults/main.yml",
        "option mine_b is required, but has a default",
        "option mine_d has the default {{ cluster_d }}: describe it, 'By default ...'",
        "option other does not begin with mine_",
        "option other is not in defaults/main.yml",
        "default mine_c is not in meta/argument_specs.yml",
    ]


def test_the_readme_of_a_role(tmp_path: Path) -> None:
    options: dict[str, object] = {
        "mine_a": {"type": "list", "elements": "str", "description": "A|B, V(x), O(mine_b) or C(docs/a.md)."},
        "mine_b": {"type": "str", "description": "By default C(b)."},
        "mine_d": {"type": "raw", "description": "Instead of the job's."},
    }
    defaults: dict[str, object] = {"mine_a": ["x"], "mine_b": "{{ b }}", "mine_c": "{{ c }}", "mine_d": None}
    made = role(tmp_path, options, defaults)
    specs = made / "meta/argument_specs.yml"
    more = {"mine_c": {"type": "str", "choices": ["", "c"], "description": "C. By default C(c)."}}
    points = yaml.safe_load(specs.read_text())["argument_specs"]
    points["show"] = {"short_description": "Show it", "options": options | more}
    points["stop"] = {"short_description": "Stop it"}
    specs.write_text(yaml.safe_dump({"argument_specs": points}))
    assert role_interfaces.differences(made) == []
    assert role_interfaces.readme(made) == (
        "# amx.cluster.mine\n\n"
        f"{role_interfaces.GENERATED}\n\n"
        "Do it.\n\n"
        "| variable | type | default | what it is |\n|---|---|---|---|\n"
        "| `mine_a` | list of str | `[x]` | A\\|B, `x`, `mine_b` or [docs/a.md](../../docs/a.md). |\n"
        "| `mine_b` | str | `{{ b }}` | By default `b`. |\n"
        "| `mine_d` | raw |  | Instead of the job's. |\n\n"
        "## Entry point `show`\n\nShow it.\n\n"
        "| variable | type | default | what it is |\n|---|---|---|---|\n"
        "| `mine_c` | str: empty, `c` | `{{ c }}` | C. By default `c`. |\n\n"
        "As above: `mine_a`, `mine_b`, `mine_d`.\n\n"
        "## Entry point `stop`\n\nStop it.\n\nIt has no variables.\n"
    )
