from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs import secret_env

SECRET = (
    "HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "aws_session_token", "GOOGLE_APPLICATION_CREDENTIALS",
    "DB_PASSWORD", "TOKENS", "MLFLOW_CREDENTIAL_FILE", "COMET_APIKEY",
)  # fmt: skip
PUBLIC = ("TOKENIZERS_PARALLELISM", "MONKEY", "KEYBOARD_LAYOUT", "OMP_NUM_THREADS", "PASSWORDLESS", "SECRETARY")


@pytest.mark.parametrize("name", SECRET)
def test_names_of_secrets(name: str) -> None:
    assert secret_env.looks_secret(name)


@pytest.mark.parametrize("name", PUBLIC)
def test_names_that_only_resemble_them(name: str) -> None:
    assert not secret_env.looks_secret(name)


def test_a_url_with_a_password_is_a_secret() -> None:
    env = {"HTTPS_PROXY": "http://me:word@proxy.example:3128", "HTTP_PROXY": "http://proxy.example:3128", "N": 3}
    assert secret_env.found_in(env) == {"HTTPS_PROXY": "http://me:word@proxy.example:3128"}


def take(names: list[str], job_env: Any) -> dict[str, str]:
    return secret_env.from_inventory(names, job_env, "demo", Path("/jobs/demo.yml"))


def test_values_of_the_inventory() -> None:
    assert take(["HF_TOKEN", "PIN"], {"HF_TOKEN": "hf_x", "PIN": 7, "OTHER": "hf_y"}) == {
        "HF_TOKEN": "hf_x",
        "PIN": "7",
    }
    assert take([], "not a mapping, and not needed") == {}


NOT_TEXT = "Job demo cannot be started: HF_TOKEN in job_env of the inventory is empty or not text."
MAPPING = (
    "Job demo cannot be started: job_env in the inventory is no mapping of names and values, such as "
    'job_env: {HF_TOKEN: "{{ vault_hf_token }}"}.'
)


def missing(there: str) -> str:
    return (
        "Job demo cannot be started: env_from names HF_TOKEN, and job_env in the inventory does not have it "
        f"({there}): "
        'add job_env: {HF_TOKEN: "{{ vault_hf_token }}"} to the inventory (group_vars/cluster.yml) and vault_hf_token '
        "to a file that ansible-vault encrypts, or correct env_from in /jobs/demo.yml."
    )


@pytest.mark.parametrize(
    ("job_env", "error"),
    [
        ({}, missing("it is empty")),
        ({"A": "hf_x", "B": "hf_y"}, missing("it has A, B")),
        (["hf_x"], MAPPING),
        ("hf_x", MAPPING),
        ({"HF_TOKEN": ["hf_x"]}, NOT_TEXT),
        ({"HF_TOKEN": True}, NOT_TEXT),
        ({"HF_TOKEN": None}, NOT_TEXT),
        ({"HF_TOKEN": ""}, NOT_TEXT),
        (
            {"HF_TOKEN": "hf_x\0"},
            "Job demo cannot be started: HF_TOKEN in job_env of the inventory has a NUL character.",
        ),
    ],
)
def test_what_the_inventory_does_not_have(job_env: Any, error: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$") as caught:
        take(["HF_TOKEN"], job_env)
    assert "hf_x" not in str(caught.value)
