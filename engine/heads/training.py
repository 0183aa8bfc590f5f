"""Training heads on kept states, within a time budget; may be stopped and goes on where it was.

The target is frozen: it is not even here, only its states (`engine.heads.states`) and its matrices.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.heads.acceptance import accepted, ranks, tokens_per_step
from engine.heads.architectures import MedusaHeads, SequentialHeads
from engine.heads.loss import Recipe, Target, loss
from engine.heads.rows import Reader, reader
from engine.heads.states import States

_WARM_UP_STEPS = 20
_LAST_RATE = 0.02
_VALIDATION_BATCH = 20
_MAX_NORM = 1.0
# Reading the loss makes a GPU wait for the CPU.
_LOSS_EVERY_STEPS = 10


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how to train.

    Attributes:
        budget_s: wall-clock seconds; the learning rate falls along a cosine that ends with it.
        epochs: passes over the replies after which training ends in any case.
        rows: least rows of a step; replies are not cut.
        rate: highest learning rate (AdamW).
        decay: AdamW's weight decay.
        recipe: the loss.
        validation_replies: kept back to judge by.
        validate_every_s: seconds of training between judgements.
        patience: judgements without a better one after which training stops.
        seed: of order, thinning and first weights.
    """

    budget_s: float = 1800.0
    epochs: int = 20
    rows: int = 512
    rate: float = 2e-3
    decay: float = 0.01
    recipe: Recipe = field(default_factory=Recipe)
    validation_replies: int = 120
    validate_every_s: float = 300.0
    patience: int = 4
    seed: int = 0


@dataclass(slots=True)
class Progress:
    """Where training stands.

    Attributes:
        steps: taken.
        rows: trained on.
        elapsed_s: of training, over all runs.
        loss: running mean.
        best: highest acceptance length of the chain on the replies kept back.
        worse: judgements since then.
    """

    steps: int = 0
    rows: int = 0
    elapsed_s: float = 0.0
    loss: float = math.nan
    best: float = 0.0
    worse: int = 0


def all_ranks(
    heads: MedusaHeads | SequentialHeads, target: Target, read: Reader, replies: Sequence[int]
) -> tuple[np.ndarray, list[int]]:
    """`engine.heads.acceptance.ranks` over replies, a few at a time, and where each reply starts."""
    found, starts = [], [0]
    for first in range(0, len(replies), _VALIDATION_BATCH):
        rows, own = read(replies[first : first + _VALIDATION_BATCH])
        found.append(ranks(heads, target, rows))
        starts += [starts[-1] + start for start in own[1:]]
    return np.concatenate(found), starts


class Training:
    """One training run.

    Args:
        heads: trained in place; on the device where training shall run.
        target: the frozen matrices, on the same device.
        states: what to learn from.
        plan: how.
        folder: for the checkpoint; one from an earlier run with the same sizes and beginning is gone on from.
        begin: what heads that were trained before say of that; None for random ones.
        read: of the rows of `states`, where they are already on the device.
    """

    def __init__(
        self,
        heads: MedusaHeads | SequentialHeads,
        target: Target,
        states: States,
        plan: Plan,
        folder: Path,
        begin: Mapping[str, Any] | None = None,
        read: Reader | None = None,
    ) -> None:
        torch.manual_seed(plan.seed)
        self._read = read or reader(states, str(target.vocabulary.device))
        self._heads, self._target, self._states, self._plan = heads, target, states, plan
        self._random = np.random.default_rng(plan.seed)
        order = np.random.default_rng(plan.seed).permutation(states.replies)
        held = min(plan.validation_replies, states.replies // 10)
        if held < 1:
            raise ValueError(f"{states.replies} replies are too few to train on and to judge by: ten at least")
        self.validation, self._train = order[:held].tolist(), order[held:].tolist()
        self._epoch_rows = sum(int(states.starts[at + 1] - states.starts[at]) for at in self._train)
        self._optimizer = torch.optim.AdamW(
            heads.parameters(),
            lr=plan.rate,
            betas=(0.9, 0.95),
            weight_decay=plan.decay,
            fused=target.vocabulary.is_cuda,
        )
        self._checkpoint = folder / "checkpoint.pt"
        self._begin = begin
        self._best: dict[str, torch.Tensor] = {}
        self.progress = Progress()
        folder.mkdir(parents=True, exist_ok=True)
        if self._checkpoint.exists():
            self._resume()

    @property
    def share(self) -> float:
        """How far training is, 0 to 1, by time or by epochs."""
        by_rows = self.progress.rows / (self._plan.epochs * self._epoch_rows)
        return max(self.progress.elapsed_s / self._plan.budget_s, by_rows)

    def run(self, report: Callable[[Progress, float], None]) -> None:
        """Train to the end and leave the best heads in place.

        Args:
            report: takes the progress and the share done, after every step.
        """
        if not self._best:
            self._validate()
        validated_s = self.progress.elapsed_s
        started_s = time.monotonic() - self.progress.elapsed_s
        if self._target.vocabulary.is_cuda:
            # TF32: ten bits of each factor, sums in float32.
            torch.set_float32_matmul_precision("high")
        for batch in self._batches():
            if self.share >= 1 or self.progress.worse > self._plan.patience:
                break
            self._step(batch)
            self.progress.elapsed_s = time.monotonic() - started_s
            report(self.progress, min(1.0, self.share))
            if self.progress.elapsed_s - validated_s >= self._plan.validate_every_s:
                self._validate()
                started_s = time.monotonic() - self.progress.elapsed_s
                validated_s = self.progress.elapsed_s
        self._validate()
        self._heads.load_state_dict(self._best)

    def _batches(self) -> Iterator[list[int]]:
        """Replies in random order, epoch after epoch, at least `rows` rows at a time."""
        while True:
            batch: list[int] = []
            rows = 0
            for reply in self._random.permutation(self._train).tolist():
                batch.append(reply)
                rows += int(self._states.starts[reply + 1] - self._states.starts[reply])
                if rows >= self._plan.rows:
                    yield batch
                    batch, rows = [], 0

    def _step(self, batch: list[int]) -> None:
        progress, plan = self.progress, self._plan
        rows, _ = self._read(batch)
        fall = 0.5 * (1 + math.cos(math.pi * min(1.0, self.share)))
        warm = min(1.0, (progress.steps + 1) / _WARM_UP_STEPS)
        for group in self._optimizer.param_groups:
            group["lr"] = plan.rate * warm * (_LAST_RATE + (1 - _LAST_RATE) * fall)
        value = loss(self._heads, self._target, rows, plan.recipe)
        self._optimizer.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(self._heads.parameters(), _MAX_NORM)
        self._optimizer.step()
        if progress.steps % _LOSS_EVERY_STEPS == 0:
            own = value.item()
            progress.loss = own if math.isnan(progress.loss) else 0.8 * progress.loss + 0.2 * own
        progress.steps += 1
        progress.rows += len(rows.tokens)

    def _validate(self) -> None:
        """Acceptance on the replies kept back; the best heads so far are kept, and a checkpoint is written."""
        found, starts = all_ranks(self._heads, self._target, self._read, self.validation)
        chain = [(0,) * length for length in range(1, self._heads.config.depth + 1)]
        length = tokens_per_step(accepted(found, chain), starts)
        if length > self.progress.best:
            self.progress.best, self.progress.worse = length, 0
            self._best = {name: value.detach().clone() for name, value in self._heads.state_dict().items()}
        else:
            self.progress.worse += 1
        kept: dict[str, Any] = {
            "config": asdict(self._heads.config),
            "begin": self._begin,
            "heads": self._heads.state_dict(),
            "best": self._best,
            "optimizer": self._optimizer.state_dict(),
            "progress": asdict(self.progress),
            "random": self._random.bit_generator.state,
        }
        partial = self._checkpoint.with_suffix(".partial")
        torch.save(kept, partial)
        partial.replace(self._checkpoint)

    def _resume(self) -> None:
        kept = torch.load(self._checkpoint, map_location=self._target.vocabulary.device, weights_only=False)
        if kept["config"] != asdict(self._heads.config):
            raise ValueError(f"{self._checkpoint} is of other heads: {kept['config']}; use another folder")
        if kept.get("begin") != self._begin:
            raise ValueError(f"{self._checkpoint} is of a training that began with other heads; use another folder")
        self._heads.load_state_dict(kept["heads"])
        self._best = kept["best"]
        self._optimizer.load_state_dict(kept["optimizer"])
        self.progress = Progress(**kept["progress"])
        self._random.bit_generator.state = kept["random"]
