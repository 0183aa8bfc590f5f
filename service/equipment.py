"""What every call of a service shares."""

from dataclasses import dataclass, field

from engine.api import Engine
from service.calls import Calls
from service.metrics import Metrics
from service.settings import Settings
from service.speech_detector import SpeechModel
from service.tool_use import MakeReader
from service.traces import Traces
from tts_adapter.normaliser import Normaliser
from tts_adapter.pace_model import PaceModel
from tts_adapter.voice import Voice


@dataclass(frozen=True, slots=True)
class Equipment:
    """Engine, voice, settings and books of one service.

    `speech_model` None: callers are not listened to. `tool_reader` None: no call has tools.
    """

    engine: Engine
    voice: Voice | None
    settings: Settings
    metrics: Metrics
    calls: Calls
    pace_model: PaceModel
    speech_model: SpeechModel | None = None
    normaliser: Normaliser | None = None
    tool_reader: MakeReader | None = None
    traces: Traces = field(default_factory=Traces)
