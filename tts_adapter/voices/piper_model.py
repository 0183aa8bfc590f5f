"""A Piper model from phonemes to sound: in windows where it can be cut, else sentence by sentence."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np

from tts_adapter.voices.onnx_sessions import onnx_session
from tts_adapter.voices.piper_graph import CutVoice, cut
from tts_adapter.voices.receptive_field import CannotCut
from tts_adapter.voices.windows import Floats, Network, look_ahead, stream, windows

Feed = Mapping[str, Any]
"""The model's inputs by name, as in `piper_feed`."""

FIRST_FRAMES = 24
"""Of 256 samples: 0.28 s at 22.05 kHz. Less silence and what a resampler keeps, some 0.15 s of it last until the next
window is computed."""
_GROWTH = 1.5
_LARGEST_FRAMES = 96
_FLOW_GROWTH = 2.0
_LARGEST_FLOW_FRAMES = 384
_SEAM = 1e-3
"""-60 dBFS: what windows may differ by from the whole. Rounding makes it differ by about -90."""


class PiperModel(Protocol):
    """A loaded model."""

    def audio(self, feed: Feed) -> Iterator[Floats]:
        """Sound of one sentence in pieces: float32 in [-1, 1], shape [n]."""


def load(path: str, threads: int, sample: Feed) -> PiperModel:
    """The model in a file, in windows where its sound stays the same; `sample` is a sentence to try that on."""
    try:
        model = CutModel(cut(path), threads)
    except (CannotCut, ImportError):
        return WholeModel(path, threads)
    return model if model.has_no_seams(sample) else WholeModel(path, threads)


class WholeModel:
    """Computes a sentence at once."""

    def __init__(self, path: str, threads: int) -> None:
        self._session = onnx_session(path, threads)

    def audio(self, feed: Feed) -> Iterator[Floats]:
        """As in `PiperModel`."""
        yield np.asarray(self._session.run(None, dict(feed))[0], np.float32).ravel()


class CutModel:
    """Computes durations and latents at once, and the sound window by window."""

    def __init__(self, voice: CutVoice, threads: int) -> None:
        self._text = onnx_session(voice.text, threads)
        self._outputs = voice.outputs
        self._parts = [(part, onnx_session(part.model, threads)) for part in voice.parts]

    def audio(self, feed: Feed) -> Iterator[Floats]:
        """As in `PiperModel`."""
        return self._windows(*self._latent(feed), FIRST_FRAMES, _GROWTH)

    def has_no_seams(self, feed: Feed) -> bool:
        """Whether a sentence sounds the same in windows as at once."""
        latent = self._latent(feed)
        whole = np.concatenate(list(self._windows(*latent, latent[0].shape[1], 1.0)))
        joined = np.concatenate(list(self._windows(*latent, FIRST_FRAMES, 1.0)))
        return whole.shape == joined.shape and bool(np.abs(whole - joined).max() < _SEAM)

    def _windows(self, frames: Floats, networks: list[Network], first: int, growth: float) -> Iterator[Floats]:
        """The flow reads as far ahead as the first window of the vocoder needs, and then in larger windows than that: it
        is cheap and its context long."""
        total, (flow, *vocoder) = frames.shape[1], networks
        sizes = windows(total, look_ahead(vocoder), first, growth, _LARGEST_FRAMES)
        flow_sizes = windows(total, flow.context, sizes[0], _FLOW_GROWTH, _LARGEST_FLOW_FRAMES)
        for piece in stream(stream([frames], [flow], flow_sizes), vocoder, sizes):
            yield piece.ravel()

    def _latent(self, feed: Feed) -> tuple[Floats, list[Network]]:
        """What the first part is fed, [channels, frames], and the parts for this sentence.

        What a part reads besides goes along whole, but for what comes per frame (a mask), which is cut as frames are.
        """
        values = dict(zip(self._outputs, self._text.run(list(self._outputs), dict(feed)), strict=True))
        latent, *besides = self._parts[0][0].inputs
        count = values[latent].shape[-1]
        # What has one frame is for the whole sentence, also where the sentence has no more.
        framed = [latent, *(name for name in besides if values[name].shape[-1] == count > 1)]
        fixed = {name: value for name, value in values.items() if name not in framed}
        splits = np.cumsum([values[name].shape[1] for name in framed])[:-1]
        frames = np.concatenate([values[name][0] for name in framed])
        networks: list[Network] = []
        for part, session in self._parts:
            names = framed if not networks else [part.inputs[0]]
            whole = {name: fixed[name] for name in part.inputs if name in fixed}
            run = partial(_run, session, names, splits if not networks else [], whole)
            networks.append(Network(run, part.hop, part.context))
        return frames, networks


def _run(session: Any, names: list[str], splits: Any, whole: Feed, frames: Floats) -> Floats:
    rows = np.split(frames[np.newaxis], splits, axis=1)
    output = session.run(None, dict(zip(names, rows, strict=True)) | dict(whole))[0]
    return np.asarray(output, np.float32).reshape(-1, output.shape[-1])
