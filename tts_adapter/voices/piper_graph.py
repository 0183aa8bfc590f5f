"""Cuts a Piper model into what is run once per sentence and what can run window by window.

A Piper voice is VITS (Kim et al. 2021, arXiv:2106.06103): a text encoder and a predictor of durations give a latent per
256 samples; a flow and a HiFi-GAN decoder, nearly all of the work and convolutional throughout, make sound of it. The
parts are found by the names of weights, which every export keeps, and by structure. The decoder is cut once more before
each stage of upsampling: the context that its first stage needs is long in time and cheap, that of the last ones short.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tts_adapter.voices.receptive_field import CannotCut, hop_and_context

_VOCODER_INPUT = "dec.conv_pre.weight"
_FLOW_INPUT = re.compile(r"flow\.flows\.(\d+)\.pre\.weight")


@dataclass(frozen=True, slots=True)
class Part:
    """One of the models that a voice was cut into.

    Attributes:
        model: ONNX, serialised.
        inputs: names of what it reads: of the part before it first.
        output: name of what it gives.
        hop: output frames per input frame.
        context: input frames on either side that an output frame depends on.
    """

    model: bytes
    inputs: tuple[str, ...]
    output: str
    hop: int
    context: int


@dataclass(frozen=True, slots=True)
class CutVoice:
    """A whole voice in parts.

    Attributes:
        text: ONNX, serialised: from phonemes to `outputs`.
        outputs: names: the latent first, then what later parts read besides (a mask, an embedding of the speaker).
        parts: from the latent to sound, each after the other.
    """

    text: bytes
    outputs: tuple[str, ...]
    parts: tuple[Part, ...]


def cut(path: str) -> CutVoice:
    """The parts of the voice in a file.

    Raises:
        CannotCut: it is not a VITS model as Piper exports it.
    """
    import onnx

    graph = _Graph(onnx.load(path))
    vocoder, flow = graph.vocoder_input(), graph.flow_input()
    stages = graph.upsampling(vocoder)
    starts = [flow, vocoder, *stages[1:]]
    ends = [*starts[1:], graph.output]
    parts = [graph.part(start, end) for start, end in zip(starts, ends, strict=True)]
    sides = dict.fromkeys(name for part in parts for name in part.inputs[1:])
    graph.refuse_dependent(sides, flow)
    outputs = (flow, *sides)
    return CutVoice(graph.model(graph.needed(outputs, set())[0], graph.inputs, outputs), outputs, tuple(parts))


class _Graph:
    def __init__(self, model: Any) -> None:
        from onnx import numpy_helper

        self._model = model
        self._nodes = list(model.graph.node)
        if any(attribute.HasField("g") or attribute.graphs for node in self._nodes for attribute in node.attribute):
            raise CannotCut("graphs within the graph")
        self._weights = {weight.name: weight for weight in model.graph.initializer}
        self._producers = {name: node for node in self._nodes for name in node.output}
        self.inputs = tuple(value.name for value in model.graph.input if value.name not in self._weights)
        self.output = model.graph.output[0].name
        small = (weight for weight in model.graph.initializer if weight.data_type == 7 and len(weight.dims) <= 1)
        self._integers = {weight.name: numpy_helper.to_array(weight) for weight in small}
        self._integers |= {
            node.output[0]: numpy_helper.to_array(node.attribute[0].t)
            for node in self._nodes
            if node.op_type == "Constant" and node.attribute[0].name == "value"
        }

    def vocoder_input(self) -> str:
        """What the decoder's first convolution reads."""
        return self._reader(_VOCODER_INPUT)

    def flow_input(self) -> str:
        """What the flow reads: in speech it runs backwards, so its last coupling, which sees a half, comes first."""
        numbers = [int(found[1]) for name in self._weights if (found := _FLOW_INPUT.fullmatch(name))]
        if not numbers:
            raise CannotCut("no flow")
        name = self._reader(f"flow.flows.{max(numbers)}.pre.weight")
        while name in self._producers and self._producers[name].op_type in {"Split", "Slice", "Identity"}:
            name = str(self._producers[name].input[0])
        return name

    def upsampling(self, vocoder: str) -> list[str]:
        """What the transposed convolutions behind the decoder's input read, in order."""
        behind = self._dependent({vocoder})
        names = [
            str(node.input[0]) for node in self._nodes if node.op_type == "ConvTranspose" and node.input[0] in behind
        ]
        if not names:
            raise CannotCut("no upsampling")
        return names

    def part(self, start: str, end: str) -> Part:
        """From one tensor to another."""
        nodes, sides = self.needed((end,), {start})
        hop, context = hop_and_context(nodes, start, end, self._integers)
        inputs = (start, *sides)
        return Part(self.model(nodes, inputs, (end,)), inputs, end, hop, context)

    def refuse_dependent(self, names: Iterable[str], start: str) -> None:
        """What a part reads besides must come from the text alone."""
        behind = self._dependent({start})
        for name in names:
            if name in behind:
                raise CannotCut("a path around a cut")

    def needed(self, ends: Iterable[str], starts: set[str]) -> tuple[list[Any], list[str]]:
        """The nodes that make `ends` of `starts`, and what they read of the rest of the graph.

        Without `starts`: all nodes, back to the model's inputs.
        """
        behind = self._dependent(starts or set(self.inputs))
        varying = self._dependent(set(self.inputs)) | set(self.inputs)
        wanted, names, sides = set(), list(ends), []
        seen = set(starts)
        while names:
            name = names.pop()
            if name in seen or name in self._weights or not name:
                continue
            seen.add(name)
            if starts and name not in behind and name in varying:
                sides.append(name)
            elif name in self._producers:
                wanted.add(id(self._producers[name]))
                names += self._producers[name].input
        return [node for node in self._nodes if id(node) in wanted], sides

    def model(self, nodes: list[Any], inputs: Iterable[str], outputs: Iterable[str]) -> bytes:
        """The nodes as a model of their own. Types are those of the whole model's inputs; of tensors within: float."""
        from onnx import TensorProto, helper

        known = {value.name: value for value in self._model.graph.input}
        read = {name for node in nodes for name in node.input}
        graph = helper.make_graph(
            nodes,
            "part",
            [known.get(name) or helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in inputs],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            [weight for name, weight in self._weights.items() if name in read],
        )
        model = helper.make_model(graph, opset_imports=self._model.opset_import, ir_version=self._model.ir_version)
        return bytes(model.SerializeToString())

    def _reader(self, weight: str) -> str:
        for node in self._nodes:
            if node.op_type == "Conv" and weight in node.input:
                return str(node.input[0])
        raise CannotCut(f"no {weight}")

    def _dependent(self, starts: set[str]) -> set[str]:
        """Every tensor that is made of one of `starts`. Nodes stand in topological order."""
        found = set(starts)
        for node in self._nodes:
            if not found.isdisjoint(node.input):
                found.update(node.output)
        return found - starts
