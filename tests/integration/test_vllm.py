"""playbooks/serve.yml with vLLM: texts of a model and its LoRA adapters are those of peft, and a stop loses none.

AMX_TEST_VLLM names a virtual environment with vLLM, such as that of the stack serve-vllm (CLUSTER_PREFIX/vllm).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support import checkout, haproxy, playbooks
from support.local_cluster import installed_here
from support.served import free_ports

ENVIRONMENT = os.environ.get("AMX_TEST_VLLM", "")
pytestmark = pytest.mark.skipif(
    not ENVIRONMENT, reason="AMX_TEST_VLLM names no environment with vLLM, whose wheels take 0.6 GB"
)
PROMPTS = ["Return the", "A class that", "Raise an exception if the file", "Open the"]
# Makes two adapters, and prints the greedy texts of the model and of each.
JUDGE = """
import json, sys, torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer
base, prompts, texts = f"{sys.argv[1]}/model", json.loads(sys.argv[2]), {}
tokenizer = AutoTokenizer.from_pretrained(base)
configs = {
    "model": None,
    "one": LoraConfig(task_type="CAUSAL_LM", r=8, lora_alpha=32, target_modules=["q_proj", "v_proj"]),
    "two": LoraConfig(
        task_type="CAUSAL_LM", r=24, use_rslora=True, target_modules="all-linear", rank_pattern={"o_proj": 4}
    ),
}
for seed, (name, config) in enumerate(configs.items()):
    model = AutoModelForCausalLM.from_pretrained(base)
    torch.manual_seed(seed)
    if config:
        model = get_peft_model(model, config)
        for key, weight in model.named_parameters():
            if "lora_B" in key:
                torch.nn.init.normal_(weight, std=0.3 if name == "one" else 0.1)
        model.save_pretrained(f"{sys.argv[1]}/{name}")
    texts[name] = []
    for prompt in prompts:
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        mask = torch.ones_like(ids)
        new = model.eval().generate(input_ids=ids, attention_mask=mask, do_sample=False, max_new_tokens=24)
        texts[name].append(tokenizer.decode(new[0, ids.shape[1] :], skip_special_tokens=True))
print(json.dumps(texts))
"""


def ask(port: int, path: str, content: Any = None) -> Any:
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.loads(answer.read())


def test_adapters_and_a_stop(tmp_path: Path, environment: Path) -> None:
    haproxy.path()
    installed_here(tmp_path)
    python, port = f"{environment}/bin/python", free_ports()
    if made := os.environ.get("AMX_TEST_DECODER"):
        shutil.copytree(Path(made) / "model", tmp_path / "model")
    else:
        subprocess.run([python, str(checkout.ROOT / "tests/support/small_decoder.py"), str(tmp_path)], check=True)
    words = [python, "-c", JUDGE, str(tmp_path), json.dumps(PROMPTS)]
    judged = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    assert judged["one"] != judged["model"] != judged["two"]
    options = [f"amx_model=head:{tmp_path}/model", f"amx_serve_port={port}", "amx_serve_engine=vllm"]
    options += [
        f"amx_serve_environment={ENVIRONMENT}",
        f"amx_serve_adapters=one={tmp_path}/one,two=head:{tmp_path}/two",
    ]
    serve = playbooks.play(
        tmp_path, checkout.ROOT / "playbooks/serve.yml", *(word for one in options for word in ("-e", one))
    )
    assert serve.returncode == 0, serve.stdout[-8000:]
    assert [model["id"] for model in ask(port, "/v1/models")["data"]] == ["model", "one", "two"]
    for name, texts in judged.items():
        fields = {"model": name, "max_tokens": 24, "temperature": 0}
        answers = [ask(port, "/v1/completions", {**fields, "prompt": prompt}) for prompt in PROMPTS]
        assert [answer["choices"][0]["text"] for answer in answers] == texts, name
    for path in ("/invocations", "/tokenize", "/v1/load_lora_adapter"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            ask(port, path, {"prompt": "a"})

    def until_it_is_gone() -> int:
        """Return how many requests were answered; raises where one was given up."""
        answered = 0
        fields = {"model": "model", "prompt": "a", "max_tokens": 400, "ignore_eos": True}
        while True:
            try:
                assert ask(port, "/v1/completions", fields)["usage"]["completion_tokens"] == 400
            except urllib.error.URLError as error:
                assert isinstance(error.reason, ConnectionRefusedError)
                return answered
            answered += 1

    with ThreadPoolExecutor(4) as pool:
        answered = [pool.submit(until_it_is_gone) for _client in range(4)]
        time.sleep(3)
        stop = playbooks.play(tmp_path, checkout.ROOT / "playbooks/stop.yml", "-e", "amx_job=model-serve")
        assert stop.returncode == 0, stop.stdout[-8000:]
        assert all(each.result() > 0 for each in answered)
