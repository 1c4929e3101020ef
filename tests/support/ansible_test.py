"""Run ansible-test on a copy of the checkout: `tests/support/ansible_test.py sanity|units REPORTS [ARGUMENT ...]`.

ansible-test wants a real directory `ansible_collections/amx/cluster` that is a git checkout of its own. The copy has
uncommitted changes, too, and lies with ansible-test's home in .cache/ansible_test; the home stays, so that a second run
finds its virtual environments. JUnit reports are copied to the directory REPORTS. Further arguments are ansible-test's,
such as `tests/unit/plugins/filter/` for the tests of one directory.
"""

from __future__ import annotations

import ast
import configparser
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pip

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.checkout import BIN, COLLECTION, ROOT, git, tracked

WORK = ROOT / ".cache" / "ansible_test"
# Only a checkout needs these, and ruff and mypy check them: ansible-test's pylint would take as long again.
NOT_FOR_SANITY = ("molecule/", "tests/", "tools/")
CONFIGURATION = "tests/config.yml"
# What the commands are given. Unit tests run in a virtual environment that ansible-test makes, with what
# tests/unit/requirements.txt names and nothing else; that of modules and module_utils without the rest of Ansible.
OPTIONS = {"sanity": ["--junit"], "units": ["--venv", "--num-workers", "2"]}
# The version in the name is the one that ansible-test of ansible-core 2.19 asks for.
GET_PIP = "get_pip_24_2.py"


def make_copy(command: str, copy: Path) -> None:
    """Copy the checkout's files as they are now and make the copy a git checkout."""
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True)
    for name in tracked():
        if command != "sanity" or name == CONFIGURATION or not name.startswith(NOT_FOR_SANITY):
            target = copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target, follow_symlinks=False)
    git(copy, "init", "--quiet")
    git(copy, "add", "--all")
    if command == "units":  # programs that tests start find the collection by it
        (copy / COLLECTION).parent.mkdir(parents=True)
        (copy / COLLECTION).symlink_to(copy)


def make_home(home: Path) -> None:
    """Give ansible-test a home with its pip bootstrap script and pip's settings.

    ansible-test runs pip with hardly any environment variables, so settings that come from PIP_* or from the user's
    configuration are written into a pip.conf there.
    """
    cache = home / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    shutil.copy2(Path(__file__).with_name("get_pip.py"), cache / GET_PIP)
    link = cache / "pip"
    link.unlink(missing_ok=True)
    link.symlink_to(Path(pip.__file__).parent)

    settings = configparser.RawConfigParser()
    settings.read_dict({"global": {"quiet": "1"}})
    for section, key, value in pip_settings():
        if not settings.has_section(section):
            settings.add_section(section)
        settings.set(section, key, value.replace("\n", "\n  "))
    config = home / ".config" / "pip" / "pip.conf"
    config.parent.mkdir(parents=True, exist_ok=True)
    with config.open("w") as stream:
        settings.write(stream)


def pip_settings() -> list[tuple[str, str, str]]:
    """pip's own settings as (section, key, value), those of the environment last, since they win."""
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True
    ).stdout
    files, variables = [], []
    for line in listing.splitlines():  # such as global.timeout='60', or :env:.timeout='60' for PIP_TIMEOUT
        name, value = line.split("=", 1)
        section, key = name.rsplit(".", 1)
        if section == ":env:":
            variables.append(("global", key, str(ast.literal_eval(value))))
        else:
            files.append((section, key, str(ast.literal_eval(value))))
    return [setting for setting in files + variables if setting[1] != "config-file"]


def main(command: str, reports: Path, arguments: Sequence[str]) -> int:
    """Run ansible-test and keep its reports. Returns its exit code."""
    home = WORK / command / "home"
    copy = WORK / command / "ansible_collections" / "amx" / "cluster"
    make_copy(command, copy)
    make_home(home)
    environment = {**os.environ, "HOME": str(home)}
    for name in ("ANSIBLE_CONFIG", "ANSIBLE_COLLECTIONS_PATH", "ANSIBLE_ROLES_PATH", "XDG_CONFIG_HOME"):
        environment.pop(name, None)  # ansible-test sets its own
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    words = [command, "--python", version, "--color=no", *OPTIONS[command], *arguments]
    code = subprocess.run([str(BIN / "ansible-test"), *words], cwd=copy, env=environment, check=False).returncode
    reports.mkdir(parents=True, exist_ok=True)
    for report in (copy / "tests" / "output" / "junit").glob("*.xml"):
        shutil.copy2(report, reports)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
