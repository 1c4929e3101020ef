"""The programs of ranks, installed as on a host."""

from __future__ import annotations

import atexit
import functools
import re
import shutil
import tempfile
from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._jobs import archive


@functools.cache
def installed(**constants: int) -> Path:
    """Return the directory of an archive, removed with this process.

    constants: of the supervisor and its watch, with other values: a test need not wait as long as a cluster does.
    """
    files = archive.of_collection()
    for name, value in constants.items():
        (path,) = (path for path in files if "/_jobs/" in path and f"\n{name} = ".encode() in files[path])
        text = re.sub(rf"^{name} = \d+", f"{name} = {value}", files[path].decode(), flags=re.MULTILINE)
        files[path] = text.encode()
    prefix = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, prefix, ignore_errors=True)
    directory = prefix / archive.DIRECTORY / archive.name(files)
    archive.install(archive.pack(files), directory)
    return directory
