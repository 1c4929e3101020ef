"""The image of a stack: its directory, and a tag that changes with what goes into it and with nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.action import image_context
from ansible_collections.amx.cluster.plugins.module_utils._hosts import loader
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control import image
from support.checkout import BIN
from support.kubernetes_jobs import CCL_STACK, STACK
from support.modules import run_action

WHEELS: list[dict[str, Any]] = [
    {"name": "pip", "version": "26.3", "file": "pip-26.3-py3-none-any.whl", "sha256": "a" * 64},
    {"name": "torch", "version": "2.13.0", "file": "torch-2.13.0.whl", "sha256": "b" * 64},
]


@pytest.fixture
def house(tmp_path: Path) -> Path:
    folder = tmp_path / "house"
    folder.mkdir()
    for wheel in WHEELS:
        (folder / wheel["file"]).write_text(wheel["name"])
    return folder


def options(tmp_path: Path, house: Path, **more: Any) -> dict[str, Any]:
    given = {
        "path": str(tmp_path / "images"),
        "stack": STACK,
        "wheels": WHEELS,
        "wheelhouse": str(house),
        "base": "sha256:1",
    }
    return {**given, **more}


def test_the_directory(tmp_path: Path, house: Path) -> None:
    answer = run_action(image_context, options(tmp_path, house))
    made = Path(answer["path"])
    assert answer["tag"] == made.name == f"native-{answer['digest'][:12]}"
    found = {str(path.relative_to(made)) for path in made.rglob("*") if path.is_file()}
    library = "programs/ansible_collections/amx/cluster/plugins/module_utils"
    assert {"Dockerfile", "wheels/torch-2.13.0.whl", "programs/__main__.py", "stack.json"} <= found
    assert {f"{library}/_kubernetes/pod/main.py", "programs/sitecustomize.py"} <= found
    assert "--hash=sha256:" in (made / "requirements.txt").read_text()
    assert {path.stat().st_mtime for path in made.rglob("[!.]*") if path.is_file()} == {image.TIME}
    lines = (made / "Dockerfile").read_text().splitlines()
    assert "USER 1000:1000" in lines
    assert lines.index("USER 1000:1000") > lines.index("COPY programs /opt/amx-cluster/programs")
    for name in ("system.sh", "install.sh"):
        subprocess.run([str(BIN / "shellcheck"), str(made / name)], check=True)


@pytest.mark.slow
def test_torchrun_of_a_manifest_of_ones_own_finds_oneccl(tmp_path: Path, house: Path) -> None:
    def variables(stack: dict[str, Any]) -> dict[str, str]:
        made = Path(run_action(image_context, options(tmp_path, house, stack=stack))["path"])
        lines = (made / "Dockerfile").read_text().splitlines()
        return dict(line[4:].split("=", 1) for line in lines if line.startswith("ENV "))

    own = variables(CCL_STACK)
    assert own["PATH"] == "/opt/amx-cluster/bin:/opt/amx-cluster/env/bin:$PATH"
    assert (own["FI_PROVIDER"], own["FI_TCP_IFACE"]) == ("tcp", "eth0")
    assert own["FI_PROVIDER_PATH"].startswith("/opt/amx-cluster/env/lib/python3.11/site-packages/oneccl_bindings_for")
    assert "ACCELERATE_TORCH_DEVICE" not in own
    ipex = {"oneccl-bind-pt": "2.8.0", "intel-extension-for-pytorch": "2.8.0", "torch": "2.8.0", "accelerate": "1.7.0"}
    assert variables({**CCL_STACK, "packages": ipex})["ACCELERATE_TORCH_DEVICE"] == "cpu"
    assert variables(STACK) == variables({**CCL_STACK, "packages": {"oneccl-bind-pt": "2.1.100"}}) == {}


def test_files_have_the_paths_of_the_published_manifest(tmp_path: Path, house: Path) -> None:
    made = Path(run_action(image_context, options(tmp_path, house, stack=CCL_STACK))["path"])
    lines = (made / "Dockerfile").read_text().splitlines()
    assert lines.index("COPY published.sh /tmp/") < lines.index("USER 1000:1000")
    script, root = made / "published.sh", tmp_path / "root"
    subprocess.run([str(BIN / "shellcheck"), str(script)], check=True)
    openmp = root / "usr/local/lib/libiomp5.so"
    openmp.parent.mkdir(parents=True)
    openmp.write_text("of the base image")
    for _ in range(2):
        subprocess.run(["sh", str(script), str(root)], check=True)
    assert (root / "workspace/transformers").readlink() == Path("/opt/amx-cluster/transformers")
    assert openmp.read_text() == "of the base image"
    tcmalloc = root / "usr/lib/x86_64-linux-gnu/libtcmalloc.so.4.5.9"
    assert tcmalloc.is_symlink() == bool(loader.tcmalloc())
    assert not tcmalloc.is_symlink() or tcmalloc.resolve() == Path(loader.tcmalloc()).resolve()


def test_a_base_image_of_another_layout_builds(tmp_path: Path, house: Path) -> None:
    made = Path(run_action(image_context, options(tmp_path, house, stack=CCL_STACK))["path"])
    root, listed = tmp_path / "root", tmp_path / "bin/ldconfig"
    root.mkdir()
    (root / "workspace").touch()
    listed.parent.mkdir()
    lines = [
        "libtcmalloc_minimal_debug.so.4 (libc6,x86-64) => /lib/debug.so.4",
        "libtcmalloc_minimal.so.4 (libc6) => /lib/i386.so.4",
        "libtcmalloc_minimal.so.4 (libc6,AArch64) => /lib/aarch64.so.4",
        "libtcmalloc_minimal.so.4 (libc6,x86-64) => /lib/x86-64.so.4",
        "libtcmalloc_and_profiler.so.4 (libc6,x86-64) => /lib/profiler.so.4",
    ]
    listed.write_text("#!/bin/sh\n" + "".join(f"echo '\t{line}'\n" for line in lines))
    listed.chmod(0o755)
    env = {"PATH": f"{listed.parent}:/usr/bin:/bin"}
    ran = subprocess.run(
        ["sh", str(made / "published.sh"), str(root)], env=env, capture_output=True, text=True, check=True
    )
    assert f"There is no {root}/workspace/transformers in this image." in ran.stdout
    assert (root / "usr/lib/x86_64-linux-gnu/libtcmalloc.so.4.5.9").readlink() == Path("/lib/x86-64.so.4")


@pytest.mark.parametrize(
    ("variable", "started"), [("auto", "1"), ("4", "4"), (None, ""), ("", "")], ids=["auto", "number", "none", "empty"]
)
def test_torchrun_starts_one_process_for_auto(tmp_path: Path, house: Path, variable: str | None, started: str) -> None:
    made = Path(run_action(image_context, options(tmp_path, house, stack=CCL_STACK))["path"])
    subprocess.run([str(BIN / "shellcheck"), str(made / "torchrun")], check=True)
    real = tmp_path / "env/bin/torchrun"
    real.parent.mkdir(parents=True)
    real.write_text('#!/bin/sh\necho "${PET_NPROC_PER_NODE-}" "$#" "$2"\nexit 3\n')
    real.chmod(0o755)
    script = (made / "torchrun").read_text().replace("/opt/amx-cluster", str(tmp_path))
    env = {} if variable is None else {"PET_NPROC_PER_NODE": variable}
    ran = subprocess.run(["sh", "-c", script, "torchrun", "a b", "c  d"], env=env, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (3, f"{started} 2 c  d\n")
    assert ("set it in the PyTorchJob" in ran.stderr) == (variable == "auto")


def test_the_tag_follows_from_the_content(tmp_path: Path, house: Path) -> None:
    def tag(**more: Any) -> str:
        return str(run_action(image_context, options(tmp_path, house, **more), check=True)["tag"])

    first = tag()
    assert tag(path=str(tmp_path / "elsewhere")) == first
    others = {
        tag(base="sha256:2"),
        tag(stack={**STACK, "interpreter": "3.12"}),
        tag(wheels=[WHEELS[0], {**WHEELS[1], "sha256": "c" * 64}]),
        tag(examples=str(house)),
        tag(build_args={"http_proxy": "http://proxy"}),
    }
    assert len(others) == 5 and first not in others


def test_no_password_of_a_proxy_is_written(tmp_path: Path, house: Path) -> None:
    answer = run_action(image_context, options(tmp_path, house, build_args={"http_proxy": "http://me:secret@proxy"}))
    texts = [path.read_text() for path in Path(answer["path"]).rglob("*") if path.is_file()]
    assert "ARG http_proxy\n" in (Path(answer["path"]) / "Dockerfile").read_text()
    assert not any("me:secret" in text for text in texts)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"wheels": WHEELS[1:]}, "pip is not among the wheels"),
        ({"examples": "/nowhere"}, "image_examples: there is no directory /nowhere"),
    ],
)
def test_refusals(tmp_path: Path, house: Path, more: dict[str, Any], message: str) -> None:
    answer = run_action(image_context, options(tmp_path, house, **more))
    assert answer["failed"] and message in answer["msg"]
    assert not (tmp_path / "images").exists()
