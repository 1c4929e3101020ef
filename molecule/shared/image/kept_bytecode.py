"""Keep the bytecode of modules that Python imports from zip files, so that it compiles each source once.

Ansible sends a module as a zip file of sources, and Python keeps bytecode beside files only: it compiles module_utils
anew in every task, which is half of what a task costs a host. A line `import kept_bytecode` in a .pth file of the
hosts' Python makes it look the bytecode up by the source's contents, in the directory that the environment variable
KEPT_BYTECODE names, else in /var/cache/kept_bytecode; where there is no such directory it changes nothing. What is
executed is the same.
"""

import _imp
import marshal
import os
import sys
import zipimport
from types import CodeType


def keep(directory: str) -> None:
    """Have zipimport look for bytecode in `directory` before it compiles, and write there what it has compiled."""
    original = zipimport._compile_source  # type: ignore[attr-defined]
    python = f"{sys.implementation.cache_tag}-{os.getuid()}"

    def compile_source(pathname: str, source: bytes) -> CodeType:
        path = os.path.join(directory, f"{python}-{_imp.source_hash(0, source).hex()}-{len(source)}")
        try:
            with open(path, "rb") as file:
                code = marshal.loads(file.read())
        except (OSError, EOFError, ValueError, TypeError):
            code = original(pathname, source)
            whole = f"{path}.{os.urandom(8).hex()}"  # process numbers repeat, from namespace to namespace
            try:
                with open(whole, "wb") as file:
                    file.write(marshal.dumps(code))
                os.rename(whole, path)
            except OSError:
                pass
        else:
            _imp._fix_co_filename(code, pathname)  # type: ignore[attr-defined]
        return code

    zipimport._compile_source = compile_source  # type: ignore[attr-defined]


directory = os.environ.get("KEPT_BYTECODE") or "/var/cache/kept_bytecode"
if sys.implementation.name == "cpython" and os.path.isdir(directory):
    keep(directory)
