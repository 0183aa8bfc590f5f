"""From samples sent on the line, silence included, back to samples of the reply's audio. Pure."""

from bisect import bisect_right


class LineMap:
    """Frames as they were sent. Only frames that are not wholly audio take memory."""

    def __init__(self) -> None:
        self._sent = 0
        self._audio = 0
        self._line_ends: list[int] = [0]
        self._audio_ends: list[int] = [0]

    def add(self, frame_samples: int, audio_position: int) -> None:
        """A frame was sent, after which `audio_position` samples of audio had been sent in total."""
        whole = audio_position - self._audio == frame_samples
        if not whole:
            self._line_ends += [self._sent + audio_position - self._audio, self._sent + frame_samples]
            self._audio_ends += [audio_position, audio_position]
        self._sent += frame_samples
        self._audio = audio_position

    def audio_at(self, line_samples: int) -> int:
        """Samples of audio among the first `line_samples` samples sent."""
        line_samples = max(0, min(line_samples, self._sent))
        last = bisect_right(self._line_ends, line_samples) - 1
        audio = self._audio_ends[last] + line_samples - self._line_ends[last]
        following = self._audio_ends[last + 1] if last + 1 < len(self._audio_ends) else self._audio
        return min(audio, following)
