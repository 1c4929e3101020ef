# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenAI's interface to a model that is served: requests that are checked, and answers as its clients read them."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from amx_cluster.inference import models, precision
from amx_cluster.inference.batches import Busy
from amx_cluster.inference.instance import Instance
from amx_cluster.inference.loaded import Loaded
from amx_cluster.inference.openai_generation import Chunk, Completion, Generation, bytes_per_token
from ansible_collections.amx.cluster.plugins.module_utils._data import chats, rows
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

PATHS = "/v1/"
MOST_PROMPTS, MOST_STOPS, MOST_STOP = 64, 4, 500
# Completions that wait in an instance.
MOST_WAITING = 256
# Tokens of a completion where the request does not say how many, as OpenAI has it; a chat may fill the context.
USUAL_TOKENS = 16
# Characters of a text whose tokens are counted in any case: of blanks, or of a word that the model does not know, there
# may be few.
FREE = 1 << 16
# Seconds in which a client has to read a part of a stream.
READ = 60
# Fields that change nothing here.
IGNORED = {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "parallel_tool_calls"}
# Fields of what is not done here, with the values by which nothing is asked for.
REFUSED: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
}
GENERAL = {"model", "stream", "stream_options", "max_tokens", "stop", "temperature", "top_p", "seed"}
FIELDS = {"completions": GENERAL | {"prompt"}, "chat": GENERAL | {"messages", "max_completion_tokens"}}


class Refusal(HTTPException):
    """An error as OpenAI's clients read it. param: the field that is wrong."""

    def __init__(self, text: str, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(status, text, headers={"Retry-After": "1"} if status in (429, 503, 504) else None)
        self.param, self.code = param, code


def error_body(error: HTTPException) -> dict[str, Any]:
    """Return the body of an error."""
    kinds = {401: "authentication_error", 429: "rate_limit_error"}
    kind = kinds.get(error.status_code, "server_error" if error.status_code >= 500 else "invalid_request_error")
    code = getattr(error, "code", None) or ("rate_limit_exceeded" if error.status_code == 429 else None)
    body = {"message": error.detail, "type": kind, "param": getattr(error, "param", None), "code": code}
    # Names of fields may have halves of characters, which cannot be sent.
    return {"error": {key: text and text.encode("utf-8", "replace").decode() for key, text in body.items()}}


def check_fields(given: Any, known: set[str], served: str) -> dict[str, Any]:
    """Return the fields of a request that are set. Raises Refusal for another model, and for what is not done here."""
    if not isinstance(given, dict):
        raise Refusal("the body of the request is not an object")
    model = given.get("model")
    if model is not None and model != served:
        raise Refusal(f"there is no model {rows.short(model)}: {served} is served", "model", "model_not_found", 404)
    for name, value in given.items():
        if value is None or name in known or name in IGNORED:
            continue
        neutral = REFUSED.get(name, ())
        if not any(value == unset and isinstance(value, bool) == isinstance(unset, bool) for unset in neutral):
            raise Refusal(f"{name}={rows.short(value)} is not supported by the engine amx: leave it out", name)
    return {name: value for name, value in given.items() if value is not None and name in known}


def number(fields: Mapping[str, Any], name: str, least: float, most: float, usual: Any, whole: bool = False) -> Any:
    """Return a number of a request. Raises Refusal."""
    value = fields.get(name, usual)
    if value is usual:
        return usual
    fits = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if not fits or not least <= value <= most:
        kind = "whole number" if whole else "number"
        raise Refusal(f"{name} is {rows.short(value)}, expected a {kind} from {least} to {most}", name)
    return value


def switch(fields: Mapping[str, Any], name: str) -> bool:
    """Return a truth value of a request. Raises Refusal."""
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise Refusal(f"{name} is {rows.short(value)}, expected true or false", name)
    return value


def stop_strings(fields: Mapping[str, Any]) -> list[str]:
    """Return the strings before which a text ends. Raises Refusal."""
    given = fields.get("stop", [])
    stops = [given] if isinstance(given, str) else given
    if not isinstance(stops, list) or not all(isinstance(stop, str) and 0 < len(stop) <= MOST_STOP for stop in stops):
        raise Refusal(f"stop is {rows.short(given)}, expected a text or texts of 1 to {MOST_STOP} characters", "stop")
    if len(stops) > MOST_STOPS:
        raise Refusal(f"stop has {len(stops)} texts: at most {MOST_STOPS}", "stop")
    return stops


class Tokenizer:
    """The tokens of requests. Its thread is not that of the model, so that it has a tokenizer of its own."""

    def __init__(self, loaded: Loaded) -> None:
        self.own, self.words = copy.deepcopy(loaded.tokenizer), int(loaded.config.get_text_config().vocab_size)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tokenizer")
        self._longest_word = max(map(len, self.own.get_vocab()), default=1)

    async def call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a method that is called in the thread of the tokenizer."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, method, *arguments)

    def check_text(self, text: str, most: int, param: str) -> None:
        """Refuse a text that is too long before its tokens take time, or that has half a character."""
        if rows.is_half(text):
            raise Refusal(f"{param} has half of a character", param)
        if len(text) > max(FREE, most * max(4, self._longest_word)):
            raise too_long(f"{len(text)} characters", most, param)

    def check_tokens(self, tokens: Sequence[Any], param: str) -> None:
        """Refuse what are no tokens of the model."""
        if not all(type(token) is int and 0 <= token < self.words for token in tokens):
            raise Refusal(f"{param} has what is no token: they are 0 to {self.words - 1}", param)

    def prompt(self, given: Any, most: int) -> list[int]:
        """Return the tokens of a prompt, a text or tokens. Raises Refusal."""
        if isinstance(given, list):
            tokens = given
            self.check_tokens(tokens, "prompt")
        else:
            self.check_text(given, most, "prompt")
            tokens = chats.prompts([{"prompt": given}], "prompt", self.own, False)[0]
        if not tokens and self.own.bos_token_id is None:
            raise Refusal("the prompt is empty, and the model has no token that a text begins with", "prompt")
        return tokens or [self.own.bos_token_id]

    def chat(self, messages: Any, most: int) -> list[int]:
        """Return the tokens of messages within the chat template. Raises Refusal."""
        if not self.own.chat_template:
            raise Refusal("the model has no chat template: use /v1/completions", "messages")
        if not messages:
            raise Refusal("there are no messages", "messages")
        try:
            checked = chats.messages_of(messages, "messages")
            if not checked or checked[-1]["role"] == "assistant":
                raise Refusal("the last message is not one to be answered: it is the assistant's", "messages")
            for message in checked:
                self.check_text(message["content"], most, "messages")
            text = chats.rendered(self.own, None, checked, True)
        except rows.DataError as error:
            raise Refusal(str(error), "messages") from None
        self.check_text(text, most, "messages")
        tokens = list(self.own(text, add_special_tokens=False)["input_ids"])
        if not tokens:
            raise Refusal("the chat template makes an empty prompt of the messages", "messages")
        return tokens


def too_long(length: str, most: int, param: str) -> Refusal:
    """Return the refusal of a prompt or text."""
    return Refusal(f"{param} has {length}, and the model takes at most {most} tokens", param, "context_length_exceeded")


def prompts_of(fields: Mapping[str, Any], name: str = "prompt", most: int = MOST_PROMPTS) -> list[Any]:
    """Return the prompts of a request, each a text or a list of tokens. name: of their field. Raises Refusal."""
    given = fields.get(name)
    if isinstance(given, str) or (isinstance(given, list) and given and type(given[0]) is int):
        return [given]
    if not isinstance(given, list) or not given or not all(isinstance(prompt, (str, list)) for prompt in given):
        raise Refusal(f"{name} is not a text, a list of texts, a list of tokens or a list of such lists", name)
    if len(given) > most:
        raise Refusal(f"{name} has {len(given)} texts: at most {most} in a request", name)
    return given


class Texts:
    """/v1/completions and /v1/chat/completions of a decoder."""

    def __init__(
        self,
        loaded: Loaded,
        generation: Generation,
        model: str,
        read: Callable[[Request], Coroutine[Any, Any, Any]],
        seconds: float,
    ) -> None:
        """model: the name that is served. read: returns the JSON of a body. seconds: for the next token to come."""
        self.generation, self.model, self.read, self.seconds = generation, model, read, seconds
        self.tokenizer = Tokenizer(loaded)
        self.context = min(loaded.longest() or generation.most_tokens, generation.most_tokens)

    def routes(self) -> list[Route]:
        """Return what is answered."""
        return [
            Route("/v1/completions", self.completions, methods=["POST"]),
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
        ]

    async def completions(self, request: Request) -> Response:
        """Go on with one or several prompts."""
        fields = check_fields(await self.read(request), FIELDS["completions"], self.model)
        prompts = prompts_of(fields)
        tokens = [await self.tokenizer.call(self.tokenizer.prompt, prompt, self.context) for prompt in prompts]
        return await self.answer(request, fields, tokens, False)

    async def chat(self, request: Request) -> Response:
        """Answer the messages of a chat."""
        fields = check_fields(await self.read(request), FIELDS["chat"], self.model)
        tokens = await self.tokenizer.call(self.tokenizer.chat, fields.get("messages"), self.context)
        return await self.answer(request, fields, [tokens], True)

    async def answer(
        self, request: Request, fields: Mapping[str, Any], prompts: Sequence[Sequence[int]], chat: bool
    ) -> Response:
        """Return the answer to a request, or a stream of its parts. Raises Refusal."""
        param = "messages" if chat else "prompt"
        longest = max(map(len, prompts))
        if longest >= self.context:
            raise too_long(f"{longest} tokens, and an answer has one at least", self.context, param)
        name = "max_completion_tokens" if "max_completion_tokens" in fields else "max_tokens"
        usual = self.context - longest if chat else min(self.context - longest, USUAL_TOKENS)
        most = number(fields, name, 1, 10**9, usual, whole=True)
        if longest + most > self.context:
            raise too_long(f"{longest} tokens, and {name} is {most}: {longest + most} together", self.context, param)
        options = {
            "max_tokens": most,
            "temperature": number(fields, "temperature", 0, 2, 1.0),
            "top_p": number(fields, "top_p", 0, 1, 1.0),
            "seed": number(fields, "seed", -(1 << 63), (1 << 63) - 1, None, whole=True),
            "stops": stop_strings(fields),
            "goes_on": not chat,
        }
        streamed, with_usage = switch(fields, "stream"), False
        if "stream_options" in fields:
            if not streamed or not isinstance(fields["stream_options"], dict):
                raise Refusal("stream_options is an object, and for stream=true only", "stream_options")
            with_usage = switch(fields["stream_options"], "include_usage")
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[tuple[int, Chunk]]()

        def emit(index: int) -> Callable[[Chunk], None]:
            def hand_over(chunk: Chunk) -> None:
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(queue.put_nowait, (index, chunk))

            return hand_over

        completions = [Completion(prompt, emit(index), **options) for index, prompt in enumerate(prompts)]
        try:
            self.generation.submit(completions)
        except Busy:
            raise Refusal("so many requests wait already that no more are taken: try again", status=429) from None
        form = Form(self.model, chat, with_usage, sum(map(len, prompts)))
        chunks = self.chunks(request, completions, queue)
        if streamed:
            return Stream(form.events(chunks, len(completions)), completions)
        texts, reasons, tokens = [""] * len(prompts), [""] * len(prompts), [0] * len(prompts)
        try:
            async for index, chunk in chunks:
                texts[index] += chunk.text
                reasons[index], tokens[index] = chunk.reason, chunk.tokens
        except ClientDisconnect:
            return Response(status_code=400)  # that nobody reads
        return JSONResponse(form.whole(texts, reasons, sum(tokens)))

    async def chunks(
        self, request: Request, completions: Sequence[Completion], queue: asyncio.Queue[tuple[int, Chunk]]
    ) -> AsyncIterator[tuple[int, Chunk]]:
        """Yield (which completion, what is new of it) until all have ended; give them up where the client has gone."""
        gone = asyncio.ensure_future(request.receive())  # after the body, the end of the connection
        try:
            left = len(completions)
            while left:
                new = asyncio.ensure_future(queue.get())
                await asyncio.wait({new, gone}, timeout=self.seconds, return_when=asyncio.FIRST_COMPLETED)
                if not new.done():
                    new.cancel()
                    if gone.done():
                        raise ClientDisconnect
                    raise Refusal(f"no token has come within {self.seconds:g} s: try again", status=504)
                index, chunk = new.result()
                if chunk.error:
                    raise Refusal(f"the model has failed: {chunk.error}", status=500)
                left -= bool(chunk.reason)
                yield index, chunk
        finally:
            gone.cancel()
            for completion in completions:
                completion.unwanted = True


class Form:
    """Answers in the form that clients read."""

    def __init__(self, model: str, chat: bool, with_usage: bool, prompt_tokens: int) -> None:
        self.chat, self.with_usage, self.prompt_tokens = chat, with_usage, prompt_tokens
        name, kind = ("chatcmpl", "chat.completion") if chat else ("cmpl", "text_completion")
        self.head = {"id": f"{name}-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": model}

    def usage(self, tokens: int) -> dict[str, int]:
        """Return how many tokens were read and generated."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": tokens,
            "total_tokens": self.prompt_tokens + tokens,
        }

    def whole(self, texts: Sequence[str], reasons: Sequence[str], tokens: int) -> dict[str, Any]:
        """Return the answer that is no stream."""
        choices = [
            {
                "index": index,
                **({"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}),
                "logprobs": None,
                "finish_reason": reasons[index],
            }
            for index, text in enumerate(texts)
        ]
        return {**self.head, "choices": choices, "usage": self.usage(tokens)}

    def event(self, choices: Sequence[Mapping[str, Any]], usage: Any = None) -> str:
        """Return a part of a stream."""
        head = {**self.head, "object": "chat.completion.chunk"} if self.chat else self.head
        return _data({**head, "choices": choices, **({"usage": usage} if self.with_usage else {})})

    def choice(self, index: int, text: str, reason: str | None, begins: bool = False) -> dict[str, Any]:
        """Return what is new of a text."""
        delta = {**({"role": "assistant"} if begins else {}), **({"content": text} if text or begins else {})}
        new = {"delta": delta} if self.chat else {"text": text}
        return {"index": index, **new, "logprobs": None, "finish_reason": reason}

    async def events(self, chunks: AsyncIterator[tuple[int, Chunk]], count: int) -> AsyncIterator[str]:
        """Yield the parts of a stream."""
        tokens = [0] * count
        if self.chat:
            yield self.event([self.choice(index, "", None, True) for index in range(count)])
        try:
            async for index, chunk in chunks:
                tokens[index] = chunk.tokens
                yield self.event([self.choice(index, chunk.text, chunk.reason or None)])
        except Refusal as error:
            yield _data(error_body(error))
            return
        finally:
            await chunks.aclose()  # type: ignore[attr-defined]
        if self.with_usage:
            yield self.event([], self.usage(sum(tokens)))
        yield "data: [DONE]\n\n"


def _data(value: Any) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"


class Stream(Response):
    """Server-sent events. A client that does not read them in time is left."""

    def __init__(self, events: AsyncIterator[str], completions: Sequence[Completion]) -> None:
        super().__init__(headers={"Cache-Control": "no-cache"}, media_type="text/event-stream")
        del self.headers["content-length"]
        self.events, self.completions = events, completions

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        async def written(message: Any) -> None:
            await asyncio.wait_for(send(message), READ)

        events: Any = self.events
        try:
            await written({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async for event in events:
                await written({"type": "http.response.body", "body": event.encode(), "more_body": True})
            await written({"type": "http.response.body", "body": b""})
        except (ClientDisconnect, asyncio.TimeoutError, OSError):
            pass
        finally:
            await events.aclose()
            for completion in self.completions:
                completion.unwanted = True


def generation_of(instance: Instance, instances: int) -> Generation | None:
    """Return what generates texts with a decoder that is loaded; None for other models, and one that has no KV cache.

    instances: that share the memory of this host: half of what is left is for their caches, as a cache that
    grows is copied.
    """
    loaded, cell = instance.loaded, instance.cell
    if loaded.task != "text-generation" or loaded.tokenizer is None:
        return None
    autocast = precision.dtype(cell["precision"]) if cell.get("autocast") else None
    made = Generation(loaded.model, loaded.tokenizer, cell["batch_size"], 1 << 20, MOST_WAITING, autocast)
    size = bytes_per_token(made)
    if not size:
        return None
    made.most_tokens = models.available_bytes() // 2 // instances // size
    return made


class Interface:
    """OpenAI's interface to a model that is served."""

    def __init__(self, instance: Instance, model: str, instances: int) -> None:
        """model: the name that is served. instances: see generation_of."""
        self.instance, self.model = instance, model
        self.generation = generation_of(instance, instances)
        self.created = int(time.time())
        self.prompted = 0  # tokens of texts, without those of the generation

    def routes(self, read: Callable[[Request], Coroutine[Any, Any, Any]], seconds: float) -> list[Route]:
        """Return what is answered. read, seconds: see Texts."""
        made = [Route("/v1/models", self.show), Route("/v1/models/{name:path}", self.show_one)]
        if self.generation is not None:
            made += Texts(self.instance.loaded, self.generation, self.model, read, seconds).routes()
        self.known = {route.path for route in made}
        return [*made, Route(f"{PATHS}{{path:path}}", self.refuse, methods=["GET", "POST"])]

    def described(self) -> dict[str, Any]:
        """Return the model as clients read it."""
        return {"id": self.model, "object": "model", "created": self.created, "owned_by": "amx.cluster"}

    async def show(self, _request: Request) -> Response:
        """List the model."""
        return JSONResponse({"object": "list", "data": [self.described()]})

    async def show_one(self, request: Request) -> Response:
        """Show the model of a name. Raises Refusal for another name."""
        check_fields({"model": request.path_params["name"]}, {"model"}, self.model)
        return JSONResponse(self.described())

    async def refuse(self, request: Request) -> Response:
        """Refuse what is not done with this model."""
        if request.url.path in self.known:
            raise Refusal(f"{request.url.path} does not answer {request.method}", status=405)
        raise Refusal(f"{self.model} ({self.instance.cell['task']}) does not answer {request.url.path}", status=404)
