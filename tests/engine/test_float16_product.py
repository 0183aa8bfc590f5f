"""The compiled product with float16 panels, against exact sums, and what stands in for it; without an engine."""

import shutil

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine import float16_weights
from engine.hardware import read_cpuinfo, reads_float16
from engine.native import float16_product, library
from tests.engine.loops import ALL, loops  # noqa: F401

compiled = pytest.mark.usefixtures("loops")
sizes = st.integers(1, 70)


def random(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_it_is_there_where_there_is_a_compiler() -> None:
    if shutil.which("cc") is None or not reads_float16(read_cpuinfo()):
        pytest.skip("no compiler, or another processor")
    assert float16_product.available()


@compiled
@given(rows=sizes, inputs=sizes, outputs=sizes, seed=st.integers(0, 999))
def test_sums_are_those_of_the_rounded_weights(rows: int, inputs: int, outputs: int, seed: int) -> None:
    matrix, x = random(seed, outputs, inputs), random(seed + 1, rows, inputs)
    exact = x.double() @ matrix.half().double().T
    torch.testing.assert_close(float16_product.Panels(matrix).product(x).double(), exact, atol=2e-5, rtol=1e-5)


@compiled
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 6, 7, 11, 17, 33, 95, 96, 97, 200])
def test_a_row_does_not_depend_on_the_rows_beside_it(rows: int) -> None:
    panels, x = float16_product.Panels(random(0, 83, 192)), random(1, rows, 192)
    together = panels.product(x)
    assert all(torch.equal(together[row], panels.product(x[row : row + 1])[0]) for row in range(rows))


@pytest.mark.parametrize("rows", [1, 6, 12, 13, 97])
def test_nor_on_the_width_of_registers(rows: int) -> None:
    matrix, x, products = random(0, 83, 192), random(1, rows, 192), []
    for name in ALL:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(float16_product, "library", lambda name=name: library.loaded(name))
            if float16_product.available():
                products.append(float16_product.Panels(matrix).product(x))
    if len(products) < 2:
        pytest.skip("this processor has registers of one width")
    assert torch.equal(*products)


@compiled
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_nor_on_the_number_of_threads(threads: int) -> None:
    panels, x = float16_product.Panels(random(0, 83, 192)), random(1, 9, 192)
    before, expected = torch.get_num_threads(), panels.product(x)
    torch.set_num_threads(threads)
    try:
        assert torch.equal(panels.product(x), expected)
    finally:
        torch.set_num_threads(before)


@compiled
def test_nothing_is_written_beside_the_result() -> None:
    panels, x = float16_product.Panels(torch.ones(17, 8)), torch.ones(3, 8)
    whole = torch.full((5, 17), -1.0)
    panels._product(x.data_ptr(), panels.address, whole[1].data_ptr(), 3, 8, 17)
    assert whole.tolist() == [[-1.0] * 17, *[[8.0] * 17] * 3, [-1.0] * 17]


@compiled
def test_any_shape_of_rows_and_none() -> None:
    matrix = random(0, 20, 12)
    panels, x = float16_product.Panels(matrix), random(1, 12, 2, 3)
    torch.testing.assert_close(panels.product(x.permute(1, 2, 0)), x.permute(1, 2, 0) @ matrix.half().float().T)
    assert panels.product(torch.empty(0, 12)).shape == (0, 20)


@compiled
@pytest.mark.parametrize("x", [torch.ones(2, 11), torch.ones(2, 12, dtype=torch.bfloat16)], ids=["inputs", "type"])
def test_other_rows_are_refused(x: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="takes float32 rows of 12"):
        float16_product.Panels(torch.ones(4, 12)).product(x)


@pytest.mark.skipif("fbgemm" not in torch.backends.quantized.supported_engines, reason="this torch has no FBGEMM")
def test_fbgemm_stands_in_where_it_was_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(float16_product, "library", lambda: None)
    matrix, x = random(0, 96, 64), random(1, 7, 64)
    product = float16_weights.Float16Product(matrix)
    torch.testing.assert_close(product(x), x @ matrix.half().float().T, atol=1e-5, rtol=1e-5)
    with pytest.raises(RuntimeError, match="not compiled"):
        float16_product.Panels(matrix)
