"""HAProxy on this machine: as root on Debian it is installed where it is missing, else its tests are skipped."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._jobs.servers import front

OPTIONS = ("--yes", "--quiet", "--no-install-recommends")


def path() -> str:
    """Return the path of HAProxy; skip the test, with the reason, where there is none."""
    if not front.program() and os.getuid() == 0 and shutil.which("apt-get"):
        environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "--quiet"], env=environ, capture_output=True, check=False)
        subprocess.run(["apt-get", "install", *OPTIONS, "haproxy"], env=environ, capture_output=True, check=False)
        front.program.cache_clear()
    if not front.program():
        pytest.skip("there is no HAProxy, and this user cannot install it: apt-get install haproxy")
    return front.program()
