from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from spherepair.app.cards import SharedCards
from spherepair.asking import Interview
from spherepair.asking.questions import ChoiceQuestion


@pytest.fixture
def cards():
    return SharedCards()


@pytest.fixture
def talk(cards):
    X = np.random.default_rng(0).normal(size=(600, 4)).astype(np.float32)
    return Interview(X, strategy=cards, random_state=0)


def answer_cards(talk: Interview, count: int) -> list[int]:
    """Everything is one group; the items that were asked about for the first time."""
    items = []
    for _ in range(count):
        question = talk.next()
        assert isinstance(question, ChoiceQuestion)
        items += [] if question.is_check else [question.item]
        talk.answer(question, question.exemplars[0])
    return items


def test_more_items_are_there_before_the_found_ones_are_used_up(talk, cards, monkeypatch):
    """The prepared items suffice for 30 cards; after that only the first search is waited for."""
    waited: list[bool] = []
    search = SharedCards._search

    def watched(self, *task):
        waited.append(threading.current_thread() is threading.main_thread())
        return search(self, *task)

    monkeypatch.setattr(SharedCards, "_search", watched)
    asked = []
    for _ in range(80):
        asked += answer_cards(talk, 1)
        if cards._search_beside is not None:
            cards._search_beside.result(60)
    assert len(set(asked)) == len(asked)
    assert sum(waited) == 1
    assert len(waited) > 2


def test_items_found_with_an_older_model_are_not_asked(talk, cards, monkeypatch):
    answer_cards(talk, 40)
    assert len(cards._spare)
    fresh = [row for row in range(600) if talk.groups.group_of(row) is None and row not in cards._spare][:9]
    monkeypatch.setattr(SharedCards, "_search", lambda self, *task: fresh)
    talk._snapshot = replace(talk._snapshot, queue=())  # of another model, whose own items are used up
    asked = answer_cards(talk, 5)
    assert asked
    assert set(asked) <= set(fresh)


def test_a_closed_project_looks_for_no_more_items(talk, cards):
    cards.close()
    assert len(answer_cards(talk, 60)) > 50
    assert cards._search_beside is None
