# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cloud file: which hosts are rented, where, and for whom."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils import _yaml
from ansible_collections.amx.cluster.plugins.module_utils._documents import defaults
from ansible_collections.amx.cluster.plugins.module_utils._forms import (
    Field,
    Form,
    Place,
    any_of,
    check_fields,
    declared,
    field,
    list_of,
    mapping,
    matching,
    number,
    one_of,
    record,
    text,
    type_name,
    whole,
)

MARK = "amx-cluster"
"""The tag that everything has which is made for a cluster; its value is the cluster's name."""
PROVIDERS = ("aws",)
SPOT = "spot"
PUBLIC_KEY = re.compile(r"ssh-(?:ed25519|rsa) [A-Za-z0-9+/=]+(?: .*)?")


@dataclass(frozen=True)
class Image:
    """An image: by its id, or the newest of a name (with * and ?) and an owner. user: who logs in."""

    user: str = field(text())
    id: str = field(matching(re.compile(r"ami-[0-9a-f]{8,17}"), "the id of an image such as ami-0123456789abcdef0"), "")
    name: str = field(text(), "")
    owner: str = field(matching(re.compile(r"\d{12}|self|amazon"), "an account id of 12 digits, self or amazon"), "")


IMAGES = {
    # Owners and names: aws-parallelcluster (tests/integration-tests/tests/common/utils.py), and EC2's answers in moto.
    "ubuntu-24.04": Image(
        user="ubuntu", name="ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-*", owner="099720109477"
    ),
    "amazon-linux-2023": Image(user="ec2-user", name="al2023-ami-2023.*-kernel-*-x86_64", owner="137112412989"),
}


@dataclass(frozen=True)
class Disk:
    """The root disk of each host. size: GiB."""

    size: int = field(whole(8, 16384), 128)
    type: str = field(one_of("gp3", "gp2", "io2"), "gp3")


def _provider(value: object, _place: Place) -> str:
    if value not in PROVIDERS:
        raise ValueError(
            f"{value!r} is not built: hosts are rented from aws (EC2) alone. For hosts of another provider, write the "
            "inventory yourself (inventories/example)"
        )
    return str(value)


def _network(value: object, _place: Place) -> str:
    try:
        network = ipaddress.ip_network(str(value))
    except ValueError:
        raise ValueError(f"{value!r} is not a network such as 203.0.113.0/24") from None
    if network.version != 4 or network.prefixlen == 0:
        raise ValueError(f"{value!r} is every address, or no IPv4: name the networks from which you log in")
    return str(network)


def _image(value: Image) -> Image:
    if bool(value.id) == bool(value.name) or bool(value.name) != bool(value.owner):
        raise ValueError("an image is named by id, or by name and owner")
    return value


def _public_key(value: object, place: Place) -> str:
    """Return the text of a file with a public key."""
    path = _path(value, place)
    try:
        key = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not PUBLIC_KEY.fullmatch(key):
        raise ValueError(f"{path} has no public key of type ed25519 or rsa: name the file that ends in .pub")
    return key


def _path(value: object, place: Place) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not a path")
    return str(place.directory / Path(value).expanduser())


_NAME = matching(re.compile(r"[a-z][a-z0-9-]{0,30}"), "a name of up to 31 lower-case letters, digits and -")
_ID = "the id of a {0} such as {0}-0123456789abcdef0"


@dataclass(frozen=True)
class Request:
    """A cloud file, checked. Paths are absolute; `key` is the text of the public key."""

    name: str = field(Field(_NAME, "the cluster; hosts are NAME-node0, NAME-node1, ..."))
    region: str = field(
        Field(matching(re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d"), "a region such as eu-west-1"), "where hosts are rented")
    )
    type: str = field(
        Field(matching(re.compile(r"[a-z0-9-]+\.[a-z0-9-]+"), "a type such as m7i.8xlarge"), "the instance type")
    )
    hosts: int = field(Field(whole(1, 100), "how many; the first one is the head"))
    administrators: list[str] = field(
        Field(
            list_of(Form({"type": "string"}, "a network", _network), "a list of networks", least=1),
            "networks (CIDR) from which SSH is allowed",
        )
    )
    key: str = field(Field(Form({"type": "string"}, "a file", _public_key), "the file of your public SSH key"))
    provider: str = field(Field(Form({"enum": [*PROVIDERS]}, "`aws`", _provider), "`aws`; no other is built"), "aws")
    image: Image = field(
        Field(
            any_of(
                one_of(*IMAGES).then(IMAGES.__getitem__),
                record(Image, "{id: ami-0123456789abcdef0, user: ubuntu}").then(_image),
            ),
            "`ubuntu-24.04`, `amazon-linux-2023`, `{id: ID, user: USER}` or `{name: NAME, owner: OWNER, user: USER}`",
        ),
        IMAGES["ubuntu-24.04"],
    )
    market: str = field(
        Field(one_of("on-demand", SPOT), "`on-demand`, or `spot`, which EC2 may take back"), "on-demand"
    )
    max_price: float | None = field(
        Field(
            number("a price above 0", lambda value: value > 0),
            "the most that a spot host may cost, in USD an hour; by default the price on demand",
        ),
        None,
    )
    disk: Disk = field(Field(record(Disk, "{size: 128}"), "the root disk: size in GiB, type gp3, gp2 or io2"), Disk())
    zone: str = field(
        Field(
            matching(re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d[a-z]"), "a zone such as eu-west-1a"),
            "by default the first with a subnet that offers the type",
        ),
        "",
    )
    vpc: str = field(
        Field(matching(re.compile(r"vpc-[0-9a-f]+"), _ID.format("vpc")), "by default the region's default VPC"),
        "",
    )
    subnet: str = field(
        Field(matching(re.compile(r"subnet-[0-9a-f]+"), _ID.format("subnet")), "by default one of the zone"),
        "",
    )
    connect: str = field(
        Field(
            one_of("public", "private"),
            "the address for Ansible; with `private`, the subnet decides whether hosts have a public one",
        ),
        "public",
    )
    placement: str = field(
        Field(
            one_of("cluster", "none"),
            "`cluster`: hosts are close together, in one placement group; `none`: wherever there is room",
        ),
        "cluster",
    )
    tags: dict[str, str] = field(Field(mapping(text()), "further tags"), dict)
    prices: str = field(
        Field(Form({"type": "string"}, "a file", _path), "a file {TYPE: USD an hour}; by default EC2's"), ""
    )
    inventory: str = field(
        Field(Form({"type": "string"}, "a directory", _path), "the directory; by default `inventories/NAME`"),
        "",
    )

    def tagged(self) -> dict[str, str]:
        """Return the tags of all that is made for this cluster."""
        return {**self.tags, MARK: self.name}

    def resource(self) -> str:
        """Return the name of what is made once: key pair, security group, placement group, launch template."""
        return f"amx-{self.name}"

    def host(self, number: int) -> str:
        """Return the name of a host; number: from 0, which is the head."""
        return f"{self.name}-node{number}"


FIELDS: dict[str, Field] = declared(Request)
REQUIRED = tuple(name for name in FIELDS if name not in defaults(Request))


def parse(data: object, path: Path) -> Request:
    """Return the request in a cloud file's YAML. Raises ValueError, which names the file and all that is wrong."""
    if not isinstance(data, dict):
        raise ValueError(f"{path}: {type_name(data)} where a mapping of fields is expected (docs/cloud.md)")
    values, errors = check_fields(FIELDS, data, Place(path.parent), REQUIRED)
    if values.get("max_price") and values.get("market") != SPOT:
        errors.append("max_price: is for market: spot")
    for name in (name for name in values.get("tags", {}) if name.lower().startswith(("aws:", MARK)) or name == "Name"):
        errors.append(f"tags: {name} is reserved: choose another name")
    if errors:
        lead = "this cluster cannot be made:"
        raise ValueError(f"{path}: " + ("\n  ".join([lead, *errors]) if errors[1:] else errors[0]))
    return Request(**values)


def load(path: Path) -> Request:
    """Read and check a cloud file. Raises ValueError, which names the file and all that is wrong."""
    data = read_yaml(path)
    return parse(data, path.expanduser().absolute())


def read_yaml(path: Path) -> Any:
    """Return the content of a YAML file. Raises ValueError, which names the file."""
    import yaml  # only here: on the control node

    try:
        return _yaml.load(path.expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: {_yaml.problem(error)}") from None
