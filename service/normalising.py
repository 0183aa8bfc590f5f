"""Whether and how the text of a reply is written out before a voice gets it."""

from pathlib import Path

from service.settings import Settings, SettingsError
from tts_adapter.normaliser import Normaliser, parse_vocabulary

# They read what they are given; the services write numbers out themselves.
LOCAL_VOICES = frozenset({"piper", "kokoro", "tone"})


def make_normaliser(settings: Settings) -> Normaliser | None:
    """The normaliser that the settings ask for, or None.

    Raises:
        SettingsError: the vocabulary file cannot be read.
    """
    speech = settings.speech
    local = bool(settings.voice.names) and LOCAL_VOICES.issuperset(settings.voice.names)
    if speech.normalise == "off" or (speech.normalise == "auto" and not local):
        return None
    if speech.vocabulary_file is None:
        return Normaliser()
    try:
        return Normaliser(parse_vocabulary(Path(speech.vocabulary_file).expanduser().read_text()))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SettingsError(f"speech.vocabulary_file: {reason}") from None
