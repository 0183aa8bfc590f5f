"""What drafts are asked of, and what answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from engine.heads.drafting import Deeper, Draft


@dataclass(frozen=True, slots=True)
class Candidate:
    """A request that could be drafted for.

    Attributes:
        row: in the batch.
        place: of its last accepted token's hidden state among the step's.
        bonus: the token sampled last, the root of the next tree.
        token_ids: prompt and reply so far, the bonus token included.
        greedy: whether its likeliest token is always the next one.
    """

    row: int
    place: int
    bonus: int
    token_ids: npt.NDArray[np.int32]
    greedy: bool = True


class Source(Protocol):
    """Something that drafts trees."""

    def draft(self, candidates: Sequence[Candidate], hidden: torch.Tensor, deeper: Deeper | None) -> list[Draft]:
        """One draft for each candidate, of nodes of the engine's tree; one without rows is none.

        Args:
            candidates: the requests.
            hidden: [candidates, hidden size] of the target model after each candidate's last accepted token.
            deeper: below which candidates it is worth drafting on; None: the whole tree is wanted.
        """
