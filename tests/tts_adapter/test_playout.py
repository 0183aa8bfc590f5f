"""Exact frames on a drift-free schedule, one loudness, no clicks, positions that hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tts_adapter.options import PlayoutOptions
from tts_adapter.playout import Frame, Playout

RATE = 8000
PLAIN = PlayoutOptions(target_level_dbfs=None, fade_ms=0.0, lead_ms=0.0)


def ramp(length: int, start: int = 0) -> np.ndarray:
    return (np.arange(start, start + length) % 1000 + 1).astype(np.int16)


def tone(seconds: float, level: int = 8000, hz: float = 200.0) -> np.ndarray:
    return (level * np.sin(np.arange(int(seconds * RATE)) * 2 * np.pi * hz / RATE)).astype(np.int16)


def play(playout: Playout, until: float, now: float = 0.0) -> list[tuple[float, Frame]]:
    """Ask at every wakeup, as a punctual caller does."""
    sent: list[tuple[float, Frame]] = []
    while (wakeup := playout.next_wakeup()) is not None and wakeup <= until:
        now = max(now, wakeup)
        sent += [(now, frame) for frame in playout.frames_due(now)]
    return sent


@pytest.mark.parametrize("rate", [8000, 16000, 22050, 24000])
def test_frames_are_exact_and_the_schedule_does_not_drift(rate: int) -> None:
    playout = Playout(rate, PLAIN)
    audio = ramp(rate * 20)
    playout.push(audio, 0, True, 0.3)
    playout.finish(0.3)
    sent = play(playout, 100.0)
    assert len(sent) == 1000
    assert all(len(frame.samples) == rate // 50 for _, frame in sent)
    assert [now for now, _ in sent] == pytest.approx([0.3 + 0.02 * index for index in range(1000)], abs=1e-9)
    assert np.array_equal(np.concatenate([frame.samples for _, frame in sent]), audio)
    assert playout.done
    assert playout.underruns_s == ()


def test_a_rate_without_whole_frames_is_refused() -> None:
    with pytest.raises(ValueError, match="sample_rate_hz"):
        Playout(11025)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 700), st.booleans(), st.floats(0, 0.1)), min_size=1, max_size=25),
    st.lists(st.floats(0.0, 0.3), min_size=200, max_size=200),
    st.booleans(),
)
def test_every_sample_leaves_once_in_order_and_in_whole_frames(
    pushes: list[tuple[int, bool, float]], waits: list[float], steady: bool
) -> None:
    playout = Playout(RATE, PLAIN.model_copy(update={"silence_between_segments": steady}))
    now, segment, total = 0.0, 0, 0
    frames: list[Frame] = []
    waiting = iter(waits)
    for length, last, gap in pushes:
        playout.push(ramp(length, total), segment, last, now)
        total += length
        segment += last
        now += gap
        frames += playout.frames_due(now)
    playout.finish(now)
    while not playout.done:
        wakeup = playout.next_wakeup()
        assert wakeup is not None
        now = max(now, wakeup) + next(waiting, 0.0)
        due = playout.frames_due(now)
        assert len(due) <= PLAIN.max_burst_frames
        frames += due
    assert all(len(frame.samples) == 160 for frame in frames)
    audio = np.concatenate([frame.samples for frame in frames]) if frames else np.zeros(0, np.int16)
    assert np.array_equal(audio[audio != 0], ramp(total))
    assert playout.position.samples == total
    positions = [frame.position for frame in frames]
    assert positions == sorted(positions)


def test_a_late_caller_gets_a_bounded_burst_and_then_real_time() -> None:
    playout = Playout(RATE, PLAIN)
    playout.push(ramp(RATE * 10), 0, True, 0.0)
    assert len(playout.frames_due(0.0)) == 1
    assert len(playout.frames_due(0.0801)) == 4
    assert len(playout.frames_due(3.0)) == 5
    assert playout.frames_due(3.0) == []
    assert playout.next_wakeup() == pytest.approx(3.02)
    assert len(playout.frames_due(3.02)) == 1


def test_a_slow_sink_never_gets_more_than_real_time_and_one_burst() -> None:
    playout = Playout(RATE, PLAIN)
    playout.push(ramp(RATE * 20), 0, True, 0.0)
    now, sent = 0.0, 0
    for _ in range(50):
        now += 0.2
        sent += len(playout.frames_due(now))
        assert sent <= now / 0.02 + PLAIN.max_burst_frames
    assert sent < 50 * 6


def test_sound_starts_at_the_watermark_or_with_a_short_reply() -> None:
    playout = Playout(RATE, PLAIN)
    playout.push(ramp(200), 0, False, 0.0)
    assert playout.next_wakeup() is None
    playout.push(ramp(440), 0, False, 0.03)
    assert playout.next_wakeup() == 0.03
    short = Playout(RATE, PLAIN)
    short.push(ramp(50), 0, True, 0.5)
    assert short.next_wakeup() == 0.5
    assert [frame.position for _, frame in play(short, 9.0)] == [50]


def test_an_underrun_is_counted_with_its_length_and_resumes_with_audio_in_hand() -> None:
    playout = Playout(RATE, PLAIN)
    playout.push(ramp(1600), 0, False, 0.0)
    assert len(play(playout, 1.0)) == 10 + 1  # the last one fades to silence
    assert playout.next_wakeup() is None
    playout.push(ramp(160), 0, False, 0.5)
    assert playout.next_wakeup() is None
    playout.push(ramp(480), 0, False, 0.6)
    assert playout.next_wakeup() == 0.6
    assert playout.underruns_s == pytest.approx((0.4,))
    play(playout, 2.0)
    playout.finish(3.0)
    assert playout.underruns_s == pytest.approx((0.4,))


def test_a_steady_stream_fills_gaps_with_silence_on_the_same_schedule() -> None:
    playout = Playout(RATE, PLAIN.model_copy(update={"silence_between_segments": True}))
    playout.push(ramp(320), 0, True, 0.0)
    frames = play(playout, 0.199)
    assert [round(now, 3) for now, _ in frames] == [0.02 * index for index in range(10)] or len(frames) == 10
    assert [frame.silent for _, frame in frames] == [False] * 2 + [True] * 8
    playout.push(ramp(320), 1, True, 0.205)
    playout.finish(0.205)
    after = play(playout, 1.0)
    assert [frame.position for _, frame in after] == [480, 640]
    assert [now for now, _ in after] == pytest.approx([0.2 + 0.005, 0.22], abs=0.006)
    # 0.16 s of silence lies between the segments on the line.
    assert playout.position_after(0.1).samples == 320
    assert playout.position_after(0.21).samples == 320 + 80
    assert playout.position_after(9.0).samples == 640


def test_positions_name_the_segment_and_how_much_of_it() -> None:
    playout = Playout(RATE, PLAIN)
    playout.push(ramp(800), 0, True, 0.0)
    playout.push(ramp(1600), 3, True, 0.0)
    assert playout.position.segment == -1
    play(playout, 0.199)
    position = playout.position
    assert (position.samples, position.segment, position.fraction, position.complete) == (1600, 3, 0.5, True)
    assert (playout.position_at(400).segment, playout.position_at(400).fraction) == (0, 0.5)
    assert playout.position_at(800).fraction == 1.0
    assert playout.position_after(0.05).samples == 400


def test_interrupt_stops_at_once_and_keeps_the_position() -> None:
    playout = Playout(RATE, PlayoutOptions(target_level_dbfs=None, lead_ms=0.0))
    playout.push(tone(2.0), 0, True, 0.0)
    play(playout, 0.099)
    position = playout.interrupt(0.1)
    assert position.samples == 5 * 160
    assert playout.next_wakeup() is None
    assert playout.frames_due(5.0) == []
    playout.push(tone(1.0), 1, True, 0.2)
    assert playout.done
    assert playout.interrupt(9.0) == position
    assert playout.fade_frame is not None
    assert len(playout.fade_frame) == 160
    assert abs(int(playout.fade_frame[-1])) == 0


def largest_step(samples: np.ndarray) -> int:
    return int(np.abs(np.diff(samples.astype(int))).max())


def test_no_click_at_joints_underruns_ends_or_interrupts() -> None:
    natural = largest_step(tone(1.0))
    playout = Playout(RATE, PlayoutOptions(target_level_dbfs=None, lead_ms=0.0))
    playout.push(tone(0.2)[: 1600 - 10], 0, True, 0.0)  # ends away from zero
    second = tone(0.8)[10:]
    playout.push(second[:2390], 1, False, 0.0)  # begins away from zero, then runs dry
    frames = [frame for _, frame in play(playout, 1.0)]
    playout.push(second[2390:], 1, True, 1.0)  # resumes away from zero
    frames += [frame for _, frame in play(playout, 1.099)]
    playout.interrupt(1.1)
    assert playout.fade_frame is not None
    samples = np.concatenate([np.zeros(1, np.int16), *[frame.samples for frame in frames], playout.fade_frame])
    hard = np.concatenate([tone(0.2)[: 1600 - 10], second])
    assert largest_step(samples) <= natural * 1.3
    assert largest_step(hard) > natural * 1.3


def test_one_gain_over_the_whole_reply() -> None:
    playout = Playout(RATE, PlayoutOptions(fade_ms=0.0, target_level_dbfs=-20.0, max_gain_db=12.0, lead_ms=0.0))
    playout.push(tone(1.0, level=2000), 0, True, 0.0)
    sent = play(playout, 0.5)
    playout.push(tone(1.0, level=1000), 1, True, 0.5)
    playout.finish(0.5)
    sent += play(playout, 9.0)
    samples = np.concatenate([frame.samples for _, frame in sent]).astype(float)
    first, second = np.abs(samples[:8000]).max(), np.abs(samples[8000:]).max()
    assert first / second == pytest.approx(2.0, rel=0.01)
    rms_dbfs = 20 * np.log10(np.sqrt(np.mean((samples[:8000] / 32768) ** 2)))
    assert rms_dbfs == pytest.approx(-20.0, abs=0.7)


def test_gain_is_bounded_and_never_clips_what_is_known() -> None:
    quiet = Playout(RATE, PlayoutOptions(fade_ms=0.0, max_gain_db=6.0, lead_ms=0.0))
    quiet.push(tone(0.1, level=100), 0, True, 0.0)
    assert np.abs(play(quiet, 1.0)[1][1].samples).max() <= 200
    peaky = Playout(RATE, PlayoutOptions(fade_ms=0.0, max_gain_db=30.0, target_level_dbfs=0.0, lead_ms=0.0))
    audio = np.where(np.arange(1600) % 400 == 7, 20000, 3000).astype(np.int16)
    peaky.push(audio, 0, True, 0.0)
    assert max(int(np.abs(frame.samples.astype(int)).max()) for _, frame in play(peaky, 1.0)) <= 0.91 * 32768


def test_a_voice_far_ahead_has_to_wait() -> None:
    playout = Playout(RATE, PLAIN.model_copy(update={"max_buffered_s": 1.0}))
    playout.push(ramp(7999), 0, False, 0.0)
    assert playout.has_room
    playout.push(ramp(1), 0, False, 0.0)
    assert not playout.has_room
    playout.frames_due(0.0)
    assert playout.has_room


def test_the_far_end_holds_a_frame_from_the_first_one_on_and_again_after_an_underrun() -> None:
    playout = Playout(RATE, PlayoutOptions(target_level_dbfs=None))
    lead_s = playout.options.lead_ms / 1000
    assert lead_s == 0.02
    frame = playout.frame_samples
    playout.push(tone(0.1), 0, False, 0.0)
    # What the far end has played by a moment never reaches what it was sent.
    for tick in range(1, 5):
        now = 0.02 * tick - 0.001
        playout.frames_due(now)
        assert playout.position.samples == frame * (tick + 1)
    playout.frames_due(0.3)
    assert playout.next_wakeup() is None
    playout.push(tone(0.1), 0, True, 0.3)
    assert len(playout.frames_due(0.3)) == 2
    assert playout.next_wakeup() == pytest.approx(0.32)


def test_a_lead_sends_ahead_of_real_time_once() -> None:
    playout = Playout(RATE, PLAIN.model_copy(update={"lead_ms": 100.0}))
    playout.push(ramp(RATE), 0, True, 0.0)
    assert len(playout.frames_due(0.0)) == 6
    assert playout.next_wakeup() == pytest.approx(0.02)
