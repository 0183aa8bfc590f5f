"""`engine.api.Engine` over vLLM's `AsyncLLM`, which runs in processes of its own.

vLLM may merge the outputs of several steps when their reader lags; the step log, filled when the core's message is
read, takes them apart again. So a burst is one step of the core with the core's own timestamp, however busy this
process is.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

from engine import warmup
from engine.api import EngineDead, EngineError, GenerateRequest, RequestRefused, Sampling, TokenBurst
from engine.chat_tokenizer import HfChatTokenizer, pieces_for
from engine.launch import Launcher
from engine.options import EngineOptions
from engine.refusals import check
from engine.reply import Reply
from engine.step_log import StepLog
from engine.step_tap import tap
from engine.tree.fallback import Fallback
from engine.tree.tally import Tally

_LAST_BREATH_S = 5.0


class VllmEngine:
    """Implements `engine.api.Engine`. `start` may be called again after the engine has died.

    Args:
        options: the settings.
        cache_dir: where the embedded model is kept.
        progress: takes a line for every long step of `start`.

    Attributes:
        step_log: every step of every request, also of those that others send through `client`. Whoever sends one takes
            its steps and forgets it.
    """

    def __init__(
        self, options: EngineOptions, cache_dir: Path, progress: Callable[[str], None] = lambda line: None
    ) -> None:
        self._options = options
        self._launcher = Launcher(options, cache_dir, progress)
        self._client: Any = None
        self._tokenizer: HfChatTokenizer | None = None
        self._gone = False
        self._tally: Tally | None = None
        self.step_log = StepLog()

    @property
    def client(self) -> Any:
        """The `AsyncLLM`.

        Raises:
            EngineDead: before `start`, after `stop`.
        """
        if self._client is None:
            raise EngineDead("the engine is not running")
        return self._client

    @property
    def model_name(self) -> str:
        """The first of the names clients may use."""
        return self._options.names[0]

    @property
    def max_model_len(self) -> int:
        """Prompt and reply together, tokens; the model's own limit where the settings have none."""
        return cast(int, self.client.model_config.max_model_len)

    @property
    def tokenizer(self) -> HfChatTokenizer:
        """Valid once `start` has returned."""
        if self._tokenizer is None:
            raise EngineDead("the engine has not been started")
        return self._tokenizer

    @property
    def running(self) -> int:
        """Requests in the engine now, those of `client`'s other users included."""
        return 0 if self._client is None else cast(int, self._client.get_num_unfinished_requests())

    @property
    def dead(self) -> bool:
        """True once the core process has gone: it died, it was stopped, or it did not start."""
        return self._gone or (self._client is not None and bool(self._client.errored))

    async def start(self) -> None:
        """Load the model and warm it up; after a death, clean up and start afresh. Not `dead` meanwhile.

        Raises:
            EngineStartError: one line that says what is wrong.
        """
        await self._shut_down()
        self._gone = False
        try:
            self._client = client = await self._launcher.launch()
            self.step_log = StepLog()
            self._tally = None
            if self._launcher.in_use.speculation == "medusa_tree":
                self._tally = Tally(self._launcher.tally_path)
            tap(client.output_processor, self.step_log)
            self._tokenizer = HfChatTokenizer(client.get_tokenizer(), _stop_token_ids(client))
            await warmup.run(self)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End every request and the core process."""
        self._gone = True
        await self._shut_down()

    async def _shut_down(self) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        from vllm.v1.engine.exceptions import EngineDeadError

        # vLLM cancels the task that would tell them.
        client.output_processor.propagate_error(EngineDeadError())
        # It would take the end of the core for a failure, and say so with a traceback.
        if client.output_handler is not None:
            client.output_handler.cancel()
        processes = _core_processes(client)
        await asyncio.to_thread(client.shutdown, timeout=0)
        # Requests that were on their way in meanwhile.
        client.output_processor.propagate_error(EngineDeadError())
        await asyncio.to_thread(_reap, processes)
        # Its `__del__` shuts down once more, and at the interpreter's exit that only prints a traceback.
        client.shutdown = _nothing

    @property
    def fallback(self) -> Fallback | None:
        """What runs instead of trees and why; None where what was asked for runs."""
        return self._launcher.fallback

    def tree_tally(self) -> dict[str, float] | None:
        """What trees have given since the start (`engine.tree.tally`); None without them."""
        return None if self._tally is None else self._tally.read()

    @property
    def heads_acceptance_length(self) -> float | None:
        """Tokens per step stored with the heads in use; None without heads that keep it."""
        if self._options.speculation not in ("medusa", "medusa_tree"):
            return None
        from engine.tree.expectation import expected_acceptance_length

        return expected_acceptance_length(self._launcher.in_use)

    def core_pids(self) -> tuple[int, ...]:
        """Process ids of the engine core, for health checks and tests."""
        return tuple(process.pid for process in _core_processes(self.client))

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[TokenBurst, None]:
        """One burst per step of the core; closing the iterator aborts the request."""
        client = self.client
        params = self._sampling_params(request)
        reply = Reply(
            request.request_id,
            self.step_log,
            pieces_for(client.get_tokenizer(), request.prompt_token_ids),
            prompt_tokens=len(request.prompt_token_ids),
            speculating=self._launcher.in_use.speculation != "none",
        )
        prompt = {"prompt_token_ids": list(request.prompt_token_ids)}
        try:
            async with aclosing(client.generate(prompt, params, request.request_id)) as outputs:
                async for output in outputs:
                    for burst in reply.bursts(output):
                        yield burst
        except Exception as error:
            raise self._translated(error) from error
        finally:
            self.step_log.forget(request.request_id)

    def _sampling_params(self, request: GenerateRequest) -> Any:
        """vLLM's parameters, refused here where vLLM would fail later or less clearly."""
        from vllm import SamplingParams
        from vllm.exceptions import VLLMClientError
        from vllm.sampling_params import RequestOutputKind

        check(request, self.max_model_len, self.client.model_config.get_vocab_size())
        room = self.max_model_len - len(request.prompt_token_ids)
        sampling: Sampling = request.sampling
        try:
            return SamplingParams(
                max_tokens=min(sampling.max_tokens, room),
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                top_k=sampling.top_k,
                seed=sampling.seed,
                stop=list(sampling.stop),
                repetition_penalty=sampling.repetition_penalty,
                output_kind=RequestOutputKind.DELTA,
            )
        except (ValueError, VLLMClientError) as error:
            raise _refusal(error) from error

    def _translated(self, error: Exception) -> Exception:
        """vLLM's exception as one of ours."""
        from vllm.exceptions import VLLMClientError
        from vllm.v1.engine.exceptions import EngineDeadError

        if isinstance(error, EngineError):
            return error
        if isinstance(error, EngineDeadError) or self.dead:
            return EngineDead(self._launcher.fault.read() or "the engine process has gone")
        if isinstance(error, VLLMClientError | ValueError):
            return _refusal(error)
        cause = error.__cause__
        if isinstance(cause, ValueError):
            return _refusal(cause)
        return EngineError(f"the engine failed on a request: {type(cause or error).__name__}")


def _core_processes(client: Any) -> list[Any]:
    manager = client.engine_core.resources.engine_manager
    return [] if manager is None else list(manager.processes)


def _reap(processes: list[Any]) -> None:
    """Wait for processes that were told to end, so that none is left behind, not even as a zombie."""
    for process in processes:
        process.join(_LAST_BREATH_S)
        if process.is_alive():
            process.kill()
            process.join()


def _nothing(timeout: float | None = None) -> None:
    """In place of the shutdown of a client that has been shut down."""


def _refusal(error: Exception) -> RequestRefused:
    """Only the message: vLLM's text form of the error also holds the rejected value, which may be what was said."""
    parameter = getattr(error, "parameter", None) or "request"
    return RequestRefused(parameter, str(error.args[0]).splitlines()[0] if error.args else type(error).__name__)


def _stop_token_ids(client: Any) -> frozenset[int]:
    """What vLLM itself stops at: the end of sequence of the tokenizer and of the generation settings."""
    configured = (client.model_config.try_get_generation_config() or {}).get("eos_token_id")
    ids = [configured] if isinstance(configured, int) else list(configured or ())
    if (own := getattr(client.get_tokenizer(), "eos_token_id", None)) is not None:
        ids.append(own)
    return frozenset(ids)
