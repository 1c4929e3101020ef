from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._stacks.catalogue import (
    PIP_FOR_HOSTS,
    check_archive,
    check_resolution,
    choose,
    environment_problems,
    lacking,
    locked,
    locked_requirements,
    manifest,
    masked,
    misfits,
    oldest,
    pip_arguments,
    platforms,
    requirements,
    unfit_wheels,
    wheel_versions,
    wheelhouse_key,
)
from stand_ins import make_wheel

ROOT = Path(__file__).resolve().parents[5]
FOLDER = ROOT / "roles/torch_stack"
VARS = yaml.safe_load((FOLDER / "vars/stacks.yml").read_text())
SHIPPED, KNOWN_GOOD = VARS["__torch_stack_catalogue"], VARS["__torch_stack_known_good"]
NATIVE: dict[str, Any] = {"python": ["3.11", "3.12"], "backend": "gloo", "packages": {"transformers": "5.23.0"}}
CATALOGUE = {"native": NATIVE, "ipex": {"python": ["3.9"], "backend": "ccl"}}


def test_choose() -> None:
    chosen = choose(CATALOGUE, "native", ["3.11", "3.11"])
    spelt = {"cpu": {"use_cpu": True}, "distributed": {"ddp_backend": "gloo"}, "bf16": {"bf16": True}, "ipex": {}}
    assert chosen == {"name": "native", **NATIVE, "interpreter": "3.11", "arguments": spelt}


def test_own_words_win() -> None:
    catalogue = {"mine": {**NATIVE, "arguments": {"bf16": {"half": "bf16"}}}}
    chosen = choose(catalogue, "mine", ["3.12"])
    assert chosen["arguments"]["bf16"] == {"half": "bf16"}
    assert chosen["arguments"]["cpu"] == {"use_cpu": True}


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_every_stack_of_the_catalogue_fits(name: str) -> None:
    for python in SHIPPED[name]["python"]:
        assert choose(SHIPPED, name, [python], KNOWN_GOOD)["interpreter"] == python


@pytest.mark.parametrize(
    ("packages", "error"),
    [
        (
            {"torch": "2.7.1+cpu", "intel_extension_for_pytorch": "2.8.0"},
            "torch 2.7.1 and intel-extension-for-pytorch 2.8.0 do not fit: "
            "intel-extension-for-pytorch 2.8.0 goes with torch 2.8.0",
        ),
        (
            {"torch": "1.12.1", "oneccl_bind_pt": "1.12.0"},
            "torch 1.12.1 and oneccl-bind-pt 1.12.0 do not fit: with torch 1.12.1 goes oneccl-bind-pt 1.12.100; "
            "oneccl-bind-pt 1.12.0 goes with torch 1.12.0",
        ),
        (
            {"torch": "2.2.0", "intel-extension-for-pytorch": "2.4.0"},
            "torch 2.2.0 and intel-extension-for-pytorch 2.4.0 do not fit: "
            "with torch 2.2.0 goes intel-extension-for-pytorch 2.2.x",
        ),
        (
            {"intel-extension-for-pytorch": "2.8.0"},
            "intel-extension-for-pytorch 2.8.0 needs torch, which is not among the packages",
        ),
    ],
)
def test_versions_that_do_not_fit(packages: dict[str, str], error: str) -> None:
    stack = {"backend": "gloo", "python": ["3.9"], "packages": packages}
    assert error in misfits(stack, KNOWN_GOOD)
    with pytest.raises(ValueError, match=f"^stack mine cannot work:\n  {re.escape(error)}"):
        choose({"mine": stack}, "mine", ["3.9"], KNOWN_GOOD)


@pytest.mark.parametrize(
    "packages",
    [
        {"torch": "1.13.0+cpu", "oneccl_bind_pt": "1.13"},
        {"torch": "2.5.1", "intel-extension-for-pytorch": "2.5.0", "oneccl-bind-pt": "2.5.1"},
        {"torch": "2.2.0", "intel-extension-for-pytorch": "2.2.0"},  # in no set: two numbers must agree
    ],
)
def test_versions_that_fit(packages: dict[str, str]) -> None:
    assert misfits({"backend": "gloo", "python": ["3.9"], "packages": packages}, KNOWN_GOOD) == []


def test_a_backend_that_cannot_be_had() -> None:
    stack = {"backend": "ccl", "python": ["3.9"], "packages": {"transformers": "5.23.0", "accelerate": "1.13.0"}}
    assert misfits(stack, []) == [
        "transformers 5.23.0 does not know the backend ccl: 5.0.0 is the last version that does; "
        "take it, or backend gloo",
        "backend ccl needs bindings: one of oneccl_bindings_for_pytorch, torch_ccl",
        "backend ccl is not available without oneccl-bind-pt: add it, or take backend gloo",
        "accelerate 1.13.0 does not know the backend ccl: 1.12.0 is the last version that does",
    ]


def test_a_python_without_wheels() -> None:
    stack = {**SHIPPED["ipex-1.13"], "python": ["3.10", "3.11"]}
    assert misfits(stack, KNOWN_GOOD) == [
        "torch 1.13.0 with its companions has wheels for Python 3.7 to 3.10, not for 3.11"
    ]


@pytest.mark.parametrize(
    ("name", "pythons", "error"),
    [
        ("nativ", ["3.11"], "cluster_stack: there is no stack 'nativ'; the catalogue has ipex, native"),
        (
            "native",
            ["3.12", "3.11"],
            "the hosts have different Pythons (3.11, 3.12): ranks of one job need the same, "
            "set ansible_python_interpreter",
        ),
        (
            "native",
            ["3.9"],
            "stack native has wheels for Python 3.11, 3.12 and the hosts have Python 3.9: "
            "set ansible_python_interpreter to one that fits",
        ),
    ],
)
def test_no_choice(name: str, pythons: list[str], error: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        choose(CATALOGUE, name, pythons)


def test_the_catalogue_is_whole() -> None:
    for name, stack in SHIPPED.items():
        known = {"description", "python", "backend", "packages", "constraints", "index_urls", "find_links", "bindings"}
        assert set(stack) <= known, name
        assert all(isinstance(version, str) for version in [*stack["python"], *stack["packages"].values()]), name
        pinned = dict(
            re.findall(r"^([^#=\s]+)==([^;\s]+)", (FOLDER / "files" / stack["constraints"]).read_text(), re.M)
        )
        for package, version in stack["packages"].items():
            assert pinned.get(package, version) == version, f"{name}: {package}"


def test_requirements() -> None:
    assert requirements({"torch": "2.13.0+cpu", "accelerate": "1.15.0"}) == [
        "accelerate==1.15.0",
        "torch==2.13.0+cpu",
    ]


def test_platforms() -> None:
    assert platforms("2.18")[:4] == [
        "manylinux_2_18_x86_64",
        "manylinux_2_17_x86_64",
        "manylinux2014_x86_64",
        "manylinux_2_16_x86_64",
    ]
    names = platforms("2.36")
    assert names[0] == "manylinux_2_36_x86_64"
    assert names[-3:] == ["manylinux_2_5_x86_64", "manylinux1_x86_64", "linux_x86_64"]
    with pytest.raises(ValueError, match=r"^glibc 3\.1 is not known: 2\.x is expected$"):
        platforms("3.1")


def test_oldest() -> None:
    assert oldest(["2.36", "2.4", "2.28"]) == "2.4"  # by number, not by letter
    for versions in ([], ["2.36", ""], ["musl"]):
        error = f"{versions} are not versions of the GNU C library such as 2.36"
        with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
            oldest(versions)


def test_the_key_changes_with_what_is_asked() -> None:
    asked: tuple[list[str], str, str, str] = (["a==1", "b==2"], "c==3", "3.11", "2.36")
    key = wheelhouse_key(*asked)
    assert re.fullmatch(r"cp311-[0-9a-f]{12}", key)
    assert wheelhouse_key(["b==2", "a==1"], *asked[1:]) == key
    others = {
        wheelhouse_key(["a==1"], *asked[1:]),
        wheelhouse_key(asked[0], "", *asked[2:]),
        wheelhouse_key(*asked[:2], "3.12", "2.36"),
        wheelhouse_key(*asked[:3], "2.28"),
    }
    assert len(others - {key}) == 4


def test_pip_arguments() -> None:
    assert pip_arguments("3.11", "2.5") == [
        "--only-binary=:all:",
        "--implementation=cp",
        "--python-version=3.11",
        "--abi=cp311",
        "--abi=abi3",
        "--abi=none",
        "--platform",
        "manylinux_2_5_x86_64",
        "--platform",
        "manylinux1_x86_64",
        "--platform",
        "linux_x86_64",
    ]


def report(**packages: str) -> dict[str, Any]:
    """A report of `pip install --dry-run --report`."""
    return {"install": [{"metadata": {"name": name, "version": version}} for name, version in packages.items()]}


def test_a_cpu_build_is_accepted() -> None:
    assert check_resolution(report(torch="2.13.0+cpu", numpy="2.1")) == {"torch": "2.13.0+cpu", "numpy": "2.1"}


def test_a_cuda_build_is_refused() -> None:
    error = (
        "torch 2.13.0+cu126 is a CUDA build: it would bring nvidia-nccl-cu12, triton onto hosts without a GPU. "
        "Pin torch as 2.13.0+cpu and make the index with CPU builds reachable, or bring its wheel along"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        check_resolution(report(**{"torch": "2.13.0+cu126", "triton": "3", "nvidia-nccl-cu12": "2"}))


def test_manifest_and_its_locked_requirements(tmp_path: Path) -> None:
    made = make_wheel(tmp_path, "Typing_Extensions", "4.1", files={"typing_extensions.py": "pass\n"})
    make_wheel(tmp_path, "a.b", "1.0+cpu", "cp311-cp311-linux_x86_64")
    (tmp_path / "notes.txt").touch()
    made_of = manifest(tmp_path)
    first, second = made_of["wheels"]
    assert first == {
        "file": "Typing_Extensions-4.1-py3-none-any.whl",
        "name": "typing-extensions",
        "version": "4.1",
        "sha256": hashlib.sha256(made.read_bytes()).hexdigest(),
        "bytes": made.stat().st_size,
        "unpacked": first["unpacked"],
    }
    assert 5 < first["unpacked"] < first["bytes"]
    assert locked_requirements(made_of) == (
        f"typing-extensions==4.1 --hash=sha256:{first['sha256']}\na-b==1.0+cpu --hash=sha256:{second['sha256']}\n"
    )
    assert wheel_versions(made_of["wheels"]) == {"typing-extensions": "4.1", "a-b": "1.0+cpu"}


def test_half_a_wheel(tmp_path: Path) -> None:
    made = make_wheel(tmp_path, "a", "1")
    made.write_bytes(made.read_bytes()[:100])
    with pytest.raises(ValueError, match=rf"^{made} is not a whole wheel \(.*\): remove it and run again$"):
        manifest(tmp_path)


def test_locked() -> None:
    item: dict[str, Any] = {
        "metadata": {"name": "torch", "version": "2.8.0+cpu"},
        "download_info": {
            "url": "https://index.example/torch-2.8.0%2Bcpu-cp311-cp311-linux_x86_64.whl",
            "archive_info": {"hashes": {"sha256": "ab"}},
        },
    }
    assert locked({"install": [item]}) == [
        {
            "file": "torch-2.8.0+cpu-cp311-cp311-linux_x86_64.whl",
            "name": "torch",
            "version": "2.8.0+cpu",
            "sha256": "ab",
        }
    ]
    item["download_info"]["archive_info"] = {}
    with pytest.raises(ValueError, match=r"^the index gives no SHA-256 for torch-2\.8\.0\+cpu-"):
        locked({"install": [item]})


@pytest.mark.parametrize(
    ("tag", "fits"),
    [
        ("py3-none-any", True),
        ("py2.py3-none-manylinux_2_28_x86_64", True),
        ("cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64", True),
        ("cp38-abi3-manylinux2014_x86_64", True),
        ("cp312-abi3-manylinux2014_x86_64", False),
        ("cp312-cp312-manylinux2014_x86_64", False),
        ("cp311-cp311-manylinux_2_34_x86_64", False),
        ("cp311-cp311-manylinux_2_28_aarch64", False),
    ],
)
def test_unfit_wheels(tag: str, fits: bool) -> None:
    file = f"a-1.0-{tag}.whl"
    assert unfit_wheels([{"file": file}], "3.11", "2.31") == ([] if fits else [file])


def test_an_archive_for_something_else() -> None:
    brought = {
        "wheels": [{"file": "torch-2.8.0+cpu-cp311-cp311-linux_x86_64.whl", "name": "torch", "version": "2.8.0+cpu"}]
    }
    check_archive(brought, ["torch==2.8.0+cpu"], "3.11", "2.31")
    check_archive(brought, ["torch==2.8.0"], "3.11", "2.31")
    error = (
        "the archive lacks torch==2.7.0+cpu (it has 2.8.0+cpu), datasets==4.0.0 (it has none): "
        "collect it again for this stack"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        check_archive(brought, ["torch==2.7.0+cpu", "datasets==4.0.0"], "3.11", "2.31")
    error = (
        "the archive was collected for other hosts: these have Python 3.12 and glibc 2.31, which cannot use "
        "torch-2.8.0+cpu-cp311-cp311-linux_x86_64.whl"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        check_archive(brought, ["torch==2.8.0"], "3.12", "2.31")


def test_lacking_requirements() -> None:
    text = """
    accelerate >= 0.12.0
    protobuf
    sentencepiece != 0.1.92  # for some models
    torch>=1.3
    old-thing; python_version < "3"
    --extra-index-url https://example.com
    """
    versions = {"accelerate": "1.10.1", "datasets": "4.0.0", "torch": "2.8.0+cpu"}
    assert lacking(text.splitlines(), versions) == {
        "lacking": ["protobuf", "sentencepiece != 0.1.92"],
        "wrong": [],
    }
    text = "datasets >= 1.8.0, < 3\ngit+https://example.com/x.git\nthing @ https://example.com/thing.whl\nprotobuf"
    pin = "is not a name and versions: pin it as NAME==VERSION"
    assert lacking(text.splitlines(), versions) == {
        "lacking": ["protobuf"],
        "wrong": [
            "datasets >= 1.8.0, < 3 would move datasets from 4.0.0, which the stack pins",
            f"git+https://example.com/x.git {pin}",
            f"thing @ https://example.com/thing.whl {pin}",
        ],
    }


def test_masked() -> None:
    assert masked("at https://me:pass@index.example/simple and https://index.example/a@b") == (
        "at https://***@index.example/simple and https://index.example/a@b"
    )


def test_pip_resolves_for_the_hosts_python(tmp_path: Path) -> None:
    house = tmp_path / "house"
    make_wheel(house, "a", "1", requires=['old; python_version < "3.10"', 'new; python_version >= "3.13"'])
    make_wheel(house, "old", "1")
    make_wheel(house, "new", "1")
    for python, companion in (("3.9", "old"), ("3.12", None), ("3.13", "new")):
        report = tmp_path / f"{python}.json"
        arguments = [*pip_arguments(python, "2.36"), "--no-index", "--find-links", str(house), "--quiet", "a"]
        dry = ["install", "--dry-run", "--ignore-installed", "--target", str(tmp_path), "--report", str(report)]
        subprocess.run([sys.executable, "-c", PIP_FOR_HOSTS, python, *dry, *arguments], check=True)
        found = check_resolution(json.loads(report.read_text()))
        assert set(found) == {"a", *([companion] if companion else [])}, python


@pytest.mark.parametrize(
    ("result", "problems"),
    [
        ({"rc": 0, "stdout": 'a warning\n{"problems": []}\n'}, []),
        ({"rc": 0, "stdout": json.dumps({"problems": ["a; b"]})}, ["a; b"]),
        (
            {"rc": -4, "stdout": "", "stderr": "Illegal\ninstruction"},
            ["its check did not come to an end (exit code -4): Illegal instruction"],
        ),
        ({"rc": 1, "stdout": "7"}, ["its check did not come to an end (exit code 1): it said nothing"]),
        ({"rc": 1, "stdout": "{}"}, ["its check did not come to an end (exit code 1): it said nothing"]),
        ({"msg": "timed out"}, ["its check did not come to an end (exit code None): timed out"]),
    ],
)
def test_environment_problems(result: dict[str, Any], problems: list[str]) -> None:
    assert environment_problems(result) == problems
