"""What callers say to the model whose heads are trained: the user's own conversations, or callers that it plays itself.

A synthetic caller is the model itself, given only a system prompt that names a topic and the opening of a user turn:
what it then writes is what it expects somebody to ask (Xu et al., Magpie, arXiv 2406.08464).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.api import ChatTokenizer

# None of the product's own: any service's telephone.
TOPICS = (
    "a bank account question",
    "a broken heating",
    "a change of address",
    "a doctor's appointment",
    "a lost credit card",
    "a mobile phone plan",
    "a restaurant reservation",
    "a train delay",
    "billing and refunds",
    "booking a haircut",
    "car repair",
    "cooking",
    "customer support on the phone",
    "directions to an office",
    "general knowledge",
    "health and wellness",
    "hotel check-in",
    "internet outage",
    "opening hours and prices",
    "ordering flowers",
    "school enrolment",
    "small talk",
    "tracking a parcel",
    "weather and daily life",
)

_LONGEST_QUESTION = 400


@dataclass(frozen=True, slots=True)
class Prompt:
    """The beginning of a text that the model goes on with.

    Attributes:
        ids: token ids.
        topic: what it is about.
    """

    ids: tuple[int, ...]
    topic: str


class PromptsError(ValueError):
    """A file of conversations that cannot be used; says where."""


def read_conversations(path: Path, tokenizer: ChatTokenizer) -> list[Prompt]:
    """Prompts of a file of JSON lines, each `{"messages": [{"role": …, "content": …}, …], "topic": …}`.

    A conversation is answered at its end; one that ends with an assistant's message is answered before it. `topic` may
    be left out; whole topics are what is held out to judge by.

    Raises:
        PromptsError: a line that is no conversation, or a file without any.
        OSError: it cannot be read.
    """
    prompts = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            document = json.loads(line)
            messages = list(document["messages"])
            while messages and messages[-1]["role"] == "assistant":
                messages.pop()
            prompts.append(Prompt(rendered(tokenizer, messages), str(document.get("topic", f"line {number}"))))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise PromptsError(f"{path}, line {number}: not a conversation ({error})") from error
    if not prompts:
        raise PromptsError(f"{path}: no conversation in it")
    return prompts


def caller_openings(tokenizer: ChatTokenizer, topics: Sequence[str], count: int) -> list[Prompt]:
    """`count` prompts, topics in turn, that end where a caller begins to speak."""
    opened = {topic: _user_opening(tokenizer, topic) for topic in topics}
    return [Prompt(opened[topic], topic) for at in range(count) if (topic := topics[at % len(topics)])]


def answered(tokenizer: ChatTokenizer, topic: str, question: str) -> Prompt | None:
    """The prompt whose reply is wanted, for a question that was made up; None where it is no question to learn from."""
    text = question.strip()
    if not text or len(text) > _LONGEST_QUESTION:
        return None
    return Prompt(rendered(tokenizer, [_system(topic), {"role": "user", "content": text}]), topic)


def rendered(tokenizer: ChatTokenizer, messages: Sequence[Mapping[str, str]]) -> tuple[int, ...]:
    """Token ids of a conversation up to the opening of the next reply.

    Raises:
        ValueError: the model has no chat template, or it refuses these messages.
    """
    return tuple(tokenizer.encode(tokenizer.render(messages, add_generation_prompt=True)))


def _system(topic: str) -> dict[str, str]:
    return {"role": "system", "content": f"You answer the phone. The caller has called about this: {topic}."}


def _user_opening(tokenizer: ChatTokenizer, topic: str) -> tuple[int, ...]:
    """Everything that the template writes before what a caller says."""
    mark = "caller says this"
    text = tokenizer.render([_system(topic), {"role": "user", "content": mark}], add_generation_prompt=False)
    return tuple(tokenizer.encode(text[: text.index(mark)]))
