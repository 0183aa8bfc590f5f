"""vLLM's rejection sampler replaced by the walk through trees.

Where all is greedy and nothing bends the logits, the best token after every row is taken at once and the walk compares
integers. Else vLLM's own sampler is asked level by level, with each request's penalties, limits and random generator as
they would be at this token without drafts: one row of logits per request that still walks, or per request of the batch
where something bends them. A seeded request draws once per token it emits, so its reply is the same with and without
drafts.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from vllm.v1.outputs import LogprobsTensors, SamplerOutput
from vllm.v1.sample.logits_processor.builtin import MinTokensLogitsProcessor
from vllm.v1.sample.rejection_sampler import PLACEHOLDER_TOKEN_ID, RejectionSampler

from engine.tree.step import Step
from engine.tree.walk import child_with, greedy_path


class TreeSampler(RejectionSampler):  # type: ignore[misc]
    """Attributes:
    step: what is being verified; set by the runner before each call, None in a warm-up.
    paths: for every tree of the last call, by row of the batch, the rows of the nodes accepted.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.step: Step | None = None
        self.paths: dict[int, list[int]] = {}

    def forward(
        self, metadata: Any, draft_probs: torch.Tensor | None, logits: torch.Tensor, sampling_metadata: Any
    ) -> SamplerOutput:
        """Tokens [requests, 1 + deepest path], -1 behind a request's last; logprobs flattened the same way.

        Args:
            metadata: vLLM's, of the drafts.
            draft_probs: not used; drafts are only compared.
            logits: [rows, vocabulary].
            sampling_metadata: vLLM's, of the requests.
        """
        step, self.paths = self.step, {}
        if step is None:
            return super().forward(metadata, draft_probs, logits, sampling_metadata)
        drafts = _per_request(metadata)
        if sampling_metadata.all_greedy and not _bent(sampling_metadata):
            return SamplerOutput(self._greedy(step, drafts, logits), logprobs_tensors=None)
        return self._by_level(step, drafts, logits, sampling_metadata)

    def _greedy(self, step: Step, drafts: list[list[int]], logits: torch.Tensor) -> torch.Tensor:
        best = self.sampler.greedy_sample(logits.to(torch.float32)).tolist()
        tokens = []
        for row, first in enumerate(step.logit_rows):
            path: list[int] = []
            if (tree := step.trees.get(row)) is not None:
                path = self.paths[row] = greedy_path(tree.topology, drafts[row], best[first : first + tree.rows])
            tokens.append([best[first], *(best[first + node] for node in path)])
        width = max(map(len, tokens))
        padded = [[*row, *[PLACEHOLDER_TOKEN_ID] * (width - len(row))] for row in tokens]
        return torch.tensor(padded, dtype=torch.int32, device=logits.device)

    def _by_level(self, step: Step, drafts: list[list[int]], logits: torch.Tensor, sampling: Any) -> SamplerOutput:
        nodes = [0] * len(step.logit_rows)
        every = range(len(nodes))
        live, bent = set(every), _bent(sampling)
        self.paths = {row: [] for row in step.trees}
        levels: list[list[int]] = []
        logprobs: list[LogprobsTensors] = []
        while live:
            asked = every if bent else sorted(live)
            rows = torch.tensor([step.logit_rows[row] + nodes[row] for row in asked])
            own = sampling if len(asked) == len(every) else _of(sampling, asked)
            with _at_level(sampling, levels, live) if bent else nullcontext(own) as at_level:
                output = self.sampler(logits=logits[rows], sampling_metadata=at_level)
            tokens = dict(zip(asked, output.sampled_token_ids.squeeze(1).tolist(), strict=True))
            levels.append([tokens[row] if row in live else PLACEHOLDER_TOKEN_ID for row in every])
            if output.logprobs_tensors is not None:
                logprobs.append(output.logprobs_tensors)
            for row in sorted(live):
                tree = step.trees.get(row)
                node = None if tree is None else child_with(tree.topology, drafts[row], nodes[row], tokens[row])
                if node is None:
                    live.discard(row)
                else:
                    nodes[row] = node
                    self.paths[row].append(node)
        tokens_by_level = torch.tensor(levels, dtype=torch.int32, device=logits.device)
        return SamplerOutput(tokens_by_level.T.contiguous(), _by_request(logprobs))


def _per_request(metadata: Any) -> list[list[int]]:
    """The drafts of every request."""
    flat, drafts, begin = metadata.draft_token_ids.tolist(), [], 0
    for count in metadata.num_draft_tokens:
        drafts.append(flat[begin : begin + count])
        begin += count
    return drafts


def _bent(sampling: Any) -> bool:
    """Whether anything but temperatures, `top_p`, `top_k` and generators plays a part, or logprobs are asked for."""
    return not (
        sampling.no_penalties
        and not sampling.bad_words_token_ids
        and sampling.allowed_token_ids_mask is None
        and sampling.max_num_logprobs is None
        and not sampling.logprob_token_ids
        and sampling.thinking_budget_state_holder is None
        and not any(_bends(processor) for processor in sampling.logitsprocs.non_argmax_invariant)
    )


def _of(sampling: Any, rows: Sequence[int]) -> Any:
    """vLLM's sampling metadata of some requests where nothing is bent, as a batch of their own."""
    places, outputs = torch.tensor(rows), sampling.output_token_ids
    values = {name: getattr(sampling, name) for name in ("temperature", "top_p", "top_k")}
    return replace(
        sampling,
        generators={at: sampling.generators[row] for at, row in enumerate(rows) if row in sampling.generators},
        output_token_ids=[outputs[row] for row in rows] if outputs else [],
        **{name: None if value is None else value[places.to(value.device)] for name, value in values.items()},
    )


def _bends(processor: Any) -> bool:
    """Whether a processor has a request to act on; one that we do not know may."""
    return bool(getattr(processor, "min_toks", getattr(processor, "biases", True)))


@contextmanager
def _at_level(sampling: Any, levels: list[list[int]], live: set[int]) -> Iterator[Any]:
    """vLLM's sampling metadata as it would be at the next token of the requests that still walk.

    Args:
        sampling: as at the step's first token.
        levels: the tokens chosen so far in this step, by level and row.
        live: rows that still walk; no other row's generator may be drawn from.
    """
    if not levels:
        yield sampling
        return
    outputs = [
        [*before, *(level[row] for level in levels)] if row in live else before
        for row, before in enumerate(sampling.output_token_ids)
    ]
    generators = {row: generator for row, generator in sampling.generators.items() if row in live}
    with _shifted_min_tokens(sampling, len(levels)):
        yield replace(sampling, output_token_ids=outputs, generators=generators)


@contextmanager
def _shifted_min_tokens(sampling: Any, depth: int) -> Iterator[None]:
    """Lift vLLM's ban on stop tokens for requests that reach their minimum `depth` tokens into this step."""
    changed = []
    for processor in sampling.logitsprocs.non_argmax_invariant:
        if not isinstance(processor, MinTokensLogitsProcessor) or not processor.min_toks:
            continue
        due = {row for row, (least, out, *_) in processor.min_toks.items() if len(out) + depth >= least}
        if not due:
            continue
        changed.append((processor, processor.logits_slice, processor.restore_logits_slice))
        processor.logits_slice = _without(processor.logits_slice, due)
        processor.restore_logits_slice = _without(processor.restore_logits_slice, due)
    try:
        yield
    finally:
        for processor, logits_slice, restore in changed:
            processor.logits_slice, processor.restore_logits_slice = logits_slice, restore


def _without(pairs: tuple[torch.Tensor, torch.Tensor], rows: set[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """The (row, token) pairs of the other rows."""
    keep = torch.tensor([row not in rows for row in pairs[0].tolist()], dtype=torch.bool)
    return pairs[0][keep], pairs[1][keep]


def _by_request(levels: list[LogprobsTensors]) -> LogprobsTensors | None:
    """Logprobs of every level as vLLM expects them: all levels of the first request, then of the second."""
    if not levels:
        return None
    return LogprobsTensors(
        *(torch.stack([getattr(level, name) for level in levels], dim=1).flatten(0, 1) for name in _LOGPROB_FIELDS)
    )


_LOGPROB_FIELDS = ("logprob_token_ids", "logprobs", "selected_token_ranks")
