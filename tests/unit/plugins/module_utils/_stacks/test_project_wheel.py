from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._data import project
from ansible_collections.amx.cluster.plugins.module_utils._stacks import project_wheel

pytestmark = pytest.mark.slow


# A build backend without requirements, whose wheel has these files and a version that it alone knows.
BACKEND = """
import zipfile
def build_wheel(directory, config_settings=None, metadata_directory=None):
    files = {"words/__init__.py": "lib/words.py", "words/table.csv": "data/table.csv"}
    with zipfile.ZipFile(f"{directory}/own-4.2-py3-none-any.whl", "w") as wheel:
        for name, origin in files.items():
            wheel.writestr(name, open(origin).read())
        wheel.writestr("words/version.py", "VERSION = '4.2'\\n")
        wheel.writestr("own-4.2.dist-info/METADATA", "Metadata-Version: 2.1\\nName: own\\nVersion: 4.2\\n")
        wheel.writestr("own-4.2.dist-info/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr("own-4.2.dist-info/RECORD", "")
    return "own-4.2-py3-none-any.whl"
"""
FILES = {
    "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
    "backend.py": BACKEND,
    "lib/words.py": "from words.version import VERSION\n",
    "data/table.csv": "a,b\n",
}


def run(command: list[str], variables: Mapping[str, str]) -> tuple[int, str, str]:
    ran = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout, ran.stderr


def fill(directory: Path, files: Mapping[str, str]) -> project.Project:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    return project.scan(directory, 10)


def test_what_a_build_alone_knows(tmp_path: Path) -> None:
    tree = fill(tmp_path / "own", FILES)
    texts, links = project_wheel.read(tree, run, tmp_path / "cache")
    assert links == {".installed/words/__init__.py": "lib/words.py", ".installed/words/table.csv": "data/table.csv"}
    metadata = "Metadata-Version: 2.1\nName: own\nVersion: 4.2\n"
    assert texts == {
        ".installed/own-4.2.dist-info/METADATA": metadata,
        ".installed/words/version.py": "VERSION = '4.2'\n",
    }
    assert {path.name for path in (tmp_path / "own").iterdir()} == {"pyproject.toml", "backend.py", "lib", "data"}
    # It is kept, and built anew for other contents.
    assert project_wheel.read(tree, lambda *_words: (1, "", ""), tmp_path / "cache") == (texts, links)
    changed = fill(tmp_path / "own", {"backend.py": BACKEND.replace("4.2", "4.3")})
    assert ".installed/own-4.3.dist-info/METADATA" in project_wheel.read(changed, run, tmp_path / "cache")[0]


def test_a_build_that_fails(tmp_path: Path) -> None:
    tree = fill(tmp_path / "own", {**FILES, "backend.py": "import torch_of_nobody\n"})
    with pytest.raises(
        ValueError, match=r"^pip cannot install .*/own, .*: ModuleNotFoundError: No module named 'torch_of_"
    ) as caught:
        project_wheel.read(tree, run, tmp_path / "cache")
    assert str(caught.value).endswith("name /pyproject.toml in .clusterignore")
    assert not (tmp_path / "cache").exists()


PLAIN = "from setuptools import setup, find_packages\nsetup(name='own', version='5', packages=find_packages())\n"


def failing(words: list[str], _variables: Mapping[str, str]) -> tuple[int, str, str]:
    """Stand for pip without any package index, or for a build that imports what only hosts have."""
    if "install" in words:
        return 1, "", "ERROR: Could not find a version that satisfies the requirement setuptools>=40.8.0\n"
    return run(words, _variables)


@pytest.mark.parametrize(
    ("files", "works"),
    [
        ({"setup.py": PLAIN}, True),
        ({"setup.py": "import torch\n" + PLAIN}, True),
        ({"setup.py": PLAIN.replace("find_packages()", "find_packages('src'), package_dir={'': 'src'}")}, True),
        ({"setup.py": ""}, True),
        (
            {"pyproject.toml": '[build-system]\nrequires = []\n[project]\nname = "a"\ndynamic = ["version"]\n'},
            True,
        ),
        ({"setup.py": PLAIN, "a.py": "from importlib.metadata import version\n"}, False),
        ({"setup.py": PLAIN, "a.py": "from importlib import metadata\n"}, False),
        ({"setup.py": PLAIN.replace("find_packages()", "find_packages('lib'), package_dir={'': 'lib'}")}, False),
        ({"setup.py": PLAIN.replace("find_packages()", "find_packages(where=PLACE)")}, False),
        ({"setup.py": PLAIN.replace("packages=", "**OPTIONS, packages=")}, False),
        ({"setup.py": PLAIN.replace("packages=", "ext_modules=[], packages=")}, False),
        ({"setup.py": "open('a/version.py', 'w').write('V = 1')\n" + PLAIN}, False),
        (
            {"setup.py": "from setuptools import setup\nsetup()\n", "setup.cfg": "[options]\npackage_dir =\n  =lib\n"},
            False,
        ),
        ({"setup.py": "print 'hello'\n"}, False),
        ({**FILES}, False),
    ],
)
def test_a_build_that_fails_where_nothing_depends_on_it(tmp_path: Path, files: dict[str, str], works: bool) -> None:
    tree = fill(tmp_path / "own", files)
    if works:
        assert project_wheel.read(tree, failing, tmp_path / "cache") == ({}, {})
    else:
        with pytest.raises(ValueError, match=r"^pip cannot install .*: Could not find a version that satisfies"):
            project_wheel.read(tree, failing, tmp_path / "cache")
    assert not (tmp_path / "cache").exists(), "it is built where that is possible again"


def test_a_build_with_the_indexes_of_the_inventory(tmp_path: Path) -> None:
    tree = fill(tmp_path / "own", FILES)
    seen: dict[str, str] = {}

    def execute(words: list[str], variables: Mapping[str, str]) -> tuple[int, str, str]:
        seen.update(variables)
        return run(words, variables)

    (tmp_path / "wheels").mkdir()
    given = {"index_url": "none", "find_links": [str(tmp_path / "wheels")], "ca_certificate": "/ca.pem"}
    login = [{"host": "packages.example.com", "user": "me", "password": "secret"}]
    project_wheel.read(tree, execute, tmp_path / "cache", {**given, "credentials": login})
    assert (seen["PIP_NO_INDEX"], seen["PIP_CERT"]) == ("1", "/ca.pem")
    assert f"{tmp_path}/wheels" in seen["PIP_FIND_LINKS"] and seen["NETRC"]


def test_a_kept_result_that_is_damaged(tmp_path: Path) -> None:
    tree = fill(tmp_path / "own", FILES)
    made = project_wheel.read(tree, run, tmp_path / "cache")
    (kept,) = (tmp_path / "cache").rglob("files.json")
    kept.write_text('{"texts": {}}')
    assert project_wheel.read(tree, run, tmp_path / "cache") == made


def test_a_version_that_git_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The project is a directory of a repository, whose commits its copy has without their files."""
    described = '__import__("subprocess").check_output(["git", "describe", "--tags"], text=True)'
    backend = BACKEND.replace("\"VERSION = '4.2'\\n\"", described)
    assert described in backend
    fill(tmp_path / "top/own", {**FILES, "backend.py": backend})
    who = ["-c", "user.name=tests", "-c", "user.email=tests@example.com"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "1"], ["tag", "v7"]):
        subprocess.run(["git", *words], cwd=tmp_path / "top", check=True)
    tree = project.scan(tmp_path / "top/own", 10)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "another"))  # as in a hook
    assert project_wheel.read(tree, run, tmp_path / "cache")[0][".installed/words/version.py"] == "v7\n"


STATIC = '[project]\nname = "a"\nversion = "1"\n'


@pytest.mark.parametrize(
    ("file", "text", "is_built"),
    [
        ("pyproject.toml", STATIC, False),
        ("pyproject.toml", STATIC + '[build-system]\nrequires = ["flit_core"]\n', False),
        ("pyproject.toml", STATIC + '[tool.setuptools.packages.find]\nwhere = ["src"]\n', False),
        ("pyproject.toml", STATIC + '[tool.setuptools.package-dir]\n"" = "src"\n', False),
        ("pyproject.toml", STATIC + '[tool.hatch.build.targets.wheel]\npackages = ["src/a", "b"]\n', False),
        ("pyproject.toml", "[tool.ruff]\nline-length = 100\n", False),
        ("setup.cfg", "[flake8]\nmax-line-length = 100\n", False),
        ("pyproject.toml", '[project]\nname = "a"\ndynamic = ["version"]\n', True),
        ("pyproject.toml", '[build-system]\nrequires = ["setuptools"]\n', True),
        ("pyproject.toml", '[tool.poetry]\nname = "a"\nversion = "1"\n', True),
        ("pyproject.toml", STATIC + '[tool.setuptools.packages.find]\nwhere = ["code"]\n', True),
        ("pyproject.toml", STATIC + '[tool.setuptools.package-dir]\nfoo = "lib/foo"\n', True),
        ("pyproject.toml", STATIC + '[tool.hatch.build.targets.wheel.sources]\n"code/a" = "b"\n', True),
        ("pyproject.toml", STATIC + '[tool.hatch.build]\nsources = ["code"]\n', True),
        ("pyproject.toml", STATIC + '[tool.poetry]\npackages = [{include = "a", from = "code"}]\n', True),
        ("pyproject.toml", STATIC + '[tool.pdm.build]\npackage-dir = "code"\n', True),
        ("pyproject.toml", STATIC + '[tool.uv.build-backend]\nmodule-root = ""\n', True),
        ("pyproject.toml", STATIC + '[tool.maturin]\npython-source = "python"\n', True),
        ("pyproject.toml", STATIC + '[tool.flit.module]\nname = "b"\n', True),
        ("setup.py", "from setuptools import setup\nsetup()\n", True),
        ("setup.cfg", "[metadata]\nname = a\n", False),
    ],
)
def test_when_a_build_is_needed(tmp_path: Path, file: str, text: str, is_built: bool) -> None:
    (tmp_path / file).write_text(text)
    assert project_wheel.built_by(tmp_path, [file]) == (file if is_built else "")
    assert project_wheel.built_by(tmp_path, []) == "", "it is left out by an ignore file"


def test_options_of_setuptools_beside_pyproject(tmp_path: Path) -> None:
    fill(tmp_path, {"pyproject.toml": STATIC, "setup.cfg": "[options]\npackage_dir =\n  = lib\n"})
    assert project_wheel.built_by(tmp_path, ["pyproject.toml", "setup.cfg"]) == "setup.cfg"


def test_packages_that_setuptools_finds_elsewhere(tmp_path: Path) -> None:
    """With the real backend, from the package index of this machine."""
    setup = "from setuptools import setup\nsetup(name='own', version='5', packages=['foo', 'foo.sub'], "
    setup += "package_dir={'foo': 'lib/foo', 'foo.sub': 'other/sub'}, py_modules=['single'])\n"
    files = {"setup.py": setup, "lib/foo/__init__.py": "", "lib/foo/a.py": "A = 1\n", "single.py": "B = 2\n"}
    tree = fill(tmp_path / "own", {**files, "other/sub/__init__.py": "", "other/sub/c.py": "C = 3\n"})
    texts, links = project_wheel.read(tree, run, tmp_path / "cache")
    assert links == {
        ".installed/foo/a.py": "lib/foo/a.py",
        ".installed/foo/sub/c.py": "other/sub/c.py",
        ".installed/single.py": "single.py",
    }
    assert texts[".installed/foo/__init__.py"] == texts[".installed/foo/sub/__init__.py"] == ""
    assert "Version: 5\n" in texts[".installed/own-5.dist-info/METADATA"]


def test_a_module_that_the_build_writes_among_the_projects_own(tmp_path: Path) -> None:
    """The script's own directory comes first in sys.path, and the package in it needs the module as well."""
    wrote = "import zipfile\nopen('words/version.py', 'w').write(\"VERSION = '4.2'\\n\")\n"
    files = {
        **FILES,
        "backend.py": BACKEND.replace("import zipfile\n", wrote),
        "words/__init__.py": "import words.version\n",
    }
    texts, _links = project_wheel.read(fill(tmp_path / "own", files), run, tmp_path / "cache")
    assert texts["words/version.py"] == texts[".installed/words/version.py"] == "VERSION = '4.2'\n"
