from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.checkout import ROOT
from support.scripts import load

USER = {"role": "user", "content": "Two and two?"}
ANSWER = {"role": "assistant", "content": "Four."}
PARTS = [{"type": "text", "text": "Two and "}, {"type": "text", "text": "two?"}]
ARGUMENTS = {"function": {"name": "add", "arguments": {"a": 2, "b": 2}}}
AS_TEXT = {"function": {"name": "add", "arguments": '{"a": 2, "b": 2}'}}
CALL = {"role": "assistant", "content": None, "tool_calls": [AS_TEXT]}


@pytest.fixture(scope="module")
def script() -> Any:
    sys.path.insert(0, str(ROOT / "jobs/scripts"))
    yield load(ROOT / "jobs/scripts/prepare_decoder.py")
    sys.path.remove(str(ROOT / "jobs/scripts"))


def render(messages: list[dict[str, Any]], asks: bool) -> str:
    return "".join(f"<{one['role']}>{one['content']}." for one in messages) + "<assistant>" * asks


def learnt(one: Any) -> list[str]:
    return [one.text[first:last] for first, last in one.answers]


@pytest.mark.parametrize(
    ("row", "text", "answers"),
    [
        ({"prompt": "2 + 2 = ", "completion": "4"}, "2 + 2 = 4", ["4"]),
        (
            {"instruction": "Add.", "input": "2, 2", "output": "4"},
            "<user>Add.\n\n2, 2.<assistant>4.",
            ["4."],
        ),
        ({"instruction": "Add.", "input": "", "output": "4"}, "<user>Add..<assistant>4.", ["4."]),
        ({"system": "Be short.", "question": "2?", "answer": "4"}, "<system>Be short..<user>2?.<assistant>4.", ["4."]),
        (
            {"messages": [USER, ANSWER, USER, ANSWER]},
            "<user>Two and two?.<assistant>Four..<user>Two and two?.<assistant>Four..",
            ["Four..", "Four.."],
        ),
        (
            {"conversations": [{"from": "human", "value": "Hello"}, {"from": "gpt", "value": "Hi"}]},
            "<user>Hello.<assistant>Hi.",
            ["Hi."],
        ),
        (
            {"messages": [{"role": "developer", "content": "Be short."}, USER, ANSWER]},
            "<system>Be short..<user>Two and two?.<assistant>Four..",
            ["Four.."],
        ),
        (
            {"messages": [{"role": "system", "content": ""}, {"role": "user", "content": PARTS}, ANSWER]},
            "<user>Two and two?.<assistant>Four..",
            ["Four.."],
        ),
        (
            {"messages": [USER, CALL, {"role": "tool", "content": ""}, ANSWER]},
            "<user>Two and two?.<assistant>.<tool>.<assistant>Four..",
            [".", "Four.."],
        ),
        (
            {"messages": [USER, {**ANSWER, "weight": 0}, USER, {**ANSWER, "weight": 1}]},
            "<user>Two and two?.<assistant>Four..<user>Two and two?.<assistant>Four..",
            ["Four.."],
        ),
        # Nothing asks for the first answer: how its role is written is not part of it.
        (
            {"messages": [{"role": "assistant", "content": "Yes?"}, USER, ANSWER]},
            "<assistant>Yes?.<user>Two and two?.<assistant>Four..",
            ["Yes?.", "Four.."],
        ),
        ({"prompt": [USER], "completion": [ANSWER]}, "<user>Two and two?.<assistant>Four..", ["Four.."]),
    ],
)
def test_forms_of_a_row(script: ModuleType, row: dict[str, Any], text: str, answers: list[str]) -> None:
    (found,) = script.texts(row, render)
    assert (found.text, learnt(found)) == (text, answers)


def test_all_of_a_plain_text_is_learnt(script: ModuleType) -> None:
    assert script.texts({"text": "Once", "answer": None}, render) == [script.Text("Once", None, True)]


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({"a": 1, "b": 2}, "has a, b; expected one of: messages; conversations; prompt and completion; "),
        ({"instruction": "Add.", "output": "  "}, "output is empty"),
        ({"prompt": "x", "completion": ""}, "completion is empty"),
        ({"messages": [USER]}, "has no answer: no message of the assistant that counts"),
        ({"messages": []}, "messages is empty"),
        ({"messages": "hello"}, "messages is not a list of messages"),
        ({"messages": [{"role": "bot", "content": "x"}]}, "messages, message 1: the role is 'bot', expected system, "),
        (
            {"messages": [USER, {"role": "assistant", "content": ""}]},
            r"messages, message 2 \(assistant\): there is no ",
        ),
        ({"messages": [USER, {**ANSWER, "weight": 0}]}, "has no answer: no message of the assistant that counts"),
        (
            {"messages": [{"role": "user", "content": [*PARTS, {"type": "image_url"}]}, ANSWER]},
            r"messages, message 1 \(user\): there is more than text in it",
        ),
        ({"text": 7}, "text is not a text: 7"),
    ],
)
def test_rows_without_an_answer(script: ModuleType, row: dict[str, Any], error: str) -> None:
    with pytest.raises(script.InputError, match=error):
        script.texts(row, render)


def test_a_template_that_drops_earlier_reasoning_gives_a_text_for_each_answer(script: ModuleType) -> None:
    def drops(messages: list[dict[str, Any]], asks: bool) -> str:
        last = len(messages) - 1
        shown = [
            {**one, "content": one["content"] if place == last else one["content"].replace("(hm) ", "")}
            for place, one in enumerate(messages)
        ]
        return render(shown, asks)

    thinks = {"role": "assistant", "content": "(hm) Four"}
    found = script.texts({"messages": [USER, thinks, USER, thinks]}, drops)
    assert [learnt(one) for one in found] == [["(hm) Four."], ["(hm) Four."]]
    assert found[1].text.count("(hm)") == 1


def test_a_template_that_answers_otherwise_than_it_asks(script: ModuleType) -> None:
    with pytest.raises(script.InputError, match="the chat template writes message 2, an answer, otherwise than"):
        script.texts({"messages": [USER, ANSWER]}, lambda messages, asks: render(messages, False) + "?" * asks)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"text": "é"}\n\n{"text": "b"}\n'),
        ("a.json", '[{"text": "é"}, {"text": "b"}]'),
        ("a.json", '{"text": "é"}\n{"text": "b"}\n'),
        ("a.csv", "text\né\nb\n"),
    ],
)
def test_files(script: ModuleType, tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    found = list(script.read(str(tmp_path / "a*")))
    assert [row for _where, row in found] == [{"text": "é"}, {"text": "b"}]
    assert [where.partition(" (")[0] for where, _row in found] == [f"{tmp_path / name}, row {row}" for row in (1, 2)]


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("a.jsonl", '{"text": "a"}\n{"text"\n', "a.jsonl, row 2: is not JSON: Expecting ':' delimiter"),
        ("a.jsonl", '{"text": "a"}\n[1]\n', "a.jsonl, row 2: is JSON, but no object"),
        ("a.json", "{", "a.json: none of its first rows "),
        ("a.txt", "", "a.txt is no file of rows that is known: "),
        ("a.jsonl", None, "there is no file .*a.jsonl"),
        ("*.parquet", None, r"there is no file .*\*.parquet"),
        ("data", None, "data is no file of rows that is known"),
    ],
)
def test_broken_files(script: ModuleType, tmp_path: Path, name: str, content: str | None, error: str) -> None:
    if content is not None:
        (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(script.InputError, match=error):
        list(script.read(str(tmp_path / name)))


def test_a_long_text_in_csv(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"text\n{'x' * 200_000}\n", encoding="utf-8")
    ((_where, row),) = script.read(str(tmp_path / "a.csv"))
    assert len(row["text"]) == 200_000


def test_best_fit(script: ModuleType) -> None:
    assert script.packed([3, 7, 2, 5, 10], 10) == [[4], [1, 0], [3, 2]]
    rng = random.Random(0)
    lengths = [rng.randint(1, 64) for _ in range(500)]
    rows = script.packed(lengths, 64)
    assert sorted(sample for row in rows for sample in row) == list(range(500))
    assert all(sum(lengths[sample] for sample in row) <= 64 for row in rows)
    assert len(rows) <= 1.03 * sum(lengths) / 64 + 1


class Letters:
    """A tokenizer of which each letter is a token; 0 ends a text, and "^" begins one."""

    bos_token_id, eos_token_id = ord("^"), 0

    def __call__(self, texts: list[str], **_options: bool) -> dict[str, Any]:
        offsets = [[(place, place + 1) for place in range(len(text))] for text in texts]
        return {"input_ids": [[ord(letter) for letter in text] for text in texts], "offset_mapping": offsets}

    chat_template = "given to the tokenizer below"

    def apply_chat_template(
        self, messages: list[dict[str, Any]], tools: Any, tokenize: bool, add_generation_prompt: bool
    ) -> str:
        shown = [{**one, "content": f"{one['content']}{json.dumps(one.get('tool_calls', ''))}"} for one in messages]
        return f"{json.dumps(tools)} {render(shown, add_generation_prompt)}"


def samples(script: ModuleType, max_length: int, *rows: dict[str, Any]) -> tuple[list[Any], Any]:
    counts = script.Counts()
    places = ((f"row {number}", row) for number, row in enumerate(rows, 1))
    return list(script.tokens(places, Letters(), max_length, counts)), counts


def test_only_answers_are_labelled(script: ModuleType) -> None:
    ((ids, labels),), counts = samples(script, 99, {"prompt": "ab", "completion": "cd"})
    assert ids == [*map(ord, "abcd"), 0]
    assert labels == [script.IGNORED, script.IGNORED, ord("c"), ord("d"), 0]
    assert (counts.rows, counts.samples, counts.tokens, counts.answers, counts.cut) == (1, 1, 5, 3, 0)


@pytest.mark.parametrize("declared", [[{"name": "add"}], '[{"name": "add"}]'])
def test_a_template_gets_tools_and_calls_as_templates_write_them(script: ModuleType, declared: Any) -> None:
    row = {"messages": [USER, CALL, {"role": "tool", "content": "4"}, ANSWER], "tools": declared}
    ((ids, _labels),) = samples(script, 999, row)[0]
    text = "".join(map(chr, ids))
    assert text.startswith(json.dumps([{"name": "add"}]))
    assert json.dumps([ARGUMENTS]) in text


@pytest.mark.parametrize("declared", ["{", '{"name": "add"}', 7])
def test_tools_that_are_none(script: ModuleType, declared: Any) -> None:
    with pytest.raises(script.InputError, match="row 1: tools"):
        samples(script, 999, {"messages": [USER, ANSWER], "tools": declared})


def test_chats_are_cut_and_left_out_where_no_answer_is_left(script: ModuleType) -> None:
    found, counts = samples(script, 4, {"prompt": "abc", "completion": "def"}, {"prompt": "abcdef", "completion": "g"})
    assert found == [([*map(ord, "abcd")], [*[script.IGNORED] * 3, ord("d")])]
    assert (counts.cut, counts.left_out, counts.samples) == (2, 1, 1)


def test_plain_text_is_split_and_nothing_is_lost(script: ModuleType) -> None:
    found, counts = samples(script, 4, {"text": "abcdefghi"})
    assert [ids for ids, _labels in found] == [[*map(ord, "abcd")], [*map(ord, "efgh")], [ord("i"), 0]]
    assert [labels[0] for _ids, labels in found] == [script.IGNORED] * 3
    assert (counts.cut, counts.left_out) == (0, 0)


def test_an_error_names_the_row(script: ModuleType) -> None:
    with pytest.raises(script.InputError, match="row 2: completion is empty"):
        samples(script, 9, {"prompt": "a", "completion": "b"}, {"prompt": "a", "completion": ""})


def test_the_mark_that_begins_a_text_is_there_once(script: ModuleType) -> None:
    ((ids, labels),), _counts = samples(script, 9, {"text": "^^ab"})
    assert (ids, labels) == ([*map(ord, "^ab"), 0], [script.IGNORED, ord("a"), ord("b"), 0])


def test_half_a_surrogate_pair_is_refused_with_its_row(script: ModuleType) -> None:
    with pytest.raises(script.InputError, match="row 2: has half of a character"):
        samples(script, 9, {"text": "a"}, {"text": "\ud83d"})


def test_rows_held_out(script: ModuleType) -> None:
    rows: list[tuple[str, dict[str, Any]]] = [(str(number), {}) for number in range(250)]
    kept, held = (list(script.held_out(rows, 2, wanted)) for wanted in (False, True))
    assert [where for where, _row in held] == ["0", "1", "100", "101", "200", "201"]
    assert len(kept) == 244


LAYERS = {"model.layers.0.self_attn.q_proj": (8, 16), "model.layers.0.mlp.up_proj": (8, 32)}


@pytest.mark.parametrize("modules", [["all-linear"], ["q_proj"], ["self_attn.q_proj", "up_proj"]])
def test_target_modules(script: ModuleType, modules: list[str]) -> None:
    script.check_lora(script.Arguments("m", use_peft=True, lora_target_modules=modules), LAYERS)


def test_target_modules_that_match_nothing(script: ModuleType) -> None:
    data = script.Arguments("m", use_peft=True, lora_target_modules=["q_proj", "query", "proj"])
    with pytest.raises(script.InputError, match="--lora_target_modules query proj: the model has q_proj, up_proj"):
        script.check_lora(data, LAYERS)


@pytest.mark.parametrize("given", [{"merge": True}, {"adapter": "models/a"}])
def test_what_is_for_lora_only(script: ModuleType, given: dict[str, Any]) -> None:
    with pytest.raises(script.InputError, match="is for LoRA: set --use_peft as well"):
        script.check_lora(script.Arguments("m", **given), LAYERS)
