# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""/v1/embeddings, as OpenAI's clients read it, and /rerank, as those of Jina, Cohere and vLLM do.

Their texts are rows of the model, as those of /predict, but one that is too long is refused instead of cut.
"""

from __future__ import annotations

import array
import asyncio
import base64
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from amx_cluster.inference.openai_api import (
    Interface,
    Refusal,
    Tokenizer,
    check_fields,
    number,
    prompts_of,
    switch,
    too_long,
)
from amx_cluster.inference.tasks import Tokens
from ansible_collections.amx.cluster.plugins.module_utils._data import rows
from ansible_collections.amx.cluster.plugins.module_utils._jobs.known_models import EMBEDDING, RANKING
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

RERANK = "/rerank"
Ask = Callable[[Request, "list[dict[str, Any]]"], Coroutine[Any, Any, "list[dict[str, Any]]"]]
"""As the function of server.application: a request, its rows -> what is predicted of each. Raises HTTPException."""


class Rows:
    """Embeddings and scores of texts."""

    def __init__(self, openai: Interface, read: Callable[[Request], Coroutine[Any, Any, Any]], ask: Ask, most: int):
        """read: returns the JSON of a body. most: rows of a request."""
        self.instance, self.model, self.openai = openai.instance, openai.model, openai
        self.read, self.ask, self.most = read, ask, most
        self.tokenizer = Tokenizer(self.instance.loaded)
        self.longest = self.instance.longest
        self.size = 0  # of vectors, once one is known

    def routes(self) -> list[Route]:
        """Return what is answered."""
        task = self.instance.cell["task"]
        paths = {"/v1/embeddings": self.embeddings} if task == EMBEDDING else {}
        paths |= dict.fromkeys((RERANK, f"/v1{RERANK}", f"/v2{RERANK}"), self.rerank) if task == RANKING else {}
        return [Route(path, answer, methods=["POST"]) for path, answer in paths.items()]

    def count(self, texts: Sequence[Any], param: str, *after: Sequence[str]) -> int:
        """Return how many tokens texts have. after: of each text the one that follows it. Raises Refusal."""
        total = 0
        prompt = self.instance.loaded.sentences["prompt"]
        for place, text in enumerate(texts):
            name = f"{param}[{place}]" if texts[1:] else param
            pair = [part[place] for part in after]
            if isinstance(text, Tokens):
                self.tokenizer.check_tokens(text, param)
                size = len(text)
            else:
                for part in (text, *pair):
                    self.tokenizer.check_text(part, self.longest, name)
                size = len(self.tokenizer.own([prompt + text], *([part] for part in pair))["input_ids"][0])
            if size > self.longest:
                raise too_long(f"{size} tokens", self.longest, name)
            if not size:
                raise Refusal(f"{name} has no tokens for the model: give it some text", param)
            total += size
        self.openai.prompted += total
        return total

    async def embeddings(self, request: Request) -> Response:
        """Answer with the vectors of one or several texts."""
        known = {"model", "input", "encoding_format", "dimensions"}
        fields = check_fields(await self.read(request), known, self.model)
        texts = [text if isinstance(text, str) else Tokens(text) for text in prompts_of(fields, "input", self.most)]
        form = fields.get("encoding_format", "float")
        if form not in ("float", "base64"):
            raise Refusal(f"encoding_format is {rows.short(form)}, expected float or base64", "encoding_format")
        self.check_dimensions(fields)
        used = await self.tokenizer.call(self.count, texts, "input")
        answers = await self.ask(request, [{self.instance.columns[0]: text} for text in texts])
        vectors = [answer["predicted_embedding"] for answer in answers]
        self.size = len(vectors[0])
        self.check_dimensions(fields)
        data = [
            {"object": "embedding", "index": index, "embedding": encoded(vector) if form == "base64" else vector}
            for index, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": used, "total_tokens": used}
        return await as_json({"object": "list", "data": data, "model": self.model, "usage": usage})

    def check_dimensions(self, fields: Mapping[str, Any]) -> None:
        """Raise Refusal for other dimensions than vectors have, once that is known."""
        if self.size and fields.get("dimensions", self.size) != self.size:
            raise Refusal(f"dimensions: the vectors of {self.model} have {self.size}: leave it out", "dimensions")

    async def rerank(self, request: Request) -> Response:
        """Answer with the scores of documents for a query, the highest first."""
        known = {"model", "query", "documents", "top_n", "return_documents"}
        fields = check_fields(await self.read(request), known, self.model)
        query, documents = fields.get("query"), texts_of(fields.get("documents"), self.most)
        if not isinstance(query, str):
            raise Refusal(f"query is {rows.short(query)}, expected a text", "query")
        count = number(fields, "top_n", 1, 10**9, len(documents), whole=True)
        returned = switch({"return_documents": True, **fields}, "return_documents")
        used = await self.tokenizer.call(self.count, [query] * len(documents), "documents", documents)
        first, second = self.instance.columns
        answers = await self.ask(request, [{first: query, second: document} for document in documents])
        results = [
            {
                "index": index,
                "relevance_score": answer["predicted_score"],
                **({"document": {"text": documents[index]}} if returned else {}),
            }
            for index, answer in enumerate(answers)
        ]
        results.sort(key=lambda result: -result["relevance_score"])
        usage = {"prompt_tokens": used, "total_tokens": used}
        head = {"id": f"rerank-{uuid.uuid4().hex}", "model": self.model}
        return await as_json({**head, "results": results[:count], "usage": usage})


def texts_of(given: Any, most: int) -> list[str]:
    """Return documents, each a text or an object with one. Raises Refusal."""
    given = given if isinstance(given, list) else []
    texts: list[Any] = [document.get("text") if isinstance(document, dict) else document for document in given]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise Refusal("documents is not a list of texts, or of objects with a text", "documents")
    if len(texts) > most:
        raise Refusal(f"documents has {len(texts)} texts: at most {most} in a request", "documents")
    return texts


def encoded(vector: Sequence[float]) -> str:
    """Return a vector in Base64, of fp32 in the order of bytes of x86."""
    return base64.b64encode(array.array("f", vector)).decode()


async def as_json(document: Mapping[str, Any] | Sequence[Any]) -> Response:
    """Return an answer that may have a million of numbers: other requests are answered while they are written."""
    return await asyncio.to_thread(JSONResponse, document)
