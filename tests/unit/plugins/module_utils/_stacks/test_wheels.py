from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._stacks.wheels import (
    manifest,
    oldest,
    platforms,
    unfit,
    versions,
)
from support.stand_ins import make_wheel


def test_platforms() -> None:
    assert platforms("2.18")[:4] == [
        "manylinux_2_18_x86_64",
        "manylinux_2_17_x86_64",
        "manylinux2014_x86_64",
        "manylinux_2_16_x86_64",
    ]
    names = platforms("2.36")
    assert names[0] == "manylinux_2_36_x86_64"
    assert names[-3:] == ["manylinux_2_5_x86_64", "manylinux1_x86_64", "linux_x86_64"]
    with pytest.raises(ValueError, match=r"^glibc 3\.1 is not known: 2\.x is expected$"):
        platforms("3.1")


def test_oldest() -> None:
    assert oldest(["2.36", "2.4", "2.28"]) == "2.4"  # by number, not by letter
    for wrong in ([], ["2.36", ""], ["musl"]):
        error = f"{wrong} are not versions of the GNU C library such as 2.36"
        with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
            oldest(wrong)


def test_manifest(tmp_path: Path) -> None:
    made = make_wheel(tmp_path, "Typing_Extensions", "4.1", files={"typing_extensions.py": "pass\n"})
    make_wheel(tmp_path, "a.b", "1.0+cpu", "cp311-cp311-linux_x86_64")
    (tmp_path / "notes.txt").touch()
    made_of = manifest(tmp_path)
    first, _second = made_of["wheels"]
    assert first == {
        "file": "Typing_Extensions-4.1-py3-none-any.whl",
        "name": "typing-extensions",
        "version": "4.1",
        "sha256": hashlib.sha256(made.read_bytes()).hexdigest(),
        "bytes": made.stat().st_size,
        "unpacked": first["unpacked"],
    }
    assert 5 < first["unpacked"] < first["bytes"]
    assert versions(made_of["wheels"]) == {"typing-extensions": "4.1", "a-b": "1.0+cpu"}


def test_half_a_wheel(tmp_path: Path) -> None:
    made = make_wheel(tmp_path, "a", "1")
    made.write_bytes(made.read_bytes()[:100])
    with pytest.raises(ValueError, match=rf"^{made} is not a complete wheel \(.*\): remove it and run again$"):
        manifest(tmp_path)


@pytest.mark.parametrize(
    ("tag", "fits"),
    [
        ("py3-none-any", True),
        ("py37-none-any", True),
        ("py312-none-any", False),
        ("py2.py3-none-manylinux_2_28_x86_64", True),
        ("cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64", True),
        ("cp38-abi3-manylinux2014_x86_64", True),
        ("cp312-abi3-manylinux2014_x86_64", False),
        ("cp312-cp312-manylinux2014_x86_64", False),
        ("cp311-cp311-manylinux_2_34_x86_64", False),
        ("cp311-cp311-manylinux_2_28_aarch64", False),
    ],
)
def test_unfit(tag: str, fits: bool) -> None:
    file = f"a-1.0-{tag}.whl"
    assert unfit([{"file": file}], "3.11", "2.31") == ([] if fits else [file])
