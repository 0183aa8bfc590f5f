"""What runs instead where trees cannot be used: the chain that vLLM knows, where there are heads for it, else nothing.

Only for reasons that lie in vLLM or in the model (`engine.tree.hooks.TreeUnfit`); a setting that is wrong is an error.
"""

from dataclasses import dataclass

from engine.heads.names import HeadsMissing, heads_path
from engine.options import EngineOptions, Speculation
from engine.tree.hooks import MARK


@dataclass(frozen=True, slots=True)
class Fallback:
    """Attributes:
    instead: the speculation in use.
    reason: why trees are not, one line that names the hook or check.
    """

    instead: Speculation
    reason: str


def is_unfit(message: str) -> bool:
    """Whether an engine that did not start says that trees cannot be used in it."""
    return MARK in message


def without_trees(options: EngineOptions) -> EngineOptions:
    """The same settings with a chain of independent heads, or with plain decoding."""
    instead: Speculation = "none"
    try:
        if heads_path(options.heads_name or "", "medusa").is_file():
            instead = "medusa"
    except HeadsMissing:
        pass
    heads = options.heads if instead == "medusa" else None
    return options.model_copy(update={"speculation": instead, "heads": heads, "tree": None})


def reason_of(message: str) -> str:
    """The part of a message that says why trees cannot be used."""
    return message[message.index(MARK) :].removeprefix(MARK).strip()
