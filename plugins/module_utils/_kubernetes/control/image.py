# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image of a stack: a directory from which docker or podman builds it, and a tag that follows from its content."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _ownership
from ansible_collections.amx.cluster.plugins.module_utils._io import write_text
from ansible_collections.amx.cluster.plugins.module_utils._jobs import ipex
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.control.objects import USER
from ansible_collections.amx.cluster.plugins.module_utils._kubernetes.interface import PREFIX
from ansible_collections.amx.cluster.plugins.module_utils._stacks import (
    arguments,
    catalogue,
    intel_mpi,
    requirements,
    venv,
)

TIME = 315532800
"""Of every file in the directory and in the virtual environment, 1980-01-01: a build tells files apart by it, too."""


@dataclass(frozen=True)
class Context:
    """Build context of an image. texts, files: {path in the directory: content, or the file that has it}.

    hashes: of the files whose SHA-256 is known. base: the image to start from, as the engine identifies it.
    """

    base: str
    texts: dict[str, str]
    files: dict[str, Path] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)

    def digest(self) -> str:
        """Return what changes when anything that goes into the image does."""
        digests: dict[str, str] = {"base": self.base}
        digests.update({name: hashlib.sha256(text.encode()).hexdigest() for name, text in self.texts.items()})
        for name, path in self.files.items():
            digests[name] = self.hashes.get(name) or hashlib.sha256(path.read_bytes()).hexdigest()
        return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()

    def write(self, directory: Path) -> None:
        """Make the directory anew; files are linked where that can be. Raises ValueError, OSError."""
        _ownership.remove(directory)
        _ownership.claim(directory, "image")
        for name in (*self.texts, *self.files):
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if name in self.texts:
                write_text(path, self.texts[name])
            else:
                shutil.copyfile(self.files[name], path)
                path.chmod(0o644)
            os.utime(path, (TIME, TIME))


def tag(stack: str, digest: str) -> str:
    """Return the tag of an image with this content."""
    return f"{stack}-{digest[:12]}"


def context(
    stack: Mapping[str, Any],
    wheels: list[Mapping[str, Any]],
    wheelhouse: Path,
    base: str,
    programs: Mapping[str, bytes],
    examples: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Context:
    """Return what the image of a stack is built from.

    stack: with `interpreter`, its Python. wheels, wheelhouse: those of a wheelhouse, and its directory. programs: {path
    in the image's directory of programs: contents}. examples: transformers' directory of examples. env: variables for
    the build, such as proxies; they are not kept in the image. Raises ValueError without pip among the wheels.
    """
    pip = next((str(wheel["file"]) for wheel in wheels if wheel["name"] == "pip"), "")
    if not pip:
        raise ValueError("pip is not among the wheels: add it to the packages of the stack")
    variables = oneccl_variables(stack)
    texts = {
        "Dockerfile": dockerfile(stack, examples is not None, env or {}, variables),
        "system.sh": SYSTEM.format(python=stack["interpreter"], user=USER),
        "install.sh": INSTALL.format(python=stack["interpreter"], prefix=PREFIX, pip=pip, time=TIME),
        "requirements.txt": requirements.hashed([dict(wheel) for wheel in wheels]),
        "stack.json": json.dumps(stack, indent=1, sort_keys=True) + "\n",
    }
    if variables:
        texts["published.sh"] = PUBLISHED.format(prefix=PREFIX)
        texts["torchrun"] = TORCHRUN.format(prefix=PREFIX)
    files = {f"wheels/{wheel['file']}": wheelhouse / str(wheel["file"]) for wheel in wheels}
    texts.update({f"programs/{name}": contents.decode() for name, contents in programs.items()})
    if examples:
        inside = sorted(path for path in examples.rglob("*") if path.is_file() and not path.is_symlink())
        files.update({f"examples/{path.relative_to(examples)}": path for path in inside})
    hashes = {f"wheels/{wheel['file']}": str(wheel["sha256"]) for wheel in wheels}
    return Context(base, texts, files, hashes)


def dockerfile(stack: Mapping[str, Any], examples: bool, env: Mapping[str, str], variables: Mapping[str, str]) -> str:
    """Return the Dockerfile of a stack. env: names of arguments of the build. variables: of the image."""
    return DOCKERFILE.format(
        stack=stack["name"],
        prefix=PREFIX,
        user=USER,
        marker=venv.MARKER,
        arguments="".join(f"ARG {name}\n" for name in sorted(env)),
        examples=f"COPY examples {PREFIX}/transformers/examples\n" if examples else "",
        oneccl="".join(f"ENV {name}={value}\n" for name, value in variables.items()),
        published=RUN_PUBLISHED if variables else "",
    )


def oneccl_variables(stack: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of an image with which `--ddp_backend ccl` works in a manifest of one's own.

    Such a manifest calls torchrun, as Hugging Face's PyTorchJob does. Pods of the collection set the same, and the
    interface that they find. Empty where the stack has no oneCCL, or one that needs mpirun.
    """
    if catalogue.backend_key(stack) != "ccl":
        return {}
    libfabric = intel_mpi.libfabric_of_bindings(f"{PREFIX}/env", intel_mpi.bindings_folder(stack))
    versions = catalogue.versions_of(stack)
    calls = arguments.IPEX in versions and arguments.accelerate_calls_ipex(versions)
    # Such a manifest usually has --use_ipex and --bf16: see ipex.environment.
    device = {ipex.DEVICE: "cpu"} if calls else {}
    # The name that network plugins give a pod's interface.
    return {"PATH": f"{PREFIX}/bin:{PREFIX}/env/bin:$PATH", **libfabric, "FI_TCP_IFACE": "eth0", **device}


DOCKERFILE = """\
# The image of stack {stack}, for jobs on Kubernetes. Written by amx.cluster (playbooks/image.yml).
ARG BASE
FROM ${{BASE}} AS system
{arguments}USER root
COPY system.sh /tmp/
RUN sh /tmp/system.sh && rm /tmp/system.sh

# The wheels are in no layer of the image.
FROM system AS build
COPY requirements.txt install.sh /tmp/
COPY wheels /wheels
RUN sh /tmp/install.sh

FROM system
COPY --from=build {prefix} {prefix}
COPY stack.json {prefix}/env/{marker}
{examples}COPY programs {prefix}/programs
{oneccl}{published}USER {user}:{user}
WORKDIR {prefix}
ENTRYPOINT []
# Not the one of the base image, which may be an init system's: pods write how their job stands when they have to end.
STOPSIGNAL SIGTERM
CMD ["{prefix}/env/bin/python"]
"""

SYSTEM = """\
#!/bin/sh
# Add to the base image what ranks need and it does not have. Where nothing is missing, no network is used.
set -eu
missing=""
command -v python{python} > /dev/null || missing="$missing python{python}"
command -v lscpu > /dev/null || missing="$missing util-linux"
if [ -n "$missing" ] && ! command -v apt-get > /dev/null; then
    echo "The base image has no$missing, and no apt-get to install them: name another one in image_base." >&2
    exit 1
fi
wanted="$missing"
ldconfig -p | grep -q 'libtcmalloc.*\\.so\\.4' || wanted="$wanted libtcmalloc-minimal4"
if [ -n "$wanted" ] && command -v apt-get > /dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086  # one word for each package
    if ! {{ apt-get update && apt-get install --yes --no-install-recommends $wanted; }}; then
        if [ -n "$missing" ]; then
            echo "The base image has no$missing, and its package source did not give them: name another one in" \\
                "image_base, or give the build access to the package source." >&2
            exit 1
        fi
        echo "tcmalloc is not in the image: ranks use the allocator of the C library."
    fi
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log
fi
# Libraries ask for the name of their user.
grep -q '^[^:]*:[^:]*:{user}:' /etc/passwd || echo 'trainer:x:{user}:{user}::/tmp:/bin/sh' >> /etc/passwd
"""

RUN_PUBLISHED = f"""\
COPY published.sh /tmp/
COPY torchrun {PREFIX}/bin/
RUN chmod 755 {PREFIX}/bin/torchrun && sh /tmp/published.sh && rm /tmp/published.sh
"""

# https://huggingface.co/docs/transformers/perf_train_cpu_many
PUBLISHED = """\
#!/bin/sh
# Give files the paths that Hugging Face's PyTorchJob names, in the root directory $1.
# A base image in which one cannot be made builds as well.
set -u
link() {{
    [ -e "$1" ] || [ -L "$1" ] || {{ mkdir -p "${{1%/*}}" && ln -s "$2" "$1"; }} || echo "There is no $1 in this image."
}}
link "${{1-}}/workspace/transformers" {prefix}/transformers
link "${{1-}}/usr/local/lib/libiomp5.so" {prefix}/env/lib/libiomp5.so
PATH="$PATH:/usr/sbin:/sbin"
# Not its profiler, nor its version for debugging.
tcmalloc="$(ldconfig -p |
    sed -n '/(libc6,x86-64/s/^[[:space:]]*libtcmalloc\\(_minimal\\)\\{{0,1\\}}\\.so\\.4 .* => //p' | head -n 1)"
[ -z "$tcmalloc" ] || link "${{1-}}/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4.5.9" "$tcmalloc"
exit 0
"""

# The training operator: pkg/apis/kubeflow.org/v1/pytorch_defaults.go of release 1.9, DefaultNprocPerNode.
TORCHRUN = """\
#!/bin/sh
# torchrun, with one process in this pod where its PyTorchJob has no nprocPerNode: for `auto`, by which the training
# operator replaces it, torchrun starts a process for each CPU of the node.
set -eu
if [ "${{PET_NPROC_PER_NODE-}}" = auto ]; then
    export PET_NPROC_PER_NODE=1
    echo "torchrun: 1 process in this pod, as nprocPerNode is auto: set it in the PyTorchJob for more" >&2
fi
exec {prefix}/env/bin/torchrun "$@"
"""

INSTALL = """\
#!/bin/sh
# Make the virtual environment from the wheels alone.
set -eu
python{python} -m venv --without-pip {prefix}/env
env={prefix}/env/bin/python
"$env" /wheels/{pip}/pip install --quiet --no-index --find-links=/wheels --no-deps --no-compile \
    --require-hashes --requirement=/tmp/requirements.txt
# Compiled once here: pods cannot write. Not by time, so that every build gives the same files.
"$env" -m compileall -q --invalidation-mode unchecked-hash {prefix}/env/lib > /dev/null || true
"$env" -c 'import torch.distributed, transformers; transformers.Trainer'
find {prefix} -exec touch --no-dereference --date=@{time} {{}} +
"""
