"""playbooks/predict.yml on this machine, with the real launcher and torch: output and chunks lost after its end."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from support import checkout, playbooks
from support.local_cluster import installed_here

ROWS = 100


@pytest.fixture
def folder(tmp_path: Path, environment: Path) -> Path:
    installed_here(tmp_path)
    inference = checkout.ROOT / "tests/integration/inference/save_models.py"
    subprocess.run(
        [f"{environment}/bin/python", "-B", str(inference), str(tmp_path), "distilbert"],
        env={**os.environ, "PYTHONPATH": checkout.importable(checkout.ROOT / "runtime")},
        check=True,
        capture_output=True,
    )
    lines = [json.dumps({"number": number, "text": f"the cat sat {number}"}) for number in range(ROWS)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    return tmp_path


def predict(folder: Path, *options: str) -> str:
    """Run the playbook, always with the same request; return what it printed."""
    request = [f"model=head:{folder}/distilbert", "data=rows.jsonl", "predict_name=rows"]
    setting = ["{setting: {batch_size: 2}}", "{override: {ranks_per_node: 1, wait: true}}"]
    given = [word for one in (*request, *setting, *options) for word in ("-e", one)]
    done = playbooks.play(folder, checkout.ROOT / "playbooks/predict.yml", *given)
    assert done.returncode == 0, done.stdout[-8000:]
    return done.stdout


def test_the_same_command_completes_an_output_again(folder: Path) -> None:
    output, job = folder / "results/rows-predict/predictions.jsonl", folder / "prefix/jobs/rows-predict"
    predict(folder)
    first = output.read_text()
    assert [json.loads(line)["number"] for line in first.splitlines()] == list(range(ROWS))
    assert _ownership.is_own(folder / "prefix/cache/predictions"), "reset=data would leave it"
    chunks = sorted((job / "output/predictions").glob("chunk-*"))
    assert len(chunks) > 2
    computed = {path.name: path.stat().st_ino for path in chunks}

    output.unlink()
    chunks[0].write_bytes(chunks[0].read_bytes()[:-1] + b"!")
    chunks[1].unlink()
    printed = " ".join(predict(folder).split())
    assert f"Chunks are computed again: 1 of {len(chunks)} chunks are missing: 1" in printed
    assert output.read_text() == first
    again = {path.name: path.stat().st_ino for path in (job / "output/predictions").glob("chunk-*")}
    assert {name for name in computed if again[name] != computed[name]} == {chunks[0].name, chunks[1].name}
    assert len(list(job.parent.glob("rows-predict.2*"))) == 1

    output.unlink()
    assert "Chunks are computed again" not in predict(folder)
    assert output.read_text() == first
