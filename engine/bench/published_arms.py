"""The strategies that `voicepace bench published` compares, each as engine options or as the reason why it is not run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from engine.options import EMBEDDED_MODEL, EngineOptions
from engine.profiles import PROFILES

PLAIN = "none"
ARMS = (PLAIN, "ngram", "draft_model", "medusa", "medusa_tree", "eagle", "eagle3")
# Set by the arm, not by the profile.
_SPECULATION_KEYS = ("speculation", "num_speculative_tokens", "heads", "draft_model", "draft_tensor_parallel_size")


@dataclass(frozen=True, slots=True)
class Assets:
    """Trained or smaller models that drafting needs, folders or names; None: there is none.

    Attributes:
        draft_model: for `draft_model`.
        medusa_heads: for `medusa` and `medusa_tree`; None: the shipped ones, where the model is the embedded one.
        eagle_head: for `eagle`.
        eagle3_head: for `eagle3`.
        drafts: tokens drafted per step; None for each strategy's default.
    """

    draft_model: str | None = None
    medusa_heads: str | None = None
    eagle_head: str | None = None
    eagle3_head: str | None = None
    drafts: int | None = None


@dataclass(frozen=True, slots=True)
class Arm:
    """One strategy: `options` to start an engine with, or None and `reason`."""

    name: str
    options: EngineOptions | None
    reason: str = ""


def base_settings(profile: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The profile's engine settings without its speculation.

    Args:
        profile: a name of `engine.profiles`.
        changes: settings that win over the profile's; None leaves the profile's.

    Raises:
        ValueError: there is no such profile.
    """
    if profile not in PROFILES:
        raise ValueError(f"profile: there is no {profile}; there are {', '.join(PROFILES)}")
    settings = {**PROFILES[profile].settings["engine"]}
    for key in _SPECULATION_KEYS:
        settings.pop(key, None)
    settings |= {key: value for key, value in changes.items() if value is not None}
    if settings["model"] == EMBEDDED_MODEL and "dtype" not in settings:
        # Only there is the text of every strategy the same to the letter: bfloat16 has too many ties.
        settings["dtype"] = "float32"
    return settings


def arm(name: str, settings: Mapping[str, Any], assets: Assets) -> Arm:
    """The strategy `name` on `settings`; what the options refuse is the reason.

    Args:
        name: one of `ARMS`.
        settings: from `base_settings`.
        assets: what there is to draft with.
    """
    keys: dict[str, Any] = {"speculation": name}
    if name not in (PLAIN, "medusa_tree"):
        keys["num_speculative_tokens"] = assets.drafts
    if name == "draft_model":
        if assets.draft_model is None:
            return Arm(name, None, "no draft model: give --draft-model")
        keys["draft_model"] = assets.draft_model
    elif name in _HEADS:
        attribute, flag = _HEADS[name]
        heads = getattr(assets, attribute)
        shipped = settings["model"] == EMBEDDED_MODEL and attribute == "medusa_heads"
        if heads is None and not shipped:
            return Arm(name, None, f"no heads: give {flag}")
        keys["heads"] = heads
    try:
        return Arm(name, EngineOptions.model_validate({**settings, **keys}))
    except ValidationError as error:
        return Arm(name, None, _reason(error))


_HEADS = {
    "medusa": ("medusa_heads", "--heads"),
    "medusa_tree": ("medusa_heads", "--heads"),
    "eagle": ("eagle_head", "--eagle-head"),
    "eagle3": ("eagle3_head", "--eagle3-head"),
}


def _reason(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    text = first["msg"].removeprefix("Value error, ")
    return f"{where}: {text}" if where else text
