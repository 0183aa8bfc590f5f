"""Replies to learn from and to judge by: a file of JSON lines, one reply a line.

Each line holds `prompt_ids` (token ids up to and including the opening of the reply), `ids` (the reply's, the end
token included where the model ended), `temperature` (0: greedy) and `topic`. A first line with `format` and `version`
may come before them and carries the file's provenance; a file without it is read as version 1.
"""

import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FORMAT = "voicepace-replies"
VERSION = 1
LOOP_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of the target model.

    Attributes:
        prompt_ids: token ids before the reply.
        ids: the reply's own.
        temperature: it was sampled at; 0: greedy.
        topic: what the caller spoke about.
    """

    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]
    temperature: float
    topic: str


class RepliesError(ValueError):
    """A file that is not one of replies; says where."""


def read(path: Path) -> list[Reply]:
    """Every reply of a file, gzipped or not.

    Raises:
        RepliesError: another format, another version, or a line that is not a reply.
        OSError: it cannot be read.
    """
    lines = _text(path).splitlines()
    if lines and '"format"' in lines[0]:
        header = json.loads(lines[0])
        if (header.get("format"), header.get("version")) != (FORMAT, VERSION):
            raise RepliesError(f"{path}: not version {VERSION} of {FORMAT}")
        return [_reply(path, number, line) for number, line in enumerate(lines[1:], 2)]
    return [_reply(path, number, line) for number, line in enumerate(lines, 1)]


def write(path: Path, replies: Iterable[Reply], provenance: dict[str, Any]) -> None:
    """A gzipped file of `replies`, the same bytes for the same input."""
    lines = [json.dumps({"format": FORMAT, "version": VERSION, "provenance": provenance})]
    lines += [json.dumps(asdict(reply), separators=(",", ":")) for reply in replies]
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0))


def loop_start(ids: Sequence[int], length: int = LOOP_TOKENS) -> int | None:
    """Where a run of `length` tokens first occurs again, or None."""
    seen: set[tuple[int, ...]] = set()
    for start in range(len(ids) - length + 1):
        run = tuple(ids[start : start + length])
        if run in seen:
            return start
        seen.add(run)
    return None


def without_loops(replies: Iterable[Reply]) -> list[Reply]:
    """Replies in which nothing repeats, each text once: what the model says when it is not stuck."""
    return [reply for reply in distinct(replies) if loop_start(reply.ids) is None]


def cut_at_loops(replies: Iterable[Reply]) -> list[Reply]:
    """Each text once, up to the point where it begins to repeat: loops are learnt soon enough."""
    cut = []
    for reply in distinct(replies):
        start = loop_start(reply.ids)
        ids = reply.ids if start is None else reply.ids[: start + LOOP_TOKENS]
        cut.append(Reply(reply.prompt_ids, ids, reply.temperature, reply.topic))
    return cut


def distinct(replies: Iterable[Reply]) -> list[Reply]:
    """The first of every text."""
    first: dict[tuple[int, ...], Reply] = {}
    for reply in replies:
        first.setdefault(reply.ids, reply)
    return list(first.values())


def split(replies: Iterable[Reply], held_out: Iterable[str]) -> tuple[list[Reply], list[Reply]]:
    """Replies of other topics, and those of the held-out topics."""
    topics = frozenset(held_out)
    kept: tuple[list[Reply], list[Reply]] = ([], [])
    for reply in replies:
        kept[reply.topic in topics].append(reply)
    return kept


def spread(count: int, share: float) -> list[bool]:
    """`count` answers of which `share` are yes, evenly among the others."""
    return [int((at + 1) * share) > int(at * share) for at in range(count)]


def _text(path: Path) -> str:
    data = path.read_bytes()
    try:
        return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
        raise RepliesError(f"{path}: neither text nor gzipped text") from error


def _reply(path: Path, number: int, line: str) -> Reply:
    try:
        fields = json.loads(line)
        prompt, ids = (tuple(int(token) for token in fields[name]) for name in ("prompt_ids", "ids"))
        reply = Reply(prompt, ids, float(fields["temperature"]), str(fields["topic"]))
    except (ValueError, KeyError, TypeError) as error:
        raise RepliesError(f"{path}, line {number}: not a reply ({error})") from error
    if not prompt or not ids:
        raise RepliesError(f"{path}, line {number}: an empty prompt or reply")
    return reply
