"""Recording traces, from an engine of known times."""

import argparse
from pathlib import Path

import pytest

from engine.fake import Script, ScriptedEngine
from service.trace_bench import add_arguments, replies_of, run
from tests.virtual_time import run_virtual
from tts_adapter.bench.traces import Burst


def recorded(calls: int, replies: int, tokens: int) -> list[list[Burst]]:
    async def record() -> list[list[Burst]]:
        engine = ScriptedEngine("word " * 40, Script((), 0.1, 0.03, (2,)))
        await engine.start()
        try:
            return await replies_of(engine, calls, replies, tokens)
        finally:
            await engine.stop()

    return run_virtual(record())


def test_every_reply_of_every_call_is_there_with_the_engines_own_times() -> None:
    replies = recorded(calls=3, replies=4, tokens=20)
    assert len(replies) == 12
    for reply in replies:
        assert [count for _, count in reply] == [2] * 10
        gaps = [after - before for (before, _), (after, _) in zip(reply, reply[1:], strict=False)]
        assert gaps == pytest.approx([0.03] * 9)
    begun = sorted(reply[0][0] for reply in replies)
    assert begun[2] == pytest.approx(begun[0])  # three calls at a time
    assert begun[3] == pytest.approx(begun[0] + 9 * 0.03 + 0.1)  # the next replies follow at once


def test_a_reply_of_one_burst_is_no_trace() -> None:
    assert recorded(calls=1, replies=3, tokens=2) == []


@pytest.mark.parametrize("setting", ["engine.speculation", "engine.no_such=1"])
def test_a_bad_setting_is_named(setting: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert run(parser.parse_args(["--set", setting, "--out", str(tmp_path)])) == 2
    assert setting.partition("=")[0] in capsys.readouterr().err
