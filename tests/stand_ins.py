"""Small wheels for tests: a name, a version, what it requires, and a few files; nothing that works like the real thing.

python tests/stand_ins.py FOLDER NAME==VERSION[@TAG][:FILES] ...    FILES: how many small files are in it
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    tag: str = "py3-none-any",
    requires: Iterable[str] = (),
    files: Mapping[str, str | bytes] | None = None,
) -> Path:
    """Write a wheel that pip installs into `folder` and return its path. Default content: a module of its name."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    content: dict[str, str | bytes] = dict(files or {f"{module}.py": f'"""A stand-in."""\n__version__ = "{version}"\n'})
    content[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(
        f"Requires-Dist: {requirement}\n" for requirement in requires
    )
    content[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n"
    listed = "".join(f"{path},,\n" for path in [*content, f"{info}/RECORD"])
    path = folder / f"{module}-{version}-{tag}.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as wheel:
        # The same bytes each time: a fixed date.
        for where, data in {**content, f"{info}/RECORD": listed}.items():
            wheel.writestr(zipfile.ZipInfo(where, (2026, 1, 1, 0, 0, 0)), data)
    return path


def main(folder: str, *wanted: str) -> None:
    for word in wanted:
        pin, count, size = [*word.split(":"), "0", "0"][:3]
        pin, _sep, tag = pin.partition("@")
        name, _sep, version = pin.partition("==")
        module = name.replace("-", "_")
        # Many files take pip long: time enough to interrupt it.
        files: dict[str, str | bytes] = {f"{module}/__init__.py": f'__version__ = "{version}"\n'}
        files.update({f"{module}/part{number}.py": f"number = {number}\n" * 20 for number in range(int(count))})
        if int(size):
            files[f"{module}/data.bin"] = os.urandom(int(size) * 1_000_000)
        make_wheel(Path(folder), name, version, tag or "py3-none-any", files=files)


if __name__ == "__main__":
    main(*sys.argv[1:])
