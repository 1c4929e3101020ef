# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resources that are made or removed: from a request and what EC2 answered, before anything is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cloud import amx_types
from ansible_collections.amx.cluster.plugins.module_utils._cloud.aws import tags
from ansible_collections.amx.cluster.plugins.module_utils._cloud.prices import Price
from ansible_collections.amx.cluster.plugins.module_utils._cloud.request import MARK, SPOT, Request
from ansible_collections.amx.cluster.plugins.module_utils._text import columns, count, names

ROLE = f"{MARK}-role"
ARCHITECTURE = "x86_64"
KINDS = {
    "launch_templates": "launch template",
    "placement_groups": "placement group",
    "keys": "key pair",
    "security_groups": "security group",
}
WORDS = {"instances": "host", "volumes": "volume", **KINDS, "images": "image"}
_ALIVE = ("pending", "running")


@dataclass(frozen=True)
class Plan:
    """Resources that a request needs.

    missing: the names that have no instance. launch: how many instances are launched for them; the others carry the
    mark already, and have no name because a run was interrupted. make: what is made once, of KINDS.
    """

    vpc: str
    subnet: str
    zone: str
    network: str
    image: str
    device: str
    placement: bool
    missing: list[str]
    launch: int
    make: list[str]
    warnings: list[str] = field(default_factory=list)

    @property
    def changes(self) -> bool:
        return bool(self.missing or self.make)


def plan(request: Request, facts: Mapping[str, Any]) -> Plan:
    """Return what is made. Raises ValueError with everything that is in the way, a line for each.

    facts: as aws.Ec2.facts() returns them: {account, zones (that offer the type), type (of DescribeInstanceTypes), vpc
    (its id, empty without one), subnets, images (of DescribeSubnets and DescribeImages), own, foreign ({kind: [...]})}.
    """
    errors: list[str] = []
    subnet = _subnet(request, facts, errors)
    image = _image(request, facts, errors)
    missing, unnamed = _hosts(request, facts["own"]["instances"], errors)
    strategies = facts["type"].get("PlacementGroupInfo", {}).get("SupportedStrategies", [])
    placement = request.placement == "cluster" and request.hosts > 1 and "cluster" in strategies
    usable = facts["type"].get("SupportedUsageClasses", [SPOT])
    if request.market == SPOT and SPOT not in usable:
        errors.append(f"market: {request.type} is not rented as spot: set market: on-demand, or another type")
    for kind, listed in facts["foreign"].items():
        if listed:
            errors.append(
                f"name: there is a {KINDS[kind]} {listed[0]['name']} in {request.region} which this collection has not "
                f"made for {request.name}: choose another name"
            )
    if errors:
        lead = f"{request.name}: this cluster cannot be made:"
        raise ValueError("\n  ".join([lead, *errors]) if errors[1:] else f"{request.name}: {errors[0]}")
    needed = {
        "keys": True,
        "security_groups": True,
        "placement_groups": placement,
        "launch_templates": request.market == SPOT,
    }
    warnings = [amx_types.warning(request.type)]
    if request.placement == "cluster" and request.hosts > 1 and not placement:
        warnings.append(f"{request.type} cannot be in a placement group: its hosts may be far apart")
    return Plan(
        vpc=facts["vpc"],
        subnet=subnet.get("SubnetId", ""),
        zone=subnet.get("AvailabilityZone", ""),
        network=subnet.get("CidrBlock", ""),
        image=image.get("ImageId", ""),
        device=image.get("RootDeviceName", ""),
        placement=placement,
        missing=missing,
        launch=len(missing) - unnamed,
        make=[kind for kind, wanted in needed.items() if wanted and not facts["own"][kind]],
        warnings=[text for text in warnings if text],
    )


def _subnet(request: Request, facts: Mapping[str, Any], errors: list[str]) -> dict[str, Any]:
    """Return the subnet: one in a zone that offers the type."""
    zones = facts["zones"]
    if not zones:
        errors.append(f"type: {request.type} is not offered in {request.region}: set another type or region")
        return {}
    if request.zone and request.zone not in zones:
        errors.append(f"zone: {request.zone} does not offer {request.type}, but {', '.join(zones)}: set one of these")
        return {}
    if not facts["vpc"]:
        errors.append(
            f"vpc: {request.region} has no default VPC: set vpc to one of yours, or make the default one again with "
            f"aws ec2 create-default-vpc --region {request.region}"
        )
        return {}
    here = [subnet for subnet in facts["subnets"] if request.subnet in ("", subnet["SubnetId"])]
    if request.subnet and not here:
        errors.append(f"subnet: {request.subnet} is not in {facts['vpc']}: set subnet or vpc to others")
        return {}
    wanted = [request.zone] if request.zone else zones
    suitable = [subnet for subnet in here if subnet["AvailabilityZone"] in wanted]
    if not suitable:
        where = (
            f"{facts['vpc']} has no subnet in a zone" if not request.subnet else f"{request.subnet} is not in a zone"
        )
        errors.append(
            f"zone: {where} that offers {request.type} ({', '.join(wanted)}): set zone, vpc or subnet to others"
        )
        return {}
    chosen: dict[str, Any] = min(
        suitable, key=lambda subnet: (subnet["AvailabilityZone"], not subnet.get("DefaultForAz"), subnet["SubnetId"])
    )
    return chosen


def _image(request: Request, facts: Mapping[str, Any], errors: list[str]) -> dict[str, Any]:
    """Return the newest image of the architecture of the type."""
    of_type = facts["type"].get("ProcessorInfo", {}).get("SupportedArchitectures", [ARCHITECTURE])
    if ARCHITECTURE not in of_type:
        errors.append(
            f"type: {request.type} is {', '.join(of_type)}, and AMX is in CPUs of {ARCHITECTURE}: set another type"
        )
        return {}
    wanted = request.image.id or f"{request.image.name} of {request.image.owner}"
    ready = [image for image in facts["images"] if image.get("State", "available") == "available"]
    if not ready:
        errors.append(
            f"image: there is no image {wanted} in {request.region} that this account can use: set another one"
        )
        return {}
    fitting = [image for image in ready if image["Architecture"] == ARCHITECTURE]
    if not fitting:
        other = ", ".join(sorted({image["Architecture"] for image in ready}))
        errors.append(f"image: {wanted} is for {other}, and {request.type} is {ARCHITECTURE}: set another image")
        return {}
    newest: dict[str, Any] = max(fitting, key=lambda image: str(image.get("CreationDate", "")))
    return newest


def _hosts(request: Request, instances: list[dict[str, Any]], errors: list[str]) -> tuple[list[str], int]:
    """Return the names of the hosts that are missing, and how many instances have no name."""
    wanted = [request.host(number) for number in range(request.hosts)]
    by_name: dict[str, dict[str, Any]] = {}
    of_name: dict[str, list[str]] = {}
    for instance in instances:
        if "Name" in tags(instance):
            by_name[tags(instance)["Name"]] = instance
            of_name.setdefault(tags(instance)["Name"], []).append(instance["InstanceId"])
    for name, ids in of_name.items():
        if ids[1:]:
            errors.append(
                f"{name} is the name of {count(len(ids), 'instance')}, all of which bill: {names(sorted(ids))}. "
                f"Terminate all but one: aws ec2 terminate-instances --region {request.region} --instance-ids ID"
            )
    unnamed = [instance["InstanceId"] for instance in instances if "Name" not in tags(instance)]
    surplus = sorted(set(by_name) - set(wanted))
    if surplus:
        errors.append(
            f"hosts: {request.name} has {count(len(by_name), 'host')}, which are not made fewer by this file: set "
            f"hosts to {len(by_name)}, or terminate {names(surplus)} yourself"
        )
    for name, instance in by_name.items():
        state = instance["State"]["Name"]
        if state not in _ALIVE:
            errors.append(
                f"{name} is {state}: start it with aws ec2 start-instances --region {request.region} "
                f"--instance-ids {instance['InstanceId']}"
            )
        if instance["InstanceType"] != request.type:
            errors.append(
                f"type: {name} is {instance['InstanceType']}, and the file has {request.type}: set it back, or remove "
                "the cluster first (-e state=absent)"
            )
    missing = [name for name in wanted if name not in by_name]
    if len(unnamed) > len(missing):
        errors.append(f"{names(unnamed)} carry the mark of {request.name} and are no hosts of it: terminate them")
    return missing, len(unnamed)


def role(request: Request, name: str) -> str:
    """Return the group of a host."""
    return "head" if name == request.host(0) else "workers"


def table(
    request: Request, made: Plan, facts: Mapping[str, Any], price: Price, leaving: Sequence[dict[str, Any]] = ()
) -> str:
    """Return what is made, and what it costs an hour, for a person. leaving: instances that are given back before."""
    there = request.hosts - len(made.missing)
    of_each = f"{request.type}, {request.market}"
    if request.market == SPOT and request.max_price:
        of_each += f", at most {request.max_price:g} USD an hour each"
    rows = [
        ("what", "which", "now"),
        ("hosts", f"{request.hosts} x {of_each}", f"{there} there, {len(made.missing)} to make"),
        *(("host", _shown(instance), "to give back: EC2 takes it back") for instance in leaving),
        ("network", f"{made.subnet} in {made.zone}, {made.network}", "there"),
        ("image", f"{made.image}, user {request.image.user}", "there"),
        ("disk", f"{request.disk.size} GiB {request.disk.type} each", "with its host"),
    ]
    for kind, label in KINDS.items():
        if kind in made.make or facts["own"][kind]:
            rows.append((label, request.resource(), "to make" if kind in made.make else "there"))
    rows.append(("SSH from", ", ".join(request.administrators), ""))
    lines = [f"Cluster {request.name} in {request.region}, account {facts['account']}", "", *columns(rows), ""]
    return "\n".join([*lines, cost(request, price), *(f"! {text}" for text in made.warnings)])


def cost(request: Request, price: Price) -> str:
    """Return the line with what the hosts cost an hour; disks and traffic are not in it."""
    if price.amount is not None:
        total = price.amount * request.hosts
        return (
            f"Cost: {total:.2f} USD an hour for {count(request.hosts, 'host')}, {price.amount:g} USD each "
            f"({price.source}); disks and traffic come on top"
        )
    limit = ""
    if request.market == SPOT and request.max_price:
        limit = f", at most {request.max_price * request.hosts:.2f} USD an hour for all hosts"
    return f"Cost: not known{limit}: {price.source}. Set prices to a file with {request.type}: PRICE (docs/cloud.md)"


def removal(own: Mapping[str, Any], before: Mapping[str, Any] | None, images: bool) -> dict[str, list[Any]]:
    """Return what is removed: {kind: [...]}, instances by their ids.

    own: what carries the mark. before: what carried it before, which stays; None where all goes. images: whether images
    go as well.
    """
    kept = _ids(before) if before else set()
    remove = {kind: [item for item in listed if _id(item) not in kept] for kind, listed in own.items()}
    remove["instances"] = [instance["InstanceId"] for instance in remove["instances"]]
    return remove if images else {**remove, "images": []}


def _id(item: Any) -> str:
    return str(item if isinstance(item, str) else item.get("InstanceId") or item["id"])


def _ids(own: Mapping[str, Any]) -> set[str]:
    return {_id(item) for listed in own.values() for item in listed}


def listed(own: Mapping[str, Any], remove: Mapping[str, Any]) -> list[str]:
    """Return what is removed as words: host NAME (ID), volume ID, key pair NAME, ..."""
    return [
        f"{noun} {_shown(item)}" for kind, noun in WORDS.items() for item in own[kind] if _removed(kind, item, remove)
    ]


def _removed(kind: str, item: Any, remove: Mapping[str, Any]) -> bool:
    return _id(item) in {_id(each) for each in remove[kind]}


def removed_text(request: Request, own: Mapping[str, Any], remove: Mapping[str, Any]) -> str:
    """Return what is removed and what stays, for a person."""
    lines = [f"Cluster {request.name} in {request.region}"]
    gone = listed(own, remove)
    lines += [f"remove  {each}" for each in gone] or ["Nothing that would be removed carries its mark."]
    lines += [f"keep    {each}" for each in listed(own, own) if each not in gone]
    if len(remove["images"]) < len(own["images"]):
        lines.append("Images bill for their snapshots. To remove them as well, add -e images=true")
    return "\n".join([*lines, "keep    VPC and subnets, which this cluster has not made"])


def _shown(item: Any) -> str:
    if isinstance(item, str):
        return item
    if "InstanceId" in item:
        return f"{tags(item).get('Name', 'without a name')} ({item['InstanceId']})"
    return str(item["name"])
