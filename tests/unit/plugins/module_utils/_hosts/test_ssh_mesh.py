from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import ssh_mesh

A = "AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
B = "AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB"
C = "AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAC"
ED = "ssh-ed25519"
A_PRINT = "SHA256:kmYcvdi2GkPeWxB6XLjrZB8JHsy2Hm8luHMFp9GMvqk"  # by ssh-keygen -l


def test_fingerprint_refuses_what_is_no_key() -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(repr('no key'))} is not a public key in base64$"):
        ssh_mesh.fingerprint("no key")


def test_host_keys_best_first_and_only_those_that_are_there() -> None:
    facts = {
        "ssh_host_key_rsa_public": C,
        "ssh_host_key_rsa_public_keytype": "ssh-rsa",
        "ssh_host_key_ed25519_public": A,
        "ssh_host_key_ed25519_public_keytype": ED,
        "ssh_host_key_ecdsa_public": B,
    }
    assert list(ssh_mesh.host_keys(facts).items()) == [(ED, A), ("ssh-rsa", C)]
    assert ssh_mesh.host_keys({}) == {}


def test_pinned_keys() -> None:
    pinned = f"# made by\n\nn0 {ED} {A}\nn0 ssh-rsa {C}\n[n1]:2222,10.0.0.1 {ED} {B} comment\n"
    text = f"{pinned}@revoked n2 {ED} {A}\n|1|x {ED} {A}\nn3\n"
    assert ssh_mesh.pinned_keys(text) == {"n0": {ED: A, "ssh-rsa": C}, "n1": {ED: B}, "10.0.0.1": {ED: B}}


@pytest.mark.parametrize(
    ("before", "now", "changed"),
    [
        ({}, {ED: A}, False),
        ({ED: A}, {ED: A}, False),
        ({ED: A}, {ED: B}, True),
        ({ED: A}, {ED: A, "ssh-rsa": C}, False),
        ({ED: A, "ssh-rsa": C}, {ED: A}, False),
        ({ED: A, "ssh-rsa": C}, {ED: A, "ssh-rsa": B}, True),
        ({ED: A}, {"ssh-rsa": C}, True),
    ],
)
def test_changed_hosts(before: dict[str, str], now: dict[str, str], changed: bool) -> None:
    content = "".join(f"n1 {kind} {key}\n" for kind, key in before.items())
    found = ssh_mesh.changed_hosts([content, ""], {"n1": now})
    assert [row["host"] for row in found] == (["n1"] if changed else [])


def test_changed_hosts_says_both_fingerprints_once_in_the_hosts_order() -> None:
    content = f"n2 {ED} {A}\nn1 {ED} {A}\n"
    found = ssh_mesh.changed_hosts([content, content], {"n1": {ED: B}, "n2": {ED: C}})
    assert [row["host"] for row in found] == ["n1", "n2"]
    assert found[0]["pinned"] == f"{ED} {ssh_mesh.fingerprint(A)}"
    assert found[0]["shown"] == f"{ED} {ssh_mesh.fingerprint(B)}"


@pytest.mark.parametrize("accepted", [["n1"], ["n0", " n1"]])
def test_changed_hosts_may_be_accepted(accepted: list[str]) -> None:
    shown = {"n1": {ED: B}, "n2": {ED: B}}
    found = ssh_mesh.changed_hosts([f"n1 {ED} {A}\nn2 {ED} {A}\n"], shown, accepted)
    assert [row["host"] for row in found] == ["n2"]


def test_refusal() -> None:
    assert ssh_mesh.refusal({"n0": {ED: A}}, []) == ""
    changed = [
        {"host": "n1", "pinned": f"{ED} SHA256:a", "shown": f"{ED} SHA256:b"},
        {"host": "n2", "pinned": f"{ED} SHA256:c", "shown": f"{ED} SHA256:d"},
    ]
    assert ssh_mesh.refusal({"n0": {}, "n1": {ED: B}, "n2": {ED: C}}, changed) == (
        "Nothing was changed.\n"
        "- n0 shows no SSH host key in /etc/ssh: check that sshd is installed there, and generate its keys with "
        "ssh-keygen -A.\n"
        f"- n1's own SSH keys have changed. Pinned by a previous run: {ED} SHA256:a. Shown now: {ED} SHA256:b.\n"
        f"- n2's own SSH keys have changed. Pinned by a previous run: {ED} SHA256:c. Shown now: {ED} SHA256:d.\n"
        "Find out why: a new installation changes a host's keys, and so does another machine that answers in its "
        "place. If the change is right, pin the new keys with -e ssh_mesh_accept_changed_keys=n1,n2"
    )
    assert ssh_mesh.refusal({"n0": {}}, []).splitlines()[1:] == [
        "- n0 shows no SSH host key in /etc/ssh: check that sshd is installed there, and generate its keys with "
        "ssh-keygen -A."
    ]


def test_authorized_lines() -> None:
    sources = [
        {"host": "n0", "address": "10.0.0.1", "public_key": f"{ED} {A} whatever it says"},
        {"host": "n1", "address": "10.0.0.2", "public_key": ""},
    ]
    assert ssh_mesh.authorized_lines(sources, "mesh") == [
        f'restrict,pty,from="10.0.0.1" {ED} {A} mesh@n0',
        f'restrict,pty,from="10.0.0.2" {ssh_mesh.NO_KEY} mesh@n1',
    ]


def test_hosts_that_share_a_home_directory_have_one_line() -> None:
    sources = [
        {"host": f"n{place}", "address": f"10.0.0.{place}", "public_key": f"{ED} {key} mesh@n{place}"}
        for place, key in enumerate((A, B, A))
    ]
    assert ssh_mesh.authorized_lines(sources, "mesh") == [
        f'restrict,pty,from="10.0.0.0,10.0.0.2" {ED} {A} mesh@n0',
        f'restrict,pty,from="10.0.0.1" {ED} {B} mesh@n1',
    ]


CONFIGURATION = "# Ansible\nHost n0 10.0.0.1\n  HostName 10.0.0.1\nHost n1 10.0.0.2\n  HostName 10.0.0.2\n"
ELSEWHERE = f"{CONFIGURATION}Host other 10.9.0.1\n  HostName 10.9.0.1\n"
# A host may have another name in the inventory of another cluster.
RENAMED = CONFIGURATION.replace("Host n0", "Host first")


@pytest.mark.parametrize(
    ("public_key", "configuration", "exclusive", "use"),
    [
        ("", CONFIGURATION, True, "none"),
        (f"{ED} {A} mesh@n0\n", CONFIGURATION, True, "shared"),  # the head's
        (f"{ED} {A} mesh@n1\n", CONFIGURATION, True, "shared"),  # the head's, whatever its comment
        (f"{ED} {B} mesh@n0\n", CONFIGURATION, True, "shared"),  # the head's before it was replaced, in a stale cache
        (f"{ED} {B} a person\n", CONFIGURATION, True, "shared"),
        (f"{ED} {B}\n", CONFIGURATION, True, "shared"),
        (f"{ED} {B} mesh@n1\n", CONFIGURATION, True, "unused"),
        (f"{ED} {B} mesh@n1\n", RENAMED, True, "unused"),
        (f"{ED} {B} mesh@n1\n", "", True, "unused"),
        (f"{ED} {B} mesh@n1\n", ELSEWHERE, True, "other"),
        (f"{ED} {B} mesh@n1\n", CONFIGURATION, False, "other"),
    ],
)
def test_key_use(public_key: str, configuration: str, exclusive: bool, use: str) -> None:
    mesh = ["n0", "10.0.0.1", "n1", "10.0.0.2"]
    found = ssh_mesh.key_use(public_key, configuration, "n1", "mesh", mesh, [f"{ED} {A}"], exclusive)
    assert found == use


def test_keys_that_stay_on_their_hosts_are_not_stale() -> None:
    text = f"{ED} {B} mesh@n1\n{ED} {C} mesh@n1\n"
    assert ssh_mesh.stale_keys(text, [], "mesh", ["n0", "n1"], False, [f"{ED} {B} mesh@n1"]) == [f"{ED} {C} mesh@n1"]


def test_stale_keys() -> None:
    lines = ssh_mesh.authorized_lines([{"host": "n0", "address": "10.0.0.1", "public_key": f"{ED} {A}"}], "mesh")
    text = "\n".join(
        [
            *lines,
            f'restrict,from="10.0.0.1" {ED} {B} mesh@n0',  # replaced
            f"{ED} {C} mesh@gone",
            f"{ED} {C} other@gone",
            f"{ED} {C} mesh",
            f"{ED} {C}",
            f"# {ED} {C} mesh@n0",
            "",
        ]
    )
    assert ssh_mesh.stale_keys(text, lines, "mesh", ["n0", "n1"], exclusive=False) == [f"{ED} {B} mesh@n0"]
    assert ssh_mesh.stale_keys(text, lines, "mesh", ["n0", "n1"], exclusive=True) == [
        f"{ED} {B} mesh@n0",
        f"{ED} {C} mesh@gone",
    ]


def test_files_and_keys_of_the_mesh(tmp_path: Path) -> None:
    line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA{} {}\n"
    assert (ssh_mesh.files(tmp_path, "amx_cluster"), ssh_mesh.keys([tmp_path / "authorized_keys"], "amx_cluster")) == (
        [],
        0,
    )
    (tmp_path / "amx_cluster.pub").write_text("ssh-ed25519 AAAA me@home")
    for name in ("amx_cluster", "amx_cluster_config"):
        (tmp_path / name).write_text("Host own")
    (tmp_path / "amx_cluster_known_hosts").write_text("# Made by amx.cluster")
    (tmp_path / "authorized_keys").write_text(line.format("AA", "amx_cluster@node0") + line.format("AB", "me@home"))
    assert ssh_mesh.files(tmp_path, "amx_cluster") == [tmp_path / "amx_cluster_known_hosts"]
    usual, other = tmp_path / "authorized_keys", tmp_path / "other"
    assert ssh_mesh.keys([usual], "amx_cluster") == 1
    usual.rename(other)  # where sshd looks by AuthorizedKeysFile
    assert ssh_mesh.keys([usual, other], "amx_cluster") == 1
    (tmp_path / "amx_cluster.pub").write_text(line.format("AA", "amx_cluster@node0"))
    there = ("amx_cluster", "amx_cluster.pub", "amx_cluster_known_hosts")
    assert ssh_mesh.files(tmp_path, "amx_cluster") == [tmp_path / name for name in there]


def test_rotated() -> None:
    assert ssh_mesh.rotated(["a", "b", "c"], "b") == ["c", "a", "b"]
    assert ssh_mesh.rotated(["a", "b", "c"], "c") == ["a", "b", "c"]
    assert ssh_mesh.rotated(["a", "b"], "x") == ["a", "b"]
    assert ssh_mesh.rotated(["a", "b"], None) == ["a", "b"]


class Ssh:
    """Stands for ssh: answers one after the other, and remembers what it was asked."""

    def __init__(self, *answers: tuple[int, str] | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[list[str]] = []

    def __call__(self, command: list[str], **_kwargs: Any) -> subprocess.CompletedProcess[str]:
        self.asked.append(command)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return subprocess.CompletedProcess(command, answer[0], "", answer[1])


DROPPED = (255, "kex_exchange_identification: Connection closed by remote host\n")


@pytest.mark.parametrize(
    ("answers", "ok", "message"),
    [
        ([(0, "")], True, ""),
        ([DROPPED, DROPPED, (0, "")], True, ""),
        ([DROPPED, DROPPED, DROPPED], False, DROPPED[1].strip()),
        ([(255, "n1: Permission denied\n (publickey).")], False, "n1: Permission denied (publickey)."),
        ([(1, "")], False, "exit code 1"),
        ([subprocess.TimeoutExpired("ssh", 6)], False, "no answer within 6 s"),
        (
            [FileNotFoundError(2, "No such file or directory")],
            False,
            "ssh cannot be started: No such file or directory",
        ),
    ],
)
def test_log_in(answers: list[Any], ok: bool, message: str) -> None:
    ssh = Ssh(*answers)
    assert ssh_mesh.log_in("n1", 2, run=ssh, sleep=lambda _: None) == {"host": "n1", "ok": ok, "message": message}
    assert not ssh.answers
    assert ssh.asked[0] == ["ssh", "-x", "-S", "none", "-o", "BatchMode=yes", "-o", "ConnectTimeout=2", "n1", "true"]


def test_fingerprint_is_that_of_ssh_keygen() -> None:
    assert ssh_mesh.fingerprint(A) == A_PRINT


@pytest.mark.parametrize(
    ("names", "place"),
    [
        (".ssh/authorized_keys .ssh/authorized_keys2", "/home/me/.ssh/authorized_keys"),
        ("/etc/ssh/keys/%u .ssh/authorized_keys", "/home/me/.ssh/authorized_keys"),
        ("/etc/ssh/authorized_keys/%u", "/etc/ssh/authorized_keys/me"),
        ("/etc/ssh/all_keys /etc/ssh/keys/%u/keys", "/etc/ssh/keys/me/keys"),
        ("/var/keys/%U", "/var/keys/1000"),
        ("%h/.keys", "/home/me/.keys"),
        ("/home/%u/.ssh/authorized_keys", "/home/me/.ssh/authorized_keys"),
        ("", "/home/me/.ssh/authorized_keys"),
    ],
)
def test_where_sshd_reads_keys(names: str, place: str) -> None:
    settings = {"authorizedkeysfile": names, "authorizedkeyscommand": "/usr/bin/sss_ssh_authorizedkeys"}
    assert str(ssh_mesh.authorized_keys_place(settings, "me", "/home/me", 1000)) == place
    assert str(ssh_mesh.authorized_keys_place({}, "me", "/home/me", 1000)) == "/home/me/.ssh/authorized_keys"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"authorizedkeysfile": "none", "authorizedkeyscommand": "/usr/bin/keys"},
            "from none .*, and asks /usr/bin/keys ",
        ),
        (
            {"authorizedkeysfile": "none", "authorizedkeyscommand": "none"},
            r"from none \(AuthorizedKeysFile\), which is no",
        ),
        ({"authorizedkeysfile": "/etc/ssh/all_keys"}, "from /etc/ssh/all_keys .* set AuthorizedKeysFile to .ssh/auth"),
        ({"authorizedkeysfile": "/etc/ssh/100%%u"}, "from /etc/ssh/100%%u "),
        ({"pubkeyauthentication": "no"}, "sshd accepts no keys from me .*: set it to yes"),
    ],
)
def test_where_sshd_reads_no_key_of_the_user(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ssh_mesh.authorized_keys_place(settings, "me", "/home/me", 1000)


def test_settings_of_sshd() -> None:
    """Where this machine has one: it shows its settings to any user, with a key of the moment."""
    settings = ssh_mesh.sshd_settings("root", "node0", "10.0.0.1")
    assert settings == {} or "authorizedkeysfile" in settings
