"""Rows to place: the report never runs out of questions, and the answers build groups."""

from __future__ import annotations

import numpy as np
import pytest

from spherepair import Constraints
from spherepair.report.cluster_cards import measure_membership
from spherepair.report.pair_cards import choose_questions
from spherepair.report.placing import rows_to_place

#: Four corners, three rows each; the corners are groups 0 to 3.
CORNERS = np.repeat(np.eye(4), 3, axis=0) + 0.01 * np.arange(12)[:, None]


def ends(found):
    return [(one.row, one.example, one.n_apart) for one in found]


def test_a_row_that_was_set_apart_is_asked_about_with_the_next_group():
    pairs = Constraints.from_pairs(must_link=[(0, 1), (3, 4)], cannot_link=[(0, 3), (6, 0)])
    first = rows_to_place(CORNERS, pairs, examples=np.array([0, 3]), count=1)
    assert [(one.row, one.n_apart, one.example in (3, 4)) for one in first] == [(6, 1, True)]


def test_a_row_that_differs_from_all_groups_is_one_and_is_asked_about_no_more():
    pairs = Constraints.from_pairs(must_link=[(0, 1), (3, 4)], cannot_link=[(0, 3), (6, 0), (6, 3)])
    found = ends(rows_to_place(CORNERS, pairs, examples=np.array([0, 3]), count=99))
    assert not {0, 1, 3, 4, 6}.intersection(row for row, _, _ in found)
    assert sorted(row for row, _, _ in found) == [2, 5, 7, 8, 9, 10, 11]
    likely = {row: example for row, example, _ in found}
    assert likely[7] == likely[8] == 6
    assert likely[2] in (0, 1)


@pytest.mark.parametrize("count", [0, 3])
def test_without_pairs_rows_stand_beside_typical_rows_of_the_clusters(count):
    found = ends(rows_to_place(CORNERS, Constraints.from_pairs(), examples=np.array([0, 3]), count=count))
    assert len(found) == count
    assert {example for _, example, _ in found} <= {0, 3}


def test_two_clusters_never_run_out_of_questions_before_all_rows_are_placed():
    truth = np.repeat(np.arange(4), 3)
    centers = np.stack([CORNERS[:6].mean(axis=0), CORNERS[6:].mean(axis=0)])
    membership = measure_membership(CORNERS, np.repeat([0, 1], 6), centers=centers)
    pairs, n_asked = Constraints.from_pairs(), 0
    while asked := choose_questions(CORNERS, membership, centers=centers, constraints=pairs, count=4):
        told = [(one.left, one.right, truth[one.left] == truth[one.right]) for one in asked]
        pairs, n_asked = pairs | Constraints.from_arrays(*zip(*told, strict=True)), n_asked + len(told)
    assert pairs.proved_groups().n_groups == 4
    assert len(pairs.proved_groups().rows) == 12
    assert n_asked <= 12 * 4
