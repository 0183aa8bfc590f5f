"""What drafts are expected to bring with the heads in use, from what is kept with them."""

from engine.heads.checkpoint import read_about
from engine.heads.names import heads_path, is_ours
from engine.heads.tree_choice import acceptance_length, path_shares_of
from engine.options import EngineOptions
from engine.tree.choice import chosen, heads_file
from engine.tree.topology import Topology

_CHAIN_TOKENS = 4


def expected_acceptance_length(options: EngineOptions) -> float | None:
    """Tokens per step that the heads reached when they were trained, with the drafts of these settings.

    Returns:
        The bonus token counted; None without heads of ours, or where they keep no accuracies.
    """
    name = options.heads_name
    if name is None or options.speculation not in ("medusa", "medusa_tree"):
        return None
    try:
        if options.speculation == "medusa_tree":
            shares = path_shares_of(read_about(heads_file(name)))
            return acceptance_length(shares, chosen(options.tree, shares).paths)
        if not is_ours(name):
            return None
        shares = path_shares_of(read_about(heads_path(name, "medusa")))
        return acceptance_length(shares, Topology.chain(options.num_speculative_tokens or _CHAIN_TOKENS).paths)
    except ValueError:
        return None
