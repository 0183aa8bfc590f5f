"""How far a convolutional part of an ONNX graph looks, by the attributes of its operators. Pure.

The arithmetic of receptive fields through convolutions and transposed convolutions: Araujo et al., "Computing Receptive
Fields of Convolutional Neural Networks", Distill 2019. Time is the last axis of every tensor.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

_POINTWISE = {"Add", "Sub", "Mul", "Div", "Neg", "Exp", "Tanh", "Sigmoid", "LeakyRelu", "Relu", "Clip", "Identity"}
_CHANNELS = 1


class CannotCut(Exception):
    """The graph is not one that can be computed in windows; says what stands in the way."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Of a tensor, in terms of the frames that came in: its frames per such frame, and how many it sees on a side."""

    rate: Fraction = Fraction(1)
    frames: Fraction = Fraction(0)


def hop_and_context(nodes: Iterable[Any], start: str, end: str, constants: Mapping[str, Any]) -> tuple[int, int]:
    """Output frames per input frame, and input frames on either side that an output frame depends on.

    Args:
        nodes: `onnx.NodeProto`, in topological order.
        start: the tensor whose frames come in.
        end: the tensor whose frames go out.
        constants: arrays by name, for the axes of slices.

    Raises:
        CannotCut: an operator looks along time in a way that is not known here.
    """
    reaches = {start: Reach()}
    for node in nodes:
        found = [reaches[name] for name in node.input if name in reaches]
        # The shape of a window is its own; zeros made from it see nothing.
        if not found or node.op_type == "Shape":
            continue
        if len({reach.rate for reach in found}) > 1:
            raise CannotCut(f"{node.op_type} joins tensors of different rates")
        widest = max(found, key=lambda reach: reach.frames)
        for name in node.output:
            reaches[name] = _through(node, widest, constants)
    if end not in reaches or reaches[end].rate.denominator != 1:
        raise CannotCut("no whole number of output frames per input frame")
    return int(reaches[end].rate), ceil(reaches[end].frames)


def _through(node: Any, reach: Reach, constants: Mapping[str, Any]) -> Reach:
    if node.op_type == "Conv":
        return _convolution(_attributes(node), reach)
    if node.op_type == "ConvTranspose":
        return _transposed(_attributes(node), reach)
    if node.op_type in _POINTWISE or _keeps_time(node, constants):
        return reach
    raise CannotCut(f"operator {node.op_type}")


def _convolution(attributes: dict[str, Any], reach: Reach) -> Reach:
    left, right = attributes.get("pads", [0, 0])
    span = attributes.get("dilations", [1])[0] * (attributes["kernel_shape"][0] - 1)
    if attributes.get("strides", [1]) != [1] or left + right != span:
        raise CannotCut("a convolution that changes the number of frames")
    return Reach(reach.rate, reach.frames + max(left, right) / reach.rate)


def _transposed(attributes: dict[str, Any], reach: Reach) -> Reach:
    left, right = attributes.get("pads", [0, 0])
    stride, kernel = attributes.get("strides", [1])[0], attributes["kernel_shape"][0]
    extra = attributes.get("output_padding", [0])[0]
    if attributes.get("dilations", [1]) != [1] or kernel + extra - left - right != stride:
        raise CannotCut("a transposed convolution that does not multiply the number of frames")
    # Output o sees the inputs from (o + left - kernel + 1) / stride to (o + left) / stride.
    seen = Fraction(max(kernel - 1 - left, left), stride)
    return Reach(reach.rate * stride, reach.frames + seen / reach.rate)


def _keeps_time(node: Any, constants: Mapping[str, Any]) -> bool:
    """Whether an operator that moves values along an axis moves them along channels alone."""
    if node.op_type in {"Split", "Concat"}:
        return bool(_attributes(node).get("axis", 0) == _CHANNELS)
    if node.op_type == "Slice":
        axes = constants.get(node.input[3]) if len(node.input) > 3 else None
        return axes is not None and _all_channels(axes)
    if node.op_type == "Unsqueeze":
        axes = constants.get(node.input[1]) if len(node.input) > 1 else _attributes(node).get("axes")
        return axes is not None and bool(np.all((np.asarray(axes) >= 0) & (np.asarray(axes) <= _CHANNELS)))
    return False


def _all_channels(axes: npt.NDArray[Any]) -> bool:
    return bool(np.all(np.asarray(axes) == _CHANNELS))


def _attributes(node: Any) -> dict[str, Any]:
    """Integers and lists of integers by name; automatic padding is refused."""
    values = {a.name: list(a.ints) or a.i for a in node.attribute}
    if any(a.name == "auto_pad" and a.s not in (b"", b"NOTSET") for a in node.attribute):
        raise CannotCut("automatic padding")
    return values
