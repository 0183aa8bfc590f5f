"""The compiled product with matrices in panels, against exact sums, and what stands in for it; without an engine."""

import ctypes
import shutil
from collections.abc import Iterable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine import kept_weights
from engine.hardware import int8_loops, read_cpuinfo, reads_float16
from engine.native import library, panels
from engine.native.library import Kept
from engine.native.panels import BLOCK, Panels, rounded
from tests.engine.loops import ALL, as_kept, as_multiplied

sizes = st.integers(1, 70)


def random(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("kept_so", "suits"), [("float16", reads_float16), ("int8", int8_loops)])
def test_it_is_there_where_there_is_a_compiler(kept_so: Kept, suits: object) -> None:
    if shutil.which("cc") is None or not suits(read_cpuinfo()):  # type: ignore[operator]
        pytest.skip("no compiler, or another processor")
    assert library.library(kept_so) is not None


@given(rows=sizes, blocks=st.integers(1, 4), more=st.integers(0, 31), outputs=sizes, seed=st.integers(0, 999))
def test_sums_are_those_of_what_is_kept(kept: Kept, rows: int, blocks: int, more: int, outputs: int, seed: int) -> None:
    inputs = blocks * BLOCK + (more if kept == "float16" else 0)
    matrix, x = random(seed, outputs, inputs), random(seed + 1, rows, inputs)
    exact = as_multiplied(x, kept) @ as_kept(matrix, kept).T
    torch.testing.assert_close(Panels(matrix, kept).product(x).double(), exact, atol=4e-5, rtol=1e-5)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("size", [2.0**-16, 1.0, 2.0**14])
def test_the_largest_sums_of_a_block_are_exact(kept: Kept, sign: int, size: float) -> None:
    matrix = torch.full((40, BLOCK), 255.0)
    matrix[:, 0] = 0.0
    matrix *= size / 256
    x = torch.full((7, BLOCK), sign * 127.0)
    exact = as_multiplied(x, kept) @ as_kept(matrix, kept).T
    torch.testing.assert_close(Panels(matrix, kept).product(x).double(), exact, atol=0, rtol=3e-7)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 6, 7, 11, 17, 33, 95, 96, 97, 200])
def test_a_row_does_not_depend_on_the_rows_beside_it(kept: Kept, rows: int) -> None:
    panels, x = Panels(random(0, 83, 192), kept), random(1, rows, 192)
    together = panels.product(x)
    assert all(torch.equal(together[row], panels.product(x[row : row + 1])[0]) for row in range(rows))


def products_of(libraries: Iterable[ctypes.CDLL | None], rows: int, so: Kept) -> list[torch.Tensor]:
    """Of the same rows with the same matrix, for each of the libraries that suit this processor."""
    matrix, x, products = random(0, 83, 192), random(1, rows, 192), []
    for loops in libraries:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(panels, "library", lambda kept, loops=loops: loops)
            if loops is not None:
                products.append(Panels(matrix, so).product(x))
    return products


@pytest.mark.parametrize("rows", [1, 6, 12, 13, 97])
def test_nor_on_the_width_of_registers(rows: int) -> None:
    products = products_of([library.loaded(name) for kept, name in ALL if kept == "float16"], rows, "float16")
    if len(products) < 2:
        pytest.skip("this processor has registers of one width")
    assert torch.equal(*products)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 13, 97])
def test_nor_in_8_bits(narrow_int8: str, rows: int) -> None:
    compiled = [library.loaded(name) for kept, name in ALL if kept == "int8"]
    products = products_of([library.opened(narrow_int8), *compiled], rows, "int8")
    if len(products) < 2:
        pytest.skip("this processor has registers of one width, or no VNNI")
    assert all(torch.equal(products[0], other) for other in products[1:])


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_nor_on_the_number_of_threads(kept: Kept, threads: int) -> None:
    panels, x = Panels(random(0, 83, 192), kept), random(1, 9, 192)
    before, expected = torch.get_num_threads(), panels.product(x)
    torch.set_num_threads(threads)
    try:
        assert torch.equal(panels.product(x), expected)
    finally:
        torch.set_num_threads(before)


def test_nothing_is_written_beside_the_result_and_rows_stay_as_they_are(kept: Kept) -> None:
    panels, x = Panels(torch.ones(17, 32), kept), torch.ones(3, 32)
    whole = torch.full((5, 17), -1.0)
    rows = x.clone()
    panels._product(rows.data_ptr(), panels.address, whole[1].data_ptr(), 3, 32, 17)
    assert whole[0].tolist() == whole[4].tolist() == [-1.0] * 17
    torch.testing.assert_close(whole[1:4], torch.full((3, 17), 32.0))
    panels.product(x)
    assert torch.equal(x, torch.ones(3, 32))


def test_any_shape_of_rows_and_none(kept: Kept) -> None:
    matrix = random(0, 20, 64)
    panels, x = Panels(matrix, kept), random(1, 64, 2, 3)
    rows = x.permute(1, 2, 0).reshape(6, 64)
    exact = as_multiplied(rows, kept) @ as_kept(matrix, kept).T
    torch.testing.assert_close(panels.product(x.permute(1, 2, 0)), exact.float().view(2, 3, 20), atol=4e-5, rtol=1e-5)
    assert panels.product(torch.empty(0, 64)).shape == (0, 20)


@pytest.mark.parametrize("x", [torch.ones(2, 31), torch.ones(2, 32, dtype=torch.bfloat16)], ids=["inputs", "type"])
def test_other_rows_are_refused(kept: Kept, x: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="takes float32 rows of 32"):
        Panels(torch.ones(4, 32), kept).product(x)


def test_rows_of_nothing_give_nothing(kept: Kept) -> None:
    x = random(1, 2, 64)
    x[0] = 0
    product = Panels(random(0, 20, 64), kept).product(x)
    assert not product[0].any()
    assert product[1].all()


@given(st.integers(0, 999), st.sampled_from([1e-5, 1e-3, 0.05, 1.0, 300.0]), st.sampled_from([0.0, 1.0, -5.0]))
def test_a_weight_in_8_bits_differs_by_half_a_step(seed: int, scale: float, middle: float) -> None:
    values = scale * (random(seed, 9, BLOCK) + middle)
    q, step, least = rounded(values)
    kept = q.double() * step.double()[:, None] + least.double()[:, None]
    spread = (values.amax(-1) - values.amin(-1)).double() / 255
    # Least and step are themselves rounded, to a part in 2048 or a multiple of 6e-8; of the step there are up to 255.
    slack = values.abs().amax(-1).double() / 2048 + 255 * spread / 2048 + 1e-7
    assert ((kept - values.double()).abs().amax(-1) <= 0.5 * spread + slack).all()


@given(st.integers(0, 999), st.floats(0.001, 1), st.floats(-1, 1))
def test_sixteen_levels_between_least_and_greatest_are_kept_as_they_are(seed: int, step: float, least: float) -> None:
    # As GGUF's Q4_1 has them: both of a block in float16, its greatest step among the weights.
    step, least = float(torch.tensor(step * 17).half()) / 17, float(torch.tensor(least).half())
    levels = torch.randint(0, 16, (1, BLOCK), generator=torch.Generator().manual_seed(seed))
    levels[0, :2] = torch.tensor([0, 15])
    q, _, _ = rounded(least + 17 * step * levels)
    assert torch.equal(q.long(), 17 * levels)


def test_weights_that_are_all_the_same_are_kept() -> None:
    q, step, least = rounded(torch.full((1, BLOCK), 0.25))
    assert not q.any()
    assert step.tolist() == [0.0]
    assert least.tolist() == [0.25]


@pytest.mark.parametrize("inputs", [12, 33])
def test_parts_of_a_block_are_refused(inputs: int) -> None:
    with pytest.raises(ValueError, match="8 bits are for"):
        rounded(torch.ones(2, inputs))


@pytest.mark.skipif("fbgemm" not in torch.backends.quantized.supported_engines, reason="this torch has no FBGEMM")
def test_fbgemm_stands_in_where_it_was_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (panels, kept_weights):
        monkeypatch.setattr(module, "library", lambda kept: None)
    matrix, x = random(0, 96, 64), random(1, 7, 64)
    product = kept_weights.KeptProduct(matrix, "float16")
    torch.testing.assert_close(product(x), x @ matrix.half().float().T, atol=1e-5, rtol=1e-5)
    with pytest.raises(RuntimeError, match="not compiled"):
        Panels(matrix, "float16")
