"""A text of our own as a reply: one token per word, so that what was heard of it can be kept."""

import asyncio
import re
from collections.abc import AsyncGenerator

from engine.api import FinishReason, TokenBurst

WORDS_AT_ONCE = 8
"""Cutting text into speech takes time; between as many words other calls get theirs."""


async def spoken(text: str) -> AsyncGenerator[TokenBurst, None]:
    """The reply that says `text`."""
    words = re.findall(r"\S+\s*|\s+", text)
    now = asyncio.get_running_loop().time()
    for start in range(0, len(words), WORDS_AT_ONCE):
        end = min(start + WORDS_AT_ONCE, len(words))
        reason: FinishReason | None = "stop" if end == len(words) else None
        yield TokenBurst(tuple(range(start, end)), tuple(words[start:end]), now, finish_reason=reason)
        await asyncio.sleep(0)
