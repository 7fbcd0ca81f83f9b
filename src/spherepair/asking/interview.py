"""The interview: gives the next question, takes an answer, holds everything said so far.

    next question -> answer, on disk -> what it proves -> now and then a model, fitted beside it

No answer waits for a model. Questions come from the latest one there is; before the first, from the rows as
they are.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from spherepair.asking.classics import RandomPairs, resolve_strategy
from spherepair.asking.groups import Groups, chain_of_answers
from spherepair.asking.questions import (
    SKIP,
    UNSURE,
    Answer,
    Answerer,
    Link,
    Question,
    Reply,
    plain_reply,
    require_rows,
    utc_now,
)
from spherepair.asking.record import (
    Record,
    close_record,
    fingerprint_rows,
    open_record,
    read_project,
    standing_answers,
    write_project,
)
from spherepair.asking.situation import Situation, Snapshot, draw_pool, predict_answer, view_of
from spherepair.asking.strategies import Strategy
from spherepair.asking.training import (
    BackgroundRefit,
    FirstView,
    RefitCancelledError,
    Training,
    check_rows,
    links_of,
    stated_pairs,
    training_pairs,
)
from spherepair.asking.worth import InterviewState, describe
from spherepair.constraints import Constraints
from spherepair.errors import InvalidAnswerError, SpherePairWarning

#: The first model is fitted after so many answers; the next ones after so many more, or after this share of
#: them.
FIRST_ANSWERS, REFIT_ANSWERS, REFIT_SHARE = 25, 15, 0.25
#: Items that are prepared with every model.
PREPARED_ITEMS = 30


class Interview:
    """Questions about a table, one after the other.

    Parameters
    ----------
    X : array, CSR matrix or table of shape (n_rows, n_features)
    items : sequence, optional
        What a person sees of each row: texts, file names of pictures, records.
    strategy : str or Strategy, default="cards"
        Chooses the questions.
    model : SpherePair, optional
        Unfitted; its parameters are those of every refit, but for the number of clusters.
    constraints : Constraints, optional
        Pairs that are known before the first question.
    record : path or Record, optional
        A file to which every answer is appended before the next question. An interview on a record that has
        answers goes on from them.
    background : bool, default=False
        Whether refits start by themselves, beside the questions, whenever one is due.
    random_state : int, default=0

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> talk = Interview(X, random_state=0)
    >>> question = talk.next()
    >>> same = y[question.item] == y[question.exemplars[0]]
    >>> talk.answer(question, question.exemplars[0] if same else "none", by="ann", seconds=7.9)
    >>> len(talk.constraints)
    1
    """

    def __init__(
        self,
        X: Any,
        *,
        items: Any = None,
        strategy: str | Strategy = "cards",
        model: Any = None,
        constraints: Constraints | None = None,
        record: str | Path | Record | None = None,
        background: bool = False,
        random_state: int = 0,
    ) -> None:
        table = check_rows(X, items)
        self.X, self.n_rows = X, int(table.shape[0])
        self.items, self.background = items, background
        self.strategy = resolve_strategy(strategy)
        self._seed = random_state
        self._known = constraints if constraints is not None else Constraints.from_pairs()
        self._known.validate(self.n_rows)
        self._fingerprint = fingerprint_rows(table)
        self._record = open_record(record, fingerprint=self._fingerprint)
        try:
            self.answers = standing_answers(self._record, self.n_rows)
        except BaseException:
            close_record(self._record)
            raise
        self._n_events = sum(1 for _ in self._record)
        self._rebuild()
        pool = draw_pool(self.n_rows, self._named_rows(), seed=random_state)
        self._first_view = FirstView(table, pool, seed=random_state)
        self._training = Training(X, model, seed=random_state)
        self.model: Any = None
        self._fitted_on = -1  # answers that the latest model has learned from
        self._was_taken_back = False
        self._history: list[tuple[int, float]] = []
        self._lock, self._refits = threading.RLock(), BackgroundRefit(self._fit)
        first = Snapshot(pool, self._first_view.vectors(pool))
        self._snapshot = self._prepare(first, self._groups, -1)

    @classmethod
    def of(cls, model: Any, X: Any, **settings: Any) -> Self:
        """Go on from a fitted model and its rows: its pairs are known, its embedding gives the questions."""
        interview = cls(X, model=clone(model), constraints=model.constraints_, **settings)
        interview._take_over(model, interview._groups, 0)
        return interview

    # Questions and answers.

    def next(self) -> Question | None:
        """The next question; ``None`` where the answers settle every pair of rows."""
        with self._lock:
            random = np.random.default_rng([self._seed, self._n_events])
            now = Situation(self._snapshot, self._groups, self.answers, frozenset(self._passed), random)
            question = self.strategy.propose(now)
            return question if question is not None else RandomPairs().propose(now)

    def answer(
        self, question: Question, reply: Reply | Iterable[int], *, by: str = "", seconds: float | None = None
    ) -> None:
        """Take an answer; it is on disk when this returns.

        Parameters
        ----------
        question : as given by :meth:`next`
        reply : int, str or sequence of int
            An exemplar or ``"none"``; ``"same"`` or ``"different"``; the items that do not belong;
            ``"unsure"``, ``"skip"``.
        by : str, optional
            Who answers.
        seconds : float, optional
            How long it took; what is usual for the kind of question if not given.
        """
        require_rows(question, self.n_rows)
        value = plain_reply(reply)
        question.links(value)  # refuses what does not fit before anything is written
        with self._lock:
            self._take_in(question.rows)
            predicted, margins = predict_answer(question, self._snapshot, self._groups)
            answer = Answer(
                number=self._n_events,
                question=question,
                reply=value,
                by=str(by),
                time=utc_now(),
                seconds=float(question.seconds if seconds is None else seconds),
                predicted=predicted,
                margins=margins,
            )
            self._record.append({"event": "answer", **answer.to_dict()})
            self._n_events += 1
            self.answers.append(answer)
            self._learn(answer)
        if self.background and self.is_refit_due:
            self.start_refit()

    def undo(self) -> Answer | None:
        """Take the latest answer back; again and again, as far as wanted. Returns what was taken back."""
        return self.take_back(self.answers[-1].number) if self.answers else None

    def take_back(self, number: int) -> Answer:
        """Take one answer back, whichever it is; returns it."""
        with self._lock:
            gone = next((answer for answer in self.answers if answer.number == number), None)
            if gone is None:
                raise InvalidAnswerError(
                    f"there is no answer number {number} that stands; nothing was changed."
                )
            self._record.append({"event": "undo", "number": number, "time": utc_now()})
            self._n_events += 1
            self.answers.remove(gone)
            self._was_taken_back = True  # the latest model may have learned from it
            self._rebuild()
            return gone

    def run(
        self,
        answerer: Answerer,
        *,
        max_answers: int | None = None,
        max_minutes: float | None = None,
        until_settled: bool = False,
        by: str = "",
        on_refit: Callable[[Interview], None] | None = None,
    ) -> Self:
        """Let something answer: a person's prompt, a rule, a program.

        Parameters
        ----------
        answerer : callable
            Question in, answer out.
        max_answers : int, optional
            Stop when there are so many.
        max_minutes : float, optional
            Stop when they have taken so long.
        until_settled : bool, default=False
            Stop when going on is not worth it.
        by : str, optional
            Who answers.
        on_refit : callable, optional
            Called with the interview after every refit.
        """
        if self.model is None:
            self.refit()
        most = np.inf if max_answers is None else max_answers
        longest = np.inf if max_minutes is None else max_minutes
        while len(self.answers) < most and self.minutes < longest:
            question = self.next()
            if question is None or (until_settled and not self.state.worth_going_on):
                break
            self.answer(question, answerer(question), by=by)
            if self.is_refit_due and not self.background:
                self.refit()
                if on_refit is not None:
                    on_refit(self)
        if self._fitted_on < len(self.answers) or self._was_taken_back:
            self.refit()
        return self

    # What is known.

    @property
    def constraints(self) -> Constraints:
        """Every pair that the answers state, with who said so and when, and what was known before."""
        stated = stated_pairs(self.answers)
        return self._known | stated if len(self._known) else stated

    @property
    def minutes(self) -> float:
        """How long the answers took."""
        return sum(answer.seconds for answer in self.answers) / 60

    @property
    def groups(self) -> Groups:
        """Rows that are known to belong together, and groups known to differ."""
        return self._groups

    @property
    def state(self) -> InterviewState:
        """Minutes, groups found, how sure that all are, how many rows are right, whether to go on."""
        return describe(self.answers, self._groups, self._snapshot, self._history)

    def contradictions(self) -> Any:
        """Answers that contradict each other, each with the chain that proves it."""
        return self.constraints.conflicts()

    def proof_against(self, link: Link) -> list[tuple[Link, Answer | None]]:
        """The chain that proves the opposite of a link, each step with its answer; ``None``: known before."""
        return chain_of_answers(self.answers, links_of(self._known), link)

    # Models.

    @property
    def is_refit_due(self) -> bool:
        """Whether enough was answered since the latest model."""
        if self._fitted_on < 0:
            return len(self.answers) >= FIRST_ANSWERS
        return len(self.answers) - self._fitted_on >= max(REFIT_ANSWERS, int(REFIT_SHARE * self._fitted_on))

    def refit(self) -> Self:
        """Fit a model on all that the answers say, now, and choose questions from it."""
        self.wait()
        self._fit()
        return self

    def start_refit(self) -> None:
        """The same, beside the questions; nothing happens where one is under way."""
        self._refits.start()

    def wait(self) -> None:
        """Until a refit under way is done; raises what it met."""
        self._refits.wait()

    # Files.

    def save(self, folder: str | Path) -> None:
        """Write a project: the rows, the record, the model. From now on answers are appended to it."""
        path = Path(folder)
        record = write_project(
            path, self.X, self.items, events=list(self._record), fingerprint=self._fingerprint
        )
        self._record = record
        if self.model is not None and self._fitted_on >= 0:
            self.model.save(path / "model")

    @classmethod
    def open(cls, folder: str | Path, X: Any = None, **settings: Any) -> Self:
        """Go on with a project that was saved; its rows are in the folder unless ``X`` is given."""
        rows, items, record = read_project(Path(folder), X)
        return cls(rows, items=items, record=record, **settings)

    def close(self, *, wait: bool = True) -> None:
        """Let other processes have the record; a refit under way is finished, or ended after its epoch."""
        if not wait:
            self._training.cancel()
        try:
            with suppress(RefitCancelledError):
                self.wait()
        finally:
            close_record(self._record)

    # Behind it.

    def _rebuild(self) -> None:
        self._groups = Groups(links_of(self._known))
        self._passed: set[int] = set()
        for answer in self.answers:
            self._learn(answer)

    def _learn(self, answer: Answer) -> None:
        self._groups.add(answer.links)
        if answer.reply in (UNSURE, SKIP) and not answer.question.is_check:
            self._passed.update(answer.question.subjects)

    def _named_rows(self) -> list[int]:
        return [*self._groups.rows, *(row for answer in self.answers for row in answer.question.rows)]

    def _take_in(self, rows: tuple[int, ...]) -> None:
        """Let rows that nobody proposed be seen as well."""
        if self._snapshot.lacks(rows):
            pool = np.union1d(self._snapshot.pool, rows)
            self._snapshot = replace(self._snapshot, pool=pool, embedding=self._vectors(self.model, pool))

    def _vectors(self, model: Any, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        if model is None:
            return self._first_view.vectors(rows)
        vectors: NDArray[np.float32] = model.embedding_[rows]
        return vectors

    def _fit(self) -> None:
        with self._lock:
            self._was_taken_back = False
            n_answers, groups = len(self.answers), Groups(links_of(self._known))
            groups.add(link for answer in self.answers for link in answer.links)
        pairs = training_pairs(groups, np.random.default_rng([self._seed, n_answers]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SpherePairWarning)  # few pairs are what an interview begins with
            model = self._training.fit(pairs, groups)
        self._take_over(model, groups, n_answers if len(pairs) else -1)

    def _take_over(self, model: Any, groups: Groups, n_answers: int) -> None:
        """Choose questions from this model; until it is prepared they come from the last one."""
        pool = self._snapshot.pool
        fresh = Snapshot(pool, self._vectors(model, pool))
        fresh = self._prepare(view_of(fresh, groups) if n_answers >= 0 else fresh, groups, n_answers)
        with self._lock:
            self.model, self._snapshot, self._fitted_on = model, fresh, n_answers
            self._take_in(tuple(self._named_rows()))
            accuracy = self.state.accuracy if fresh.is_fitted else None
            if accuracy is not None:
                self._history.append((n_answers, accuracy))

    def _prepare(self, snapshot: Snapshot, groups: Groups, n_answers: int) -> Snapshot:
        random = np.random.default_rng([self._seed, 1, n_answers + 1])
        queue = self.strategy.prepare(snapshot, groups.placed()[0], PREPARED_ITEMS, random)
        return replace(snapshot, queue=tuple(queue))
