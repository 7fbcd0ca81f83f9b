"""One open project: cards for people, answers into the log, models from the trainer, and what all that shows.

Every change goes through the log first (:class:`~spherepair.app.database.DatabaseRecord`). What is kept here
besides is rebuilt from it when the project is opened.
"""

from __future__ import annotations

import json
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Engine

from spherepair.app.cards import SharedCards
from spherepair.app.database import DatabaseRecord, Event
from spherepair.app.project_rows import Rows
from spherepair.app.security import same_text, sign
from spherepair.app.shown_groups import Plan, View, changes_since, plan_gesture, view_of
from spherepair.app.streams import Stream
from spherepair.app.versions import Group, Version, earlier_versions, latest_version, version_before
from spherepair.app.worker import FEATURES, QUIET_SECONDS, Job, Trainer
from spherepair.asking import REFIT_ANSWERS, REFIT_SHARE, Interview
from spherepair.asking.conversation import question_from_dict
from spherepair.asking.questions import (
    Answer,
    Gesture,
    Question,
    Reply,
    plain_reply,
    question_to_dict,
    utc_now,
)
from spherepair.asking.record import fingerprint_rows
from spherepair.errors import InvalidAnswerError
from spherepair.estimators import load
from spherepair.files import atomic_write_text

#: A card that stays open for longer counts as taking so many seconds: the person was away.
LONGEST_SECONDS = 120.0
#: Least time between two estimates of where an interview stands.
STATE_SECONDS = 0.5
RESTORE = "restore"


class ClosedCardError(InvalidAnswerError):
    """The card is no longer open; the person gets another one."""


@dataclass(frozen=True)
class Card:
    """A question that a person has before them."""

    ticket: str
    person: str
    question: Question


class Labeling:
    """An open project.

    Parameters
    ----------
    folder : Path
    id, name : str
    rows : Rows
    engine : Engine
        Of the database with the log.
    seed : int
    secret : bytes
        Signs the tickets of cards.
    """

    def __init__(
        self, folder: Path, id: str, name: str, rows: Rows, *, engine: Engine, seed: int, secret: bytes
    ) -> None:
        self.folder, self.id, self.name, self.rows, self._secret = folder, id, name, rows, secret
        self.opened = utc_now()
        self.X = np.load(folder / FEATURES, mmap_mode="r", allow_pickle=False)
        self.record = DatabaseRecord(engine, id, name=name, fingerprint=fingerprint_rows(self.X))
        self._cards = SharedCards()
        self.interview = Interview(self.X, strategy=self._cards, record=self.record, random_state=seed)
        self.lock = threading.RLock()
        self.stream = Stream()
        self.names = {group: given for group, (given, _) in self.record.names().items()}
        self._counts, self._n_counted = Counter[str](), 0
        self._count_events()
        self._order: dict[int, int] = {}
        self._note_rows(self.interview.answers)
        self._last_change, self._is_wanted = time.monotonic(), False
        self._learned = -1  # events that the latest model knows
        self._view: tuple[Any, View] | None = None
        self._state: tuple[Any, dict[str, Any]] = (None, {})
        self._state_due = 0.0
        self._is_closed, self._has_news = threading.Event(), threading.Event()
        self.version, self._kept = latest_version(folder, len(rows)), earlier_versions(folder)
        if self.version.folder is not None:
            self._adopt_again(self.version)
        self.trainer = Trainer(
            folder,
            seed=seed,
            is_due=self._is_training_due,
            make_job=self._make_job,
            finished=self._adopt,
            changed=self._has_news.set,
            version=self.version.number,
        )
        self.trainer.start()
        threading.Thread(target=self._tell, daemon=True, name=f"news of {id}").start()

    def close(self) -> None:
        """End the training and let the record go."""
        self._is_closed.set()
        self._has_news.set()
        self.trainer.close()
        self.interview.close(wait=False)
        self._cards.close()
        self.write_summary()

    # Cards and answers.

    def card(self, person: str) -> Card | None:
        """The card of a person: the same one until it is answered; ``None`` where nothing is left to ask."""
        with self.lock:
            question = self.interview.next(by=person)
            if question is None:
                return None
            return Card(self._ticket(person, question), person, question)

    def answer(self, person: str, ticket: str, reply: Any, seconds: float) -> Event:
        """Take an answer; it is in the log when this returns. The same ticket again changes nothing."""
        with self.lock:
            digest, question = self._read_ticket(person, ticket)
            known = self.record.find(digest)
            if known is not None:
                return known
            if question is None:
                raise ClosedCardError("this card is no longer open; nothing was written.")
            value: Reply = plain_reply(reply)
            question.links(value)
            self.interview.ask(question, by=person)  # after a restart nobody knows any more that it was asked
            with self.record.noting(person=person, ticket=digest):
                self.interview.answer(
                    question, value, by=person, seconds=min(max(seconds, 0.0), LONGEST_SECONDS)
                )
            return self._changed(person)

    def plan(self, gesture: dict[str, Any]) -> Plan:
        """What a gesture of the page would write."""
        with self.lock:
            return plan_gesture(self.view, self.interview.answers, gesture, name_of=self.name_of)

    def gesture(
        self, person: str, gesture: Gesture, takes_back: list[int], ticket: str | None = None
    ) -> Event:
        """Write a gesture and what it takes back, all of it or nothing."""
        with self.lock:
            if ticket is not None and (known := self.record.find(ticket)) is not None:
                return known
            pairs = [link for number in takes_back for link in self.standing(number).links]
            note = {"took_back": [[left, right, int(same)] for left, right, same in pairs]} if pairs else None
            with self.record.together():
                with self.record.noting(person=person):
                    for number in takes_back:
                        self.interview.take_back(number)
                with self.record.noting(person=person, ticket=ticket, note=note):
                    self.interview.answer(gesture, "done", by=person)
            self._is_wanted = True
            return self._changed(person)

    def undo(self, person: str, number: int | None) -> Answer | None:
        """Take an answer back, by default the person's latest; a gesture gives back what it took."""
        with self.lock:
            if number is None:
                number = self._latest_of(person)
                if number is None:
                    return None
            note = self.record.events[self.standing(number).number].note or {}
            links = tuple((left, right, bool(same)) for left, right, same in note.get("took_back", []))
            with self.record.together(), self.record.noting(person=person):
                gone = self.interview.take_back(number)
                if links:
                    self.interview.answer(Gesture(RESTORE, links), "done", by=person)
            if gone.by == person and not isinstance(gone.question, Gesture):
                self.interview.ask(gone.question, by=person)
            self._is_wanted = self._is_wanted or isinstance(gone.question, Gesture)
            self._changed(person)
            return gone

    def standing(self, number: int) -> Answer:
        """The answer of this number, which must not be taken back yet."""
        found = next((answer for answer in self.interview.answers if answer.number == number), None)
        if found is None:
            raise InvalidAnswerError(f"there is no answer number {number} that stands; nothing was changed.")
        return found

    def give_name(self, group: str, name: str, *, person: str) -> None:
        """Name a group; the name stays with it."""
        with self.lock:
            self.record.give_name(group, name, person=person)
            self.names[group] = name
        self.stream.publish("model", {"version": self.version.number})

    # What it shows.

    @property
    def view(self) -> View:
        """The groups as they are now."""
        with self.lock:
            key = (len(self.record.events), self.version.number)
            if self._view is None or self._view[0] != key:
                self._view = key, view_of(self.version, self.interview.groups, self._order)
            return self._view[1]

    def name_of(self, group: Group) -> str:
        """The name that a person gave a group, or a number."""
        return self.names.get(group.id, f"Group {group.number}")

    def state(self) -> dict[str, Any]:
        """Where the interview stands, as the page gets it.

        Estimates take a while on a long log. While many people answer they are up to a second old.
        """
        with self.lock:
            key = (len(self.record.events), self.version.number)
            if self._state[0] != key and time.monotonic() >= self._state_due:
                started = time.monotonic()
                self._state = key, self._describe()
                cost = time.monotonic() - started
                self._state_due = started + cost + max(STATE_SECONDS, 20 * cost)
            training = {**asdict(self.trainer.status), "version": self.version.number}
            return {**self._state[1], "answers": len(self.interview.answers), "training": training}

    def _describe(self) -> dict[str, Any]:
        now = self.interview.state
        found = asdict(now)
        del found["reliability"]
        return {**found, "sentence": str(now), "changed_lately": self._changed_lately()}

    def _changed_lately(self) -> dict[str, int] | None:
        """What the last twenty answers changed, or as many more as are newer than a version that is kept."""
        n_answers = len(self.interview.answers)
        before = version_before(self._kept, n_answers, len(self.rows))
        if before is None:
            return None
        return {"answers": n_answers - max(0, before.n_answers), **changes_since(before, self.view)}

    def _tell(self) -> None:
        """Tell every open page where the interview stands, now and then while a lot happens."""
        while not self._is_closed.is_set():
            self._has_news.wait()
            self._has_news.clear()
            if self.stream.is_heard and not self._is_closed.is_set():
                self.stream.publish("state", self.state())
            if self._is_closed.wait(max(STATE_SECONDS, self._state_due - time.monotonic())):
                return
            if self._state[0] != (len(self.record.events), self.version.number) and self.stream.is_heard:
                self._has_news.set()

    def write_summary(self) -> None:
        """Counts for the list of projects; on a full disk the older ones stay."""
        with self.lock:
            summary = {
                "answers": len(self.interview.answers),
                "groups": len(self.interview.groups),
                "opened": self.opened,
            }
        with suppress(OSError):
            atomic_write_text(self.folder / "summary.json", json.dumps(summary))

    def want_training(self) -> None:
        """Train as soon as possible on all that was answered."""
        self._is_wanted = True

    # Models.

    def _is_training_due(self, running: Any) -> bool:
        """For the trainer: whether to start, or whether newer answers make the running task useless."""
        interview = self.interview
        if running is not None:
            known = int(running.n_answers)
            return len(interview.answers) - known >= max(REFIT_ANSWERS, int(REFIT_SHARE * known))
        if self.version.number == 0 or interview.is_refit_due:
            return True
        if len(self.record.events) == self._learned or not interview.answers:
            return False
        is_quiet = time.monotonic() - self._last_change > QUIET_SECONDS
        with self.lock:
            return self._is_wanted or (is_quiet and len(interview.groups) > 1)

    def _make_job(self, version: int) -> Job:
        with self.lock:
            self._is_wanted = False
            self._job_events = len(self.record.events)
            placed, answers = self.view.placed, list(self.interview.answers)
        return Job(version, self.interview.training_task(answers), placed)

    def _adopt(self, job: Job) -> None:
        """Take a finished version over; questions come from its model from now on."""
        version = latest_version(self.folder, len(self.rows))
        assert version.model_folder is not None
        model = load(version.model_folder)
        self.interview.adopt(model, job.task)
        with self.lock:
            self.version, self._learned = version, self._job_events
            self._kept = earlier_versions(self.folder)
        self.stream.publish("model", {"version": version.number})

    def _adopt_again(self, version: Version) -> None:
        """After a start: the model of the last time."""
        assert version.model_folder is not None
        task = replace(self.interview.training_task(), n_answers=max(version.n_answers, 0))
        self.interview.adopt(load(version.model_folder), task)

    # Behind it.

    def _changed(self, person: str) -> Event:
        event = self.record.events[-1]
        self._count_events()
        self._last_change = time.monotonic()
        self._note_rows(self.interview.answers[-1:])
        self.stream.publish("answer", {"by": person, "number": event.place})
        self._has_news.set()
        return event

    def _count_events(self) -> None:
        """How much each person has done."""
        fresh = self.record.events[self._n_counted :]
        self._counts.update(event.person for event in fresh)
        self._n_counted += len(fresh)

    def _note_rows(self, answers: list[Answer]) -> None:
        for answer in answers:
            for row in answer.question.rows:
                self._order.setdefault(row, len(self._order))

    def _ticket(self, person: str, question: Question) -> str:
        """Holds the question and how much the person has done: good for one answer, after a restart too."""
        asked = json.dumps([self._counts[person], question_to_dict(question)], separators=(",", ":"))
        body = urlsafe_b64encode(asked.encode()).decode()
        return f"{self._digest(person, body)}.{body}"

    def _read_ticket(self, person: str, ticket: str) -> tuple[str, Question | None]:
        """The digest of a ticket, by which its answer is known, and its question while that is open."""
        digest, _, body = ticket.partition(".")
        if not same_text(digest, self._digest(person, body)):
            return digest, None
        count, asked = json.loads(urlsafe_b64decode(body))
        question = question_from_dict(asked)
        if count != self._counts[person] or isinstance(question, Gesture):
            return digest, None
        return digest, question

    def _digest(self, person: str, body: str) -> str:
        return sign(self._secret, "ticket", f"{self.id} {person} {body}")[:32]

    def _latest_of(self, person: str) -> int | None:
        for answer in reversed(self.interview.answers):
            is_restored = isinstance(answer.question, Gesture) and answer.question.action == RESTORE
            if answer.by == person and not is_restored:
                return answer.number
        return None
