import pytest

from engine.hardware import (
    available_memory_bytes,
    has_native_bfloat16,
    int8_loops,
    lacks_vnni,
    physical_cores,
    reads_float16,
)
from engine.native.library import WIDEST_FIRST


@pytest.mark.parametrize(
    ("siblings", "cores"),
    [
        ({0: "0\n", 1: "1\n"}, (0, 1)),
        ({0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, (0, 2)),
        ({0: "0,64", 64: "0,64", 1: "1,65", 65: "1,65"}, (0, 1)),
        ({1: "0-1", 3: "2-3"}, (1, 3)),
        ({4: "", 5: ""}, (4, 5)),
    ],
)
def test_one_logical_cpu_of_each_core(siblings: dict[int, str], cores: tuple[int, ...]) -> None:
    assert physical_cores(siblings) == cores


@pytest.mark.parametrize(
    ("flags", "native"),
    [
        ("fpu sse avx2", False),
        ("avx512f avx512_bf16", True),
        ("amx_tile amx_bf16 amx_int8", True),
        ("avx512f avx512_bf16_like", False),
    ],
)
def test_bfloat16_is_native_where_an_instruction_set_for_it_is_named(flags: str, native: bool) -> None:
    lines = ["processor\t: 0", f"flags\t\t: {flags}", "", "processor\t: 1"]
    assert has_native_bfloat16(lines) is native
    assert not has_native_bfloat16([])


@pytest.mark.parametrize(
    ("line", "lacks"),
    [
        ("flags\t\t: fpu sse avx2", True),
        ("flags\t\t: fpu avx2 avx512f avx512bw", True),
        ("flags\t\t: fpu avx2 avx_vnni", False),
        ("flags\t\t: fpu avx2 avx512f avx512_vnni", False),
        ("flags\t\t: avx2 amx_tile amx_int8", False),
        ("flags\t\t: fpu sse", False),
        ("Features\t: fp asimd i8mm", False),
    ],
)
def test_vnni_is_lacking_where_avx2_is_named_and_none_of_its_forms(line: str, lacks: bool) -> None:
    assert lacks_vnni(["processor\t: 0", line]) is lacks


@pytest.mark.parametrize(
    ("line", "reads"),
    [
        ("flags\t\t: fpu sse f16c avx2", True),
        ("flags\t\t: fpu sse f16c avx", False),
        ("flags\t\t: fpu sse avx2", False),
        ("Features\t: fp asimd fphp", False),
    ],
)
def test_float16_weights_need_avx2_and_f16c(line: str, reads: bool) -> None:
    assert reads_float16(["processor\t: 0", line]) is reads


@pytest.mark.parametrize(
    ("line", "loops"),
    [
        ("flags\t\t: fpu fma f16c avx2 avx512f avx512dq avx512bw avx512vl avx512_vnni", ["avx512_int8"]),
        ("flags\t\t: fpu fma f16c avx2 avx512f avx512dq avx512bw avx512vl", []),
        ("flags\t\t: fpu fma f16c avx2 avx_vnni", ["avxvnni_int8"]),
        ("flags\t\t: fpu fma f16c avx2", []),
        ("Features\t: fp asimd i8mm", []),
    ],
)
def test_the_int8_loops_need_vnni_in_the_form_that_they_are_made_for(line: str, loops: list[str]) -> None:
    found = int8_loops(["processor\t: 0", line])
    assert [name.removeprefix("engine.native._loops_") for name in found] == loops
    assert set(found) <= set(WIDEST_FIRST["int8"])


def test_available_memory_is_a_plausible_size() -> None:
    assert 2**20 < available_memory_bytes() < 2**50
