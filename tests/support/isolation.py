"""A process namespace for tests: their jobs see no ranks of other programs, and nothing of theirs outlives them."""

from __future__ import annotations

import contextlib
import os
import subprocess

VARIABLE = "AMX_TEST_NAMESPACE"
UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
# As process 1, which has to take care of orphans, and ends with the command's exit code.
BASH = ("bash", "-c", '"$@"; exit $?', "bash")


def isolation() -> tuple[str, ...]:
    """Return the command before one that gives it a process namespace of its own.

    None in such a namespace, and where this machine does not allow it; without root it takes a user namespace, too.
    """
    if VARIABLE in os.environ:
        return ()
    for unshare in (UNSHARE, (*UNSHARE, "--user", "--map-current-user")):
        words = (*unshare, "env", f"{VARIABLE}=1", *BASH)
        with contextlib.suppress(OSError):
            if not subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
                return words
    return ()
