"""The target's states by the compiled loops of `engine.native`: several times as fast on a CPU as `transformers`, and the
very numbers that heads are given where the engine serves with the same loops, rounding included.

Only where Intel's OpenMP was preloaded when the process started (`engine.openmp`).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from engine.heads.replies import Reply
from engine.heads.states import shared_opening
from engine.native.library import Kept, library
from engine.native.llama_layer import LayerWeights, LlamaLayers, Sizes, suits
from engine.native.paged_attention import Caches, Span, causal
from engine.native.panels import BLOCK, Panels

_BLOCK_TOKENS = 32
_PASS_ROWS = 2048


class LoopTarget:
    """A Llama model of `transformers`, run by the loops.

    Args:
        model: for which `loop_target` gives one.
        layers: its layers.
        kept: how their matrices are kept.
    """

    def __init__(self, model: Any, layers: LlamaLayers, kept: Kept) -> None:
        self._embedding = model.get_input_embeddings().weight.detach()
        self._layers, self._kept, self._config = layers, kept, model.config

    def __call__(self, batch: Sequence[Reply]) -> Iterator[torch.Tensor]:
        """As `engine.heads.states.hidden_states`; what all prompts of a batch begin with is read once."""
        shared = shared_opening([reply.prompt_ids for reply in batch]) // _BLOCK_TOKENS
        own = [-(-(len(reply.prompt_ids) + len(reply.ids)) // _BLOCK_TOKENS) - shared for reply in batch]
        caches = self._caches(shared + sum(own))
        table = torch.zeros(len(batch), shared + max(own), dtype=torch.int32)
        table[:, :shared] = torch.arange(shared)
        first = shared
        for row, count in enumerate(own):
            table[row, shared : shared + count] = torch.arange(first, first + count)
            first += count
        begin = shared * _BLOCK_TOKENS
        if begin:
            self._run(caches, table, [(0, 0, batch[0].prompt_ids[:begin])])
        texts = [(row, begin, (reply.prompt_ids + reply.ids[:-1])[begin:]) for row, reply in enumerate(batch)]
        for some in _passes(texts):
            hidden = self._run(caches, table, some).split([len(tokens) for _, _, tokens in some])
            for (row, _, _), rows in zip(some, hidden, strict=True):
                yield rows[len(rows) - len(batch[row].ids) :]

    def _run(
        self, caches: Caches, table: torch.Tensor, texts: Sequence[tuple[int, int, Sequence[int]]]
    ) -> torch.Tensor:
        """[tokens of all texts, hidden]; a text: its row of the table, the position it begins at, and its tokens."""
        spans: list[Span] = []
        ids: list[int] = []
        slots, positions = [], []
        for row, begin, tokens in texts:
            spans += causal(row, len(ids), len(ids) + len(tokens), begin + len(tokens))
            places = torch.arange(begin, begin + len(tokens))
            slots.append(table[row, places // _BLOCK_TOKENS].long() * _BLOCK_TOKENS + places % _BLOCK_TOKENS)
            positions.append(places)
            ids += tokens
        residual = self._embedding[torch.tensor(ids)].contiguous()
        step = caches.step(spans, table)
        hidden, _ = self._layers.run_paged(residual, torch.cat(positions), torch.cat(slots), caches, step)
        return hidden

    def _caches(self, blocks: int) -> Caches:
        config = self._config
        shape = (blocks, config.num_key_value_heads, _BLOCK_TOKENS, 2 * config.head_dim)
        tensors = [torch.empty(shape) for _ in range(config.num_hidden_layers)]
        return Caches(tensors, config.num_attention_heads, config.head_dim**-0.5, self._kept)


def fewest_bits() -> Kept | None:
    """How matrices are best kept for the loops that there are here; None where there are none."""
    kinds: tuple[Kept, ...] = ("int8", "float16")
    return next((kind for kind in kinds if library(kind) is not None), None)


def loop_target(model: Any, kept: Kept) -> LoopTarget | None:
    """The loops for a model of `transformers` in float32; None where they are not for it.

    Args:
        model: a causal language model.
        kept: how its matrices are kept; there are loops for that.
    """
    config = model.config
    if config.model_type != "llama" or config.attention_bias or config.mlp_bias:
        return None
    if model.dtype != torch.float32 or any(size % BLOCK for size in (config.hidden_size, config.intermediate_size)):
        return None
    sizes = Sizes(
        config.num_attention_heads * config.head_dim,
        config.num_key_value_heads * config.head_dim,
        config.head_dim,
        config.rms_norm_eps,
    )
    angles = _angles(model.model.rotary_emb, config.max_position_embeddings)
    weights = [_layer(layer, kept) for layer in model.model.layers]
    if not suits(weights, sizes, angles):
        return None
    return LoopTarget(model, LlamaLayers(weights, sizes, model.model.norm.weight.detach(), angles), kept)


def _layer(layer: Any, kept: Kept) -> LayerWeights:
    attention, mlp = layer.self_attn, layer.mlp
    joined = torch.cat([product.weight.detach() for product in (attention.q_proj, attention.k_proj, attention.v_proj)])
    both = torch.cat([product.weight.detach() for product in (mlp.gate_proj, mlp.up_proj)])
    products = (joined, attention.o_proj.weight.detach(), both, mlp.down_proj.weight.detach())
    qkv, output, gate_up, down = (Panels(matrix, kept) for matrix in products)
    norms = (layer.input_layernorm.weight.detach(), layer.post_attention_layernorm.weight.detach())
    return LayerWeights(qkv, output, gate_up, down, *norms)


def _angles(rotary: Any, positions: int) -> torch.Tensor:
    """[positions, head] cosines, then sines; `transformers` gives both halves of a head its own."""
    cosines, sines = rotary(torch.zeros(1), torch.arange(positions)[None])
    half = cosines.shape[-1] // 2
    return torch.cat((cosines[0, :, :half], sines[0, :, :half]), -1).contiguous()


def _passes(texts: Sequence[tuple[int, int, Sequence[int]]]) -> Iterator[list[tuple[int, int, Sequence[int]]]]:
    """Texts of about `_PASS_ROWS` tokens at a time."""
    some: list[tuple[int, int, Sequence[int]]] = []
    for text in texts:
        some.append(text)
        if sum(len(tokens) for _, _, tokens in some) >= _PASS_ROWS:
            yield some
            some = []
    if some:
        yield some
