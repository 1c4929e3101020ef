from __future__ import annotations

import builtins
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._stacks.requirements import compare, hashed, pinned


def test_pinned() -> None:
    assert pinned({"torch": "2.13.0+cpu", "accelerate": "1.15.0"}) == [
        "accelerate==1.15.0",
        "torch==2.13.0+cpu",
    ]


def test_compare() -> None:
    text = """
    accelerate >= 0.12.0
    protobuf
    sentencepiece != 0.1.92  # for some models
    torch>=1.3
    old-thing; python_version < "3"
    """
    versions = {"accelerate": "1.10.1", "datasets": "4.0.0", "torch": "2.8.0+cpu"}
    assert compare(text.splitlines(), versions) == {
        "missing": ["protobuf", "sentencepiece != 0.1.92"],
        "conflicts": [],
    }
    text = "datasets >= 1.8.0, < 3\ngit+https://example.com/x.git\nthing @ https://example.com/thing.whl\nprotobuf"
    pin = "is not a name and versions: pin it as NAME==VERSION"
    assert compare(text.splitlines(), versions) == {
        "missing": ["protobuf"],
        "conflicts": [
            "datasets >= 1.8.0, < 3 conflicts with datasets 4.0.0, which is installed",
            f"git+https://example.com/x.git {pin}",
            f"thing @ https://example.com/thing.whl {pin}",
        ],
    }


def test_options_of_pip_are_not_ignored() -> None:
    """As in requirements files of example scripts, whose lines are compared as they are."""
    lines = ["protobuf", "--extra-index-url https://example.com"]
    found = compare(lines, {}, {lines[1]: "requirements.txt, line 2"})
    assert found == {
        "missing": ["protobuf"],
        "conflicts": [f"requirements.txt, line 2: {lines[1]} has no effect here, as an option of pip: remove it"],
    }


def test_extras_of_what_is_installed() -> None:
    """The package is there, and what it requires for the extra may not be."""
    requires = {
        "transformers": [
            'protobuf; extra == "words"',
            'sentencepiece>=0.1; extra == "words"',
            'numpy>99; extra == "new"',
            'other; extra == "others"',
            'transformers[words]; extra == "all"',
            "torch>99",
        ]
    }
    versions = {"transformers": "5.0", "numpy": "2.0", "protobuf": "5"}
    lines = ["transformers[all,new] >= 4 ; python_version > '3'"]
    assert compare(lines, versions, {lines[0]: "pyproject.toml, line 5"}, lambda name: requires.get(name, [])) == {
        "missing": ["sentencepiece>=0.1"],
        "conflicts": [
            "pyproject.toml, line 5: numpy>99 conflicts with numpy 2.0, which is installed by the stack: write numpy "
            "without a version there, or remove it"
        ],
    }
    assert compare(["transformers"], versions, requires=requires.__getitem__) == {"missing": [], "conflicts": []}


def test_where_a_conflict_is_written() -> None:
    lines, origins = ["torch==2.0.0", "./mine"], {"torch==2.0.0": "requirements.txt, line 2", "./mine": "a, line 1"}
    assert compare(lines, {"torch": "2.8.0+cpu"}, origins)["conflicts"] == [
        "requirements.txt, line 2: torch==2.0.0 conflicts with torch 2.8.0+cpu, which is installed by the stack: write "
        "torch without a version there, or remove it",
        "a, line 1: ./mine is not a name and versions: pin it as NAME==VERSION",
    ]


def test_packaging_of_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a virtual environment that has only pip."""
    original = builtins.__import__

    def without_packaging(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "packaging" or name.startswith("packaging."):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_packaging)
    assert compare(["protobuf < 4"], {"protobuf": "5.0"}) == {
        "missing": [],
        "conflicts": ["protobuf < 4 conflicts with protobuf 5.0, which is installed"],
    }


def test_hashed() -> None:
    wheels = [{"name": "a", "version": "1.0+cpu", "sha256": "ab"}, {"name": "b", "version": "2", "sha256": "cd"}]
    assert hashed(wheels) == "a==1.0+cpu --hash=sha256:ab\nb==2 --hash=sha256:cd\n"
