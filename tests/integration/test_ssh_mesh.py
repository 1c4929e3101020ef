"""The role ssh_mesh on directories of this machine: keys in a home directory that hosts share, as on NFS, and ports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import playbooks
from support.at_length import only_at_length

HOST_KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


class Hosts:
    """Hosts n0, n1 and n2, of which the first two share a home directory. None of them can be logged in on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.homes = {name: folder / home for name, home in (("n0", "shared"), ("n1", "shared"), ("n2", "own"))}
        hosts: dict[str, dict[str, Any]] = {
            name: {
                "ansible_connection": "local",
                "ansible_python_interpreter": sys.executable,
                "preflight_interface": {"address": f"10.0.0.{place}"},
                "home": str(home),
            }
            for place, (name, home) in enumerate(self.homes.items())
        }
        hosts["n1"]["ansible_port"] = 2222
        for home in self.homes.values():
            home.mkdir(exist_ok=True)
        content = {"head": {"hosts": {"n0": hosts["n0"]}}, "workers": {"hosts": {n: hosts[n] for n in ("n1", "n2")}}}
        (folder / "hosts.yml").write_text(yaml.safe_dump({"cluster": {"children": content}}))
        facts = {
            "user_dir": "{{ home }}",
            "user_id": "{{ lookup('ansible.builtin.pipe', 'id -un') }}",
            "ssh_host_key_ed25519_public": HOST_KEY,
            "ssh_host_key_ed25519_public_keytype": "ssh-ed25519",
            "cacheable": True,
        }
        play = {
            "hosts": "cluster",
            "gather_facts": False,
            "tasks": [
                {"ansible.builtin.set_fact": facts},
                {"ansible.builtin.include_role": {"name": "amx.cluster.ssh_mesh"}},
            ],
        }
        (folder / "mesh.yml").write_text(yaml.safe_dump([play]))

    def mesh(self, *options: str) -> str:
        """Run the role; returns its output."""
        ran = playbooks.play(self.folder, "mesh.yml", "--skip-tags", "ssh_mesh_logins", *options)
        assert ran.returncode == 0, ran.stdout
        return ran.stdout

    def key(self, host: str) -> str:
        """Return the public key in the home directory of a host, which must fit the private one."""
        private = self.homes[host] / ".ssh/amx_cluster"
        command = ["ssh-keygen", "-y", "-f", str(private)]
        derived = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        public = private.with_suffix(".pub").read_text()
        assert derived.split()[:2] == public.split()[:2]
        return public.strip()

    def authorized(self, host: str) -> list[str]:
        return (self.homes[host] / ".ssh/authorized_keys").read_text().splitlines()


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    return Hosts(tmp_path)


def test_a_worker_leaves_the_heads_key(hosts: Hosts) -> None:
    hosts.mesh()
    key = hosts.key("n0")
    line = f'restrict,pty,from="10.0.0.0" {key}'
    assert key.endswith(" amx_cluster@n0")
    configuration = (hosts.homes["n0"] / ".ssh/config").read_text().splitlines()
    assert configuration == ["Include amx_cluster_config", "# Made by amx.cluster"]
    assert hosts.authorized("n0") == hosts.authorized("n2") == [line]
    assert "changed=0" in (again := hosts.mesh()) and "changed=1" not in again, again
    assert hosts.key("n0") == key
    # A new key replaces the old one in the file of all, and stays, too.
    hosts.mesh("-e", "ssh_mesh_rotate=true")
    assert hosts.key("n0") != key
    assert hosts.authorized("n0") == hosts.authorized("n2") == [f'restrict,pty,from="10.0.0.0" {hosts.key("n0")}']


def test_a_full_mesh_and_the_way_back(hosts: Hosts) -> None:
    hosts.mesh("-e", "ssh_mesh_mode=full")
    shared, own = hosts.key("n0"), hosts.key("n2")
    lines = [f'restrict,pty,from="10.0.0.0,10.0.0.1" {shared}', f'restrict,pty,from="10.0.0.2" {own}']
    assert hosts.authorized("n0") == hosts.authorized("n2") == lines
    # The port is the one on which Ansible logs in.
    ssh = hosts.homes["n2"] / ".ssh"
    ports = [line.split()[1] for line in (ssh / "amx_cluster_config").read_text().splitlines() if "Port" in line]
    assert ports == ["22", "2222", "22"]
    names = [line.split()[0] for line in (ssh / "amx_cluster_known_hosts").read_text().splitlines() if "ssh-" in line]
    assert names == ["n0", "10.0.0.0", "[n1]:2222", "[10.0.0.1]:2222", "n2", "10.0.0.2"]
    again = hosts.mesh("-e", "ssh_mesh_mode=full")
    assert again.count("changed=0") == 3, again
    hosts.mesh()
    assert hosts.key("n0") == shared
    assert not list((hosts.homes["n2"] / ".ssh").glob("amx_cluster*"))
    assert hosts.authorized("n0") == hosts.authorized("n2") == [f'restrict,pty,from="10.0.0.0" {shared}']


@only_at_length("the way back from a full mesh takes keys away, too")
def test_a_worker_with_another_name_loses_its_access(hosts: Hosts) -> None:
    hosts.mesh("-e", "ssh_mesh_mode=full")
    public = hosts.homes["n2"] / ".ssh/amx_cluster.pub"
    public.write_text(public.read_text().replace("@n2", "@before"))
    for home in set(hosts.homes.values()):
        authorized = home / ".ssh/authorized_keys"
        authorized.write_text(authorized.read_text().replace("@n2", "@before"))
    hosts.mesh()
    assert public.exists()
    assert hosts.authorized("n0") == hosts.authorized("n2") == [f'restrict,pty,from="10.0.0.0" {hosts.key("n0")}']


def test_the_head_of_another_cluster_keeps_its_key(hosts: Hosts) -> None:
    hosts.mesh("-e", "ssh_mesh_mode=full")
    key = hosts.key("n2")
    configuration = hosts.homes["n2"] / ".ssh/amx_cluster_config"
    configuration.write_text("Host n2 10.0.0.2\nHost n9 10.0.0.9\n")
    hosts.mesh()
    assert hosts.key("n2") == key
    assert configuration.exists()
    assert f'restrict,pty,from="10.0.0.2" {key}' in hosts.authorized("n0")
