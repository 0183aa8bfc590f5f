"""A telephony bridge of `service.bridges` as a simulated caller's line. Pure.

Such dialects number no turns, so the line does: a turn begins when the caller has spoken. Where the caller broke in by
speaking, what still comes until the service clears the bridge's buffer is the old turn's.
"""

from service.bridges.bridge import (
    AudioArrived,
    Bridge,
    CallOver,
    Cleared,
    Fact,
    Refused,
    ReplyEnded,
    TextArrived,
    Transcript,
)
from service.bridges.relay import RelayBridge
from service.loadtest.line import Ear, silence
from service.protocols.events import Frame

BUSY_S = 0.1  # audio this recent means that a reply is under way
CLEAR_WITHIN_S = 1.0


class BridgeLine:
    """One call through a bridge."""

    tick_s: float = 0.1
    says_interrupted: bool = False

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self.subprotocol = bridge.subprotocol
        self.has_audio = bridge.audio is not None
        self.says_end = not self.has_audio
        self.can_interrupt = not self.has_audio
        self._frame_bytes = bridge.audio.frame_bytes if bridge.audio else 1
        self._silence = silence(bridge.audio) if bridge.audio else b""
        self._turn_id = 0
        self._index = 0
        self._heard_s = float("-inf")
        self._broke_in_s: float | None = None

    def start(self, ear: Ear) -> list[Frame]:
        ear.ready()  # these dialects do not say so
        return self._bridge.opening()

    def said(self, text: str, final: bool, now: float) -> list[Frame] | Transcript:
        if not final:
            return self._guessed(text, now)
        if self.has_audio and now - self._heard_s < BUSY_S:
            self._broke_in_s = now
        else:
            self._next_turn()
        return self._bridge.say(text, now)

    def _guessed(self, text: str, now: float) -> list[Frame] | Transcript:
        if isinstance(self._bridge, RelayBridge):
            return self._bridge.say_partly(text)
        said = self._bridge.say(text, now)
        return Transcript(said.path, {**said.body, "final": False}) if isinstance(said, Transcript) else []

    def interrupt(self, heard_ms: float | None, now: float) -> list[Frame]:
        return self._bridge.interrupt(now)

    def tick(self, turn_id: int, audio_ms: float | None, token_index: int | None, now: float) -> list[Frame]:
        return self._bridge.tick(now)

    def caller_audio(self, now: float) -> list[Frame]:
        return self._bridge.caller_audio(self._silence, now) if self.has_audio else []

    def end(self) -> list[Frame]:
        return self._bridge.hang_up()

    def receive(self, data: Frame, now: float, ear: Ear) -> list[Frame]:
        facts, answers = self._bridge.receive(data, now)
        for fact in facts:
            self._tell(fact, now, ear)
        return answers

    def _tell(self, fact: Fact, now: float, ear: Ear) -> None:
        match fact:
            case AudioArrived(payload):
                if self._broke_in_s is not None and now > self._broke_in_s + CLEAR_WITHIN_S:
                    self._next_turn()  # nothing had to be cleared: the reply had just ended
                self._heard_s = now
                ear.audio(self._turn_id, max(1, round(len(payload) / self._frame_bytes)), now)
            case TextArrived(text):
                ear.token(self._turn_id, text, self._index, now)
                self._index += 1
            case ReplyEnded():
                ear.turn_ended(self._turn_id, "stop", {}, now)
            case Cleared():
                ear.cleared(self._turn_id, now)
                if self._broke_in_s is not None:
                    ear.turn_ended(self._turn_id, "interrupted", {}, now)
                    self._next_turn()
            case Refused(reason):
                ear.fault(reason)
            case CallOver():
                ear.ended()

    def _next_turn(self) -> None:
        self._turn_id += 1
        self._index = 0
        self._broke_in_s = None
