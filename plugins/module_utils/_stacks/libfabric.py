# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask the libfabric of a virtual environment which of its providers finds a device on this host, and why one does not.

Its program fi_info would not tell: in impi-rt 2021.18 it requests version 2.4 of the interface, for which libfabric
skips psm3 ("Provider psm3 fi_version 2.1 < requested 2.4"). Intel's libfabric also skips a provider while a better one
can be used, unless I_MPI_OFI_PROVIDER names it ("Since %s can be used, %s has been skipped"); each is asked by name.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping

# fi_getinfo(3) and fabric.h of libfabric: struct fi_info up to domain_attr and fabric_attr, of which each has its name.
PROGRAM = """
import ctypes, json
from ctypes import POINTER, c_char_p, c_size_t, c_uint32, c_uint64, c_void_p

class Attributes(ctypes.Structure):
    _fields_ = [("object", c_void_p), ("name", c_char_p), ("provider", c_char_p)]

class Info(ctypes.Structure):
    pass

Info._fields_ = [
    ("next", POINTER(Info)), ("caps", c_uint64), ("mode", c_uint64), ("addr_format", c_uint32),
    ("source_length", c_size_t), ("target_length", c_size_t),
    *((name, c_void_p) for name in ("source", "target", "handle", "tx", "rx", "ep")),
    ("domain", POINTER(Attributes)), ("fabric", POINTER(Attributes)),
]
found, names = POINTER(Info)(), set()
code = ctypes.CDLL("libfabric.so.1").fi_getinfo(1 << 16 | 5, None, None, c_uint64(0), None, ctypes.byref(found))
while found:
    info = found.contents
    names.add(info.fabric.contents.provider.decode() + " of " + info.domain.contents.name.decode())
    found = info.next
print(json.dumps({"code": code, "names": sorted(names)}))
"""
# What libfabric reports of a provider's file that the dynamic linker cannot load (ofi_reg_dl_prov).
NOT_LOADED = re.compile(r"dlopen\(\S*/lib(?P<file>\w+)(?:-[\d.]+)?-fi\.so\): (?P<why>.*)")
# Where the file is not named as the provider.
FILES = {"psm2": "psmx2"}
# With which a provider looks for RDMA devices only, see intel_mpi.fabric_environment.
MORE = {"psm3": {"PSM3_HAL": "verbs"}}
SECONDS = 30


def unusable(variables: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return {provider: why it finds no device here, or ""} of some of libfabric's providers.

    variables: those of Intel MPI, see intel_mpi.mpi_environment. Of a library that is missing, the reason begins with
    its name.
    """
    return {name: _unusable(variables, name) for name in names}


def _unusable(variables: Mapping[str, str], name: str) -> str:
    own = {"FI_PROVIDER": name, "I_MPI_OFI_PROVIDER": name, "FI_LOG_LEVEL": "warn", **MORE.get(name, {})}
    try:
        ran = subprocess.run(
            [sys.executable, "-S", "-c", PROGRAM],
            env={**variables, **own},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        answer = json.loads(ran.stdout)
    except subprocess.TimeoutExpired:
        return f"fi_getinfo does not return within {SECONDS} s"
    except (OSError, ValueError):
        return "libfabric cannot be asked: " + (" ".join(ran.stderr.split())[-200:] or "it printed nothing")
    if any(entry.split(" of ")[0].split(";")[0] == name for entry in answer["names"]):
        return ""
    for line in ran.stderr.splitlines():
        failed = NOT_LOADED.search(line)
        if failed and failed["file"] == FILES.get(name, name):
            library, _colon, why = failed["why"].partition(": ")
            return f"{library} is missing" if "No such file" in why else failed["why"]
    return f"it finds no device that it can use (fi_getinfo: {answer['code']})"
