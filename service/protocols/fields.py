"""Reading what a bridge sent: JSON objects whose fields are checked one by one and named when they are wrong.

Bridges disagree with their own documentation about types (a duration is "460", 460 or 460.5), so numbers are read from
text, integers and floats alike. Everything has a bound. A fault names the field and says what is wrong with it, and
never repeats the value: it may be what a caller said.
"""

import base64
import binascii
import math
from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json

from service.protocols.events import Frame

MAX_MESSAGE_CHARS = 262_144
MAX_TEXT_CHARS = 8_000
MAX_NAME_CHARS = 128
MAX_PARAMETERS = 64
MAX_PARAMETER_CHARS = 1_000
MAX_MILLISECONDS = 86_400_000.0
DIGITS = frozenset("0123456789*#ABCD")


class BadField(Exception):
    """A message cannot be read.

    Args:
        field: dotted path of the field at fault.
        reason: what is wrong with it, without its value.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


def clean(text: str) -> str:
    """Half a surrogate pair can be neither encoded nor tokenized; it becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


class Body:
    """A JSON object and where in the message it was found. Every reader raises `BadField`."""

    __slots__ = ("_fields", "_path")

    def __init__(self, fields: Mapping[str, Any], path: str = "") -> None:
        self._fields = fields
        self._path = path

    @classmethod
    def parse(cls, data: Frame) -> "Body":
        """The object in one text frame."""
        if isinstance(data, bytes):
            raise BadField("message", "must be a text frame")
        if len(data) > MAX_MESSAGE_CHARS:
            raise BadField("message", f"longer than {MAX_MESSAGE_CHARS} characters")
        try:
            value = from_json(data.encode("utf-8", "replace"), allow_inf_nan=False)
        except ValueError:
            raise BadField("message", "not valid JSON") from None
        if not isinstance(value, dict):
            raise BadField("message", "must be a JSON object")
        return cls(value)

    def bad(self, name: str, reason: str) -> BadField:
        return BadField(self._path + name, reason)

    def child(self, name: str) -> "Body":
        """The object under `name`, which must be there."""
        value = self._fields.get(name)
        if value is None:
            raise self.bad(name, "is missing")
        if not isinstance(value, dict):
            raise self.bad(name, "must be an object")
        return Body(value, f"{self._path}{name}.")

    def optional_child(self, name: str) -> "Body":
        """The object under `name`, an empty one where there is none."""
        if self._fields.get(name) is None:
            return Body({}, f"{self._path}{name}.")
        return self.child(name)

    def children(self, name: str, limit: int = 16) -> list["Body"]:
        """The first `limit` objects of a list, empty where there is no list."""
        value = self._fields.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.bad(name, "must be a list of objects")
        return [Body(item, f"{self._path}{name}.{index}.") for index, item in enumerate(value[:limit])]

    def optional_text(self, name: str, limit: int = MAX_NAME_CHARS) -> str | None:
        """Text, or a number as text; None where it is missing."""
        value = self._fields.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.bad(name, "must be text")
        if isinstance(value, str):
            text = value
        else:
            try:
                text = str(value)
            except ValueError:  # more digits than Python turns into text
                raise self.bad(name, f"longer than {limit} characters") from None
        if len(text) > limit:
            raise self.bad(name, f"longer than {limit} characters")
        return clean(text)

    def text(self, name: str, limit: int = MAX_NAME_CHARS) -> str:
        """As `optional_text`, but it must be there."""
        text = self.optional_text(name, limit)
        if text is None:
            raise self.bad(name, "is missing")
        return text

    def number(self, name: str, limit: float = MAX_MILLISECONDS) -> float | None:
        """A number from 0 to `limit`, written as text, integer or float; None where it is missing."""
        value = self._fields.get(name)
        if value is None or value == "":
            return None
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.bad(name, "must be a number")
        try:
            number = float(value)
        except (ValueError, OverflowError):
            raise self.bad(name, "must be a number") from None
        if not math.isfinite(number) or not 0 <= number <= limit:
            raise self.bad(name, f"must be from 0 to {limit:g}")
        return number

    def flag(self, name: str, default: bool) -> bool:
        """A truth value, written as such, as text or as 0 or 1."""
        value = self._fields.get(name)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        text = str(value).strip().lower() if isinstance(value, str | float) or value in (0, 1) else ""
        if text in ("true", "1", "1.0"):
            return True
        if text in ("false", "0", "0.0"):
            return False
        raise self.bad(name, "must be true or false")

    def digit(self, name: str) -> str:
        """One DTMF digit."""
        digit = self.text(name, 8).strip().upper()
        if digit not in DIGITS:
            raise self.bad(name, "must be one of 0-9 * # A-D")
        return digit

    def audio(self, name: str, limit_bytes: int = 96_000) -> bytes:
        """Base64 text as bytes."""
        value = self._fields.get(name)
        if not isinstance(value, str) or not value:
            raise self.bad(name, "must be base64 text")
        if len(value) > limit_bytes // 3 * 4 + 4:
            raise self.bad(name, f"holds more than {limit_bytes} bytes")
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise self.bad(name, "must be base64 text") from None

    def parameters(self, name: str) -> dict[str, str]:
        """What the operator attached to the call: at most 64 short texts; long or nested values are left out."""
        value = self._fields.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.bad(name, "must be an object")
        kept: dict[str, str] = {}
        for key, item in value.items():
            if isinstance(item, bool) or not isinstance(item, str | int | float):
                continue
            if isinstance(item, int) and item.bit_length() > 64:
                continue
            text = clean(str(item))
            if len(kept) < MAX_PARAMETERS and len(key) <= MAX_NAME_CHARS and len(text) <= MAX_PARAMETER_CHARS:
                kept[clean(key)] = text
        return kept
