# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pip and uv on the control node, which choose wheels for the hosts and not for the Python that runs them.

uv resolves; pip downloads what was resolved, as it is configured here.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._stacks import indexes, requirements, uv, wheels
from ansible_collections.amx.cluster.plugins.module_utils._text import masked

# Runs a command with further environment variables, as AnsibleModule.run_command does: (exit code, output, errors).
# pass_fds: file descriptors that it inherits.
Run = Callable[..., "tuple[int, str, str]"]

# Packages that the CUDA build of torch requires. Others with such names are for any host, as nvidia-ml-py.
CUDA = re.compile(r"(nvidia-(cu\w+|nccl|nvjitlink|nvshmem|nvtx)|cuda)(-.*)?|triton")

# Where only the CUDA build of torch can be reached. The sizes are of the stack native, measured on Python 3.12.
WAYS_OUT = """Ways out:
- set torch_stack_index_urls to a mirror of https://download.pytorch.org/whl/cpu that the control node reaches;
- collect the wheels on a machine that reaches the index, copy their directory or a tar file of it here, and set
  torch_stack_source to archive and torch_stack_archive to its path (docs/stacks.md, "Wheel sources");
- set torch_stack_cuda_build to allow, which takes the CUDA build: it computes on CPUs as well, but of the stack native
  3.1 GB of wheels are downloaded instead of 0.6 GB, and each host needs 5.5 GiB of disk space instead of 1.9 GiB"""

BINDINGS_OUT = (
    "No index that answers has this oneccl-bind-pt: build 2.8.0 by tools/build_oneccl.py for the stack ipex-2.8 "
    '(docs/stacks.md, "oneCCL"), or set cluster_stack: ipex-2.8-gloo'
)


def arguments(python: str, glibc: str) -> list[str]:
    """Return the arguments that make pip choose wheels for a host's Python and C library instead of its own."""
    names = [argument for name in wheels.platforms(glibc) for argument in ("--platform", name)]
    abi = f"cp{python.replace('.', '')}"
    return [
        "--only-binary=:all:", "--implementation=cp", f"--python-version={python}", f"--abi={abi}", "--abi=abi3",
        "--abi=none", *names,
    ]  # fmt: skip


# Prints pip's options as its own parser reads them from files and environment variables, where they are not its
# defaults. `pip install` is what users configure; what they have for other commands alone is added.
SETTINGS = """
import json
from pip._internal.commands import create_command
found = {}
for name in ("wheel", "download", "install"):
    parser = create_command(name).parser
    given = vars(parser.get_default_values())
    found.update({key: given.get(key) for key in %r if given.get(key) != parser.defaults.get(key)})
found.setdefault("index_url", parser.defaults["index_url"])
print(json.dumps(found))
"""


def settings(run: Run) -> dict[str, Any]:
    """Return how pip is configured here, {option of indexes.REACH: value}, with its main index in any case.

    What its lists of indexes have beside URLs and directories is left out, as pip does (a comment behind a URL, say).
    Raises ValueError without pip, and for what it cannot read.
    """
    code, output, errors = run([sys.executable, "-c", SETTINGS % (tuple(indexes.REACH),)], {})
    if code:
        reason = masked(errors.strip())
        # As pip says it, without how each of its commands is used.
        if re.search(r"\bconfiguration\b|is not a valid value for", reason, re.IGNORECASE):
            reason = " ".join(reason.rpartition("\n\n")[2].split())
            raise ValueError(
                f"the configuration of pip on the control node cannot be read: {reason}. Correct it "
                f"({sys.executable} -m pip config debug names its files and variables)"
            )
        raise ValueError(f"{sys.executable} has no pip that works: {reason}")
    options = dict(json.loads(output.strip().splitlines()[-1]))
    main = options["index_url"].split()
    if len(main) != 1:
        raise ValueError(
            f"the configuration of pip on the control node has {len(main)} URLs as index-url, which takes one: write "
            f"the others as extra-index-url ({sys.executable} -m pip config debug names the files)"
        )
    for name in ("extra_index_urls", "find_links"):
        there = [
            item for item in options.pop(name, None) or [] if re.match(r"[a-z][a-z+.-]*:", item, re.I) or is_path(item)
        ]
        options.update({name: there} if there else {})
    return {**options, "index_url": main[0]}


def is_path(text: str) -> bool:
    return Path(text).expanduser().exists()


class Pip:
    """pip and uv for hosts with this Python ("3.11") and glibc ("2.36"), with these environment variables.

    unreachable: the indexes that do not answer, each with the reason, for messages.
    """

    def __init__(
        self,
        run: Run,
        python: str,
        glibc: str,
        variables: Mapping[str, str],
        unreachable: Iterable[str] = (),
    ) -> None:
        self.execute = run
        self.variables = variables
        self.unreachable = list(unreachable)
        self.common = ["--quiet", "--no-input", "--disable-pip-version-check", *arguments(python, glibc)]
        self.for_hosts = uv.arguments(python, glibc)

    def run(self, command: str, *words: str) -> None:
        """Run a command of pip. Raises ValueError with its last lines."""
        self._run([sys.executable, "-m", "pip", command, *self.common, *words], self.variables)

    def _run(self, command: list[str], variables: Mapping[str, str]) -> str:
        """Run a command and return what it prints. Raises ValueError with its last lines."""
        code, output, errors = self.execute(command, variables)
        if code:
            if "No module named uv" in errors:
                raise ValueError(f"{sys.executable} has no uv, which resolves for the hosts: run pip install uv there")
            lines = [line for line in (errors or output).splitlines() if line.strip()]
            last = [line for line in lines if not line.startswith("WARNING")][-6:]
            tried = "".join(f"\nNot reachable: {index}" for index in self.unreachable)
            # As pip and uv name a requirement for which no index has a version.
            lost = re.search(
                r"(?:No matching distribution found for|satisfies the requirement|no version of) torch==\S+\+cpu",
                " ".join(errors.split()),
            )
            ways = f"\nNo index that answers has the CPU build of torch. {WAYS_OUT}" if lost else ""
            if re.search(r"(?:Because|found for) oneccl-bind-pt\b", errors):
                ways += f"\n{BINDINGS_OUT}"
            raise ValueError("the wheels could not be collected: " + masked("\n".join(last)) + tried + ways)
        return output

    def resolve(
        self,
        wanted: Iterable[str],
        constraints: str | None,
        installed: Mapping[str, str],
        scratch: Path,
        excluded: Iterable[str] = (),
    ) -> dict[str, str]:
        """Return {name: version} of all that the requirements need on the hosts, as uv resolves them.

        constraints: a constraints file. installed: {name: version} that nothing may change. scratch: a directory
        of this run alone. excluded: packages that are left out although others require them.
        """
        file = scratch / "requirements.in"
        file.write_text("\n".join(map(uv.requirement, wanted)), encoding="utf-8")
        limits = [*filter(None, [constraints]), *self.variables.get("PIP_CONSTRAINT", "").split()]
        if installed:
            limits.append(str(scratch / "installed.txt"))
            Path(limits[-1]).write_text("\n".join(requirements.pinned(installed)), encoding="utf-8")
        words = [word for limit in limits for word in ("--constraint", limit)]
        if self.variables.get("PIP_NO_INDEX"):
            words.append("--no-index")
        if excluded:
            (scratch / "excluded.txt").write_text("\n".join(excluded), encoding="utf-8")
            words += ["--excludes", str(scratch / "excluded.txt")]
        compile_words = ["-m", "uv", "pip", "compile", str(file), *self.for_hosts, *words]
        command = uv.command([sys.executable, *compile_words], os.environ)
        return uv.versions(self._run(command, uv.variables(self.variables)))

    def report(self, pinned: Iterable[str], scratch: Path) -> dict[str, Any]:
        """Return pip's report of these pinned packages, without their dependencies."""
        file = scratch / "report.json"
        dry = ["--dry-run", "--ignore-installed", "--no-deps", "--target", str(scratch), "--report", str(file)]
        self.run("install", *dry, *pinned)
        return dict(json.loads(file.read_text(encoding="utf-8")))


def refuse_cuda(versions: Mapping[str, str]) -> None:
    """Raise ValueError when a CUDA package is among {name: version}: the resolver took the CUDA build of torch."""
    cuda = sorted(name for name in versions if CUDA.fullmatch(requirements.canonical(name)))
    if cuda:
        torch = versions.get("torch", "which is not among them")
        raise ValueError(
            f"torch {torch} is a CUDA build: it would install {', '.join(cuda)} on hosts without a GPU. Pin torch as "
            f"{torch.partition('+')[0]}+cpu to have its CPU build. {WAYS_OUT}"
        )


def locked(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return [{file, name, version, sha256}] of what pip would install, from its report, without downloading it.

    Raises ValueError when an index gives no SHA-256 of a wheel: then nobody could verify it.
    """
    wheels = []
    for item in report["install"]:
        archive = item["download_info"].get("archive_info", {})
        digest = archive.get("hashes", {}).get("sha256") or archive.get("hash", "").partition("sha256=")[2]
        file = item["download_info"]["url"].rpartition("/")[2].replace("%2B", "+")
        if not digest:
            raise ValueError(
                f"the index gives no SHA-256 for {file}, so hosts could not verify it: "
                "set torch_stack_source to wheelhouse"
            )
        wheels.append(
            {
                "file": file,
                "name": requirements.canonical(item["metadata"]["name"]),
                "version": item["metadata"]["version"],
                "sha256": digest,
            }
        )
    return sorted(wheels, key=lambda wheel: str(wheel["file"]))
