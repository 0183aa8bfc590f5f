"""The walk of greedy requests on the device that has the logits: the same paths as `engine.tree.walk`, no waiting for it.

Whether a node is reached does not depend on the order of looking: it is reached where it and all nodes on its path were
drafted as the model's own choice after their parents. So all nodes are compared at once.
"""

from typing import NamedTuple

import numpy as np
import torch

from engine.tree.topology import Topology


class Walked(NamedTuple):
    """What a step gave; all tensors are on the device.

    Attributes:
        tokens: [requests, 1 + deepest] the step's tokens, -1 behind the last.
        paths: [requests, deepest] rows of the accepted nodes by depth, 0 behind the last.
        last: [requests] the row walked to, 0 for the root.
    """

    tokens: torch.Tensor
    paths: torch.Tensor
    last: torch.Tensor


class DeviceWalk:
    """Walks through one tree.

    Args:
        topology: the tree.
        device: where logits are.
    """

    def __init__(self, topology: Topology, device: torch.device | str) -> None:
        parents, depths = np.array(topology.parents), np.array(topology.depths)
        nodes = np.arange(topology.nodes)
        self._parents = torch.from_numpy(parents).to(device)
        self._rows = torch.from_numpy(nodes + 1).to(device)
        self._others = torch.from_numpy(~topology.ancestors[1:, 1:]).to(device)
        earlier = (parents[:, None] == parents[None, :]) & (nodes[:, None] > nodes[None, :])
        self._earlier = torch.from_numpy(earlier).to(device)
        levels = np.arange(1, topology.max_depth + 1)
        self._levels = torch.from_numpy(depths[None, :] == levels[:, None]).to(device)

    def walk(self, drafts: torch.Tensor, best: torch.Tensor, drafted: torch.Tensor | None = None) -> Walked:
        """Greedy paths; may be recorded into a CUDA graph.

        Args:
            drafts: [requests, nodes] the nodes' tokens.
            best: [requests, nodes + 1] the model's choice after each row, the root's first.
            drafted: [requests] how many nodes of the tree a request really has; None for all.
        """
        chosen = drafts == best.gather(1, self._parents.expand(len(best), -1))
        if drafted is not None:
            chosen &= self._rows <= drafted[:, None]
        # Of siblings with the same token the first one counts.
        twins = (drafts[:, :, None] == drafts[:, None, :]) & self._earlier
        chosen &= ~twins.any(2)
        reached = (chosen[:, None, :] | self._others).all(2)
        paths = torch.where(reached[:, None, :] & self._levels, self._rows, 0).amax(2)
        after = best.gather(1, paths)
        tokens = torch.cat((best[:, :1], torch.where(paths > 0, after, -1)), 1)
        return Walked(tokens, paths, paths.amax(1))
