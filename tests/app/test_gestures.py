from __future__ import annotations

from dataclasses import replace

import pytest
from tests.app.test_api import Person

from spherepair.errors import InvalidAnswerError


@pytest.fixture
def ann(client, project):
    person = Person(client, project, "ann")
    person.answer_many(14)
    return person


@pytest.fixture
def labeling(ann, home, project):
    return home.get(project)


def groups_of(ann) -> list[str]:
    return [group["id"] for group in ann.get("/groups").json()]


def relation(labeling, left: int, right: int):
    return labeling.interview.groups.relation(left, right)


def test_merge_takes_back_what_says_the_opposite_and_keeps_the_rest(ann, labeling):
    first, second, third = groups_of(ann)
    rows = {group["id"]: group["typical"][0]["row"] for group in ann.get("/groups").json()}
    body = {"action": "merge", "groups": [first, second]}
    preview = ann.post("/gestures/preview", body).json()
    assert (preview["must"], preview["cannot"]) == (1, 0)
    assert preview["takes_back"]
    before = ann.get("/answers").json()["total"]
    assert ann.get("/answers").json()["total"] == before
    done = ann.post("/gestures", body).json()
    assert done["number"] >= before
    assert relation(labeling, rows[first], rows[second]) is True
    assert relation(labeling, rows[first], rows[third]) is False
    assert labeling.interview.groups.contradictions == []
    assert len(groups_of(ann)) == 2


def test_undo_of_a_gesture_brings_everything_back(ann, labeling):
    before = labeling.interview.groups
    known = {(a, b): before.relation(a, b) for a in before.rows for b in before.rows}
    first, second, _ = groups_of(ann)
    done = ann.post("/gestures", {"action": "merge", "groups": [first, second]}).json()
    undone = ann.post("/undo", {"number": None}).json()["undone"]
    assert undone["number"] == done["number"]
    after = labeling.interview.groups
    assert {pair: after.relation(*pair) for pair in known} == known


def test_groups_are_those_of_one_moment(ann, labeling, monkeypatch):
    """Somebody takes an answer back while they are listed."""
    expected, now = ann.get("/groups").json(), labeling.view
    views = iter([now])
    before_answers = replace(now, groups=now.groups[:1])
    monkeypatch.setattr(type(labeling), "view", property(lambda self: next(views, before_answers)))
    assert ann.get("/groups").json() == expected


def test_a_gesture_with_a_ticket_is_written_once(ann):
    first, second, _ = groups_of(ann)
    body = {"action": "merge", "groups": [first, second], "ticket": "one"}
    one, other = ann.post("/gestures", body).json(), ann.post("/gestures", body).json()
    assert one["number"] == other["number"]


def test_split_separates_the_seeds(ann, labeling):
    group = ann.get("/groups").json()[0]
    seeds = labeling.view.members(labeling.view.position(group["id"]))[:2]
    assert relation(labeling, *seeds) is True
    ann.post("/gestures", {"action": "split", "group": group["id"], "seeds": seeds})
    assert relation(labeling, *seeds) is False
    assert labeling.interview.groups.contradictions == []


def test_split_around_rows_that_nobody_has_placed_makes_groups_of_them(ann, labeling):
    group, *others = ann.get("/groups").json()
    placed = set(labeling.interview.groups.rows)
    topic = group["typical"][0]["row"] % 3
    seeds = [row for row in range(topic, 60, 3) if row not in placed][:2]
    ann.post("/gestures", {"action": "split", "group": group["id"], "seeds": seeds})
    assert relation(labeling, *seeds) is False
    assert len({labeling.view.group_of(row).id for row in seeds} | {one["id"] for one in others}) == 4
    assert labeling.interview.training_task().n_clusters in (4, "auto")
    ann.post("/undo", {"number": None})
    assert len(groups_of(ann)) == 3


def test_remove_and_move_a_row(ann, labeling):
    first, second, _ = (group["id"] for group in ann.get("/groups").json())
    members = labeling.view.members(labeling.view.position(first))
    row = members[-1]
    ann.post("/gestures", {"action": "remove", "group": first, "rows": [row]})
    assert all(relation(labeling, row, other) is False for other in members if other != row)
    ann.post("/gestures", {"action": "move", "rows": [row], "to": second})
    assert labeling.view.group_of(row).id == second
    assert labeling.interview.groups.contradictions == []


def test_rows_can_become_a_group_of_their_own(ann, labeling):
    first = groups_of(ann)[0]
    members = labeling.view.members(labeling.view.position(first))
    ann.post("/gestures", {"action": "move", "rows": members[-2:], "to": None})
    assert relation(labeling, *members[-2:]) is True
    assert relation(labeling, members[-1], members[0]) is False


@pytest.mark.parametrize(
    "body",
    [
        {"action": "explode"},
        {"action": "merge", "groups": ["r0"]},
        {"action": "merge", "groups": ["no", "where"]},
        {"action": "move", "rows": [10**6], "to": None},
        {"action": "move", "rows": [], "to": None},
        {"action": "move", "rows": [True], "to": None},
        {"action": "split", "group": "no", "seeds": [1, 2]},
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_writes_nothing(ann, labeling, body):
    before = len(labeling.record.events)
    with pytest.raises(InvalidAnswerError):
        labeling.plan(body)
    assert ann.post("/gestures", body).status_code == 422
    assert len(labeling.record.events) == before
