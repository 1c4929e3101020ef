from __future__ import annotations

import errno
import os
import platform
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import amx
from ansible_collections.amx.cluster.plugins.module_utils._hosts.amx import BF16_ISAS, ISAS, best_isa, cpu_flags, judge
from support import sound_cluster
from support.sound_cluster import CAPTURED

GRANTED = {**sound_cluster.GRANTED, "granted_errno": 0}


def asked(machine: str, **answer: int) -> dict[str, Any]:
    """What is judged of a captured machine whose kernel grants all but what `answer` says."""
    seen = amx.probe(str(CAPTURED / machine))
    return judge(seen["machine"], seen["release"], seen["cpuinfo"], {**GRANTED, **answer})


CPUINFO = """\
processor\t: 0
model name\t: Intel(R) Xeon(R) Platinum 8480+
flags\t\t: fpu avx2 avx512f amx_bf16 amx_tile
vmx flags\t: vnmi preemption_timer

processor\t: 1
flags\t\t: fpu
"""


def test_flags_are_those_of_the_first_cpu() -> None:
    assert cpu_flags(CPUINFO) == {"fpu", "avx2", "avx512f", "amx_bf16", "amx_tile"}
    assert cpu_flags("Features\t: fp asimd\n") == frozenset()


@pytest.mark.parametrize(
    ("flags", "isa"),
    [
        ("amx_tile amx_bf16 avx512_bf16 avx2", "amx"),  # Sapphire Rapids and newer
        ("amx_tile avx512_bf16 avx2", "avx512_bf16"),  # AMX that only multiplies integers is of no use here
        ("avx512_vnni avx512f avx512bw avx512vl avx512dq avx2", "avx512_vnni"),  # Cascade Lake
        ("avx512f avx512bw avx512vl avx512dq avx2", "avx512"),  # Skylake
        ("avx512f avx512er avx2", "avx2"),  # Xeon Phi: AVX-512 without the parts that torch needs
        ("fpu sse4_2", "none"),
        ("", "none"),
    ],
)
def test_best(flags: str, isa: str) -> None:
    assert best_isa(frozenset(flags.split())) == isa


def test_bf16_is_told_by_names_of_instruction_sets() -> None:
    assert set(BF16_ISAS) < set(ISAS)


def test_granted() -> None:
    assert asked("sapphire_rapids") == {
        "usable": True,
        "isa": "amx",
        "reason": "usable",
        "found": "Intel(R) Xeon(R) Platinum 8480+ shows AMX, and kernel 6.1.0-18-amd64 grants it",
        "advice": "Train in bf16",
        "cpu": {
            "model": "Intel(R) Xeon(R) Platinum 8480+",
            "vendor": "GenuineIntel",
            "family": 6,
            "number": 143,
            "generation": "Sapphire Rapids",
            "virtual": False,
        },
        "kernel": {
            "release": "6.1.0-18-amd64",
            "meets_rule": True,
            "asked": True,
            "supports": True,
            "answer": "grants AMX",
        },
    }


SECCOMP = "Allow arch_prctl in the container's seccomp profile, or run outside of the container"
BF16 = "; without AMX train in bf16, which the AVX-512 of this CPU multiplies"
FP32 = "; without AMX train in fp32, because this CPU does not multiply bf16"
OTHER_HOST = amx.HYPERVISOR
NAME = "Intel(R) Xeon(R) Platinum 8480+"


@pytest.mark.parametrize(
    ("machine", "answer", "isa", "reason", "found", "advice"),
    [
        (
            "ice_lake", {}, "avx512_vnni", "no_amx", "Intel(R) Xeon(R) Platinum 8352Y CPU @ 2.20GHz has no AMX",
            "AMX needs an Intel Xeon of the 4th generation (Sapphire Rapids) or newer" + FP32,
        ),
        (
            "zen5", {}, "avx512_bf16", "no_amx", "AMD EPYC 9575F 64-Core Processor has no AMX",
            "AMX needs an Intel Xeon of the 4th generation (Sapphire Rapids) or newer" + BF16,
        ),
        (
            "generic_guest", {}, "avx512_vnni", "no_amx", "Intel Xeon Processor (Icelake) has no AMX",
            "AMX needs an Intel Xeon of the 4th generation (Sapphire Rapids) or newer; if this virtual machine runs on "
            "one, give it the CPU model of its host" + FP32,
        ),
        (
            "graviton", {}, "none", "not_x86_64", "the architecture is another",
            "Use x86-64 servers: AMX and the wheels are for them only",
        ),
        (
            "emerald_rapids_guest_hidden", {"supported": 0x2E7, "request_errno": errno.EOPNOTSUPP}, "avx512_bf16",
            "hidden_by_hypervisor",
            "INTEL(R) XEON(R) PLATINUM 8573C (Emerald Rapids) has AMX, but the CPU's flags do not show it: the "
            "hypervisor hides it",
            OTHER_HOST + BF16,
        ),
        (
            "sapphire_rapids_5.10", {"supported_errno": errno.EINVAL, "request_errno": errno.EINVAL}, "avx512_bf16",
            "kernel_too_old",
            f"{NAME} (Sapphire Rapids) has AMX, but the CPU's flags do not show it: kernel 5.10.0-28-amd64 does "
            "not support it",
            amx.OLD_KERNEL + BF16,
        ),
        (
            "sapphire_rapids", {"supported_errno": errno.EINVAL, "request_errno": errno.EINVAL}, "avx512_bf16",
            "kernel_refuses",
            f"{NAME} shows AMX, but the kernel does not know the request for it, as 6.1.0-18-amd64 should",
            amx.SANDBOX + BF16,
        ),
        (
            "sapphire_rapids", {"request_errno": errno.EPERM, "granted": 0x2E7}, "avx512_bf16", "kernel_refuses",
            f"{NAME} shows AMX, but the kernel refuses it: Operation not permitted", SECCOMP + BF16,
        ),
        (
            "sapphire_rapids", {"request_errno": errno.ENOSPC, "granted": 0x2E7}, "avx512_bf16", "kernel_refuses",
            f"{NAME} shows AMX, but the kernel refuses it: No space left on device",
            "Give the process a larger alternate signal stack: this one is too small for AMX's registers" + BF16,
        ),
        (
            "sapphire_rapids", {"supported_errno": errno.EPERM}, "avx512_bf16", "kernel_refuses",
            f"{NAME} shows AMX, but the request for it fails: Operation not permitted", SECCOMP + BF16,
        ),
        (
            "sapphire_rapids", {"killed": signal.SIGSYS}, "avx512_bf16", "kernel_refuses",
            f"{NAME} shows AMX, but the process that requested it was killed by signal 31", SECCOMP + BF16,
        ),
        (
            "sapphire_rapids", {"granted": 0x2E7}, "avx512_bf16", "kernel_refuses",
            f"{NAME} shows AMX, but the kernel granted it without effect", SECCOMP + BF16,
        ),
        (
            "sapphire_rapids", {"supported": 0x2E7}, "avx512_bf16", "kernel_refuses",
            f"{NAME} shows AMX, but kernel 6.1.0-18-amd64 cannot save its registers",
            "Remove clearcpuid= and noxsave from the boot parameters (/proc/cmdline)" + BF16,
        ),
    ],
)  # fmt: skip
def test_not_usable(machine: str, answer: dict[str, int], isa: str, reason: str, found: str, advice: str) -> None:
    told = asked(machine, **answer)
    assert told["usable"] is False
    assert [told[key] for key in ("isa", "reason", "found", "advice")] == [isa, reason, found, advice]
    assert told["reason"] in amx.REASONS


@pytest.mark.parametrize("release", ["5.15.0-1026-aws", "5.14.0-427.el9.x86_64"])
def test_a_kernel_to_which_its_vendor_added_amx(release: str) -> None:
    """The kernel's answer counts, not its version."""
    told = judge("x86_64", release, amx.probe(str(CAPTURED / "sapphire_rapids"))["cpuinfo"], GRANTED)
    assert (told["usable"], told["reason"], told["isa"]) == (True, "usable", "amx")
    assert told["found"] == f"Intel(R) Xeon(R) Platinum 8480+ shows AMX, and kernel {release} grants it"


OLD = {**GRANTED, "supported": 0, "granted": 0, "supported_errno": errno.EINVAL, "request_errno": errno.EINVAL}


@pytest.mark.parametrize("release", ["5.15.0-94-generic", "5.14.0-70.el9.x86_64", "4.18.0-553.el8.x86_64"])
@pytest.mark.parametrize("machine", ["sapphire_rapids", "sapphire_rapids_5.10"])
def test_an_old_kernel(machine: str, release: str) -> None:
    """Whether it shows the flags or not: it does not know the request."""
    told = judge("x86_64", release, amx.probe(str(CAPTURED / machine))["cpuinfo"], OLD)
    assert (told["usable"], told["reason"], told["isa"]) == (False, "kernel_too_old", "avx512_bf16")
    assert told["kernel"]["meets_rule"] is False
    assert told["kernel"]["answer"] == "does not know the request for AMX (Invalid argument)"
    assert "linux-generic-hwe-22.04" in told["advice"]


@pytest.mark.parametrize(
    ("release", "reason"),
    [("5.14.0", "kernel_too_old"), ("5.15.0-94-generic", "kernel_too_old"), ("5.16.0", "switched_off")],
)
def test_a_captured_machine_without_flags_is_judged_by_the_rule(release: str, reason: str) -> None:
    cpuinfo = amx.probe(str(CAPTURED / "sapphire_rapids_5.10"))["cpuinfo"]
    assert judge("x86_64", release, cpuinfo, None)["reason"] == reason


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({}, "grants AMX"),
        ({"killed": 31}, "killed the process that requested AMX (signal 31)"),
        ({"supported_errno": errno.EPERM}, "refuses to be asked for AMX (Operation not permitted)"),
        ({"supported": 0x2E7}, "knows the request for AMX, and offers no AMX registers"),
        ({"request_errno": errno.EPERM}, "refuses AMX (Operation not permitted)"),
        ({"granted": 0x2E7}, "granted AMX without effect"),
    ],
)
def test_what_the_kernel_answered(answer: dict[str, int], words: str) -> None:
    assert asked("sapphire_rapids", **answer)["kernel"]["answer"] == words


def test_switched_off() -> None:
    """The same CPU as the guest's, with no hypervisor to blame."""
    seen = amx.probe(str(CAPTURED / "emerald_rapids_guest_hidden"))
    told = judge("x86_64", seen["release"], seen["cpuinfo"].replace(" hypervisor ", " "), GRANTED)
    assert (told["reason"], told["cpu"]["virtual"]) == ("switched_off", False)


def test_a_hypervisor_that_shows_the_flags_and_not_the_registers() -> None:
    seen = amx.probe(str(CAPTURED / "sapphire_rapids"))
    cpuinfo = seen["cpuinfo"].replace(" avx2 ", " avx2 hypervisor ")
    assert judge("x86_64", "6.1", cpuinfo, {**GRANTED, "supported": 0x2E7})["reason"] == "hidden_by_hypervisor"


def test_kernel_5_16_prints_only_amx_tile() -> None:
    seen = amx.probe(str(CAPTURED / "sapphire_rapids"))
    cpuinfo = seen["cpuinfo"].replace("amx_bf16", "").replace("amx_int8", "")
    assert judge("x86_64", "5.16.0", cpuinfo, GRANTED)["reason"] == "usable"
    # Of a CPU that is not known it cannot be taken for granted.
    unknown = re.sub("(?m)^model\t.*", "model\t\t: 250", cpuinfo)
    assert judge("x86_64", "5.16.0", unknown, GRANTED)["reason"] == "no_amx"


@pytest.mark.parametrize(
    ("release", "supports", "meets"),
    [
        ("6.1.0-18-amd64", True, True),
        ("5.16.0", True, True),
        ("5.15.0-94-generic", True, True),
        ("5.15.0-94-generic", False, False),
        ("5.15.0-94-generic", None, False),
        ("5.14.0-427.el9.x86_64", True, False),  # usable all the same, see below
        ("4.18.0-553.el8.x86_64", False, False),
        ("odd", True, False),
    ],
)
def test_the_rule_of_thumb(release: str, supports: bool | None, meets: bool) -> None:
    assert amx.meets_rule(release, supports) is meets


def test_the_truth_overrules_the_rule_of_thumb() -> None:
    cpuinfo = amx.probe(str(CAPTURED / "sapphire_rapids"))["cpuinfo"]
    backported = judge("x86_64", "5.14.0-427.el9.x86_64", cpuinfo, GRANTED)
    assert (backported["reason"], backported["kernel"]["meets_rule"]) == ("usable", False)
    refused = judge("x86_64", "6.18.0", cpuinfo, {**GRANTED, "request_errno": errno.EPERM})
    assert (refused["usable"], refused["kernel"]["meets_rule"]) == (False, True)


@pytest.mark.parametrize(
    ("machine", "usable", "reason", "isa"),
    [
        ("sapphire_rapids", None, "not_asked", "amx"),
        ("emerald_rapids_guest_hidden", False, "hidden_by_hypervisor", "avx512_bf16"),
        ("sapphire_rapids_5.10", False, "kernel_too_old", "avx512_bf16"),
        ("ice_lake", False, "no_amx", "avx512_vnni"),
        ("graviton", False, "not_x86_64", "none"),
    ],
)
def test_a_captured_machine_is_not_asked(machine: str, usable: bool | None, reason: str, isa: str) -> None:
    told = judge(**amx.probe(str(CAPTURED / machine)))
    assert (told["usable"], told["reason"], told["isa"]) == (usable, reason, isa)
    assert (told["kernel"]["asked"], told["kernel"]["supports"]) == (False, None)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="arch_prctl is x86-64's")
def test_this_machine_is_asked_and_left_as_it_was() -> None:
    """Whatever this machine is: what was granted to the child must not be granted here, unless it was before."""
    before = _own_permission()
    answer = amx.ask_kernel()
    assert set(answer) == set(GRANTED)
    assert _own_permission() == before
    shown = "amx_tile" in cpu_flags(Path("/proc/cpuinfo").read_text())
    assert shown or not answer["granted"] >> amx.XTILE_DATA & 1
    if not shown:
        assert answer["request_errno"] in (errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ENOSYS)


def _own_permission() -> int:
    import ctypes

    mask = ctypes.c_uint64()
    ctypes.CDLL(None).syscall(amx.SYS_ARCH_PRCTL, amx.ARCH_GET_XCOMP_PERM, ctypes.byref(mask))
    return mask.value


def test_a_child_that_is_killed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amx, "_request_permission", lambda: os.kill(os.getpid(), signal.SIGSYS))
    assert amx.ask_kernel() == dict.fromkeys(GRANTED, 0) | {"killed": signal.SIGSYS}


def test_another_interpreter_gives_the_same_answer() -> None:
    other = amx.probe_with([sys.executable, "-S"])
    assert judge(**other) == judge(**amx.probe())


@pytest.mark.parametrize(
    ("python", "message"),
    [
        (
            ["/nonexistent/python"],
            "the interpreter /nonexistent/python cannot be run: [Errno 2] No such file or directory: "
            "'/nonexistent/python'",
        ),
        (["false"], "the interpreter false returned no result (exit code 1): no output"),
        (["echo", "[1]"], "the interpreter echo [1] returned no result (exit code 0): [1] -"),
    ],
)
def test_an_interpreter_that_does_not_answer(python: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        amx.probe_with(python)
