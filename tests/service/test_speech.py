"""What of a reply is spoken, in a whole call; the tone voice sounds for 60 ms a character."""

import asyncio

import pytest

from engine.fake import Script
from tests.service.virtual_call import virtual_call
from tests.virtual_time import run_virtual

CODE = "for number in range(100):\n    print(number, number * number)"
REPLY = f"Here it is.\n\n```python\n{CODE}\n```\n\nThat is all."


async def seconds_spoken(**settings: str) -> float:
    async with virtual_call("twilio-media", REPLY, Script(step_time_s=0.02, burst_sizes=(4,)), **settings) as call:
        await call.say("How do I do it?")
        await asyncio.sleep(30.0)  # virtual
        return 0.02 * len(call.units())


def test_code_is_spoken_or_skipped_as_set() -> None:
    spoken_s = run_virtual(seconds_spoken())
    skipped_s = run_virtual(seconds_spoken(speech__code_blocks="skip"))
    assert spoken_s - skipped_s == pytest.approx(0.06 * len(CODE), rel=0.25)
