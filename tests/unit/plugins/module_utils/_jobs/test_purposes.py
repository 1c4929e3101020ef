"""What follows from what a job is run for."""

from __future__ import annotations

from ansible_collections.amx.cluster.plugins.module_utils._jobs.purposes import PURPOSES


def names(trait: str) -> set[str]:
    return {purpose.name for purpose in PURPOSES.values() if getattr(purpose, trait)}


def test_what_is_kept_and_changed() -> None:
    assert names("keeps_previous") == {"train", "predict", "serve"}
    assert names("changes") == {"train", "predict", "serve", "trial"}
    assert names("provides_once") == {"trial"}
    assert names("until_ready") == {"serve"}


def test_what_is_checked() -> None:
    assert names("anywhere") == {"train"}
    assert set(PURPOSES) - names("named") == {"measure", "verify", "plan"}
    assert set(PURPOSES) - names("refuses_locked") == {"verify", "plan", "estimate"}
    assert set(PURPOSES) - names("runs") == {"plan", "estimate"}


def test_what_is_shown() -> None:
    assert (names("shows_plan"), names("shows_results")) == ({"plan"}, {"train"})
