"""The target's hidden states over replies: what heads are trained on, computed once and kept in a folder.

The folder holds `states.json` (format, version, sizes, what computed them, the replies' order), `hidden.f16` ([rows,
width], the last hidden state after the final norm) and `tokens.i32` ([rows]). A reply of n tokens has n rows: row j is
the state from which the target predicts token j, and `tokens` at j is that token. So the state and the token that a
draft starts from stand in the same row, and what it must predict stands in the rows below.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.heads.replies import Reply

FORMAT = "voicepace-states"
VERSION = 1
_BATCH_ROWS = 6144
# Rows of one pass: what the target makes of more falls out of a CPU's caches, and unequal replies are padded more.
_PASS_ROWS = 2048

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Source:
    """What computes states.

    Attributes:
        run: gives for each reply of a batch [tokens, width]: the states after the final norm that predict its tokens.
        width: of a state.
        kind: what computes them, kept with them; states of two kinds are not mixed.
    """

    run: Callable[[Sequence[Reply]], Iterator[torch.Tensor]]
    width: int
    kind: str


@dataclass(frozen=True, slots=True)
class States:
    """Hidden states over replies.

    Attributes:
        hidden: [rows, width] float16.
        tokens: [rows] int32.
        starts: [replies + 1] first row of each reply.
        temperatures: [replies].
        topics: [replies].
    """

    hidden: np.ndarray
    tokens: np.ndarray
    starts: np.ndarray
    temperatures: np.ndarray
    topics: tuple[str, ...]

    @property
    def replies(self) -> int:
        """How many."""
        return len(self.topics)


def load(folder: Path) -> States:
    """States that `compute` wrote; as far as it came, if it was stopped.

    Raises:
        OSError, ValueError: no such folder, or another format.
    """
    about = json.loads((folder / "states.json").read_text())
    if (about["format"], about["version"]) != (FORMAT, VERSION):
        raise ValueError(f"{folder}: not version {VERSION} of {FORMAT}")
    starts = np.concatenate([[0], np.cumsum(about["lengths"][: about["done"]])]).astype(np.int64)
    rows = int(starts[-1])
    hidden = np.memmap(folder / "hidden.f16", np.float16, "r").reshape(-1, about["width"])
    return States(
        hidden=hidden[:rows],
        tokens=np.fromfile(folder / "tokens.i32", np.int32)[:rows],
        starts=starts,
        temperatures=np.array(about["temperatures"][: about["done"]]),
        topics=tuple(about["topics"][: about["done"]]),
    )


def compute(
    source: Source, replies: Sequence[Reply], folder: Path, provenance: dict[str, Any], progress: Progress
) -> States:
    """Run the target over `replies` and keep its states; goes on where an earlier run with the same replies stopped.

    Args:
        source: of the states.
        replies: in any order; they are kept in batches of one opening and similar length.
        folder: made if missing.
        provenance: kept in the folder.
        progress: takes rows done and rows in all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    batches = _batches(replies)
    ordered = [reply for batch in batches for reply in batch]
    about = _about(folder, ordered, source, provenance)
    done, total = 0, sum(about["lengths"])
    with (folder / "hidden.f16").open("r+b") as hidden, (folder / "tokens.i32").open("r+b") as tokens:
        for batch in batches:
            first, done = done, done + len(batch)
            if done <= about["done"]:
                continue
            row = sum(about["lengths"][:first])
            hidden.seek(row * about["width"] * 2)
            tokens.seek(row * 4)
            for reply, state in zip(batch, source.run(batch), strict=True):
                hidden.write(state.half().numpy().tobytes())
                tokens.write(np.array(reply.ids, np.int32).tobytes())
            hidden.flush()
            tokens.flush()
            about["done"] = done
            (folder / "states.json").write_text(json.dumps(about))
            progress(sum(about["lengths"][:done]), total)
    return load(folder)


def hidden_states(model: Any, batch: Sequence[Reply]) -> Iterator[torch.Tensor]:
    """`Source.run`, of a `transformers` causal language model."""
    size = max(1, _PASS_ROWS // max(len(reply.prompt_ids) + len(reply.ids) for reply in batch))
    for first in range(0, len(batch), size):
        yield from _one_pass(model, batch[first : first + size])


@torch.inference_mode()  # type: ignore[untyped-decorator]
def _one_pass(model: Any, batch: Sequence[Reply]) -> Iterator[torch.Tensor]:
    """What all prompts begin with is read once for all of them."""
    from transformers import DynamicCache

    shared = shared_opening([reply.prompt_ids for reply in batch])
    cache = DynamicCache(config=model.config)
    device = model.device
    if shared:
        opening = torch.tensor([batch[0].prompt_ids[:shared]], device=device)
        model.model(input_ids=opening, past_key_values=cache, use_cache=True)
        cache.batch_repeat_interleave(len(batch))
    texts = [reply.prompt_ids[shared:] + reply.ids[:-1] for reply in batch]
    longest = max(map(len, texts))
    # Padding stands on the right, where a causal model cannot see it.
    padded = torch.tensor([text + (0,) * (longest - len(text)) for text in texts], device=device)
    output = model.model(input_ids=padded, past_key_values=cache, use_cache=True).last_hidden_state
    for reply, rows in zip(batch, output, strict=True):
        first = len(reply.prompt_ids) - shared - 1
        yield rows[first : first + len(reply.ids)].cpu()


def shared_opening(prompts: Sequence[tuple[int, ...]]) -> int:
    """Tokens that all prompts begin with, the last of each prompt left over."""
    limit = min(map(len, prompts)) - 1
    return next((at for at in range(limit) if len({prompt[at] for prompt in prompts}) > 1), limit)


def _batches(replies: Sequence[Reply]) -> list[tuple[Reply, ...]]:
    """Replies of one topic and similar length together, the batches in an order that mixes topics."""
    batches: list[tuple[Reply, ...]] = []
    for topic in dict.fromkeys(reply.topic for reply in replies):
        ordered = sorted((r for r in replies if r.topic == topic), key=lambda r: len(r.prompt_ids) + len(r.ids))
        size = max(1, _BATCH_ROWS // max(len(reply.prompt_ids) + len(reply.ids) for reply in ordered))
        batches += [tuple(ordered[at : at + size]) for at in range(0, len(ordered), size)]
    order = np.random.default_rng(0).permutation(len(batches))
    return [batches[at] for at in order]


def _about(folder: Path, ordered: Sequence[Reply], source: Source, provenance: dict[str, Any]) -> dict[str, Any]:
    """What the folder says of itself: that of an earlier run with the same replies, or a new one."""
    fresh: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "width": source.width,
        "kind": source.kind,
        "lengths": [len(reply.ids) for reply in ordered],
        "temperatures": [reply.temperature for reply in ordered],
        "topics": [reply.topic for reply in ordered],
        "done": 0,
        "provenance": provenance,
    }
    path = folder / "states.json"
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text())
        if all(found.get(key) == fresh[key] for key in ("format", "version", "width", "kind", "lengths", "topics")):
            return found
    for name in ("hidden.f16", "tokens.i32"):
        (folder / name).write_bytes(b"")
    path.write_text(json.dumps(fresh))
    return fresh
