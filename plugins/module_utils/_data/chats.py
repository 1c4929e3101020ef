# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prompts of rows for a decoder: as a chat through its template, or as a text that goes on. It runs on hosts, too."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data.rows import DataError, short

ROLES = {"human": "user", "gpt": "assistant", "developer": "system", "function": "tool"}
KNOWN_ROLES = ("system", "user", "assistant", "tool")
# Types of the parts of a message, as OpenAI has them.
PARTS = ("text", "image_url", "input_audio", "file", "refusal")


def is_messages(value: Any) -> bool:
    """Return whether a value is the messages of a chat."""
    return isinstance(value, list) and bool(value) and all(isinstance(message, dict) for message in value)


def instruction_of(row: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the messages of a row with an instruction (or question) in the column `name`. Raises DataError."""
    parts = [(row[name], name), *([(row.get("input"), "input")] if name in ("instruction", "question") else [])]
    question = "\n\n".join(text_of(part, name) for part, name in parts if part)
    system = [{"role": "system", "content": row["system"]}] if row.get("system") else []
    return [*system, {"role": "user", "content": question}]


def asking(row: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the messages by which a row asks for an answer, in the column `name`: as texts() has them, without the
    answer. Raises DataError."""
    if isinstance(row[name], str):
        return instruction_of(row, name)
    messages = messages_of(row[name], name)
    if messages and messages[-1]["role"] == "assistant":
        messages.pop()
    if not messages:
        raise DataError(f"{name} asks for nothing: it has no message before an answer")
    return messages


def text_of(value: Any, name: str) -> str:
    """Return a value that is a text. Raises DataError."""
    if not isinstance(value, str):
        raise DataError(f"{name} is not a text: {short(value)}")
    return value


def messages_of(value: Any, name: str) -> list[dict[str, Any]]:
    """Return messages as chat templates take them. Raises DataError."""
    if not isinstance(value, list) or not all(isinstance(message, dict) for message in value):
        raise DataError(f"{name} is not a list of messages")
    messages = []
    for number, message in enumerate(value, 1):
        role = message.get("role") or message.get("from")
        if not isinstance(role, str) or ROLES.get(role, role) not in KNOWN_ROLES:
            raise DataError(f"{name}, message {number}: the role is {role!r}, expected {', '.join(KNOWN_ROLES)}")
        role = ROLES.get(role, role)
        text = _text(message, role, f"{name}, message {number} ({role})")
        if not text and role == "system":
            continue
        if not text and role != "tool" and not message.get("tool_calls"):
            raise DataError(f"{name}, message {number} ({role}): there is no text in it")
        rest = {key: item for key, item in message.items() if key not in ("from", "value") and item is not None}
        if message.get("tool_calls"):
            if not isinstance(message["tool_calls"], (list, tuple)):
                raise DataError(f"{name}, message {number} ({role}): tool_calls is not a list")
            rest["tool_calls"] = [_call(call) for call in message["tool_calls"]]
        messages.append({**rest, "role": role, "content": text})
    return messages


def _is_parts(value: Any, kinds: Sequence[str]) -> bool:
    """Return whether a message is in parts of these types, as OpenAI has them."""
    return isinstance(value, list) and all(isinstance(part, dict) and part.get("type") in kinds for part in value)


def _text(message: Mapping[str, Any], role: str, place: str) -> str:
    """Return the text of a message, also one in parts, and a tool's result as JSON; empty where there is none.

    place: the message, for the error. Raises DataError for more than text.
    """
    value: Any = message.get("value") if message.get("content") is None else message["content"]
    if _is_parts(value, ("text",)):
        value = "".join(str(part.get("text") or "") for part in value)
    elif role == "tool" and value is not None and not isinstance(value, str) and not _is_parts(value, PARTS):
        value = json.dumps(value, ensure_ascii=False, default=str)
    if value and not isinstance(value, str):
        raise DataError(f"{place}: there is more than text in it: {short(value)}")
    return value if value and value.strip() else ""


def _call(call: Any) -> Any:
    """Return the call of a tool with arguments as templates write them: OpenAI has them as JSON text."""
    function = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        function = {**function, "arguments": json.loads(function["arguments"])}
    except ValueError:
        return call
    return {**call, "function": function} if "function" in call else function


def tools(row: Mapping[str, Any]) -> list[Any] | None:
    """Return the tools that a row declares, a list or JSON text; None where it declares none. Raises DataError."""
    declared = row.get("tools") or None
    try:
        declared = json.loads(declared) if isinstance(declared, str) else declared
    except ValueError as error:
        raise DataError(f"tools: {error}") from error
    if declared is not None and not isinstance(declared, list):
        raise DataError(f"tools is not a list of tools: {short(declared)}")
    return declared or None


def rendered(tokenizer: Any, declared: list[Any] | None, messages: list[dict[str, Any]], asks: bool) -> str:
    """Return messages as the tokenizer's chat template writes them. declared: tools. asks: whether an answer follows.

    Raises DataError.
    """
    if not tokenizer.chat_template:
        raise DataError("the tokenizer has no chat template: name a file with one by --chat_template")
    try:
        return str(tokenizer.apply_chat_template(messages, tools=declared, tokenize=False, add_generation_prompt=asks))
    except Exception as error:  # Jinja's, and what a template raises itself
        raise DataError(f"the chat template refuses it: {error}") from error


def prompts(rows: Sequence[Mapping[str, Any]], name: str, tokenizer: Any, by_template: bool) -> list[list[int]]:
    """Return the tokens of what rows ask in the column `name`: those that training has up to the answer.

    by_template: as a chat; else as a text that goes on. Raises DataError.
    """
    if by_template:
        written = [rendered(tokenizer, tools(row), asking(row, name), True) for row in rows]
        return [list(ids) for ids in tokenizer(written, add_special_tokens=False)["input_ids"]]
    encoded = [list(ids) for ids in tokenizer([text_of(row[name], name) for row in rows])["input_ids"]]
    begin, end = tokenizer.bos_token_id, tokenizer.eos_token_id
    # Some tokenizers end a text, which is not at its end here.
    ends = end is not None and len(letter := tokenizer("a")["input_ids"]) > 1 and letter[-1] == end
    encoded = [ids[:-1] if ends and ids[-1:] == [end] else ids for ids in encoded]
    return [ids[1:] if begin is not None and ids[:2] == [begin, begin] else ids for ids in encoded]
