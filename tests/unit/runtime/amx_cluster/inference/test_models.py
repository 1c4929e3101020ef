from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from amx_cluster.inference import instance, models
from amx_cluster.inference.loaded import Unavailable
from hypothesis import given
from hypothesis import strategies as st

CELL: dict[str, Any] = {
    "model": "one",
    "task": "text-classification",
    "precision": "fp32",
    "engine": "eager",
    "batch_size": 1,
    "sequence_length": 128,
}
GIB = 2**30


def model(directory: Path, tensors: dict[str, Any], name: str = "model.safetensors") -> None:
    directory.mkdir(exist_ok=True)
    text = json.dumps({"__metadata__": {"format": "pt"}, **tensors}).encode()
    end = max((tensor["data_offsets"][1] for tensor in tensors.values()), default=0)
    (directory / name).write_bytes(len(text).to_bytes(8, "little") + text + bytes(end))
    (directory / "config.json").write_text("{}")


def host(root: Path, available_kib: int, cgroup: str, files: dict[str, str]) -> Path:
    for name, content in {
        "proc/meminfo": f"MemTotal: 99999999 kB\nMemAvailable:   {available_kib} kB\n",
        "proc/self/cgroup": cgroup,
        **files,
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


def test_parameters_come_from_the_headers_of_all_files(tmp_path: Path) -> None:
    model(tmp_path / "one", {"a": {"dtype": "F32", "shape": [10, 20], "data_offsets": [0, 800]}})
    model(tmp_path / "one", {"b": {"dtype": "BF16", "shape": [5], "data_offsets": [0, 10]}}, "more.safetensors")
    assert models.weights({**CELL, "path": str(tmp_path / "one")}) == 205


def test_a_file_that_is_no_safetensors_is_refused_by_name(tmp_path: Path) -> None:
    model(tmp_path / "one", {})
    (tmp_path / "one/model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0no")
    with pytest.raises(Unavailable, match=r"model\.safetensors is damaged"):
        models.weights({**CELL, "path": str(tmp_path / "one")})


def test_a_missing_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMX_CLUSTER_JOB", str(tmp_path))
    error = f"the model one is missing: there is no directory {tmp_path}/models/one"
    with pytest.raises(Unavailable, match=f"^{re.escape(error)}$"):
        models.model_directory({**CELL, "path": "models/one"})
    (tmp_path / "models/one").mkdir(parents=True)
    with pytest.raises(Unavailable, match=r"the model one has no config\.json in"):
        models.model_directory({**CELL, "path": "models/one"})


def test_memory_is_what_the_kernel_has_without_a_limit(tmp_path: Path) -> None:
    root = host(tmp_path, 4 << 20, "0::/\n", {"sys/fs/cgroup/memory.max": "max\n"})
    assert models.available_bytes(root) == 4 * GIB


@pytest.mark.parametrize(
    ("cgroup", "files", "room"),
    [
        pytest.param(
            "0::/a/b\n",
            {
                "sys/fs/cgroup/a/b/memory.max": "max\n",
                "sys/fs/cgroup/a/b/memory.current": "5\n",
                "sys/fs/cgroup/a/b/memory.stat": "inactive_file 1\n",
                "sys/fs/cgroup/a/memory.max": f"{3 * GIB}\n",
                "sys/fs/cgroup/a/memory.current": f"{2 * GIB}\n",
                "sys/fs/cgroup/a/memory.stat": f"anon 1\ninactive_file {GIB}\n",
            },
            2 * GIB,
            id="version 2, the limit of a parent, and what its cache gives back",
        ),
        pytest.param(
            "0::/\n",
            {
                "sys/fs/cgroup/memory.max": f"{GIB}\n",
                "sys/fs/cgroup/memory.current": "0\n",
                "sys/fs/cgroup/memory.stat": "inactive_file 0\n",
            },
            GIB,
            id="version 2, in a container",
        ),
        pytest.param(
            "11:memory:/docker/0123\n1:name=systemd:/\n",
            {
                "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2 * GIB}\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIB}\n",
                "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 0\n",
            },
            GIB,
            id="version 1, in a container",
        ),
    ],
)
def test_memory_is_what_the_cgroup_leaves(tmp_path: Path, cgroup: str, files: dict[str, str], room: int) -> None:
    assert models.available_bytes(host(tmp_path, 64 << 20, cgroup, files)) == room


@given(parameters=st.integers(10**6, 10**10))
def test_estimated_memory_grows_with_the_model_and_with_conversions(parameters: int) -> None:
    fp32, bf16, int8 = (
        models.needed_bytes({**CELL, "precision": precision}, parameters) for precision in ("fp32", "bf16", "int8")
    )
    assert 4 * parameters < fp32 < int8 < bf16 < 7 * parameters + models.PROCESS_BYTES
    assert models.needed_bytes(CELL, parameters + 1) > fp32
    assert models.needed_bytes({**CELL, "engine": "compile"}, parameters) > fp32


def test_sizes_in_messages() -> None:
    assert models.gibibytes(1_260_000_000) == "1.2 GiB"


def test_scores_that_rows_are_sorted_by_have_all_digits() -> None:
    """A reranker's are often near 0, where six digits after the point would make them equal."""
    assert instance.rounded({"predicted_score": 1.23456789e-7}, "text-ranking") == {"predicted_score": 1.23456789e-7}
    assert instance.rounded({"predicted_score": 0.123456789}, "text-classification") == {"predicted_score": 0.123457}
