"""Wrong input of the jobs for decoders, as a user reads of it: one sentence, before any rank has started."""

from __future__ import annotations

import json
import shutil
from typing import Any

from journeys.sharding import MODEL, large_job
from support.cluster import EPHEMERAL, job_file, log, train, words
from support.journeys import check


def what_contradicts_a_decoder_is_refused_with_its_row_or_name() -> list[str]:
    """Rows without an answer, a missing chat template, a length over the positions, modules that match nothing."""
    name = "refused"
    job = large_job(name, 1)
    rows = EPHEMERAL / "rows_without_answer"
    rows.mkdir(exist_ok=True)
    texts = [{"instruction": "What is csv for?", "output": answer} for answer in ("Tables.", "Rows.", " ")]
    (rows / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts), encoding="utf-8")
    bare = EPHEMERAL / "without_template"
    shutil.copytree(MODEL / "model", bare, dirs_exist_ok=True)
    (bare / "chat_template.jinja").unlink(missing_ok=True)
    lora = {"use_peft": True, "lora_target_modules": ["query"]}
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        (
            {"data": {"own": {"directory": str(rows)}}},
            {"validation_split_percentage": 0},
            "datasets/own/train.jsonl, row 3: output is empty",
        ),
        (
            {"models": {"decoder": {"directory": str(bare)}}},
            {},
            "datasets/own/train.jsonl, row 3: the tokenizer has no chat template: name a file with one",
        ),
        ({}, {"max_length": 1024}, "--max_length 1024: the model has 512 positions"),
        ({}, lora, "--lora_target_modules query: the model has down_proj, gate_proj"),
    ]
    lines = []
    for fields, args, sentence in cases:
        said = train(job_file({**job, **fields, "args": {**job["args"], **args}})).fail()
        check(f"prepare_decoder: {sentence}" in words(said), f"{sentence!r} is not in\n{said[-3000:]}")
        check("Traceback" not in said and not log(name), f"{said[-3000:]}\n{log(name)}")
        lines += ["...", *said[said.index("prepare_decoder: ") - 300 :].splitlines()[:12]]
    return lines
