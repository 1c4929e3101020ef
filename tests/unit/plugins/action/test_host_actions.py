"""The actions that check hosts and derive rules from data that is there: they run without Ansible's task queue."""

from __future__ import annotations

import base64
import json
import re
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
from ansible.errors import AnsibleError
from ansible_collections.amx.cluster.plugins.action import (
    doctor_report,
    firewall_rules,
    inventory_check,
    on_host,
    ssh_host_keys_check,
)
from ansible_collections.amx.cluster.plugins.module_utils._hosts.amx import judge, probe
from ansible_collections.amx.cluster.plugins.plugin_utils import inventory_in_use
from support.modules import run_action
from support.sound_cluster import CAPTURED, results

A = "AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
B = "AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB"


def run(action: ModuleType, **options: Any) -> dict[str, Any]:
    """Return what an action returns for these options."""
    return run_action(action, options)


def test_inventory_check() -> None:
    sound = {"cluster": ["a"], "head": ["a"], "workers": []}
    assert run(inventory_check, groups=sound) == {"changed": False, "errors": []}
    answer = run(inventory_check, groups={"cluster": ["a", "b"], "head": ["a"], "workers": []})
    assert answer["failed"]
    assert answer["msg"].startswith("The inventory cannot be used:\n- b is in 'cluster' ")
    hosts = [{"host": "a", "become": "yes", "prefix": "/a b", "cache": None, "fabric": "ib"}]
    errors = run(inventory_check, groups=sound, hosts=hosts)["errors"]
    assert [re.split("[:,]", error)[0] for error in errors] == [
        "ansible_become is true for a",
        "cluster_prefix is '/a b' on a",
        "cluster_fabric is 'ib' on a",
    ]


def test_inventory_check_shows_the_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    run(inventory_check, groups={"cluster": ["a", "b"], "head": ["a"], "workers": ["b"]})
    assert capsys.readouterr().out == "Hosts: 2 hosts: head a, workers b\n"
    run(inventory_check, groups={"cluster": ["a"], "head": [], "workers": ["a"]})
    assert capsys.readouterr().out == ""


def test_firewall_rules() -> None:
    stale = {"network": "10.0.0.9/32", "protocol": "tcp", "port": 0}
    answer = run(
        firewall_rules,
        addresses=["10.0.0.1"],
        admin_networks=["192.0.2.0/24"],
        allow=[{"port": "161", "protocol": "udp", "networks": ["198.51.100.7"]}],
        recorded=[stale],
        connection="203.0.113.5 50000 10.0.0.1 22",
    )
    assert [rule["nft_rule"] for rule in answer["rules"]] == [
        "ip saddr 10.0.0.1/32 meta l4proto 6 accept",
        "ip saddr 192.0.2.0/24 tcp dport 22 accept",
        "ip saddr 198.51.100.7/32 udp dport 161 accept",
    ]
    assert answer["stale"] == []
    assert "203.0.113.5 to port 22" in answer["cut_off"]


def test_firewall_rules_beside_those_of_firewalld() -> None:
    stale = {"network": "203.0.113.0/24", "protocol": "tcp", "port": 22, "zone": "public"}
    rich = 'rule priority="26843" family="ipv4" source address="203.0.113.0/24" port port="22" protocol="tcp" accept'
    options = {
        "addresses": ["10.0.0.1"],
        "zones": ["internal", "public"],
        "backend": "firewalld",
        "listed": f"public\n  rich rules: \n\t{rich}\n" * 2,
        "connection": "203.0.113.5 50000 10.0.0.1 22",
    }
    answer = run(firewall_rules, recorded=[stale], **options)
    assert [rule["zone"] for rule in answer["rules"]] == ["internal", "public"]
    assert [rule["rich_rule"] for rule in answer["stale"]] == [rich]
    assert "203.0.113.5 to port 22" in answer["cut_off"]
    answer = run(firewall_rules, **options)
    assert (answer["stale"], answer["cut_off"]) == ([], "")


def test_firewall_rules_refuse_what_is_no_network() -> None:
    answer = run(firewall_rules, addresses=["10.0.0.1"], admin_networks=["office"])
    assert answer["failed"]
    assert answer["msg"].startswith("firewall_admin_networks: 'office' ")


def host(name: str, key: str | None, pinned: str | None = None) -> dict[str, Any]:
    facts = {"ssh_host_key_ed25519_public": key, "ssh_host_key_ed25519_public_keytype": "ssh-ed25519"} if key else {}
    content = None if pinned is None else base64.b64encode(pinned.encode()).decode()
    return {"host": name, "facts": facts, "known_hosts": content}


def test_ssh_host_keys_check() -> None:
    pinned = f"node0 ssh-ed25519 {A}\nnode1 ssh-ed25519 {A}\n"
    hosts = [host("node0", A, pinned), host("node1", A)]
    answer = run(ssh_host_keys_check, hosts=hosts)
    assert answer["host_keys"] == {"node0": {"ssh-ed25519": A}, "node1": {"ssh-ed25519": A}}
    changed = [hosts[0], host("node1", B)]
    answer = run(ssh_host_keys_check, hosts=changed)
    assert answer["failed"]
    assert answer["msg"].startswith("Nothing was changed.\n- node1's own SSH keys ")
    assert [one["host"] for one in answer["changed_hosts"]] == ["node1"]
    assert run(ssh_host_keys_check, hosts=changed, accept_changed="node0, node1")["host_keys"]["node1"] == {
        "ssh-ed25519": B
    }
    answer = run(ssh_host_keys_check, hosts=[hosts[0], host("node1", None)])
    assert answer["msg"].startswith("Nothing was changed.\n- node1 shows no SSH host key")


WANTED = {
    "become": True,
    "full": True,
    "free_gib": 6,
    "job_free_gib": 1,
    "memory_gib": 2,
    "shm_gib": 0.5,
    "clock_seconds": 1,
}


def report(capsys: pytest.CaptureFixture[str], form: str, **facts: Any) -> tuple[dict[str, Any], list[str]]:
    reported = results()
    reported["node1"]["info"]["host"].update(facts)
    answer = run(doctor_report, results=reported, wanted=WANTED, format=form)
    return answer, capsys.readouterr().out.splitlines()


def test_doctor_report_of_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    answer, shown = report(capsys, "failures", shm_bytes=0, tcmalloc="")
    assert answer["failed"]
    assert answer["msg"].splitlines()[0] == "Nothing was changed, because node1 cannot be used:"
    assert [finding["check"] for finding in answer["findings"]] == ["shm", "tcmalloc"]
    assert answer["summary"].endswith(" checks on 3 hosts: 1 failure, 1 warning")
    assert shown[-1] == answer["summary"]
    assert not any("tcmalloc" in line for line in shown)


def test_doctor_report_names_commands_with_the_inventory_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory_in_use, "option", lambda: "-i inventories/mine")
    reported = results()
    reported["node1"]["info"]["host"]["stack"] = {}
    answer = run(doctor_report, results=reported, wanted=WANTED, format="failures")
    assert "Run ansible-playbook -i inventories/mine site.yml, which installs the same" in answer["msg"]


def test_doctor_report_of_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    answer, shown = report(capsys, "failures", tcmalloc="")
    assert "failed" not in answer
    (line,) = shown
    assert line.startswith("AMX can be used on node0, node1, node2 (")
    answer, shown = report(capsys, "table", tcmalloc="")
    assert "failed" not in answer
    assert any("tcmalloc" in line for line in shown)


OLD_KERNEL = {
    "supported_errno": 22,
    "request_errno": 22,
    "granted_errno": 22,
    "supported": 0,
    "granted": 0,
    "killed": 0,
}


def old_kernel() -> dict[str, Any]:
    """Facts about AMX on Sapphire Rapids with a kernel that does not know it."""
    cpuinfo = probe(str(CAPTURED / "sapphire_rapids_5.10"))["cpuinfo"]
    return judge("x86_64", "5.15.0-94-generic", cpuinfo, OLD_KERNEL)


def test_doctor_report_warns_of_lost_amx_before_every_playbook(capsys: pytest.CaptureFixture[str]) -> None:
    answer, shown = report(capsys, "failures", amx=old_kernel(), isa="avx512_bf16")
    assert "failed" not in answer
    assert shown[0].startswith("WARNING: AMX cannot be used on node1, ")
    assert any("kernel: 5.15.0-94-generic, " in line for line in shown)
    assert shown[-1].startswith("AMX can be used on node0, node2 (")
    assert [(group["hosts"], group["lost"]) for group in answer["amx"]] == [
        (["node1"], True),
        (["node0", "node2"], False),
    ]


def test_doctor_report_where_amx_is_required() -> None:
    reported = results()
    for host in ("node0", "node2"):
        reported[host]["info"]["host"].update(amx=old_kernel(), isa="avx512_bf16")
    answer = run(doctor_report, results=reported, wanted={**WANTED, "require": "amx"}, format="failures")
    assert answer["failed"]
    head, *hosts = answer["msg"].splitlines()
    assert head == "Nothing was changed, because node0, node2 cannot be used:"
    for name, line in zip(("node0", "node2"), hosts):
        assert line.startswith(f"- {name}: Intel(R) Xeon(R) Platinum 8480+ ")
        assert "kernel 5.15.0-94-generic, " in line
        assert "linux-generic-hwe-22.04" in line


def test_doctor_report_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    answer, shown = report(capsys, "json", tcmalloc="")
    assert [json.loads(line) for line in shown] == [
        {
            "hosts": ["node0", "node1", "node2"],
            "findings": answer["findings"],
            "summary": answer["summary"],
            "amx": answer["amx"],
        }
    ]


def test_doctor_report_refuses_an_unknown_requirement() -> None:
    with pytest.raises(AnsibleError, match="disk_gib"):
        run(doctor_report, results={}, wanted={**WANTED, "disk_gib": 1})


def test_an_error_of_a_module_carries_the_inventory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory_in_use, "option", lambda: "-i inventories/mine")
    failed = {"failed": True, "msg": "the environment has not passed its checks: run site.yml, or playbooks/doctor.yml"}
    answer = run_action(on_host, {"prefix": "/opt"}, lambda module_args, **_others: {**failed, "given": module_args})
    assert answer["msg"] == (
        "the environment has not passed its checks: run ansible-playbook -i inventories/mine site.yml, or "
        "ansible-playbook -i inventories/mine playbooks/doctor.yml"
    )
    assert answer["given"] == {"prefix": "/opt"}
    answer = run_action(on_host, {}, lambda **_options: {"changed": True, "msg": "site.yml"})
    assert answer == {"changed": True, "msg": "site.yml"}


def test_a_host_is_asked_once_for_itself_and_for_the_job_that_was_checked() -> None:
    """The start of a job then has its answer already; any other question is asked."""
    question = {"starting": "demo", "hosts": ["a"], "request": {"ranks_per_node": 1}}
    variables = {"inventory_hostname": "a", "hostvars": {"localhost": {"job_checked": {"question": question}}}}
    asked = []

    def ask(module: str, options: dict[str, Any], variables: dict[str, Any], *answering: str) -> dict[str, Any]:
        def command(words: str, in_data: bytes) -> dict[str, Any]:
            asked.append([*json.loads(in_data)])
            answer = {name: {"of": name} for name in json.loads(in_data) if name in answering}
            return {"rc": 0, "stdout": json.dumps(answer), "stderr": ""}

        action = cast(ModuleType, SimpleNamespace(__name__=f"amx.cluster.{module}", ActionModule=on_host.ActionModule))
        by_itself = {"changed": False, "of": "the module"}
        return run_action(action, options, lambda **_: by_itself, variables=variables, execute_command=command)

    of_host = {"prefix": "/opt", "interpreters": False}
    of_job = {"prefix": "/opt", "host": "a", "question": question}
    host = ask("host_info", of_host, variables, "host_info", "job_host_info")
    assert (host["of"], host["job_host_info"]) == ("host_info", {"options": of_job, "answer": {"of": "job_host_info"}})
    seen = {**variables, "preflight_host": host}
    assert ask("job_host_info", of_job, seen)["of"] == "job_host_info"
    assert asked == [["host_info", "job_host_info"]]
    trial = {**of_job, "question": {**question, "starting": "demo-trial"}}
    assert ask("job_host_info", trial, seen)["of"] == "the module"
    # Where the job's part fails, or no job was checked, the host answers for itself.
    assert ask("host_info", of_host, variables, "host_info") == {"changed": False, "of": "host_info"}
    assert ask("host_info", of_host, {}, "host_info") == {"changed": False, "of": "host_info"}
    assert ask("host_info", of_host, variables) == {"changed": False, "of": "the module"}
    assert asked[1:] == [
        ["job_host_info"],
        ["host_info", "job_host_info"],
        ["host_info"],
        ["host_info", "job_host_info"],
    ]
