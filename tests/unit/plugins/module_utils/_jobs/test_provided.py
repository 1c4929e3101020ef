from __future__ import annotations

from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._jobs.provided import links, paths


def job(**data: str) -> dict[str, Any]:
    """Return the fields of a job with datasets {name: repository of the hub, empty for a directory}."""
    return {
        "models": {"bert": {"hub": "google-bert/bert-base-cased"}},
        "data": {name: {"hub": hub} for name, hub in data.items()},
        "metrics": {"glue": {"hub": "evaluate-metric/glue"}},
    }


def test_a_dataset_of_the_hub_is_in_the_job_directory_by_both_names() -> None:
    assert paths(job(pairs="nyu-mll/glue", mine="")) == {
        "models/bert": "models/bert",
        "datasets/pairs": "datasets/pairs",
        "datasets/mine": "datasets/mine",
        "glue": "metrics/glue",
        "nyu-mll/glue": "datasets/pairs",
    }


def test_no_dataset_takes_a_name_that_the_job_directory_has() -> None:
    made = paths(job(a="squad", b="output/b", c="transformers/c", d="glue/d", e="one/same", f="one/same"))
    assert {path: name for path, name in made.items() if not path.startswith("datasets/")} == {
        "models/bert": "models/bert",
        "glue": "metrics/glue",
        "one/same": "datasets/e",
    }


def test_what_is_not_cached_is_not_linked() -> None:
    cached = {"datasets/pairs": "/cache/pairs"}
    assert links(job(pairs="nyu-mll/glue"), cached, {"packages": "/p", "transformers/examples": ""}) == {
        "datasets/pairs": "/cache/pairs",
        "nyu-mll/glue": "/cache/pairs",
        "packages": "/p",
    }
