"""What shells of a login set, with real shells and a home directory of the test's own."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import login_shell

pytestmark = pytest.mark.slow


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


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("A=1\necho Welcome to node1\n", 2),
        ("case $- in *i*) ;; *) true;; esac\nif true; then\n  printf 'Welcome to node1\\n'\nfi\n", 3),
        ("cat <<END\nWelcome to node1\nMind the queue\nEND\n", 1),
    ],
)
def test_a_login_that_prints(home: Path, text: str, line: int) -> None:
    (home / ".bashrc").write_text(text)
    found = login_shell.printed("/bin/bash")
    assert found["text"].startswith("Welcome to node1")
    assert found["file"] == f"{home}/.bashrc:{line}"


def test_a_login_that_prints_by_another_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".bashrc").write_text("for file in ~/.bash.d/*; do . $file; done\n")
    (home / ".bash.d").mkdir()
    (home / ".bash.d/quota").write_text("true\necho 3 of 10 GiB used\n")
    assert login_shell.printed("/bin/bash") == {"text": "3 of 10 GiB used", "file": f"{home}/.bash.d/quota:2"}
    (home / ".bashrc").unlink()
    (home / ".ssh").mkdir()
    (home / ".ssh/rc").write_text("echo hello\n")
    assert login_shell.printed("/bin/bash") == {"text": "hello", "file": f"{home}/.ssh/rc"}
    assert login_shell.printed("/bin/sh") == {"text": "hello", "file": f"{home}/.ssh/rc"}


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("echo\n", r"\n"),
        ("trap 'echo bye' EXIT\n", "bye"),
        ("echo amx-cluster-separator\n", "amx-cluster-separator"),
        ("echo hello\nsetsid sleep 20 &\n", "hello"),
        ("echo hello\nsleep 20\n", "hello"),
    ],
)
def test_a_login_that_prints_in_other_ways(home: Path, script: str, text: str) -> None:
    (home / ".bashrc").write_text(script)
    assert login_shell.printed("/bin/bash", seconds=2)["text"] == text


@pytest.mark.parametrize(
    "text",
    [
        "case $- in *i*) ;; *) return;; esac\necho welcome\n",
        '[ -z "$PS1" ] && return\necho welcome\n',
        "stty erase ^H\necho careful >&2\n",
        "[ -t 1 ] && echo welcome\n",
        "sleep 60\n",
        "",
    ],
)
def test_a_login_that_prints_nothing_to_commands(home: Path, text: str) -> None:
    (home / ".bashrc").write_text(text)
    (home / ".profile").write_text("echo of a login shell alone\n")
    assert login_shell.printed("/bin/bash", seconds=0.5 if "sleep" in text else 15) == {}


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
