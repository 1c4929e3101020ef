#!/usr/bin/env python3
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build oneccl-bind-pt, oneCCL's bindings for PyTorch, from its sources, for the stack ipex-2.8.

    tools/build_oneccl.py --python /usr/bin/python3.11

It verifies the wheel by DistributedDataParallel on two ranks, by mpirun and by torchrun, and then puts it into
~/.cache/amx.cluster/oneccl, from which `amx site` and `amx image` take it. Only a verified wheel is ever there.

Without access to the Internet, name what was copied: --source a directory or tar file of intel/torch-ccl at tag
v2.8.0+xpu, --oneccl one of its submodule oneapi-src/oneCCL, and --wheels a directory of wheels (torch, impi-rt,
impi-devel, setuptools, wheel). Needs gcc, g++, make, cmake 3.13 or newer, the headers of the Python and 5 GB of disk.
Build on the oldest system of the cluster: the wheel needs the C library that it was built with, or a newer one.
"""

from __future__ import annotations

import argparse
import errno
import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VERSION, TAG, ONECCL, ONECCL_VERSION, MPI = "2.8.0", "v2.8.0+xpu", "3afa1bb", ("2021", "14"), "2021.14.0"
SOURCE = "https://github.com/intel/torch-ccl.git"
INDEX = "https://download.pytorch.org/whl/cpu"
DIRECTORY = Path("~/.cache/amx.cluster/oneccl")
SUBMODULE = "third_party/oneCCL"
PROGRAMS = ("make", "cmake", "readelf")
# What a build writes: sources and objects 1 GB, and a virtual environment with torch 1 GB (its CUDA build: 4 GB).
GIB = 1 << 30
LIMIT = 180  # seconds that two ranks have
SPACE, SPACE_OF_TORCH = 2 * GIB, 5 * GIB
# What oneCCL links and packs of Intel MPI; a mirror of its sources may lack such large files.
MPI_FILES = ("include/mpi.h", "lib/libmpi.so.12", "bin/mpirun", "bin/mpiexec.hydra", "bin/hydra_pmi_proxy")
OTHER_FILES = (
    "hwloc/lib/libhwloc.a",
    "itt/lib64/libittnotify.a",
    "ofi/lib/libfabric.so.1",
    "ofi/lib/prov/libtcp-fi.so",
)


@dataclass(frozen=True)
class Mend:
    """A change of a source file without which gcc or a newer cmake does not build it.

    path: the file. there: what shows that it is mended, as a regular expression. old, new: what to replace.
    """

    path: str
    there: str
    old: str
    new: str


FP16 = f"{SUBMODULE}/src/comp/fp16/fp16_intrisics"
MENDS = (
    # Else the version is 2.8.0+xpu, with the CPU's libraries alone; setup.py adds +cpu.
    Mend("version.txt", rf"^{re.escape(VERSION)}$", r"\+xpu", ""),
    # find_package_handle_standard_args is used and not included.
    Mend(
        "cmake/Modules/FindoneCCL.cmake",
        r"include\(FindPackageHandleStandardArgs\)",
        r"\A",
        "include(FindPackageHandleStandardArgs)\n",
    ),
    # oneCCL has warnings with newer compilers.
    Mend(f"{SUBMODULE}/CMakeLists.txt", r"-Wno-unused-parameter (?!-Werror)", r" -Werror ", " "),
    # For gcc, vectors of half precision are another type than __m512.
    Mend(
        f"{FP16}.cpp",
        r"\(__m512h\)a",
        r"return (_mm512_\w+_ph)\(a, b\);",
        r"return (__m512)\1((__m512h)a, (__m512h)b);",
    ),
    Mend(f"{FP16}.hpp", r"\(__m512h\)vfp16_out", r"_ph\(res, vfp16_out\)", "_ph(res, (__m512h)vfp16_out)"),
)

# torch's own configuration requires CUDA where torch is built with it.
TORCH_CONFIG = """\
set(T "@TORCH@")
if(NOT TARGET torch)
  foreach(name c10 torch_cpu torch_python)
    add_library(${name} SHARED IMPORTED)
    set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${T}/lib/lib${name}.so")
  endforeach()
  add_library(torch INTERFACE IMPORTED)
  set_target_properties(torch PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${T}/include;${T}/include/torch/csrc/api/include"
    INTERFACE_LINK_LIBRARIES "torch_cpu;c10")
endif()
set(TORCH_LIBRARIES torch)
set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=@ABI@")
set(Torch_FOUND TRUE)
"""
# setup.py finds torch by this module's path, and builds with all CPUs.
SETUP = """
import os, runpy, sys
import torch.utils
torch.utils.cmake_prefix_path, jobs, dist = sys.argv[1:]
os.cpu_count = lambda: int(jobs)
sys.path.insert(0, os.getcwd())
sys.argv = ["setup.py", "bdist_wheel", "--dist-dir", dist]
runpy.run_path("setup.py", run_name="__main__")
"""
TORCH = """
import json, sysconfig, sys
about = {"python": list(sys.version_info[:2]), "include": sysconfig.get_path("include")}
try:
    import torch
    about.update(torch=torch.__version__, abi=int(torch._C._GLIBCXX_USE_CXX11_ABI), path=torch.__path__[0])
except Exception as error:
    about["error"] = str(error)
print(json.dumps(about))
"""
DDP = """
import os, sys
import torch, torch.distributed as dist
import oneccl_bindings_for_pytorch
os.environ.setdefault("RANK", os.environ.get("PMI_RANK", "0"))
os.environ.setdefault("WORLD_SIZE", os.environ.get("PMI_SIZE", "1"))
dist.init_process_group("ccl")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(256, 256))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(5):
    rows = torch.randn(8, 256, generator=torch.Generator().manual_seed(10 * step + rank))
    model(rows).square().mean().backward()
    optimizer.step(); optimizer.zero_grad()
weights = torch.stack([parameter.detach().double().sum() for parameter in model.parameters()])
others = [torch.empty_like(weights) for _rank in range(dist.get_world_size())]
dist.all_gather(others, weights)
assert len(others) == 2 and all(torch.equal(other, weights) for other in others), others
print(f"rank {rank} of {dist.get_world_size()} agrees", flush=True)
dist.barrier(); dist.destroy_process_group()
"""


class Problem(Exception):
    """Reason why nothing is built, and what to do about it."""


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="interpreter of the hosts' version; where it has "
                        f"torch {VERSION}, that is used, else one is installed beside the build")  # fmt: skip
    parser.add_argument("--source", default=SOURCE, help=f"torch-ccl at {TAG}: a URL, directory or tar file [{SOURCE}]")
    parser.add_argument("--oneccl", default="", help=f"its submodule oneCCL at {ONECCL}, where --source lacks it")
    parser.add_argument("--wheels", default="", help="directory of wheels, instead of package indexes")
    parser.add_argument("--directory", type=Path, default=DIRECTORY, help=f"where the wheel is put [{DIRECTORY}]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compilers at a time [all CPUs]")
    options = parser.parse_args(words)
    try:
        print(f"The wheel is {build(options)}: `amx site` and `amx image` take it from there.")
    except Problem as problem:
        sys.exit(f"build_oneccl: {problem}")
    except KeyboardInterrupt:
        sys.exit("build_oneccl: interrupted; no wheel was put into the directory. Run it again.")
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        sys.exit(f"build_oneccl: {error}" + (": free some space, or set --directory" if full else ""))


def build(options: argparse.Namespace) -> Path:
    """Return the path of the wheel, built and verified. Raises Problem and OSError."""
    directory = options.directory.expanduser().absolute()
    check_programs()
    about = inspect_python(options.python)
    check_sources_named(options)
    check_space(directory, SPACE if "torch" in about else SPACE_OF_TORCH)
    with working_directory(directory) as work:
        sources = work / "source"
        get_sources(options, sources)
        check_sources(sources)
        if "torch" not in about:
            about = install_torch(options, work)
        complete_mpi(options, sources, work)
        for mend in MENDS:
            apply(mend, sources)
        wheel = compile_wheel(options, about, sources, work)
        verify(about, wheel, work)
        target = directory / wheel.name
        wheel.replace(target)
        return target


def check_programs() -> None:
    """Raise Problem where a program of the build is missing."""
    compilers = [os.environ.get("CC", "gcc"), os.environ.get("CXX", "g++")]
    missing = [name for name in (*compilers, *PROGRAMS) if not shutil.which(name)]
    if missing:
        raise Problem(
            f"{', '.join(missing)}: not on PATH. Install them (Debian and Ubuntu: apt install g++ make cmake binutils)"
        )


def inspect_python(python: str) -> dict[str, Any]:
    """Return what TORCH prints of an interpreter; without `torch` where it has none. Raises Problem."""
    program = shutil.which(python)
    if not program:
        raise Problem(f"--python {python}: there is no such program. Name an interpreter of the hosts' version")
    python = str(Path(program).absolute())  # commands run in other directories; a link is that of its environment
    ran = subprocess.run(
        [python, "-c", TORCH], env=clean_environ(), capture_output=True, text=True, check=False, cwd="/"
    )
    if ran.returncode:
        raise Problem(f"--python {python} does not start: {last(ran.stderr)}")
    printed = ran.stdout.splitlines()[-1:]
    try:
        about: dict[str, Any] = {**json.loads("".join(printed)), "executable": python}
    except (ValueError, TypeError):
        raise Problem(f"--python {python} is no Python: it printed {''.join(printed)[:80]!r}") from None
    if not Path(str(about["include"]), "Python.h").is_file():
        raise Problem(
            f"{about['include']}/Python.h: not found. Install the headers of this Python (Debian and Ubuntu: "
            f"apt install python{'.'.join(map(str, about['python']))}-dev)"
        )
    installed = str(about.get("torch", ""))
    if installed and installed.partition("+")[0] != VERSION:
        raise Problem(
            f"{python} has torch {installed}, and oneccl-bind-pt {VERSION} needs torch {VERSION}: name an interpreter "
            "with that version, or one without torch, for which it is installed beside the build"
        )
    if not installed and "No module named" not in str(about["error"]):
        raise Problem(f"{python} has a torch that cannot be imported: {about['error']}")
    return about


def check_sources_named(options: argparse.Namespace) -> None:
    """Raise Problem where what the options name is not there."""
    for name in ("source", "oneccl", "wheels"):
        value = getattr(options, name)
        if value and "://" not in value and not Path(value).exists():
            raise Problem(f"--{name} {value}: there is no such file or directory")
    if "://" in options.source and not shutil.which("git"):
        raise Problem("git: not on PATH. Install it, or name a directory or tar file by --source")
    if options.jobs < 1:
        raise Problem(f"--jobs {options.jobs}: set it to at least 1")


def check_space(directory: Path, needed: int) -> None:
    """Raise Problem where the file system of a directory, which need not be there yet, has too little space."""
    there = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(there).free
    if free < needed:
        raise Problem(
            f"{there}: {free / GIB:.1f} GiB are free, and the build needs {needed / GIB:.0f} GiB: free some space, or "
            "set --directory to another file system"
        )


@contextmanager
def working_directory(directory: Path) -> Iterator[Path]:
    """Lock the directory, and give an empty one in it, which is removed at the end. Raises Problem."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Problem(f"{directory}: another build is running. Wait for its end") from None
        for left in directory.glob(".build-*"):
            shutil.rmtree(left)
        work = Path(tempfile.mkdtemp(prefix=".build-", dir=directory))
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)


def get_sources(options: argparse.Namespace, target: Path) -> None:
    """Put the sources of the bindings and of oneCCL into a directory."""
    if "://" in options.source:
        clone = [
            "git",
            "clone",
            "--quiet",
            "--depth=1",
            f"--branch={TAG}",
            "--recurse-submodules",
            "--shallow-submodules",
        ]
        run([*clone, options.source, str(target)], "the sources cannot be cloned", GIT_TERMINAL_PROMPT="0")
    else:
        copy(Path(options.source), target)
    if options.oneccl:
        shutil.rmtree(target / SUBMODULE, ignore_errors=True)
        copy(Path(options.oneccl), target / SUBMODULE)
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | stat.S_IWUSR)  # a copy may be that of a directory for reading only


def copy(source: Path, target: Path) -> None:
    """Copy a directory, or the only directory in a tar file. Raises Problem."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns(".git", "build", "dist"))
        copy_links(source, target)
        return
    try:
        with tarfile.open(source) as archive, tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            for member in archive.getmembers():
                if member.name.startswith("/") or ".." in Path(member.name).parts:
                    raise Problem(f"{source}: {member.name} leads out of the archive")
                base = Path() if member.islnk() else Path(member.name).parent
                there = os.path.normpath(base / member.linkname)
                if (member.islnk() or member.issym()) and (there.startswith("/") or there.split("/")[0] == ".."):
                    raise Problem(f"{source}: {member.name} is a link to {member.linkname}, out of the archive")
                if not (member.isfile() or member.isdir() or member.islnk() or member.issym()):
                    raise Problem(f"{source}: {member.name} is neither a file nor a directory nor a link")
            archive.extractall(scratch)
            inside = list(Path(scratch).iterdir())
            root = inside[0] if len(inside) == 1 and inside[0].is_dir() else Path(scratch)
            shutil.copytree(root, target, symlinks=True)
    except (tarfile.TarError, EOFError) as error:
        raise Problem(f"{source} is no tar file that can be read: {str(error).splitlines()[0]}") from None


def copy_links(source: Path, target: Path) -> None:
    """Replace the links in the copy of a directory that lead out of it by what they lead to, which stays as it is."""
    top = source.resolve()
    for link in [path for path in target.rglob("*") if path.is_symlink()]:
        original = source / link.relative_to(target)
        there = original.resolve()
        if there.is_relative_to(top) or top.is_relative_to(there) or not there.exists():
            continue
        link.unlink()
        if there.is_dir():
            copy(there, link)
        else:
            shutil.copy2(there, link)


def check_sources(sources: Path) -> None:
    """Raise Problem where sources are incomplete, or of another version."""
    for name in ("setup.py", "version.txt", "src/ProcessGroupCCL.cpp"):
        if not (sources / name).is_file():
            raise Problem(f"--source has no {name}: it is not intel/torch-ccl. Name its tag {TAG}")
    version = (sources / "version.txt").read_text(encoding="utf-8").strip()
    if version.partition("+")[0] != VERSION:
        raise Problem(f"--source is version {version}, and this builds {VERSION}: check out its tag {TAG}")
    cmake = sources / SUBMODULE / "CMakeLists.txt"
    if not cmake.is_file():
        raise Problem(f"--source has no {SUBMODULE}: run git submodule update --init there, or name it by --oneccl")
    version_parts = re.findall(r'CCL_(?:MAJOR|MINOR)_VERSION\s+"(\d+)"', cmake.read_text(encoding="utf-8"))
    if tuple(version_parts) != ONECCL_VERSION:
        raise Problem(
            f"{SUBMODULE} is oneCCL {'.'.join(version_parts) or 'of an unknown version'}, and {TAG} needs "
            f"{'.'.join(ONECCL_VERSION)}: take commit {ONECCL} of oneapi-src/oneCCL"
        )
    missing = [name for name in OTHER_FILES if not (sources / SUBMODULE / "deps" / name).is_file()]
    if missing:
        raise Problem(f"{SUBMODULE}/deps has no {', '.join(missing)}: take a complete copy of oneCCL at {ONECCL}")


def install_torch(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Make a virtual environment with torch; return what TORCH prints there. Raises Problem."""
    print(f"Installing torch {VERSION} ...", flush=True)
    run([options.python, "-m", "venv", str(work / "venv")], "no virtual environment can be made")
    python = str(work / "venv/bin/python")
    where = of_wheels(options) or ["--extra-index-url", INDEX]
    words = [python, "-m", "pip", "install", "--quiet", *where, f"torch=={VERSION}+cpu", "numpy"]
    run(words, f"torch {VERSION}+cpu cannot be installed; an index such as {INDEX} has it")
    about = inspect_python(python)
    if "torch" not in about:
        raise Problem(f"torch {VERSION} was installed and cannot be imported: {about['error']}")
    return about


def of_wheels(options: argparse.Namespace) -> list[str]:
    """Return the options of pip for a directory of wheels; none where package indexes are used."""
    return ["--no-index", "--find-links", options.wheels] if options.wheels else []


def complete_mpi(options: argparse.Namespace, sources: Path, work: Path) -> None:
    """Take Intel MPI from its wheels where the sources lack some of it. Raises Problem."""
    target = sources / SUBMODULE / "deps/mpi"
    if all((target / name).is_file() for name in MPI_FILES):
        return
    pins = [f"{name}=={MPI}" for name in ("impi-rt", "impi-devel")]
    print(f"The sources lack libraries of Intel MPI: taking {' and '.join(pins)} ...", flush=True)
    command = [options.python, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(work / "mpi")]
    run([*command, *of_wheels(options), *pins], f"{' and '.join(pins)} cannot be downloaded")
    for wheel in (work / "mpi").glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                match = re.fullmatch(r"[^/]+\.data/data/((include|lib|bin)/[^/]+)", member)
                if match and re.match(r"include/|lib/libmpi|bin/(mpirun|mpiexec|hydra_)", match[1]):
                    (target / match[1]).parent.mkdir(parents=True, exist_ok=True)
                    (target / match[1]).write_bytes(archive.read(member))
                    (target / match[1]).chmod(0o755)
    missing = [name for name in MPI_FILES if not (target / name).is_file()]
    if missing:
        raise Problem(
            f"{' and '.join(pins)} have no {', '.join(missing)}: take oneCCL's sources with deps/mpi complete"
        )


def apply(mend: Mend, sources: Path) -> None:
    """Change a source file unless it is mended already. Raises Problem where there is nothing to change."""
    path = sources / mend.path
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if re.search(mend.there, text, re.MULTILINE):
        return
    changed, count = re.subn(mend.old, mend.new, text)
    if not text or not count:
        raise Problem(f"{mend.path} is not as in {TAG} (no {mend.old}): take the sources of that tag")
    path.write_text(changed, encoding="utf-8")


def compile_wheel(options: argparse.Namespace, about: dict[str, Any], sources: Path, work: Path) -> Path:
    """Return the wheel, named after the C library that it needs. Raises Problem with the end of the log."""
    python, torch = str(about["executable"]), str(about["path"])
    config = work / "cmake/Torch/TorchConfig.cmake"
    config.parent.mkdir(parents=True)
    config.write_text(TORCH_CONFIG.replace("@TORCH@", torch).replace("@ABI@", str(about["abi"])), encoding="utf-8")
    tools = ["setuptools<80", "wheel"]  # setup.py uses what newer ones do not have
    install = [python, "-m", "pip", "install", "--quiet", "--target", str(work / "tools"), *of_wheels(options)]
    run([*install, *tools], f"{' and '.join(tools)} cannot be installed")
    environ = {
        **clean_environ(),
        "PYTHONPATH": str(work / "tools"),
        "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
        "Torch_DIR": str(config.parent),
        "CC": os.environ.get("CC", "gcc"),
        "CXX": os.environ.get("CXX", "g++"),
        "MAX_JOBS": str(options.jobs),
    }
    log = work / "log"
    print(f"Compiling with {options.jobs} compiler(s) at a time, about 15 minutes with 2 ...", flush=True)
    command = [python, "-c", SETUP, str(work / "cmake"), str(options.jobs), str(work / "dist")]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=sources, env=environ, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = process.wait()
        finally:  # also when this process is interrupted: compilers do not outlive it
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    wheels = list((work / "dist").glob(f"oneccl_bind_pt-{VERSION}*.whl"))
    if code or len(wheels) != 1:
        text = log.read_text(errors="replace")
        first = re.search(r"^.*(?:\berror:|No space left|Killed signal|CMake Error).*$", text, re.MULTILINE)
        kept = work.parent / "build.log"
        shutil.copyfile(log, kept)
        raise Problem(f"the build failed: {first[0].strip() if first else last(text)} (all of it: {kept})")
    return named_by_libc(python, wheels[0], work)


def named_by_libc(python: str, wheel: Path, work: Path) -> Path:
    """Return the wheel under a name that has the C library which its libraries need, by which pip refuses others."""
    unpacked = work / "wheel"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    versions = [(2, 17)]
    for library in unpacked.rglob("*.so*"):
        listed = subprocess.run(["readelf", "-V", str(library)], capture_output=True, text=True, check=False).stdout
        versions += [(int(major), int(minor)) for major, minor in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", listed)]
    major, minor = max(versions)
    platform = f"manylinux_{major}_{minor}_x86_64"
    tags = [python, "-m", "wheel", "tags", "--remove", "--platform-tag", platform, str(wheel)]
    run(tags, "the wheel cannot be renamed", PYTHONPATH=str(work / "tools"))
    (renamed,) = wheel.parent.glob("*.whl")
    return renamed


def verify(about: dict[str, Any], wheel: Path, work: Path) -> None:
    """Install the wheel beside torch, and train on two ranks by mpirun and by torchrun. Raises Problem."""
    python, packages = str(about["executable"]), work / "verified"
    install = [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(packages)]
    run([*install, str(wheel)], "the wheel cannot be installed")
    script = work / "ddp.py"
    script.write_text(DDP, encoding="utf-8")
    bindings = packages / "oneccl_bindings_for_pytorch"
    fabric = bindings / "opt/mpi/libfabric/lib"
    environ = {
        **clean_environ(),
        "PATH": f"{bindings}/opt/mpi/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(packages),
        "OMP_NUM_THREADS": "1",
        "CCL_WORKER_COUNT": "1",
        "CCL_WORKER_OFFLOAD": "0",  # two ranks on any machine, also one with two CPUs
        "MASTER_ADDR": "127.0.0.1",
        "FI_PROVIDER": "tcp",
        "FI_TCP_IFACE": "lo",
        "FI_PROVIDER_PATH": str(fabric / "prov"),
        "LD_LIBRARY_PATH": f"{fabric}:{bindings}/opt/mpi/lib:{bindings}/lib",
        "I_MPI_ROOT": str(bindings / "opt/mpi"),
        "CCL_ROOT": str(bindings),
    }
    launchers = {
        "mpirun": ["mpirun", "-n", "2", python, str(script)],
        "torchrun": [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)],
    }
    for name, command in launchers.items():
        print(f"Training on two ranks by {name} ...", flush=True)
        own = {"CCL_ATL_TRANSPORT": "ofi"} if name == "torchrun" else {"MASTER_PORT": str(free_port())}
        try:
            ran = run_group(command, {**environ, **own})
        except subprocess.TimeoutExpired:
            raise Problem(f"the wheel was built, and two ranks by {name} did not end within {LIMIT} s") from None
        if ran.returncode or ran.stdout.count("of 2 agrees") != 2:
            raise Problem(f"the wheel was built, and two ranks by {name} failed: {last(ran.stderr or ran.stdout)}")


def run_group(command: Sequence[str], environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command within LIMIT; end what it has started when it does not end, or this process is interrupted."""
    process = subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        printed, errors = process.communicate(timeout=LIMIT)
    finally:
        if process.poll() is None:
            end_family(process.pid)
            process.wait()
    return subprocess.CompletedProcess(command, process.returncode, printed, errors)


def end_family(leader: int) -> None:
    """End the descendants of a process, with it: launchers give their ranks sessions of their own."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
    family = [leader]
    for pid in family:
        family += [child for child, parent in parents.items() if parent == pid]
    for pid in family:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def clean_environ() -> dict[str, str]:
    """Return this process's environment without what would change the build or the communication of ranks."""
    other = (
        r"(PYTHON|PIP_(USER|TARGET|PREFIX|REQUIRE_VIRTUALENV)|CMAKE_|CCL_|FI_|I_MPI_|PMI|OMP_|KMP_|LD_|CFLAGS|CXXFLAGS"
        r"|COMPUTE_BACKEND|DEBUG)\w*"
    )
    ranks = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return {name: value for name, value in os.environ.items() if not re.fullmatch(other, name) and name not in ranks}


def run(command: Sequence[str], problem: str, **variables: str) -> None:
    """Run a command with further environment variables. Raises Problem with its last words."""
    ran = subprocess.run(
        command,
        env={**clean_environ(), **variables},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if ran.returncode:
        raise Problem(f"{problem}: {last(ran.stderr or ran.stdout)} ({shlex.join(command[:4])} ...)")


def last(text: str) -> str:
    """Return the last line of a program's output that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("WARNING")]
    return lines[-1][-400:] if lines else "it printed nothing"


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup does
            signal.signal(number, signal.default_int_handler)
    main()
