"""Questions worth answering: choose what to ask a person, take the answers, fit models beside it.

    next question -> answer, on disk -> what it proves -> now and then a model, fitted beside it

No answer waits for a model. Questions come from the latest one there is; before the first, from the rows as
they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from spherepair.asking.classics import STRATEGIES, RandomPairs, resolve_strategy, strategy_name
from spherepair.asking.conversation import Conversation
from spherepair.asking.groups import Groups, Settled
from spherepair.asking.questions import (
    Answer,
    Answerer,
    ChoiceQuestion,
    Gesture,
    GroupQuestion,
    PairQuestion,
    Question,
    Reply,
    plain_question,
)
from spherepair.asking.record import (
    Project,
    Record,
    close_record,
    fingerprint_rows,
    load_project_model,
    read_project,
    save_project_model,
    write_project,
)
from spherepair.asking.situation import (
    InterviewState,
    Situation,
    Snapshot,
    describe,
    draw_pool,
    predict_answer,
    view_of,
)
from spherepair.asking.strategies import Strategy
from spherepair.asking.training import (
    BackgroundRefit,
    FirstView,
    RefitCancelledError,
    Training,
    TrainingTask,
    check_rows,
    find_suspects,
    links_of,
)
from spherepair.clustering.suspects import MUST_LINK, Suspect
from spherepair.constraints import Constraints

__all__ = [
    "STRATEGIES",
    "Answer",
    "ChoiceQuestion",
    "Gesture",
    "GroupQuestion",
    "Interview",
    "InterviewState",
    "PairQuestion",
    "Training",
    "TrainingTask",
]

#: The first model is fitted after so many answers; the next ones after so many more, or after this share of
#: them.
FIRST_ANSWERS, REFIT_ANSWERS, REFIT_SHARE = 25, 15, 0.25
#: Items that are prepared with every model.
PREPARED_ITEMS = 30


class Interview(Conversation):
    """Questions about a table, one after the other; several people may answer at once.

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
    questions : sequence of questions, optional
        Asked before all others, such as answers to look at again; those that the record answers are not.
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
        questions: Sequence[Question] = (),
        background: bool = False,
        random_state: int | None = 0,
    ) -> None:
        self.strategy, (X, table) = resolve_strategy(strategy), check_rows(X, items)
        known = Constraints.from_pairs() if constraints is None else constraints
        super().__init__(int(table.shape[0]), known, record, fingerprint=lambda: fingerprint_rows(table))
        self.X, self.items, self.background = X, items, background
        self._questions = [plain_question(question, self.n_rows) for question in questions]
        self._seed = int(np.random.default_rng().integers(2**31)) if random_state is None else random_state
        pool = draw_pool(self.n_rows, self._named_rows(), seed=self._seed)
        self._first_view = FirstView(table, pool, seed=self._seed)
        self._training = Training(X, model, seed=self._seed)
        self.model: Any = None
        self._fitted_on = -1  # answers that the latest model has learned from
        self._history: list[tuple[int, float]] = []
        self._state: tuple[Any, InterviewState] | None = None
        self._suspects: list[Suspect] = []
        self._refits = BackgroundRefit(self._fit)
        self._snapshot = self._prepare(Snapshot(pool, self._first_view.vectors(pool)), self.groups, -1)

    @classmethod
    def of(cls, model: Any, X: Any, **settings: Any) -> Self:
        """Go on from a fitted model and its rows: its pairs are known, its embedding gives the questions."""
        interview = cls(X, model=clone(model), constraints=model.constraints_, **settings)
        interview._take_over(model, interview.groups, 0)
        return interview

    def next(self, *, by: str = "") -> Question | None:
        """The next question for a person; ``None`` where the answers settle every pair of rows.

        It is the same one until it is answered, and not about a row that somebody else is being asked about.
        """
        with self._lock:
            card = self._cards.of(by)
            if card is not None and (card in self._questions or self._is_open(card)):
                return card
            first = self._given_question()
            if first is not None:
                return self._cards.give(first, by=by)
            passed = frozenset(self._passed | self._cards.rows_of_others(by))
            random = np.random.default_rng([self._seed, self._n_events, len(passed)])
            own = (
                [answer for answer in self.answers if answer.by == by]
                if len(self._people) > 1
                else self.answers
            )
            now = Situation(
                self._snapshot,
                self.groups,
                own,
                passed,
                random,
                self._settled,
                self._first_view.vectors,
                tuple((one.left, one.right) for one in self.suspects()),
            )
            question = self.strategy.propose(now)
            question = question if question is not None else RandomPairs().propose(now)
            return None if question is None else self._cards.give(question, by=by)

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
            question = self.next(by=by)
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

    @property
    def state(self) -> InterviewState:
        """Minutes, groups found, how sure that all are, how many rows are right, whether to go on."""
        with self._lock:
            key = (self._n_events, id(self._snapshot), len(self._history))
            if self._state is None or self._state[0] != key:
                self._state = key, describe(self.answers, self._settled, self._snapshot, self._history)
            return self._state[1]

    def suspects(self, n: int | None = 20) -> list[Suspect]:
        """Answers that are more likely wrong than right by the latest model, the most suspicious first.

        Told from the rows that are most like those of an answer, without training; they are the first to be
        asked again. None before there is a model.
        """
        with self._lock:
            links = [(one.left, one.right, one.link == MUST_LINK) for one in self._suspects]
            return [one for one, link in zip(self._suspects, links, strict=True) if link in self._said][:n]

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
        """Wait for a running refit; raises its error."""
        self._refits.wait()

    def training_task(self, answers: Sequence[Answer] | None = None) -> TrainingTask:
        """What a model is to learn from now; another process may fit it: :class:`Training`.

        Parameters
        ----------
        answers : sequence of Answer, optional
            All so far if not given. Nobody waits for a card while they are gone through.
        """
        if answers is None:
            with self._lock:
                self._was_taken_back, answers = False, list(self.answers)
        settled = Settled(links_of(self._known), answers)
        return TrainingTask.of(settled, n_answers=len(answers), seed=self._seed)

    def adopt(self, model: Any, task: TrainingTask) -> None:
        """Choose questions from a model that was fitted elsewhere on the rows and this task."""
        self._take_over(model, task.groups, task.n_answers if len(task.groups.rows) else -1)

    # Files.

    def save(self, folder: str | Path) -> None:
        """Write a project: the rows, the record, the model. From now on answers are appended to it."""
        with self._lock:
            project = Project(self.X, self.items, self._known, strategy_name(self.strategy), self._seed)
            old, rows = self._record, self._fingerprint()
            self._record = write_project(Path(folder), project, record=old, fingerprint=rows)
            if self._record is not old:
                close_record(old)
            model, fitted_on = self.model, self._fitted_on
        if model is not None and fitted_on >= 0:
            save_project_model(Path(folder), model, fitted_on)

    @classmethod
    def open(cls, folder: str | Path, X: Any = None, **settings: Any) -> Self:
        """Go on with a project that was saved; its rows are in the folder unless ``X`` is given."""
        project, record = read_project(Path(folder), X)
        given = {"strategy": project.strategy, "random_state": project.seed, "constraints": project.known}
        try:
            interview = cls(project.X, items=project.items, record=record, **{**given, **settings})
            saved = load_project_model(Path(folder))
        except BaseException:
            close_record(record)
            raise
        if saved is not None:
            model, fitted_on = saved
            said = Settled(links_of(interview._known), interview.answers[:fitted_on])
            interview._take_over(model, said.groups, fitted_on)
        return interview

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

    def _expect(self, question: Question | Gesture) -> Reply | None:
        self._take_in(question.rows)
        return predict_answer(question, self._snapshot, self.groups)

    def _after_answer(self) -> None:
        if self.background and self.is_refit_due:
            self.start_refit()

    def _given_question(self) -> Any:
        """The first of the given questions that nobody has answered or has before them."""
        answered = {answer.question for answer in self.answers} if self._questions else ()
        waiting = (one for one in self._questions if one not in answered and one not in self._cards)
        return next(waiting, None)

    def _is_open(self, card: Question) -> bool:
        """Whether a card that was given still asks something, after what others have answered since."""
        first, *others = card.rows
        return card.is_check or any(self.groups.relation(first, row) is None for row in others)

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
        task = self.training_task()
        self.adopt(self._training.fit(task), task)

    def _take_over(self, model: Any, groups: Groups, n_answers: int) -> None:
        """Choose questions from this model; until it is prepared they come from the last one."""
        pool = np.union1d(self._snapshot.pool, draw_pool(self.n_rows, self._named_rows(), seed=self._seed))
        fresh = Snapshot(pool, self._vectors(model, pool))
        fresh = self._prepare(view_of(fresh, groups) if n_answers >= 0 else fresh, groups, n_answers)
        suspects = self._find_suspects(fresh)
        with self._lock:
            self.model, self._snapshot, self._fitted_on = model, fresh, n_answers
            self._suspects = suspects
            self._take_in(tuple(self._named_rows()))
            accuracy = self.state.accuracy if fresh.is_fitted else None
            if accuracy is not None:
                self._history.append((n_answers, accuracy))

    def _find_suspects(self, snapshot: Snapshot) -> list[Suspect]:
        if snapshot.centers is None:
            return []
        stated = self.constraints
        stated = stated[np.isin(stated.left, snapshot.pool) & np.isin(stated.right, snapshot.pool)]
        plain = self._first_view.vectors(snapshot.pool)
        return find_suspects(stated, snapshot.pool, plain, snapshot.probabilities, seed=self._seed)

    def _prepare(self, snapshot: Snapshot, groups: Groups, n_answers: int) -> Snapshot:
        random = np.random.default_rng([self._seed, 1, n_answers + 1])
        queue = self.strategy.prepare(snapshot, groups.placed()[0], PREPARED_ITEMS, random)
        return replace(snapshot, queue=tuple(queue))
