"""Values of the role firewall that depend on Ansible's own variables."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from support import checkout, playbooks

ROLE = checkout.ROOT / "roles" / "firewall"


@pytest.mark.parametrize(("forks", "seconds"), [(20, 180), (45, 60), (100, 60), (5, 540)])
def test_the_rollback_timer_has_time_for_all_hosts(tmp_path: Path, forks: int, seconds: int) -> None:
    hosts = {f"n{place:02}": {"ansible_connection": "local", "ansible_port": 2222} for place in range(45)}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
    message = "{{ __firewall_timer_seconds }} s, port {{ firewall_ssh_port }}"
    task = {"ansible.builtin.debug": {"msg": message}, "run_once": True}
    play = {
        "hosts": "all",
        "gather_facts": False,
        "vars_files": [str(ROLE / "defaults/main.yml"), str(ROLE / "vars/main.yml")],
        "tasks": [task],
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    ran = playbooks.play(tmp_path, "play.yml", "--forks", str(forks))
    assert f"msg: {seconds} s, port 2222" in ran.stdout, ran.stdout


@pytest.mark.parametrize(
    ("variables", "state"),
    [
        ({}, "absent"),
        ({"firewall_state": "present"}, "present"),
        ({"firewall_state": "enabled"}, "absent"),  # that of another role
        ({"cluster_firewall": "present", "firewall_state": "absent"}, "present"),
    ],
)
def test_the_previous_name_is_read_where_the_own_one_is_not_set(
    tmp_path: Path, variables: dict[str, str], state: str
) -> None:
    task = {"ansible.builtin.debug": {"msg": "state {{ firewall_rules_state }}"}}
    defaults = [str(ROLE / "defaults/main.yml")]
    play = {"hosts": "localhost", "gather_facts": False, "vars_files": defaults, "vars": variables, "tasks": [task]}
    (tmp_path / "hosts.yml").write_text("all: {hosts: {localhost: {ansible_connection: local}}}\n")
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    ran = playbooks.play(tmp_path, "play.yml")
    assert f"msg: state {state}" in ran.stdout, ran.stdout
