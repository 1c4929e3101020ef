"""Ignore files, compared with git's own answer."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._data import ignore

NAMES = ["a", "b", "ab", "foo", "build", "x.py", "a.py", "bx", "*", "!a", "#c", "a b", "cx", "A1"]
ATOMS = [
    "a", "b", "ab", "*", "?", "**", "*.py", "[ab]", "[!a]", "a*", "*b", "foo", "build", "[a-c]x", "\\*", "\\!a", "a b",
    "a**", "**b", "***", "[a-", "[[:alpha:]]", "[]a]", "[!]a]", "[^a]", "[a\\-b]", "[b-a]", "[[:none:]]", "a\\ ",
    "[A-Z]?",
]  # fmt: skip


@pytest.fixture(scope="module")
def git_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("git")
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    return folder / ".git"


def kept_by_git(top: Path, git_directory: Path) -> set[str]:
    """What git would add of a tree that it knows nothing of, by the tree's own ignore files alone."""
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    words = ["git", "--git-dir", str(git_directory), "--work-tree", ".", "ls-files", "-o", "-z", "--exclude-standard"]
    ran = subprocess.run(words, cwd=top, env=env, check=True, capture_output=True, text=True)
    return set(filter(None, ran.stdout.split("\0")))


def pattern(chance: random.Random) -> str:
    text = "/".join(chance.choice(ATOMS) for _ in range(chance.choice([1, 1, 1, 2, 2, 3])))
    text = "/" * (chance.random() < 0.25) + text + "/" * (chance.random() < 0.3)
    text += chance.choice([" ", "  ", "\\ ", "\\  ", "\r", "\\"]) if chance.random() < 0.1 else ""
    return ("#" if chance.random() < 0.05 else "!" if chance.random() < 0.3 else "") + text


def grow(chance: random.Random, top: Path, depth: int = 0) -> None:
    """Make a tree of random names, with ignore files in it."""
    for name in chance.sample(NAMES, chance.randint(2, 5)):
        path = top / name
        if depth < 3 and chance.random() < 0.5:
            path.mkdir()
            grow(chance, path, depth + 1)
        else:
            path.touch()
    if depth == 0 or chance.random() < 0.3:
        lines = "".join(f"{pattern(chance)}\n" for _ in range(chance.randint(1, 5)))
        (top / ".gitignore").write_text(lines)


@pytest.mark.parametrize("seed", range(60))
def test_random_trees_and_patterns(tmp_path: Path, git_directory: Path, seed: int) -> None:
    top = tmp_path / "top"
    top.mkdir()
    grow(random.Random(seed), top)
    assert set(ignore.walk(top)) == kept_by_git(top, git_directory)


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        ("*.bin", "a.py deep/b.py deep/logs/1.txt logs/2.txt"),
        ("logs/", "a.bin a.py deep/b.py deep/c.bin"),
        ("/logs", "a.bin a.py deep/b.py deep/c.bin deep/logs/1.txt"),
        ("deep/*\n!deep/b.py", "a.bin a.py deep/b.py logs/2.txt"),
        ("deep/\n!deep/b.py", "a.bin a.py logs/2.txt"),
        ("**/logs/**", "a.bin a.py deep/b.py deep/c.bin"),
        ("deep/**/1.txt", "a.bin a.py deep/b.py deep/c.bin logs/2.txt"),
        ("*\n!*/\n!*.py", "a.py deep/b.py"),
        ("logs/\n!deep/", "a.bin a.py deep/b.py deep/c.bin"),
    ],
)
def test_what_people_write(tmp_path: Path, git_directory: Path, lines: str, kept: str) -> None:
    top = tmp_path / "top"
    for name in ("a.py", "a.bin", "deep/b.py", "deep/c.bin", "deep/logs/1.txt", "logs/2.txt"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).touch()
    (top / ".gitignore").write_text(lines)
    found = set(ignore.walk(top))
    assert found == kept_by_git(top, git_directory)
    assert found - {".gitignore"} == set(kept.split())


def test_the_own_ignore_file_takes_precedence(tmp_path: Path) -> None:
    for name in ("data.csv", "notes.txt", "sub/data.csv", "sub/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / ".gitignore").write_text("*.csv\n")
    (tmp_path / ".clusterignore").write_text("\ufeff!/data.csv\nnotes.txt\n.*ignore\n")
    (tmp_path / "sub/.clusterignore").write_text("!notes.txt")
    assert list(ignore.walk(tmp_path)) == ["data.csv", "sub/notes.txt"]


def test_what_is_never_part_of_a_project(tmp_path: Path) -> None:
    never = (".git/config", "__pycache__/a.pyc", "sub/__pycache__/b.pyc", "any-name/pyvenv.cfg", "any-name/bin/python")
    for name in (*never, "a.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / ".gitignore").write_text("!__pycache__\n!.git\n!any-name\n")
    assert list(ignore.walk(tmp_path)) == [".gitignore", "a.py"]
