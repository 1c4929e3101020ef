"""Cloud files: what is accepted, and every message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._cloud import request

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ5vqUSYbDhLhEwdkAsGSQOr7vcHKVTWLwRWJvFcPRCP somebody"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "key.pub").write_text(f"{KEY}\n")
    (tmp_path / "key").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    return tmp_path / "spr.yml"


def given(**fields: Any) -> dict[str, Any]:
    least = {"name": "spr", "region": "eu-west-1", "type": "r7iz.metal-16xl", "hosts": 4}
    return {**least, "administrators": ["203.0.113.0/24"], "key": "key.pub", **fields}


def test_defaults(file: Path) -> None:
    asked = request.parse(given(), file)
    assert (asked.key, asked.image.user, asked.market, asked.disk.size) == (KEY, "ubuntu", "on-demand", 128)
    assert (asked.host(0), asked.resource(), asked.tagged()) == ("spr-node0", "amx-spr", {"amx-cluster": "spr"})


def test_all_fields(file: Path) -> None:
    fields = {
        "provider": "aws",
        "image": {"name": "mine-*", "owner": "self", "user": "me"},
        "market": "spot",
        "max_price": 2,
        "disk": {"size": 500, "type": "io2"},
        "zone": "eu-west-1a",
        "vpc": "vpc-0a",
        "subnet": "subnet-0b",
        "connect": "private",
        "placement": "none",
        "tags": {"team": "nlp"},
        "prices": "prices.yml",
        "inventory": "here",
    }
    asked = request.parse(given(**fields), file)
    assert asked.prices == str(file.parent / "prices.yml")
    assert asked.tagged() == {"team": "nlp", "amx-cluster": "spr"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hostz": 2}, "hostz: unknown field; did you mean hosts?"),
        ({"provider": "gcp"}, "provider: 'gcp' is not built: hosts are rented from aws (EC2) alone."),
        ({"administrators": ["0.0.0.0/0"]}, "administrators: '0.0.0.0/0' is every address, or no IPv4"),
        ({"administrators": ["home"]}, "administrators: 'home' is not a network such as 203.0.113.0/24"),
        ({"key": "key"}, "/key has no public key of type ed25519 or rsa: name the file that ends in .pub"),
        ({"key": "none.pub"}, "/none.pub cannot be read: No such file or directory"),
        ({"max_price": 2}, "max_price: is for market: spot"),
        ({"image": {"user": "me"}}, "image: an image is named by id, or by name and owner"),
        ({"tags": {"Name": "x"}}, "tags: Name is reserved: choose another name"),
        ({"name": "My cluster"}, "name: 'My cluster' is not a name of up to 31 lower-case letters, digits and -"),
        ({"hosts": 0}, "hosts: 0 is not a whole number"),
    ],
)
def test_refusals(file: Path, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as refused:
        request.parse(given(**fields), file)
    assert str(refused.value).startswith(f"{file}: ")
    assert message in str(refused.value)


def test_all_errors_at_once(file: Path) -> None:
    with pytest.raises(ValueError) as refused:
        request.parse({"name": "spr", "hosts": "many"}, file)
    lines = str(refused.value).splitlines()
    assert lines[0] == f"{file}: this cluster cannot be made:"
    assert {line.split(":")[0].strip() for line in lines[1:]} == {"region", "type", "hosts", "administrators", "key"}


def test_a_file_that_is_none(file: Path) -> None:
    file.write_text("- a list")
    with pytest.raises(ValueError, match="a list where a mapping of fields is expected"):
        request.load(file)
    file.write_text("{")
    with pytest.raises(ValueError, match="is not YAML"):
        request.load(file)
