from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._stacks import packaging_files
from ansible_collections.amx.cluster.plugins.module_utils._stacks.packaging_files import Requirement
from support.stand_ins import make_wheel


def test_requirements_files(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "requirements.txt").write_text(
        "# it\n--extra-index-url https://example.com\ntorch >= 2.0  # whichever\n\n-r more/base.txt\n-e .\n.[dev]\n"
        "peft == \\\n  0.1 --hash=sha256:ab\n-c limits.txt\nlosses @ git+https://example.com/losses.git@v1#egg=losses\n"
    )
    (tmp_path / "more/base.txt").write_text("\ufefftqdm\n")
    assert packaging_files.requirements(tmp_path) == [
        Requirement("torch >= 2.0", "requirements.txt, line 3"),
        Requirement("tqdm", "more/base.txt, line 1"),
        Requirement("peft ==    0.1", "requirements.txt, line 9"),
        Requirement("losses @ git+https://example.com/losses.git@v1#egg=losses", "requirements.txt, line 11"),
    ]
    assert packaging_files.requirements(tmp_path / "more") == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "-e ./libs/mine",
            "requirements.txt, line 1: -e ./libs/mine is a path: add the wheel of that package to `wheels`",
        ),
        ("/opt/a.whl", "requirements.txt, line 1: /opt/a.whl is a path"),
        ("-r none.txt", "none.txt cannot be read"),
        ("-r requirements.txt", "requirements.txt, line 1: -r requirements.txt: the file includes itself"),
    ],
)
def test_requirements_that_cannot_be(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "requirements.txt").write_text(line)
    with pytest.raises(ValueError, match=r"requirements\.txt|none\.txt") as caught:
        packaging_files.requirements(tmp_path)
    assert str(caught.value).startswith(said)


def test_pyproject(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    assert packaging_files.import_paths(tmp_path) == [""]
    assert packaging_files.distribution_files(tmp_path) == {}
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "my-words"\nversion = "1.2"\ndependencies = [\n  "torch==2.0.0",\n  "tqdm",\n]\n'
        '[project.scripts]\nwords = "words:main"\n[project.entry-points.plugins]\none = "words.one"\n'
    )
    assert packaging_files.requirements(tmp_path) == [
        Requirement("torch==2.0.0", "pyproject.toml, line 5"),
        Requirement("tqdm", "pyproject.toml, line 6"),
    ]
    assert packaging_files.import_paths(tmp_path) == ["", "src"]
    assert packaging_files.distribution_files(tmp_path) == {
        "my_words-1.2.dist-info/METADATA": "Metadata-Version: 2.1\nName: my-words\nVersion: 1.2\n",
        "my_words-1.2.dist-info/entry_points.txt": (
            "[console_scripts]\nwords = words:main\n\n[plugins]\none = words.one\n"
        ),
    }


@pytest.mark.parametrize(
    "text",
    [
        '[tool.setuptools.packages.find]\nwhere = ["code"]\n',
        '[tool.setuptools.package-dir]\n"" = "code"\n',
        '[tool.poetry]\npackages = [{include = "words", from = "code"}]\n',
        '[tool.hatch.build.targets.wheel]\npackages = ["code/words"]\n',
        '[tool.pdm.build]\npackage-dir = "code"\n',
    ],
)
def test_where_build_tools_find_packages(tmp_path: Path, text: str) -> None:
    (tmp_path / "code/words").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(text)
    assert packaging_files.import_paths(tmp_path) == ["", "code"]


def test_dependencies_that_only_a_build_knows(tmp_path: Path) -> None:
    content = tmp_path / "pyproject.toml"
    content.write_text('[project]\nname = "a"\ndynamic = ["dependencies", "version"]\n')
    with pytest.raises(
        ValueError, match=r"^pyproject.toml: dependencies are dynamic, .* list them in requirements.txt$"
    ):
        packaging_files.requirements(tmp_path)
    assert packaging_files.distribution_files(tmp_path) == {}
    content.write_text(content.read_text() + '[tool.setuptools.dynamic]\ndependencies = {file = ["deps.txt"]}\n')
    (tmp_path / "deps.txt").write_text("tqdm\n")
    assert packaging_files.requirements(tmp_path) == [Requirement("tqdm", "deps.txt, line 1")]
    content.write_text('[tool.poetry.dependencies]\ntqdm = "^4"\n')
    with pytest.raises(ValueError, match=r"^pyproject\.toml: dependencies of tool.poetry are in a syntax of its own"):
        packaging_files.requirements(tmp_path)
    (tmp_path / "requirements.txt").write_text("tqdm\n")
    assert packaging_files.requirements(tmp_path) == [Requirement("tqdm", "requirements.txt, line 1")]
    content.write_text("[project")
    with pytest.raises(ValueError, match=f"^{content} cannot be read: "):
        packaging_files.requirements(tmp_path)


def test_git_urls() -> None:
    for text in ("git+https://a.b/c.git@v1", "git+ssh://git@a.b/c@feature/x", "n[x] @ git+file:///c@12#subdirectory=d"):
        assert packaging_files.GIT.fullmatch(text), text
        assert packaging_files.is_git(text)
    for text in ("git+https://a.b/c.git", "git+ssh://git@a.b/c", "git+https://a.b/c@"):
        assert not packaging_files.GIT.fullmatch(text), text
        assert packaging_files.is_git(text)
    assert not packaging_files.is_git("gitpython==1")


def test_wheels(tmp_path: Path) -> None:
    one = make_wheel(tmp_path, "my-words", "1.0", requires=["torch", 'tqdm; extra == "x"'])
    assert packaging_files.wheels([tmp_path]) == [
        {"path": str(one), "name": "my-words", "version": "1.0", "requires": ["torch", 'tqdm; extra == "x"']}
    ]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=f"^{tmp_path}/empty has no wheels$"):
        packaging_files.wheels([tmp_path / "empty"])
    other = make_wheel(tmp_path / "other", "my_words", "2.0")
    with pytest.raises(ValueError, match=f"^{one} and {other} are both of my-words: keep one of them$"):
        packaging_files.wheels([one, other])
    broken = tmp_path / "a-1-py3-none-any.whl"
    broken.write_text("")
    with pytest.raises(ValueError, match=f"^{broken} is not a complete wheel: "):
        packaging_files.wheel(broken)
    with pytest.raises(ValueError, match="is not named as wheels are"):
        packaging_files.wheel(tmp_path / "a.zip")
