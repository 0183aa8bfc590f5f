"""What `voicepace bench speculation` compares: each arm as engine options."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.bench.published_arms import PLAIN
from engine.options import EngineOptions

CHAIN = "chain"
# Of the step-time bar.
TREE_NODES = 16
TREES = {f"tree{nodes}": nodes for nodes in (4, 8, TREE_NODES, 32)}
SERVED = "tree"
HEADS_ONLY = "tree-heads"
ARMS = (PLAIN, "none-sync", "ngram", CHAIN, "chain-full", SERVED, HEADS_ONLY, *TREES)
QUICK_ARMS = (PLAIN, CHAIN, SERVED, f"tree{TREE_NODES}")
ABOUT = {
    PLAIN: "plain decoding",
    "none-sync": "plain decoding that plans no step ahead, as trees must",
    "ngram": "prompt lookup",
    CHAIN: "vLLM's medusa, independent heads, shortened vocabulary",
    "chain-full": "the same with the whole vocabulary",
    SERVED: "the default tree as it is served: smaller, down to none, where that is quicker",
    HEADS_ONLY: "the same without what is looked up in the text",
    **{name: f"always a tree of {nodes} nodes, sequential heads" for name, nodes in TREES.items()},
}


def options(arm: str, settings: Mapping[str, Any], heads: str, cache_dir: Path) -> EngineOptions:
    """The engine options of an arm.

    Args:
        arm: one of `ARMS`.
        settings: of the engine, without speculation.
        heads: as `engine.heads` names them.
        cache_dir: of the embedded model and of what is made for vLLM.

    Raises:
        ValueError: the settings do not fit, or there are no such heads.
        EngineStartError: the embedded model is missing.
    """
    own: dict[str, Any] = {"speculation": PLAIN}
    if arm == "none-sync":
        own["async_scheduling"] = False
    elif arm == "ngram":
        own = {"speculation": "ngram"}
    elif arm == CHAIN:
        own = {"speculation": "medusa", "heads": heads}
    elif arm == "chain-full":
        own = {"speculation": "medusa", "heads": _full_vocabulary(settings, heads, cache_dir)}
    elif arm == SERVED:
        own = {"speculation": "medusa_tree", "heads": heads}
    elif arm == HEADS_ONLY:
        own = {"speculation": "medusa_tree", "heads": heads, "tree_lookup": False}
    elif arm in TREES:
        own = {"speculation": "medusa_tree", "heads": heads, "tree": str(TREES[arm])}
        own |= {"tree_follows_load": False, "tree_lookup": False}
    return EngineOptions.model_validate({**settings, **own})


def _full_vocabulary(settings: Mapping[str, Any], heads: str, cache_dir: Path) -> str:
    from engine.heads.shipped import vllm_folder
    from engine.heads.target import target_folder

    folder = Path(target_folder(settings["model"], cache_dir))
    return str(vllm_folder(heads, folder, cache_dir, settings.get("dtype", "float32"), full_vocabulary=True))
