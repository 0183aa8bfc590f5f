"""The layers of a Llama model (llama_layer.c), called with torch's tensors."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engine.native.library import library, width
from engine.native.paged_attention import Caches, Step
from engine.native.panels import Panels


@dataclass(frozen=True)
class LayerWeights:
    """One decoder layer: its products, kept in one way, and the weights [hidden] of the norms before attention and MLP."""

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


class _Rows(ctypes.Structure):
    _fields_ = [("count", ctypes.c_long)]
    _fields_ += [(name, ctypes.c_void_p) for name in ("residual", "scratch", "positions", "angles")]


def suits(layers: Sequence[LayerWeights], sizes: Sizes, angles: torch.Tensor) -> bool:
    """Whether `LlamaLayers` can run them here.

    Args:
        layers: of the model.
        sizes: of the model.
        angles: as in `LlamaLayers`.
    """
    kept = layers[0].qkv.kept
    inner, hidden = layers[0].gate_up.shape[0] // 2, layers[0].gate_up.shape[1]
    shapes = [(sizes.queries + 2 * sizes.keys, hidden), (hidden, sizes.queries), (2 * inner, hidden), (hidden, inner)]
    norms = [norm for layer in layers for norm in (layer.before_attention, layer.before_mlp)]
    return (
        library(kept) is not None
        and all(panels.kept == kept for x in layers for panels in (x.qkv, x.output, x.gate_up, x.down))
        and all([x.qkv.shape, x.output.shape, x.gate_up.shape, x.down.shape] == shapes for x in layers)
        and all(size % width(kept) == 0 for size in (hidden, inner, sizes.queries, sizes.keys, sizes.head))
        and all(tensor.dtype == torch.float32 and tensor.is_contiguous() for tensor in (*norms, angles))
        and all(norm.shape == (hidden,) for norm in norms)
        and angles.shape[1:] == (sizes.head,)
    )


class LlamaLayers:
    """A model's layers, from embeddings to the last norm.

    Args:
        layers: for which `suits` holds.
        sizes: of the model.
        last_norm: [hidden] float32, after the last layer.
        angles: [positions, head] float32: the cosines of a position's head / 2 angles, then their sines.

    Attributes:
        kept: how the layers' matrices are kept.
        hidden: width of a row between layers.
    """

    def __init__(
        self, layers: Sequence[LayerWeights], sizes: Sizes, last_norm: torch.Tensor, angles: torch.Tensor
    ) -> None:
        self.kept = layers[0].qkv.kept
        loops = library(self.kept)
        assert loops is not None
        self._layer, self._model = loops.layer, loops.model
        self._kept = (layers, last_norm, angles)
        self._count, self._queries = len(layers), sizes.queries
        self.hidden, self._inner = layers[0].down.shape
        self._outputs = sizes.queries + 2 * sizes.keys
        shape = (self.hidden, self._inner, sizes.queries, sizes.keys, sizes.head, sizes.epsilon)
        self._shape = ctypes.pointer(_Shape(*shape))
        seconds = [
            _SecondHalf(x.output.address, x.gate_up.address, x.down.address, x.before_mlp.data_ptr()) for x in layers
        ]
        firsts = [_FirstHalf(x.qkv.address, x.before_attention.data_ptr()) for x in layers]
        firsts.append(_FirstHalf(None, last_norm.data_ptr()))
        self._seconds, self._firsts = (_SecondHalf * len(seconds))(*seconds), (_FirstHalf * len(firsts))(*firsts)

    def run(
        self, residual: torch.Tensor, positions: torch.Tensor, attend: Callable[[int, torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        """[rows, hidden] after the last norm, where somebody else attends.

        Args:
            residual: [rows, hidden] float32, contiguous: the embeddings; overwritten.
            positions: [rows] int64, contiguous.
            attend: given a layer's place and [rows, queries + 2 keys] with queries, keys and values, already rotated
                and overwritten after the return, gives what was attended to, [rows, queries] float32, contiguous, which
                is overwritten too.
        """
        rows, _scratch = self._rows(residual, positions)
        qkv, result = residual.new_empty(len(residual), self._outputs), torch.empty_like(residual)
        attended: torch.Tensor | None = None
        for index in range(self._count + 1):
            address = None if attended is None else attended.data_ptr()
            second = ctypes.byref(self._seconds[index - 1]) if index else None
            to = qkv if index < self._count else result
            self._layer(self._shape, second, ctypes.byref(self._firsts[index]), rows, address, to.data_ptr())
            if index < self._count:
                attended = attend(index, qkv)
        return result

    def run_paged(
        self, residual: torch.Tensor, positions: torch.Tensor, slots: torch.Tensor, caches: Caches, step: Step
    ) -> tuple[torch.Tensor, float]:
        """[rows, hidden] after the last norm, attention included; and the seconds that attention took.

        Args:
            residual: as in `run`.
            positions: as in `run`.
            slots: [rows] int64, contiguous: where keys and values are written.
            caches: where they are written and read.
            step: of these rows.
        """
        rows, _scratch = self._rows(residual, positions)
        qkv, attended = (residual.new_empty(len(residual), size) for size in (self._outputs, self._queries))
        result = torch.empty_like(residual)
        model = (self._shape, self._seconds, self._firsts, self._count, rows)
        over = (caches.pages, caches.layers, slots.data_ptr(), step.pointer)
        seconds = self._model(*model, *over, qkv.data_ptr(), attended.data_ptr(), result.data_ptr())
        return result, seconds

    def _rows(self, residual: torch.Tensor, positions: torch.Tensor) -> tuple[Any, torch.Tensor]:
        """The rows as a pointer, and what must live as long."""
        scratch = residual.new_empty(len(residual) * (self.hidden + self._inner))
        addresses = [x.data_ptr() for x in (residual, scratch, positions, self._kept[2])]
        return ctypes.pointer(_Rows(len(residual), *addresses)), scratch
