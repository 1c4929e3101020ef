"""Small wheels for tests: a name, a version, what it requires, and a few files; nothing that works like the real thing.

python tests/support/stand_ins.py DIRECTORY NAME==VERSION[@TAG][:FILES] ...    FILES: how many small files are in it
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path


def make_wheel(
    directory: Path,
    name: str,
    version: str,
    tag: str = "py3-none-any",
    requires: Iterable[str] = (),
    files: Mapping[str, str | bytes] | None = None,
) -> Path:
    """Write a wheel that pip installs into `directory` and return its path. Default contents: a module of its name."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    contents: dict[str, str | bytes] = dict(
        files or {f"{module}.py": f'"""A stand-in."""\n__version__ = "{version}"\n'}
    )
    contents[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(
        f"Requires-Dist: {requirement}\n" for requirement in requires
    )
    contents[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n"
    listed = "".join(f"{path},,\n" for path in [*contents, f"{info}/RECORD"])
    path = directory / f"{module}-{version}-{tag}.whl"
    directory.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as wheel:
        # The same bytes each time: a fixed date.
        for where, data in {**contents, f"{info}/RECORD": listed}.items():
            wheel.writestr(zipfile.ZipInfo(where, (2026, 1, 1, 0, 0, 0)), data)
    return path


# As in the wheel of oneccl_bind_pt since 2.3. Like the real one, it leaves an empty entry in a list.
SETVARS = """
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
echo ":: initializing environment"
export I_MPI_ROOT="$root/opt/mpi"
export CCL_ROOT="$root"
export PATH="$I_MPI_ROOT/bin:$PATH"
export LD_LIBRARY_PATH="$I_MPI_ROOT/libfabric/lib:$I_MPI_ROOT/lib:$root/lib::$LD_LIBRARY_PATH"
export FI_PROVIDER_PATH="$I_MPI_ROOT/libfabric/lib/prov:/usr/lib64/libfabric"
"""
# Starts `mpirun -n 2 -hosts localhost COMMAND` as two processes, if its own directory was set as the root.
MPIRUN = """#!/bin/bash
[ "$I_MPI_ROOT/bin/mpirun" = "$0" ] || exit 9
shift 4
for rank in 0 1; do PMI_RANK=$rank PMI_SIZE=2 "$@"; done
"""


def make_bindings(packages: Path) -> Path:
    """Install oneCCL's bindings for PyTorch with their own Intel MPI, as since 2.3. Returns their directory."""
    package = packages / "oneccl_bindings_for_pytorch"
    for name, text in (("__init__.py", ""), ("env/setvars.sh", SETVARS), ("opt/mpi/bin/mpirun", MPIRUN)):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text, encoding="utf-8")
    (package / "opt/mpi/bin/mpirun").chmod(0o755)
    return package


# The directory of the example that make_examples makes, as one of transformers' repository.
EXAMPLE_TASK = "pytorch/text-classification"


def make_examples(repository: Path, version: str, requirements: str) -> None:
    """Commit a version of a repository that is shaped like transformers', and tag it as transformers does.

    Its one example, run_text.py, is this collection's own script, which first imports what lies beside it, a package
    glue_words and, where the job has one, the metric `same`.
    """
    task = repository / "examples" / EXAMPLE_TASK
    task.mkdir(parents=True, exist_ok=True)
    script = (Path(__file__).resolve().parents[2] / "jobs/scripts/train_text.py").read_text(encoding="utf-8")
    begin = "from __future__ import annotations\n"
    if begin not in script:
        raise ValueError(f"the script has no line {begin!r}")
    (task / "run_text.py").write_text(script.replace(begin, begin + EXAMPLE_BEGINS, 1), encoding="utf-8")
    (task / "beside.py").write_text('WORD = "from the directory of the example"\n', encoding="utf-8")
    (task / "requirements.txt").write_text(requirements, encoding="utf-8")
    user = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (["init", "-q"], ["add", "."], [*user, "commit", "-qm", "examples"], ["tag", "-f", f"v{version}"]):
        subprocess.run(["git", *words], cwd=repository, check=True, capture_output=True)


EXAMPLE_BEGINS = """
import os as _os, socket as _socket
import beside, glue_words
print(f"{_socket.gethostname()}: beside {beside.WORD}, words {glue_words.__version__}", flush=True)
if _os.path.isdir("same"):
    import evaluate
    print("same:", evaluate.load("same").compute(predictions=[1, 2], references=[1, 3])["same"], flush=True)
"""


# A metric of the library evaluate: the share of what is the same.
METRIC = """
import datasets
import evaluate

class Same(evaluate.Metric):
    def _info(self):
        number = datasets.Value("int32")
        features = datasets.Features({"predictions": number, "references": number})
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)

    def _compute(self, predictions, references):
        return {"same": sum(map(int.__eq__, predictions, references)) / len(references)}
"""


def main(directory: str, *wanted: str) -> None:
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
        make_wheel(Path(directory), name, version, tag or "py3-none-any", files=files)


if __name__ == "__main__":
    main(*sys.argv[1:])
