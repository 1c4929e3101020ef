"""How the command finds playbooks and configuration, and what it prints without running any."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command import help, launch, main, table
from ansible_collections.amx.cluster.plugins.plugin_utils.amx_command.arguments import UsageError
from support.checkout import ROOT


def place(folder: Path, *, installed: bool = False, here: str = "here") -> launch.Place:
    """A collection in a directory, and a user in another one."""
    collection = folder / ("lib/ansible_collections/amx/cluster" if installed else "checkout")
    for path in (collection, folder / "here", folder / "home"):
        path.mkdir(parents=True, exist_ok=True)
    (collection / "ansible.cfg").touch()
    return launch.Place(collection, folder / here, folder / "home", folder / "etc/ansible.cfg")


def test_a_playbook_of_a_checkout_is_named_by_its_path(tmp_path: Path) -> None:
    assert place(tmp_path, here="checkout").playbook("train") == "playbooks/train.yml"
    assert place(tmp_path).playbook("train") == str(tmp_path / "checkout/playbooks/train.yml")


def test_a_playbook_of_an_installed_collection_is_named_by_its_name(tmp_path: Path) -> None:
    assert place(tmp_path, installed=True).playbook("cloud_train") == "amx.cluster.cloud_train"


def test_a_checkout_is_used_with_its_configuration_from_anywhere(tmp_path: Path) -> None:
    expected = {
        "AMX_COMMAND": "train",
        "ANSIBLE_CONFIG": str(tmp_path / "checkout/ansible.cfg"),
    }
    (tmp_path / "checkout").mkdir()
    for here in ("here", "checkout"):
        found = place(tmp_path, here=here)
        (found.collection / "ansible.cfg").write_text("[defaults]\ncollections_path = .collections\n")
        assert found.environment({}, "train") == expected


def test_a_configuration_of_the_user_stays_in_use(tmp_path: Path) -> None:
    root = tmp_path / "checkout/.collections"
    found = place(tmp_path)
    (tmp_path / "here/ansible.cfg").write_text("[defaults]\ncollections_path = own:~/other ; both\nforks = 5%\n")
    assert found.environment({}, "train") == {
        "AMX_COMMAND": "train",
        "ANSIBLE_COLLECTIONS_PATH": f"{root}:{tmp_path}/here/own:~/other",
    }
    named = {"ANSIBLE_CONFIG": str(tmp_path / "here"), "ANSIBLE_COLLECTIONS_PATH": "/a:/b"}
    assert found.environment(named, "train")["ANSIBLE_COLLECTIONS_PATH"] == f"{root}:/a:/b"
    (tmp_path / "here/ansible.cfg").write_text("nonsense")
    assert found.environment({}, "train")["ANSIBLE_COLLECTIONS_PATH"] == f"{root}:{launch.DEFAULT_PATHS}"
    (tmp_path / "here").chmod(0o777)  # its inventory would be ignored as well
    with pytest.raises(UsageError, match=f"^amx: Ansible ignores ansible.cfg .*: chmod o-w {tmp_path}/here$"):
        found.environment({}, "train")
    found.environment(named, "train")


def test_an_installed_collection_prints_as_a_checkout_does(tmp_path: Path) -> None:
    found = place(tmp_path, installed=True)
    env = found.environment({"ANSIBLE_COLLECTIONS_PATH": str(tmp_path / "lib")}, "train")
    assert env == {"AMX_COMMAND": "train", "ANSIBLE_STDOUT_CALLBACK": "amx.cluster.compact"}
    own = {"ANSIBLE_STDOUT_CALLBACK": "yaml"}
    assert "ANSIBLE_STDOUT_CALLBACK" not in found.environment(own, "train")
    (tmp_path / "home/.ansible.cfg").touch()
    assert found.environment({}, "train") == {
        "AMX_COMMAND": "train",
        "ANSIBLE_COLLECTIONS_PATH": f"{tmp_path / 'lib'}:{launch.DEFAULT_PATHS}",
    }


def test_versions_are_those_of_the_collection(tmp_path: Path) -> None:
    found = place(tmp_path, installed=True)
    assert found.version() == "unknown"
    (found.collection / "MANIFEST.json").write_text(
        '{\n "collection_info": {\n  "name": "cluster",\n  "version": "1.2.3",\n  "a": 1\n }\n}\n'
    )
    assert found.version() == "1.2.3"
    lines = launch.versions(launch.Place(ROOT, ROOT, ROOT)).splitlines()
    assert [line.split()[0] for line in lines] == ["amx.cluster", "ansible-core", "Python"]
    assert f"\nversion: {lines[0].split()[1]}\n" in (ROOT / "galaxy.yml").read_text()


def test_ansible_playbook_is_that_beside_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ansible-playbook").touch(0o755)
    assert launch.ansible_playbook(tmp_path / "bin/python") == str(tmp_path / "bin/ansible-playbook")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert launch.ansible_playbook(tmp_path / "python") == str(tmp_path / "bin/ansible-playbook")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="install ansible-core"):
        launch.ansible_playbook(tmp_path / "python")


def answer(*argv: str) -> str:
    said = main.answer(argv, launch.Place(ROOT, ROOT, ROOT))
    assert isinstance(said, str)
    return said


def test_the_overview_has_all_commands_on_one_screen() -> None:
    lines = answer().splitlines()
    assert answer("--help") == answer("-h") == help.overview()
    assert len(lines) < 50
    assert max(map(len, lines)) <= 100
    for name in (*table.BY_NAME, *table.OWN):
        assert sum(line.startswith(f"  {name} ") for line in lines) == 1


@pytest.mark.parametrize("name", table.OWN)
def test_the_help_of_a_command_without_a_playbook(name: str) -> None:
    assert answer(name, "--help").startswith(f"usage: amx {name}")


@pytest.mark.parametrize("command", table.COMMANDS, ids=lambda command: command.name)
def test_the_help_of_a_command_has_a_line_for_each_option(command: table.Command) -> None:
    text = answer(command.name, "--help")
    assert text == answer("-i", "x", command.name, "-h")
    for option in (*command.options, *command.arguments):
        assert text.count(option.text) == 1
    assert max(map(len, text.splitlines())) <= 120


def test_what_is_no_command_is_refused() -> None:
    for argv, message in ((("-v",), "no command is named"), (("completion",), "name the shell: bash or zsh")):
        with pytest.raises(UsageError, match=message):
            answer(*argv)
    assert answer("version") == answer("--version")
