"""Serve a model's directory as an instance of amx serve does, without a job: serve_model.py DIRECTORY TASK PORT"""

from __future__ import annotations

import sys
import threading

import uvicorn
from amx_cluster.inference import batches, openai_api, server
from amx_cluster.inference.instance import Instance
from ansible_collections.amx.cluster.plugins.module_utils._jobs import known_models, predictions


def main(path: str, task: str, port: int) -> None:
    cell = {
        **predictions.DEFAULTS,
        "model": "tiny",
        "path": path,
        "task": task,
        "sequence_length": 128,
        "batch_size": 4,
        "channels_last": False,
    }
    if task == known_models.GENERATION:
        cell.update(new_tokens=16, stop_at_end=True)
    columns = list(known_models.COLUMNS[task][-1])
    instance = Instance(cell, columns, 1, [])
    openai = openai_api.Interface(instance, "tiny", 1)
    waiting = batches.Batches(instance.predict, 4, 64, entries=instance.entries, beside=openai.generation)
    about = {"model": "tiny", "columns": columns, "task": task}
    http = uvicorn.Server(uvicorn_settings(server.application(waiting, about, {}, openai), port))
    threading.Thread(target=http.run, daemon=True).start()
    waiting.run()


def uvicorn_settings(app: object, port: int) -> uvicorn.Config:
    settings = server.settings(app)
    settings.port, settings.backlog = port, server.BACKLOG  # as serve() sets it once it listens
    return settings


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
