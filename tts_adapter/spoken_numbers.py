"""English words for numbers, through inflect (MIT). Importing inflect takes a second: make one object at start."""

from typing import Any

_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class SpokenNumbers:
    """Strings of digits to words. Arguments hold ASCII digits, with one point where stated."""

    def __init__(self) -> None:
        import inflect

        self._inflect: Any = inflect.engine()

    def cardinal(self, number: str) -> str:
        """`1250` and `3.14` (a point is allowed)."""
        whole, _, fraction = number.partition(".")
        words = str(self._inflect.number_to_words(whole or "0", andword="", comma=""))
        return f"{words} point {self.digits(fraction)}" if fraction else words

    def ordinal(self, number: str) -> str:
        """`22` as in twenty-second."""
        return str(self._inflect.ordinal(self.cardinal(number)))

    def digits(self, number: str) -> str:
        """One by one."""
        return " ".join(_DIGITS[int(digit)] for digit in number)

    def year(self, number: str) -> str:
        """Four digits as a year: nineteen eighty-seven, two thousand six, twenty twenty-six."""
        century, rest = int(number[:2]), int(number[2:])
        if rest == 0 and century % 10:
            return f"{self.cardinal(str(century))} hundred"
        if century % 10 == 0 and rest < 10:
            return self.cardinal(number)
        low = f"oh {self.cardinal(str(rest))}" if rest < 10 else self.cardinal(str(rest))
        return f"{self.cardinal(str(century))} {low}"

    def clock(self, hour: str, minute: str) -> str:
        """`10`, `05` as in ten oh five; a full hour is the hour alone."""
        if int(minute) == 0:
            return self.cardinal(str(int(hour)))
        low = f"oh {self.cardinal(minute[1])}" if minute[0] == "0" else self.cardinal(minute)
        return f"{self.cardinal(str(int(hour)))} {low}"
