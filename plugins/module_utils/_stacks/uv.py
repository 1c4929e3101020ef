# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""uv on the control node, which resolves requirements for the Python and the C library of the hosts.

It evaluates `; python_version < "3.10"` and its like for them, which pip does for the Python that runs it. uv reads no
configuration of pip: its variables are made of those that pip has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ansible_collections.amx.cluster.plugins.module_utils._stacks import requirements

# The glibc versions that uv has platforms for (`uv pip compile --help`, 0.13.9). The newest that is not newer is taken.
GLIBC = (17, 28, *range(31, 41))


def platform(glibc: str) -> str:
    """Return uv's name of x86-64 hosts with this glibc, "2.36". Raises ValueError for one that is older than 2.17."""
    minor = int(glibc.split(".")[1])
    known = [number for number in GLIBC if number <= minor]
    if not known:
        raise ValueError(f"glibc {glibc} is too old: 2.17 or newer is expected")
    return f"x86_64-manylinux_2_{known[-1]}"


def arguments(python: str, glibc: str) -> list[str]:
    """Return the arguments of `uv pip compile` for hosts with this Python ("3.11") and glibc ("2.36")."""
    return [
        "--quiet", "--no-config", "--no-header", "--no-annotate", "--no-python-downloads", "--only-binary=:all:",
        f"--python-version={python}", f"--python-platform={platform(glibc)}",
        # uv fails where it cannot write to its cache in the home, as in containers; pip goes on without one.
        "--no-cache",
        # As pip does: the best version of all indexes.
        "--index-strategy=unsafe-best-match",
    ]  # fmt: skip


# Variables of a user's that say how indexes are reached. No other one takes effect, see indexes.REACH.
REACH = re.compile(
    r"UV_(INDEX_\w+_(USERNAME|PASSWORD)|NATIVE_TLS|SYSTEM_CERTS|KEYRING_PROVIDER|HTTP_\w+|INSECURE_HOST)"
)


def command(words: Iterable[str], environ: Mapping[str, str]) -> list[str]:
    """Return a command of uv that has none of the user's variables but those of REACH. uv fails for empty ones."""
    unset = [f"--unset={name}" for name in sorted(environ) if name.startswith("UV_") and not REACH.fullmatch(name)]
    return [*(["env", *unset] if unset else []), *words]


def variables(pip: Mapping[str, str]) -> dict[str, str]:
    """Return uv's variables for those of pip, see indexes.on_control_node.

    In variables and not as arguments: a URL may hold a password, and everyone sees arguments.
    """
    made = {
        "UV_DEFAULT_INDEX": pip.get("PIP_INDEX_URL", ""),
        "UV_INDEX": pip.get("PIP_EXTRA_INDEX_URL", ""),
        "UV_FIND_LINKS": ",".join(pip.get("PIP_FIND_LINKS", "").split()),
        "UV_INSECURE_HOST": pip.get("PIP_TRUSTED_HOST", ""),
        "SSL_CERT_FILE": pip.get("PIP_CERT", ""),
        "SSL_CLIENT_CERT": pip.get("PIP_CLIENT_CERT", ""),
        "UV_HTTP_TIMEOUT": pip.get("PIP_TIMEOUT", "").partition(".")[0],
        "UV_KEYRING_PROVIDER": "subprocess" if pip.get("PIP_KEYRING_PROVIDER") in ("subprocess", "import") else "",
    }
    kept = {name: value for name, value in pip.items() if not name.startswith("PIP_")}
    return {**kept, **{name: value for name, value in made.items() if value}}


def versions(output: str) -> dict[str, str]:
    """Return {name: version} of the lines that `uv pip compile` prints, `NAME==VERSION` or `NAME @ file:///...whl`.

    Raises ValueError for any other line.
    """
    versions = {}
    for line in filter(None, map(str.strip, output.splitlines())):
        pinned = re.fullmatch(r"([\w.-]+)==(\S+)", line)
        wheel = re.fullmatch(r"([\w.-]+) @ \S*/[^/-]+-([^/-]+)-[^/]+\.whl", line)
        name, version = (pinned or wheel or _unknown(line)).groups()
        versions[name] = version.replace("%2B", "+")
    return versions


def _unknown(line: str) -> re.Match[str]:
    raise ValueError(f"uv printed a line that is no version: {line}")


def requirement(text: str) -> str:
    """Return a requirement or the path of a wheel as a line of a requirements file."""
    if text.endswith(".whl"):
        return f"{requirements.canonical(Path(text).name.partition('-')[0])} @ {Path(text).resolve().as_uri()}"
    return text
