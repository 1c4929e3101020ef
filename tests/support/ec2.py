"""EC2 as the playbooks of rented clusters see it: moto's server, with what moto does not know in front of it.

STAND-IN: moto keeps instances, images, key pairs, security groups, volumes and launch templates. Placement groups and
the price list are here, because moto has none. A call can be made to fail as EC2's does (`refuse`).
"""

from __future__ import annotations

import io
import json
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode
from xml.sax.saxutils import escape

REGION = "eu-west-1"
ACCOUNT = "123456789012"
UBUNTU = "ami-0000000000000ab24"
ARM = "ami-00000000000000a64"
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"


def _image(identity: str, name: str, owner: str, architecture: str) -> dict[str, Any]:
    known = {"ami_id": identity, "name": name, "owner_id": owner, "architecture": architecture, "public": True}
    root = {"root_device_type": "ebs", "root_device_name": "/dev/sda1", "sriov": "simple", "virtualization_type": "hvm"}
    return {**known, **root, "state": "available", "description": name, "image_type": "machine", "hypervisor": "xen"}


UBUNTU_NAME = "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20261101"
IMAGES = [
    _image(UBUNTU, UBUNTU_NAME, "099720109477", "x86_64"),
    _image(ARM, "of-arm", ACCOUNT, "arm64"),
]


class Ec2:
    """The API at `address`. calls: the actions that were called, with their form. before: what is done before one."""

    def __init__(self, directory: Path) -> None:
        images = directory / "images.json"
        images.write_text(json.dumps(IMAGES))
        os.environ["MOTO_AMIS_PATH"] = str(images)  # read when moto is imported
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import WSGIRequestHandler, make_server

        self._moto = DomainDispatcherApplication(create_backend_app)

        class Silent(WSGIRequestHandler):
            def log_request(self, *_about: object) -> None:
                """Print nothing."""

        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=Silent)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self.calls: list[tuple[str, dict[str, str]]] = []
        self.before: dict[str, Callable[[], None]] = {}
        self.refused: dict[str, tuple[str, str]] = {}
        self.groups: dict[str, dict[str, Any]] = {}
        self.price: str | None = "0.8064"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()

    def reset(self) -> None:
        """Make it an account in which there is nothing but the default VPC of every region."""
        from moto.backends import get_backend
        from moto.core.model_instances import reset_model_data

        for name in ("ec2", "sts"):
            get_backend(name).reset()
        reset_model_data()
        self.calls.clear()
        self.refused.clear()
        self.before.clear()
        self.groups.clear()

    def refuse(self, action: str, code: str, message: str = "no") -> None:
        """Answer a call by an error from now on."""
        self.refused[action] = (code, message)

    def environment(self) -> dict[str, str]:
        """Return what makes boto3 use this API."""
        none = os.devnull
        files = {"AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none, "AWS_EC2_METADATA_DISABLED": "true"}
        return {**KEYS, **files, "AWS_ENDPOINT_URL": self.address}

    def client(self) -> Any:
        import boto3  # type: ignore[import-untyped]

        names = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
        return boto3.client("ec2", region_name=REGION, endpoint_url=self.address, **names)

    def billing(self) -> dict[str, list[str]]:
        """Return what costs money, or would be in the way of another cluster: {kind: ids}; empty for a bare account."""
        ec2 = self.client()
        instances = [instance for r in ec2.describe_instances()["Reservations"] for instance in r["Instances"]]
        resources = {
            "instances": [
                instance["InstanceId"] for instance in instances if instance["State"]["Name"] != "terminated"
            ],
            "volumes": [volume["VolumeId"] for volume in ec2.describe_volumes()["Volumes"]],
            "addresses": [address["PublicIp"] for address in ec2.describe_addresses()["Addresses"]],
            "images": [
                image["ImageId"]
                for image in ec2.describe_images(Owners=["self"])["Images"]
                if image["Name"] != "of-arm"
            ],
            "keys": [pair["KeyName"] for pair in ec2.describe_key_pairs()["KeyPairs"]],
            "security groups": [
                group["GroupName"]
                for group in ec2.describe_security_groups()["SecurityGroups"]
                if group["GroupName"] != "default"
            ],
            "launch templates": [
                template["LaunchTemplateName"] for template in ec2.describe_launch_templates()["LaunchTemplates"]
            ],
            "placement groups": list(self.groups),
        }
        return {kind: ids for kind, ids in resources.items() if ids}

    def called(self, action: str) -> list[dict[str, str]]:
        return [form for name, form in self.calls if name == action]

    def _answer(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        if environ.get("HTTP_X_AMZ_TARGET", "").endswith(".GetProducts"):
            return self._products(start)
        form = {name: values[0] for name, values in parse_qs(body.decode(errors="replace")).items()}
        action = form.get("Action", "")
        if action:
            self.calls.append((action, form))
        if action in self.before:
            self.before[action]()
        if action in self.refused:
            return _error(start, *self.refused[action])
        if "PlacementGroup" in action:
            return self._placement(action, form, start)
        group = form.get("Placement.GroupName")
        if action == "RunInstances" and group and group not in self.groups:
            return _error(start, "InvalidPlacementGroup.Unknown", f"The Placement Group '{group}' is unknown.")
        if action == "CreateImage":  # of its tags, moto does not know those of snapshots
            known = {name: value for name, value in form.items() if not name.startswith("TagSpecification.2.")}
            body = urlencode(known).encode()
            environ.update({"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))})
        answer = b"".join(self._moto(environ, start))
        if action == "RunInstances" and group:
            self.groups[group]["instances"] |= set(re.findall(r"<instanceId>(i-[0-9a-f]+)<", answer.decode()))
        return [answer]

    def _placement(self, action: str, form: dict[str, str], start: Any) -> Iterable[bytes]:
        name = form.get("GroupName", "")
        if action == "CreatePlacementGroup":
            if name in self.groups:
                return _error(start, "InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists.")
            numbers = range(1, 1 + sum(key.startswith("TagSpecification.1.Tag.") for key in form) // 2)
            tags = {form[f"TagSpecification.1.Tag.{n}.Key"]: form[f"TagSpecification.1.Tag.{n}.Value"] for n in numbers}
            self.groups[name] = {
                "id": f"pg-{uuid.uuid4().hex[:17]}",
                "strategy": form["Strategy"],
                "tags": tags,
                "instances": set(),
            }
            return _xml(start, action, f"<placementGroup>{self._group(name)}</placementGroup>")
        if action == "DeletePlacementGroup":
            if self.groups[name]["instances"] & set(self.billing().get("instances", ())):
                return _error(start, "InvalidPlacementGroup.InUse", f"The placement group '{name}' is in use.")
            del self.groups[name]
            return _xml(start, action, "<return>true</return>")
        wanted = [value for key, value in form.items() if ".Value." in key or key.startswith("GroupName.")]
        listed = "".join(f"<item>{self._group(each)}</item>" for each in self.groups if not wanted or each in wanted)
        return _xml(start, action, f"<placementGroupSet>{listed}</placementGroupSet>")

    def _group(self, name: str) -> str:
        group = self.groups[name]
        tags = "".join(
            f"<item><key>{escape(k)}</key><value>{escape(v)}</value></item>" for k, v in group["tags"].items()
        )
        return (
            f"<groupName>{name}</groupName><groupId>{group['id']}</groupId><state>available</state>"
            f"<strategy>{group['strategy']}</strategy><tagSet>{tags}</tagSet>"
        )

    def _products(self, start: Any) -> Iterable[bytes]:
        dimension = {"unit": "Hrs", "pricePerUnit": {"USD": self.price}}
        product = {"terms": {"OnDemand": {"A.B": {"priceDimensions": {"A.B.C": dimension}}}}}
        listed = [json.dumps(product)] if self.price else []
        start("200 OK", [("Content-Type", "application/x-amz-json-1.1")])
        return [json.dumps({"FormatVersion": "aws_v1", "PriceList": listed}).encode()]


def _xml(start: Any, action: str, body: str, status: str = "200 OK") -> Iterable[bytes]:
    start(status, [("Content-Type", "text/xml")])
    return [f'<{action}Response xmlns="{NAMESPACE}"><requestId>1</requestId>{body}</{action}Response>'.encode()]


def _error(start: Any, code: str, message: str) -> Iterable[bytes]:
    start("403 Forbidden" if code == "UnauthorizedOperation" else "400 Bad Request", [("Content-Type", "text/xml")])
    error = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    return [f"<Response><Errors>{error}</Errors><RequestID>1</RequestID></Response>".encode()]
