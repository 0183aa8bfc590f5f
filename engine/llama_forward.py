"""Llama's layers as one straight run of operators, for small models on a CPU.

A decode step of a small model is thirty layers of operators that take some microseconds each; vLLM walks to them through
modules, custom operators and lookups by name, which takes as long again. Here everything that does not change between
steps is looked up once. What is computed is the same: the same products, the same attention, vLLM's own fused norms in
place of its chain of small ones. Where the weights are held in our own layout, compiled loops take over
(`engine.llama_loops`).

Loaded in the engine's process only.
"""

from collections.abc import Callable
from typing import Any

import torch
import vllm._custom_ops  # noqa: F401  registers torch.ops._C
from torch.nn.functional import silu
from vllm.forward_context import get_forward_context
from vllm.model_executor.layers.attention import Attention
from vllm.model_executor.layers.linear import UnquantizedLinearMethod
from vllm.model_executor.layers.rotary_embedding import RotaryEmbedding
from vllm.model_executor.models.llama import LlamaAttention, LlamaDecoderLayer, LlamaForCausalLM, LlamaMLP, LlamaModel

from engine.llama_loops import LlamaLoops, loops_for

Product = Callable[[torch.Tensor], torch.Tensor]


def install(model: Any) -> bool:
    """Replace the forward pass of a loaded model; False where it is not of the kind that this module runs.

    Args:
        model: vLLM's, on a CPU, whole on this device, not compiled.
    """
    if type(model) is not LlamaForCausalLM or type(model.model) is not LlamaModel or not model.model.do_not_compile:
        return False
    if model.model.aux_hidden_state_layers or not all(_plain(layer) for layer in model.model.layers):
        return False
    model.model.forward = LlamaForward(model.model)
    return True


def _plain(layer: Any) -> bool:
    """Whether nothing in a layer differs from what `_Layer` does."""
    if type(layer) is not LlamaDecoderLayer or type(layer.self_attn) is not LlamaAttention:
        return False
    attention, mlp = layer.self_attn, layer.mlp
    products = (attention.qkv_proj, attention.o_proj, mlp.gate_up_proj, mlp.down_proj)
    return (
        type(mlp) is LlamaMLP
        and all(product.tp_size == 1 and not product.skip_bias_add for product in products)
        and type(attention.rotary_emb).forward_cpu is RotaryEmbedding.forward_cpu
        and type(attention.attn) is Attention
        and attention.attn.query_quant is None
        and attention.attn.kv_sharing_target_layer_name is None
    )


class LlamaForward:
    """Takes the place of `LlamaModel.forward`.

    Args:
        model: whose layers are run.

    Attributes:
        loops: the compiled ones, where there are any for this model.
    """

    def __init__(self, model: LlamaModel) -> None:
        self._embed = model.embed_input_ids
        norms = [norm for layer in model.layers for norm in (layer.input_layernorm, layer.post_attention_layernorm)]
        self._first, *after = [(norm.weight.data, norm.variance_epsilon) for norm in [*norms, model.norm]]
        self._layers = [
            _Layer(layer, *own)
            for layer, own in zip(model.layers, zip(after[::2], after[1::2], strict=True), strict=True)
        ]
        self.loops: LlamaLoops | None = loops_for(model)

    def __call__(
        self,
        input_ids: torch.Tensor | None,
        positions: torch.Tensor,
        intermediate_tensors: Any = None,
        inputs_embeds: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """[tokens, hidden] after the final norm; [tokens] `input_ids` and `positions`, or embeddings instead of ids."""
        residual = self._embed(input_ids) if inputs_embeds is None else inputs_embeds.clone()
        context = get_forward_context()
        if self.loops is not None:
            layers = self._layers
            return self.loops.run(
                residual,
                positions,
                context,
                lambda index, qkv: layers[index].attend(*layers[index].split(qkv), context),
            )
        hidden = torch.empty_like(residual)
        _RMS_NORM(hidden, residual, *self._first)
        for layer in self._layers:
            hidden = layer.run(hidden, residual, positions, context)
        return hidden


class _Layer:
    """One decoder layer.

    Args:
        layer: vLLM's.
        after_attention: weight and epsilon of the norm between its two halves.
        after: of the norm that follows it.
    """

    def __init__(
        self, layer: LlamaDecoderLayer, after_attention: tuple[torch.Tensor, float], after: tuple[torch.Tensor, float]
    ) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self._qkv, self._o = _product(attention.qkv_proj), _product(attention.o_proj)
        self._gate_up, self._down = _product(mlp.gate_up_proj), _product(mlp.down_proj)
        self._after_attention, self._after = after_attention, after
        self._split = [attention.q_size, attention.kv_size, attention.kv_size]
        self._rotary = attention.rotary_emb
        self._attention = attention.attn
        self._heads = (-1, attention.num_heads, attention.head_dim)
        self._kv_heads = (-1, attention.num_kv_heads, attention.head_dim)

    def run(self, hidden: torch.Tensor, residual: torch.Tensor, positions: torch.Tensor, context: Any) -> torch.Tensor:
        """[tokens, hidden] normed input to the normed input of the next layer; `residual` is added to in place."""
        qkv = self._qkv(hidden)
        # Heads side by side in a row: among them vLLM's operator finds its way by strides of its own.
        query, key, _ = qkv.split(self._split, -1)
        rotary = self._rotary
        angles = rotary._match_cos_sin_cache_dtype(query)
        _ROTARY(positions, query, key, rotary.head_size, angles, rotary.is_neox_style)
        hidden = self._o(self.attend(*self.split(qkv), context))
        _ADD_NORM(hidden, residual, *self._after_attention)
        gate, up = self._gate_up(hidden).chunk(2, -1)
        hidden = self._down(silu(gate).mul_(up))
        _ADD_NORM(hidden, residual, *self._after)
        return hidden

    def split(self, qkv: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values, [tokens, heads, head size], in [tokens, all of them]."""
        query, key, value = qkv.split(self._split, -1)
        return query.view(self._heads), key.view(self._kv_heads), value.view(self._kv_heads)

    def attend(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, context: Any) -> torch.Tensor:
        """What the queries find among all keys so far, [tokens, heads · head size]; these keys and values are kept."""
        attention = self._attention
        output = torch.empty(query.shape, dtype=query.dtype)
        metadata, slots = context.attn_metadata, context.slot_mapping.get(attention.layer_name)
        if slots is not None:
            attention.impl.do_kv_cache_update(attention, key, value, attention.kv_cache, slots)
        own = None if metadata is None else metadata[attention.layer_name]
        attention.impl.forward(attention, query, key, value, attention.kv_cache, own, output=output)
        return output.view(len(output), -1)


def _product(linear: Any) -> Product:
    """[tokens, in] to [tokens, out] of one of vLLM's linear layers."""
    bias = linear.bias
    if isinstance(linear.quant_method, UnquantizedLinearMethod):
        multiply, weight = linear.cpu_linear, linear.weight
        return lambda x: multiply(x, weight, bias)
    return lambda x: linear.quant_method.apply(linear, x, bias)


_RMS_NORM = torch.ops._C.rms_norm.default
_ADD_NORM = torch.ops._C.fused_add_rms_norm.default
_ROTARY = torch.ops._C.rotary_embedding.default
