"""What was asked and said: cards given to people, answers on disk, and what stands of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from spherepair.asking.groups import Groups, Settled, chain_of_answers
from spherepair.asking.questions import (
    SKIP,
    UNSURE,
    Answer,
    ChoiceQuestion,
    Gesture,
    GroupQuestion,
    Link,
    OpenCards,
    PairQuestion,
    Question,
    Reply,
    check_effort,
    plain_question,
    plain_reply,
    require_rows,
    utc_now,
)
from spherepair.asking.record import Record, close_record, open_record
from spherepair.asking.training import links_of, stated_pairs
from spherepair.constraints import Constraints
from spherepair.errors import InvalidAnswerError, quoted


class Conversation:
    """Takes answers and holds what follows from them; knows no model.

    Parameters
    ----------
    n_rows : int
    known : Constraints
        Pairs that are known before the first question.
    record : path, Record or None
        Where answers are appended; those that it holds are taken over.
    fingerprint : function
        Gives that of the rows, which takes a while for many; a file with a record of others is refused.
    """

    def __init__(
        self,
        n_rows: int,
        known: Constraints,
        record: str | Path | Record | None,
        *,
        fingerprint: Callable[[], str],
    ) -> None:
        known.validate(n_rows)
        self.n_rows, self._known, self._fingerprint = n_rows, known, fingerprint
        self._record = open_record(record, fingerprint=fingerprint)
        try:
            self.answers = standing_answers(self._record, n_rows)
        except BaseException:
            close_record(self._record)
            raise
        self._n_events = sum(1 for _ in self._record)
        self._cards, self._lock = OpenCards(), threading.RLock()
        self._was_taken_back = False  # the latest model may have learned from an answer that is gone
        self._rebuild()

    def ask(self, question: Question, *, by: str = "") -> Question:
        """Put a question of one's own to a person, as the next one; returns it."""
        plain = plain_question(question, self.n_rows)
        if isinstance(plain, Gesture):
            raise InvalidAnswerError("a gesture is not asked; give it to answer() as it is.")
        with self._lock:
            return self._cards.give(plain, by=by)

    def answer(
        self,
        question: Question | Gesture,
        reply: Reply | Iterable[int],
        *,
        by: str = "",
        seconds: float | None = None,
    ) -> None:
        """Take an answer; it is on disk when this returns.

        Parameters
        ----------
        question : as given by :meth:`next` or :meth:`ask`, or a ``Gesture``
        reply : int, str or sequence of int
            An exemplar or ``"none"``; ``"same"`` or ``"different"``; the items that do not belong;
            ``"unsure"``, ``"skip"``; ``"done"`` for a gesture.
        by : str, optional
            Who answers.
        seconds : float, optional
            How long it took; what is usual for the kind of question if not given.
        """
        question, value = plain_question(question, self.n_rows), plain_reply(reply)
        by, seconds = check_effort(by, question.seconds if seconds is None else seconds)
        question.links(value)  # refuses what does not fit before anything is written
        with self._lock:
            if question not in self._cards and not isinstance(question, Gesture):
                raise InvalidAnswerError(
                    "this question was not asked, or it is answered by now; take the next one from next(). "
                    "Nothing was written."
                )
            answer = Answer(
                number=self._n_events,
                question=question,
                reply=value,
                by=by,
                time=utc_now(),
                seconds=seconds,
                predicted=self._expect(question),
            )
            self._record.append({"event": "answer", **answer.to_dict()})
            self._n_events += 1
            self.answers.append(answer)
            self._cards.put_away(question)
            self._learn(answer)
        self._after_answer()

    def undo(self, *, by: str | None = None) -> Answer | None:
        """Take the latest answer back, of one person or of all; again and again, as far as wanted."""
        with self._lock:
            own = [answer for answer in self.answers if by is None or answer.by == by]
            return self.take_back(own[-1].number) if own else None

    def take_back(self, number: int) -> Answer:
        """Take one answer back, whichever it is; returns it. Its card lies before the person again."""
        with self._lock:
            gone = next((answer for answer in self.answers if answer.number == number), None)
            if gone is None:
                raise InvalidAnswerError(
                    f"there is no answer number {number} that stands; nothing was changed."
                )
            self._record.append({"event": "undo", "number": number, "time": utc_now()})
            self._n_events += 1
            self.answers.remove(gone)
            self._was_taken_back = True
            self._rebuild()
            if not isinstance(gone.question, Gesture):
                self._cards.give(gone.question, by=gone.by)
            return gone

    @property
    def constraints(self) -> Constraints:
        """Every pair that stands, with who said so and when, and what was known before."""
        with self._lock:
            stated = stated_pairs(self._settled)
        return self._known | stated if len(self._known) else stated

    @property
    def minutes(self) -> float:
        """How long the answers took."""
        return sum(answer.seconds for answer in self.answers) / 60

    @property
    def groups(self) -> Groups:
        """Rows that are known to belong together, and groups known to differ."""
        return self._settled.groups

    def contradictions(self) -> Any:
        """Answers that contradict each other, each with the chain that proves it."""
        return self.constraints.conflicts()

    def proof_against(self, link: Link) -> list[tuple[Link, Answer | None]]:
        """The chain that proves the opposite of a link, each step with its answer; ``None``: known before."""
        return chain_of_answers(self.answers, links_of(self._known), link)

    def _expect(self, question: Question | Gesture) -> Reply | None:
        """What the answer is expected to be."""
        return None

    def _after_answer(self) -> None:
        """Called when an answer was taken, outside of the lock."""

    def _rebuild(self) -> None:
        self._settled = Settled(links_of(self._known))
        self._passed: set[int] = set()
        self._people: set[str] = set()
        self._said: set[Link] = set(links_of(self._known))
        for answer in self.answers:
            self._learn(answer)

    def _learn(self, answer: Answer) -> None:
        self._settled.add(answer)
        self._people.add(answer.by)
        self._said.update(answer.links)
        if answer.reply in (UNSURE, SKIP) and not answer.question.is_check:
            self._passed.update(answer.question.subjects)

    def _named_rows(self) -> list[int]:
        return [*self.groups.rows, *(row for answer in self.answers for row in answer.question.rows)]


def standing_answers(events: Iterable[dict[str, Any]], n_rows: int) -> list[Answer]:
    """The answers that no later event takes back; each must be about rows that there are."""
    answers: list[Answer] = []
    for event in events:
        if event.get("event") == "undo":
            answers = [answer for answer in answers if answer.number != event.get("number")]
        else:
            answers.append(answer_from_dict(event))
            require_rows(answers[-1].question, n_rows)
    return answers


def answer_from_dict(line: Mapping[str, Any]) -> Answer:
    """From a line of the record; anything unexpected is an ``InvalidAnswerError``."""
    question = question_from_dict(line)
    reply = line.get("answer")
    return Answer(
        number=_whole(line.get("number"), "number"),
        question=question,
        reply=tuple(_wholes(reply, "answer")) if isinstance(reply, list) else _reply(reply),
        by=_text(line.get("by", ""), "by"),
        time=_text(line.get("time", ""), "time"),
        seconds=_number(line.get("seconds", 0.0), "seconds"),
        predicted=None if line.get("predicted") is None else _reply(line["predicted"]),
    )


def question_from_dict(line: Mapping[str, Any]) -> Question | Gesture:
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
        n_random = _whole(line.get("random", 0), "random")
        return GroupQuestion(tuple(_wholes(line.get("items"), "items")), is_check, n_random)
    if kind == Gesture.kind:
        return Gesture(_text(line.get("action", ""), "action"), _links(line.get("links")))
    raise InvalidAnswerError(
        f"kind must be 'choice', 'pair', 'group' or 'gesture', got {quoted(str(kind))} instead."
    )


def _whole(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise InvalidAnswerError(f"{name} must be a row number, got {quoted(str(value))} instead.")
    return value


def _wholes(values: Any, name: str) -> Iterable[int]:
    return [_whole(value, name) for value in _list(values, name)]


def _list(values: Any, name: str) -> list[Any]:
    if not isinstance(values, list):
        raise InvalidAnswerError(f"{name} must be a list, got {quoted(str(values))} instead.")
    return values


def _reply(value: Any) -> int | str:
    return _text(value, "answer") if isinstance(value, str) else _whole(value, "answer")


def _links(values: Any) -> tuple[Link, ...]:
    links = [_list(value, "links") for value in _list(values, "links")]
    if any(len(link) != 3 for link in links):
        raise InvalidAnswerError("links must be lists of left, right and 0 or 1.")
    return tuple(
        (_whole(a, "links"), _whole(b, "links"), bool(_whole(same, "links"))) for a, b, same in links
    )


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidAnswerError(f"{name} must be text, got {quoted(str(value))} instead.")
    return value


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidAnswerError(f"{name} must be a number, got {quoted(str(value))} instead.")
    return float(value)
