"""Products with packed matrices are those of torch."""

import pytest
import torch

from engine.native.library import Kept
from engine.tree.packed_product import PackedProduct

pytestmark = pytest.mark.parametrize("kept", [None, "float16"])


@pytest.mark.parametrize("rows", [1, 3, 5, 17])
def test_a_product_is_torch_s(rows: int, kept: Kept | None) -> None:
    torch.manual_seed(rows)
    product, matrix = PackedProduct(kept), torch.randn(48, 32).bfloat16().float()
    for _ in range(2):
        given = torch.randn(rows, 32)
        torch.testing.assert_close(product(given, matrix), torch.nn.functional.linear(given, matrix), atol=1e-4, rtol=0)


def test_matrices_inside_another_are_told_apart(kept: Kept | None) -> None:
    whole = torch.randn(3, 20, 32).bfloat16().float()
    product, given = PackedProduct(kept), torch.randn(2, 32)
    for matrix in (whole[0], whole[1], whole[0][:10], whole[2]):
        torch.testing.assert_close(product(given, matrix), given @ matrix.T, atol=1e-4, rtol=0)
