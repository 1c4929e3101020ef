"""What a user sees: playbooks with the callback plugin compact, in a pipe and on terminals of several kinds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support import checkout, playbooks, terminal
from support.at_length import only_at_length
from support.local_cluster import LocalCluster

ESCAPE = "\x1b"
HOSTS = {
    "all": {
        "hosts": {
            "node0": {"ansible_connection": "local"},
            "node1": {"ansible_connection": "local"},
            "gone": {"ansible_host": "127.0.0.1", "ansible_port": 1},
        },
        "vars": {"ansible_python_interpreter": sys.executable},
    }
}
ROLE = """
- name: Write a file
  ansible.builtin.copy: {content: "one\\n", dest: "{{ playbook_dir }}/{{ inventory_hostname }}.txt", mode: "0600"}
  notify: Read it again
- name: Show a message
  ansible.builtin.debug: {msg: "first\\n  'second': [x]"}
- name: Show a variable
  ansible.builtin.debug: {var: inventory_hostname}
- name: Show a text
  amx.cluster.show: {text: "a text"}
  run_once: true
- name: Ignore a failure
  ansible.builtin.fail: {msg: "to be ignored"}
  ignore_errors: true
- name: Rescue a failure
  block:
    - name: Fail in a block
      ansible.builtin.fail: {msg: "to be rescued"}
  rescue:
    - name: Go on
      ansible.builtin.include_tasks: more.yml
- name: Repeat a task
  ansible.builtin.shell: |
    cd {{ playbook_dir }}; test -e {{ inventory_hostname }}.tried || { touch {{ inventory_hostname }}.tried; exit 1; }
  register: tried
  until: tried.rc == 0
  retries: 2
  delay: 0
  changed_when: false
- name: Wait for another process
  ansible.builtin.command: "true"
  async: 20
  poll: 1
  changed_when: false
"""
PLAYS = """
- name: Set up the site
  hosts: all
  gather_facts: false
  roles: [site]
- name: Fail at the end
  hosts: node0,node1
  gather_facts: false
  tasks:
    - name: Run a program
      ansible.builtin.shell: |
        echo 'out: {x}'; echo "it's broken" >&2; exit 4
    - name: Is not reached
      ansible.builtin.debug: {msg: not reached}
"""


@pytest.fixture
def control(tmp_path: Path) -> Path:
    """The directory of a user with a playbook and a role of their own."""
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(HOSTS))
    (tmp_path / "plays.yml").write_text(PLAYS)
    role = tmp_path / "roles/site"
    for part in ("tasks", "handlers"):
        (role / part).mkdir(parents=True)
    (role / "tasks/main.yml").write_text(ROLE)
    (role / "tasks/more.yml").write_text("- name: Show that it goes on\n  ansible.builtin.debug: {msg: goes on}\n")
    (role / "handlers/main.yml").write_text("- name: Read it again\n  ansible.builtin.command: 'true'\n")
    return tmp_path


def environment(**changes: str) -> dict[str, str]:
    env = {**checkout.environment(), "TERM": "xterm-256color", "ANSIBLE_STDOUT_CALLBACK": "amx.cluster.compact"}
    for name in ("NO_COLOR", "ANSIBLE_NOCOLOR"):
        env.pop(name)
    return {**env, **changes}


def command(*words: str) -> list[str]:
    return [playbooks.PLAYBOOK, "-i", "hosts.yml", *(words or ("plays.yml",))]


def piped(folder: Path, *words: str, code: int = 0, **changes: str) -> str:
    """What a playbook prints into a pipe."""
    ran = subprocess.run(
        command(*words), cwd=folder, env=environment(**changes), capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout


def on_terminal(folder: Path, *words: str, columns: int = 80, answer: str = "", code: int = 0, **changes: str) -> str:
    """What a playbook writes to a terminal of so many columns. answer: what is typed when it asks."""
    running = terminal.Command(command(*words), folder, environment(**changes), columns)
    written = "".join(part for _at, part in running.output(300, answer))
    assert running.end() == code, written
    return written.replace("\r\n", "\n")


def sections(text: str) -> list[str]:
    """The lines of roles and plays, without the time and runs of spaces."""
    found = [
        " ".join(re.sub(r" +\d+ s", "", line).split())
        for line in text.splitlines()
        if re.match(r"[\w: ]+ \d+ s( |$)", line)
    ]
    return [line for line in found if not line.startswith(("Failed", "Done"))]


def test_in_a_pipe(control: Path) -> None:
    said = piped(control, code=4)
    assert ESCAPE not in said
    assert "\r" not in said
    assert "TASK [" not in said
    assert sections(said) == [
        "site cannot reach gone, 2 of 3 hosts changed Set up the site",
        "site: handlers 2 of 2 hosts changed Set up the site",
        "Fail at the end failed on node0, node1",
    ]
    for host in ("node0", "node1"):
        assert f"{host}:\n  first\n    'second': [x]\n" in said
        assert f"{host}: inventory_hostname: {host}\n" in said
        assert f"{host}: goes on\n" in said
        assert f"ignored {host}: site: Ignore a failure: to be ignored\n" in said
        assert f"rescued {host}: site: Fail in a block: to be rescued\n" in said
    assert said.count("a text\n") == 1
    assert "UNREACHABLE gone: site: Write a file\n  " in said
    assert "Connection refused" in said
    assert re.search(r"\n  roles/site/tasks/main.yml:\d+\n", said)
    failed = re.search(r"FAILED (node\d): Run a program\n", said)
    assert failed
    assert (
        f"FAILED {failed[1]}: Run a program\n  non-zero return code\n"
        "  cmd: echo 'out: {x}'; echo \"it's broken\" >&2; exit 4\n"
        "  rc: 4\n  stderr: it's broken\n  stdout: out: {x}\n  plays.yml:10\n" in said
    )
    other = {"node0": "node1", "node1": "node0"}[failed[1]]
    assert f"FAILED {other}: Run a program\n  the same as on {failed[1]}\n" in said
    assert said.count("FAILED") == 2
    assert "not reached" not in said
    end = said.splitlines()[-4:]
    assert re.fullmatch(r"Failed after \d+ s; 2 failures ignored; 2 failures rescued", end[0])
    assert [line.split()[0] for line in end[1:]] == ["gone", "node0", "node1"]
    assert end[1].split() == ["gone", "unreachable"]


def test_on_a_terminal(control: Path) -> None:
    written = on_terminal(control, code=4)
    assert "\x1b[2m" in written, "the running task is dim"
    assert "site: Write a file" in written
    shown = "\n".join(terminal.shown(written, 80))
    assert not re.search("^site: [A-Z]", shown, re.M), "the line of the running task was left behind"
    assert re.search(r"^Fail at the end +\d+ s  failed on node0, node1$", shown, re.M)
    for host in ("node0", "node1"):
        assert f"ignored {host}: site: Ignore a failure: to be ignored" in shown
        assert f"FAILED {host}: Run a program" in shown
    assert "TASK [" not in written


@pytest.mark.parametrize(
    ("columns", "changes"),
    [
        (40, {}),
        (80, {"TERM": "dumb"}),
        pytest.param(80, {"NO_COLOR": "1"}, marks=only_at_length("a dumb terminal has no colours, either")),
        pytest.param(
            40,
            {"LC_ALL": "", "LANG": "", "LC_CTYPE": "C.UTF-8"},
            marks=only_at_length("which characters lines are made of is in the unit tests"),
        ),
    ],
)
def test_other_terminals(control: Path, columns: int, changes: dict[str, str]) -> None:
    written = on_terminal(control, columns=columns, code=4, **changes)
    if changes.get("TERM") == "dumb":
        assert ESCAPE not in written
        assert "\r" not in written
    if "NO_COLOR" in changes:
        assert not re.search(r"\x1b\[[0-9;]*m", written)
        assert "\x1b[K" in written, "the line of the running task is drawn again"
    if "LC_CTYPE" in changes:
        assert written.isascii()
    # No line of the running task was wrapped: it would be left behind.
    drawn = [
        part for part in re.split(r"[\r\n]", re.sub(r"\x1b\[[0-9;]*[mK]", "", written)) if re.match("site: [A-Z]", part)
    ]
    assert all(len(part) < columns for part in drawn)
    assert not re.search("^site: [A-Z]", "\n".join(terminal.shown(written, columns)), re.M)


def test_details_are_those_of_the_default_callback(control: Path) -> None:
    said = piped(control, "-v", "plays.yml", code=4)
    assert "TASK [site : Write a file] ***" in said
    assert "PLAY RECAP ***" in said
    assert "fatal: [gone]: UNREACHABLE!" in said


def test_check_and_diff_mode(control: Path) -> None:
    said = piped(control, "--check", "--diff", "--limit", "node0", "plays.yml", code=0)
    assert "would change node0: site: Write a file\n--- before\n" in said
    assert "+one\n" in said
    assert "site  " in said
    assert "Set up the site" in said
    assert re.search(r"\nDone in \d+ s: would change node0; 1 failure ignored; 1 failure rescued\n", said)


def test_prompts(control: Path) -> None:
    (control / "ask.yml").write_text(
        "- name: Ask\n  hosts: localhost\n  gather_facts: false\n"
        "  vars_prompt: [{name: who, prompt: 'who?', private: false}]\n"
        "  tasks:\n    - name: Show the answer\n      ansible.builtin.debug: {msg: 'it is {{ who }}'}\n"
        "    - name: Wait\n      ansible.builtin.pause: {seconds: 1}\n"
    )
    shown = terminal.shown(on_terminal(control, "ask.yml", answer="me\n"), 80)
    assert "it is me" in shown
    assert any(line.startswith("who?: ") for line in shown)


def test_all_is_well(control: Path) -> None:
    (control / "well.yml").write_text(
        "- name: Do nothing\n  hosts: node0,node1\n  gather_facts: false\n  any_errors_fatal: true\n  tasks:\n"
        "    - name: Do nothing\n      ansible.builtin.command: 'true'\n      changed_when: false\n"
        "      loop: [1, 2]\n"
        "    - name: Be skipped\n      ansible.builtin.fail: {msg: no}\n      when: false\n"
        "- name: Not this time\n  hosts: '!all'\n  tasks: []\n"
        "- name: Of others\n  hosts: others\n  tasks: []\n"
    )
    first, others, last = piped(control, "well.yml").splitlines()
    assert re.fullmatch(r"Do nothing +\d+ s", first)
    assert others == "Of others: no host of the inventory"
    assert re.fullmatch(r"Done in \d+ s: nothing changed", last)


def test_what_is_left_out_has_no_line(control: Path) -> None:
    (control / "left_out.yml").write_text(
        "- name: Leave the play out\n  hosts: \"{{ groups.others | default(['!all']) }}\"\n  gather_facts: false\n"
        "- name: Leave the role out\n  hosts: node0\n  gather_facts: false\n  tasks:\n"
        "    - name: Be skipped\n      ansible.builtin.include_role: {name: site}\n      when: false\n"
        "- name: Find no host\n  hosts: others\n  gather_facts: false\n"
    )
    first, last = piped(control, "left_out.yml").splitlines()
    assert first == "Find no host: no host of the inventory"
    assert last.startswith("Done in ")


def test_items_that_fail(control: Path) -> None:
    (control / "items.yml").write_text(
        "- name: Check items\n  hosts: node0,node1\n  gather_facts: false\n  any_errors_fatal: true\n  tasks:\n"
        "    - name: Check an item\n      ansible.builtin.assert: {that: item != 2, fail_msg: 'item {{ item }}: no'}\n"
        "      loop: [1, 2]\n      when: inventory_hostname == 'node0'\n"
        "    - name: Is not reached\n      ansible.builtin.command: 'true'\n"
    )
    said = piped(control, "items.yml", code=2)
    assert "FAILED node0: Check an item (item 2)\n  item 2: no\n" in said
    assert said.count("FAILED") == 1


def test_items_whose_host_is_unreachable(control: Path) -> None:
    (control / "items.yml").write_text(
        "- name: Use items\n  hosts: gone\n  gather_facts: false\n  tasks:\n"
        "    - name: Use an item\n      ansible.builtin.command: 'true'\n      loop: [1, 2]\n"
    )
    said = piped(control, "items.yml", code=4)
    assert re.search(r"^UNREACHABLE gone: Use an item \(item 1\)\n  .*Connection refused$", said, re.M), said
    assert "All items completed" not in said
    assert said.count("UNREACHABLE") == 2


def test_delegated_items(control: Path) -> None:
    """One that failed and one whose host is unreachable, each with its reason and the host that it ran on."""
    (control / "items.yml").write_text(
        "- name: Delegate items\n  hosts: node0\n  gather_facts: false\n  tasks:\n"
        "    - name: Run elsewhere\n      ansible.builtin.shell: \"echo '{{ item }}'; exit 3\"\n"
        '      delegate_to: "{{ item }}"\n      loop: [gone, node1]\n      ignore_unreachable: true\n'
    )
    said = piped(control, "items.yml", code=2)
    assert re.search(r"^UNREACHABLE node0 \(on gone\): Run elsewhere \(item gone\)\n  .*refused$", said, re.M), said
    assert "FAILED node0 (on node1): Run elsewhere (item node1)\n  non-zero return code\n" in said
    assert "{{" not in said


def test_a_delegation_that_cannot_be_templated(control: Path) -> None:
    (control / "delegated.yml").write_text(
        "- name: Delegate\n  hosts: node0\n  gather_facts: false\n  tasks:\n"
        "    - name: Run elsewhere\n      ansible.builtin.command: 'true'\n      delegate_to: \"{{ missing }}\"\n"
    )
    said = piped(control, "delegated.yml", code=2)
    assert "FAILED node0: Run elsewhere\n" in said
    assert "'missing' is undefined" in said


def test_secrets_are_not_printed(control: Path) -> None:
    (control / "secret.yml").write_text(
        "- name: Fail with a secret\n  hosts: node0\n  gather_facts: false\n  tasks:\n"
        "    - name: Use it\n      ansible.builtin.fail: {msg: hunter2}\n      no_log: true\n"
        "      loop: [hunter2]\n"
    )
    said = piped(control, "secret.yml", code=2)
    assert "hunter2" not in said
    assert "no_log: true" in said


@only_at_length("what is printed into a pipe is plain, too")
def test_the_log_file_is_plain(control: Path) -> None:
    on_terminal(control, code=4, ANSIBLE_LOG_PATH="ansible.log")
    log = (control / "ansible.log").read_text()
    assert ESCAPE not in log
    assert "\r" not in log
    assert "FAILED node" in log
    assert "Set up the site" in log


def test_a_job(tmp_path: Path) -> None:
    """Its progress on a terminal, and plain lines in a pipe, without a host's real training."""
    cluster = LocalCluster(tmp_path)
    script = (
        "import json, os, pathlib, time\n"
        "began = time.time()\n"
        "for step in range(1, 6):\n"
        "    pathlib.Path('progress.part').write_text(json.dumps({'step': step, 'max_steps': 5, 'epoch': None,\n"
        "        'samples_per_step': 4, 'began': began, 'time': time.time(),\n"
        "        'metrics': {'loss': 0.5, **({'eval_loss': 0.4444, 'eval_accuracy': 0.8888} if step == 5 else {})}}))\n"
        "    os.replace('progress.part', 'progress.json')\n"
        "    time.sleep(1)\n"
    )
    job = cluster.write_job("mine", script)
    play = str(checkout.ROOT / "playbooks/train.yml")
    written = on_terminal(tmp_path, play, "-e", f"job={job}")
    drawn = re.findall(r"mine [█░]+ \d/5  loss 0\.5", written)
    assert len(drawn) >= 2, written
    shown = "\n".join(terminal.shown(written, 80))
    last = re.search(r"^  step 5/5  loss 0\.5  .*\n    .*samples/s$", shown, re.M)
    assert last, shown
    assert "evaluation loss 0.4444  evaluation accuracy 0.8888" in last.group(), shown
    assert "░" not in shown, shown
    assert "█" not in shown, shown
    assert "Ctrl-C leaves job mine running" in shown
    assert re.search(r"^Done in .*: changed node0$", shown, re.M)
    assert "Kubernetes" not in shown
    said = piped(tmp_path, play, "-e", f"job={job}")
    assert "█" not in said
    assert re.search(r"^  step \d/5  loss 0\.5", said, re.M)
    status = piped(tmp_path, str(checkout.ROOT / "playbooks/status.yml"), "-e", "format=json")
    (line,) = [line for line in status.splitlines() if line.startswith("{")]
    assert json.loads(line)["jobs"][0]["name"] == "mine"
    stopped = piped(tmp_path, str(checkout.ROOT / "playbooks/stop.yml"), "-e", "job=mine")
    assert "job mine was not running; orphaned processes ended: none\n" in stopped
    assert "Find the job" not in stopped
    for name in ("stop", "logs", "results"):
        refused = piped(tmp_path, str(checkout.ROOT / f"playbooks/{name}.yml"), "-e", "job=mime", code=2)
        advice = "ansible-playbook -i hosts.yml playbooks/status.yml lists all jobs"
        assert f"\n  no job mime was started on this cluster: {advice}" in refused
        assert "Ctrl-C leaves" not in refused
