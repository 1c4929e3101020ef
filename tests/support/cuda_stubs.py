"""PyTorch for CPUs out of its CUDA build, the only one on the main package index.

The CUDA build computes on CPUs as well, but its import needs gigabytes of NVIDIA's packages. A wheel of it is made that
has empty libraries in their place, asks for none of them, and is called +cpu as on PyTorch's own index. Needs gcc and
binutils.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import zipfile
from pathlib import Path

NEEDED = re.compile(r"\(NEEDED\).*\[(lib(?:cu|nccl|nv)[^\]]*)\]")
SYMBOLS = re.compile(r"_*cuda|cu[A-Z]|cublas|cudnn|cufft|curand|cusparse|cusolver|nccl|nvtx|nvrtc|cupti|cufile")
# Callers print what these return.
TEXTS = ("cudaGetErrorString", "cudaGetErrorName", "ncclGetErrorString")
REQUIRED = re.compile(r"^Requires-Dist: (nvidia-|triton).*\n", re.MULTILINE)


def cpu_wheel(wheel: Path, directory: Path) -> Path:
    """Write `torch-VERSION+cpu-...whl` into the directory, out of the wheel of the CUDA build; return its path."""
    name, version, tags = wheel.name.split("-", 2)
    made = directory / f"{name}-{version}+cpu-{tags}"
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        root = Path(scratch)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(root)
        write_stubs(root / "torch/lib")
        info = (root / f"{name}-{version}.dist-info").rename(root / f"{name}-{version}+cpu.dist-info")
        metadata = REQUIRED.sub("", (info / "METADATA").read_text())
        (info / "METADATA").write_text(metadata.replace(f"\nVersion: {version}\n", f"\nVersion: {version}+cpu\n", 1))
        _write(made, root, info)
    return made


def write_stubs(directory: Path) -> list[str]:
    """Write the CUDA libraries that those of a directory need and that are not there; return their names.

    Each has the functions that are expected of it, which return an error. A library has a version node of its own name,
    which the loader looks for.
    """
    libraries = sorted(directory.glob("*.so*"))
    needed = {name for path in libraries for name in NEEDED.findall(_run("readelf", "--dynamic", str(path)))}
    stubs = sorted(name for name in needed if not (directory / name).exists())
    functions: dict[str, set[str]] = {}  # by library; "" for those without a version
    for path in libraries:
        for line in _run("nm", "--dynamic", "--undefined-only", str(path)).splitlines():
            symbol, _, library = line.split()[-1].partition("@")
            if SYMBOLS.match(symbol):
                functions.setdefault(library.strip("@") if library.strip("@") in stubs else "", set()).add(symbol)
    for name in stubs:
        own = functions.get(name, set())
        # What names no library is looked for in all of them.
        free = functions.get("", set()) if name.startswith("libcudart") else set()
        node = f"{name} {{ global: {' '.join(f'{symbol};' for symbol in sorted(own))} stub_of_this; }};\n"
        source = "int stub_of_this;\n" + "".join(map(_function, sorted(own | free)))
        with tempfile.TemporaryDirectory() as scratch:
            script = Path(scratch) / "versions"
            script.write_text(node)
            command = ["gcc", "-w", "-shared", "-fPIC", "-x", "c", "-", f"-Wl,-soname,{name}"]
            command += [f"-Wl,--version-script={script}", "-o", str(directory / name)]
            subprocess.run(command, input=source, text=True, check=True)
    return stubs


def _function(symbol: str) -> str:
    if symbol in TEXTS:
        return f'const char *{symbol}(int error) {{ return "no CUDA here"; }}\n'
    return f"long {symbol}(void) {{ return 100; }}\n"  # cudaErrorNoDevice


def _write(wheel: Path, root: Path, info: Path) -> None:
    """Pack a directory as a wheel, whose files are listed without checksums, as pip accepts them."""
    record = info / "RECORD"
    files = sorted(path for path in root.rglob("*") if path.is_file() and path != record)
    record.write_text("".join(f"{path.relative_to(root)},,\n" for path in [*files, record]))
    partial = wheel.with_suffix(".part")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in [*files, record]:
            archive.write(path, path.relative_to(root))
    partial.rename(wheel)


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
