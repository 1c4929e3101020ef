"""Run `ansible-test sanity` on a copy of the checkout: `tests/support/ansible_test_sanity.py REPORTS_FOLDER`.

ansible-test wants a real directory `ansible_collections/amx/cluster` that is a git checkout of its own. The copy has
what users get, uncommitted changes included, and lies with ansible-test's home in .cache/sanity; the home stays, so
that a second run finds its virtual environments. JUnit reports are copied to REPORTS_FOLDER.
"""

from __future__ import annotations

import ast
import configparser
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pip

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.checkout import BIN, ROOT, git, tracked

WORK = ROOT / ".cache" / "sanity"
HOME = WORK / "home"
COPY = WORK / "ansible_collections" / "amx" / "cluster"
# Only a checkout needs these, and ruff and mypy check them: ansible-test's pylint would take as long again. The link in
# .collections would lead ansible-test round in a circle.
LEFT_OUT = (".collections/", "molecule/", "tests/", "tools/")
# The version in the name is the one that ansible-test of ansible-core 2.19 asks for.
GET_PIP = "get_pip_24_2.py"


def make_copy() -> None:
    """Copy the checkout's files as they are now to COPY and make that a git checkout."""
    shutil.rmtree(COPY, ignore_errors=True)
    COPY.mkdir(parents=True)
    for name in tracked():
        if not name.startswith(LEFT_OUT):
            target = COPY / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target, follow_symlinks=False)
    git(COPY, "init", "--quiet")
    git(COPY, "add", "--all")


def make_home() -> None:
    """Give ansible-test a home with its pip bootstrap script and pip's settings.

    ansible-test runs pip with hardly any environment variables, so settings that come from PIP_* or from the user's
    configuration are written into a pip.conf there.
    """
    cache = HOME / ".ansible" / "test" / "cache"
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
    config = HOME / ".config" / "pip" / "pip.conf"
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


def main(reports: Path) -> int:
    """Run ansible-test and keep its reports. Returns its exit code."""
    make_copy()
    make_home()
    environment = {**os.environ, "HOME": str(HOME)}
    for name in ("ANSIBLE_CONFIG", "ANSIBLE_COLLECTIONS_PATH", "ANSIBLE_ROLES_PATH", "XDG_CONFIG_HOME"):
        environment.pop(name, None)  # ansible-test sets its own
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    options = ["--python", version, "--junit", "--color=no"]
    code = subprocess.run(
        [str(BIN / "ansible-test"), "sanity", *options], cwd=COPY, env=environment, check=False
    ).returncode
    reports.mkdir(parents=True, exist_ok=True)
    for report in (COPY / "tests" / "output" / "junit").glob("*.xml"):
        shutil.copy2(report, reports)
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
