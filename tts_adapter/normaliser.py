"""Written English to spoken English, for voices that read symbols badly: numbers, money, dates, times, units, addresses.

Pure: the vocabulary comes in as a mapping. Works on one finished segment at a time. What is not
recognised stays as written. The history and the client keep the written form; `Spoken.written_position` maps back.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import regex

from tts_adapter.spoken_numbers import SpokenNumbers
from tts_adapter.text_filter import PositionMap

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "December",
)
_MONTH = "|".join(f"{month[:3]}(?:{month[3:]})?\\.?" if month != "May" else month for month in _MONTHS)
_NUMBER = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
_CURRENCIES = {"$": ("dollar", "cent"), "€": ("euro", "cent"), "£": ("pound", "penny")}
_UNITS = {
    "km/h": "kilometer per hour",
    "mph": "mile per hour",
    "km": "kilometer",
    "cm": "centimeter",
    "mm": "millimeter",
    "kg": "kilogram",
    "mg": "milligram",
    "lb": "pound",
    "lbs": "pound",
    "oz": "ounce",
    "ft": "foot",
    "ml": "milliliter",
    "KB": "kilobyte",
    "MB": "megabyte",
    "GB": "gigabyte",
    "TB": "terabyte",
    "Mbps": "megabit per second",
    "kWh": "kilowatt hour",
    "°C": "degree Celsius",
    "°F": "degree Fahrenheit",
    "°": "degree",
    "ms": "millisecond",
    "min": "minute",
    "hrs": "hour",
    "hr": "hour",
}
_UNIT = "|".join(regex.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True))
_PATTERN = regex.compile(
    rf"""
    (?P<email>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)
    |(?P<web>(?<![\w.])(?:[\w-]+\.)+(?:com|org|net|edu|gov|io|co|uk|de|info|app|dev)(?:/[\w/-]*)?(?![\w-]))
    |(?P<money>(?P<sign>[$€£])\s?(?P<amount>{_NUMBER})(?:\s?(?P<scale>k|million|billion|trillion)\b)?)
    |(?P<iso>(?<!\d)(?P<iso_year>[12]\d{{3}})-(?P<iso_month>0[1-9]|1[0-2])-(?P<iso_day>0[1-9]|[12]\d|3[01])(?!\d))
    |(?P<date>\b(?P<month>{_MONTH})\s(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:,?\s(?P<date_year>[12]\d{{3}}))?(?![\d,.]\d|\d))
    |(?P<time>(?<![\d:.,])(?P<hour>[01]?\d|2[0-3])(?::(?P<minute>[0-5]\d)|(?=\s?[ap]\.?m\b))(?![\d:])
        (?:\s?(?P<half>[ap])\.?m\b\.?)?)
    |(?P<phone>(?<![\w.,-])(?:\+\d{{1,3}}[ -])?(?:\(\d{{3}}\)\s?|\d{{3}}[ -])?\d{{3}}-\d{{4}}(?![\d-]))
    |(?P<dotted>(?<![\w.,])v?\d+(?:\.\d+){{2,}}(?![\w]))
    |(?P<percent>(?<![\w.,])(?P<share>{_NUMBER})\s?%)
    |(?P<measure>(?<![\w.,])(?P<minus>-)?(?P<quantity>{_NUMBER})\s?(?P<unit>{_UNIT})(?![\w]))
    |(?P<ordinal>(?<![\w.,])(?P<place>\d+)(?:st|nd|rd|th)\b)
    |(?P<span>(?<![\w.,-])(?P<low>\d{{1,4}})\s?[-–]\s?(?P<high>\d{{1,4}})(?![\w-]|[.,]\d))
    |(?P<since>\b(?:in|since|from|until|of|by|before|after|year)\s(?P<year>1[1-9]\d\d|20\d\d)(?![\w-]|[.,:]\d))
    |(?P<number>(?<![\w.,/:])(?P<negative>[-−])?(?P<hash>[#№]\s?)?(?P<about>[~≈]\s?)?(?P<value>{_NUMBER})(?![\w/-]|[.,:]\d))
    |(?P<spelled>\b[B-DF-HJ-NP-TV-XZ]{{2,5}}(?P<plural>s)?\b)
    |(?P<symbol>(?<=\s)(?:&|<|>|=|\+|\*|×)(?=\s))
    """,
    regex.VERBOSE,
)
_SYMBOLS = {"&": "and", "<": "less than", ">": "greater than", "=": "equals", "+": "plus", "*": "times", "×": "times"}


@dataclass(frozen=True)
class Spoken:
    """A segment as it is to be said."""

    text: str
    positions: PositionMap

    def written_position(self, spoken_position: int) -> int:
        """Characters of the written text behind the first `spoken_position` spoken ones, rounded down."""
        return self.positions.raw_position(spoken_position)


class Normaliser:
    """English.

    Args:
        vocabulary: written words and what to say instead; wins over every rule. Case counts.
    """

    def __init__(self, vocabulary: Mapping[str, str] | None = None) -> None:
        self._numbers = SpokenNumbers()
        self._vocabulary = dict(vocabulary or {})
        words = sorted(self._vocabulary, key=len, reverse=True)
        listed = "|".join(regex.escape(word) for word in words) or r"(?!)"
        self._words = regex.compile(rf"(?<!\w)(?:{listed})(?!\w)")
        self._rules: dict[str, Callable[[regex.Match[str]], str]] = {
            "email": self._address,
            "web": self._address,
            "money": self._money,
            "iso": self._iso,
            "date": self._date,
            "time": self._time,
            "phone": self._phone,
            "dotted": self._dotted,
            "percent": self._percent,
            "measure": self._measure,
            "ordinal": self._ordinal,
            "span": self._span,
            "since": self._since,
            "number": self._number,
            "spelled": self._spelled,
            "symbol": self._symbol,
        }

    def spoken(self, text: str) -> Spoken:
        """`text` with everything written out that a rule or the vocabulary knows."""
        positions = PositionMap()
        out: list[str] = []
        length = at = 0
        while at < len(text):
            word, rule = self._words.search(text, at), _PATTERN.search(text, at)
            found = min((match for match in (word, rule) if match), key=lambda match: match.start(), default=None)
            start = found.start() if found else len(text)
            if start > at:
                out.append(text[at:start])
                positions.add(length, at, start - at, None)
                length += start - at
            if found is None:
                break
            said = self._vocabulary[found.group()] if found is word else self._said(found)
            out.append(said)
            positions.add(length, start, len(said), len(found.group()))
            length += len(said)
            at = found.end()
        return Spoken("".join(out), positions)

    def _said(self, found: "regex.Match[str]") -> str:
        kind = next(name for name in self._rules if found.group(name) is not None)
        return self._rules[kind](found)

    def _cardinal(self, number: str) -> str:
        return self._numbers.cardinal(number.replace(",", ""))

    def _address(self, found: "regex.Match[str]") -> str:
        words = (
            found.group()
            .replace("@", " at ")
            .replace(".", " dot ")
            .replace("/", " slash ")
            .replace("_", " underscore ")
        )
        return " ".join(words.split())

    def _money(self, found: "regex.Match[str]") -> str:
        unit, small = _CURRENCIES[found.group("sign")]
        amount = found.group("amount").replace(",", "")
        if found.group("scale"):
            scale = "thousand" if found.group("scale") == "k" else found.group("scale")
            return f"{self._cardinal(amount)} {scale} {unit}s"
        whole, _, cents = amount.partition(".")
        if len(cents) not in (0, 2):
            return f"{self._cardinal(amount)} {unit}s"
        parts = [] if int(whole) == 0 and cents.strip("0") else [_counted(self._cardinal(whole), unit, whole == "1")]
        if cents.strip("0"):
            plural = "pence" if small == "penny" else f"{small}s"
            parts.append(f"{self._cardinal(str(int(cents)))} {small if int(cents) == 1 else plural}")
        return " and ".join(parts)

    def _iso(self, found: "regex.Match[str]") -> str:
        day = self._numbers.ordinal(str(int(found.group("iso_day"))))
        return f"{_MONTHS[int(found.group('iso_month')) - 1]} {day}, {self._numbers.year(found.group('iso_year'))}"

    def _date(self, found: "regex.Match[str]") -> str:
        month = next(month for month in _MONTHS if month.startswith(found.group("month")[:3]))
        said = f"{month} {self._numbers.ordinal(found.group('day'))}"
        return f"{said}, {self._numbers.year(found.group('date_year'))}" if found.group("date_year") else said

    def _time(self, found: "regex.Match[str]") -> str:
        said = self._numbers.clock(found.group("hour"), found.group("minute") or "00")
        if found.group("half"):
            # The full stop of "p.m." may end the sentence as well.
            stop = "." if found.group().endswith(".") else ""
            return f"{said} {found.group('half').upper()} M{stop}"
        return f"{said} o'clock" if found.group("minute") == "00" else said

    def _phone(self, found: "regex.Match[str]") -> str:
        groups = regex.findall(r"\d+", found.group())
        said = ", ".join(self._numbers.digits(group) for group in groups)
        return f"plus {said}" if found.group().startswith("+") else said

    def _dotted(self, found: "regex.Match[str]") -> str:
        version = " point ".join(self._cardinal(part) for part in found.group().lstrip("v").split("."))
        return f"version {version}" if found.group().startswith("v") else version

    def _percent(self, found: "regex.Match[str]") -> str:
        return f"{self._cardinal(found.group('share'))} percent"

    def _measure(self, found: "regex.Match[str]") -> str:
        said = _counted(
            self._cardinal(found.group("quantity")), _UNITS[found.group("unit")], found.group("quantity") == "1"
        )
        return f"minus {said}" if found.group("minus") else said

    def _ordinal(self, found: "regex.Match[str]") -> str:
        return self._numbers.ordinal(found.group("place"))

    def _span(self, found: "regex.Match[str]") -> str:
        return f"{self._cardinal(found.group('low'))} to {self._cardinal(found.group('high'))}"

    def _since(self, found: "regex.Match[str]") -> str:
        return f"{found.group()[:-4]}{self._numbers.year(found.group('year'))}"

    def _number(self, found: "regex.Match[str]") -> str:
        value = found.group("value")
        code = "," not in value and "." not in value and (value[0] == "0" or len(value) >= 5) and int(value) % 1000
        said = self._numbers.digits(value) if code and len(value) > 1 else self._cardinal(value)
        before = [("negative", "minus "), ("hash", "number "), ("about", "about ")]
        return "".join(word for group, word in before if found.group(group)) + said

    def _spelled(self, found: "regex.Match[str]") -> str:
        letters = found.group().removesuffix("s")
        return " ".join(letters) + ("s" if found.group("plural") else "")

    def _symbol(self, found: "regex.Match[str]") -> str:
        return _SYMBOLS[found.group()]


def parse_vocabulary(text: str) -> dict[str, str]:
    """A vocabulary file: lines `written = spoken`; blank lines and those that begin with `#` are skipped.

    Raises:
        ValueError: naming the line without both sides.
    """
    vocabulary = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        written, equals, said = (part.strip() for part in line.partition("="))
        if not (written and equals and said):
            raise ValueError(f"line {number}: not of the form `written = spoken`")
        vocabulary[written] = said
    return vocabulary


def _counted(number: str, unit: str, single: bool) -> str:
    if single:
        return f"{number} {unit}"
    if unit == "foot":
        return f"{number} feet"
    head, _, rest = unit.partition(" ")
    return f"{number} {unit}s" if not rest or rest == "hour" else f"{number} {head}s {rest}"
