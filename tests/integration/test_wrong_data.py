"""What train_text.py says of data and trainings that cannot be right: a sentence and exit code 2, on all ranks."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from support.checkout import ROOT
from support.real_jobs import LIMIT

SCRIPTS = ROOT / "jobs/scripts"
WORDS = (
    *("--model_name_or_path=data/model", "--from_scratch", "--train_file=data/train.csv", "--max_seq_length=32"),
    *("--validation_file=data/validation.csv", "--use_cpu", "--save_strategy=no", "--report_to=none", "--seed=1"),
    *("--output_dir=output", "--num_train_epochs=1"),
)
# Several trainings of one process, in which torch and transformers are imported once.
SEVERAL = """
import json, sys
sys.path.insert(0, sys.argv[1])
import train_text
for words in json.loads(sys.argv[2]):
    print(words, "ended with", train_text.main([*json.loads(sys.argv[3]), *words]), flush=True)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, environment: Path) -> Path:
    made = tmp_path_factory.mktemp("wrong")
    for place in (made, made / "other"):
        place.mkdir(exist_ok=True)
        sizes = ("--train_pairs", "32", "--validation_pairs", "16", "--seed", "1")
        generate = [f"{environment}/bin/python", str(SCRIPTS / "generated_pairs.py"), "--output_dir", "data", *sizes]
        subprocess.run(generate, cwd=place, check=True, capture_output=True)
    return made


def test_success_needs_steps_and_finite_numbers(folder: Path, environment: Path) -> None:
    cases = [
        ["--learning_rate=1e20"],
        ["--num_train_epochs=0"],
        ["--dataloader_drop_last", "--per_device_train_batch_size=64"],
        ["--max_train_samples=-1"],
        ["--learning_rate=1e-4"],
    ]
    words = ["-c", SEVERAL, str(SCRIPTS), json.dumps(cases), json.dumps(WORDS)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    ran = subprocess.run(
        [f"{environment}/bin/python", *words],
        cwd=folder,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=LIMIT,
        check=False,
    )
    assert re.findall(r"ended with (\d)", ran.stdout) == ["2", "2", "2", "2", "0"], ran.stdout
    said = [line for line in ran.stdout.splitlines() if line.startswith("train_text: ")]
    assert len(said) == 4, ran.stdout
    for line, part in zip(
        said,
        (
            "numbers that are not finite",
            "no step was made: --num_train_epochs is 0",
            "32 rows of training data are no batch of 64 (1 ranks of 64)",
            "--max_train_samples -1: expected 0",
        ),
    ):
        assert part in line
    assert "Traceback" not in ran.stdout
    results = json.loads((folder / "output/all_results.json").read_text())
    assert min(results[name] for name in results if name.endswith("_runtime")) >= 0


def test_a_row_that_one_rank_cannot_read_ends_all(folder: Path, environment: Path) -> None:
    path = folder / "other/data/train.csv"
    path.write_text(path.read_text() + "a,b,\n")
    ranks = []
    for rank in range(2):
        group = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29613}
        env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "GLOO_SOCKET_IFNAME": "lo"}
        ranks.append(
            subprocess.Popen(
                [f"{environment}/bin/python", SCRIPTS / "train_text.py", *WORDS, "--ddp_backend=gloo"],
                cwd=folder / "other" if rank else folder,
                env={**env, **{name: str(value) for name, value in group.items()}},
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        )
    for process in ranks:
        said, _ = process.communicate(timeout=LIMIT)
        assert process.returncode == 2, said
        assert re.search(r"^train_text: \S+: data/train.csv, row 33 \(line 34\): has no label$", said, re.MULTILINE), (
            said
        )
