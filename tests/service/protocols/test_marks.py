from service.protocols.events import MarkReached
from service.protocols.marks import MAX_MARKS, Marks


def test_a_mark_is_answered_once_as_played_or_as_cleared() -> None:
    marks = Marks()
    for name, turn in (("a", 0), ("b", 0), ("c", 1)):
        marks.sent(name, turn)
    assert marks.returned("a") == MarkReached("a", True)
    assert marks.returned("a") is None
    marks.clear(0)
    assert marks.returned("b") == MarkReached("b", False)
    assert marks.returned("b") is None
    assert marks.returned("c") == MarkReached("c", True)
    assert marks.returned("never") is None


def test_marks_the_bridge_drops_are_settled_at_once() -> None:
    marks = Marks()
    marks.sent("a", 0)
    marks.sent("b", 1)
    marks.clear(0)
    assert marks.give_up() == [MarkReached("a", False)]
    assert marks.give_up() == []
    assert marks.oldest() == "b"


def test_the_oldest_of_too_many_is_forgotten() -> None:
    marks = Marks()
    for number in range(MAX_MARKS + 1):
        marks.sent(str(number), 0)
    assert marks.returned("0") is None
    assert marks.returned("1") == MarkReached("1", True)
