"""OpenAI's interface to small models in a real server process.

Judges are the client `openai`, generate(), and sentence-transformers.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest
import requests
from ansible_collections.amx.cluster.plugins.module_utils._jobs import serving
from support.checkout import ROOT, importable

HERE = ROOT / "tests/integration/inference"
# Whose needs the stack has.
SENTENCE_TRANSFORMERS = "sentence-transformers==6.2.0"
PROMPTS = ["Return the", "A class that", "Raise an exception if the file", "Créer 日本 🙂 text", "x"]
# Greedy texts of transformers itself.
JUDGE = """
import json, sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer, model = AutoTokenizer.from_pretrained(sys.argv[1]), AutoModelForCausalLM.from_pretrained(sys.argv[1]).eval()
texts = []
for prompt in json.loads(sys.argv[2]):
    ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
    mask = torch.ones_like(ids)
    new = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=24)[0, ids.shape[1] :]
    ended = bool(new[-1] == tokenizer.eos_token_id)
    texts.append([tokenizer.decode(new, skip_special_tokens=True), "stop" if ended else "length", len(new)])
print(json.dumps(texts))
"""


@functools.cache
def packages() -> str:
    """Install what `amx serve` installs beside the stack, and a judge, and return the directory."""
    place = tempfile.mkdtemp(prefix="amx-packages-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    for words in (serving.REQUIREMENTS, ("--no-deps", SENTENCE_TRANSFORMERS)):
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", place, *words]
        subprocess.run(command, check=True, capture_output=True)
    return place


def stack(environment: Path, *words: str) -> subprocess.Popen[str]:
    paths = f"{importable(ROOT / 'runtime')}:{packages()}"
    env = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen([f"{environment}/bin/python", "-B", *words], env=env, stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory, environment: Path) -> Path:
    place = Path(os.environ.get("AMX_TEST_DECODER") or tmp_path_factory.mktemp("decoder"))
    if not (place / "model").exists():
        assert stack(environment, str(ROOT / "tests/support/small_decoder.py"), str(place)).wait() == 0
    return place / "model"


def started(environment: Path, model: Path, task: str) -> Iterator[openai.OpenAI]:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        port = tried.getsockname()[1]
    server = stack(environment, str(HERE / "serve_model.py"), str(model), task, str(port))
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="any", max_retries=0, timeout=120)
    try:
        for _look in range(1200):
            try:
                client.models.list()
                break
            except openai.APIConnectionError:
                assert server.poll() is None
                time.sleep(0.1)
        yield client
        assert server.poll() is None
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture(scope="module")
def client(decoder: Path, environment: Path) -> Iterator[openai.OpenAI]:
    yield from started(environment, decoder, "text-generation")


def whole(stream: Any) -> tuple[str, str, Any]:
    """Return the text of a stream, why it ended, and its usage."""
    text, reason, usage = "", "", None
    for event in stream:
        usage = event.usage or usage
        for choice in event.choices:
            text += (choice.text if hasattr(choice, "text") else choice.delta.content) or ""
            reason = choice.finish_reason or reason
    return text, reason, usage


def test_greedy_texts_are_those_of_transformers(client: openai.OpenAI, decoder: Path, environment: Path) -> None:
    judge = stack(environment, "-c", JUDGE, str(decoder), json.dumps(PROMPTS)).communicate()[0]
    expected = [tuple(one) for one in json.loads(judge.splitlines()[-1])]

    def asked(prompt: str) -> tuple[str, str, int]:
        made: Any = client.completions.create(model="tiny", prompt=prompt, max_tokens=24, temperature=0)
        return made.choices[0].text, made.choices[0].finish_reason, made.usage.completion_tokens

    def streamed(prompt: str) -> tuple[str, str, int]:
        options: Any = {"include_usage": True}
        text, reason, usage = whole(
            client.completions.create(
                model="tiny", prompt=prompt, max_tokens=24, temperature=0, stream=True, stream_options=options
            )
        )
        return text, reason, usage.completion_tokens

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(asked, PROMPTS * 4)) == expected * 4
        assert list(pool.map(streamed, PROMPTS * 2)) == expected * 2
    together: Any = client.completions.create(model="tiny", prompt=PROMPTS, max_tokens=24, temperature=0)
    assert [(choice.text, choice.finish_reason) for choice in together.choices] == [one[:2] for one in expected]
    assert together.usage.completion_tokens == sum(one[2] for one in expected)


def test_what_the_model_forbids_is_as_in_transformers(decoder: Path, environment: Path, tmp_path: Path) -> None:
    """Of its generation_config: words that come again, or never."""
    shutil.copytree(decoder, tmp_path / "model")
    path = tmp_path / "model/generation_config.json"
    rules = {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3, "suppress_tokens": [20, 21], "bad_words_ids": [[30]]}
    path.write_text(json.dumps({**json.loads(path.read_text()), **rules}))
    judge = stack(environment, "-c", JUDGE, str(tmp_path / "model"), json.dumps(PROMPTS)).communicate()[0]
    expected = [tuple(one) for one in json.loads(judge.splitlines()[-1])]
    plain = stack(environment, "-c", JUDGE, str(decoder), json.dumps(PROMPTS)).communicate()[0]
    assert json.loads(plain.splitlines()[-1]) != json.loads(judge.splitlines()[-1])
    for client in started(environment, tmp_path / "model", "text-generation"):
        made: Any = client.completions.create(model="tiny", prompt=PROMPTS, max_tokens=24, temperature=0)
        assert [(choice.text, choice.finish_reason) for choice in made.choices] == [one[:2] for one in expected]


def test_chats_seeds_and_stops(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "What is os.walk for?"}]

    def chat(**options: Any) -> Any:
        return client.chat.completions.create(model="tiny", messages=messages, max_completion_tokens=30, **options)

    one = chat(seed=7, temperature=1.5, top_p=0.9)
    assert one.choices[0].message.role == "assistant" and one.usage.total_tokens <= one.usage.prompt_tokens + 30
    with ThreadPoolExecutor(4) as pool:
        others = list(pool.map(lambda seed: chat(seed=seed, temperature=1.5, top_p=0.9), [7, 8, 7, 9]))
    texts = [other.choices[0].message.content for other in others]
    assert texts[0] == texts[2] == one.choices[0].message.content != texts[1]
    assert whole(chat(seed=7, temperature=1.5, top_p=0.9, stream=True))[0] == texts[0]
    for length in (1, 2, 5):  # a stop string may begin and end within a token
        stop = texts[0][3 : 3 + length]
        ended = chat(seed=7, temperature=1.5, top_p=0.9, stop=[stop, "never in it"])
        assert ended.choices[0].message.content == texts[0][: texts[0].index(stop)]
        assert ended.choices[0].finish_reason == "stop"
        assert whole(chat(seed=7, temperature=1.5, top_p=0.9, stop=stop, stream=True))[:2] == (
            ended.choices[0].message.content,
            "stop",
        )


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"model": "other"}, 404, "model"),
    ({"max_tokens": 600}, 400, "prompt"),
    ({"max_tokens": 0}, 400, "max_tokens"),
    ({"max_tokens": True}, 400, "max_tokens"),
    ({"max_tokens": 2.5}, 400, "max_tokens"),
    ({"max_tokens": 10**400}, 400, "max_tokens"),
    ({"temperature": "hot"}, 400, "temperature"),
    ({"temperature": -1}, 400, "temperature"),
    ({"top_p": 2}, 400, "top_p"),
    ({"seed": "a"}, 400, "seed"),
    ({"stop": ""}, 400, "stop"),
    ({"stop": ["a"] * 5}, 400, "stop"),
    ({"stop": [3]}, 400, "stop"),
    ({"stream": "yes"}, 400, "stream"),
    ({"stream_options": {"include_usage": True}}, 400, "stream_options"),
    ({"n": 2}, 400, "n"),
    ({"logprobs": 3}, 400, "logprobs"),
    ({"echo": True}, 400, "echo"),
    ({"best_of": 2}, 400, "best_of"),
    ({"logit_bias": {"3": 1}}, 400, "logit_bias"),
    ({"unheard": 1}, 400, "unheard"),
    ({"\ud800": 1}, 400, "?"),
    ({"prompt": ""}, 400, "prompt"),
    ({"prompt": []}, 400, "prompt"),
    ({"prompt": 3}, 400, "prompt"),
    ({"prompt": [1, -1]}, 400, "prompt"),
    ({"prompt": [1, True]}, 400, "prompt"),
    ({"prompt": [[1], "a", 3]}, 400, "prompt"),
    ({"prompt": [10**9]}, 400, "prompt"),
    ({"prompt": [7] * 512}, 400, "prompt"),
    ({"prompt": "ab " * 2000}, 400, "prompt"),
    ({"prompt": "a" * (7 << 20)}, 400, "prompt"),
    ({"prompt": "\ud800"}, 400, "prompt"),
    ({"prompt": ["a"] * 65}, 400, "prompt"),
]


@pytest.mark.parametrize(("fields", "status", "param"), REFUSED, ids=lambda value: str(value)[:40])
def test_refusals(client: openai.OpenAI, fields: dict[str, Any], status: int, param: str) -> None:
    # As it stands: the client's own types and encoding would not let it through.
    body = json.dumps({"model": "tiny", "prompt": "The", **fields})
    answer = requests.post(f"{client.base_url}completions", data=body, timeout=60)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["type"]) == (status, param, "invalid_request_error")
    assert error["message"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("completions", b"{", 400),
        ("completions", b'{"prompt": "a", "temperature": NaN}', 400),
        ("completions", b"[]", 400),
        ("completions", b'"' + b"a" * (9 << 20) + b'"', 413),
        ("embeddings", b'{"input": "a"}', 404),
        ("rerank", b'{"query": "a", "documents": ["b"]}', 404),
        ("nowhere", b"{}", 404),
        ("models", b"{}", 405),
    ],
)
def test_bodies_and_paths(client: openai.OpenAI, path: str, body: bytes, status: int) -> None:
    answer = requests.post(f"{client.base_url}{path}", data=body, timeout=60)
    assert (answer.status_code, answer.json()["error"]["type"]) == (status, "invalid_request_error")


USER = {"role": "user", "content": "a"}


@pytest.mark.parametrize(
    "messages",
    [
        *(None, [], "text", [3], [{"role": "user"}], [{"role": []}], [{"role": "assistant", "content": "a"}]),
        [{"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}, USER],
        [{"role": "system", "content": 5}, USER],
        [{"role": "assistant", "tool_calls": 5}, USER],
        [{"role": "assistant", "tool_calls": [{"id": "a"}], "content": 5}, USER],
    ],
    ids=str,
)
def test_messages_that_are_none(client: openai.OpenAI, messages: Any) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        client.post("/chat/completions", cast_to=object, body={"model": "tiny", "messages": messages})
    assert raised.value.param == "messages"


def test_prompts_of_a_request_have_a_limit_together(client: openai.OpenAI) -> None:
    url = str(client.base_url).replace("/v1/", "/predict")
    column = requests.get(str(client.base_url).replace("v1/", ""), timeout=60).json()["columns"][0]
    half = "a" * (1 << 19)
    answer = requests.post(url, json=[{column: half}, {column: half}, {column: "b"}], timeout=60)
    assert (answer.status_code, "at most 1048576 characters" in answer.json()["error"]) == (413, True)


def test_results_of_tools_are_read(client: openai.OpenAI) -> None:
    """As JSON text where they are no text."""

    def tokens(content: Any) -> int:
        messages: Any = [USER, {"role": "tool", "content": content}]
        made = client.chat.completions.create(model="tiny", messages=messages, max_completion_tokens=1)
        assert made.usage
        return made.usage.prompt_tokens

    assert tokens({"temp": 21}) == tokens('{"temp": 21}') > tokens("")
    assert tokens([{"type": "text", "text": "21"}]) == tokens(21) == tokens("21") > tokens("")


def test_a_model_is_shown_by_its_name(client: openai.OpenAI) -> None:
    assert client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")
    assert requests.get(f"{client.base_url}completions", timeout=60).status_code == 405


def test_clients_that_leave_and_many_connections(client: openai.OpenAI) -> None:
    for _client in range(6):  # more than run together: if they went on, the next would wait for 6 * 500 tokens
        stream = client.completions.create(model="tiny", prompt="A", max_tokens=500, temperature=2, stream=True)
        next(iter(stream))
        stream.close()
    began = time.monotonic()
    client.completions.create(model="tiny", prompt="The", max_tokens=1)
    assert time.monotonic() - began < 20

    def asked(number: int) -> str:
        try:
            made = client.completions.create(model="tiny", prompt=f"Return {number}", max_tokens=3, temperature=0)
        except openai.RateLimitError as error:
            assert error.response.headers["retry-after"] == "1"
            return "refused"
        return made.choices[0].finish_reason

    with ThreadPoolExecutor(300) as pool:
        answers = list(pool.map(asked, range(300)))
    assert set(answers) <= {"length", "stop", "refused"}
    assert client.models.list().data[0].id == "tiny"


def test_metrics(client: openai.OpenAI) -> None:
    url = str(client.base_url).replace("/v1/", "/metrics")

    def numbers() -> dict[str, float]:
        lines = requests.get(url, timeout=60).text.splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}

    before = numbers()
    client.completions.create(
        model="tiny", prompt=[1, 2, 3], max_tokens=4, temperature=0, extra_body={"stop": ["\x00"]}
    )
    requests.get(url.replace("/metrics", "/a/path/of/anybody"), timeout=60)
    after = numbers()

    def grown(name: str) -> float:
        return after[name] - before.get(name, 0)

    assert grown('amx_http_requests_total{code="200",path="/v1/completions"}') == 1
    assert grown('amx_http_request_duration_seconds_count{path="/v1/completions"}') == 1
    assert grown('amx_http_requests_total{code="404",path="other"}') == 1
    assert grown("amx_prompt_tokens_total") == 3 and 1 <= grown("amx_generated_tokens_total") <= 4
    assert grown("amx_time_to_first_token_seconds_count") == 1
    assert (after["amx_http_requests_in_flight"], after["amx_texts_running"], after["amx_rows_waiting"]) == (1, 0, 0)


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory, environment: Path) -> Path:
    """Return the directory of small models, after their vectors and scores were compared with the judge's."""
    place = tmp_path_factory.mktemp("sentences")
    assert stack(environment, str(HERE / "sentences.py"), str(place)).wait() == 0
    return place


@pytest.fixture(scope="module")
def embedder(sentences: Path, environment: Path) -> Iterator[openai.OpenAI]:
    yield from started(environment, sentences / "bert", "feature-extraction")


def test_embeddings(embedder: openai.OpenAI) -> None:
    def vectors(texts: Any, **options: Any) -> list[list[float]]:
        answer = embedder.embeddings.create(model="tiny", input=texts, **options)
        assert [one.index for one in answer.data] == list(range(len(answer.data)))
        return [one.embedding for one in answer.data]

    texts = ["the cat sat " * (number % 40) for number in range(64)]
    alone = [vectors(text)[0] for text in texts[:40]]
    assert len(alone[0]) == 32
    with ThreadPoolExecutor(64) as pool:
        together = [one[0] for one in pool.map(vectors, texts)]
    several = vectors(texts, encoding_format="float")
    for number, text in enumerate(texts):
        for vector in (together[number], several[number]):
            assert vector == pytest.approx(alone[number % 40], abs=1e-6), text
    # [CLS] the cat sat [SEP], as the tokenizer numbers its words
    answer = embedder.embeddings.create(model="tiny", input=[[2, 5, 7, 9, 3], [2, 3]], dimensions=32)
    assert answer.data[0].embedding == pytest.approx(alone[1], abs=1e-6)
    assert answer.data[1].embedding == pytest.approx(alone[0], abs=1e-6)
    assert (answer.model, answer.usage.prompt_tokens, answer.usage.total_tokens) == ("tiny", 7, 7)
    row = requests.post(str(embedder.base_url).replace("/v1/", "/predict"), json={"text": texts[1]}, timeout=60).json()
    assert row["predicted_embedding"] == pytest.approx(alone[1], abs=1e-6)
    metrics = requests.get(str(embedder.base_url).replace("/v1/", "/metrics"), timeout=60).text
    assert 'amx_http_requests_total{code="200",path="/v1/embeddings"} 106.0' in metrics
    assert "amx_rows_total 171.0" in metrics and "amx_prompt_tokens_total " in metrics


OF_EMBEDDINGS: list[tuple[dict[str, Any], int, str]] = [
    ({"input": "cat " * 127}, 400, "input"),
    ({"input": ["a", "cat " * 127]}, 400, "input[1]"),
    ({"input": "a" * (7 << 20)}, 400, "input"),
    ({"input": [7] * 129}, 400, "input"),
    ({"input": []}, 400, "input"),
    ({"input": [[]]}, 400, "input"),
    ({"input": None}, 400, "input"),
    ({"input": ["a", 3]}, 400, "input"),
    ({"input": [1, -1]}, 400, "input"),
    ({"input": [[10**9]]}, 400, "input"),
    ({"input": "\ud800"}, 400, "input"),
    ({"input": ["a"] * 1025}, 400, "input"),
    ({"dimensions": 16}, 400, "dimensions"),
    ({"encoding_format": "hex"}, 400, "encoding_format"),
    ({"model": "other"}, 404, "model"),
    ({"truncate": True}, 400, "truncate"),
]


@pytest.mark.parametrize("text", ["the cat" + " " * 3000, "the " + "a" * 3000], ids=["blanks", "unknown"])
def test_few_tokens_of_many_characters_are_read(embedder: openai.OpenAI, text: str) -> None:
    assert embedder.embeddings.create(model="tiny", input=text).usage.prompt_tokens == 4


def test_of_a_row_of_megabytes_the_beginning_counts(embedder: openai.OpenAI) -> None:
    url = str(embedder.base_url).replace("/v1/", "/predict")
    texts = ["the cat sat . " * many for many in (100, 500_000)]
    vectors = []
    for text in [*texts, "the cat" + " " * 7_000_000]:
        vectors.append(requests.post(url, json={"text": text}, timeout=60).json()["predicted_embedding"])
    assert vectors[1] == pytest.approx(vectors[0], abs=1e-6)
    assert vectors[2] == pytest.approx(embedder.embeddings.create(model="tiny", input="the cat").data[0].embedding)


@pytest.mark.parametrize(("fields", "status", "param"), OF_EMBEDDINGS, ids=lambda value: str(value)[:40])
def test_embeddings_that_are_refused(embedder: openai.OpenAI, fields: dict[str, Any], status: int, param: str) -> None:
    body = json.dumps({"model": "tiny", "input": "the cat", **fields})
    answer = requests.post(f"{embedder.base_url}embeddings", data=body, timeout=60)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["type"]) == (status, param, "invalid_request_error")


def test_reranking(sentences: Path, environment: Path) -> None:
    documents: list[Any] = ["the rug", {"text": "the cat sat on the mat"}, "", "who ran ?"]
    request = {"model": "tiny", "query": "where is the cat ?", "documents": documents}
    for client in started(environment, sentences / "ranking bert", "text-ranking"):
        url = str(client.base_url).replace("/v1/", "")

        def ask(path: str, fields: Any, url: str = url) -> tuple[int, Any]:
            answer = requests.post(f"{url}{path}", data=json.dumps(fields), timeout=60)
            return answer.status_code, answer.json()

        texts = [document if isinstance(document, str) else document["text"] for document in documents]
        scores = [row["predicted_score"] for row in ask("/predict", [{**request, "document": one} for one in texts])[1]]
        status, answer = ask("/rerank", request)
        assert (status, answer["model"]) == (200, "tiny") and answer["usage"]["total_tokens"] == 8 * 4 + 2 + 6 + 0 + 3
        order = sorted(range(4), key=lambda number: -scores[number])
        assert [result["index"] for result in answer["results"]] == order and len(set(scores)) == 4
        for result in answer["results"]:
            assert result["document"] == {"text": texts[result["index"]]}
            assert result["relevance_score"] == pytest.approx(scores[result["index"]], abs=2e-6)
        _status, shorter = ask("/v1/rerank", {**request, "top_n": 2, "return_documents": False})
        assert [list(result) for result in shorter["results"]] == [["index", "relevance_score"]] * 2
        for fields, param in (
            ({"query": 3}, "query"),
            ({"documents": []}, "documents"),
            ({"documents": [{"title": "a"}]}, "documents"),
            ({"documents": 3}, "documents"),
            ({"documents": ["a", "cat " * 125]}, "documents[1]"),
            ({"top_n": 0}, "top_n"),
            ({"max_tokens_per_doc": 5}, "max_tokens_per_doc"),
        ):
            status, answer = ask("/rerank", {**request, **fields})
            assert (status, answer["error"]["param"]) == (400, param), fields
