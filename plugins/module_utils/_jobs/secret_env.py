# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets of a job: environment variables of its ranks whose values nobody else sees.

Their values are in FILE, in the job directory of each host, and nowhere else: a plan has only their names. They come
from the variable job_env of the inventory, and from `env` of a job file where a name or value looks like a secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._text import masked

# Read by runtime/amx_cluster/rank.py.
FILE = "secrets.json"
MASK = "***"
# Where the value of a secret comes from, as a plan has it.
INVENTORY, JOB_FILE = "job_env", "job file"
# Words of which a name has one, between underscores, when its value is a secret.
WORDS = frozenset(
    f"{word}{plural}"
    for word in ("APIKEY", "CREDENTIAL", "KEY", "PASSPHRASE", "PASSWD", "PASSWORD", "SECRET", "TOKEN")
    for plural in ("", "S")
)


def looks_secret(name: str) -> bool:
    """Return whether a variable of this name has a secret for its value, such as HF_TOKEN or AWS_SECRET_ACCESS_KEY."""
    return not WORDS.isdisjoint(name.upper().split("_"))


def found_in(env: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables whose names look like those of secrets, or whose values are URLs with a password."""
    return {name: value for name, value in env.items() if looks_secret(name) or masked(str(value)) != str(value)}


def from_inventory(
    names: Sequence[str], job_env: object, job: str, file: Path, field: str = "env_from"
) -> dict[str, str]:
    """Return the variables of a job that its inventory has under job_env.

    names: those in a field of the job. job, file: its name and file, for messages. Raises ValueError when job_env does
    not have one of them as text; no message has a value.
    """
    if not names:
        return {}
    if not isinstance(job_env, Mapping):
        raise ValueError(
            f"Job {job} cannot be started: job_env in the inventory is no mapping of names and values, such as "
            'job_env: {HF_TOKEN: "{{ vault_hf_token }}"}.'
        )
    missing = [name for name in names if name not in job_env]
    if missing:
        there = f"it has {', '.join(map(str, job_env))}" if job_env else "it is empty"
        example = missing[0]
        raise ValueError(
            f"Job {job} cannot be started: {field} names {', '.join(missing)}, and job_env in the inventory does not "
            f'have it ({there}): add job_env: {{{example}: "{{{{ vault_{example.lower()} }}}}"}} to the inventory '
            f"(group_vars/cluster.yml) and vault_{example.lower()} to a file that ansible-vault encrypts, or correct "
            f"{field} in {file}."
        )
    values = {}
    for name in names:
        value = job_env[name]
        if isinstance(value, bool) or not isinstance(value, (str, int, float)) or str(value) == "":
            raise ValueError(f"Job {job} cannot be started: {name} in job_env of the inventory is empty or not text.")
        if "\0" in str(value):
            raise ValueError(f"Job {job} cannot be started: {name} in job_env of the inventory has a NUL character.")
        values[name] = str(value)
    return values
