"""A repair of vLLM's Medusa loader: heads with a shortened vocabulary.

vLLM 0.32 makes the token map a parameter of the model while it loads, does not name it among what was loaded, and then
refuses the model because the map "was not initialised". Loaded in the engine's worker process, by name, as vLLM's
worker extension; being loaded is all it takes.
"""

from collections.abc import Iterable
from typing import Any

from vllm.model_executor.models.medusa import Medusa

_theirs = Medusa.load_weights


def load_weights(model: Any, weights: Iterable[tuple[str, Any]]) -> set[str]:
    """As vLLM's, the token map among what was loaded where there is one."""
    loaded: set[str] = _theirs(model, weights)
    return loaded if model.token_map is None else loaded | {"token_map"}


class Extension:
    """What vLLM asks for by name; it adds nothing to the worker."""


Medusa.load_weights = load_weights
