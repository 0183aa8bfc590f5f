"""Products with packed matrices are those of torch."""

import pytest
import torch

from engine.native.library import Kept, library
from engine.tree.packed_product import PackedProduct

pytestmark = pytest.mark.parametrize("kept", [None, "float16"])


@pytest.mark.parametrize("rows", [1, 3, 5, 17])
def test_a_product_is_torch_s(rows: int, kept: Kept | None) -> None:
    torch.manual_seed(rows)
    product, matrix = PackedProduct(kept), torch.randn(48, 32).bfloat16().float()
    for _ in range(2):
        given = torch.randn(rows, 32)
        torch.testing.assert_close(product(given, matrix), torch.nn.functional.linear(given, matrix), atol=1e-4, rtol=0)


@pytest.mark.skipif(library("int8") is None, reason="not compiled here, or for another processor")
def test_in_8_bits_a_product_is_near(kept: Kept | None) -> None:
    given, matrix = torch.randn(5, 64), torch.randn(48, 64)
    exact = given @ matrix.T
    error = PackedProduct("int8")(given, matrix) - exact
    assert 0 < error.square().mean().sqrt() < 0.01 * exact.square().mean().sqrt()


def test_matrices_inside_another_are_told_apart(kept: Kept | None) -> None:
    whole = torch.randn(3, 20, 32).bfloat16().float()
    product, given = PackedProduct(kept), torch.randn(2, 32)
    for matrix in (whole[0], whole[1], whole[0][:10], whole[2]):
        torch.testing.assert_close(product(given, matrix), given @ matrix.T, atol=1e-4, rtol=0)
