"""A small decoder learns from a file of instructions, by jobs/scripts/prepare_decoder.py and train_decoder.py."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.at_length import only_at_length
from support.checkout import ROOT
from support.real_jobs import LIMIT

SCRIPTS = ROOT / "jobs/scripts"
JUDGE = ROOT / "tests/integration/decoder/judge.py"
DATA = {
    "model_name_or_path": "models/decoder",
    "train_file": "own/train.jsonl",
    "validation_split_percentage": 10,
    "max_length": 256,
    "packing": True,
}
TRAINING = {
    "use_cpu": True,
    "output_dir": "output",
    "per_device_train_batch_size": 4,
    "num_train_epochs": 2,
    "logging_steps": 5,
    "save_strategy": "no",
    "report_to": "none",
    "seed": 1,
}
LORA: dict[str, Any] = {"use_peft": True, "lora_r": 8, "merge": True, "learning_rate": 1e-2}


def words(given: dict[str, Any]) -> list[str]:
    return [f"--{name}={value}" for name, value in given.items()]


class Place:
    """A job directory with a small decoder and a file of instructions."""

    def __init__(self, folder: Path, environment: Path) -> None:
        self.folder, self.python = folder, environment / "bin/python"

    def run(self, script: Path, *arguments: str, rank: int = 0, ranks: int = 1) -> subprocess.Popen[str]:
        group = {
            "RANK": rank,
            "WORLD_SIZE": ranks,
            "LOCAL_RANK": rank,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": 29611,
        }
        env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "GLOO_SOCKET_IFNAME": "lo"}
        env.update({name: str(value) for name, value in group.items()} if ranks > 1 else {})
        return subprocess.Popen(
            [self.python, script, *arguments],
            cwd=self.folder,
            env=env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def prepare(self, **given: Any) -> tuple[int, str]:
        return self.ended([self.run(SCRIPTS / "prepare_decoder.py", *words({**DATA, **given}))])

    def train(self, ranks: int = 1, **given: Any) -> dict[str, Any]:
        shutil.rmtree(self.folder / "output", ignore_errors=True)
        code, said = self.prepare(**given)
        assert code == 0, said
        arguments = words({**DATA, **TRAINING, **({"ddp_backend": "gloo"} if ranks > 1 else {}), **given})
        code, said = self.ended(
            [self.run(SCRIPTS / "train_decoder.py", *arguments, rank=rank, ranks=ranks) for rank in range(ranks)]
        )
        assert code == 0, said
        results: dict[str, Any] = json.loads((self.folder / "output/all_results.json").read_text())
        return results

    def ended(self, processes: Sequence[subprocess.Popen[str]]) -> tuple[int, str]:
        said = [process.communicate(timeout=LIMIT)[0] for process in processes]
        return max(process.returncode for process in processes), "\n".join(said)

    def judged(self, question: str, *arguments: str) -> Any:
        code, said = self.ended([self.run(JUDGE, question, *arguments)])
        assert code == 0, said
        return json.loads(said.splitlines()[-1])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, environment: Path) -> Place:
    folder = tmp_path_factory.mktemp("decoder")
    made = Place(folder, environment)
    code, said = made.ended([made.run(ROOT / "tests/support/small_decoder.py", str(folder))])
    assert code == 0, said
    (folder / "models").mkdir()
    (folder / "model").rename(folder / "models/decoder")
    return made


def test_texts_in_a_row_do_not_see_each_other(place: Place) -> None:
    differences = place.judged("packing")
    assert len(differences) >= 5
    assert max(differences.values()) < 1e-4, differences


@pytest.fixture(scope="module")
def merged(place: Place) -> dict[str, Any]:
    """What two ranks found that trained by LoRA, and merged; the adapter is kept in models/adapter."""
    results = place.train(ranks=2, **LORA)
    shutil.copytree(place.folder / "output/adapter", place.folder / "models/adapter")
    return {**results, "answers": place.judged("answers", str(place.folder))}


def test_lora_merged(merged: dict[str, Any]) -> None:
    assert merged["world_size"] == 2
    assert merged["trained_parameters"] < 0.2 * merged["parameters"]
    assert merged["eval_loss"] < merged["eval_before_loss"] - 0.3
    said = merged["answers"]
    assert said["merged"] != said["before"]
    assert said["merged"] == said["adapter"]


@only_at_length("the same script trains by LoRA")
def test_all_weights(place: Place) -> None:
    results = place.train(learning_rate=1e-3, packing=False)
    assert results["trained_parameters"] == results["parameters"]
    assert results["eval_loss"] < results["eval_before_loss"] - 0.15
    said = place.judged("answers", str(place.folder))
    assert said["merged"] != said["before"]


def test_tied_weights_are_written_once_in_the_format_they_came_in(place: Place, tmp_path: Path) -> None:
    shutil.copytree(place.folder / "models/decoder", tmp_path / "half")
    config = json.loads((tmp_path / "half/config.json").read_text())
    (tmp_path / "half/config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}))
    place.train(model_name_or_path=tmp_path / "half", max_steps=1, eval_before=False, max_eval_samples=1)
    with (place.folder / "output/model.safetensors").open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    assert header["model.embed_tokens.weight"]["dtype"] == "BF16"
    assert json.loads((place.folder / "output/config.json").read_text())["dtype"] == "bfloat16"
    assert "lm_head.weight" not in header


@only_at_length("peft loads it, as where the merged model is judged")
def test_an_adapter_goes_on(place: Place, merged: dict[str, Any]) -> None:
    more = place.train(**{**LORA, "merge": False, "num_train_epochs": 0.2}, adapter="models/adapter")
    assert more["eval_before_loss"] == pytest.approx(merged["eval_loss"], abs=1e-2)


def test_refused_before_a_rank_starts(place: Place, merged: dict[str, Any], tmp_path: Path) -> None:
    adapter = place.folder / "models/adapter"
    decoder = place.folder / "models/decoder"
    shutil.copytree(decoder, tmp_path / "bare")
    (tmp_path / "bare/chat_template.jinja").unlink()
    shutil.copytree(decoder, tmp_path / "wider")
    config = json.loads((decoder / "config.json").read_text())
    (tmp_path / "wider/config.json").write_text(json.dumps({**config, "intermediate_size": 512}))
    (tmp_path / "other").mkdir()
    (tmp_path / "other/config.json").write_text(json.dumps({**config, "model_type": "gpt2"}))
    (tmp_path / "empty.jsonl").touch()
    wider = {"model_name_or_path": tmp_path / "wider", "use_peft": True, "adapter": adapter}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"max_length": 1024}, "--max_length 1024: the model has 512 positions"),
        (
            {"use_peft": True, "lora_target_modules": "query"},
            "--lora_target_modules query: the model has down_proj, gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj",
        ),
        ({"train_file": "own/none.jsonl"}, "there is no file own/none.jsonl"),
        ({"train_file": tmp_path / "empty.jsonl"}, f"{tmp_path}/empty.jsonl is empty: "),
        ({"chat_template": "none.jinja"}, "--chat_template none.jinja: No such file or directory"),
        ({"model_name_or_path": "models/none"}, "model models/none: "),
        ({"model_name_or_path": tmp_path / "bare"}, "own/train.jsonl, row 11: the tokenizer has no chat template: "),
        (wider, f"--adapter {adapter} is for another model: it changes model.layers.0.mlp."),
        ({"model_name_or_path": tmp_path / "other"}, "--packing: that a model of type gpt2 keeps packed texts apart "),
        (
            {
                "model_name_or_path": tmp_path / "other",
                "packing": False,
                "use_peft": True,
                "lora_target_modules": "query",
            },
            "--lora_target_modules query: the model has c_attn, c_fc, c_proj",
        ),
        ({"use_peft": True, "adapter": "models/none"}, "--adapter models/none: it has no adapter_config.json"),
        ({"validation_split_percentage": 100}, "--validation_split_percentage 100: expected 0 to 99"),
    ]
    asked = json.dumps([words({**DATA, **given}) for given, _message in cases])
    found = place.judged("refusals", asked)
    assert len(found) == len(cases)
    for (code, said), (_given, message) in zip(found, cases):
        assert code == 2, said
        assert any(line.startswith(f"prepare_decoder: {message}") for line in said.splitlines()), said
