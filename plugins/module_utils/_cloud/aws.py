# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to EC2 before anything is changed, and the lock that keeps a second run of a cluster out."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from ansible_collections.amx.cluster.plugins.module_utils._cloud import errors, prices
from ansible_collections.amx.cluster.plugins.module_utils._cloud.request import MARK, SPOT, Request, read_yaml

BOTO3 = "boto3>=1.34"
# The region of the price list's endpoint, whatever region the prices are of.
PRICE_LIST = "us-east-1"
# Tags: of the run that made something, and of the key pair that locks a cluster.
RUN, LOCK = f"{MARK}-run", f"{MARK}-lock"
# A lock that is older is of a run that died.
STALE = timedelta(hours=3)
_GONE = ("terminated", "shutting-down")


def check_installed(amazon_aws: bool) -> None:
    """Raise ValueError, with the command that installs it, where boto3 or the collection amazon.aws is missing."""
    if importlib.util.find_spec("boto3") is None:
        raise ValueError(
            f"{sys.executable} has no boto3, with which EC2 is asked: {sys.executable} -m pip install '{BOTO3}'"
        )
    if not amazon_aws:
        raise ValueError("the collection amazon.aws is not installed: ansible-galaxy collection install amazon.aws")


def _now() -> datetime:
    return datetime.now(timezone.utc).replace(microsecond=0)


def _is_stale(since: str) -> bool:
    """Return whether a lock is so old that its run has died."""
    try:
        return _now() - datetime.fromisoformat(since) > STALE
    except (ValueError, TypeError):
        return False


class Ec2:
    """The API of EC2 in the region of a request. Every method raises ValueError, which says what was refused."""

    def __init__(self, request: Request) -> None:
        # Here, where check_installed has found them.
        import boto3  # type: ignore[import-untyped]
        from botocore import config, exceptions  # type: ignore[import-untyped]

        self.request = request
        self._errors = exceptions.BotoCoreError, exceptions.ClientError
        self._config = config.Config(connect_timeout=10, read_timeout=60, retries={"max_attempts": 3})
        self._session = boto3.Session(region_name=request.region)
        self._ec2 = self._client("ec2", request.region)

    def _client(self, service: str, region: str) -> Any:
        return self._session.client(service, region_name=region, config=self._config)

    def _ask(self, call: str, key: str, client: Any = None, **options: Any) -> Any:
        """Return what an answer has under a key, over all its pages."""
        client = client or self._ec2
        try:
            if client.can_paginate(call):
                pages = client.get_paginator(call).paginate(**options)
                return [item for page in pages for item in page[key]]
            return getattr(client, call)(**options)[key]
        except self._errors as error:
            request = self.request
            raise ValueError(
                errors.of_text(str(error), f"{request.type} in {request.zone or request.region}")
            ) from None

    def facts(self) -> dict[str, Any]:
        """Return all that a plan needs to know, as plan.plan() describes it."""
        request = self.request
        account = self._ask("get_caller_identity", "Account", self._client("sts", request.region))
        offered = self._ask(
            "describe_instance_type_offerings",
            "InstanceTypeOfferings",
            LocationType="availability-zone",
            Filters=[{"Name": "instance-type", "Values": [request.type]}],
        )
        vpc = {"VpcIds": [request.vpc]} if request.vpc else {"Filters": [{"Name": "is-default", "Values": ["true"]}]}
        vpcs = self._ask("describe_vpcs", "Vpcs", **vpc)
        of_vpc = [{"Name": "vpc-id", "Values": [vpcs[0]["VpcId"]]}] if vpcs else []
        return {
            "account": account,
            "zones": sorted(offer["Location"] for offer in offered),
            "type": self._ask("describe_instance_types", "InstanceTypes", InstanceTypes=[request.type])[0]
            if offered
            else {},
            "vpc": vpcs[0]["VpcId"] if vpcs else "",
            "subnets": self._ask("describe_subnets", "Subnets", Filters=of_vpc) if vpcs else [],
            "images": self._images(),
            "own": self.own(),
            "foreign": self._foreign(),
        }

    def _images(self) -> list[dict[str, Any]]:
        image = self.request.image
        wanted: dict[str, Any] = (
            {"ImageIds": [image.id]}
            if image.id
            else {"Owners": [image.owner], "Filters": [{"Name": "name", "Values": [image.name]}]}
        )
        return list(self._ask("describe_images", "Images", **wanted))

    def lock(self, run: str, who: str) -> None:
        """Lock the cluster for a run: by a key pair of its own, which EC2 makes for one only. Raises ValueError."""
        request, name = self.request, f"{self.request.resource()}-lock"
        marks = {LOCK: request.name, RUN: run, "amx-cluster-who": who, "amx-cluster-since": _now().isoformat()}
        tagged = [{"Key": key, "Value": value[:250]} for key, value in marks.items()]
        for _attempt in range(2):
            try:
                self._ec2.import_key_pair(
                    KeyName=name,
                    PublicKeyMaterial=request.key.encode(),
                    TagSpecifications=[{"ResourceType": "key-pair", "Tags": tagged}],
                )
                return
            except self._errors as error:
                if "InvalidKeyPair.Duplicate" not in str(error):
                    where = f"{request.type} in {request.zone or request.region}"
                    raise ValueError(errors.of_text(str(error), where)) from None
            lock = self._lock()
            if lock.get(RUN) == run:  # an answer of EC2 got lost
                return
            since = lock.get("amx-cluster-since", "")
            if lock.get(LOCK) != request.name or not _is_stale(since):
                break
            self.unlock(lock.get(RUN, ""))
        whose = f"run {lock.get(RUN)} of {lock.get('amx-cluster-who', 'somebody')}, since {since or '?'}"
        raise ValueError(
            f"{request.name} is being changed by another run ({whose}): wait for its end. If it "
            f"has died, remove its lock: aws ec2 delete-key-pair --region {request.region} --key-name {name}"
        )

    def unlock(self, run: str) -> None:
        """Remove the lock of a run; none of another one."""
        if self._lock().get(RUN) == run:
            with contextlib.suppress(*self._errors):
                self._ec2.delete_key_pair(KeyName=f"{self.request.resource()}-lock")

    def _lock(self) -> dict[str, str]:
        name = f"{self.request.resource()}-lock"
        return next((tags(pair) for pair in self._ask("describe_key_pairs", "KeyPairs") if pair["KeyName"] == name), {})

    def own(self, run: str = "") -> dict[str, list[Any]]:
        """Return what carries the mark of this cluster: {kind: [its id, or name where it is known by that]}.

        run: only what this run has made. Instances are as DescribeInstances has them, without those that are gone;
        images {"id", "name"}.
        """
        wanted = {MARK: self.request.name, **({RUN: run} if run else {})}
        mark = [{"Name": f"tag:{name}", "Values": [value]} for name, value in wanted.items()]
        resources = {
            "instances": [
                instance
                for reservation in self._ask("describe_instances", "Reservations", Filters=mark)
                for instance in reservation["Instances"]
                if instance["State"]["Name"] not in _GONE
            ],
            "volumes": [volume["VolumeId"] for volume in self._ask("describe_volumes", "Volumes", Filters=mark)],
            "images": [
                {"id": image["ImageId"], "name": image["Name"]}
                for image in self._ask("describe_images", "Images", Owners=["self"], Filters=mark)
            ],
        }
        return {**resources, **self._named(lambda tags: wanted.items() <= tags.items())}

    def _foreign(self) -> dict[str, list[Any]]:
        """Return what has the name of what this cluster needs once, without its mark."""
        name = self.request.resource()
        others = self._named(lambda tags: tags.get(MARK) != self.request.name)
        return {kind: [item for item in listed if item["name"] == name] for kind, listed in others.items()}

    def _named(self, wanted: Any) -> dict[str, list[dict[str, str]]]:
        """Return what is known by a name and has such tags: {kind: [{id, name}]}."""
        kinds = {
            "launch_templates": ("describe_launch_templates", "LaunchTemplates", "LaunchTemplate"),
            "placement_groups": ("describe_placement_groups", "PlacementGroups", "Group"),
            "keys": ("describe_key_pairs", "KeyPairs", "Key"),
            "security_groups": ("describe_security_groups", "SecurityGroups", "Group"),
        }
        return {
            kind: [
                {"id": item.get(f"{prefix}Id") or item.get("KeyPairId", ""), "name": item[f"{prefix}Name"]}
                for item in self._ask(call, key)
                if wanted({tag["Key"]: tag["Value"] for tag in item.get("Tags", ())})
            ]
            for kind, (call, key, prefix) in kinds.items()
        }

    def price(self, zone: str) -> prices.Price:
        """Return what a host costs an hour, by the user's file, or else as AWS says; unknown where it does not."""
        request = self.request
        if request.prices:
            return prices.of_file(read_yaml(Path(request.prices)), request.type, request.prices)
        try:
            if request.market == SPOT:
                query = {"InstanceTypes": [request.type], "ProductDescriptions": ["Linux/UNIX"], "MaxResults": 20}
                answer = self._ec2.describe_spot_price_history(**query, AvailabilityZone=zone)
                return prices.of_spot_history(answer["SpotPriceHistory"], zone)
            client = self._client("pricing", PRICE_LIST)
            query = {"ServiceCode": "AmazonEC2", "Filters": prices.filters(request.type, request.region)}
            return prices.of_products(client.get_products(**query)["PriceList"])
        except self._errors as error:
            return prices.Price(None, errors.of_text(str(error), request.type))


def tags(instance: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of an instance as a mapping."""
    return {tag["Key"]: tag["Value"] for tag in instance.get("Tags", ())}
