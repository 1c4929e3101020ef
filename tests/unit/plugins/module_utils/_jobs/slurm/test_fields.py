from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs.slurm import fields


def test_all_fields() -> None:
    given = {
        "partition": "cpu",
        "account": "nlp",
        "qos": "long",
        "time": "1-12:00:00",
        "cpus": 56,
        "extra": ["--mem=64G", "--constraint=amx&spr"],
    }
    assert fields.of_inventory(given) == given
    assert fields.of_inventory({}) == {}
    assert fields.of_inventory(False) is fields.of_inventory("") is fields.of_inventory(None) is None


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("cpu", "text where a mapping such as "),
        ({"queue": "cpu"}, "queue: unknown field; known fields: partition, account, qos, time, cpus, extra"),
        ({"time": 28800}, 'time: 28800 is a number to YAML: write it in quotes, such as "90" (minutes) or "1:30:00"'),
        ({"time": "soon"}, "time: 'soon' is not a time such as"),
        ({"partition": "a b"}, "partition: 'a b' is not a name"),
        ({"partition": "a#b"}, "partition: 'a#b' is not a name"),
        ({"extra": ["--comment=a#b"]}, "extra: '--comment=a#b' is not an option of sbatch such as --mem=64G"),
        ({"cpus": 0}, "cpus: 0 is not a whole number"),
        ({"extra": ["-c4"]}, "extra: '-c4' is not an option of sbatch such as --mem=64G"),
        ({"extra": ["--nodes=3"]}, "extra: --nodes is set by hosts of the job file: leave it out"),
        ({"extra": ["--exclusive"]}, "extra: --exclusive is set by cpus; without it the job gets whole nodes: leave"),
        ({"extra": ["--requeue"]}, "extra: --requeue is set by restarts of the job file: leave it out"),
        ({"extra": ["--nodelis=s0"]}, "extra: --nodelis is set by hosts of the job file: leave it out"),
        ({"extra": ["--tim=5"]}, "extra: --tim is set by the field of that name: leave it out"),
        (
            {"extra": ["--hint=nomultithread"]},
            "extra: --hint is set by the plan, which is made from the CPUs that Slurm",
        ),
        ({"extra": ["--clusters=x"]}, "extra: --clusters is set by the collection itself: leave it out"),
        (
            {"extra": ["--comment=two words"]},
            "extra: '--comment=two words' is not an option of sbatch such as --mem=64G",
        ),
        ({"extra": ["--ntasks=4"]}, "extra: --ntasks is set by the plan, which is made from the CPUs that Slurm gives"),
    ],
)
def test_wrong_fields(given: Any, error: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(f'cluster_slurm: {error}')}"):
        fields.of_inventory(given)
