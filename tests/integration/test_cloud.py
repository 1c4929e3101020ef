"""A cluster is rented from EC2, and given back: the real playbooks and amazon.aws on moto's server (support/ec2.py)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._cloud import aws, plan, request
from support import checkout, ec2, playbooks
from support.local_cluster import LocalCluster

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ5vqUSYbDhLhEwdkAsGSQOr7vcHKVTWLwRWJvFcPRCP somebody\n"
FILE: dict[str, Any] = {
    "name": "spr",
    "region": ec2.REGION,
    "type": "m7i.4xlarge",
    "hosts": 3,
    "administrators": ["203.0.113.0/24"],
    "key": "key.pub",
}


class Account:
    """A control node's directory with a cloud file, and an account of EC2 in which nothing was made."""

    def __init__(self, folder: Path, api: ec2.Ec2) -> None:
        self.folder, self.api = folder, api
        self.inventory = folder / "inventories/spr"
        self.env = {**checkout.environment(), **api.environment()}
        (folder / "key.pub").write_text(KEY)
        self.write()
        api.reset()

    def write(self, **fields: Any) -> None:
        given = {name: value for name, value in {**FILE, **fields}.items() if value is not None}
        (self.folder / "spr.yml").write_text(yaml.safe_dump(given))

    def play(self, *options: str, playbook: str = "cloud") -> subprocess.CompletedProcess[str]:
        command = [playbooks.PLAYBOOK, *options, str(checkout.ROOT / f"playbooks/{playbook}.yml")]
        given = ["-e", "cloud=spr.yml", "-e", "cloud_ssh_timeout=0"]
        return subprocess.run(
            [*command, *given],
            cwd=self.folder,
            env={**self.env, "PWD": str(self.folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )

    def succeed(self, *options: str, changed: int | None = None, playbook: str = "cloud") -> str:
        """Run the playbook, which must succeed. changed: how many tasks must have changed something, if it matters."""
        done = self.play(*options, playbook=playbook)
        assert done.returncode == 0, done.stdout[-6000:]
        if changed is not None:
            assert f"changed={changed} " in done.stdout, done.stdout[-6000:]
        return done.stdout

    def fail(self, *options: str, playbook: str = "cloud") -> str:
        """Run the playbook, which must fail. Returns its last message, on one line."""
        done = self.play(*options, playbook=playbook)
        assert done.returncode == 2, done.stdout[-6000:]
        assert "Traceback" not in done.stdout
        found = re.findall(r"^\s+msg: (.+?)^(?:\S|$)", done.stdout, re.S | re.M)
        return " ".join(found[-1].replace("''", "'").split()).strip("'")

    def instances(self) -> dict[str, dict[str, Any]]:
        """The instances that are not terminated, by their names."""
        listed = [one for r in self.api.client().describe_instances()["Reservations"] for one in r["Instances"]]
        alive = [one for one in listed if one["State"]["Name"] != "terminated"]
        return {tags(one).get("Name", one["InstanceId"]): one for one in alive}


def tags(resource: dict[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in resource.get("Tags", ())}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ec2.Ec2]:
    served = ec2.Ec2(tmp_path_factory.mktemp("moto"))
    yield served
    served.close()


@pytest.fixture
def account(tmp_path: Path, api: ec2.Ec2) -> Account:
    return Account(tmp_path, api)


def test_from_nothing_to_a_cluster_and_back(account: Account) -> None:
    api = account.api
    subnet = api.client().describe_subnets()["Subnets"][0]["SubnetId"]
    api.client().run_instances(ImageId=ec2.UBUNTU, MinCount=1, MaxCount=1, SubnetId=subnet)
    others = api.billing()

    shown = account.succeed("--check", changed=1)
    assert "Cost: 2.42 USD an hour " in shown
    assert re.search(r"hosts +3 x m7i\.4xlarge, on-demand +0 there, 3 to make", shown)
    assert api.billing() == others
    assert not account.inventory.exists()

    made = account.succeed()
    assert "ansible-playbook -i inventories/spr " in made
    (run,) = api.called("RunInstances")[1:]
    assert (run["MinCount"], run["MaxCount"]) == ("3", "3")
    assert (run["Placement.GroupName"], run["MetadataOptions.HttpTokens"]) == ("amx-spr", "required")
    assert (run["BlockDeviceMapping.1.Ebs.VolumeSize"], run["NetworkInterface.1.AssociatePublicIpAddress"]) == (
        "128",
        "true",
    )
    assert api.groups["amx-spr"]["strategy"] == "cluster"
    (group,) = api.client().describe_security_groups(Filters=[{"Name": "group-name", "Values": ["amx-spr"]}])[
        "SecurityGroups"
    ]
    allowed = {
        (
            *(rule["IpProtocol"], rule.get("FromPort")),
            *(one["CidrIp"] for one in rule["IpRanges"]),
            *(pair["GroupId"] for pair in rule["UserIdGroupPairs"]),
        )
        for rule in group["IpPermissions"]
    }
    assert allowed == {("tcp", 22, "203.0.113.0/24"), ("-1", None, group["GroupId"])}
    hosts = {name: one for name, one in account.instances().items() if name.startswith("spr-")}
    assert {name: tags(one)["amx-cluster-role"] for name, one in hosts.items()} == {
        "spr-node0": "head",
        "spr-node1": "workers",
        "spr-node2": "workers",
    }

    listed = account.succeed("-i", "inventories/spr", playbook="inventory")
    assert re.search("Hosts: 3 hosts of inventories/spr: head spr-node0, workers spr-node[12], spr-node[12]", listed)
    variables = yaml.safe_load((account.inventory / "group_vars/cluster/cloud.yml").read_text())
    assert variables["cluster_network"] == "172.31.0.0/20"
    assert variables["cluster_host_price_per_hour"] == "0.8064 USD"

    account.succeed(changed=0)

    # A host that EC2 took back is made anew, under its name, and no other one is touched.
    api.client().terminate_instances(InstanceIds=[hosts["spr-node1"]["InstanceId"]])
    (account.inventory / "known_hosts").write_text("198.51.100.1 ssh-ed25519 AAAA\n")
    assert "2 there, 1 to make" in account.succeed()
    again = account.instances()
    assert again["spr-node1"]["InstanceId"] != hosts["spr-node1"]["InstanceId"]
    assert again["spr-node0"]["InstanceId"] == hosts["spr-node0"]["InstanceId"]

    removed = account.succeed("--check", "-e", "state=absent")
    assert "remove  host spr-node0 (" in removed
    assert len(account.instances()) == 4
    account.succeed("-e", "state=absent")
    assert api.billing() == others
    assert not account.inventory.exists()
    account.succeed("-e", "state=absent", changed=0)


def test_spot_with_a_price_of_the_user(account: Account) -> None:
    (account.folder / "prices.yml").write_text("m7i.4xlarge: 0.31\n")
    account.write(market="spot", max_price=0.4, prices="prices.yml", hosts=1, connect="private")
    shown = account.succeed()
    assert "1 x m7i.4xlarge, spot, at most 0.4 USD an hour each" in shown
    assert "Cost: 0.31 USD an hour for 1 host, 0.31 USD each (" in shown
    (run,) = account.api.called("RunInstances")
    assert run["LaunchTemplate.LaunchTemplateName"] == "amx-spr"
    assert "NetworkInterface.1.AssociatePublicIpAddress" not in run  # the subnet decides
    template = account.api.client().describe_launch_template_versions(LaunchTemplateName="amx-spr")
    options = template["LaunchTemplateVersions"][0]["LaunchTemplateData"]["InstanceMarketOptions"]
    assert options["MarketType"] == "spot"
    assert float(options["SpotOptions"]["MaxPrice"]) == 0.4
    account.succeed(changed=0)
    account.succeed("-e", "state=absent")
    assert account.api.billing() == {}


@pytest.mark.parametrize(
    ("action", "code", "message"),
    [
        (
            "RunInstances",
            "VcpuLimitExceeded",
            "does not allow 3 x m7i.4xlarge in eu-west-1 (RunInstances: VcpuLimitExceeded): no.",
        ),
        (
            "CreatePlacementGroup",
            "UnauthorizedOperation",
            "your AWS user is not allowed to call ec2:Create",
        ),
        ("CreateTags", "UnauthorizedOperation", "your AWS user is not allowed to call ec2:CreateTags"),
    ],
)
def test_a_call_that_is_refused_leaves_nothing(account: Account, action: str, code: str, message: str) -> None:
    account.api.refuse(action, code)
    said = account.fail()
    assert message in said
    assert said.endswith("What this run had made is removed again.")
    assert account.api.billing() == {}
    assert not account.inventory.exists()


def test_what_cannot_be_removed_is_named_with_the_command(account: Account) -> None:
    account.api.refuse("RunInstances", "Unsupported")
    account.api.refuse("DeleteKeyPair", "UnauthorizedOperation")
    said = account.fail()
    assert said.startswith("3 x m7i.4xlarge in eu-west-1 is not supported: no. Set another zone or type"), said
    assert "could not be removed, and may bill: key pair amx-spr. Remove it with ansible-playbook " in said
    assert said.endswith(" -e amx_cloud=spr.yml -e amx_state=absent")
    # The lock is a key pair, too: the next run names the command that removes it.
    assert account.api.billing() == {"keys": ["amx-spr-lock", "amx-spr"]}
    said = account.fail("-e", "state=absent")
    assert said.endswith("aws ec2 delete-key-pair --region eu-west-1 --key-name amx-spr-lock"), said
    account.api.refused.clear()
    account.api.client().delete_key_pair(KeyName="amx-spr-lock")
    account.succeed("-e", "state=absent")
    assert account.api.billing() == {}


def test_a_failure_beside_hosts_that_are_there_removes_only_what_is_new(account: Account) -> None:
    account.write(hosts=1)
    account.succeed()
    before = account.api.billing()
    account.write(hosts=2)
    account.api.refuse("CreateTags", "UnauthorizedOperation")
    account.fail()
    assert account.api.billing() == before


def test_refused_before_anything_is_made(account: Account) -> None:
    account.write(nodes=3)
    assert "nodes: unknown field; " in account.fail()
    assert account.api.billing() == {}


@pytest.fixture
def refusal(account: Account, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """A function that returns why the plan of the cloud file is refused by what EC2 answers."""
    for name, value in account.api.environment().items():
        monkeypatch.setenv(name, value)

    def refused() -> str:
        asked = request.load(account.folder / "spr.yml")
        with pytest.raises(ValueError) as error:
            plan.plan(asked, aws.Ec2(asked).facts())
        return str(error.value)

    return refused


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"zone": "eu-west-1z"}, "zone: eu-west-1z does not offer m7i.4xlarge"),
        ({"type": "m7i.999xlarge"}, "type: m7i.999xlarge is not offered in eu-west-1"),
        ({"image": {"id": ec2.ARM, "user": "ubuntu"}}, f"image: {ec2.ARM} is for arm64"),
    ],
)
def test_what_the_region_does_not_have(
    account: Account, refusal: Callable[[], str], fields: dict[str, Any], message: str
) -> None:
    account.write(**fields)
    assert message in refusal()


def test_a_question_that_is_refused(account: Account, refusal: Callable[[], str]) -> None:
    account.api.refuse("DescribeVpcs", "UnauthorizedOperation")
    assert refusal().startswith("your AWS user is not allowed to call ec2:DescribeVpcs: no.")


def test_no_default_vpc(account: Account, refusal: Callable[[], str]) -> None:
    client = account.api.client()
    vpc = client.describe_vpcs()["Vpcs"][0]["VpcId"]
    for subnet in client.describe_subnets()["Subnets"]:
        client.delete_subnet(SubnetId=subnet["SubnetId"])
    client.delete_vpc(VpcId=vpc)
    assert "vpc: eu-west-1 has no default VPC" in refusal()


def test_a_name_that_another_has(account: Account, refusal: Callable[[], str]) -> None:
    account.api.client().create_security_group(GroupName="amx-spr", Description="another's")
    assert "name: there is a security group amx-spr in eu-west-1 which this collection has not made" in refusal()
    account.succeed("-e", "state=absent")
    assert account.api.billing() == {"security groups": ["amx-spr"]}


def test_no_credentials(refusal: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ec2.KEYS:
        monkeypatch.delenv(name)
    assert refusal().startswith("there are no AWS credentials: set AWS_PROFILE")


def test_an_image_of_a_host(account: Account) -> None:
    account.write(hosts=1)
    account.succeed()
    root, keep = account.folder / "host", account.folder / "keep"
    (root / "etc/ssh").mkdir(parents=True)
    (root / "etc/ssh/ssh_host_ed25519_key").write_text("secret")
    here = {"ansible_connection": "local", "cluster_become": False, "cluster_prefix": "/none"}
    here |= {"cloud_image_root": str(root), "cloud_image_keep": str(keep), "ansible_python_interpreter": sys.executable}
    (account.inventory / "group_vars/cluster/here.yml").write_text(yaml.safe_dump(here))
    words = ("-i", "inventories/spr", "-e", "image_name=mine")

    account.api.refuse("CreateImage", "UnauthorizedOperation")
    said = account.fail(*words, playbook="cloud_image")
    assert said.startswith("No image of spr-node0 was made, and the host is as it was: EC2 refused CreateImage, and"), (
        said
    )
    assert (root / "etc/ssh/ssh_host_ed25519_key").read_text() == "secret"
    account.api.refused.clear()

    seen: list[bool] = []
    account.api.before["CreateImage"] = lambda: seen.append((root / "etc/ssh/ssh_host_ed25519_key").exists())
    shown = account.succeed(*words, playbook="cloud_image")
    assert seen == [False]
    assert (root / "etc/ssh/ssh_host_ed25519_key").read_text() == "secret"
    assert account.api.called("CreateImage")[-1]["NoReboot"] == "true"
    (made,) = account.api.billing()["images"]
    assert f"image: {{id: {made}, user: ubuntu}}" in " ".join(shown.split())

    # Hosts are made of it, and it goes only when that is requested.
    account.succeed("-e", "state=absent")
    assert account.api.billing() == {"images": [made]}
    account.write(hosts=1, image={"id": made, "user": "ubuntu"})
    account.succeed()
    assert account.api.called("RunInstances")[-1]["ImageId"] == made
    account.succeed("-e", "state=absent", "-e", "images=true")
    assert account.api.billing() == {}


# It fails after a checkpoint, and ends well when it goes on from one.
SCRIPT = """
import sys
from pathlib import Path
checkpoint = Path("output/checkpoint-3")
if not checkpoint.exists():
    checkpoint.mkdir(parents=True)
    (checkpoint / "model").write_text("weights")
    (checkpoint / "complete.json").write_text('{"model": 7}')
    sys.exit("it was interrupted")
"""


def test_a_host_that_is_taken_back_is_replaced_and_the_job_goes_on(account: Account) -> None:
    """STAND-IN: the host is this machine (support/local_cluster.py), and is not set up."""
    prefix = LocalCluster(account.folder).prefix
    here = {"ansible_connection": "local", "cluster_become": False, "cluster_unknown_os": "allow"}
    here |= {"cluster_prefix": str(prefix), "cluster_network": "127.0.0.0/8", "cluster_spot_notices": ""}
    here |= {"ansible_python_interpreter": sys.executable}
    (account.inventory / "group_vars/cluster").mkdir(parents=True)
    (account.inventory / "group_vars/cluster/here.yml").write_text(yaml.safe_dump(here))
    account.write(hosts=1, market="spot", connect="private")
    (account.folder / "tiny.py").write_text(SCRIPT)
    job = {"name": "tiny", "script": "tiny.py", "kind": "ranks", "ranks_per_node": 1}
    (account.folder / "tiny.yml").write_text(yaml.safe_dump(job))
    words = ("-i", "inventories/spr", "-e", "job=tiny.yml", "--skip-tags", "torch_stack,verify")

    wrong = account.fail("-i", "inventories/spr", "-e", "job=none.yml", playbook="cloud_train")
    assert "none.yml" in wrong
    assert account.api.billing() == {}

    assert "it was interrupted" in account.fail(*words, playbook="cloud_train")
    (first,) = account.instances().values()
    status = json.loads((prefix / "jobs/tiny/status.json").read_text())
    # As the supervisor writes it.
    status["left"] = {"spr-node0": {"at": "12:00:00 UTC", "instance": first["InstanceId"]}}
    (prefix / "jobs/tiny/status.json").write_text(json.dumps(status))

    assert "the head, with the log and the results of job tiny, which were not fetched" in account.fail(
        *words, playbook="cloud_train"
    )
    account.succeed("-i", "inventories/spr", "-e", "job=tiny", playbook="results")
    supervisor = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(300)", "supervise", str(prefix / "jobs/tiny")]
    )
    running = {**status, "state": "running", "pid": supervisor.pid}
    (prefix / "jobs/tiny/status.json").write_text(json.dumps(running))
    assert "job tiny is running, and goes on without spr-node0" in account.fail(*words, playbook="cloud_train")
    supervisor.kill()
    supervisor.wait()
    assert [one["InstanceId"] for one in account.instances().values()] == [first["InstanceId"]]
    (prefix / "jobs/tiny/status.json").write_text(json.dumps(status))

    shown = account.succeed(*words, playbook="cloud_train")
    assert re.search(rf"host +spr-node0 \({first['InstanceId']}\) +to give back: EC2 takes it back", shown)
    (second,) = account.instances().values()
    assert second["InstanceId"] != first["InstanceId"]
    status = json.loads((prefix / "jobs/tiny/status.json").read_text())
    assert (status["state"], status["attempts"][0]["from"]) == ("succeeded", "checkpoint-3")


def test_two_runs_at_a_time(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one is refused with who and since; what is undone is what the run has made, and nothing else."""
    for name, value in account.env.items():
        monkeypatch.setenv(name, value)
    asked = request.load(account.folder / "spr.yml")
    first, second, client = aws.Ec2(asked), aws.Ec2(asked), account.api.client()
    first.lock("aaaa", "anna@control")
    first.lock("aaaa", "anna@control")  # an answer that got lost
    with pytest.raises(ValueError, match=r"run aaaa of anna@control, since 20.* --key-name amx-spr-lock$"):
        second.lock("bbbb", "ben@ci")
    second.unlock("bbbb")
    assert [one["KeyName"] for one in client.describe_key_pairs()["KeyPairs"]] == ["amx-spr-lock"]
    refused = account.fail()
    assert "run aaaa of anna@control" in refused
    assert not account.instances()
    account.fail("-e", "state=absent")
    monkeypatch.setattr(aws, "STALE", timedelta(seconds=-1))
    second.lock("bbbb", "ben@ci")  # the other run has died
    second.unlock("bbbb")
    for run in ("aaaa", "bbbb"):
        marks = [{"Key": key, "Value": value} for key, value in {request.MARK: "spr", aws.RUN: run}.items()]
        for kind, call in (("key-pair", client.create_key_pair), ("security-group", client.create_security_group)):
            named = {"KeyName": run} if kind == "key-pair" else {"GroupName": run, "Description": run}
            call(**named, TagSpecifications=[{"ResourceType": kind, "Tags": marks}])
    before: dict[str, Any] = {kind: [] for kind in plan.WORDS}
    undone = plan.removal(second.own("bbbb"), before, False)
    assert [one["name"] for kind in ("keys", "security_groups") for one in undone[kind]] == ["bbbb", "bbbb"]
    assert len(second.own()["keys"]) == 2
