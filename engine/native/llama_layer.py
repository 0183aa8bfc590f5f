"""What lies between two attentions of a Llama model (llama_layer.c), called with torch's tensors."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from engine.native.float16_product import Panels
from engine.native.library import library

_UNIT = 16
"""Sizes are multiples of it."""


@dataclass(frozen=True)
class LayerWeights:
    """One decoder layer: its products, and the weights [hidden] of the norms before attention and before the MLP."""

    qkv: Panels
    output: Panels
    gate_up: Panels
    down: Panels
    before_attention: torch.Tensor
    before_mlp: torch.Tensor


@dataclass(frozen=True)
class Sizes:
    """Of a model: of all queries, of all keys (and of all values), and of a head; `epsilon` is that of its norms."""

    queries: int
    keys: int
    head: int
    epsilon: float


class _Shape(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("hidden", "inner", "queries", "keys", "head")]
    _fields_ += [("epsilon", ctypes.c_float)]


class _SecondHalf(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("output", "gate_up", "down", "norm")]


class _FirstHalf(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("product", "norm")]


def suits(layers: Sequence[LayerWeights], sizes: Sizes, angles: torch.Tensor) -> bool:
    """Whether `LlamaLayers` can run them here.

    Args:
        layers: of the model.
        sizes: of the model.
        angles: as in `LlamaLayers`.
    """
    inner, hidden = layers[0].gate_up.shape[0] // 2, layers[0].gate_up.shape[1]
    shapes = [(sizes.queries + 2 * sizes.keys, hidden), (hidden, sizes.queries), (2 * inner, hidden), (hidden, inner)]
    norms = [norm for layer in layers for norm in (layer.before_attention, layer.before_mlp)]
    return (
        library() is not None
        and all([x.qkv.shape, x.output.shape, x.gate_up.shape, x.down.shape] == shapes for x in layers)
        and all(size % _UNIT == 0 for size in (hidden, inner, sizes.queries, sizes.keys, sizes.head))
        and all(tensor.dtype == torch.float32 and tensor.is_contiguous() for tensor in (*norms, angles))
        and all(norm.shape == (hidden,) for norm in norms)
        and angles.shape[1:] == (sizes.head,)
    )


class LlamaLayers:
    """All that a model's layers do but attention.

    Args:
        layers: for which `suits` holds.
        sizes: of the model.
        last_norm: [hidden] float32, after the last layer.
        angles: [positions, head] float32: the cosines of a position's head / 2 angles, then their sines.
    """

    def __init__(
        self, layers: Sequence[LayerWeights], sizes: Sizes, last_norm: torch.Tensor, angles: torch.Tensor
    ) -> None:
        loops = library()
        assert loops is not None
        self._loop = loops.layer
        self._kept = (layers, last_norm, angles)
        self._hidden, self._inner = layers[0].down.shape
        self._outputs = sizes.queries + 2 * sizes.keys
        shape = (self._hidden, self._inner, sizes.queries, sizes.keys, sizes.head, sizes.epsilon)
        self._shape = ctypes.pointer(_Shape(*shape))
        self._angles = angles.data_ptr()
        seconds = [
            _SecondHalf(x.output.address, x.gate_up.address, x.down.address, x.before_mlp.data_ptr()) for x in layers
        ]
        firsts = [_FirstHalf(x.qkv.address, x.before_attention.data_ptr()) for x in layers]
        firsts.append(_FirstHalf(None, last_norm.data_ptr()))
        # What comes before layer n, and after the last one.
        self._between = [
            (None if second is None else ctypes.pointer(second), ctypes.pointer(first))
            for second, first in zip([None, *seconds], firsts, strict=True)
        ]

    def run(
        self, residual: torch.Tensor, positions: torch.Tensor, attend: Callable[[int, torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        """[rows, hidden] after the last norm.

        Args:
            residual: [rows, hidden] float32, contiguous: the embeddings; overwritten.
            positions: [rows] int64, contiguous.
            attend: given a layer's place and [rows, queries + 2 keys] with queries, keys and values, already rotated
                and overwritten after the return, gives what was attended to, [rows, queries] float32, contiguous.
        """
        rows = len(residual)
        scratch = residual.new_empty(rows * (self._hidden + self._inner))
        qkv = residual.new_empty(rows, self._outputs)
        fixed = (residual.data_ptr(), scratch.data_ptr(), positions.data_ptr(), self._angles)
        loop, shape, result, attended = self._loop, self._shape, qkv.data_ptr(), None
        *layers, end = self._between
        for index, (second, first) in enumerate(layers):
            loop(shape, second, first, rows, None if attended is None else attended.data_ptr(), *fixed, result)
            attended = attend(index, qkv)
        hidden = torch.empty_like(residual)
        assert attended is not None
        loop(shape, *end, rows, attended.data_ptr(), *fixed, hidden.data_ptr())
        return hidden
