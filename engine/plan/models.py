"""Decoder models as the roofline sees them: the sizes in a config.json, and the bytes and FLOPs that follow.

Dense decoders with a gated feed-forward block and grouped-query attention. Anything else is refused, since its step
reads another share of its weights than is counted here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.plan.errors import PlanError

# Bytes per weight of a linear layer. int4 counts a 16-bit scale for every 128 weights.
WEIGHT_BYTES: Mapping[str, float] = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5 + 2 / 128}
KV_BYTES: Mapping[str, float] = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0}
# Embedding, vocabulary matrix and norms stay in 16 bits: quantised checkpoints leave lm_head out.
_UNQUANTISED_BYTES = 2.0
# Families whose layers are as counted here, with whether q, k and v carry a bias and q and k a norm per head.
_FAMILIES: Mapping[str, tuple[bool, bool]] = {
    "llama": (False, False),
    "mistral": (False, False),
    "qwen2": (True, False),
    "qwen3": (False, True),
}


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of a dense decoder; the names are those of config.json, shortened.

    Attributes:
        tied: embedding and vocabulary matrix are one tensor.
        max_context: `max_position_embeddings`.
        source: where the sizes come from.
    """

    name: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool
    max_context: int
    qkv_bias: bool = False
    qk_norm: bool = False
    source: str = "given by the user"

    def __post_init__(self) -> None:
        for field in ("layers", "hidden", "intermediate", "heads", "kv_heads", "head_dim", "vocabulary", "max_context"):
            if getattr(self, field) < 1:
                raise PlanError("model", f"{field} must be at least 1, got {getattr(self, field)}")
        if self.heads % self.kv_heads:
            raise PlanError("model", f"{self.heads} attention heads cannot share {self.kv_heads} key-value heads")

    @property
    def linear_weights(self) -> int:
        """Weights of all layers' matrices: read once per step, quantised if anything is."""
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def vocabulary_weights(self) -> int:
        """Weights of the vocabulary matrix (lm_head), and of the embedding."""
        return self.vocabulary * self.hidden

    @property
    def parameters(self) -> int:
        """All weights, as the checkpoint counts them."""
        return self.linear_weights + self.vocabulary_weights * (1 if self.tied else 2) + self._small_weights

    @property
    def _small_weights(self) -> int:
        bias = self.head_dim * (self.heads + 2 * self.kv_heads) if self.qkv_bias else 0
        norms = 2 * self.hidden + (2 * self.head_dim if self.qk_norm else 0)
        return self.layers * (bias + norms) + self.hidden

    def read_bytes(self, weights: str) -> float:
        """Bytes of weights one step reads: the embedding is only looked up, the vocabulary matrix is read whole."""
        unquantised = (self.vocabulary_weights + self._small_weights) * _UNQUANTISED_BYTES
        return self.linear_weights * weight_bytes(weights) + unquantised

    def resident_bytes(self, weights: str) -> float:
        """Bytes of weights held in memory."""
        embedding = 0 if self.tied else self.vocabulary_weights * _UNQUANTISED_BYTES
        return self.read_bytes(weights) + embedding

    def kv_bytes_per_token(self, kv: str) -> float:
        """Bytes of keys and values of one token, over all layers."""
        if kv not in KV_BYTES:
            raise PlanError("kv", f"{kv!r} is not one of {', '.join(KV_BYTES)}")
        return 2 * self.layers * self.kv_heads * self.head_dim * KV_BYTES[kv]

    def attention_flops(self, context_tokens: float) -> float:
        """FLOPs of one row's scores and weighted sum over its context."""
        return 4.0 * self.layers * self.heads * self.head_dim * context_tokens


def weight_bytes(weights: str) -> float:
    """Bytes per weight of a linear layer.

    Raises:
        PlanError: an unknown precision.
    """
    if weights not in WEIGHT_BYTES:
        raise PlanError("weights", f"{weights!r} is not one of {', '.join(WEIGHT_BYTES)}")
    return WEIGHT_BYTES[weights]


def shape_from_config(config: Mapping[str, object], name: str) -> ModelShape:
    """The shape that a transformers config.json describes.

    Raises:
        PlanError: a key is missing or malformed, or the architecture is not one this arithmetic covers.
    """
    family = config.get("model_type")
    if any(key in config for key in ("num_local_experts", "num_experts", "n_routed_experts")):
        raise PlanError(
            "model", f"{name}: mixtures of experts are not covered; a step reads only some of their weights"
        )
    if not isinstance(family, str) or family not in _FAMILIES:
        raise PlanError("model", f"{name}: model_type {family!r} is not one of {', '.join(_FAMILIES)}")
    hidden, heads = _integer(config, "hidden_size"), _integer(config, "num_attention_heads")
    bias, norm = _FAMILIES[family]
    return ModelShape(
        name=name,
        layers=_integer(config, "num_hidden_layers"),
        hidden=hidden,
        intermediate=_integer(config, "intermediate_size"),
        heads=heads,
        kv_heads=_integer(config, "num_key_value_heads", heads),
        head_dim=_integer(config, "head_dim", hidden // heads),
        vocabulary=_integer(config, "vocab_size"),
        tied=config.get("tie_word_embeddings") is True,
        max_context=_integer(config, "max_position_embeddings"),
        qkv_bias=bias,
        qk_norm=norm,
        source="config.json",
    )


def _integer(config: Mapping[str, object], key: str, default: int | None = None) -> int:
    value = config.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise PlanError("model", f"config.json: {key} must be a positive integer, got {value!r}")
    return value


def _llama(
    name: str, sizes: tuple[int, int, int, int, int, int], vocabulary: int, context: int, repo: str
) -> ModelShape:
    layers, hidden, intermediate, heads, kv_heads, head_dim = sizes
    source = f"config.json of {repo}"
    return ModelShape(
        name, layers, hidden, intermediate, heads, kv_heads, head_dim, vocabulary, False, context, source=source
    )


def _known_models() -> dict[str, ModelShape]:
    """Sizes: layers, hidden, intermediate, attention heads, key-value heads, head size."""
    llama_8b = _llama("llama-3-8b", (32, 4096, 14336, 32, 8, 128), 128256, 8192, "meta-llama/Meta-Llama-3-8B-Instruct")
    llama_70b = _llama(
        "llama-3-70b", (80, 8192, 28672, 64, 8, 128), 128256, 8192, "meta-llama/Meta-Llama-3-70B-Instruct"
    )
    qwen = replace(
        _llama("qwen2.5-7b", (28, 3584, 18944, 28, 4, 128), 152064, 32768, "Qwen/Qwen2.5-7B-Instruct"), qkv_bias=True
    )
    rows = [
        llama_8b,
        replace(llama_8b, name="llama-3.1-8b", max_context=131072, source="config.json of meta-llama/Llama-3.1-8B"),
        llama_70b,
        replace(llama_70b, name="llama-3.3-70b", max_context=131072, source="config.json of meta-llama/Llama-3.3-70B"),
        _tied(_llama("llama-3.2-1b", (16, 2048, 8192, 32, 8, 64), 128256, 131072, "meta-llama/Llama-3.2-1B-Instruct")),
        _tied(_llama("llama-3.2-3b", (28, 3072, 8192, 24, 8, 128), 128256, 131072, "meta-llama/Llama-3.2-3B-Instruct")),
        _llama("mistral-7b", (32, 4096, 14336, 32, 8, 128), 32000, 32768, "mistralai/Mistral-7B-Instruct-v0.2"),
        qwen,
        replace(
            _llama("qwen2.5-14b", (48, 5120, 13824, 40, 8, 128), 152064, 32768, "Qwen/Qwen2.5-14B-Instruct"),
            qkv_bias=True,
        ),
        replace(_llama("qwen3-8b", (36, 4096, 12288, 32, 8, 128), 151936, 40960, "Qwen/Qwen3-8B"), qk_norm=True),
        _tied(_llama("smollm2-135m", (30, 576, 1536, 9, 3, 64), 49152, 8192, "HuggingFaceTB/SmolLM2-135M-Instruct")),
        _tied(_llama("smollm2-360m", (32, 960, 2560, 15, 5, 64), 49152, 8192, "HuggingFaceTB/SmolLM2-360M-Instruct")),
    ]
    return {row.name: row for row in rows}


def _tied(shape: ModelShape) -> ModelShape:
    return replace(shape, tied=True)


MODELS: Mapping[str, ModelShape] = _known_models()


def find_model(name: str) -> ModelShape:
    """A well-known model by its short name; case, an owner's prefix, `meta-` and `-instruct` do not matter.

    Raises:
        PlanError: no such model; the message lists those there are.
    """
    short = name.strip().lower().rpartition("/")[2].removeprefix("meta-")
    for suffix in ("-instruct", "-v0.2", "-instruct-v0.2"):
        if short.removesuffix(suffix) in MODELS:
            return MODELS[short.removesuffix(suffix)]
    raise PlanError("model", f"{name!r} is neither a config.json nor one of {', '.join(MODELS)}")
