"""The current directory, in which results are by default."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.lookup import results_directory


def test_the_current_directory_has_the_name_that_the_user_has_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("PWD", str(tmp_path / "link"))
    assert results_directory.here() == str(tmp_path / "link")


@pytest.mark.parametrize("pwd", ["/", "/none", None])
def test_pwd_of_another_process_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pwd: str | None) -> None:
    """As with ansible-runner, which changes the directory and not the variable."""
    monkeypatch.chdir(tmp_path)
    if pwd is None:
        monkeypatch.delenv("PWD", raising=False)
    else:
        monkeypatch.setenv("PWD", pwd)
    assert results_directory.here() == str(tmp_path)
