# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory directory of a rented cluster: its hosts as EC2 has them, and the variables of all of them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _io, _ownership
from ansible_collections.amx.cluster.plugins.module_utils._cloud.plan import ROLE
from ansible_collections.amx.cluster.plugins.module_utils._cloud.prices import Price
from ansible_collections.amx.cluster.plugins.module_utils._cloud.request import MARK, SPOT, Request

KNOWN_HOSTS = "known_hosts"
# docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-retrieval.html
NOTICES = "http://169.254.169.254"
_MADE = f"# {_ownership.SIGNATURE}, from {{file}}: playbooks/cloud.yml writes it anew."


def directory(request: Request, here: Path) -> Path:
    """Return the inventory directory. here: the current directory."""
    return Path(request.inventory) if request.inventory else here / "inventories" / request.name


def files(request: Request, file: str, network: str, price: Price, path: Path) -> dict[str, str]:
    """Return {path in the inventory directory: text}.

    file: the cloud file, for a comment. network: the CIDR of the subnet. path: of the inventory directory.
    """
    address = f"ec2_{request.connect}_ip_address"
    hosts = {
        "plugin": "amazon.aws.aws_ec2",
        "regions": [request.region],
        "filters": {f"tag:{MARK}": request.name, "instance-state-name": "running"},
        "hostnames": ["tag:Name"],
        # `tags`, without a prefix, is a name of Ansible's own.
        "hostvars_prefix": "ec2_",
        "compose": {"ansible_host": address},
        "groups": {
            "head": f"ec2_tags['{ROLE}'] == 'head'",
            "workers": f"ec2_tags['{ROLE}'] == 'workers'",
        },
    }
    groups: dict[str, Any] = {"cluster": {"children": {"head": {}, "workers": {}}}}
    # A new host's key is taken over at its first login, and pinned from then on.
    ssh = f"-o {_quoted(path / KNOWN_HOSTS)} -o StrictHostKeyChecking=accept-new"
    variables: dict[str, Any] = {
        "ansible_user": request.image.user,
        "ansible_ssh_common_args": ssh,
        "cluster_network": network,
        "cluster_prefix": "/opt/amx-cluster",
        "cluster_stack": "native",
    }
    if request.market == SPOT:
        variables["cluster_spot_notices"] = NOTICES
    if price.amount is not None:
        variables["cluster_host_price_per_hour"] = f"{price.amount:.6f}".rstrip("0").rstrip(".") + " USD"
    made = _MADE.format(file=file)
    return {
        "aws_ec2.yml": f"{made}\n{_yaml(hosts)}",
        "groups.yml": f"{made}\n{_yaml(groups)}",
        "group_vars/cluster/cloud.yml": f"{made}\n# Variables of your own: in another file beside this one.\n"
        f"{_yaml(variables)}",
    }


def _quoted(known: Path) -> str:
    """Return ssh's option UserKnownHostsFile for a shell: ssh divides it at spaces, and has %, ~ and quotes of its own.

    Raises ValueError for a path that cannot be written in it. YAML's values are templates, too.
    """
    text = str(known)
    bad = [letter for letter in text if letter in "\"'\\$`{}" or not letter.isprintable()]
    if bad:
        raise ValueError(f"{text} has {bad[0]!r}, which ssh cannot read in a path: set inventory to another directory")
    value = text.replace("%", "%%")
    return shlex.quote(f'UserKnownHostsFile="{value}"' if " " in value else f"UserKnownHostsFile={value}")


def write(path: Path, texts: Mapping[str, str], check: bool) -> bool:
    """Write the files of an inventory directory; return whether one of them was another. check: only return that.

    Raises ValueError where a file is not the collection's, and OSError.
    """
    for name in texts:
        if (path / name).exists() and not _ownership.is_own(path / name):
            raise ValueError(
                f"{path / name} was not made by playbooks/cloud.yml: rename it, or set inventory to another directory"
            )
    changed = [name for name, text in texts.items() if not _is(path / name, text)]
    for name in [] if check else changed:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        _io.write_text(path / name, texts[name])
    return bool(changed)


def forget(path: Path, addresses: Iterable[str]) -> None:
    """Remove the keys of these addresses, which new hosts have now, from the known hosts."""
    known, gone = path / KNOWN_HOSTS, set(addresses)
    if gone and known.exists():
        lines = known.read_text(encoding="utf-8").splitlines(keepends=True)
        _io.write_text(known, "".join(line for line in lines if line.split(" ", 1)[0] not in gone), 0o600)


def remove(path: Path, names: Iterable[str], check: bool) -> bool:
    """Remove the files that write() has made, and directories that are empty then; return whether there were any."""
    own = [path / name for name in names if _ownership.is_own(path / name)]
    if check or not own:
        return bool(own)
    for each in own:
        each.unlink()
    (path / KNOWN_HOSTS).unlink(missing_ok=True)
    for directory in (path / "group_vars/cluster", path / "group_vars", path):
        if directory.is_dir() and not any(directory.iterdir()):
            directory.rmdir()
    return True


def _is(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == text
    except OSError:
        return False


def _yaml(document: Any) -> str:
    import yaml  # only here: on the control node

    return str(yaml.safe_dump(document, sort_keys=False))
