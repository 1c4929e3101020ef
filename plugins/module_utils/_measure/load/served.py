# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The model of a server, as it says itself, and requests that fit to it: of `amx serve`, or OpenAI's interface."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._data import rows
from ansible_collections.amx.cluster.plugins.module_utils._jobs import known_models
from ansible_collections.amx.cluster.plugins.module_utils._jobs.servers import front
from ansible_collections.amx.cluster.plugins.module_utils._measure.load.client import Client

OPENAI = "/v1"
COMPLETIONS, PREDICT = "/v1/completions", "/predict"
COLUMNS_OF_TEXT = ("prompt", "instruction", "question", "text")
MOST_ROWS = 1000
"""Rows of a file that are sent, again and again."""
BUILT_IN = 200
"""Rows that are made up where there is no file."""
TEXT = (
    "the parcel did not arrive on time and nobody answers my letter please send it again to another address or return "
    "money for both orders because quality was good but delivery took three weeks longer than you had promised us"
)
ACTIVE = re.compile(r'^haproxy_backend_active_servers\{proxy="local"\} (\d+)', re.MULTILINE)


@dataclass(frozen=True)
class Served:
    """A model that is served. model: as requests name it. path: of requests. about: what `GET /` of `amx serve` says.

    columns: of the rows that it reads.
    """

    model: str
    path: str
    columns: Sequence[str]
    about: Mapping[str, Any] = field(default_factory=dict)


def key_of(path: str) -> str:
    """Return the first key in a file with a key on each line; empty without a file. Raises ValueError."""
    if not path:
        return ""
    try:
        keys = front.keys_in(Path(path).expanduser().read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"serve_key_file: {path}: {getattr(error, 'strerror', None) or 'is no text'}") from None
    key = next(iter(keys), "")
    if not re.fullmatch(r"[!-~]+", key):
        raise ValueError(f"serve_key_file: {path}: there is no key of ASCII without blanks on its first line")
    return key


def look(client: Client, model: str) -> Served:
    """Return what is served. model: that was named, or empty. Raises ValueError where it is no such server."""
    url = client.urls[0]
    if url.path.endswith(OPENAI):
        client.urls = [each._replace(path=each.path.removesuffix(OPENAI)) for each in client.urls]
        return _openai(_json(client, "/v1/models"), url.geturl(), model)
    about, models = _json(client, "/"), _json(client, "/v1/models")
    task, columns = about.get("task"), about.get("columns")
    if task and isinstance(columns, list) and (task != known_models.GENERATION or not models):
        if model:
            raise ValueError(f"load_model: {url.geturl()} serves {about.get('model')} alone: leave it out")
        return Served(str(about.get("model")), PREDICT, columns, about)
    served = _openai(models, url.geturl(), model)
    return Served(served.model, served.path, columns or served.columns, about)


def _json(client: Client, path: str, place: int = 0) -> dict[str, Any]:
    """Return the document of a path of an address; empty where there is none. Raises ValueError."""
    code, body = client.get(place, path)
    if code == 401:
        has_key = "Authorization" in client.headers
        why = "refuses the first key of the file" if has_key else "asks for a key: add -e serve_key_file=FILE"
        raise ValueError(f"{client.urls[place].geturl()} {why} (401)")
    try:
        document = json.loads(body) if code == 200 else {}
    except ValueError:
        document = {}
    return document if isinstance(document, dict) else {}


def _openai(models: Mapping[str, Any], url: str, model: str) -> Served:
    names = [str(entry.get("id")) for entry in models.get("data") or [] if isinstance(entry, dict)]
    if not names:
        raise ValueError(f"{url} is no server of playbooks/serve.yml or of OpenAI's interface: it lists no model")
    if model not in names and (model or len(names) > 1):
        problem = f"{model} is not served by {url}" if model else f"{url} serves several models"
        raise ValueError(f"load_model: {problem}: name one of {', '.join(names)}")
    return Served(model or names[0], COMPLETIONS, COLUMNS_OF_TEXT[:1])


def instances(client: Client, served: Served) -> int | None:
    """Return how many instances answer at all addresses; None where that is not known.

    HAProxy counts those that answer. Without it, an instance says how many its host has.
    """
    numbers: list[int | None] = []
    for place in range(len(client.urls)):
        try:
            active = ACTIVE.search(client.get(place, "/metrics")[1].decode(errors="replace"))
            own = {} if active or not served.about else _json(client, "/", place)
            numbers.append(int(active[1]) if active else own.get("instances"))
        except ValueError:
            numbers.append(0)
    return None if None in numbers else sum(filter(None, numbers))


def bodies(served: Served, path: str, tokens: int) -> list[bytes]:
    """Return the bodies of requests. path: of a file of rows; empty for built-in ones. tokens: of each text.

    Raises ValueError naming the column that the file lacks.
    """
    values = _of_file(Path(path).expanduser(), served) if path else _built_in(served)
    if served.path == COMPLETIONS:
        options = {"max_tokens": tokens, "temperature": 0, "stream": True, "stream_options": {"include_usage": True}}
        (column,) = values[0]
        values = [{"model": served.model, "prompt": row[column], **options} for row in values]
    return [json.dumps(row).encode() for row in values]


def _of_file(path: Path, served: Served) -> list[dict[str, Any]]:
    columns, chosen = list(served.columns), list[dict[str, Any]]()
    for place, row in itertools.islice(rows.placed(path), MOST_ROWS):
        if served.path == COMPLETIONS and not chosen:
            columns = [
                next((name for name in (*columns, *COLUMNS_OF_TEXT) if isinstance(row.get(name), str)), "prompt")
            ]
        missing = [column for column in columns if row.get(column) is None]
        if missing:
            raise ValueError(
                f"rows: {place} has no column {missing[0]}, which {served.model} reads; it has {', '.join(row)}"
            )
        chosen.append({column: row[column] for column in columns})
    return chosen


def _built_in(served: Served) -> list[dict[str, str]]:
    """Return texts of 5 to 60 words."""
    if served.about.get("task") == known_models.IMAGES:
        raise ValueError(f"{served.model} reads images, and there are no built-in ones: add -e rows=FILE")
    chance = random.Random(0)
    return [
        {column: " ".join(chance.choices(TEXT.split(), k=chance.randint(5, 60))) for column in served.columns}
        for _row in range(BUILT_IN)
    ]
