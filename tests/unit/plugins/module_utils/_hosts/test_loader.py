from __future__ import annotations

import subprocess
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import loader

DEBIAN = """\
5 libs found in cache `/etc/ld.so.cache'
\tlibtcmalloc_minimal_debug.so.4 (libc6,x86-64) => /lib/x86_64-linux-gnu/libtcmalloc_minimal_debug.so.4
\tlibtcmalloc_minimal.so.4 (libc6) => /lib/i386-linux-gnu/libtcmalloc_minimal.so.4
\tlibtcmalloc_minimal.so.4 (libc6,x86-64) => /lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4
\tlibtcmalloc_minimal.so.4 (libc6,x86-64) => /opt/second/libtcmalloc_minimal.so.4
\tlibm.so.6 (libc6,x86-64, OS ABI: Linux 3.2.0) => /lib/x86_64-linux-gnu/libm.so.6
"""
EL = "\tlibtcmalloc.so.4 (libc6,x86-64) => /lib64/libtcmalloc.so.4\n"


def test_cached() -> None:
    assert loader.cached(DEBIAN, "x86_64") == {
        "libtcmalloc_minimal_debug.so.4": "/lib/x86_64-linux-gnu/libtcmalloc_minimal_debug.so.4",
        "libtcmalloc_minimal.so.4": "/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4",
        "libm.so.6": "/lib/x86_64-linux-gnu/libm.so.6",
    }
    assert loader.cached(DEBIAN, "aarch64") == {}


class Host:
    """Stands for a host: its loader's cache, and what cannot be preloaded on it."""

    def __init__(self, listing: str, broken: str = "", code: int = 0) -> None:
        self.listing, self.broken, self.code = listing, broken, code

    def __call__(self, command: list[str], env: dict[str, str], **_kwargs: Any) -> subprocess.CompletedProcess[str]:
        if command[0] == "ldconfig":
            assert "/sbin" in env["PATH"].split(":")
            return subprocess.CompletedProcess(command, self.code, self.listing, "no\n cache" if self.code else "")
        preloaded = env["LD_PRELOAD"]
        said = f"ERROR: ld.so: object '{preloaded}' from LD_PRELOAD cannot be preloaded (...): ignored."
        return subprocess.CompletedProcess(command, 0, "", said if preloaded == self.broken else "")


@pytest.mark.parametrize(
    ("host", "path"),
    [
        (Host(DEBIAN), "/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"),
        (Host(EL), "/lib64/libtcmalloc.so.4"),
        (Host(EL + DEBIAN), "/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"),
        (Host(EL + DEBIAN, "/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"), "/lib64/libtcmalloc.so.4"),
        (Host(EL, "/lib64/libtcmalloc.so.4"), ""),
        (Host(""), ""),
    ],
)
def test_find(host: Host, path: str) -> None:
    assert loader.find(loader.TCMALLOC, run=host, machine="x86_64") == path


def test_find_without_a_cache() -> None:
    with pytest.raises(ValueError, match=r"^the loader's cache cannot be read: ldconfig: no cache$"):
        loader.find(loader.TCMALLOC, run=Host("", code=1))


def test_find_on_this_machine() -> None:
    assert loader.find(["libc.so.6"]).endswith("/libc.so.6")
    assert loader.find(["libnowhere.so.1"]) == ""
