"""The engine as the rest of the service sees it.

One request in, one `TokenBurst` per engine step out. Nothing here knows vLLM, HTTP or a clock; every engine (the real
one and the scripted one) keeps this contract, and closing the iterator of `generate` aborts the request.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

FinishReason = Literal["stop", "length", "abort", "error"]


class EngineError(Exception):
    """Something went wrong in the engine; the message is one clear line."""


class EngineStartError(EngineError):
    """The engine cannot start: the model cannot be loaded, memory is short, an option does not fit."""


class EngineDead(EngineError):
    """The engine process has gone; requests cannot be served until it is back."""


class RequestRefused(EngineError):
    """This request cannot be served as asked.

    Args:
        parameter: the name of the parameter at fault.
        reason: what is wrong with it, one line.
    """

    def __init__(self, parameter: str, reason: str) -> None:
        super().__init__(f"{parameter}: {reason}")
        self.parameter = parameter
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen. `top_k` 0 means no limit; a temperature of 0 is greedy."""

    max_tokens: int = 256
    temperature: float = 0.7
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    repetition_penalty: float = 1.0


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """One reply to generate. `request_id` is unique among running requests."""

    request_id: str
    prompt_token_ids: tuple[int, ...]
    sampling: Sampling = Sampling()


@dataclass(frozen=True, slots=True)
class TokenBurst:
    """The tokens that one engine step yielded for one request.

    Attributes:
        token_ids: n ids, n >= 1 except for a last burst that only carries `finish_reason`.
        pieces: n strings, possibly empty; joined over all bursts they are exactly the engine's text.
        core_time_s: the engine core's own monotonic timestamp of the step (seconds), not our clock.
        drafted: tokens the drafter proposed for this step, None where unknown; 0 without speculation.
        finish_reason: set on the last burst alone.
        prompt_tokens: length of the prompt.
        cached_tokens: prompt tokens served from the prefix cache.
        draft_steps: on the last burst alone, where the engine reports it: (drafted, accepted) of every step that
            checked drafts, in order.
        queued_s: how long the request waited for its place in the batch (seconds), None where the engine does not say.
    """

    token_ids: tuple[int, ...]
    pieces: tuple[str, ...]
    core_time_s: float
    drafted: int | None = None
    finish_reason: FinishReason | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    draft_steps: tuple[tuple[int, int], ...] = ()
    queued_s: float | None = None

    @property
    def accepted(self) -> int:
        """Draft tokens the target model agreed with: all of the burst but the bonus token."""
        return max(0, len(self.token_ids) - 1)


class ChatTokenizer(Protocol):
    """Text to ids and back, and the model's own chat template."""

    @property
    def stop_token_ids(self) -> frozenset[int]:
        """Ids that end a reply; they carry no text and never enter the history."""

    def encode(self, text: str) -> list[int]:
        """Ids of `text` as it stands, no special token added."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of the ids, special tokens left out."""

    def render(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        """The chat template's text for `messages` (role, content) and the tools on offer.

        Raises:
            ValueError: the template refuses them.
        """


class Engine(Protocol):
    """A token generator: started once, used by many requests at a time, stopped once."""

    @property
    def model_name(self) -> str:
        """The name clients use for the model (the first one if there are several)."""

    @property
    def max_model_len(self) -> int:
        """Prompt and reply together may hold this many tokens."""

    @property
    def tokenizer(self) -> ChatTokenizer:
        """Valid once `start` has returned."""

    @property
    def running(self) -> int:
        """Requests in the engine now, waiting ones included."""

    @property
    def dead(self) -> bool:
        """True once the engine process has gone."""

    async def start(self) -> None:
        """Load the model and warm it up.

        Raises:
            EngineStartError: naming what is wrong.
        """

    def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenBurst, None]:
        """One burst per engine step; closing the iterator aborts the request.

        Raises:
            RequestRefused: before the first burst.
            EngineDead: at any time.
        """

    async def stop(self) -> None:
        """End every request and free what the engine holds. Safe to call twice."""
