"""What is made and removed, by what EC2 answered; its errors, prices and files."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._cloud import (
    amx_types,
    errors,
    inventory,
    plan,
    prices,
    request,
)
from ansible_collections.amx.cluster.plugins.module_utils._jobs.cost import Price
from ansible_collections.amx.cluster.plugins.module_utils._measure.report import reference

ASKED = request.Request("spr", "eu-west-1", "m7i.4xlarge", 3, ["203.0.113.0/24"], "ssh-ed25519 AAAA")
SUBNET = {"SubnetId": "subnet-1", "AvailabilityZone": "eu-west-1b", "CidrBlock": "172.31.0.0/20"}
IMAGE = {"ImageId": "ami-1", "Architecture": "x86_64", "RootDeviceName": "/dev/sda1", "CreationDate": "2026-01"}
NOTHING: dict[str, list[Any]] = {kind: [] for kind in plan.WORDS}


def facts(**changed: Any) -> dict[str, Any]:
    strategies = {"PlacementGroupInfo": {"SupportedStrategies": ["cluster", "spread"]}}
    usual = {"account": "1", "zones": ["eu-west-1a", "eu-west-1b"], "vpc": "vpc-1", "subnets": [SUBNET]}
    more = {"type": strategies, "images": [IMAGE], "own": NOTHING, "foreign": {}}
    return {**usual, **more, **changed}


def instance(identity: str, name: str = "", state: str = "running", kind: str = "m7i.4xlarge") -> dict[str, Any]:
    tags = [{"Key": "Name", "Value": name}] if name else []
    return {"InstanceId": identity, "State": {"Name": state}, "InstanceType": kind, "Tags": tags}


def test_from_nothing() -> None:
    made = plan.plan(ASKED, facts(images=[IMAGE, {**IMAGE, "ImageId": "ami-2", "CreationDate": "2026-02"}]))
    assert (made.subnet, made.zone, made.image, made.launch) == ("subnet-1", "eu-west-1b", "ami-2", 3)
    assert made.missing == ["spr-node0", "spr-node1", "spr-node2"]
    assert made.make == ["keys", "security_groups", "placement_groups"]
    assert made.changes
    assert made.warnings == []


def test_what_an_interrupted_run_has_left_is_used() -> None:
    there = [instance("i-1", "spr-node0"), instance("i-2")]
    made = plan.plan(ASKED, facts(own={**NOTHING, "instances": there}))
    assert (made.missing, made.launch) == (["spr-node1", "spr-node2"], 1)


def test_warnings() -> None:
    asked = replace(ASKED, type="t3.large")
    made = plan.plan(asked, facts(type={"PlacementGroupInfo": {"SupportedStrategies": ["spread"]}}))
    assert made.warnings[0].startswith("t3.large is not among the types with AMX (m7i, m7i-flex, c7i, ")
    assert made.warnings[1] == "t3.large cannot be in a placement group: its hosts may be far apart"
    assert not amx_types.warning("r7iz.metal-16xl")


@pytest.mark.parametrize(
    ("asked", "changed", "message"),
    [
        ({}, {"zones": []}, "type: m7i.4xlarge is not offered in eu-west-1: set another type or region"),
        ({"zone": "eu-west-1c"}, {}, "zone: eu-west-1c does not offer m7i.4xlarge, but eu-west-1a, eu-west-1b"),
        ({}, {"vpc": ""}, "vpc: eu-west-1 has no default VPC: set vpc to one of yours"),
        ({"subnet": "subnet-2"}, {}, "subnet: subnet-2 is not in vpc-1"),
        ({"zone": "eu-west-1a"}, {}, "zone: vpc-1 has no subnet in a zone that offers m7i.4xlarge (eu-west-1a)"),
        ({}, {"images": []}, "image: there is no image ubuntu/images/"),
        ({}, {"images": [{**IMAGE, "Architecture": "arm64"}]}, " is for arm64, and m7i.4xlarge is x86_64"),
        ({}, {"type": {"ProcessorInfo": {"SupportedArchitectures": ["arm64"]}}}, "type: m7i.4xlarge is arm64, and AMX"),
        (
            {"market": "spot"},
            {"type": {"SupportedUsageClasses": ["on-demand"]}},
            "market: m7i.4xlarge is not rented as spot",
        ),
        ({}, {"foreign": {"keys": [{"id": "k", "name": "amx-spr"}]}}, "name: there is a key pair amx-spr in eu-west-1"),
        (
            {"hosts": 1},
            {"own": {**NOTHING, "instances": [instance("i-1", "spr-node0"), instance("i-2", "spr-node1")]}},
            "hosts: spr has 2 hosts, which are not made fewer by this file: set hosts to 2",
        ),
        (
            {},
            {"own": {**NOTHING, "instances": [instance("i-1", "spr-node0", "stopped")]}},
            "spr-node0 is stopped: start it with aws ec2 start-instances --region eu-west-1 --instance-ids i-1",
        ),
        (
            {},
            {"own": {**NOTHING, "instances": [instance("i-1", "spr-node0", kind="c7i.large")]}},
            "type: spr-node0 is c7i.large, and the file has m7i.4xlarge",
        ),
    ],
)
def test_refusals(asked: dict[str, Any], changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as refused:
        plan.plan(replace(ASKED, **asked), facts(**changed))
    assert message in str(refused.value)


def test_table_and_cost() -> None:
    made = plan.plan(ASKED, facts())
    text = plan.table(ASKED, made, facts(), prices.Price(0.8064, "AWS price list"))
    assert "3 x m7i.4xlarge, on-demand" in text
    assert "Cost: 2.42 USD an hour for 3 hosts, 0.8064 USD each (AWS price list)" in text
    spot = replace(ASKED, market="spot", max_price=0.5)
    unknown = plan.cost(spot, prices.Price(None, "the AWS price list has none"))
    assert unknown.startswith(
        "Cost: not known, at most 1.50 USD an hour for all hosts: the AWS price list has none. Set"
    )


def test_removal() -> None:
    own = {
        **NOTHING,
        "instances": [instance("i-1", "spr-node0"), instance("i-2")],
        "images": [{"id": "a", "name": "m"}],
    }
    remove = plan.removal(own, None, images=False)
    assert (remove["instances"], remove["images"]) == (["i-1", "i-2"], [])
    assert plan.listed(own, remove) == ["host spr-node0 (i-1)", "host without a name (i-2)"]
    assert "keep    image m" in plan.removed_text(ASKED, own, remove)
    before = {**NOTHING, "instances": [{"InstanceId": "i-1"}]}
    assert plan.removal(own, before, images=True)["instances"] == ["i-2"]
    assert plan.removal(own, {}, images=True)["images"] == [{"id": "a", "name": "m"}]


def client_error(code: str, said: str = "no") -> str:
    return (
        f"Failed: An error occurred ({code}) when calling the RunInstances operation (reached max retries: 4): {said}"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            client_error("UnauthorizedOperation", "no. Encoded authorization failure message: x"),
            "ec2:RunInstances: no. Have",
        ),
        (client_error("VcpuLimitExceeded"), "a quota of the account does not allow HERE (RunInstances: "),
        (client_error("InsufficientInstanceCapacity"), "EC2 has no capacity for HERE now"),
        (client_error("SpotMaxPriceTooLow"), "max_price is below the spot price of HERE now: no."),
        (client_error("ExpiredToken"), "AWS does not accept the credentials (RunInstances: ExpiredToken): no"),
        (client_error("Other"), "RunInstances failed for HERE (Other): no"),
        ("Unable to locate credentials", "there are no AWS credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and"),
        ("something  else", "something else"),
    ],
)
def test_errors(text: str, message: str) -> None:
    assert message in errors.of_text(text, "HERE")
    assert message in errors.of_results([{"results": [{"msg": "fine"}, {"failed": True, "msg": text}]}], "HERE")


def test_prices() -> None:
    assert prices.of_file({"a.b": 2}, "a.b", "file") == prices.Price(2.0, "file")
    for content, message in (
        ({}, "file has no price of a.b: add a.b: PRICE"),
        ([], "expected a mapping"),
        ({"a.b": "x"}, "'x'"),
    ):
        with pytest.raises(ValueError, match=message):
            prices.of_file(content, "a.b", "file")
    dimension = {"unit": "Hrs", "pricePerUnit": {"USD": "3.5"}}
    product = {"terms": {"OnDemand": {"x": {"priceDimensions": {"y": dimension}}}}}
    assert prices.of_products([json.dumps(product)]).amount == 3.5
    assert prices.of_products([]).amount is None
    history = [{"AvailabilityZone": "b", "SpotPrice": "9"}, {"AvailabilityZone": "a", "SpotPrice": "1.5"}]
    assert prices.of_spot_history(history, "a").amount == 1.5
    assert prices.of_spot_history(history, "c").amount is None


def test_inventory(tmp_path: Path) -> None:
    path = tmp_path / "inventories/spr"
    texts = inventory.files(ASKED, "spr.yml", "10.0.0.0/24", prices.Price(2.0, ""), path)
    assert inventory.write(path, texts, check=True)
    assert not path.exists()
    assert inventory.write(path, texts, check=False)
    assert not inventory.write(path, texts, check=False)
    hosts = yaml.safe_load((path / "aws_ec2.yml").read_text())
    assert hosts["filters"] == {"tag:amx-cluster": "spr", "instance-state-name": "running"}
    (path / "known_hosts").write_text("198.51.100.1 ssh-ed25519 AAAA\n198.51.100.2 ssh-ed25519 AAAA\n")
    inventory.forget(path, ["198.51.100.1"])
    assert (path / "known_hosts").read_text() == "198.51.100.2 ssh-ed25519 AAAA\n"
    (path / "group_vars/cluster/mine.yml").write_text("cluster_verify: false\n")
    assert inventory.remove(path, texts, check=False)
    assert [str(each.relative_to(path)) for each in path.rglob("*.*")] == ["group_vars/cluster/mine.yml"]


@pytest.mark.parametrize("place", ["/home/me/spr", "/home/me/My Projects/spr", "/home/me/5% of/s", "/srv/a#b;c&d/s"])
def test_any_path_of_the_inventory_is_one_word_for_ssh(place: str) -> None:
    texts = inventory.files(ASKED, "spr.yml", "10.0.0.0/24", prices.Price(None, ""), Path(place))
    words = shlex.split(yaml.safe_load(texts["group_vars/cluster/cloud.yml"])["ansible_ssh_common_args"])
    shown = subprocess.run(["ssh", "-G", *words, "host"], capture_output=True, text=True, check=True).stdout
    assert f"userknownhostsfile {place}/known_hosts" in shown.splitlines()


@pytest.mark.parametrize("place", ['/home/a"b', "/home/a'b", "/home/a\\b", "/home/{{ a }}", "/home/a\nb", "/a/$HOME"])
def test_a_path_that_ssh_cannot_read_is_refused(place: str) -> None:
    with pytest.raises(ValueError, match="which ssh cannot read in a path: set inventory to another directory"):
        inventory.files(ASKED, "spr.yml", "10.0.0.0/24", prices.Price(None, ""), Path(place))


def test_two_instances_of_a_name() -> None:
    both = [instance("i-1", "spr-node0"), instance("i-2", "spr-node1"), instance("i-3", "spr-node0")]
    with pytest.raises(ValueError, match=r"spr-node0 is the name of 2 instances, all of which bill: i-1, i-3"):
        plan.plan(ASKED, facts(own={**NOTHING, "instances": both}))


def test_an_inventory_of_another(tmp_path: Path) -> None:
    (tmp_path / "groups.yml").write_text("mine: {}\n")
    texts = inventory.files(ASKED, "spr.yml", "10.0.0.0/24", prices.Price(None, ""), tmp_path)
    with pytest.raises(ValueError, match=r"groups\.yml was not made by playbooks/cloud\.yml: rename it"):
        inventory.write(tmp_path, texts, check=False)


@pytest.mark.parametrize(
    ("series", "price", "costs"),
    [
        # By hand: hosts x seconds / 3600 x price. The articles have durations and no prices; these are made up.
        ("SQuAD, Sapphire Rapids, 32 cores", "4 USD", {1: 1.7333, 4: 2.0}),
        ("MRPC, Ice Lake, 32 cores", "3 USD", {1: 0.3883, 2: 0.465, 4: 0.52}),
        ("QQP, Ice Lake, 32 cores", "3 USD", {1: 34.1, 2: 39.8, 4: 46.2}),
    ],
)
def test_costs_of_published_runs(series: str, price: str, costs: dict[int, float]) -> None:
    paid = Price.read(price)
    assert paid
    found = {
        row["hosts"]: paid.of(row["hosts"], row["seconds"])
        for row in reference.load()["rows"]
        if row["series"] == series
    }
    assert found == pytest.approx(costs, abs=1e-4)
