"""Llama's layers by the compiled loops of `engine.native`, where weights, cache and step suit them.

A step goes through all layers in one call, attention included. Where the cache is of another kind, vLLM's operator attends
between the layers.

Loaded in the engine's process only.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from vllm.v1.attention.backend import AttentionType
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackendImpl

from engine.native.llama_layer import LayerWeights, LlamaLayers, Sizes, suits
from engine.native.paged_attention import Caches, Span, causal
from engine.native.panels import Panels
from engine.tree.pages import LAYOUT, probe


def loops_for(model: Any) -> "LlamaLoops | None":
    """The loops for vLLM's `LlamaModel`, if its weights are held in their layout."""
    rotary, norm = model.layers[0].self_attn.rotary_emb, model.norm
    weights = []
    for layer in model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        panels = [
            _panels(product) for product in (attention.qkv_proj, attention.o_proj, mlp.gate_up_proj, mlp.down_proj)
        ]
        qkv, output, gate_up, down = panels
        if qkv is None or output is None or gate_up is None or down is None:
            return None
        norms = layer.input_layernorm.weight.data, layer.post_attention_layernorm.weight.data
        weights.append(LayerWeights(qkv, output, gate_up, down, *norms))
    sizes = Sizes(attention.q_size, attention.kv_size, attention.head_dim, norm.variance_epsilon)
    one_kind = rotary.is_neox_style and all(layer.self_attn.rotary_emb is rotary for layer in model.layers)
    if not one_kind or not suits(weights, sizes, rotary.cos_sin_cache):
        return None
    layers = LlamaLayers(weights, sizes, norm.weight.data, rotary.cos_sin_cache)
    return LlamaLoops(layers, [layer.self_attn.attn for layer in model.layers])


class LlamaLoops:
    """Runs a model's layers.

    Args:
        layers: of the model.
        attentions: vLLM's attention layers, in order.
    """

    def __init__(self, layers: LlamaLayers, attentions: list[Any]) -> None:
        self._layers = layers
        self._attentions = attentions
        self._names = [attention.layer_name for attention in attentions]
        self._known: torch.Tensor | None = None
        self._caches: Caches | None = None
        self.attention_s = 0.0
        """Seconds that attention took in the last step that went through all layers in one call."""

    @property
    def caches(self) -> Caches | None:
        """vLLM's cache, once there is one and if it is of a kind that the loops read."""
        first = self._attentions[0].kv_cache
        if first is not self._known:
            self._known = first
            tensors = [attention.kv_cache for attention in self._attentions]
            readable = all(isinstance(cache, torch.Tensor) and cache.ndim == 4 for cache in tensors)
            impl = self._attentions[0].impl
            self._caches = None
            if (
                readable
                and Caches.suit(tensors, self._layers.kept)
                and all(map(_is_plain, self._attentions))
                and probe(first)
            ):
                self._caches = Caches(tensors, impl.num_heads, impl.scale, self._layers.kept)
        return self._caches

    def run(
        self,
        residual: torch.Tensor,
        positions: torch.Tensor,
        context: Any,
        attend: Callable[[int, torch.Tensor], torch.Tensor],
    ) -> torch.Tensor:
        """[rows, hidden] after the last norm.

        Args:
            residual: [rows, hidden]: the embeddings; overwritten.
            positions: [rows].
            context: vLLM's forward context.
            attend: as in `LlamaLayers.run`, for steps that are not for the loops.
        """
        metadata, slots = self._metadata(context)
        caches, spans = self.caches, None if metadata is None else spans_of(metadata, len(residual))
        if slots is None or caches is None or spans is None:
            return self._layers.run(residual, positions, attend)
        step = caches.step(spans, metadata.block_table)
        hidden, self.attention_s = self._layers.run_paged(residual, positions, slots, caches, step)
        return hidden

    def rehearse(self, rows: int, together: int, context: int) -> torch.Tensor | None:
        """[rows, hidden] of a step that nobody asked for, to see how long it takes; None where the loops do not attend.

        Overwrites the first pages of the cache.

        Args:
            rows: of the step.
            together: rows of a request, at most; each sees those before it.
            context: tokens that a request has in the cache already.
        """
        caches, first = self.caches, self._attentions[0].kv_cache
        if caches is None:
            return None
        pages = -(-(context + together) // first.shape[2])
        if pages > len(first):
            return None
        table = torch.arange(pages, dtype=torch.int32)[None]
        spans: list[Span] = []
        for begin in range(0, rows, together):
            end = min(rows, begin + together)
            spans += causal(0, begin, end, context + end - begin)
        positions = context + torch.arange(rows) % together
        step = caches.step(spans, table)
        return self._layers.run_paged(torch.ones(rows, self._layers.hidden), positions, positions, caches, step)[0]

    def _metadata(self, context: Any) -> tuple[Any, torch.Tensor | None]:
        """What all layers are told of the step, None where they are told nothing, or not the same."""
        names = self._names
        if not context.attn_metadata:
            return None, None
        told, slots = context.attn_metadata, context.slot_mapping
        same = all(told[name] is told[names[0]] and slots.get(name) is slots.get(names[0]) for name in names)
        return (told[names[0]], slots.get(names[0])) if same else (None, None)


def spans_of(metadata: Any, rows: int) -> list[Span] | None:
    """What the requests of a step attend to; None where it is not for the loops.

    Args:
        metadata: vLLM's; with an attribute `spans` where somebody has said so already, with `trees` where trees attend
            by other means.
        rows: of the step.
    """
    if (spans := getattr(metadata, "spans", None)) is not None:
        return spans  # type: ignore[no-any-return]
    if not metadata.causal or metadata.dynamic_causal is not None or hasattr(metadata, "trees"):
        return None
    return causal_spans(metadata, {}) if metadata.num_actual_tokens == rows else None


def causal_spans(metadata: Any, known: Mapping[int, Span]) -> list[Span]:
    """What the requests of a step attend to where each row sees all that is before it.

    Args:
        metadata: vLLM's.
        known: by row of the batch, what is known of requests that are otherwise.
    """
    starts, lengths = metadata.query_start_loc.tolist(), metadata.seq_lens.tolist()
    spans = []
    for row in range(len(starts) - 1):
        one = known.get(row)
        spans += [one] if one else causal(row, starts[row], starts[row + 1], lengths[row])
    return spans


def _is_plain(attention: Any) -> bool:
    """Whether nothing in an attention layer differs from what the loops do."""
    impl = attention.impl
    return (
        isinstance(impl, CPUAttentionBackendImpl)
        and attention.isa == LAYOUT
        and impl.attn_type == AttentionType.DECODER
        and impl.sliding_window == -1
        and not impl.logits_soft_cap
        and impl.alibi_slopes is None
        and impl.sinks is None
        and not impl.is_fp8_kv_cache
    )


def _panels(linear: Any) -> Panels | None:
    """The weights of one of vLLM's linear layers, if they are held in our own layout and are all there is to it."""
    held = getattr(linear, "kept_product", None)
    return None if held is None or linear.bias is not None else held.panels
