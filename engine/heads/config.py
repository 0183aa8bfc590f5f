"""What a set of heads is: its architecture and sizes. Pure."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, get_args

Architecture = Literal["medusa", "sequential"]
ARCHITECTURES: tuple[Architecture, ...] = get_args(Architecture)


@dataclass(frozen=True, slots=True)
class HeadsConfig:
    """Sizes of a set of heads.

    Attributes:
        architecture: `medusa`, independent heads; `sequential`, each sees the tokens chosen before it.
        depth: heads, which is the longest path drafted, the bonus token not counted.
        hidden: width of the target's hidden state.
        inner: `sequential`: width inside a block.
        layers: `medusa`: residual layers of each head; `sequential`: blocks of its core.
        draft_vocabulary: tokens that can be drafted: the rows of the vocabulary matrix that are read.
    """

    architecture: Architecture
    depth: int
    hidden: int
    inner: int
    layers: int
    draft_vocabulary: int

    def __post_init__(self) -> None:
        if self.architecture not in ARCHITECTURES:
            raise ValueError(f"architecture: {self.architecture!r} is neither of {', '.join(ARCHITECTURES)}")
        for name, value in asdict(self).items():
            if name != "architecture" and (not isinstance(value, int) or value < 1):
                raise ValueError(f"{name}: {value!r} is not a positive number")

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Raises ValueError naming what is missing or wrong."""
        try:
            return cls(**document)
        except TypeError as error:
            raise ValueError(f"heads config: {error}") from error
