from __future__ import annotations

import configparser
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
    assert not {"collections_path", "roles_path"} & set(config["defaults"])


def test_a_directory_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    init.make(ROOT, ["empty"], tmp_path)
    (tmp_path / "empty/inventory/hosts.yml").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match=r"^amx init: empty is not empty, and is not changed$"):
        init.make(ROOT, ["empty"], tmp_path)
    assert (tmp_path / "empty/inventory/hosts.yml").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("words", [[], ["--force"], ["one", "two"]])
def test_not_one_directory(words: list[str], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name one new directory"):
        init.make(ROOT, words, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"^amx init: file cannot be made: "):
        init.make(ROOT, ["file"], tmp_path)
