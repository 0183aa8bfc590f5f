"""The engine client that vLLM's OpenAI handlers are given: `AsyncLLM` with a `generate` of our own.

It refuses at once what the engine would refuse too late or not survive, records when the engine stepped, hands a burst
out token by token, and paces where the request asks for it. Everything else is the engine's own.
"""

import itertools
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from engine.api import RequestRefused
from engine.chat_tokenizer import pieces_for
from engine.pieces import window_decoder
from engine.step_log import StepLog
from service.metrics import StreamMetrics
from service.openai_checks import Limits, check_sampling
from service.openai_exchange import Exchange, current_exchange, read
from service.openai_pacing import Group, paced
from service.openai_split import ChoiceText, TokenSplitter, WholeTokens
from tts_adapter.options import PacingOptions
from tts_adapter.pace_model import PaceModel
from tts_adapter.pacer import Pacer

_INPUT_OPTIONS = ("lora_request", "trace_headers", "priority", "data_parallel_rank", "session_id", "kv_hints")


class OpenAiEngineClient:
    """See the module.

    Args:
        llm: vLLM's `AsyncLLM`.
        step_log: filled by the engine as its messages are read.
        pacing: gaps and limits of paced streams.
        tasks: what `AsyncLLM.get_supported_tasks` gives.
        split_bursts: one streamed output per token instead of one per engine step.
    """

    def __init__(
        self, llm: Any, step_log: StepLog, pacing: PacingOptions, tasks: Sequence[str], *, split_bursts: bool
    ) -> None:
        self._llm = llm
        self._step_log = step_log
        self._pacing = pacing
        self._tasks = tasks
        self._pace_model = PaceModel(pacing.slo_ms / 1000)
        self._split_bursts = split_bursts
        self._numbers = itertools.count()
        self._limits = Limits(speculation=llm.vllm_config.speculative_config is not None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._llm, name)

    def generate(self, prompt: Any, sampling_params: Any, request_id: str, **options: Any) -> AsyncGenerator[Any, None]:
        """As `AsyncLLM.generate`, but a request that cannot be served raises here and not in mid-stream.

        Raises:
            VLLMValidationError: which the handlers turn into status 400, naming the parameter.
        """
        exchange = current_exchange()
        # Clients may choose ids, and choose one twice; ours are unique, and the step log goes by them.
        unique_id = f"{request_id}-{next(self._numbers)}"
        self._check(prompt, sampling_params, unique_id, options)
        source = self._llm.generate(prompt, sampling_params, unique_id, **options)
        return self._outputs(exchange, source, sampling_params, unique_id)

    def _check(self, prompt: Any, sampling_params: Any, request_id: str, options: Mapping[str, Any]) -> None:
        """What vLLM checks once its generator is iterated, when a stream has already answered 200; and our own."""
        from vllm.exceptions import VLLMValidationError

        try:
            check_sampling(sampling_params, self._limits)
        except RequestRefused as refused:
            raise VLLMValidationError(refused.reason, parameter=refused.parameter) from None
        known = {name: options[name] for name in _INPUT_OPTIONS if name in options}
        self._llm.input_processor.process_inputs(request_id, prompt, sampling_params, self._tasks, **known)

    async def _outputs(
        self, exchange: Exchange, source: AsyncGenerator[Any, None], sampling_params: Any, request_id: str
    ) -> AsyncGenerator[Any, None]:
        from vllm.sampling_params import RequestOutputKind

        queue = exchange.pump(source, StepRecorder(self._step_log, exchange.metrics, request_id))
        if sampling_params.output_kind is not RequestOutputKind.DELTA:
            async for output in read(queue):
                yield output
            return
        if exchange.paced_hold_ms is not None:
            splitter = self._splitter(sampling_params, by_token=True)
            async with aclosing(paced(queue, splitter, self._pacer(exchange.paced_hold_ms))) as outputs:
                async for output in outputs:
                    yield output
            return
        # A client that sets an interval asks for several tokens per chunk.
        by_token = self._split_bursts and (sampling_params.stream_interval or 1) == 1
        splitter = self._splitter(sampling_params, by_token=by_token)
        async for output in read(queue):
            for part in splitter.split(output):
                yield part

    def _pacer(self, max_first_hold_ms: float) -> Pacer[Group]:
        options = self._pacing.model_copy(update={"max_first_hold_ms": max_first_hold_ms})
        return Pacer(options, self._pace_model)

    def _splitter(self, sampling_params: Any, *, by_token: bool) -> TokenSplitter:
        tokenizer = self._llm.get_tokenizer()
        skip_special = sampling_params.skip_special_tokens
        holds_back = sampling_params.output_text_buffer_length > 0

        def new_text(prompt_token_ids: Sequence[int]) -> ChoiceText:
            pieces = pieces_for(tokenizer, prompt_token_ids, skip_special)
            if not holds_back:
                return ChoiceText(pieces)
            decoder = _Decoder(tokenizer, skip_special)
            return ChoiceText(pieces, WholeTokens(window_decoder(decoder, prompt_token_ids)))

        return TokenSplitter(new_text, by_token=by_token)


class StepRecorder:
    """Records the engine's steps of one request, whichever way its outputs were merged."""

    def __init__(self, step_log: StepLog, metrics: StreamMetrics, request_id: str) -> None:
        self._step_log = step_log
        self._metrics = metrics
        self._request_id = request_id
        self._last_core_time_s: dict[int, float] = {}

    def record(self, output: Any) -> None:
        """Record the steps that `output` (vLLM's `RequestOutput`) covers."""
        for choice in output.outputs:
            for step in self._step_log.take(self._request_id, len(choice.token_ids), choice.index):
                before_s = self._last_core_time_s.get(choice.index)
                gap_s = None if before_s is None else step.core_time_s - before_s
                self._metrics.step(gap_s, step.n_tokens)
                self._last_core_time_s[choice.index] = step.core_time_s

    def close(self) -> None:
        """The request has ended: forget the steps of tokens that never came, as after a stop string."""
        self._step_log.forget(self._request_id)


class _Decoder:
    def __init__(self, tokenizer: Any, skip_special_tokens: bool) -> None:
        self._tokenizer = tokenizer
        self._skip_special_tokens = skip_special_tokens

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of the ids."""
        return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=self._skip_special_tokens))
