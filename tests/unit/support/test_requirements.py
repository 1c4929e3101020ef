"""What `ansible-test units` installs is what the other tests are run with."""

from __future__ import annotations

from support.checkout import ROOT


def pins(name: str) -> set[str]:
    return {line for line in (ROOT / name).read_text().splitlines() if line and not line.startswith("#")}


def test_ansible_test_installs_the_pinned_versions() -> None:
    named = pins("tests/unit/requirements.txt")
    assert named
    assert named <= pins("requirements.txt") | pins("tests/requirements.txt")
