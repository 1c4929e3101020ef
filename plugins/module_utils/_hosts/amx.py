# Copyright (c) 2026, The amx.cluster maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instruction sets a CPU offers to training, and whether AMX can really be used.

The kernel's version does not decide this: AMX came with 5.16, 5.14 and 5.15 kernels of some vendors have it too, and a
hypervisor may hide it from any kernel. So the kernel is asked, as a program that uses AMX has to ask it.

This file imports nothing but the standard library: its source is also given to other interpreters (see `probe_with`).
"""

from __future__ import annotations

import ctypes
import errno
import inspect
import json
import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# From the best for training to the least; each with the /proc/cpuinfo flags that must all be there.
ISAS: dict[str, tuple[str, ...]] = {
    "amx": ("amx_tile", "amx_bf16"),
    "avx512_bf16": ("avx512_bf16",),
    "avx512_vnni": ("avx512_vnni",),
    "avx512": ("avx512f", "avx512bw", "avx512vl", "avx512dq"),
    "avx2": ("avx2",),
}
# Those whose matrix products in bfloat16 are faster than in float32.
BF16_ISAS = ("amx", "avx512_bf16")

# Intel's CPUs that have AMX, by (family, model); all of them multiply bfloat16 and int8. Linux,
# arch/x86/include/asm/intel-family.h: SAPPHIRERAPIDS_X, EMERALDRAPIDS_X, GRANITERAPIDS_X, GRANITERAPIDS_D,
# DIAMONDRAPIDS_X.
AMX_MODELS = {
    (6, 0x8F): "Sapphire Rapids",
    (6, 0xCF): "Emerald Rapids",
    (6, 0xAD): "Granite Rapids",
    (6, 0xAE): "Granite Rapids D",
    (19, 0x01): "Diamond Rapids",
}

# Linux, Documentation/arch/x86/xstate.rst and arch/x86/include/uapi/asm/prctl.h.
SYS_ARCH_PRCTL = 158
ARCH_GET_XCOMP_SUPP = 0x1021
ARCH_GET_XCOMP_PERM = 0x1022
ARCH_REQ_XCOMP_PERM = 0x1023
XTILE_CFG, XTILE_DATA = 17, 18

REASONS = (
    "usable",
    "not_x86_64",
    "no_amx",
    "kernel_too_old",
    "kernel_refuses",
    "hidden_by_hypervisor",
    "switched_off",
    "not_asked",
)


def cpu_flags(cpuinfo: str) -> frozenset[str]:
    """Return the flags of the first CPU in the text of /proc/cpuinfo; empty where it lists none (not x86)."""
    return frozenset(_first_cpu(cpuinfo).get("flags", "").split())


def _first_cpu(cpuinfo: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in cpuinfo.strip().splitlines():
        if not line.strip():
            break
        name, _colon, value = line.partition(":")
        fields[name.strip()] = value.strip()
    return fields


def best_isa(flags: frozenset[str]) -> str:
    """Return the best instruction set in ISAS that the flags show, or "none"."""
    return next((isa for isa, needed in ISAS.items() if flags.issuperset(needed)), "none")


def ask_kernel() -> dict[str, int]:
    """Ask the kernel for the permission to use AMX, in a child process: a permission, once given, cannot be given back.

    Returns {supported, granted: bit masks of XSTATE components (0 when the call failed); supported_errno,
    request_errno, granted_errno: 0 when the call succeeded; killed: the signal that ended the child, else 0}.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, json.dumps(_request_permission()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="ascii") as stream:
        answer = stream.read()
    status = os.waitpid(child, 0)[1]
    none = {"supported": 0, "granted": 0, "supported_errno": 0, "request_errno": 0, "granted_errno": 0, "killed": 0}
    if not answer:
        return {**none, "killed": os.WTERMSIG(status) if os.WIFSIGNALED(status) else signal.SIGKILL}
    return {**none, **json.loads(answer)}


def granted() -> bool | None:
    """Return whether the kernel lets this process use AMX tiles now; None where it knows no such permission."""
    permitted = ctypes.c_ulong(0)
    if ctypes.CDLL(None).syscall(SYS_ARCH_PRCTL, ARCH_GET_XCOMP_PERM, ctypes.byref(permitted)):
        return None
    return bool(permitted.value >> XTILE_DATA & 1)


def _request_permission() -> dict[str, int]:
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    call.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p)

    def arch_prctl(option: int, argument: int | ctypes.c_void_p) -> int:
        ctypes.set_errno(0)
        return ctypes.get_errno() or errno.EINVAL if call(SYS_ARCH_PRCTL, option, argument) else 0

    mask = ctypes.c_uint64()
    answer = {"supported_errno": arch_prctl(ARCH_GET_XCOMP_SUPP, ctypes.cast(ctypes.byref(mask), ctypes.c_void_p))}
    answer["supported"] = mask.value
    answer["request_errno"] = arch_prctl(ARCH_REQ_XCOMP_PERM, XTILE_DATA)
    mask.value = 0
    answer["granted_errno"] = arch_prctl(ARCH_GET_XCOMP_PERM, ctypes.cast(ctypes.byref(mask), ctypes.c_void_p))
    answer["granted"] = mask.value
    return answer


def probe(root: str = "/") -> dict[str, Any]:
    """Read what `judge` needs to know; the kernel is asked only of the running machine (`root` is "/").

    Returns {machine (as uname -m), release, cpuinfo, answer (see ask_kernel; None when it was not asked)}. Raises
    OSError when /proc/cpuinfo or /proc/sys/kernel/osrelease cannot be read under `root`.
    """
    proc = Path(root, "proc")
    cpuinfo = (proc / "cpuinfo").read_text(encoding="utf-8", errors="replace")
    release = (proc / "sys" / "kernel" / "osrelease").read_text(encoding="ascii").strip()
    live = Path(root) == Path("/")
    if live:
        # A 32-bit interpreter on such a kernel has other system call numbers, and no AMX.
        machine = platform.machine() if sys.maxsize > 2**32 else "i686"
    else:
        machine = "x86_64" if "lm" in cpu_flags(cpuinfo) else "another"
    answer = ask_kernel() if live and machine == "x86_64" else None
    first = cpuinfo.strip().split("\n\n")[0]
    return {"machine": machine, "release": release, "cpuinfo": first, "answer": answer}


def probe_with(python: Sequence[str], timeout: float = 30) -> dict[str, Any]:
    """Return what `probe` finds in another interpreter, which may be in a container.

    python: the command that starts it. Raises ValueError when it cannot be started or returns no result.
    """
    source = inspect.getsource(sys.modules[__name__])
    program = f"{source}\n\nprint(json.dumps(probe()))\n"
    words = [*python, "-"]
    try:
        ran = subprocess.run(words, input=program, capture_output=True, text=True, timeout=timeout, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueError(f"the interpreter {' '.join(python)} cannot be run: {error}") from None
    try:
        answer = json.loads(ran.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        output = " ".join((ran.stderr or ran.stdout).split())[-400:] or "no output"
        raise ValueError(
            f"the interpreter {' '.join(python)} returned no result (exit code {ran.returncode}): {output}"
        ) from None
    if not isinstance(answer, dict):
        raise ValueError(f"the interpreter {' '.join(python)} returned {answer!r} instead of a result")
    return answer


def judge(machine: str, release: str, cpuinfo: str, answer: Mapping[str, int] | None) -> dict[str, Any]:
    """Determine whether AMX can be used for training, from what `probe` read.

    Returns {usable: True, False, or None when the kernel was not asked and might grant it; isa: the best instruction
    set that can be used, see ISAS; reason: one of REASONS; found: what was found, a sentence; advice: what to do, a
    sentence; cpu: {model, vendor, family, number, generation ("" when it is none of AMX_MODELS), virtual};
    kernel: {release, meets_rule, asked, supports (None when it was not asked), answer: what it answered, the rest of a
    sentence that begins with "the kernel"}}.
    """
    cpu = _cpu(cpuinfo)
    flags = cpu_flags(cpuinfo)
    # Kernel 5.16 prints amx_tile alone: which kinds of number the CPU multiplies follows from its model there.
    if "amx_tile" in flags and "amx_int8" not in flags and cpu["generation"]:
        flags |= {"amx_bf16"}
    supports = None if answer is None else not (answer["supported_errno"] or answer["killed"])
    reason, observed, advice = _reason(machine, release, cpu, flags, answer)
    if reason not in ("usable", "not_asked"):
        flags -= {"amx_tile", "amx_bf16"}
    return {
        "usable": {"usable": True, "not_asked": None}.get(reason, False),
        "isa": best_isa(flags),
        "reason": reason,
        "found": observed,
        "advice": f"{advice}; {_instead(flags)}" if reason not in ("usable", "not_asked", "not_x86_64") else advice,
        "cpu": cpu,
        "kernel": {
            "release": release,
            "meets_rule": meets_rule(release, supports),
            "asked": answer is not None,
            "supports": supports,
            "answer": _in_words(answer),
        },
    }


def meets_rule(release: str, supports: bool | None) -> bool:
    """Return whether a kernel is 5.16 or newer, or a 5.15 to which its vendor added AMX.

    This is the rule of thumb, for kernels that were not asked or answer oddly; what the kernel grants overrules it.
    supports: whether the kernel knows the requests.
    """
    version = _version(release)
    return version >= (5, 16) or (version == (5, 15) and bool(supports))


def _version(release: str) -> tuple[int, int]:
    numbers = re.match(r"(\d+)\.(\d+)", release)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


def _cpu(cpuinfo: str) -> dict[str, Any]:
    first = _first_cpu(cpuinfo)
    family, number = (int(first[key]) if first.get(key, "").isdigit() else 0 for key in ("cpu family", "model"))
    vendor = first.get("vendor_id", "")
    return {
        "model": first.get("model name", ""),
        "vendor": vendor,
        "family": family,
        "number": number,
        "generation": AMX_MODELS.get((family, number), "") if vendor == "GenuineIntel" else "",
        "virtual": "hypervisor" in first.get("flags", "").split(),
    }


def _reason(
    machine: str, release: str, cpu: Mapping[str, Any], flags: frozenset[str], answer: Mapping[str, int] | None
) -> tuple[str, str, str]:
    """Return (reason, what was found, what to do)."""
    name = cpu["model"] or "the CPU"
    if machine != "x86_64":
        return (
            "not_x86_64",
            f"the architecture is {machine}",
            "Use x86-64 servers: AMX and the wheels are for them only",
        )
    if flags.issuperset(ISAS["amx"]):
        return _permission(name, release, cpu, answer)
    if "amx_tile" in flags:
        return "no_amx", f"{name} has AMX for integers only", "Use a CPU whose AMX multiplies bf16"
    if not cpu["generation"]:
        guest = cpu["virtual"] and cpu["vendor"] == "GenuineIntel"
        advice = "AMX needs an Intel Xeon of the 4th generation (Sapphire Rapids) or newer"
        if guest:
            advice += "; if this virtual machine runs on one, give it the CPU model of its host"
        return "no_amx", f"{name} has no AMX", advice
    seen = f"{name} ({cpu['generation']}) has AMX, but the CPU's flags do not show it"
    if not meets_rule(release, None) if answer is None else answer["supported_errno"] == errno.EINVAL:
        return "kernel_too_old", f"{seen}: kernel {release} does not support it", OLD_KERNEL
    if cpu["virtual"]:
        return (
            "hidden_by_hypervisor",
            f"{seen}: the hypervisor hides it",
            HYPERVISOR,
        )
    return (
        "switched_off",
        f"{seen}: it is disabled in the firmware or by a boot parameter",
        f"{BOOT_PARAMETERS}, and enable AMX in the firmware",
    )


RULE = "5.16 or newer, or 5.15 with AMX added by its vendor"
OLD_KERNEL = (
    "Install kernel 5.16 or newer, or an older one to which its vendor added AMX, and reboot: on Ubuntu 22.04 the "
    "package linux-generic-hwe-22.04, on RHEL 9 the newest package kernel"
)
HYPERVISOR = (
    "Use bare metal, another type of virtual machine, or set the hypervisor to pass AMX on (QEMU 7.0 and kernel 5.17 "
    "or newer on its host: -cpu host, in libvirt <cpu mode='host-passthrough'/>)"
)
SANDBOX = (
    "Run outside of the sandbox, emulator or container (gVisor has a kernel of its own), or install a kernel of the "
    "distribution that is built with AMX"
)
BOOT_PARAMETERS = "Remove clearcpuid= and noxsave from the boot parameters (/proc/cmdline)"
SECCOMP = "Allow arch_prctl in the container's seccomp profile, or run outside of the container"


def _permission(
    name: str, release: str, cpu: Mapping[str, Any], answer: Mapping[str, int] | None
) -> tuple[str, str, str]:
    """Evaluate the kernel's answer on a CPU that shows AMX."""
    if answer is None:
        return (
            "not_asked",
            f"{name} shows AMX, but kernel {release} was not asked for it",
            "Ask it on the running machine, with the Python interpreter of the ranks",
        )
    if answer["killed"]:
        return (
            "kernel_refuses",
            f"{name} shows AMX, but the process that requested it was killed by signal {answer['killed']}",
            SECCOMP,
        )
    failed = answer["supported_errno"]
    if failed == errno.EINVAL and meets_rule(release, False):
        seen = f"{name} shows AMX, but the kernel does not know the request for it, as {release} should"
        return "kernel_refuses", seen, SANDBOX
    if failed == errno.EINVAL:
        return "kernel_too_old", f"{name} shows AMX, but kernel {release} does not grant it to programs", OLD_KERNEL
    if failed:
        return "kernel_refuses", f"{name} shows AMX, but the request for it fails: {os.strerror(failed)}", SECCOMP
    needed = 1 << XTILE_CFG | 1 << XTILE_DATA
    if answer["supported"] & needed != needed:
        seen = f"{name} shows AMX, but kernel {release} cannot save its registers"
        if cpu["virtual"]:
            return "hidden_by_hypervisor", f"{seen}: the hypervisor does not enable them", HYPERVISOR
        return "kernel_refuses", seen, BOOT_PARAMETERS
    if answer["request_errno"]:
        advice = {
            errno.EPERM: SECCOMP,
            errno.ENOSYS: SECCOMP,
            errno.ENOSPC: "Give the process a larger alternate signal stack: this one is too small for AMX's registers",
        }.get(answer["request_errno"], "Check the process for a seccomp profile or a small alternate signal stack")
        return (
            "kernel_refuses",
            f"{name} shows AMX, but the kernel refuses it: {os.strerror(answer['request_errno'])}",
            advice,
        )
    if not answer["granted"] >> XTILE_DATA & 1:
        return "kernel_refuses", f"{name} shows AMX, but the kernel granted it without effect", SECCOMP
    return "usable", f"{name} shows AMX, and kernel {release} grants it", "Train in bf16"


def _in_words(answer: Mapping[str, int] | None) -> str:
    """Describe the kernel's answer: the rest of a sentence that begins with "the kernel"."""
    if answer is None:
        return "was not asked"
    if answer["killed"]:
        return f"killed the process that requested AMX (signal {answer['killed']})"
    if answer["supported_errno"] == errno.EINVAL:
        return "does not know the request for AMX (Invalid argument)"
    if answer["supported_errno"]:
        return f"refuses to be asked for AMX ({os.strerror(answer['supported_errno'])})"
    needed = 1 << XTILE_CFG | 1 << XTILE_DATA
    if answer["supported"] & needed != needed:
        return "knows the request for AMX, and offers no AMX registers"
    if answer["request_errno"]:
        return f"refuses AMX ({os.strerror(answer['request_errno'])})"
    return "grants AMX" if answer["granted"] >> XTILE_DATA & 1 else "granted AMX without effect"


def _instead(flags: frozenset[str]) -> str:
    if best_isa(flags) in BF16_ISAS:
        return "without AMX train in bf16, which the AVX-512 of this CPU multiplies"
    return "without AMX train in fp32, because this CPU does not multiply bf16"
