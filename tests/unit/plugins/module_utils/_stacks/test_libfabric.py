from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._stacks import libfabric

# A libfabric with one device of verbs, whose other providers say what the real one of impi-rt does.
LIBRARY = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct attributes { void *object; char *name; char *provider; };
struct info {
    struct info *next; uint64_t caps, mode; uint32_t addr_format; size_t source_length, target_length;
    void *source, *target, *handle, *tx, *rx, *ep;
    struct attributes *domain, *fabric;
};
static struct attributes domain = {0, "mlx5_0", 0}, fabric = {0, "IB-0xfe80000000000000", "verbs;ofi_rxm"};
static struct info only = {.domain = &domain, .fabric = &fabric};

int fi_getinfo(uint32_t version, char *node, char *service, uint64_t flags, void *hints, struct info **found)
{
    const char *name = getenv("FI_PROVIDER");
    if (strcmp(name, getenv("I_MPI_OFI_PROVIDER")) || hints || flags || version >> 16 != 1)
        return -22;
    if (!strcmp(name, "verbs")) {
        *found = &only;
        return 0;
    }
    if (!strcmp(name, "efa"))
        abort();
    fprintf(stderr, "libfabric:7:1::core:core:ofi_reg_dl_prov():712<warn> dlopen(/opt/env/lib/libmlx-fi.so): "
                    "libucp.so.0: cannot open shared object file: No such file or directory\n"
                    "libfabric:7:1::core:core:ofi_reg_dl_prov():712<warn> dlopen(/opt/env/lib/libpsmx2-fi.so): "
                    "/usr/lib/libpsm2.so.2: undefined symbol: psm2_init\n");
    return -61;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a made libfabric."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("libfabric")
    (folder / "libfabric.c").write_text(LIBRARY)
    command = [compiler, "-shared", "-fPIC", "-o", "libfabric.so.1", "libfabric.c"]
    subprocess.run(command, cwd=folder, check=True)
    return folder


@pytest.mark.slow
def test_providers_with_and_without_a_device(library: Path) -> None:
    variables = {"LD_LIBRARY_PATH": str(library), "PATH": os.environ["PATH"]}
    assert libfabric.unusable(variables, ["verbs", "mlx", "psm2", "psm3"]) == {
        "verbs": "",
        "mlx": "libucp.so.0 is missing",
        "psm2": "/usr/lib/libpsm2.so.2: undefined symbol: psm2_init",
        "psm3": "it finds no device that it can use (fi_getinfo: -61)",
    }


def test_a_library_that_ends_the_process(library: Path) -> None:
    variables = {"LD_LIBRARY_PATH": str(library), "PATH": os.environ["PATH"]}
    assert libfabric.unusable(variables, ["efa"]) == {"efa": "libfabric cannot be asked: it printed nothing"}


def test_no_libfabric(tmp_path: Path) -> None:
    why = libfabric.unusable({"LD_LIBRARY_PATH": str(tmp_path)}, ["mlx"])["mlx"]
    assert re.match(r"libfabric cannot be asked: .*libfabric\.so\.1: cannot open shared object file", why)
