"""Questions for a person, and what their answers say about pairs of rows.

    choice   one item beside up to five exemplars: which of these does it belong with, or none?
    pair     two items: the same or different?
    group    up to nine items, the first a known member: which of them do not belong?
    gesture  no question: what somebody did on their own account, such as merging two groups

``"unsure"`` and ``"skip"`` answer any of the first three and link nothing.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar

from spherepair.errors import InvalidAnswerError, quoted

SAME, DIFFERENT, NONE, UNSURE, SKIP, DONE = "same", "different", "none", "unsure", "skip", "done"
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
                f"got {quoted(reply)} instead."
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
                f"the answer must be 'same', 'different', 'unsure' or 'skip', got {quoted(reply)} instead."
            )
        return ((self.left, self.right, reply == SAME),)


@dataclass(frozen=True)
class GroupQuestion:
    """Which of the items do not belong with the first.

    Parameters
    ----------
    items : tuple of int
        The known member first.
    is_check : bool
    n_random : int
        So many of the last items were drawn at random from all that the model puts into the group: how often
        they belong tells how often the model is right.

    Examples
    --------
    >>> GroupQuestion(items=(3, 8, 5)).links((5,))
    ((3, 8, True), (3, 5, False))
    """

    items: tuple[int, ...]
    is_check: bool = False
    n_random: int = 0

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
                f"{self.items[0]}, or be 'none', 'unsure' or 'skip', got {quoted(reply)} instead."
            )
        return tuple((self.items[0], item, item not in odd) for item in self.items[1:])


@dataclass(frozen=True)
class Gesture:
    """Pairs that somebody states without having been asked; the reply is ``"done"``.

    Parameters
    ----------
    action : str
        What was done, in one word.
    pairs : tuple of (left, right, is_same)

    Examples
    --------
    >>> Gesture("merge", ((3, 8, True),)).links("done")
    ((3, 8, True),)
    """

    action: str
    pairs: tuple[Link, ...]
    is_check: bool = False

    kind: ClassVar[str] = "gesture"
    seconds: ClassVar[float] = 5.0

    @property
    def rows(self) -> tuple[int, ...]:
        """All rows that it names, once each."""
        return tuple(dict.fromkeys(row for left, right, _ in self.pairs for row in (left, right)))

    @property
    def subjects(self) -> tuple[int, ...]:
        """None: nobody was asked about a row."""
        return ()

    def links(self, reply: Reply) -> tuple[Link, ...]:
        """Its pairs."""
        if reply != DONE:
            raise InvalidAnswerError(f"the answer to a gesture must be 'done', got {quoted(reply)} instead.")
        return self.pairs


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
    question : ChoiceQuestion, PairQuestion, GroupQuestion or Gesture
    reply : int, str or tuple of int
    by : str
        Who answered; empty where nobody was named.
    time : str
        When, in UTC (ISO 8601).
    seconds : float
        How long it took.
    predicted : int, str or None
        What the model of that moment would have answered to a choice or a pair.
    """

    number: int
    question: Question | Gesture
    reply: Reply
    by: str = ""
    time: str = ""
    seconds: float = 0.0
    predicted: Reply | None = None

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """Pairs that it states."""
        return self.question.links(self.reply)

    @property
    def is_unsure_pair(self) -> bool:
        """Whether it says of a pair that nobody can tell: a pair of value 0.5."""
        return isinstance(self.question, PairQuestion) and self.reply == UNSURE

    def to_dict(self) -> dict[str, Any]:
        """As a line of the record; ``links`` makes the record a pairs file."""
        question = self.question
        shown: dict[str, Any]
        if isinstance(question, ChoiceQuestion):
            shown = {"item": question.item, "exemplars": list(question.exemplars)}
        elif isinstance(question, PairQuestion):
            shown = {"left": question.left, "right": question.right}
        elif isinstance(question, GroupQuestion):
            shown = {"items": list(question.items), "random": question.n_random}
        else:
            shown = {"action": question.action}
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
        }


def question_to_dict(question: Question) -> dict[str, Any]:
    """A question as plain data, for programs that answer.

    Examples
    --------
    >>> question_to_dict(PairQuestion(4, 9))
    {'kind': 'pair', 'left': 4, 'right': 9, 'check': False}
    """
    line = Answer(0, question, SKIP).to_dict()
    wanted = ("kind", "item", "exemplars", "left", "right", "items", "random", "check")
    return {name: line[name] for name in wanted if name in line}


def require_rows(question: Any, n_rows: int) -> None:
    """Refuse a question that names a row outside 0 to ``n_rows - 1``, or the same row twice."""
    if not isinstance(question, Question | Gesture):
        raise InvalidAnswerError(
            f"the question must be one that next() gave, got {quoted(str(question))} instead; "
            "nothing was written."
        )
    rows = question.rows
    if len(set(rows)) < max(2, len(rows)) or not all(0 <= row < n_rows for row in rows):
        raise InvalidAnswerError(
            f"the question names rows {list(rows)[:10]}, but there are rows 0 to {n_rows - 1}, each of which "
            "may stand on a card once; nothing was written."
        )


def plain_question(question: Any, n_rows: int) -> Question | Gesture:
    """The question with its rows as plain integers; rows that do not exist are refused."""
    require_rows(question, n_rows)
    if isinstance(question, ChoiceQuestion):
        return replace(question, item=int(question.item), exemplars=tuple(map(int, question.exemplars)))
    if isinstance(question, PairQuestion):
        return replace(question, left=int(question.left), right=int(question.right))
    if isinstance(question, GroupQuestion):
        return replace(question, items=tuple(map(int, question.items)))
    pairs = tuple((int(left), int(right), bool(is_same)) for left, right, is_same in question.pairs)
    return Gesture(str(question.action), pairs)


def check_effort(by: Any, seconds: Any) -> tuple[str, float]:
    """Who answered and how long it took; ``None`` is nobody in particular."""
    if by is not None and not isinstance(by, str):
        raise InvalidAnswerError(f"by must be a name, got {type(by).__name__} instead; nothing was written.")
    is_number = isinstance(seconds, Real) and not isinstance(seconds, bool)
    if not is_number or not 0 <= float(seconds) < math.inf:
        raise InvalidAnswerError(
            f"seconds must be a number from 0 up, got {quoted(seconds)}; nothing was written."
        )
    return by or "", float(seconds)


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


class OpenCards:
    """Which card lies before whom: given by :meth:`Interview.next`, not answered yet.

    Examples
    --------
    >>> cards = OpenCards()
    >>> card = cards.give(PairQuestion(4, 9), by="ann")
    >>> cards.rows_of_others("bob"), cards.of("ann") is card, card in cards
    ({4}, True, True)
    """

    def __init__(self) -> None:
        self._cards: dict[str, Question] = {}

    def __contains__(self, question: object) -> bool:
        return question in self._cards.values()

    def give(self, question: Question, *, by: str) -> Question:
        """Lay a card before somebody, in place of the one that lay there."""
        self._cards[by] = question
        return question

    def of(self, by: str) -> Question | None:
        """The card before a person."""
        return self._cards.get(by)

    def rows_of_others(self, by: str) -> set[int]:
        """Rows that others are being asked about."""
        others = (card for person, card in self._cards.items() if person != by)
        return {row for card in others for row in (card.subjects or card.rows)}

    def put_away(self, question: Question | Gesture) -> None:
        """It is answered: whoever has it gets another."""
        self._cards = {person: card for person, card in self._cards.items() if card != question}
