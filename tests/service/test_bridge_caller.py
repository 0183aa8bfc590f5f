"""`voicepace call` in the dialects of bridges, against a running service."""

import argparse
import json
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.fake import Script, ScriptedEngine
from service import call
from service.bridges.catalog import BRIDGES
from service.settings import load_settings
from tests.service.running import Running, running_service
from tts_adapter.voices.tone import ToneVoice

REPLY = "We open at nine every day, but on Sunday we stay closed."
TEXT_BRIDGES = sorted(name for name in BRIDGES if BRIDGES[name]().audio is None)
AUDIO_BRIDGES = sorted(set(BRIDGES) - set(TEXT_BRIDGES))


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    settings = load_settings({"scripted.enabled": "true", "auth.api_keys": '["k1"]'}, environ={})
    engine = ScriptedEngine(REPLY, Script(first_token_s=0.02, step_time_s=0.03))
    with running_service(settings, engine, ToneVoice()) as running:
        yield running


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VP_TEST_KEY", "k1")


def run(service: Running, *argv: str) -> int:
    parser = argparse.ArgumentParser()
    call.add_arguments(parser)
    return call.run(parser.parse_args([*argv, "--url", service.ws, "--key-env", "VP_TEST_KEY"]))


def outcome(service: Running, capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert run(service, *argv, "--json") == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert told["failure"] is None
    return told


@pytest.mark.parametrize("name", TEXT_BRIDGES)
def test_two_turns_in_text(service: Running, capsys: pytest.CaptureFixture[str], name: str) -> None:
    told = outcome(service, capsys, "When?", "And then?", "--dialect", name)
    assert [reply["text"] for reply in told["replies"]] == [REPLY] * 2
    assert told["figures"]["reasons"] == {"stop": 2}


@pytest.mark.parametrize("name", TEXT_BRIDGES)
def test_an_interruption_in_text(service: Running, capsys: pytest.CaptureFixture[str], name: str) -> None:
    told = outcome(service, capsys, "When?", "--dialect", name, "--interrupt-after", "0")
    [reply] = told["replies"]
    assert (reply["reason"], told["figures"]["output_after_end"]) == ("interrupted", 0)
    assert REPLY.startswith(reply["text"])


@pytest.mark.parametrize("name", AUDIO_BRIDGES)
def test_breaking_in_on_an_audio_bridge(
    service: Running, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    path = tmp_path / "heard.wav"
    told = outcome(service, capsys, "When?", "Stop.", "--dialect", name, "--interrupt-after", "0.2", "--out", str(path))
    assert [reply["reason"] for reply in told["replies"]] == ["interrupted", "pause"]
    assert told["figures"]["first_audio_ms"]["max"] > 0
    with wave.open(str(path)) as file:
        assert file.getnframes() / file.getframerate() > 2.5


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["When?", "--dialect", "twilio-relay", "--out", "x.wav"], "this dialect has none"),
        (["When?", "--dialect", "asterisk", "--interrupt-after", "1"], "with a further TEXT"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(
    service: Running, capsys: pytest.CaptureFixture[str], argv: list[str], said: str
) -> None:
    assert run(service, *argv) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
