"""Questions for a person, and what their answers say about pairs of rows.

    choice   one item beside up to five exemplars: which of these does it belong with, or none?
    pair     two items: the same or different?
    group    up to nine items, the first a known member: which of them do not belong?

``"unsure"`` and ``"skip"`` answer any of them and link nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

from spherepair.errors import InvalidAnswerError

SAME, DIFFERENT, NONE, UNSURE, SKIP = "same", "different", "none", "unsure", "skip"
#: Exemplars on one choice card, and items on one group card, at most.
MOST_EXEMPLARS, MOST_ITEMS = 5, 9

#: Left row, right row, whether they belong together.
Link = tuple[int, int, bool]
#: An exemplar, ``"none"``, ``"same"``, ``"different"``, the items that do not belong, ``"unsure"`` or
#: ``"skip"``.
Reply = int | str | tuple[int, ...]


@dataclass(frozen=True)
class ChoiceQuestion:
    """Which of the exemplars the item belongs with.

    Examples
    --------
    >>> ChoiceQuestion(item=173, exemplars=(12, 904)).links(904)
    ((173, 904, True), (173, 12, False))
    """

    item: int
    exemplars: tuple[int, ...]
    is_check: bool = False

    kind: ClassVar[str] = "choice"
    #: Seconds that a person is taken to need.
    seconds: ClassVar[float] = 12.0

    @property
    def rows(self) -> tuple[int, ...]:
        """All rows on the card."""
        return (self.item, *self.exemplars)

    @property
    def subjects(self) -> tuple[int, ...]:
        """The rows that the question is about, without those it compares them with."""
        return (self.item,)

    def links(self, reply: Reply) -> tuple[Link, ...]:
        """Pairs that the reply states."""
        if reply in (UNSURE, SKIP):
            return ()
        if reply != NONE and reply not in self.exemplars:
            raise InvalidAnswerError(
                f"the answer must be one of {list(self.exemplars)}, 'none', 'unsure' or 'skip', "
                f"got {reply!r} instead."
            )
        same = tuple((self.item, e, True) for e in self.exemplars if e == reply)
        return same + tuple((self.item, e, False) for e in self.exemplars if e != reply)


@dataclass(frozen=True)
class PairQuestion:
    """Whether the two items belong together.

    Examples
    --------
    >>> PairQuestion(left=4, right=9).links("different")
    ((4, 9, False),)
    """

    left: int
    right: int
    is_check: bool = False

    kind: ClassVar[str] = "pair"
    seconds: ClassVar[float] = 8.0

    @property
    def rows(self) -> tuple[int, ...]:
        """Both rows."""
        return (self.left, self.right)

    @property
    def subjects(self) -> tuple[int, ...]:
        """The left row, which is compared with the right one."""
        return (self.left,)

    def links(self, reply: Reply) -> tuple[Link, ...]:
        """Pairs that the reply states."""
        if reply in (UNSURE, SKIP):
            return ()
        if reply not in (SAME, DIFFERENT):
            raise InvalidAnswerError(
                f"the answer must be 'same', 'different', 'unsure' or 'skip', got {reply!r} instead."
            )
        return ((self.left, self.right, reply == SAME),)


@dataclass(frozen=True)
class GroupQuestion:
    """Which of the items do not belong with the first.

    Examples
    --------
    >>> GroupQuestion(items=(3, 8, 5)).links((5,))
    ((3, 8, True), (3, 5, False))
    """

    items: tuple[int, ...]
    is_check: bool = False

    kind: ClassVar[str] = "group"
    seconds: ClassVar[float] = 20.0

    @property
    def rows(self) -> tuple[int, ...]:
        """All rows on the card."""
        return self.items

    @property
    def subjects(self) -> tuple[int, ...]:
        """All items but the known member."""
        return self.items[1:]

    def links(self, reply: Reply) -> tuple[Link, ...]:
        """Pairs that the reply states."""
        if reply in (UNSURE, SKIP):
            return ()
        odd = () if reply == NONE else reply
        if not isinstance(odd, tuple | list) or not set(odd) <= set(self.items[1:]):
            raise InvalidAnswerError(
                f"the answer must list those of {list(self.items[1:])} that do not belong with "
                f"{self.items[0]}, or be 'none', 'unsure' or 'skip', got {reply!r} instead."
            )
        return tuple((self.items[0], item, item not in odd) for item in self.items[1:])


Question = ChoiceQuestion | PairQuestion | GroupQuestion
#: Anything that answers: a person's prompt, a rule, a program.
Answerer = Callable[[Question], Reply]


@dataclass(frozen=True)
class Answer:
    """One answer of the record.

    Parameters
    ----------
    number : int
        Its place in the record, from 0.
    question : ChoiceQuestion, PairQuestion or GroupQuestion
    reply : int, str or tuple of int
    by : str
        Who answered; empty where nobody was named.
    time : str
        When, in UTC (ISO 8601).
    seconds : float
        How long it took.
    predicted : int, str or None
        What the model of that moment would have answered to a choice or a pair.
    margins : tuple of float
        How far its first choice led the second: of the item, or of each item of a group card but the first.
    """

    number: int
    question: Question
    reply: Reply
    by: str = ""
    time: str = ""
    seconds: float = 0.0
    predicted: Reply | None = None
    margins: tuple[float, ...] = ()

    @property
    def links(self) -> tuple[Link, ...]:
        """Pairs that it states."""
        return self.question.links(self.reply)

    def to_dict(self) -> dict[str, Any]:
        """As a line of the record; ``links`` makes the record a pairs file."""
        question = self.question
        shown: dict[str, Any]
        if isinstance(question, ChoiceQuestion):
            shown = {"item": question.item, "exemplars": list(question.exemplars)}
        elif isinstance(question, PairQuestion):
            shown = {"left": question.left, "right": question.right}
        else:
            shown = {"items": list(question.items)}
        return {
            "number": self.number,
            "kind": question.kind,
            **shown,
            "answer": list(self.reply) if isinstance(self.reply, tuple) else self.reply,
            "links": [[left, right, int(is_same)] for left, right, is_same in self.links],
            "by": self.by,
            "time": self.time,
            "seconds": round(self.seconds, 3),
            "check": question.is_check,
            "predicted": self.predicted,
            "margins": [round(margin, 4) for margin in self.margins],
        }

    @classmethod
    def from_dict(cls, line: Mapping[str, Any]) -> Answer:
        """From a line of the record; anything unexpected is an ``InvalidAnswerError``."""
        question = question_from_dict(line)
        reply = line.get("answer")
        return cls(
            number=_whole(line.get("number"), "number"),
            question=question,
            reply=tuple(_wholes(reply, "answer")) if isinstance(reply, list) else _reply(reply),
            by=_text(line.get("by", ""), "by"),
            time=_text(line.get("time", ""), "time"),
            seconds=_number(line.get("seconds", 0.0), "seconds"),
            predicted=None if line.get("predicted") is None else _reply(line["predicted"]),
            margins=tuple(_number(margin, "margins") for margin in _list(line.get("margins", []), "margins")),
        )


def question_to_dict(question: Question) -> dict[str, Any]:
    """A question as plain data, for programs that answer.

    Examples
    --------
    >>> question_to_dict(PairQuestion(4, 9))
    {'kind': 'pair', 'left': 4, 'right': 9, 'check': False}
    """
    line = Answer(0, question, SKIP).to_dict()
    wanted = ("kind", "item", "exemplars", "left", "right", "items", "check")
    return {name: line[name] for name in wanted if name in line}


def question_from_dict(line: Mapping[str, Any]) -> Question:
    """A question from plain data.

    Examples
    --------
    >>> question_from_dict({"kind": "pair", "left": 4, "right": 9})
    PairQuestion(left=4, right=9, is_check=False)
    """
    kind, is_check = line.get("kind"), bool(line.get("check", False))
    if kind == ChoiceQuestion.kind:
        exemplars = tuple(_wholes(line.get("exemplars"), "exemplars"))
        return ChoiceQuestion(_whole(line.get("item"), "item"), exemplars, is_check)
    if kind == PairQuestion.kind:
        return PairQuestion(_whole(line.get("left"), "left"), _whole(line.get("right"), "right"), is_check)
    if kind == GroupQuestion.kind:
        return GroupQuestion(tuple(_wholes(line.get("items"), "items")), is_check)
    raise InvalidAnswerError(f"kind must be 'choice', 'pair' or 'group', got {str(kind)[:40]!r} instead.")


def require_rows(question: Any, n_rows: int) -> None:
    """Refuse what is no question about rows 0 to ``n_rows - 1``, each of which may stand on a card once."""
    if not isinstance(question, ChoiceQuestion | PairQuestion | GroupQuestion):
        raise InvalidAnswerError(
            f"the question must be one that next() gave, got {str(question)[:40]!r} instead; "
            "nothing was written."
        )
    rows = question.rows
    if len(set(rows)) < max(2, len(rows)) or not all(0 <= row < n_rows for row in rows):
        raise InvalidAnswerError(
            f"the question names rows {list(rows)[:10]}, but there are rows 0 to {n_rows - 1}, each of which "
            "may stand on a card once; nothing was written."
        )


def plain_reply(reply: Any) -> Reply:
    """An answer as plain Python data, whatever sequence or integer it came as.

    Examples
    --------
    >>> plain_reply([3, 4]), plain_reply("none")
    ((3, 4), 'none')
    """
    if isinstance(reply, str):
        return reply
    many = hasattr(reply, "__iter__")
    try:
        rows = list(reply) if many else [reply]
        if any(isinstance(row, bool) for row in rows):
            raise TypeError
        plain = tuple(operator.index(row) for row in rows)
        return plain if many else plain[0]
    except TypeError as error:
        raise InvalidAnswerError(
            f"an answer is a row, a word or a list of rows, got {type(reply).__name__} instead; "
            "nothing was written."
        ) from error


def utc_now() -> str:
    """The present moment for the record."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _whole(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise InvalidAnswerError(f"{name} must be a row number, got {str(value)[:40]!r} instead.")
    return value


def _wholes(values: Any, name: str) -> Iterable[int]:
    return [_whole(value, name) for value in _list(values, name)]


def _list(values: Any, name: str) -> list[Any]:
    if not isinstance(values, list):
        raise InvalidAnswerError(f"{name} must be a list, got {str(values)[:40]!r} instead.")
    return values


def _reply(value: Any) -> int | str:
    return _text(value, "answer") if isinstance(value, str) else _whole(value, "answer")


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidAnswerError(f"{name} must be text, got {str(value)[:40]!r} instead.")
    return value


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidAnswerError(f"{name} must be a number, got {str(value)[:40]!r} instead.")
    return float(value)
