"""What is read of an emulated machine's console."""

from __future__ import annotations

import json

import pytest
from support.amx_machine import payload, read

CONSOLE = """\
[    0.000000] Linux version 6.1.0-56-amd64\r
amx-test: this is not an answer\r
\r
amx-test: {"name": "amx_info", "code": 0, "output": "a\\nb", "errors": "", "seconds": 2.5}\r
"""
ANSWER = {"code": 0, "output": "a\nb", "errors": "", "seconds": 2.5}


def test_answers_are_read_among_the_kernels_messages() -> None:
    assert read(CONSOLE) == ({"amx_info": ANSWER}, False)
    assert read(CONSOLE + "\r\namx-test ends\r\n") == ({"amx_info": ANSWER}, True)


def test_an_answer_that_is_being_written_is_none_yet() -> None:
    assert read(CONSOLE + 'amx-test: {"name": "products", "co') == ({"amx_info": ANSWER}, False)


@pytest.mark.slow
def test_a_guest_gets_its_commands_and_further_files() -> None:
    commands = {"trained": {"argv": ["true"]}}
    with payload(commands, {"smoke/host": "node0"}) as made:
        assert json.loads((made / "payload/commands.json").read_text()) == commands
        assert (made / "payload/smoke/host").read_text() == "node0"
        assert (made / "payload/guest.py").exists()
