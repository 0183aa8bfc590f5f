"""What a plan refuses."""


class PlanError(ValueError):
    """An input of the plan is wrong.

    Args:
        parameter: its name, as a user knows it.
        reason: what is wrong with it, one line.
    """

    def __init__(self, parameter: str, reason: str) -> None:
        super().__init__(f"{parameter}: {reason}")
        self.parameter = parameter
        self.reason = reason


def require_positive(parameter: str, value: float) -> None:
    """Raises `PlanError` unless `value` is finite and above 0."""
    if not 0 < value < float("inf"):
        raise PlanError(parameter, f"must be a finite number above 0, got {value:g}")
