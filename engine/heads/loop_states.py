"""The target's states by the compiled loops of `engine.native`: several times as fast on a CPU as `transformers`, and the
very numbers that heads are given where the engine keeps its weights in the same way, rounding included.

Only where Intel's OpenMP was preloaded when the process started (`engine.openmp`).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from engine.heads.replies import Reply
from engine.heads.states import Source, shared_opening
from engine.native.library import Kept, library
from engine.native.llama_layer import LayerWeights, LlamaLayers, Sizes, suits
from engine.native.paged_attention import Caches, Span, causal
from engine.native.panels import BLOCK, Panels

_BLOCK_TOKENS = 32
_PASS_ROWS = 2048
# Kinds of rotary embedding whose angles do not depend on how long a text is.
_ROPES = ("default", "linear", "llama3", "yarn")


class _LoopTarget:
    """A Llama model of `transformers`, run by the loops; gives states as `engine.heads.states.Source.run`.

    Args:
        model: the model.
        layers: its layers.
    """

    def __init__(self, model: Any, layers: LlamaLayers) -> None:
        self._embedding = model.get_input_embeddings().weight.detach()
        self._layers, self._config = layers, model.config

    def __call__(self, batch: Sequence[Reply]) -> Iterator[torch.Tensor]:
        """What all prompts of a batch begin with is read once."""
        shared = shared_opening([reply.prompt_ids for reply in batch]) // _BLOCK_TOKENS
        begin = shared * _BLOCK_TOKENS
        texts = [(reply.prompt_ids + reply.ids[:-1])[begin:] for reply in batch]
        passes = list(_passes(texts))
        caches = self._caches(shared + max(sum(map(_pages, some)) for some in passes))
        if begin:
            self._run(caches, torch.arange(shared, dtype=torch.int32)[None], 0, [batch[0].prompt_ids[:begin]])
        replies = iter(batch)
        for some in passes:
            hidden = self._run(caches, _table(shared, some), begin, some)
            for rows in hidden.split([len(text) for text in some]):
                yield rows[len(rows) - len(next(replies).ids) :]

    def _run(self, caches: Caches, table: torch.Tensor, begin: int, texts: Sequence[Sequence[int]]) -> torch.Tensor:
        """[tokens of all texts, hidden]; the texts begin at position `begin`, and each has a row of the table."""
        spans: list[Span] = []
        ids: list[int] = []
        slots, positions = [], []
        for row, text in enumerate(texts):
            spans += causal(row, len(ids), len(ids) + len(text), begin + len(text))
            places = torch.arange(begin, begin + len(text))
            slots.append(table[row, places // _BLOCK_TOKENS].long() * _BLOCK_TOKENS + places % _BLOCK_TOKENS)
            positions.append(places)
            ids += text
        residual = self._embedding[torch.tensor(ids)].contiguous()
        step = caches.step(spans, table)
        hidden, _ = self._layers.run_paged(residual, torch.cat(positions), torch.cat(slots), caches, step)
        return hidden

    def _caches(self, pages: int) -> Caches:
        config = self._config
        shape = (pages, config.num_key_value_heads, _BLOCK_TOKENS, 2 * config.head_dim)
        tensors = [torch.empty(shape) for _ in range(config.num_hidden_layers)]
        return Caches(tensors, config.num_attention_heads, config.head_dim**-0.5, self._layers.kept)


def loop_source(model: Any, kept: Kept, longest: int) -> Source | None:
    """The loops as what computes the states of a model of `transformers` in float32; None where they are not for it.

    Args:
        model: a causal language model.
        kept: how its matrices are kept.
        longest: tokens of a text, prompt and reply together.
    """
    config = model.config
    if library(kept) is None or not _is_plain(model):
        return None
    heads, head = (config.num_attention_heads, config.num_key_value_heads), config.head_dim
    sizes = Sizes(heads[0] * head, heads[1] * head, head, config.rms_norm_eps)
    if any(size % BLOCK for size in (config.hidden_size, config.intermediate_size, sizes.queries)):
        return None
    if not Caches.suit([torch.empty(0, heads[1], _BLOCK_TOKENS, 2 * head)], kept):
        return None
    angles = _angles(model.model.rotary_emb, longest)
    weights = [_layer(layer, kept) for layer in model.model.layers]
    if not suits(weights, sizes, angles):
        return None
    layers = LlamaLayers(weights, sizes, model.model.norm.weight.detach(), angles)
    return Source(_LoopTarget(model, layers), config.hidden_size, f"loops, {kept}")


def _is_plain(model: Any) -> bool:
    """Whether a model is a Llama whose every part the loops do."""
    config = model.config
    if config.model_type != "llama" or config.hidden_act != "silu" or model.model.rotary_emb.rope_type not in _ROPES:
        return False
    products = [module for layer in model.model.layers for module in layer.modules() if hasattr(module, "in_features")]
    return len(products) == 7 * config.num_hidden_layers and all(
        type(product) is torch.nn.Linear and product.bias is None and product.weight.dtype == torch.float32
        for product in products
    )


def _pages(text: Sequence[int]) -> int:
    return -(-len(text) // _BLOCK_TOKENS)


def _table(shared: int, texts: Sequence[Sequence[int]]) -> torch.Tensor:
    """[texts, most pages] int32: the first `shared` pages, then each text's own."""
    table = torch.zeros(len(texts), shared + max(map(_pages, texts)), dtype=torch.int32)
    table[:, :shared] = torch.arange(shared)
    first = shared
    for row, text in enumerate(texts):
        table[row, shared : shared + _pages(text)] = torch.arange(first, first + _pages(text))
        first += _pages(text)
    return table


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


def _passes(texts: Sequence[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
    """Texts of about `_PASS_ROWS` tokens at a time."""
    some: list[tuple[int, ...]] = []
    for text in texts:
        some.append(text)
        if sum(map(len, some)) >= _PASS_ROWS:
            yield some
            some = []
    if some:
        yield some
