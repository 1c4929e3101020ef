"""tools/build_oneccl.py, up to the compiler. STAND-INS: sources of the same shape, and a torch that is one file.

A real build takes 15 minutes; test_oneccl.py trains with its wheel.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import build_oneccl
import pytest
from support.stand_ins import make_wheel

FP16 = "third_party/oneCCL/src/comp/fp16/fp16_intrisics"
SOURCES = {
    "setup.py": "import pathlib, time\npathlib.Path('began').touch()\ntime.sleep(600)\n",
    "version.txt": "2.8.0+xpu\n",
    "src/ProcessGroupCCL.cpp": "",
    "cmake/Modules/FindoneCCL.cmake": "find_package_handle_standard_args(oneCCL)\n",
    "third_party/oneCCL/CMakeLists.txt": 'set(CCL_MAJOR_VERSION     "2021")\nset(CCL_MINOR_VERSION     "14")\n'
    'set(COMPILER_WARN_FLAGS "-Wall -Wextra -Wno-unused-parameter -Werror ${EXTRA_WARN_FLAGS}")\n',
    f"{FP16}.cpp": "    return _mm512_add_ph(a, b);\n    return _mm512_min_ph(a, b);\n",
    f"{FP16}.hpp": "    _mm512_storeu_ph(res, vfp16_out);\n",
    **{f"third_party/oneCCL/deps/{name}": "" for name in build_oneccl.OTHER_FILES},
    **{f"third_party/oneCCL/deps/mpi/{name}": "" for name in build_oneccl.MPI_FILES},
}


class Build:
    """The arguments of a build, which tests change, and where its wheel would be."""

    def __init__(self, base: Path) -> None:
        self.source, self.directory, self.torch = base / "source", base / "wheels", base / "torch"
        for name, text in SOURCES.items():
            (self.source / name).parent.mkdir(parents=True, exist_ok=True)
            (self.source / name).write_text(text)
        (self.torch / "torch/utils").mkdir(parents=True)
        (self.torch / "torch/utils/__init__.py").touch()
        self.has_torch("2.8.0+cpu")
        self.python = base / "python"
        self.python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{self.torch}" exec {sys.executable} "$@"\n')
        self.python.chmod(0o755)
        for name, version in (("setuptools", "79.0"), ("wheel", "0.45")):
            make_wheel(base / "own", name, version)
        self.wheels = base / "own"

    def has_torch(self, version: str) -> None:
        text = f"__version__ = '{version}'\nclass _C:\n    _GLIBCXX_USE_CXX11_ABI = True\n"
        (self.torch / "torch/__init__.py").write_text(text)

    def words(self) -> list[str]:
        own = ["--source", self.source, "--directory", self.directory, "--wheels", self.wheels]
        return ["--python", str(self.python), *map(str, own)]

    def refusal(self) -> str:
        """Return the reason for which it builds nothing."""
        with pytest.raises(SystemExit) as caught:
            build_oneccl.main(self.words())
        message = str(caught.value)
        assert message.startswith("build_oneccl: ")
        assert "\n" not in message
        assert not list(self.directory.glob("*.whl")) + list(self.directory.glob(".build-*"))
        return message.removeprefix("build_oneccl: ")


@pytest.fixture
def build(tmp_path: Path) -> Build:
    return Build(tmp_path)


@pytest.mark.slow
def test_sources_of_another_version(build: Build) -> None:
    (build.source / "version.txt").write_text("2.7.0+cpu\n")
    assert build.refusal() == "--source is version 2.7.0+cpu, and this builds 2.8.0: check out its tag v2.8.0+xpu"
    (build.source / "version.txt").write_text("2.8.0+xpu\n")
    cmake = build.source / "third_party/oneCCL/CMakeLists.txt"
    cmake.write_text(cmake.read_text().replace('"14"', '"15"'))
    assert build.refusal().startswith("third_party/oneCCL is oneCCL 2021.15, and v2.8.0+xpu needs 2021.14: take commit")
    shutil.rmtree(build.source / "third_party/oneCCL")
    assert build.refusal().startswith("--source has no third_party/oneCCL: run git submodule update --init there")
    (build.source / "setup.py").unlink()
    assert build.refusal().startswith("--source has no setup.py: it is not intel/torch-ccl")


@pytest.mark.slow
def test_sources_that_are_incomplete_or_changed(build: Build) -> None:
    library = build.source / "third_party/oneCCL/deps/hwloc/lib/libhwloc.a"
    library.unlink()
    assert build.refusal().startswith("third_party/oneCCL/deps has no hwloc/lib/libhwloc.a: take a complete copy")
    library.touch()
    (build.source / f"{FP16}.hpp").write_text("something else\n")
    assert build.refusal().startswith(f"{FP16}.hpp is not as in v2.8.0+xpu")


@pytest.mark.slow
def test_sources_that_are_not_there(build: Build, tmp_path: Path) -> None:
    build.source = tmp_path / "nowhere"
    assert build.refusal() == f"--source {build.source}: there is no such file or directory"
    build.source = tmp_path / "broken.tar"
    build.source.write_bytes(b"no archive")
    assert build.refusal().startswith(f"{build.source} is no tar file that can be read")


@pytest.mark.slow
@pytest.mark.parametrize("linked", ["version.txt", "third_party/oneCCL"])
def test_sources_that_are_links_to_elsewhere(build: Build, tmp_path: Path, linked: str) -> None:
    """What they lead to is copied, and stays as it is."""
    there = tmp_path / "elsewhere"
    (build.source / linked).rename(there)
    (build.source / linked).symlink_to(Path(os.path.relpath(there, (build.source / linked).parent)))
    (build.source / "cmake/inside").symlink_to("../setup.py")
    before = {path: path.read_text() for path in (there, *there.rglob("*")) if path.is_file()}
    build_oneccl.copy(build.source, tmp_path / "copied")
    assert (tmp_path / "copied/cmake/inside").is_symlink()
    for mend in build_oneccl.MENDS:
        build_oneccl.apply(mend, tmp_path / "copied")
    assert (tmp_path / "copied/version.txt").read_text() == "2.8.0\n"
    assert {path: path.read_text() for path in before} == before
    (build.source / "setup.py").write_text("raise SystemExit('error: reached')")
    assert "error: reached" in build.refusal()
    assert {path: path.read_text() for path in before} == before


@pytest.mark.parametrize(
    ("kind", "to"), [(tarfile.SYMTYPE, "../../x"), (tarfile.LNKTYPE, "/etc/x"), (tarfile.FIFOTYPE, "")]
)
def test_a_tar_file_that_leads_out(build: Build, tmp_path: Path, kind: bytes, to: str) -> None:
    with tarfile.open(tmp_path / "source.tar", "w") as archive:
        archive.add(build.source, "torch-ccl")
        member = tarfile.TarInfo("torch-ccl/extra")
        member.type, member.linkname = kind, to
        archive.addfile(member)
    build.source = tmp_path / "source.tar"
    assert build.refusal().startswith(f"{build.source}: torch-ccl/extra is {'a link to' if to else 'neither a file'}")


@pytest.mark.slow
def test_settings_of_a_shell_that_pip_would_follow(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    (build.source / "setup.py").write_text("raise SystemExit('error: reached')")
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    monkeypatch.setenv("PIP_USER", "1")
    assert "error: reached" in build.refusal()


@pytest.mark.slow
def test_ranks_that_do_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks with sessions of their own, as torchrun starts them, end with it."""
    monkeypatch.setattr(build_oneccl, "LIMIT", 2)
    rank = f"import os, time, pathlib; pathlib.Path('{tmp_path}/rank').write_text(str(os.getpid())); time.sleep(600)"
    start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {rank!r}], start_new_session=True)"
    with pytest.raises(subprocess.TimeoutExpired):
        build_oneccl.run_group([sys.executable, "-c", start], dict(os.environ))
    end = time.monotonic() + 60
    while Path("/proc", (tmp_path / "rank").read_text(), "cwd").exists():
        assert time.monotonic() < end, "it goes on"
        time.sleep(0.1)


@pytest.mark.slow
def test_intel_mpi_that_cannot_be_had(build: Build) -> None:
    (build.source / "third_party/oneCCL/deps/mpi/lib/libmpi.so.12").unlink()
    assert build.refusal().startswith("impi-rt==2021.14.0 and impi-devel==2021.14.0 cannot be downloaded: ")
    make_wheel(build.wheels, "impi-rt", "2021.14.0")
    assert "impi-devel==2021.14.0" in build.refusal()
    make_wheel(build.wheels, "impi-devel", "2021.14.0")
    assert "have no lib/libmpi.so.12: take oneCCL's sources with deps/mpi complete" in build.refusal()


def test_a_python_that_does_not_fit(build: Build) -> None:
    build.has_torch("2.7.0+cpu")
    assert "has torch 2.7.0+cpu, and oneccl-bind-pt 2.8.0 needs torch 2.8.0" in build.refusal()
    (build.torch / "torch/__init__.py").write_text("raise ImportError('libcublas.so.12: cannot open')")
    assert "has a torch that cannot be imported: libcublas.so.12: cannot open" in build.refusal()
    build.python.write_text("#!/bin/sh\necho hello\n")
    assert build.refusal() == f"--python {build.python} is no Python: it printed 'hello'"
    build.python.unlink()
    assert build.refusal().startswith(f"--python {build.python}: there is no such program")


def test_programs_that_are_missing(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/make").symlink_to(str(shutil.which("true")))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert build.refusal().startswith("gcc, g++, cmake, readelf: not on PATH. Install them")


def test_a_disk_without_space(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_oneccl, "SPACE", 1 << 60)
    assert "GiB are free, and the build needs 1073741824 GiB: free some space" in build.refusal()


def test_mends_are_made_once(build: Build) -> None:
    for _time in range(2):
        for mend in build_oneccl.MENDS:
            build_oneccl.apply(mend, build.source)
    text = {name: (build.source / name).read_text() for name in SOURCES}
    assert text["version.txt"] == "2.8.0\n"
    assert text["cmake/Modules/FindoneCCL.cmake"].count("include(FindPackageHandleStandardArgs)\n") == 1
    assert "-Werror" not in text["third_party/oneCCL/CMakeLists.txt"]
    assert text[f"{FP16}.cpp"].splitlines()[1] == "    return (__m512)_mm512_min_ph((__m512h)a, (__m512h)b);"
    assert text[f"{FP16}.hpp"] == "    _mm512_storeu_ph(res, (__m512h)vfp16_out);\n"


@pytest.mark.slow
def test_a_build_that_fails(build: Build) -> None:
    (build.source / "setup.py").write_text("raise SystemExit('a.cpp:1: error: no such type')")
    log = build.directory / "build.log"
    assert build.refusal() == f"the build failed: a.cpp:1: error: no such type (all of it: {log})"
    assert log.read_text() == "a.cpp:1: error: no such type\n"


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 1), (signal.SIGHUP, 1)])
def test_a_build_that_is_ended_halfway(build: Build, tmp_path: Path, number: int, code: int) -> None:
    """From a tar file. Another one at the same time is refused, and the next one removes what was left."""
    with tarfile.open(tmp_path / "source.tar.gz", "w:gz") as archive:
        archive.add(build.source, "torch-ccl-2.8.0")
    build.source = tmp_path / "source.tar.gz"
    command = [sys.executable, build_oneccl.__file__, *build.words()]
    # Tests that nohup has started ignore SIGHUP, and so would the build.
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)
    )
    end = time.monotonic() + 120
    while not (began := list(build.directory.glob(".build-*/source/began"))):
        assert process.poll() is None and time.monotonic() < end, process.stderr and process.stderr.read()
        time.sleep(0.1)
    with pytest.raises(SystemExit, match=r"another build is running"):
        build_oneccl.main(build.words())
    assert began[0].exists(), "it was left alone"
    os.kill(process.pid, number)
    assert process.wait(60) == code
    if number != signal.SIGKILL:
        assert process.stderr and "interrupted; no wheel was put into the directory" in process.stderr.read()
        assert not list(build.directory.glob(".build-*"))
    else:
        _end_children(began[0].parent)
    assert not list(build.directory.glob("*.whl"))
    build.source = tmp_path / "source"
    (build.source / "setup.py").write_text("raise SystemExit('error: nothing')")
    assert "error: nothing" in build.refusal()


def _end_children(directory: Path) -> None:
    """End the processes that a killed build has left in a directory."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "cwd").readlink() == directory:
                os.kill(int(path.name), signal.SIGKILL)
        except OSError:
            continue
