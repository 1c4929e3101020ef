from __future__ import annotations

import pytest
from ansible_collections.amx.cluster.plugins.module_utils._hosts import onednn

# Of torch 2.13.0+cpu on an emulated Sapphire Rapids (tests/support/emulator) with a kernel that does not grant AMX.
BEFORE = "onednn_verbose,v1,primitive,exec,cpu,reorder,simple:any,undef,src:s8::blocked:ba::f0,,,128x64,3.51685\n"
OLD = "onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core_bf16,undef,src:bf16::blocked:ab::f0,,,64x128"


@pytest.mark.parametrize(
    ("printed", "name", "amx"),
    [
        (BEFORE + OLD, "brg_matmul:avx512_core_bf16", False),
        (BEFORE + OLD.replace("avx512_core_bf16", "avx10_1_512_amx"), "brg_matmul:avx10_1_512_amx", True),
        (OLD.replace("avx512_core_bf16", "avx512_core_amx_fp16"), "brg_matmul:avx512_core_amx_fp16", True),
        ("onednn_verbose,v1,info,cpu,isa:Intel AVX-512 with Intel AMX\n" + BEFORE, "", False),
        ("dnnl_verbose,exec,cpu,inner_product,brgemm:avx512_core_amx,forward", "brgemm:avx512_core_amx", True),
        ("", "", False),
    ],
)
def test_what_ran_counts_not_what_the_cpu_lists(printed: str, name: str, amx: bool) -> None:
    assert onednn.implementation(printed) == name
    assert onednn.is_amx(name) == amx
