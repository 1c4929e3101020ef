"""Measuring playbooks with --check on this machine: they show what they would run, end well, and change nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from support import checkout, playbooks
from support.at_length import only_at_length
from support.local_cluster import installed_here
from support.weights import safetensors

TRAINING = "name: tiny\nscript: tiny.py\nkind: torch\nranks_per_node: 1\n"
INFERENCE = "{name: speed, kind: inference, inference: {models: [distilbert-small], precisions: [fp32]}}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("check")
    installed_here(folder)
    (folder / "tiny.py").write_text("raise SystemExit('started')\n")
    (folder / "tiny.yml").write_text(TRAINING)
    (folder / "trainer.yml").write_text("name: trainer\nscript: tiny.py\nranks_per_node: 1\n")
    (folder / "speed.yml").write_text(INFERENCE)
    (folder / "rows.csv").write_text("text\none\ntwo\n")
    (folder / "model").mkdir()
    (folder / "model/config.json").write_text(
        '{"architectures": ["BertForSequenceClassification"], "model_type": "bert"}'
    )
    (folder / "model/model.safetensors").write_bytes(safetensors(b"weights"))
    return folder


def tree(folder: Path) -> dict[str, str]:
    """Return the files and directories below a directory, except the environment, with a digest of their content."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "directory"
        for path in folder.rglob("*")
        if not path.is_symlink() and "env" not in path.relative_to(folder).parts
    }


@pytest.mark.parametrize(
    ("playbook", "options", "shown"),
    [
        ("tune", ["-e", "job=tiny.yml"], "Would be tried: the job's own settings,"),
        ("infer", ["-e", "job=speed.yml"], "Would be measured: "),
        ("scale", ["-e", "job=tiny.yml"], "0 runs have been made, "),
        ("plan", ["-e", "job=trainer.yml", "-e", "estimate=true"], "Would be run: trainer+estimate (10 steps on "),
        ("network", [], "Job +network: "),
        pytest.param(
            *("network", ["-e", "job=tiny.yml"], "Job +network: 1 rank on 1 host"),
            marks=only_at_length("as without a job"),
        ),
        ("verify", ["-e", "job=tiny.yml"], "1 rank on 1 host"),
        (
            "predict",
            ["-e", "model=model", "-e", "data=rows.csv", "-e", "predict_name=rows"],
            "Would be predicted: the rows of rows.csv",
        ),
        pytest.param(
            "predict",
            ["-e", "model=head:{}/model", "-e", "data=head:{}/rows.csv"],
            "Would be predicted: the rows of head:",
            marks=only_at_length("as with a file on the control node"),
        ),
    ],
    ids=[
        "tune",
        "infer",
        "scale",
        "estimate",
        "network",
        "network of a job",
        "verify",
        "predict",
        "predict on the head",
    ],
)
def test_check_mode_shows_what_would_be_run(folder: Path, playbook: str, options: list[str], shown: str) -> None:
    before = tree(folder)
    done = playbooks.play(
        folder, checkout.ROOT / f"playbooks/{playbook}.yml", "--check", *(option.format(folder) for option in options)
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert shown in " ".join(done.stdout.split())
    assert tree(folder) == before
