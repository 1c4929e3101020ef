from __future__ import annotations

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._amx import BF16_ISAS, ISAS, best_isa, cpu_flags

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
