"""Even release of a streamed reply: the pacer between the engine's bursts and an event stream."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Any

from service.openai_split import TokenSplitter
from tts_adapter.pacer import Pacer

Group = tuple[Any, ...]
"""Outputs that leave together: one with text, and those without text around it, which nobody hears."""


async def paced(
    outputs: "asyncio.Queue[Any]", splitter: TokenSplitter, pacer: Pacer[Group]
) -> AsyncGenerator[Any, None]:
    """The outputs of one engine request, cut into tokens and evenly spaced.

    Args:
        outputs: as `service.openai_exchange.Exchange.pump` gives it; an exception in it is raised once all text that
            came before has left.
        splitter: of this request.
        pacer: of this request.
    """
    loop = asyncio.get_running_loop()
    silent: Group = ()
    while True:
        for group in pacer.pop_ready(loop.time()):
            for output in group:
                yield output
        try:
            async with asyncio.timeout_at(pacer.next_wakeup()):
                item = await outputs.get()
        except TimeoutError:
            continue
        if item is None or isinstance(item, Exception):
            break
        groups, silent = grouped((*silent, *splitter.split(item)))
        pacer.push(groups, loop.time())
    pacer.flush(loop.time())
    while (due := pacer.next_wakeup()) is not None:
        await asyncio.sleep(due - loop.time())
        for group in pacer.pop_ready(loop.time()):
            for output in group:
                yield output
    for output in silent:
        yield output
    if item is not None:
        raise item


def grouped(outputs: Iterable[Any]) -> tuple[list[Group], Group]:
    """Outputs without text join one with text: the next one, or the last one where none follows.

    Returns:
        the groups, and the outputs left over because none of them has text.
    """
    groups: list[Group] = []
    silent: Group = ()
    for output in outputs:
        silent = (*silent, output)
        if output.outputs[0].text:
            groups.append(silent)
            silent = ()
    if groups and silent:
        groups[-1] = (*groups[-1], *silent)
        silent = ()
    return groups, silent
