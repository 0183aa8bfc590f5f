"""When text cut for a voice will have been spoken: by its audio where that has come, else by its words. Pure."""

from dataclasses import dataclass

_PRIOR_WORDS = 6.0
"""The rate of speech that is assumed weighs as much as so many words whose audio is known."""


@dataclass(slots=True)
class _Cut:
    words: int
    heard_s: float = 0.0
    complete: bool = False


class SpokenTime:
    """One reply.

    Args:
        words_per_second: rate of speech assumed before any was heard.
    """

    def __init__(self, words_per_second: float) -> None:
        self._words_per_second = words_per_second
        self._cuts: list[_Cut] = []
        self._audio_until = 0.0

    @property
    def until(self) -> float:
        """When speech runs out, if nothing more is cut."""
        rate = self._rate()
        left = (max(0.0, cut.words / rate - cut.heard_s) for cut in self._cuts if not cut.complete)
        return self._audio_until + sum(left)

    def cut(self, words: int, now: float) -> None:
        """The next segment, with so many words, goes to the voice."""
        self._audio_until += max(0.0, now - self.until)
        self._cuts.append(_Cut(words))

    def heard(self, segment: int, seconds: float, last: bool, in_hand_s: float, now: float) -> None:
        """So much more audio of a segment (counted from 0) has come, and so much is now waiting to be played."""
        if segment >= len(self._cuts):
            return
        cut = self._cuts[segment]
        cut.heard_s += seconds
        for earlier in self._cuts[:segment]:
            earlier.complete = True
        cut.complete = cut.complete or last
        self._audio_until = now + in_hand_s

    def _rate(self) -> float:
        """Words per second, of this voice as far as it is known."""
        complete = [cut for cut in self._cuts if cut.complete]
        words = _PRIOR_WORDS + sum(cut.words for cut in complete)
        return words / (_PRIOR_WORDS / self._words_per_second + sum(cut.heard_s for cut in complete))
