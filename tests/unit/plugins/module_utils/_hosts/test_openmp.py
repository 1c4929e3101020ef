from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import openmp
from support.checkout import ROOT, importing

MAPS = """\
7f0000000000-7f0000001000 r--p 00000000 08:01 1    /opt/my env/lib/libiomp5.so
7f0000001000-7f0000009000 r-xp 00001000 08:01 1    /opt/my env/lib/libiomp5.so
7f0000009000-7f000000a000 rw-p 00000000 00:00 0
7f000000b000-7f000000c000 rw-p 00000000 00:00 0
7f0000100000-7f0000109000 r-xp 00001000 08:01 1    /opt/torch/lib/libgomp-a34b3233.so.1.0.0
7f0000200000-7f0000209000 r-xp 00001000 08:01 1    /usr/lib/libc.so.6
7f0000300000-7f0000309000 rw-p 00000000 00:00 0
"""
INTEL, GNU = "/opt/my env/lib/libiomp5.so", "/opt/torch/lib/libgomp-a34b3233.so.1.0.0"


@pytest.mark.parametrize(
    ("counters", "registration", "active"),
    [
        ([], "", []),
        ([0x7F0000200010], "0x7f0000008000-cafe0000-libiomp5.so", [INTEL]),
        ([0x7F0000200010], "0x7f0000009750-cafe0000-libiomp5.so   ", [INTEL]),  # a variable without initial value
        ([0x7F0000200010], "0x7f000000b000-cafe0000-libiomp5.so", []),
        ([0x7F0000200010], "7f0000008000-cafe0000-libiomp5.so", [INTEL]),
        ([0x7F0000200010], "0x7e0000008000-cafe0000-libiomp5.so", []),  # of a process that had this number before
        ([0x7F0000200010, 0x7F0000100010], "", [GNU]),
        ([0x7F0000000010, 0x7F0000108FFF], "0x7f0000008000-cafe0000-libiomp5.so", [INTEL, GNU]),
        ([0x7F0000109000], "nonsense", []),
    ],
)
def test_active(counters: list[int], registration: str, active: list[str]) -> None:
    mapped = openmp.runtimes(MAPS)
    assert list(mapped) == [INTEL, GNU]
    assert openmp.active(mapped, counters, registration) == active


LOAD = """
import ctypes, json, sys, time
from ansible_collections.amx.cluster.plugins.module_utils._hosts import openmp
library = ctypes.CDLL(sys.argv[1])
loaded = openmp.read()
callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: None)
library.omp_set_num_threads(2)
library.GOMP_parallel(callback, None, 2, 0)
time.sleep(0.5)
print(json.dumps([loaded, openmp.read()]))
"""
LIBRARIES = [Path("/usr/lib/x86_64-linux-gnu/libgomp.so.1"), ROOT / ".cluster/env/lib/libiomp5.so"]


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: path.name)
def test_a_real_runtime_is_loaded_and_then_started(library: Path) -> None:
    if not library.exists():
        pytest.skip(f"there is no {library}")
    ran = subprocess.run(
        [sys.executable, "-c", LOAD, str(library)],
        env=importing(),
        capture_output=True,
        text=True,
        check=True,
    )
    file = str(library.resolve())
    assert json.loads(ran.stdout) == [{file: False}, {file: True}]
