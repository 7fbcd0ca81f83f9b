"""Chains that prove what the answers say about two rows."""

from __future__ import annotations

import pytest

from spherepair.asking import PairQuestion
from spherepair.asking.groups import chain_of_answers, shortest_proof
from spherepair.asking.questions import Answer

LINKS = [(0, 1, True), (1, 2, True), (0, 3, True), (3, 4, True), (4, 2, True), (2, 5, False), (6, 5, True)]


@pytest.mark.parametrize(
    ("left", "right", "is_same", "chain"),
    [
        (0, 2, True, [(0, 1, True), (1, 2, True)]),
        (2, 0, True, [(1, 2, True), (0, 1, True)]),
        (1, 6, False, [(1, 2, True), (2, 5, False), (6, 5, True)]),
        (2, 5, False, [(2, 5, False)]),
        (0, 2, False, []),
        (0, 6, True, []),
        (0, 9, False, []),
    ],
)
def test_proof_is_the_shortest_chain(left, right, is_same, chain):
    assert shortest_proof(LINKS, left, right, is_same=is_same) == chain


def test_two_cannot_links_prove_nothing():
    assert shortest_proof([(0, 1, False), (1, 2, False)], 0, 2, is_same=False) == []
    assert shortest_proof([(0, 1, False), (1, 2, False)], 0, 2, is_same=True) == []


def test_chain_names_the_answer_of_each_step_and_none_for_what_was_known():
    said = Answer(0, PairQuestion(0, 1), "same"), Answer(1, PairQuestion(0, 2), "different")
    chain = chain_of_answers(said, [(1, 2, True)], (0, 2, False))
    assert chain == [((0, 1, True), said[0]), ((1, 2, True), None)]
