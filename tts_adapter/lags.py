"""How far a reply's tokens fell behind, and how much slack would have been worth its price. Pure.

*Slack* is how long the tokens in hand last at one per SLO. The *lag* of a later step is the slack that it takes to have
a token left when that step's tokens come; a step whose lag is above that of all steps before it is a late gap for
whoever begins with less.
"""

from collections.abc import Sequence


def record_lags(steps: Sequence[tuple[float, int]], slo_s: float) -> list[float]:
    """The lags that are above all before them, ascending, from (step_s, tokens) of the steps to come.

    A listener who begins with slack s hears one late gap for each of them above s, and starves for what the last is
    above s.
    """
    records: list[float] = []
    lag = highest = 0.0
    for step_s, tokens in steps:
        lag += step_s
        if lag > highest:
            records.append(lag)
            highest = lag
        lag -= slo_s * tokens
    return records


def cheapest_slack_s(replies: Sequence[Sequence[float]], slack_s: float, gap_worth_s: float) -> float:
    """The slack to go on with that costs least on average over `replies`.

    A reply costs the time waited for the slack, the time starved for want of more, and `gap_worth_s` for each late gap
    that is left.

    Args:
        replies: record lags of each that are above `slack_s`, ascending.
        slack_s: in hand.
        gap_worth_s: how much waiting one late gap is worth.
    """
    records = sorted(lag for reply in replies for lag in reply)
    highest = sorted(reply[-1] for reply in replies if reply)
    waited_s, starved_s = 0.0, sum(lag - slack_s for lag in highest)
    best_s, best = slack_s, starved_s + gap_worth_s * len(records)
    passed = 0
    for number, lag in enumerate(records, 1):
        while passed < len(highest) and highest[passed] <= lag:
            passed += 1
        starved_s = sum(highest[passed:]) - lag * (len(highest) - passed)
        waited_s = (lag - slack_s) * len(replies)
        cost = waited_s + starved_s + gap_worth_s * (len(records) - number)
        if cost < best:
            best_s, best = lag, cost
    return best_s
