"""Run Python's standard input, or a file, in a process that may not call arch_prctl: refusing.py errno|kill [FILE | -]

As in a container whose seccomp profile does not allow the call. The filter stands after the start of the process,
because its dynamic linker calls arch_prctl, too.
"""

import ctypes
import errno
import runpy
import struct
import sys

ARCH_PRCTL = 158
ACTIONS = {"errno": 0x00050000 | errno.EPERM, "kill": 0x80000000}
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, MODE_FILTER = 22, 38, 2


class Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def refuse(action: int) -> None:
    """Have the kernel take an action where this process, or one that it starts, calls arch_prctl."""
    instructions = (
        (0x20, 0, 0, 0),  # load the call's number
        (0x15, 0, 1, ARCH_PRCTL),  # unless it is this one, skip the next instruction
        (0x06, 0, 0, action),
        (0x06, 0, 0, 0x7FFF0000),  # allow
    )
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    program = Program(len(instructions), code)
    if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(PR_SET_SECCOMP, MODE_FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


refuse(ACTIONS[sys.argv[1]])
script = sys.argv[2]
del sys.argv[:2]
if script == "-":
    exec(compile(sys.stdin.read(), "-", "exec"), {"__name__": "__main__"})
else:
    runpy.run_path(script, run_name="__main__")
