"""Names in the settings become voices; heavy packages are imported only for the voice that needs them."""

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from tts_adapter.voice import VoiceError
from tts_adapter.voices import catalog
from tts_adapter.voices.catalog import VOICE_NAMES, make_one, make_voice
from tts_adapter.voices.fallback import FallbackVoice
from tts_adapter.voices.options import VoiceOptions

COMPLETE = VoiceOptions.model_validate(
    {
        "elevenlabs": {"api_key": "k", "voice_id": "v"},
        "cartesia": {"api_key": "k", "voice_id": "v"},
        "deepgram": {"api_key": "k"},
        "openai": {"api_key": "k"},
        "rime": {"api_key": "k"},
    }
)


@pytest.mark.parametrize("name", VOICE_NAMES)
def test_every_name_makes_its_voice(name: str) -> None:
    voice = make_one(name, COMPLETE)
    assert voice.name == name
    assert voice.accepts_tokens == (name in {"elevenlabs", "cartesia"})


def test_one_name_is_one_voice_several_stand_in_for_each_other_and_none_is_none() -> None:
    assert make_voice(VoiceOptions(names=())) is None
    one = make_voice(VoiceOptions())
    assert one is not None
    assert one.name == "piper"
    several = make_voice(COMPLETE.model_copy(update={"names": ("elevenlabs", "piper")}))
    assert isinstance(several, FallbackVoice)
    assert several.name == "elevenlabs,piper"


def test_a_list_that_holds_a_clause_voice_is_fed_segments_throughout() -> None:
    mixed = make_voice(COMPLETE.model_copy(update={"names": ("elevenlabs", "piper")}))
    assert mixed is not None
    assert not mixed.accepts_tokens
    assert isinstance(mixed, FallbackVoice)
    assert [voice.accepts_tokens for voice in mixed.voices] == [False, False]
    tokens = make_voice(COMPLETE.model_copy(update={"names": ("elevenlabs", "cartesia")}))
    assert tokens is not None
    assert tokens.accepts_tokens


def test_an_unknown_name_names_those_there_are() -> None:
    with pytest.raises(VoiceError, match="no voice is called espeak; there are piper, tone, elevenlabs"):
        make_one("espeak", VoiceOptions())
    with pytest.raises(ValidationError, match="names"):
        VoiceOptions.model_validate({"names": ["espeak"]})


@pytest.mark.parametrize("name", ["elevenlabs", "cartesia", "deepgram", "openai", "rime"])
def test_a_missing_key_is_named(name: str) -> None:
    with pytest.raises(VoiceError, match=rf"voice\.{name}\.api_key"):
        make_one(name, VoiceOptions())


def test_an_unknown_setting_is_an_error_that_names_it() -> None:
    with pytest.raises(ValidationError, match="pitch"):
        VoiceOptions.model_validate({"piper": {"pitch": 2}})


@pytest.mark.parametrize("name", ["elevenlabs", "cartesia", "deepgram", "openai", "rime"])
def test_keys_do_not_show(name: str) -> None:
    section = {"api_key": "do-not-show", **({"voice_id": "v"} if name in {"elevenlabs", "cartesia"} else {})}
    options = VoiceOptions.model_validate({name: section})
    assert "do-not-show" not in repr(options)
    assert isinstance(getattr(options, name).api_key, SecretStr)
    assert "do-not-show" not in repr(make_one(name, options).__dict__)


def test_settings_and_catalog_import_no_voice() -> None:
    code = (
        "import sys; import tts_adapter.voices.options, tts_adapter.voices.catalog; "
        "print([m for m in ('numpy', 'websockets', 'httpx', 'piper', 'onnxruntime') if m in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "websockets" not in output
    assert "httpx" not in output
    assert "piper" not in output
    assert "onnxruntime" not in output


def test_the_table_of_the_readme_has_every_voice() -> None:
    table = (Path(catalog.__file__).parent / "README.md").read_text()
    named = {line.split("`")[1] for line in table.splitlines() if line.startswith("| `")}
    assert named == set(VOICE_NAMES)
