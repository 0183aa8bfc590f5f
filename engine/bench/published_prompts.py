"""The prompts of `voicepace bench published`: eight dialogues of each kind. Pure.

In the multi-turn kind the earlier replies are given, not generated: every strategy then reads the same prompts, and
each turn's prompt begins with all of the turn before, as in a call.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Message = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Dialogue:
    """One caller's requests, sent one after the other.

    Attributes:
        name: unique.
        turns: the messages of each request.
    """

    name: str
    turns: tuple[tuple[Message, ...], ...]


_PHONE = "You answer the phone for a small business. Reply in plain spoken language, without lists."

_CONVERSATIONAL = (
    "Hi, my dishwasher has stopped draining. What can I check before somebody comes over?",
    "I would like to move my appointment from Tuesday to some time later in the week. How does that work?",
    "My daughter has a fever since last night. Should I bring her in today or wait until tomorrow?",
    "Can you explain to me what the difference is between your basic and your premium plan?",
    "I have been on hold for twenty minutes and my parcel is still missing. What are you going to do about it?",
    "We are six people and one of us eats no gluten. Could you recommend something for dinner?",
    "How do I get from the main station to your office if I would rather not walk very far?",
    "I think I have been charged twice this month. Could you tell me how I can find out?",
)

_CODE = (
    "Write a Python function that returns the longest word of a sentence, with a docstring.",
    "Write a JavaScript function that counts how often each letter occurs in a string.",
    "Write a Python class `Stack` with the methods push, pop, peek and is_empty.",
    "Write a SQL query that lists the ten customers with the highest total of orders in 2024.",
    "Write a C function that reverses a string in place, and explain each line in a comment.",
    "Write a bash script that renames all .jpeg files of a folder to .jpg.",
    "Write a Python function `is_prime(n)` and a loop that prints all primes below 100.",
    "Write an HTML form with fields for name, e-mail and message, and a button that sends it.",
)

_JSON = (
    "Return a JSON object with the keys name, age and city for three invented people. Only JSON.",
    "Write the week as a JSON array of objects with the keys day, opens and closes. Only JSON.",
    'Turn this into JSON: "Order 118: two coffees at 3.20 and one bagel at 4.50, paid by card". Only JSON.',
    "Write a JSON schema for an address with street, number, postcode and city. Only JSON.",
    "Return a JSON array of five colours, each with the keys name and hex. Only JSON.",
    "Write a package.json for a project called tide-clock with two dependencies. Only JSON.",
    'Extract intent, date and time as JSON: "Book me a table for two next Friday at half past seven". Only JSON.',
    "Return a JSON object that maps each of these countries to its capital: Peru, Norway, Kenya, Japan. Only JSON.",
)

# (name, what it is, address, opening hours, who is in charge)
_PLACES = (
    (
        "Harbour Lane Dental",
        "dental practice",
        "14 Harbour Lane, second floor",
        "Monday to Thursday, 8 to 17",
        "Dr Okafor",
    ),
    (
        "Bellwether Cycles",
        "bicycle workshop",
        "3 Mill Street, behind the bakery",
        "Tuesday to Saturday, 10 to 18",
        "Ines",
    ),
    ("Kestrel Insurance", "insurance broker", "220 Station Road, suite 5", "weekdays, 9 to 16:30", "Mr Lindqvist"),
    ("The Copper Pan", "restaurant", "9 Old Market Square", "Wednesday to Sunday, 17 to 23", "Chef Amara"),
    ("Northgate Veterinary", "animal clinic", "77 Northgate Avenue", "every day, 7 to 21", "Dr Petrova"),
    ("Silverleaf Library", "public library", "1 Abbey Gardens, north entrance", "weekdays, 10 to 20", "Ms Tanaka"),
    ("Quickwater Plumbing", "plumbing firm", "58 Canal Street, unit 12", "weekdays, 7 to 15", "Joseph"),
    (
        "Meridian Language School",
        "language school",
        "31 Chestnut Hill, third floor",
        "weekdays, 12 to 21",
        "Mrs Duarte",
    ),
)


def _single(kind: str, texts: Sequence[str], system: str | None) -> tuple[Dialogue, ...]:
    before = () if system is None else ({"role": "system", "content": system},)
    return tuple(
        Dialogue(f"{kind}-{number}", ((*before, {"role": "user", "content": text}),))
        for number, text in enumerate(texts, start=1)
    )


def _call(number: int, name: str, trade: str, address: str, hours: str, person: str) -> Dialogue:
    """Three turns whose answers stand in the system prompt."""
    system = (
        f"You answer the phone of {name}, a {trade}. Address: {address}. Opening hours: {hours}. In charge: {person}. "
        "Quote these facts word for word and reply in one or two sentences."
    )
    said = (
        ("user", "Hello, what is your address, please?"),
        ("assistant", f"You find {name} at {address}."),
        ("user", "And when are you open?"),
        ("assistant", f"Our opening hours are {hours}."),
        ("user", "Thanks. Please repeat the address, the opening hours and the name of the person in charge."),
    )
    messages: list[Message] = [{"role": "system", "content": system}]
    messages += [{"role": role, "content": content} for role, content in said]
    return Dialogue(f"multi_turn-{number}", tuple(tuple(messages[: 2 + 2 * turn]) for turn in range(3)))


DIALOGUES: Mapping[str, tuple[Dialogue, ...]] = {
    "conversational": _single("conversational", _CONVERSATIONAL, _PHONE),
    "code": _single("code", _CODE, None),
    "json": _single("json", _JSON, None),
    "multi_turn": tuple(_call(number, *place) for number, place in enumerate(_PLACES, start=1)),
}
"""By kind."""
