"""Cards, groups, the map and disagreements as the page gets them."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import combinations
from typing import Any

import numpy as np

from spherepair.app.open_project import Card, Labeling
from spherepair.app.shown_groups import View
from spherepair.app.versions import Group
from spherepair.asking.groups import Groups
from spherepair.asking.questions import (
    DIFFERENT,
    SAME,
    Answer,
    ChoiceQuestion,
    Gesture,
    Link,
    PairQuestion,
)
from spherepair.clustering.suspects import MUST_LINK

#: Most contradictions and suspected answers in one reply, and letters of a row in a summary.
MOST_CONTRADICTIONS, MOST_SUSPECTS, SHORT = 30, 20, 40


class Payloads:
    """What one project sends.

    Parameters
    ----------
    project : Labeling
    """

    def __init__(self, project: Labeling) -> None:
        self.project = project
        self._url = f"/api/projects/{project.id}/images"

    def item(self, row: int, *, whole: bool = False) -> dict[str, Any]:
        """A row."""
        return self.project.rows.item(row, url=self._url, whole=whole)

    def items(self, rows: Any) -> list[dict[str, Any]]:
        """Several rows."""
        return [self.item(int(row)) for row in rows]

    def group(self, group: Group | None) -> dict[str, str] | None:
        """A group in short."""
        if group is None:
            return None
        return {"id": group.id, "name": self.project.name_of(group)}

    def card(self, card: Card | None) -> dict[str, Any]:
        """A question. Exemplars stand in the order in which groups were found: likely ones not first."""
        if card is None:
            return {"ticket": None, "kind": "done"}
        question = card.question
        head = {"ticket": card.ticket, "kind": question.kind, "check": question.is_check}
        if isinstance(question, ChoiceQuestion):
            return head | self._choice(question)
        if isinstance(question, PairQuestion):
            return head | {
                "left": self.item(question.left),
                "right": self.item(question.right),
                "guess": self._guess(question),
            }
        group = self.project.view.group_of(question.rows[0])
        return head | {"group": self.group(group), "items": self.items(question.rows)}

    def _guess(self, question: PairQuestion) -> str | None:
        """What the model says of a pair; nothing where an earlier answer is looked at again."""
        if not self.project.version.groups or question.is_check:
            return None
        left, right = (self.project.view.group_of(row) for row in question.rows)
        return None if left is None or right is None else SAME if left.id == right.id else DIFFERENT

    def _choice(self, question: ChoiceQuestion) -> dict[str, Any]:
        project = self.project
        with project.lock:
            found = project.interview.groups
            place = {row: found.group_of(row) for row in question.exemplars}
            view = project.view
        last = len(place)
        rows = sorted(place, key=lambda row: (last if place[row] is None else place[row], row))
        expects = bool(project.version.groups) and not question.is_check
        return {
            "item": self.item(question.item),
            "exemplars": [{"item": self.item(row), "group": self.group(view.group_of(row))} for row in rows],
            "guess": rows.index(question.exemplars[0]) if expects else None,
        }

    def summary(self, answer: Answer) -> str:
        """An answer in a few words."""
        question, reply = answer.question, answer.reply
        if isinstance(question, Gesture):
            return f"{question.action}: {_counted(answer.links)}"
        first = self._brief(question.rows[0])
        if reply in ("unsure", "skip"):
            return f"{first}: {reply}"
        if isinstance(question, ChoiceQuestion):
            return (
                f"{first} belongs with {'none of them' if reply == 'none' else self._brief(int(str(reply)))}"
            )
        if isinstance(question, PairQuestion):
            return f"{first} and {self._brief(question.right)}: {reply}"
        odd = len(reply) if isinstance(reply, tuple) else 0
        return f"{len(question.rows) - 1 - odd} belong with {first}, {odd} do not"

    def answer_line(self, answer: Answer, *, is_undone: bool) -> dict[str, Any]:
        """An answer of the log."""
        question = answer.question
        return {
            "number": answer.number,
            "kind": question.kind,
            "summary": self.summary(answer),
            "by": answer.by,
            "time": answer.time,
            "seconds": answer.seconds,
            "rows": list(question.rows[:20]),
            "links": count_links(answer.links),
            "undone": is_undone,
            "gesture": question.action if isinstance(question, Gesture) else None,
        }

    def groups(self) -> list[dict[str, Any]]:
        """All groups, the largest first."""
        view = self.project.view
        order = np.argsort(-view.sizes, kind="stable")
        return [self.group_details(view, int(place)) for place in order if view.sizes[place]]

    def group_details(self, view: View, place: int) -> dict[str, Any]:
        """One group of a view; the project may have changed since."""
        project, group = self.project, view.groups[place]
        return {
            "id": group.id,
            "name": project.name_of(group),
            "named_by_person": group.id in project.names,
            "size": int(view.sizes[place]),
            "placed": int(view.placed_sizes[place]),
            "typical": self.items(group.typical),
            "unsure": self.items(group.unsure),
            "odd": self.items(group.odd),
            "change": {
                "since": max(0, view.version.number - 1),
                "in": group.came,
                "out": group.went,
                "note": self._note(view, group),
            },
        }

    def map(self) -> bytes:
        """All rows: a header, places, groups, confidence; see the contract of the page."""
        project = self.project
        view = project.view
        groups = [
            {**(self.group(group) or {}), "size": int(size)}
            for group, size in zip(view.groups, view.sizes, strict=True)
        ]
        header = {"n": len(project.rows), "version": view.version.number, "groups": groups}
        head = json.dumps(header).encode()
        head += b" " * (-(4 + len(head)) % 4)
        confidence = np.array(view.version.confidence)
        confidence[view.placed.rows] = 255
        parts = (
            len(head).to_bytes(4, "little"),
            head,
            np.ascontiguousarray(view.version.places, dtype="<f4").tobytes(),
            view.labels.astype("<u2").tobytes(),
            confidence.tobytes(),
        )
        return b"".join(parts)

    def contradiction(self, link: Link) -> dict[str, Any]:
        """A link that earlier ones refute, and these."""
        interview = self.project.interview
        stated = next((one for one in reversed(interview.answers) if link in one.links), None)
        steps = [*interview.proof_against(link), (link, stated)]
        return {"triangle": [self._statement(step, answer) for step, answer in steps]}

    def disagreements(self) -> dict[str, Any]:
        """Contradictions, suspected answers, and how often people agree."""
        project = self.project
        with project.lock:
            interview = project.interview
            answers, state = list(interview.answers), interview.state
            links = list(dict.fromkeys(interview.groups.contradictions))[-MOST_CONTRADICTIONS:]
            contradictions = [self.contradiction(link) for link in links]
        by_person: dict[str, list[Answer]] = defaultdict(list)
        for answer in answers:
            by_person[answer.by].append(answer)
        people = [
            {
                "person": person,
                "answers": len(theirs),
                "minutes": sum(answer.seconds for answer in theirs) / 60,
                "reliability": state.reliability.get(person),
            }
            for person, theirs in by_person.items()
        ]
        said = {person: [link for a in theirs for link in a.links] for person, theirs in by_person.items()}
        agreement = [_agreement(one, other, said) for one, other in combinations(sorted(said), 2)]
        shown = [one for one in agreement if one["shared"]]
        return {
            "contradictions": contradictions,
            "suspects": self._suspects(answers),
            "people": people,
            "agreement": shown,
        }

    def _suspects(self, answers: list[Answer]) -> list[dict[str, Any]]:
        """Answers that are more likely wrong than right by the latest model, where it can tell."""
        said = {link: answer for answer in answers for link in answer.links}
        found = []
        for one in self.project.interview.suspects(MOST_SUSPECTS):
            link = (one.left, one.right, one.link == MUST_LINK)
            doubt = {"probability": float(one.probability or 0.0), "reason": one.reason}
            found.append(self._statement(link, said.get(link)) | doubt)
        return found

    def _statement(self, link: Link, answer: Answer | None) -> dict[str, Any]:
        return {
            "left": self.item(link[0]),
            "right": self.item(link[1]),
            "says": "same" if link[2] else "different",
            "number": None if answer is None else answer.number,
            "by": "" if answer is None else answer.by,
            "time": "" if answer is None else answer.time,
        }

    def _note(self, view: View, group: Group) -> str | None:
        names = {one.id: self.project.name_of(one) for one in view.groups}
        if group.split_from is not None:
            return f"split from {names.get(group.split_from, 'another group')}"
        if group.merged_from:
            merged = [
                self.project.names.get(one, names.get(one, "another group")) for one in group.merged_from
            ]
            return f"took in {', '.join(merged)}"
        return None

    def _brief(self, row: int) -> str:
        item = self.item(row)
        text = " ".join((item["text"] or item["id"]).split())
        return f"“{text[:SHORT]}…”" if len(text) > SHORT else f"“{text}”"


def count_links(links: tuple[Link, ...]) -> dict[str, int]:
    """How many must-links and cannot-links."""
    must = sum(is_same for _, _, is_same in links)
    return {"must": must, "cannot": len(links) - must}


def _counted(links: tuple[Link, ...]) -> str:
    count = count_links(links)
    return f"{count['must']} same, {count['cannot']} different"


def _agreement(one: str, other: str, said: dict[str, list[Link]]) -> dict[str, Any]:
    """Pairs that the answers of both decide, and how many they decide alike."""
    first, second = Groups(said[one]), Groups(said[other])
    pairs = {(min(link[:2]), max(link[:2])) for link in (*said[one], *said[other])}
    told = [(first.relation(*pair), second.relation(*pair)) for pair in pairs]
    both = [(a, b) for a, b in told if a is not None and b is not None]
    return {"people": (one, other), "shared": len(both), "agree": sum(a == b for a, b in both)}
