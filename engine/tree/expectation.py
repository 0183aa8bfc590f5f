"""What drafts are expected to bring with the heads in use, from what is kept with them."""

from engine.arguments import speculative_config
from engine.heads.checkpoint import read_about
from engine.heads.names import heads_path, is_ours
from engine.heads.tree_choice import acceptance_length, path_shares_of
from engine.options import EngineOptions
from engine.tree.choice import chosen, known_shares
from engine.tree.topology import Topology


def expected_acceptance_length(options: EngineOptions) -> float | None:
    """Tokens per step that the heads reached when they were trained, with the drafts of these settings.

    Returns:
        The bonus token counted; None without heads of ours, or where they keep no accuracies.
    """
    try:
        if options.speculation == "medusa_tree":
            shares = known_shares(options.heads_name) or []
            paths = chosen(options.tree, shares).paths
        elif options.speculation == "medusa" and is_ours(options.heads_name or ""):
            shares = path_shares_of(read_about(heads_path(options.heads_name or "", "medusa")))
            paths = Topology.chain((speculative_config(options) or {})["num_speculative_tokens"]).paths
        else:
            return None
    except ValueError:
        return None
    return acceptance_length(shares, paths) if shares else None
