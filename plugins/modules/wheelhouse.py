#!/usr/bin/python
# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: wheelhouse
short_description: Collect the wheels of pinned Python packages for other hosts
version_added: 0.1.0
author:
  - The amx.cluster maintainers (@amx-cluster)
description:
  - Resolves pinned packages for the Python and the C library of the hosts, which may differ from those of the machine
    it runs on, and downloads their wheels into a folder, with a manifest of versions and SHA-256 sums.
  - Fails before it downloads anything when the resolution holds CUDA packages.
  - The folder appears whole or not at all. An interrupted download is taken up again by the next run.
  - Runs where there is a way to a package index, normally on the control machine, with pip as it is configured there.
    Where there is none, wheels can be brought along in O(archive).
extends_documentation_fragment:
  - amx.cluster.attributes
  - amx.cluster.attributes.idempotent_module
  - amx.cluster.package_indexes
options:
  path:
    description:
      - The folder under which wheelhouses are kept. The wheelhouse is a folder in it, named for what was asked.
    type: path
    required: true
  requirements:
    description: What to collect, pinned as C(NAME==VERSION).
    type: list
    elements: str
    required: true
  constraints:
    description: A constraints file for pip, which pins what the requirements bring along.
    type: path
  dependencies:
    description: Whether what the requirements depend on is collected too.
    type: bool
    default: true
  installed:
    description:
      - Packages that the hosts have already, their versions by their names. What is collected must fit them, and they
        themselves are left out.
    type: dict
    default: {}
  unpacked:
    description: Whether the wheels are also unpacked, into a folder C(packages) of the wheelhouse.
    type: bool
    default: false
  python:
    description: The minor version of the hosts' Python, such as V(3.11).
    type: str
    required: true
  glibc:
    description: The versions of the hosts' GNU C library, such as V(2.36). The oldest decides.
    type: list
    elements: str
    required: true
  only:
    description:
      - The packages whose wheels are downloaded; all are resolved, and are in the manifest with their SHA-256. For
        hosts that fetch the others themselves. Default is all of them.
    type: list
    elements: str
  archive:
    description:
      - A wheelhouse that was collected elsewhere, as a folder or as a tar file of one. Nothing is fetched then. Its
        wheels are verified by its manifest.
    type: path
  index_url:
    description: The package index, instead of the one that pip is configured with. V(none) for no index at all.
    type: str
  index_urls:
    description: Further package indexes. One that does not answer within O(index_timeout) is left out.
    type: list
    elements: str
    default: []
  find_links:
    description: Folders with wheels, and pages with links to them. One that does not answer is left out.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Collect the wheels once, on the control machine
  amx.cluster.wheelhouse:
    path: ~/.cache/amx.cluster/wheelhouse
    requirements: [torch==2.13.0+cpu, transformers==5.23.0]
    python: "3.11"
    glibc: ["2.36", "2.31"]
    index_urls: [https://download.pytorch.org/whl/cpu]
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
path:
  description: The wheelhouse.
  returned: success
  type: str
key:
  description: Its name, made from what was asked; it changes when anything of that does.
  returned: success
  type: str
wheels:
  description: What it holds; empty in check mode when there is none yet.
  returned: success
  type: list
  elements: dict
  sample:
    - file: torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl
      name: torch
      version: 2.13.0+cpu
      sha256: 5f04b2bd1f9f7a9e
      bytes: 190000000
      unpacked: 700000000
unreachable_indexes:
  description: The indexes that did not answer, each with the reason.
  returned: when wheels were collected
  type: list
  elements: str
"""

import hashlib
import json
import os
import re
import shutil
import sys
import tarfile
import tempfile
import threading
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.amx.cluster.plugins.module_utils._data import file_set
from ansible_collections.amx.cluster.plugins.module_utils._stacks import catalogue, indexes


def configured(module: AnsibleModule) -> dict[str, str]:
    """Return how pip is configured here: {setting: value}; an environment variable wins over a file."""
    _code, output, _errors = module.run_command([sys.executable, "-m", "pip", "config", "list"])
    found = re.findall(r"^(\S+?)\.([\w-]+)='(.*)'$", output, re.M)
    return {name: value for _section, name, value in sorted(found, key=lambda item: item[0] == ":env:")}


def default_index(module: AnsibleModule) -> str:
    """Return the index that pip asks when none is configured, as pip itself names it."""
    code = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    return str(module.run_command([sys.executable, "-c", code], check_rc=True)[1]).strip()


def why_silent(url: str, timeout: int, certificate: str | None, login: dict[str, str] | None) -> str:
    """Return why an index does not answer, or an empty string."""
    if "://" not in url:
        return "" if Path(re.sub(r"^~(?=/|$)", str(Path.home()), url)).is_dir() else "there is no such folder"
    given = (
        {"url_username": login["user"], "url_password": login["password"], "force_basic_auth": True} if login else {}
    )
    try:
        open_url(url, method="HEAD", timeout=timeout, ca_path=certificate, **given)
    except HTTPError as error:
        # Any other answer is one: not every index has a page at its root.
        return f"HTTP {error.code}, log in with credentials" if error.code in (401, 403, 407) else ""
    except Exception as error:  # anything at all may go wrong on the way, and every reason is told
        return str(error)
    return ""


def probe(urls: list[str], asked: dict[str, Any], certificate: str | None) -> dict[str, str]:
    """Return {url: why it does not answer} for those that do not; all are asked at once, for index_timeout seconds."""
    reasons = dict.fromkeys(urls, f"no answer within {asked['index_timeout']} s")
    logins = {login["host"]: login for login in asked["credentials"]}

    def ask(url: str) -> None:
        host = re.sub(r"^\w+://([^/@]*@)?", "", url).partition("/")[0].partition(":")[0]
        reasons[url] = why_silent(url, asked["index_timeout"], certificate, logins.get(host))

    # The name service knows no time limit, so the threads are left to themselves when time is up.
    threads = [threading.Thread(target=ask, args=(url,), daemon=True) for url in urls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(asked["index_timeout"])
    return {url: reason for url, reason in reasons.items() if reason}


class Pip:
    """pip, choosing for the hosts, with the indexes that answer."""

    def __init__(self, module: AnsibleModule, scratch: Path, glibc: str) -> None:
        self.module = module
        asked = module.params
        settings = configured(module)
        certificate = asked["ca_certificate"] or settings.get("cert")
        self.environment = indexes.variables(asked, scratch, certificate)
        # Not only pip's: whether an index answers is asked through the proxy, too.
        os.environ.update({name: value for name, value in self.environment.items() if name.lower().endswith("_proxy")})
        main = asked["index_url"] or settings.get("index-url") or default_index(module)
        mains = [] if main == "none" else [main]
        silent = probe([*mains, *asked["index_urls"], *asked["find_links"]], asked, certificate)
        self.silent = [catalogue.masked(f"{url}: {reason}") for url, reason in silent.items()]
        answering = [url for url in [*mains, *asked["index_urls"]] if url not in silent]
        # Through the environment, not as arguments: a URL may hold a password, and arguments are seen by everyone.
        self.environment["PIP_INDEX_URL"] = answering[0] if answering else ""
        if main == "none" or not answering:
            self.environment["PIP_NO_INDEX"] = "1"
        extra = [*answering[1:], *([] if main == "none" else settings.get("extra-index-url", "").split())]
        self.environment["PIP_EXTRA_INDEX_URL"] = " ".join(extra)
        links = [url for url in asked["find_links"] if url not in silent]
        self.environment["PIP_FIND_LINKS"] = " ".join([*links, *settings.get("find-links", "").split()])
        self.common = [
            *("--quiet", "--no-input", "--disable-pip-version-check"),
            *catalogue.pip_arguments(asked["python"], glibc),
        ]

    def run(self, command: str, *arguments: str) -> None:
        """Run pip and fail the module with its last words."""
        program = [sys.executable, "-c", catalogue.PIP_FOR_HOSTS, self.module.params["python"]]
        code, output, errors = self.module.run_command(
            [*program, command, *self.common, *arguments], environ_update=self.environment
        )
        if code:
            said = [line for line in (errors or output).splitlines() if line.strip() and not line.startswith("WARNING")]
            tried = "".join(f"\nNot reachable: {line}" for line in self.silent)
            told = catalogue.masked("\n".join(said[-6:]))
            self.module.fail_json(msg=f"pip could not collect the wheels: {told}{tried}", rc=code)

    def resolve(self, scratch: Path) -> dict[str, Any]:
        """Return pip's report of what the requirements come to."""
        asked = self.module.params
        report = scratch / "report.json"
        limits = ["--constraint", asked["constraints"]] if asked["constraints"] else []
        if asked["installed"]:
            file = scratch / "installed.txt"
            file.write_text("\n".join(catalogue.requirements(asked["installed"])), encoding="utf-8")
            limits += ["--constraint", str(file)]
        dry = ["--dry-run", "--ignore-installed", "--target", str(scratch), "--report", str(report)]
        self.run("install", *dry, *limits, *asked["requirements"])
        return dict(json.loads(report.read_text(encoding="utf-8")))


def collect(module: AnsibleModule, staging: Path, glibc: str) -> tuple[dict[str, Any], list[str]]:
    """Fill `staging` with the wheels; return their manifest and the indexes that did not answer."""
    asked = module.params
    staging.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        pip = Pip(module, Path(folder), glibc)
        pinned, lock = asked["requirements"], []
        if asked["dependencies"]:
            report = pip.resolve(Path(folder))
            found = catalogue.check_resolution(report)
            have = set(map(catalogue.canonical, asked["installed"]))
            pinned = catalogue.requirements(
                {name: v for name, v in found.items() if catalogue.canonical(name) not in have}
            )
            lock = catalogue.locked(report) if asked["only"] is not None else []
        only = None if asked["only"] is None else {catalogue.canonical(name) for name in asked["only"]}
        fetched = [pin for pin in pinned if only is None or catalogue.canonical(pin.partition("==")[0]) in only]
        # What an interrupted run left is taken as it is, but nothing that is no longer wanted.
        wanted = {
            (catalogue.canonical(name), version) for name, _sep, version in (pin.partition("==") for pin in fetched)
        }
        for path in staging.glob("*.whl"):
            name, version = path.name.split("-")[:2]
            if (catalogue.canonical(name), version) not in wanted:
                path.unlink()
        pip.run("download", "--no-deps", "--dest", str(staging), *fetched)
        if asked["unpacked"]:
            target = staging / "packages"
            shutil.rmtree(target, ignore_errors=True)
            wheels = sorted(map(str, staging.glob("*.whl")))
            pip.run("install", "--no-deps", "--no-compile", "--target", str(target), *wheels)
    made = catalogue.manifest(staging)
    if only is not None:
        here = {wheel["name"]: wheel for wheel in made["wheels"]}
        made["wheels"] = [here.get(wheel["name"], wheel) for wheel in lock]
    return made, pip.silent


def read_archive(archive: Path) -> dict[str, Any]:
    """Return the manifest of an archive. Raises ValueError when it has none."""
    try:
        if archive.is_dir():
            return dict(json.loads((archive / catalogue.MANIFEST).read_text(encoding="utf-8")))
        with tarfile.open(archive) as tar:
            member = next((item for item in tar if Path(item.name).name == catalogue.MANIFEST), None)
            content = tar.extractfile(member) if member else None
            if content:
                return dict(json.load(content))
    except FileNotFoundError:
        pass
    except (OSError, tarfile.TarError, ValueError) as error:
        raise ValueError(f"the archive {archive} cannot be read: {error}") from error
    raise ValueError(
        f"the archive {archive} has no {catalogue.MANIFEST}: bring along a whole folder that a control machine with a "
        "network collected (in torch_stack_wheelhouse), or a tar file of it"
    )


def unpack(archive: Path, staging: Path, brought: dict[str, Any]) -> None:
    """Put the archive's wheels into `staging`. Raises ValueError when one is not as its manifest says."""
    if staging.exists():
        shutil.rmtree(staging)
    staging.mkdir(parents=True)
    names = {wheel["file"] for wheel in brought["wheels"]}
    if archive.is_dir():
        for name in names & {path.name for path in archive.iterdir()}:
            shutil.copy2(archive / name, staging / name)
    else:
        with tarfile.open(archive) as tar:
            for member in tar:
                content = tar.extractfile(member) if Path(member.name).name in names else None
                if content:
                    with (staging / Path(member.name).name).open("wb") as stream:
                        shutil.copyfileobj(content, stream, 1 << 20)
    changed = file_set.changed(staging, brought["wheels"], file_set.Known(None))
    if changed:
        told = ", ".join(f"{file} {what}" for file, what in sorted(changed.items()))
        raise ValueError(f"the archive {archive} is not whole: {told}; bring it along again")


def finish(staging: Path, house: Path, made: dict[str, Any]) -> None:
    """Write what belongs to the wheels, and put the folder into its place."""
    (staging / "requirements.txt").write_text(catalogue.locked_requirements(made), encoding="utf-8")
    (staging / catalogue.MANIFEST).write_text(json.dumps(made, indent=1), encoding="utf-8")
    staging.replace(house)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "requirements": {"type": "list", "elements": "str", "required": True},
            "constraints": {"type": "path"},
            "dependencies": {"type": "bool", "default": True},
            "installed": {"type": "dict", "default": {}},
            "unpacked": {"type": "bool", "default": False},
            "python": {"type": "str", "required": True},
            "glibc": {"type": "list", "elements": "str", "required": True},
            "only": {"type": "list", "elements": "str"},
            "archive": {"type": "path"},
            "index_url": {"type": "str"},
            "index_urls": {"type": "list", "elements": "str", "default": []},
            "find_links": {"type": "list", "elements": "str", "default": []},
            **indexes.ARGUMENTS,
        },
        supports_check_mode=True,
    )
    asked = module.params
    try:
        limits = Path(asked["constraints"]).read_text(encoding="utf-8") if asked["constraints"] else ""
        if asked["installed"] or asked["unpacked"]:
            limits = json.dumps([limits, sorted(catalogue.requirements(asked["installed"])), asked["unpacked"]])
        glibc = catalogue.oldest(asked["glibc"])
        brought: dict[str, Any] | None = None
        if asked["archive"]:
            brought = read_archive(Path(asked["archive"]))
            catalogue.check_archive(brought, asked["requirements"], asked["python"], glibc)
            digest = hashlib.sha256(catalogue.locked_requirements(brought).encode()).hexdigest()[:12]
            key = f"cp{asked['python'].replace('.', '')}-{digest}"
        else:
            key = catalogue.wheelhouse_key(asked["requirements"], limits, asked["python"], glibc)
        # Where only some wheels are kept, they are no wheelhouse of that key.
        house = Path(asked["path"], key if asked["only"] is None else key + "-lock")
        result: dict[str, Any] = {"changed": False, "path": str(house), "key": key, "wheels": []}
        if house.is_dir():
            result["wheels"] = json.loads((house / catalogue.MANIFEST).read_text(encoding="utf-8"))["wheels"]
            module.exit_json(**result)
        result["changed"] = True
        if not module.check_mode:
            staging = house.with_name(house.name + ".partial")
            if brought:
                unpack(Path(asked["archive"]), staging, brought)
                made = catalogue.manifest(staging)
            else:
                made, result["unreachable_indexes"] = collect(module, staging, glibc)
            finish(staging, house, made)
            result["wheels"] = made["wheels"]
    except (OSError, ValueError) as error:
        module.fail_json(msg=catalogue.masked(str(error)))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
