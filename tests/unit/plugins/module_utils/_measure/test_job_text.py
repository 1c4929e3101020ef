from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._measure import job_text
from hypothesis import given
from hypothesis import strategies as st

JOB = """\
# What we train.
name: bert   # its name

script: train.py
ranks_per_node: auto  # one for each NUMA node
args:
  # the batch
  per_device_train_batch_size: 32
  learning_rate: 1e-4

env: {KMP_BLOCKTIME: 1}
description: |
  two
  lines
# the end
"""


def test_a_value_is_replaced_and_its_comment_stays() -> None:
    after = job_text.changed(JOB, {"ranks_per_node": 2, "args": {"per_device_train_batch_size": 16}})
    assert after == JOB.replace("auto  #", "2  #").replace("size: 32", "size: 16")


def test_new_fields_come_after_the_last_ones_of_their_mapping() -> None:
    after = job_text.changed(JOB, {"backend": "gloo", "args": {"gradient_accumulation_steps": 2}})
    assert after == JOB.replace("rate: 1e-4\n", "rate: 1e-4\n  gradient_accumulation_steps: 2\n").replace(
        "  lines\n", "  lines\nbackend: gloo\n"
    )


@pytest.mark.parametrize(
    ("text", "fields", "expected"),
    [
        ("name: a", {"backend": "mpi"}, "name: a\nbackend: mpi\n"),
        ("name: a\n", {"args": {"x": 1}}, "name: a\nargs: {x: 1}\n"),
        ("name: a\nargs: {y: 2}\n", {"args": {"x": 1}}, "name: a\nargs: {y: 2, x: 1}\n"),
        ("a: {\n  y: 2 # d\n}\n", {"a": {"x": 1}}, "a: {\n  y: 2, x: 1 # d\n}\n"),
        ("a: {\n  y: 2, # d\n}\n", {"a": {"x": 1}}, "a: {\n  y: 2, x: 1, # d\n}\n"),
        ("b: &c 1\na: {y: *c}\n", {"a": {"x": 1}}, "b: &c 1\na: {y: *c, x: 1}\n"),
        ("a: &b\n  y: 2\nc: *b\n", {"a": {"x": 1}, "c": {"x": 1}}, "a: &b\n  y: 2\n  x: 1\nc: *b\n"),
        ("name: a\nargs: {}\n", {"args": {"x": 1}}, "name: a\nargs: {x: 1}\n"),
        ("name: a\nargs:\n", {"args": {"x": 1}}, "name: a\nargs: {x: 1}\n"),
        ("{name: a, hosts: 2}\n", {"hosts": 3, "backend": "mpi"}, "{name: a, hosts: 3, backend: mpi}\n"),
        ("---\nname: a\n...\n", {"hosts": 1}, "---\nname: a\nhosts: 1\n...\n"),
        (
            "name: a\nlist:\n  - b\n  - c # last\n\n# end\n",
            {"hosts": 1},
            "name: a\nlist:\n  - b\n  - c # last\nhosts: 1\n\n# end\n",
        ),
        ("name: a\nhosts: 2\n", {"hosts": 2}, "name: a\nhosts: 2\n"),
    ],
)
def test_forms_of_a_file(text: str, fields: dict[str, Any], expected: str) -> None:
    assert job_text.changed(text, fields) == expected


def test_what_cannot_be_changed_alone_is_refused() -> None:
    shared = "one: &both {x: 1}\nargs: *both\n"
    with pytest.raises(ValueError, match="without changing others"):
        job_text.changed(shared, {"args": {"x": 2}})
    with pytest.raises(ValueError, match="more than one value"):
        job_text.changed("hosts:\n- a\n", {"hosts": 2})
    with pytest.raises(ValueError, match="no mapping of fields"):
        job_text.changed("- a\n", {"x": 2})


INVENTORY = """\
# The variables of a cluster.
ansible_user: ubuntu
cluster_prefix: /opt/amx-cluster  # here

# cluster_backend (auto, mpi or gloo): how ranks communicate.
# cluster_backend: auto
cluster_cores: {ranks_per_node: 2}  # tuned in May
job_env:
  HF_TOKEN: !vault |
    $ANSIBLE_VAULT;1.1;AES256
    6138
"""


def test_variables_of_an_inventory_keep_their_comments_and_vaults() -> None:
    after = job_text.changed(
        INVENTORY, {"cluster_cores": {"ranks_per_node": 4, "comm_cores": 1}, "cluster_backend": "mpi"}
    )
    assert (
        after
        == INVENTORY.replace("{ranks_per_node: 2}", "{ranks_per_node: 4, comm_cores: 1}") + "cluster_backend: mpi\n"
    )


@pytest.mark.parametrize("text", ["", "---\n", "# nothing yet\n# at all"])
def test_a_file_without_variables_gets_its_first(text: str) -> None:
    after = job_text.changed(text, {"cluster_cores": {"ranks_per_node": 4, "comm_cores": 1}, "cluster_backend": "mpi"})
    assert after.startswith(text)
    assert after.endswith(
        "\ncluster_cores: {ranks_per_node: 4, comm_cores: 1}\ncluster_backend: mpi\n" if text else "mpi\n"
    )
    assert yaml.safe_load(after) == {"cluster_cores": {"ranks_per_node": 4, "comm_cores": 1}, "cluster_backend": "mpi"}


def test_what_is_no_yaml_is_refused_without_its_words() -> None:
    with pytest.raises(ValueError, match=r"^the file: is not YAML: line \d"):
        job_text.changed("token: secret\n  other: [\n", {"x": 1})


CHANGED = st.sampled_from(["ranks_per_node", "comm_cores", "backend"])
OTHERS = st.sampled_from(["args", "name", "env"])
KEYS = st.one_of(CHANGED, OTHERS)
VALUES = st.one_of(st.integers(0, 99), st.sampled_from(["auto", "gloo", "a b", "it's", "x: y", "#", ""]), st.booleans())
MORE = st.one_of(VALUES, st.lists(VALUES, max_size=3), st.dictionaries(KEYS, VALUES, max_size=3))
FILES = st.builds(
    lambda one, other: {**other, **one}, st.dictionaries(CHANGED, VALUES), st.dictionaries(OTHERS, MORE, min_size=1)
)
CHANGES = st.dictionaries(CHANGED, st.one_of(st.integers(0, 9), st.floats(1e-9, 1e9), st.just("mpi")), min_size=1)


@pytest.mark.slow
@given(content=FILES, fields=CHANGES, flow=st.sampled_from([True, False, None]), args=st.integers(0, 9))
def test_exactly_the_fields_change(
    content: dict[str, Any], fields: dict[str, Any], flow: bool | None, args: int
) -> None:
    text = yaml.safe_dump(content, default_flow_style=flow, sort_keys=False)
    wanted: dict[str, Any] = {**content, **fields}
    if isinstance(content.get("args"), dict):
        wanted["args"] = {**content["args"], "backend": args}
        fields = {**fields, "args": {"backend": args}}
    assert yaml.safe_load(job_text.changed(text, fields)) == wanted
