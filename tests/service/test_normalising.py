"""When text is written out for the voice, and what the vocabulary file adds."""

from pathlib import Path

import pytest

from service.normalising import make_normaliser
from service.settings import SettingsError, load_settings


def test_local_voices_get_numbers_in_words_and_services_do_not() -> None:
    normaliser = make_normaliser(load_settings({"voice.names": '["piper"]'}, environ={}))
    assert normaliser is not None
    assert normaliser.spoken("It costs $3.14.").text == "It costs three dollars and fourteen cents."
    assert make_normaliser(load_settings({"voice.names": '["elevenlabs"]'}, environ={})) is None
    assert make_normaliser(load_settings({"voice.names": "[]"}, environ={})) is None
    assert make_normaliser(load_settings({"speech.normalise": "off"}, environ={})) is None
    assert make_normaliser(load_settings({"voice.names": '["elevenlabs"]', "speech.normalise": "on"}, environ={}))


def test_a_vocabulary_file_overrides_and_a_broken_one_is_named(tmp_path: Path) -> None:
    file = tmp_path / "words"
    file.write_text("# ours\nSQL = sequel\n")
    normaliser = make_normaliser(load_settings({"speech.vocabulary_file": str(file)}, environ={}))
    assert normaliser is not None
    assert normaliser.spoken("Our SQL runs.").text == "Our sequel runs."
    file.write_text("SQL sequel\n")
    with pytest.raises(SettingsError, match=r"^speech\.vocabulary_file: line 1"):
        make_normaliser(load_settings({"speech.vocabulary_file": str(file)}, environ={}))
    with pytest.raises(SettingsError, match="No such file"):
        make_normaliser(load_settings({"speech.vocabulary_file": str(tmp_path / "absent")}, environ={}))
