from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._stacks import packaging_files
from ansible_collections.amx.cluster.plugins.module_utils._stacks.package_sources import Source
from ansible_collections.amx.cluster.plugins.module_utils._stacks.packaging_files import Requirement
from support.stand_ins import make_wheel


def declared(project: Path) -> list[Any]:
    return list(packaging_files.declared(project))


def test_requirements_files(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "requirements.txt").write_text(
        "# it\n--only-binary :all: --prefer-binary\ntorch >= 2.0  # whichever\n\n-r more/base.txt\n-e .\n./\n"
        "peft == \\\n  0.1\n"
        "losses @ git+https://example.com/losses.git@v1#egg=losses\n-e git+https://example.com/b@v1#egg=b\n"
        "older ; python_version < '3'\nlast \\"
    )
    (tmp_path / "more/base.txt").write_text("\ufefftqdm\n")
    assert declared(tmp_path) == [
        Requirement("torch >= 2.0", "requirements.txt, line 3"),
        Requirement("tqdm", "more/base.txt, line 1"),
        Requirement("peft ==    0.1", "requirements.txt, line 9"),
        Requirement("losses @ git+https://example.com/losses.git@v1#egg=losses", "requirements.txt, line 10"),
        Requirement("git+https://example.com/b@v1#egg=b", "requirements.txt, line 11"),
        Requirement("older ; python_version < '3'", "requirements.txt, line 12"),
        Requirement("last", "requirements.txt, line 13"),
    ]
    assert declared(tmp_path / "more") == []


def test_where_packages_come_from(tmp_path: Path) -> None:
    """All forms of pip's options; nothing of them is lost."""
    (tmp_path / "requirements.txt").write_text(
        "-i https://a.b/simple --extra-index-url=https://u:p@c.d/simple\n--extra-index-url https://e.f/simple # it\n"
        "-fwheels\n--find-links https://a.b/wheels.html\n--pypi-url 'https://g.h/simple'\n--no-index\n"
    )
    where = "requirements.txt, line "
    assert declared(tmp_path) == [
        Source("--index-url", "https://a.b/simple", where + "1"),
        Source("--extra-index-url", "https://u:p@c.d/simple", where + "1"),
        Source("--extra-index-url", "https://e.f/simple", where + "2"),
        Source("--find-links", str(tmp_path / "wheels"), where + "3"),
        Source("--find-links", "https://a.b/wheels.html", where + "4"),
        Source("--index-url", "https://g.h/simple", where + "5"),
        Source("--no-index", "", where + "6"),
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "-e ./libs/mine",
            "requirements.txt, line 1: -e ./libs/mine is a path: add the wheel of that package to `wheels`",
        ),
        ("/opt/a.whl", "requirements.txt, line 1: /opt/a.whl is a path"),
        ("a-1-py3-none-any.whl", "requirements.txt, line 1: a-1-py3-none-any.whl is a path"),
        ("libs/mine", "requirements.txt, line 1: libs/mine is a path"),
        ("./libs/mine[x]", "requirements.txt, line 1: ./libs/mine[x] is a path"),
        ("-r https://a.b/c.txt", "requirements.txt, line 1: -r https://a.b/c.txt is a URL: copy the file into"),
        ("-c limits.txt", "requirements.txt, line 1: -c limits.txt: -c has no effect here: write these versions as"),
        ("peft==1 --hash=sha256:ab", "requirements.txt, line 1: peft==1 --hash=sha256:ab: --hash has no effect here: "),
        (
            "peft==1 \\\n  --hash sha256:ab",
            "requirements.txt, line 2: peft==1    --hash sha256:ab: --hash has no effect",
        ),
        ("--require-hashes", "requirements.txt, line 1: --require-hashes: --require-hashes has no effect here: "),
        ("--pre", "requirements.txt, line 1: --pre: --pre has no effect here: write the version of the pre-release"),
        ("--trusted-host a.b", "requirements.txt, line 1: --trusted-host a.b: --trusted-host has no effect here: set "),
        (
            "--no-binary :all:",
            "requirements.txt, line 1: --no-binary :all:: --no-binary has no effect here: name a wheel",
        ),
        (
            "peft --config-settings=a=b",
            "requirements.txt, line 1: peft --config-settings=a=b: --config-settings has no ",
        ),
        (
            "--extra-index https://a.b",
            "requirements.txt, line 1: --extra-index https://a.b: --extra-index has no effect",
        ),
        ("-i 'https://a.b", "requirements.txt, line 1: -i 'https://a.b cannot be read: No closing quotation"),
        (".[dev]", "requirements.txt, line 1: .[dev]: pyproject.toml has no dev among [project.optional-dependencies]"),
        ("git+https://${TOKEN}@a.b/c@v1", "requirements.txt, line 1: git+https://***@a.b/c@v1: variables are not repl"),
        ("-r none.txt", "none.txt cannot be read"),
        ("-r requirements.txt", "requirements.txt, line 1: -r requirements.txt: the file includes itself"),
    ],
)
def test_requirements_that_cannot_be(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "requirements.txt").write_text(line)
    with pytest.raises(ValueError, match=r"requirements\.txt|none\.txt") as caught:
        declared(tmp_path)
    assert str(caught.value).startswith(said)


def test_pyproject(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    assert packaging_files.import_paths(tmp_path) == [""]
    assert packaging_files.distribution_files(tmp_path) == {}
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "my-words"\nversion = "1.2"\ndependencies = [\n  "torch==2.0.0",\n  "tqdm",\n]\n'
        '[project.scripts]\nwords = "words:main"\n[project.entry-points.plugins]\none = "words.one"\n'
    )
    assert declared(tmp_path) == [
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


def test_dependencies_that_only_a_build_knows(tmp_path: Path) -> None:
    content = tmp_path / "pyproject.toml"
    content.write_text('[project]\nname = "a"\ndynamic = ["dependencies", "version"]\n')
    with pytest.raises(
        ValueError, match=r"^pyproject.toml: dependencies are dynamic, .* list them in requirements.txt$"
    ):
        declared(tmp_path)
    assert packaging_files.distribution_files(tmp_path) == {}
    content.write_text(content.read_text() + '[tool.setuptools.dynamic]\ndependencies = {file = ["deps.txt"]}\n')
    (tmp_path / "deps.txt").write_text("tqdm\n")
    assert declared(tmp_path) == [Requirement("tqdm", "deps.txt, line 1")]
    content.write_text('[tool.poetry.dependencies]\ntqdm = "^4"\n')
    with pytest.raises(ValueError, match=r"^pyproject\.toml: dependencies of tool.poetry are in a syntax of its own"):
        declared(tmp_path)
    (tmp_path / "requirements.txt").write_text("tqdm\n")
    assert declared(tmp_path) == [Requirement("tqdm", "requirements.txt, line 1")]
    content.write_text("[project")
    with pytest.raises(ValueError, match=f"^{content} cannot be read: "):
        declared(tmp_path)


def test_extras_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("-e .[All]\n")
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "My.Words"\n[project.optional-dependencies]\ntrain = ["peft"]\n'
        'all = ["my-words[train,all]", "tqdm>=4"]\n'
    )
    assert declared(tmp_path) == [
        Requirement("peft", "pyproject.toml, line 4"),
        Requirement("tqdm>=4", "pyproject.toml, line 5"),
    ]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("Pipfile", "[packages]\npeft = '*'\n"),
        ("pylock.toml", ""),
        ("environment.yml", ""),
        ("requirements/base.txt", "peft"),
        ("requirements-train.txt", "peft"),
        ("setup.py", "setup(install_requires=['peft'])"),
        ("setup.cfg", "[options]\ninstall_requires = peft\n"),
    ],
)
def test_files_that_are_not_read(tmp_path: Path, file: str, content: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(content)
    with pytest.raises(ValueError, match=f"^{file} is not read: list what the job requires in requirements.txt"):
        declared(tmp_path)
    (tmp_path / "requirements.txt").write_text("")
    assert declared(tmp_path) == []


def test_a_setup_that_requires_nothing(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("setup()")
    (tmp_path / "setup.cfg").write_text("[flake8]")
    assert declared(tmp_path) == []


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('project = "x"', "project is 'x', and a table is expected"),
        ("tool = 3", "tool is 3, and a table is expected"),
        ("[tool]\nsetuptools = 5", "tool.setuptools is 5, and a table is expected"),
        ('[project]\ndependencies = "numpy"', "project.dependencies is 'numpy', and a list of texts is expected"),
        ("[project]\ndynamic = 3", "project.dynamic is 3, and a list of texts is expected"),
        ("[project]\noptional-dependencies = 3", "project.optional-dependencies is 3, and a table is expected"),
        ('[project]\nentry-points = "x"', "project.entry-points is 'x', and a table is expected"),
        ("[tool.setuptools]\npackage-dir = []", r"tool.setuptools.package-dir is \[\], and a table is expected"),
        ("[tool.hatch.build.targets]\nwheel = true", "tool.hatch.build.targets.wheel is True, and a table is expected"),
        ('[tool.uv]\nindex = ["x"]', r"tool.uv.index is \['x'\], and a list of tables is expected"),
        ("[tool.poetry]\nsource = {}", "tool.poetry.source is {}, and a list of tables is expected"),
    ],
)
def test_a_file_with_other_types_of_values(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(ValueError, match=f"^{tmp_path}/pyproject.toml: {said}$"):
        packaging_files.declared(tmp_path)
