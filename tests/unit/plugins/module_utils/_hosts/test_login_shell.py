"""What shells of a login set, with real shells and a home directory of the test's own."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import login_shell

EXPORTS = "export OMP_NUM_THREADS=1 KMP_AFFINITY=disabled I_MPI_PIN=0 EDITOR=vi\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "7")  # of this process, not of a login
    return tmp_path


@pytest.mark.parametrize("file", [".bashrc", ".bash_profile", ".profile"])
def test_what_a_login_sets(home: Path, file: str) -> None:
    # As Debian's .bashrc, which does nothing for other shells than interactive ones, and one that greets.
    (home / file).write_text(f"case $- in *i*) ;; *) return;; esac\necho welcome\n{EXPORTS}")
    set_to = {"I_MPI_PIN": "0", "KMP_AFFINITY": "disabled", "OMP_NUM_THREADS": "1"}
    assert set_to.items() <= login_shell.exported("/bin/bash").items()
    assert not {"EDITOR", "HOME", "PATH"} & set(login_shell.exported("/bin/bash"))


def test_a_login_that_sets_none(home: Path) -> None:
    assert "OMP_NUM_THREADS" not in login_shell.exported("/bin/bash")


def test_a_shell_that_does_not_answer(home: Path) -> None:
    (home / ".bashrc").write_text(f"{EXPORTS}sleep 60\n")
    (home / ".profile").write_text(". ~/.bashrc\n")
    begun = time.monotonic()
    assert login_shell.exported("/bin/bash", seconds=0.5) == {}
    assert time.monotonic() - begun < 30
    assert login_shell.exported("/no/such/shell") == {}


def ran(tmp_path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "launch.sh"
    script.write_text(f"set -euo pipefail\n{login_shell.IGNORE}\nenv\n")
    env = {"PATH": "/usr/bin:/bin", **variables}
    return subprocess.run(["bash", str(script)], env=env, capture_output=True, text=True, check=True)


def test_a_script_ignores_what_a_login_sets(tmp_path: Path) -> None:
    dropped = {
        "CCL_WORKER_COUNT": "4", "FI_PROVIDER": "verbs", "I_MPI_PIN": "0", "KMP_AFFINITY": "disabled",
        "LD_PRELOAD": "", "OMP_NUM_THREADS": "1", "ONEDNN_MAX_CPU_ISA": "AVX2", "PYTHONPATH": "/opt/a b",
    }  # fmt: skip
    done = ran(tmp_path, HF_TOKEN="hf_x", MY_OMP_NUM="1", **dropped)
    assert not set(dropped) & {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert "HF_TOKEN=hf_x\n" in done.stdout and "MY_OMP_NUM=1\n" in done.stdout
    assert re.search(r"^launch\.sh: the job ignores what a login on \S+ sets: ", done.stderr)
    assert all(f"{name}={value}" in done.stderr for name, value in dropped.items())
    assert "hf_x" not in done.stderr


def test_a_script_without_such_a_login_says_nothing(tmp_path: Path) -> None:
    assert ran(tmp_path, HF_TOKEN="hf_x").stderr == ""


def test_what_hydra_gives_to_ranks_stays() -> None:
    """As `mpirun env` of Intel MPI 2021.18 lists it."""
    given = ("I_MPI_PIN_INFO", "I_MPI_INFO_NP", "I_MPI_HYDRA_UUID", "I_MPI_PIN_DOMAIN", "I_MPI_ROOT", "PMI_RANK")
    assert [name for name in given if re.fullmatch(login_shell.OF_RANKS, name)] == []
    assert re.fullmatch(login_shell.OF_RANKS, "I_MPI_ADJUST_ALLREDUCE")
