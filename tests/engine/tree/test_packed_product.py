"""Products by oneDNN are those of torch."""

import pytest
import torch

from engine.tree.packed_product import PackedProduct


@pytest.mark.parametrize("rows", [1, 3, 5, 17])
def test_a_product_is_torch_s(rows: int) -> None:
    torch.manual_seed(rows)
    product, matrix = PackedProduct(), torch.randn(48, 32)
    for _ in range(2):
        given = torch.randn(rows, 32)
        torch.testing.assert_close(product(given, matrix), torch.nn.functional.linear(given, matrix), atol=1e-4, rtol=0)


def test_matrices_inside_another_are_told_apart() -> None:
    whole = torch.randn(3, 20, 32)
    product, given = PackedProduct(), torch.randn(2, 32)
    for matrix in (whole[0], whole[1], whole[0][:10], whole[2]):
        torch.testing.assert_close(product(given, matrix), given @ matrix.T, atol=1e-4, rtol=0)
