"""Precisions, tasks, oneDNN's output and the driver: what of them needs no torch."""

from __future__ import annotations

import faulthandler
import os
import re
import signal

import pytest
from amx_cluster.inference import isa, precision, run_benchmark, tasks
from amx_cluster.inference.loaded import Unavailable

# Printed by torch 2.13 on an EPYC 9005, shortened to what is read.
VERBOSE = """\
onednn_verbose,v1,info,oneDNN v3.11.1 (commit 0123)
onednn_verbose,v1,info,cpu,isa:Intel AVX-512 with AVX512BW, AVX512VL, AVX512DQ, Intel DL Boost and bfloat16 support
onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:bf16::blocked:ab::f0,,,768x768,90.5
onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core_bf16,undef,src:bf16::blocked:ab::f0,,,8x768,3.0
onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core_bf16,undef,src:bf16::blocked:ab::f0,,,8x768,3.0
onednn_verbose,v1,primitive,exec,cpu,matmul,ref:any,undef,src:bf16::blocked:ab::f0,,,8x768,2.0
"""


def test_a_precision_without_instructions_is_refused_unless_emulated() -> None:
    flags = frozenset({"avx2", "avx512_vnni"})
    error = (
        "this CPU has no instructions for bf16 (avx512_bf16 or amx_bf16): set `emulation: true` to run it more slowly"
    )
    with pytest.raises(Unavailable, match=f"^{re.escape(error)}$"):
        precision.check("bf16", False, flags)
    assert precision.check("bf16", True, flags)
    assert not precision.check("int8", False, flags)
    assert not precision.check("fp32", False, frozenset())
    assert not precision.check("bf16", True, frozenset({"amx_bf16"}))
    assert not precision.check("fp16", False, frozenset({"avx512_fp16"}))
    with pytest.raises(Unavailable, match=r"^this CPU has no instructions for fp16 \(avx512_fp16 or amx_fp16\): set "):
        precision.check("fp16", False, flags)
    with pytest.raises(Unavailable, match="fp8 is not one of the precisions"):
        precision.check("fp8", False, flags)


def test_columns_are_chosen_as_train_text_does() -> None:
    assert tasks.choose_columns("text-classification", ["label", "sentence2", "sentence1"]) == [
        "sentence1",
        "sentence2",
    ]
    assert tasks.choose_columns("text-classification", ["text", "id"]) == ["text"]
    assert tasks.choose_columns("question-answering", ["context", "question"]) == ["question", "context"]
    error = "question-answering needs the columns question+context, and there are: question, id"
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        tasks.choose_columns("question-answering", ["question", "id"])


def test_the_instructions_are_those_of_the_products_that_took_most_of_the_time() -> None:
    assert isa.summary(VERBOSE) == "matmul brg_matmul:avx512_core_bf16 (75% of the time of products)"
    assert isa.summary("".join(VERBOSE.splitlines(keepends=True)[:5])) == "matmul brg_matmul:avx512_core_bf16"
    assert isa.summary("Some warning, exec\nonednn_verbose,v1,primitive,exec") == isa.NONE


def ended(code: int = 0, by: int = 0) -> int:
    """The status of a real process that ended so."""
    child = os.fork()
    if child == 0:
        if by:
            faulthandler.disable()
            os.kill(os.getpid(), by)
        os._exit(code)
    return os.waitpid(child, 0)[1]


def test_how_a_process_ended_is_said_with_its_signal() -> None:
    killed, crashed, left = ended(by=signal.SIGKILL), ended(by=signal.SIGABRT), ended(code=3)
    assert run_benchmark.how_it_ended(killed, 1) == (
        "its process was killed by SIGKILL: out of memory (the kernel's OOM killer)"
    )
    assert run_benchmark.how_it_ended(killed, 0).startswith("its process was killed by SIGKILL, as the kernel does")
    assert run_benchmark.how_it_ended(crashed, 1) == "its process was killed by signal 6 (SIGABRT): it crashed"
    assert run_benchmark.how_it_ended(left, 0) == (
        "its process ended with exit code 3 and without a result: see the log"
    )


def test_what_a_child_sends_is_read_until_its_end_or_the_limit() -> None:
    receiving, sending = os.pipe()
    os.write(sending, b"{}")
    assert run_benchmark.receive(receiving, 0.01) == ("", True)
    os.write(sending, b" ")
    os.close(sending)
    assert run_benchmark.receive(receiving, 60) == (" ", False)
    os.close(receiving)
