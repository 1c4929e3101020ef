from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.amx.cluster.plugins.module_utils._jobs import job_file
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import init
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command.arguments import UsageError
from support.checkout import ROOT


def test_a_directory_with_an_inventory_and_a_job(tmp_path: Path) -> None:
    said = init.make(ROOT, ["my servers"], tmp_path)
    made = tmp_path / "my servers"
    assert "\n  cd 'my servers'\n" in said
    hosts = yaml.safe_load((made / "inventory/hosts.yml").read_text(encoding="utf-8"))
    assert len(hosts["cluster"]["children"]["workers"]["hosts"]) == 3
    assert (made / "inventory/group_vars/cluster.yml").is_file()
    # Its script is there, and its data.
    path = made / "jobs/csv.yml"
    assert job_file.parse(yaml.safe_load(path.read_text(encoding="utf-8")), path).name == "csv"
    assert (made / "jobs/messages/train.csv").is_file()
    config = configparser.ConfigParser(interpolation=None)
    config.read(made / "ansible.cfg")
    assert config["defaults"]["inventory"] == "inventory"
    assert config["defaults"]["stdout_callback"] == "amx.cluster.compact"
    assert config["defaults"]["collections_path"] == str(ROOT / ".collections")  # of a checkout
    assert "roles_path" not in config["defaults"]


def test_a_directory_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    init.make(ROOT, ["empty"], tmp_path)
    (tmp_path / "empty/inventory/hosts.yml").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match=r"^amx init: empty is not empty, and is not changed$"):
        init.make(ROOT, ["empty"], tmp_path)
    assert (tmp_path / "empty/inventory/hosts.yml").read_text(encoding="utf-8") == "mine"


def test_servers(tmp_path: Path) -> None:
    said = init.make(ROOT, ["mine", "192.0.2.9", "me@node[08:10].example.com", "007"], tmp_path)
    assert said.startswith("Made mine with 5 servers, whose head is 192.0.2.9. Next:\n  cd mine\n")
    inventory = tmp_path / "mine/inventory"
    children = yaml.safe_load((inventory / "hosts.yml").read_text(encoding="utf-8"))["cluster"]["children"]
    workers = ["node08.example.com", "node09.example.com", "node10.example.com", "007"]
    assert children == {"head": {"hosts": {"192.0.2.9": None}}, "workers": {"hosts": dict.fromkeys(workers)}}
    assert yaml.safe_load((inventory / "group_vars/cluster.yml").read_text(encoding="utf-8")) == {"ansible_user": "me"}


def test_one_server_of_the_own_user(tmp_path: Path) -> None:
    init.make(ROOT, ["mine", "node0"], tmp_path)
    inventory = tmp_path / "mine/inventory"
    hosts = yaml.safe_load((inventory / "hosts.yml").read_text(encoding="utf-8"))
    assert hosts == {"cluster": {"children": {"head": {"hosts": {"node0": None}}}}}
    assert yaml.safe_load((inventory / "group_vars/cluster.yml").read_text(encoding="utf-8")) is None


def test_a_user_whose_name_is_no_text_in_yaml(tmp_path: Path) -> None:
    init.make(ROOT, ["mine", "yes@node0"], tmp_path)
    text = (tmp_path / "mine/inventory/group_vars/cluster.yml").read_text(encoding="utf-8")
    assert yaml.safe_load(text) == {"ansible_user": "yes"}


@pytest.mark.parametrize("server", ["ubuntu@192.0.2.10", "192.0.2.10", "node[01:16]"])
def test_servers_without_a_directory(server: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"^amx init: {re.escape(server)} is a server: name a new directory before it"):
        init.make(ROOT, [server, "node1"], tmp_path)
    assert list(tmp_path.iterdir()) == []
    init.make(ROOT, [f"./{server}", "node1"], tmp_path)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["a b"], "a b is not a server, such as ubuntu@192.0.2.10 or node[01:16]"),
        (["node0:"], "node0: is not a server"),
        (["node0", "x@node0"], "node0 is named twice"),
        (["x@node0", "y@node1"], "x@node0 and y@node1 have different users"),
        (["node[3:1]"], "node[3:1] is an empty range"),
        (["node[01:2]"], "node[01:2] is not a range, such as node[01:16]: "),
    ],
)
def test_no_servers(words: list[str], error: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"^amx init: {re.escape(error)}"):
        init.make(ROOT, ["mine", *words], tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [[], ["--force"], ["one", "-q"]])
def test_no_directory(words: list[str], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name a new directory"):
        init.make(ROOT, words, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"^amx init: file cannot be made: "):
        init.make(ROOT, ["file"], tmp_path)
