"""What every voice must do, whatever it speaks with: `Contract` is inherited by the test module of each voice.

Sound is not compared here, only order, labels, ends and errors.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing

import numpy as np
import pytest

from tts_adapter.voice import AudioChunk, Utterance, Voice, VoiceError

PROMPTLY_S = 20.0
"""Only ever reached by a voice that hangs; generous for a busy machine."""


async def collect(utterance: Utterance) -> list[AudioChunk]:
    """Everything an utterance still yields."""
    async with asyncio.timeout(PROMPTLY_S):
        return [chunk async for chunk in utterance]


async def say(voice: Voice, turn_id: int, *texts: str) -> list[AudioChunk]:
    """A whole reply, pushed while it is listened to."""
    utterance = voice.open(turn_id)
    try:
        async with asyncio.TaskGroup() as tasks:
            listening = tasks.create_task(collect(utterance))
            for text in texts:
                await utterance.push(text)
            await utterance.flush()
        return listening.result()
    finally:
        await utterance.close()


def seconds(chunks: list[AudioChunk]) -> float:
    """Length of the sound."""
    return sum(len(chunk.samples) / chunk.sample_rate_hz for chunk in chunks)


Scenario = Callable[[Voice], Awaitable[None]]
Run = Callable[[Scenario], None]
"""Runs a scenario with the started voice, which the scenarios of a class share: none may harm the next."""


class Contract:
    """Inherited once per voice, which gives `make` and may narrow what its service cannot do."""

    many = 80
    """Segments of a long reply: more than may wait."""

    def voice(self) -> AbstractAsyncContextManager[Voice]:
        """A voice as configured in a service, with what it talks to; not started."""
        raise NotImplementedError

    def failing(self) -> AbstractAsyncContextManager[Voice]:
        """A voice that starts and then fails at the second segment of every utterance, or earlier."""
        raise NotImplementedError

    def test_speaks_in_order_and_labels_every_chunk(self, run: Run) -> None:
        async def scenario(voice: Voice) -> None:
            chunks = await say(voice, 7, "One moment please. ", "Your table is ready. ", "Goodbye.")
            assert {chunk.turn_id for chunk in chunks} == {7}
            segments = [chunk.segment for chunk in chunks]
            assert segments == sorted(segments)
            assert set(segments) <= {0, 1, 2}
            assert {chunk.sample_rate_hz for chunk in chunks} == {voice.sample_rate_hz}
            for chunk in chunks:
                assert chunk.samples.dtype == np.int16
                assert chunk.samples.ndim == 1
                assert len(chunk.samples) > 0
            assert seconds(chunks) > 0.2

        run(scenario)

    def test_marks_the_end_of_every_segment_it_labels(self, run: Run) -> None:
        async def scenario(voice: Voice) -> None:
            chunks = await say(voice, 1, "One moment please. ", "Goodbye now.")
            for segment in {chunk.segment for chunk in chunks}:
                marks = [chunk.last for chunk in chunks if chunk.segment == segment]
                assert marks == [False] * (len(marks) - 1) + [True]

        run(scenario)

    def test_hands_over_small_chunks(self, run: Run) -> None:
        async def scenario(voice: Voice) -> None:
            chunks = await say(voice, 1, "Would you like me to book the table for four people on Friday?")
            assert max(len(chunk.samples) / chunk.sample_rate_hz for chunk in chunks) <= 0.25

        run(scenario)

    def test_flush_without_text_ends(self, run: Run) -> None:
        async def scenario(voice: Voice) -> None:
            assert await say(voice, 1) == []

        run(scenario)

    @pytest.mark.parametrize("text", ["", " ", "\n\t", ".", "?!", "…", "—", "()", "\N{GRINNING FACE}", "\u200b"])
    def test_text_without_sound_never_hangs(self, run: Run, text: str) -> None:
        async def scenario(voice: Voice) -> None:
            await say(voice, 1, text)
            assert seconds(await say(voice, 2, text, "Hello there. ", text)) > 0.1

        run(scenario)

    def test_cancel_ends_the_iteration_in_the_middle(self, run: Run) -> None:
        async def scenario(voice: Voice) -> None:
            utterance = voice.open(3)
            await utterance.push("The first sentence of a long reply is spoken here, and it goes on for a while. ")
            await utterance.push("The second one is never heard. ")
            await utterance.flush()
            heard = []
            async with asyncio.timeout(PROMPTLY_S):
                async for chunk in utterance:
                    heard.append(chunk)
                    await utterance.cancel()
            assert len(heard) == 1
            assert await collect(utterance) == []
            await utterance.close()
            assert {chunk.turn_id for chunk in await say(voice, 4, "The next reply. ")} == {4}

        run(scenario)

    def test_cancel_ends_a_wait_for_text(self, run: Run) -> None:
        async def scenario(voice: Voice) -> None:
            utterance = voice.open(1)
            async with asyncio.TaskGroup() as tasks:
                listening = tasks.create_task(collect(utterance))
                await asyncio.sleep(0)
                await utterance.cancel()
            assert listening.result() == []
            await utterance.close()

        run(scenario)

    def test_push_and_flush_after_cancel_do_nothing(self, run: Run) -> None:
        async def scenario(voice: Voice) -> None:
            utterance = voice.open(1)
            await utterance.push("Hello there. ")
            await utterance.cancel()
            await utterance.cancel()
            await utterance.push("Too late. ")
            await utterance.flush()
            assert await collect(utterance) == []
            await utterance.close()

        run(scenario)

    def test_close_may_be_repeated_and_cancels(self, run: Run) -> None:
        async def scenario(voice: Voice) -> None:
            utterance = voice.open(1)
            await utterance.push("Hello there. ")
            await utterance.close()
            await utterance.close()
            await utterance.push("Too late. ")
            assert await collect(utterance) == []
            await voice.open(2).close()

        run(scenario)

    def test_two_utterances_do_not_mix(self, run: Run) -> None:
        async def scenario(voice: Voice) -> None:
            short, long = ("Yes. ", "Goodbye. "), ("Your order will arrive tomorrow before noon. ",) * 4
            async with asyncio.TaskGroup() as tasks:
                first = tasks.create_task(say(voice, 1, *long))
                second = tasks.create_task(say(voice, 2, *short))
            assert {chunk.turn_id for chunk in first.result()} == {1}
            assert {chunk.turn_id for chunk in second.result()} == {2}
            assert seconds(first.result()) > 2 * seconds(second.result())

        run(scenario)

    def test_cancelling_one_utterance_leaves_the_other(self, run: Run) -> None:
        async def scenario(voice: Voice) -> None:
            doomed = voice.open(1)
            await doomed.push("This one is interrupted by its caller before it gets far. ")
            async with asyncio.TaskGroup() as tasks:
                other = tasks.create_task(say(voice, 2, "This one is heard. ", "To its end. "))
                async with aclosing(aiter(doomed)) as chunks:  # type: ignore[type-var]
                    await anext(chunks)
                await doomed.close()
            assert other.result()[-1].last
            assert {chunk.turn_id for chunk in other.result()} == {2}

        run(scenario)

    def test_long_replies_wait_for_room_and_lose_nothing(self, run: Run) -> None:
        async def scenario(voice: Voice) -> None:
            one = seconds(await say(voice, 1, "Yes. "))
            many = await say(voice, 2, *["Yes. "] * self.many)
            assert seconds(many) > 0.6 * self.many * one

        run(scenario)

    def test_failure_is_a_voice_error(self) -> None:
        async def body() -> None:
            async with self.failing() as voice:
                await voice.start()
                try:
                    with pytest.raises(VoiceError) as caught:
                        async with asyncio.timeout(PROMPTLY_S):
                            await _first_error(voice)
                    assert "secret" not in str(caught.value)
                finally:
                    await voice.stop()

        asyncio.run(body())

    def test_stop_ends_open_utterances_and_may_be_repeated(self) -> None:
        async def body() -> None:
            async with self.voice() as voice:
                await voice.start()
                utterance = voice.open(1)
                await utterance.push("Hello there. ")
                await voice.stop()
                await voice.stop()
                assert await collect(utterance) == []
                await utterance.close()

        asyncio.run(body())


async def _first_error(voice: Voice) -> None:
    try:
        await say(voice, 1, "A secret. ", "Another secret. ", "A third secret. ")
    except* VoiceError as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
