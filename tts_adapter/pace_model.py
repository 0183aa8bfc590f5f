"""What the pacer knows about the engine's rhythm: step time, burst size, and how late its own caller tends to be.

Pure. One object may outlive many replies and serve many calls at a time: a single reply is too short to learn from.
"""

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from operator import mul, sub

from tts_adapter.lags import cheapest_slack_s, record_lags

REPLY_STEPS = 64
_WINDOW_STEPS = 192
_REFRESH_STEPS = 8
_BLOCK_STEPS = 4
_LONGEST_STEP_S = 0.5
_PRIOR_STEP_S = 0.045
_RUIN_PROBABILITY = 0.0005
_LARGEST_SLACK_S = 0.5
_SLOW_DEVIATIONS = 2.0
_PRIOR_LATENESS_S = 0.001
_LATENESS_WINDOW = 256
_LATENESS_ALLOWANCE = 1.01
_REFRESH_LATENESS = 8
_LARGEST_LATENESS_SHARE = 0.1
_LATE_SHARE = 0.01
_LEAST_SAFE_SHARE = 0.6
_QUICK_SHARE = 0.75
_LARGEST_RESERVE_S = 0.001
_SAFE_RESERVES = 2
_OPENING_STEPS = 12
_REPLIES = 64
_EXTRA_SHARE = 0.08
_LARGEST_CREDIT_S = 0.2
_GAP_WORTH_S = 0.03


class PaceModel:
    """Online statistics of engine steps, over the last 192 of them.

    Args:
        slo_s: gap above which a token is late.

    The slack needed is the Cramér-Lundberg bound: the buffer's slack is a random walk that loses the step time and
    gains `slo_s` per token; with mean gain m and variance v per step it runs out from slack s with probability about
    exp(-2 m s / v). The variance is that of blocks of four steps, so that runs of poor acceptance count.
    """

    def __init__(self, slo_s: float = 0.020) -> None:
        self.slo_s = slo_s
        self._steps: deque[tuple[float, int]] = deque(maxlen=_WINDOW_STEPS)
        self._unseen = 0
        self._step_s = _PRIOR_STEP_S
        self._tokens_per_step = 0.0
        self._token_error = 0.0
        self._needed_slack_s = 0.0
        self._reserve_s = 0.0
        self._lateness_s = deque([_PRIOR_LATENESS_S])
        self._ordered_lateness_s = [_PRIOR_LATENESS_S]
        self._refresh_gap()
        self._credit_s = 0.0
        self._replies: deque[list[list[float]]] = deque(maxlen=_REPLIES)

    @property
    def steps(self) -> int:
        """Steps in the window."""
        return len(self._steps)

    @property
    def step_s(self) -> float:
        """Mean time between two bursts."""
        return self._step_s

    @property
    def token_s(self) -> float | None:
        """Mean time per token, None before anything was seen."""
        return self._step_s / self._tokens_per_step if self._tokens_per_step else None

    @property
    def is_slow(self) -> bool:
        """True where the engine's rate is below one token per `slo_s`, beyond doubt (two standard errors)."""
        if self.steps < 2:
            return False
        return self._step_s > self.slo_s * (self._tokens_per_step + 2 * self._token_error)

    @property
    def needed_slack_s(self) -> float:
        """Slack beyond the next expected burst that keeps the risk of running dry low; 0 before anything was seen."""
        return self._needed_slack_s

    @property
    def longest_gap_s(self) -> float:
        """The longest gap to aim at, so that it is within the SLO although the caller may be late.

        What the way to the listener adds is not seen here: an engine that takes well below the SLO per token leaves up
        to a millisecond for it.
        """
        return self._longest_gap_s

    @property
    def safe_gap_s(self) -> float:
        """A gap to aim at where tokens are in hand: within the SLO although the caller may be late, all but 1 % of times.

        Lateness of a busy caller is allowed for up to 8 ms of a 20 ms objective; the way to the
        listener is left twice what `longest_gap_s` leaves it.
        """
        return self._safe_gap_s

    @property
    def pace_s(self) -> float:
        """What such gaps come to on average."""
        return self._pace_s

    def observe_step(self, step_s: float, tokens: int) -> None:
        """A burst of `tokens` came `step_s` after the one before it."""
        self._steps.append((min(step_s, _LONGEST_STEP_S), tokens))
        self._unseen += 1
        if self._unseen >= _REFRESH_STEPS or self.steps <= _REFRESH_STEPS:
            self._refresh()

    def observe_lateness(self, late_s: float) -> None:
        """A token was released `late_s` after it was due."""
        late_s = min(late_s, self.slo_s)
        self._lateness_s.append(late_s)
        insort(self._ordered_lateness_s, late_s)
        if len(self._lateness_s) > _LATENESS_WINDOW:
            del self._ordered_lateness_s[bisect_left(self._ordered_lateness_s, self._lateness_s.popleft())]
        self._unseen_lateness += 1
        if self._unseen_lateness >= _REFRESH_LATENESS or self._longest_gap_s + late_s > self.slo_s:
            self._refresh_gap()

    def settle(self, steps: Sequence[tuple[float, int]], least_starved_s: float, starved_s: float) -> None:
        """A reply is over.

        Args:
            steps: its own (step_s, tokens), without the first burst; what comes after `REPLY_STEPS` is not used.
            least_starved_s: starved time that no schedule could have avoided after the reply's first release.
            starved_s: its own.
        """
        credit_s = self._credit_s + least_starved_s * (1 + _EXTRA_SHARE) - starved_s
        self._credit_s = max(-_LARGEST_CREDIT_S, min(credit_s, _LARGEST_CREDIT_S))
        if steps:
            self._replies.append(
                [record_lags(steps[after:REPLY_STEPS], self.pace_s) for after in range(_OPENING_STEPS)]
            )

    def wait_s(self, index: int, slack_s: float) -> float:
        """How long to wait in a gap that is late anyway, so that fewer others become late.

        Waiting is free where the time would have been starved later, and lost where not. From what earlier replies
        lacked after their step `index`, the wait is the one that costs least where a late gap costs as much as
        `_GAP_WORTH_S` of lost time. What was lost, over all replies, is kept within 8 % of the starved time that could
        not be avoided: the less of that is left, the less a late gap is worth.

        Args:
            index: of the reply's last step.
            slack_s: how long the buffered tokens last.
        """
        worth_s = _GAP_WORTH_S * self._credit_s / _LARGEST_CREDIT_S
        if worth_s <= 0 or not self._replies:
            return 0.0
        after = min(index, _OPENING_STEPS - 1)
        lags = [[lag for lag in reply[after] if lag > slack_s] for reply in self._replies]
        return cheapest_slack_s(lags, slack_s, worth_s) - slack_s

    def _refresh_gap(self) -> None:
        self._unseen_lateness = 0
        ordered = self._ordered_lateness_s
        worst_s = min(_LATENESS_ALLOWANCE * ordered[-1], _LARGEST_LATENESS_SHARE * self.slo_s)
        usual_s = ordered[-1 - math.ceil(_LATE_SHARE * len(ordered))] if len(ordered) > 1 else ordered[0]
        self._safe_gap_s = max(self.slo_s - usual_s - _SAFE_RESERVES * self._reserve_s, _LEAST_SAFE_SHARE * self.slo_s)
        self._longest_gap_s = self.slo_s - worst_s - self._reserve_s
        self._pace_s = min(self.slo_s, self._longest_gap_s + sum(ordered) / len(ordered))

    def _refresh(self) -> None:
        self._unseen = 0
        count = len(self._steps)
        times_s, tokens = zip(*self._steps, strict=True)
        self._step_s = sum(times_s) / count
        self._tokens_per_step = sum(tokens) / count
        spread = (sum(map(mul, tokens, tokens)) - sum(tokens) ** 2 / count) / max(1, count - 1)
        self._token_error = math.sqrt(spread / count)
        quick_s = _QUICK_SHARE * self.slo_s - self._step_s / self._tokens_per_step
        reserve_s = max(0.0, min(quick_s / 2, _LARGEST_RESERVE_S))
        if reserve_s != self._reserve_s:
            self._reserve_s = reserve_s
            self._refresh_gap()
        gain_s = self.slo_s * self._tokens_per_step - self._step_s
        variance = self._block_variance(gain_s)
        if self.is_slow:
            self._needed_slack_s = _SLOW_DEVIATIONS * math.sqrt(variance)
        elif gain_s <= 0:
            self._needed_slack_s = _LARGEST_SLACK_S
        else:
            wanted_s = -math.log(_RUIN_PROBABILITY) * variance / (2 * gain_s)
            self._needed_slack_s = min(wanted_s, _LARGEST_SLACK_S)

    def _block_variance(self, gain_s: float) -> float:
        """Variance of the slack's change per step, from sums over blocks of neighbouring steps."""
        changes = [self.slo_s * tokens - step - gain_s for step, tokens in self._steps]
        size = min(_BLOCK_STEPS, len(changes))
        until = [0.0, *accumulate(changes)]
        sums = list(map(sub, until[size:], until))
        squares: float = sum(map(mul, sums, sums))
        return squares / (len(sums) * size)
