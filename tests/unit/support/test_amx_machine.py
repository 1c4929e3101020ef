"""What is read of an emulated machine's console."""

from __future__ import annotations

from support.amx_machine import read

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
