"""A small model of the shape of a Piper voice of several speakers: cut, it gives what it gives as a whole."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tts_adapter.voices.piper_graph import CannotCut, cut
from tts_adapter.voices.piper_model import CutModel, WholeModel, load

onnx = pytest.importorskip("onnx")
helper = onnx.helper

CHANNELS = 4
PHONEMES = 50


class Drawing:
    """Nodes and weights of a graph, one after the other."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._random = np.random.default_rng(1)

    def node(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        names = [f"t{len(self.nodes)}_{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def weight(self, name: str, *shape: int) -> str:
        values = self._random.standard_normal(shape).astype(np.float32) * 0.4
        self.weights.append(onnx.numpy_helper.from_array(values, name))
        return name

    def integers(self, name: str, *values: int) -> str:
        self.weights.append(onnx.numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def convolution(self, x: str, weight: str, from_channels: int, to_channels: int, kernel: int) -> str:
        name = self.weight(weight, to_channels, from_channels, kernel)
        return str(self.node("Conv", x, name, kernel_shape=[kernel], pads=[kernel // 2] * 2))

    def upsampled(self, x: str, weight: str) -> str:
        name = self.weight(weight, CHANNELS, CHANNELS, 4)
        return str(self.node("ConvTranspose", x, name, kernel_shape=[4], strides=[2], pads=[1, 1]))


def speakers(drawing: Drawing) -> tuple[str, str, str]:
    """A latent of a frame per phoneme, a mask of ones, and an embedding of the speaker, [1, channels, 1]."""
    embedded = drawing.node("Gather", drawing.weight("enc.weight", PHONEMES, CHANNELS), "input")
    latent = drawing.node("Transpose", embedded, perm=[0, 2, 1])
    one = drawing.node("Cast", drawing.node("Equal", "input", "input"), to=onnx.TensorProto.FLOAT)
    mask = drawing.node("Unsqueeze", one, drawing.integers("axis", 1))
    chosen = drawing.node("Gather", drawing.weight("emb_g.weight", 3, CHANNELS), "sid")
    return latent, mask, drawing.node("Unsqueeze", chosen, drawing.integers("last", 2))


def flow(drawing: Drawing, latent: str, mask: str, speaker: str) -> str:
    """One coupling behind a flip, as the last of several."""
    ends = [drawing.integers(name, value) for name, value in (("from", -1), ("to", -(2**31)), ("by", -1))]
    flipped = drawing.node("Slice", latent, ends[0], ends[1], "axis", ends[2])
    kept, moved = drawing.node("Split", flipped, drawing.integers("halves", 2, 2), outputs=2, axis=1)
    hidden = drawing.convolution(kept, "flow.flows.6.pre.weight", 2, CHANNELS, 1)
    hidden = drawing.node("Add", drawing.convolution(hidden, "flow.wide", CHANNELS, CHANNELS, 5), speaker)
    shift = drawing.convolution(drawing.node("Tanh", hidden), "flow.post", CHANNELS, 2, 1)
    moved = drawing.node("Sub", moved, drawing.node("Mul", shift, mask))
    return str(drawing.node("Mul", drawing.node("Concat", kept, moved, axis=1), mask))


def vocoder(drawing: Drawing, latent: str, speaker: str) -> None:
    hidden = drawing.node("Add", drawing.convolution(latent, "dec.conv_pre.weight", CHANNELS, CHANNELS, 7), speaker)
    for stage in range(2):
        hidden = drawing.upsampled(drawing.node("LeakyRelu", hidden), f"dec.ups.{stage}")
        wide = drawing.convolution(hidden, f"dec.res.{stage}", CHANNELS, CHANNELS, 3)
        hidden = drawing.node("Add", hidden, wide)
    sound = drawing.node("Tanh", drawing.convolution(hidden, "dec.post", CHANNELS, 1, 7))
    drawing.nodes.append(helper.make_node("Unsqueeze", [sound, "axis"], ["output"]))


def small_voice(path: Path, rename: str = "") -> str:
    """Saved; without the weights whose names contain `rename`, if given."""
    drawing = Drawing()
    latent, mask, speaker = speakers(drawing)
    vocoder(drawing, flow(drawing, latent, mask, speaker), speaker)
    integer, real = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    shapes = {
        "input": (integer, [1, "n"]),
        "input_lengths": (integer, [1]),
        "scales": (real, [3]),
        "sid": (integer, [1]),
    }
    inputs = [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in shapes.items()]
    outputs = [helper.make_tensor_value_info("output", real, None)]
    graph = helper.make_graph(drawing.nodes, "voice", inputs, outputs, drawing.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    if rename:
        _rename(model, rename)
    onnx.save(model, str(path / "small.onnx"))
    return str(path / "small.onnx")


def _rename(model: Any, part: str) -> None:
    for weight in model.graph.initializer:
        weight.name = weight.name.replace(part, "w.")
    for node in model.graph.node:
        for at, name in enumerate(node.input):
            node.input[at] = name.replace(part, "w.")


def feed(count: int, speaker: int) -> dict[str, Any]:
    ids = np.random.default_rng(count).integers(0, PHONEMES, (1, count))
    lengths, scales = np.array([count], np.int64), np.ones(3, np.float32)
    return {"input": ids, "input_lengths": lengths, "scales": scales, "sid": np.array([speaker], np.int64)}


def test_a_voice_is_cut_at_its_flow_its_vocoder_and_each_upsampling(tmp_path: Path) -> None:
    parts = cut(small_voice(tmp_path)).parts
    # The flow sees 2 frames aside; the first stage 3, 1 and 1 of 2 per frame; the last one 1, and 1 and 3 of 2 per frame.
    assert [(part.hop, part.context) for part in parts] == [(1, 2), (2, 5), (2, 3)]
    assert [len(part.inputs) for part in parts] == [3, 2, 1]


@pytest.mark.parametrize("count", [1, 2, 30, 300])
def test_each_speaker_sounds_as_in_the_whole(tmp_path: Path, count: int) -> None:
    path = small_voice(tmp_path)
    model, whole = load(path, 1, feed(80, 0)), WholeModel(path, 1)
    assert isinstance(model, CutModel)
    said = []
    for speaker in range(3):
        said.append(np.concatenate(list(model.audio(feed(count, speaker)))))
        np.testing.assert_allclose(said[-1], next(whole.audio(feed(count, speaker))), atol=1e-5)
    assert np.abs(said[0] - said[1]).max() > 0.01


@pytest.mark.parametrize("missing", ["dec.conv_pre.", "flow.flows.6."])
def test_a_voice_with_other_names_speaks_as_a_whole(tmp_path: Path, missing: str) -> None:
    path = small_voice(tmp_path, missing)
    with pytest.raises(CannotCut):
        cut(path)
    model = load(path, 1, feed(80, 0))
    assert isinstance(model, WholeModel)
    assert len(next(model.audio(feed(30, 1)))) == 120
