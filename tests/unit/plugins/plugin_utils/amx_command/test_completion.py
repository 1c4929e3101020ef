"""Completion in the shells themselves."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import arguments, completion, table


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "jobs").mkdir()
    for name in ("jobs/demo.yml", "jobs/lora.yml", "jobs/README.md", "my.yml", "rows.csv"):
        (tmp_path / name).touch()
    (tmp_path / "complete.bash").write_text(completion.script("bash"))
    return tmp_path


def complete(folder: Path, *words: str) -> list[str]:
    """What bash offers for the last word."""
    typed = " ".join(map(shlex.quote, ("amx", *words)))
    program = f"source complete.bash; COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _amx"
    program += "; printf '%s\\n' \"${COMPREPLY[@]}\""
    ran = subprocess.run(["bash", "-uc", program], cwd=folder, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    return [word for word in ran.stdout.split("\n") if word]


@pytest.mark.slow
def test_commands(folder: Path) -> None:
    assert complete(folder, "") == [*table.BY_NAME, *table.OWN]
    assert complete(folder, "-i", "my.yml", "-v", "pre") == ["preflight", "predict"]
    assert complete(folder, "completion", "") == ["bash", "zsh"]


@pytest.mark.parametrize("command", table.COMMANDS, ids=lambda command: command.name)
def test_options(command: table.Command, folder: Path) -> None:
    offered = complete(folder, command.name, "-")
    assert sorted(offered) == sorted(arguments.switches(command))


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["train", ""], {"jobs", "my.yml", "jobs/demo.yml", "jobs/lora.yml"}),
        (["-i", "x", "plan", "--estimate", "jobs/d"], {"jobs/demo.yml"}),
        (["tune", "my.yml", "--wri"], {"--write", "--write-to"}),
        (["tune", "my.yml", "--write-to", ""], {"job", "inventory"}),
        (["predict", "demo", "r"], {"rows.csv"}),
        (["report", "--of", "j"], {"jobs"}),
        (["reset", "jobs", "t"], {"tuning"}),
        (["doctor", ""], set()),
        (["--inventory", "m"], {"my.yml"}),
    ],
)
def test_files_and_values(words: list[str], offered: set[str], folder: Path) -> None:
    assert set(complete(folder, *words)) == offered


def test_the_script_of_zsh_is_that_of_bash_with_its_own_beginning() -> None:
    text = completion.script("zsh")
    assert text.startswith("#compdef amx\n")
    assert completion.script("bash").replace("completion bash", "completion zsh") in text


@pytest.mark.skipif(not shutil.which("zsh"), reason="there is no zsh on this machine")
def test_zsh_reads_its_script(folder: Path) -> None:
    (folder / "complete.zsh").write_text(completion.script("zsh"))
    program = "autoload -U compinit && compinit -u -D; source ./complete.zsh; whence _amx; print $_comps[amx]"
    ran = subprocess.run(["zsh", "-fc", program], cwd=folder, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.split("\n")[0] == "_amx"
    assert "_amx" in ran.stdout.split("\n")[1]
