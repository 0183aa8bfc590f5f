"""Turn-taking in every dialect, in virtual time: what leaves after an interrupt, and what is remembered of a reply."""

import asyncio

import pytest

from service.bridges.bridge import Cleared, Refused
from service.protocols.catalog import CATALOG
from service.protocols.events import Interrupted
from tests.service.native_bridge import AUDIO_DIALECTS, EVERY_DIALECT, TEXT_DIALECTS
from tests.service.virtual_call import REPLY, VirtualCall, dialogue, settle, virtual_call
from tests.virtual_time import run_virtual

every_dialect = pytest.mark.parametrize("name", EVERY_DIALECT)
every_audio_dialect = pytest.mark.parametrize("name", AUDIO_DIALECTS)
FRAME_S = 0.02
MS_PER_CHARACTER = 60.0  # of the tone voice
MARK_MS = 200.0


async def whole_reply(call: VirtualCall, replies: int = 1) -> None:
    """Until nothing has come for two seconds: the reply has been sent and played."""
    seen = -1
    while len(call.units()) != seen or seen < replies:
        seen = len(call.units())
        await asyncio.sleep(2.0)


async def interrupt(call: VirtualCall) -> None:
    frames = call.bridge.interrupt(call.now())
    if frames or call.bridge.dialect == "native":
        call.send(frames)
        await settle()
    else:  # as the listener does, once it has heard speech
        await call.session.take([Interrupted()])


@every_dialect
def test_two_turns_are_remembered_each_once_and_in_order(name: str) -> None:
    async def main() -> None:
        async with virtual_call(name) as call:
            for question in ("What are your hours?", "And on Sunday?", "Thank you."):
                await call.say(question)
                await whole_reply(call, len(call.units()) + 1)
            assert not call.count(Refused)
        assert dialogue(call.prompts[2]) == [
            ("user", "What are your hours?"),
            ("assistant", REPLY),
            ("user", "And on Sunday?"),
            ("assistant", REPLY),
            ("user", "Thank you."),
        ]

    run_virtual(main())


def points(name: str) -> list[int]:
    """Counts of tokens or frames after which to break in; the last is beyond the whole reply."""
    return [0, 1, 2, 5, 9, 999] if name in TEXT_DIALECTS else [0, 1, 2, 9, 10, 11, 45, 100, 168, 999]


@pytest.mark.parametrize(("name", "point"), [(name, point) for name in EVERY_DIALECT for point in points(name)])
def test_interrupted_at_every_point_of_a_reply(name: str, point: int) -> None:
    async def main() -> None:
        async with virtual_call(name) as call:
            await call.say("What are your hours?")
            if point == 999:
                await whole_reply(call)
            else:
                await call.until_units(point)
                await asyncio.sleep(0.003)
            played_ms, sent_text = call.bridge.heard_ms, call.text
            before, at = len(call.units()), call.now()
            await interrupt(call)
            await asyncio.sleep(3.0)
            late = [moment for moment, _ in call.units()[before:] if moment > at + FRAME_S]
            assert late == []
            assert call.engine.running == 0
            if name in AUDIO_DIALECTS:
                assert call.count(Cleared) == 1
            await call.say("And on Sunday?")
            await whole_reply(call, len(call.units()) + 1)
            assert not call.count(Refused)
        check_memory(name, call.prompts[1], played_ms, sent_text)
        if name in TEXT_DIALECTS:
            assert call.text[len(sent_text) :] == REPLY

    run_virtual(main())


def check_memory(name: str, prompt: str, played_ms: float, sent_text: str) -> None:
    """The second prompt holds what was heard of the first reply, whole words of it, never more than was played."""
    said = dialogue(prompt)
    if len(said) == 1:
        assert said == [("user", "What are your hours?\nAnd on Sunday?")]
        heard = ""
    else:
        [(_, question), (role, heard), last] = said
        assert (question, role, last) == ("What are your hours?", "assistant", ("user", "And on Sunday?"))
    assert REPLY.startswith(heard)
    assert (REPLY + " ")[len(heard)].isspace() or not heard
    if name in AUDIO_DIALECTS:
        # Segments have pauses of their own, so a character takes a little more than its tone.
        assert len(heard) <= played_ms / MS_PER_CHARACTER + 1
        longest_word_ms = 8 * MS_PER_CHARACTER
        assert len(heard) * MS_PER_CHARACTER >= min(played_ms, 3000.0) - MARK_MS - longest_word_ms - 100
    else:
        assert sent_text.startswith(heard)


@pytest.mark.parametrize(("name", "point"), [(name, point) for name in EVERY_DIALECT for point in points(name)])
def test_hung_up_at_every_point_of_a_reply(name: str, point: int) -> None:
    async def main() -> None:
        async with virtual_call(name) as call:
            await call.say("What are your hours?")
            if point == 999:
                await whole_reply(call)
            else:
                await call.until_units(point)
            before = len(call.units())
            call.hang_up()
            await settle()
            assert call.engine.running == 0
            assert call.socket.closed == [1000]
            await asyncio.sleep(3.0)
            assert len(call.units()) == before
        assert call.socket.closed == [1000]

    run_virtual(main())


@every_audio_dialect
def test_words_alone_interrupt_and_clear_what_the_bridge_still_plays(name: str) -> None:
    async def main() -> None:
        async with virtual_call(name) as call:
            await call.say("What are your hours?")
            await call.until_units(20)
            await call.say("Stop.")
            await settle()
            assert call.count(Cleared) == 1
            assert len(call.prompts) == 2

    run_virtual(main())


@pytest.mark.parametrize("name", ["twilio-relay", "jambonz", "twilio-media", "plivo-media", "asterisk"])
def test_keys_pressed_are_in_the_prompt_with_the_next_words(name: str) -> None:
    async def main() -> None:
        async with virtual_call(name) as call:
            for digit in "4#":
                call.send(call.bridge.press(digit))
            await settle()
            await call.say("That is my number.")
            await settle()
        assert dialogue(call.prompts[0]) == [("user", "(Keys pressed: 4#)\nThat is my number.")]

    run_virtual(main())


@pytest.mark.parametrize("name", ["twilio-media", "asterisk"])
def test_a_held_reply_goes_on_whole_and_one_cut_short_for_nothing_is_taken_up(name: str) -> None:
    def reply(prompt: str) -> str:
        _, _, said = prompt.rpartition("assistant\n")
        return REPLY.removeprefix(said)

    async def main() -> None:
        async with virtual_call(name, reply) as call:
            await call.say("What are your hours?")
            await call.until_units(50)
            call.channel.pause("caller")
            await asyncio.sleep(0.3)
            held = len(call.units())
            assert held <= 51
            await asyncio.sleep(0.3)
            assert len(call.units()) == held
            call.channel.resume("caller")
            await call.until_units(80)
            await call.session.take([Interrupted()])
            await asyncio.sleep(2.5)
            assert call.engine.running == 0
            await call.session.go_on()
            await whole_reply(call)
            await call.session.go_on()  # nothing was cut short this time
            await call.say("Thanks.")
            await settle()
        said = dialogue(call.prompts[-1])
        assert len(call.prompts) == 3
        assert [role for role, _ in said] == ["user", "assistant", "user"]
        assert said[1] == ("assistant", REPLY)

    run_virtual(main())


@every_dialect
def test_a_bridge_that_takes_nothing_loses_its_call_after_the_time_allowed(name: str) -> None:
    async def main() -> None:
        async with virtual_call(name, server__send_timeout_s="2") as call:
            await call.say("What are your hours?")
            await call.until_units(3)
            call.socket.stalled = True
            stalled_at = call.now()
            while not call.channel.lost:
                await asyncio.sleep(0.05)
            assert 1.9 <= call.now() - stalled_at <= 2.5
            await asyncio.sleep(0.1)
            assert call.engine.running == 0
            assert (
                call.metrics.registry.get_sample_value(
                    "voicepace_calls", {"surface": CATALOG[call.bridge.dialect].surface, "dialect": call.bridge.dialect}
                )
                == 0
            )

    run_virtual(main())


def test_a_reply_held_for_two_reasons_waits_for_both() -> None:
    async def main() -> None:
        async with virtual_call("asterisk") as call:
            await call.say("What are your hours?")
            await call.until_units(10)
            call.channel.pause()
            call.channel.pause("caller")
            await asyncio.sleep(0.1)
            held = len(call.units())
            call.channel.resume("caller")
            await asyncio.sleep(0.5)
            assert len(call.units()) == held
            call.channel.resume()
            await call.until_units(held + 10)

    run_virtual(main())


def test_a_transcript_without_words_interrupts_nothing() -> None:
    async def main() -> None:
        async with virtual_call("twilio-media") as call:
            await call.say("What are your hours?")
            await call.until_units(10)
            await call.say("  ")
            assert call.count(Cleared) == 0
            await call.until_units(20)
            assert len(call.prompts) == 1

    run_virtual(main())
