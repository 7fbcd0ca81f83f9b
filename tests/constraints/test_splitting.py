from __future__ import annotations

import numpy as np
import pytest

from spherepair import Constraints
from spherepair.constraints import PairFold
from spherepair.errors import InvalidConstraintsError


def test_pairs_among_rows_have_the_numbers_of_the_rows_there() -> None:
    pairs = Constraints.from_pairs(must_link=[(0, 5), (2, 3)], cannot_link=[(5, 2), (1, 4)], by="ann")
    chosen = np.array([5, 3, 2, 0])
    found = pairs.for_rows(6)[chosen].constraints
    named = {frozenset((int(chosen[p.left]), int(chosen[p.right]))): p.is_must_link for p in found}
    assert named == {frozenset((0, 5)): True, frozenset((2, 3)): True, frozenset((2, 5)): False}
    assert found.n_rows == 4
    assert set(found.by) == {"ann"}
    mask = np.array([True, False, False, False, False, True])
    assert pairs.for_rows(6)[mask].constraints == Constraints.from_pairs(must_link=[(0, 1)], by="ann")


def test_a_table_that_is_too_short_is_refused() -> None:
    with pytest.raises(InvalidConstraintsError, match="only 5 rows"):
        Constraints.from_pairs(must_link=[(0, 5)]).for_rows(5)


def test_folds_keep_must_linked_rows_together_and_divide_all_rows() -> None:
    y = np.arange(300) % 60
    pairs = Constraints.from_groups(y, random_state=0)
    tests = [test for _, test in PairFold(pairs, n_splits=5, random_state=0).split(y)]
    assert np.array_equal(np.sort(np.concatenate(tests)), np.arange(300))
    fold = np.empty(300, int)
    for number, test in enumerate(tests):
        fold[test] = number
    must = pairs.must_links
    assert (fold[must.left] == fold[must.right]).all()
    assert [len(test) for test in tests] == [60] * 5


def test_a_group_of_half_the_rows_is_in_every_fold() -> None:
    y = np.arange(200) % 2
    pairs = Constraints.from_groups(y, random_state=0)
    for train, test in PairFold(pairs, n_splits=4, random_state=0).split(y):
        assert set(y[train]) == set(y[test]) == {0, 1}


def test_folds_depend_on_the_seed_alone() -> None:
    pairs = Constraints.from_labels(np.arange(50) % 5, 40, random_state=0)
    first, again, other = (
        [test.tolist() for _, test in PairFold(pairs, 3, random_state=seed).split(np.zeros(50))]
        for seed in (0, 0, 1)
    )
    assert first == again != other


def test_more_folds_than_groups_are_refused() -> None:
    with pytest.raises(InvalidConstraintsError, match="cannot be divided into 5 folds"):
        next(PairFold(Constraints.from_pairs(), 5).split(np.zeros(3)))


def test_pairs_remember_their_table() -> None:
    pairs = Constraints.from_labels([0, 1, 0, 1], 4, random_state=0)
    assert pairs.n_rows == pairs[:2].n_rows == (pairs | pairs).n_rows == pairs.closure().n_rows == 4
    assert Constraints.from_pairs(must_link=[(0, 1)]).n_rows is None


def test_pairs_by_id() -> None:
    pairs = Constraints.from_pairs(must_link=[("c", "a")], cannot_link=[("a", "b")], ids=["a", "b", "c"])
    assert pairs == Constraints.from_pairs(must_link=[(2, 0)], cannot_link=[(0, 1)])
    assert Constraints.from_arrays([30], [10], [True], ids=[10, 20, 30]).left.tolist() == [2]
    with pytest.raises(InvalidConstraintsError, match=r"cannot_link\[1\] holds the id 'z', which no row has"):
        Constraints.from_pairs(cannot_link=[("a", "b"), ("a", "z")], ids=["a", "b"])
