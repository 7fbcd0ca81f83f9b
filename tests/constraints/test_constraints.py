from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherepair.constraints import Constraints, Pair
from spherepair.errors import InvalidConstraintsError, InvalidParameterError

row_pairs = st.tuples(st.integers(0, 8), st.integers(0, 8)).filter(lambda pair: pair[0] != pair[1])
pair_lists = st.lists(row_pairs, max_size=20)


def as_set(pairs):
    return {(min(p.left, p.right), max(p.left, p.right), p.is_must_link) for p in pairs}


def test_from_pairs_puts_must_links_first_and_keeps_order_and_sides():
    pairs = Constraints.from_pairs(must_link=[(4, 0), (1, 2)], cannot_link=[(9, 3)])
    assert pairs.left.tolist() == [4, 1, 9]
    assert pairs.right.tolist() == [0, 2, 3]
    assert pairs.is_must_link.tolist() == [True, True, False]
    assert pairs.weight.tolist() == [1, 1, 1]
    assert pairs.source_row.tolist() == [0, 1, 2]
    dtypes = [pairs.left.dtype, pairs.is_must_link.dtype, pairs.weight.dtype]
    assert dtypes == [np.int64, np.bool_, np.float32]


@pytest.mark.parametrize(
    "given_pairs",
    [
        [(0, 1), (2, 3)],
        ((0, 1), (2, 3)),
        np.array([[0, 1], [2, 3]], np.uint8),
        np.array([[0.0, 1.0], [2.0, 3.0]]),
        np.array([[0, 1], [2, 3]], dtype=object),
        zip([0, 2], [1, 3], strict=True),
    ],
)
def test_pairs_are_accepted_in_any_usual_form(given_pairs):
    assert Constraints.from_pairs(given_pairs).right.tolist() == [1, 3]


@pytest.mark.parametrize("nothing", [(), [], np.empty((0, 2)), np.array([])])
def test_no_pairs_at_all_are_fine(nothing):
    pairs = Constraints.from_pairs(nothing, nothing)
    assert len(pairs) == 0
    assert not pairs.conflicts()
    assert len(pairs.closure()) == 0
    assert pairs.components().n_components == 0
    assert pairs.summary().largest_component == 0
    pairs.validate(0)
    assert pairs == pairs | pairs


def test_from_arrays_keeps_weights_and_source_rows():
    pairs = Constraints.from_arrays([0, 1], [2, 3], [1, 0], weight=[0.5, 2], source_row=[7, 9])
    assert pairs.weight.tolist() == [0.5, 2]
    assert pairs.source_row.tolist() == [7, 9]


def test_repeated_pair_is_kept_once_with_largest_weight_and_counted():
    pairs = Constraints.from_pairs(must_link=[(3, 1), (0, 5), (1, 3), (3, 1)], must_link_weight=[1, 1, 4, 2])
    assert list(pairs) == [Pair(3, 1, True, 4.0), Pair(0, 5, True, 1.0)]
    assert pairs.source_row.tolist() == [0, 1]
    assert pairs.n_duplicates == 2


def test_two_people_who_agree_are_two_answers():
    pairs = Constraints.from_arrays([0, 2, 0, 5], [2, 0, 2, 6], [True] * 4, by=["ann", "bob", "ann", "bob"])
    assert (len(pairs), pairs.n_duplicates, pairs.by.tolist()) == (3, 1, ["ann", "bob", "bob"])
    assert pairs | pairs == pairs
    assert pairs == pairs[::-1]
    assert pairs != pairs[[0, 0, 2]]
    assert len(pairs - pairs[:1]) == 1  # the pair, whoever gave it


def test_same_pair_both_ways_is_no_duplicate():
    pairs = Constraints.from_pairs(must_link=[(0, 1)], cannot_link=[(1, 0)])
    assert len(pairs) == 2
    assert pairs.n_duplicates == 0


@given(pair_lists, pair_lists)
def test_duplicates_are_found_as_python_finds_them(must, cannot):
    pairs = Constraints.from_pairs(must, cannot)
    expected = {(min(p), max(p), True) for p in must} | {(min(p), max(p), False) for p in cannot}
    assert as_set(pairs) == expected
    assert len(pairs) == len(expected)
    assert pairs.n_duplicates == len(must) + len(cannot) - len(expected)


@given(pair_lists, pair_lists, st.sampled_from([0, 2**40]))
def test_set_operations_are_those_of_python_sets(first, second, offset):
    # Row numbers beyond 2**30 take the other way of numbering pairs.
    def shifted(pairs):
        return [(left + offset, right + offset) for left, right in pairs]

    one = Constraints.from_pairs(shifted(first), shifted(second))
    two = Constraints.from_pairs(shifted(second), shifted(first[:2]))
    assert as_set(one | two) == as_set(one) | as_set(two)
    assert as_set(one & two) == as_set(one) & as_set(two)
    assert as_set(one - two) == as_set(one) - as_set(two)
    assert (one == two) == (as_set(one) == as_set(two))


def test_very_large_row_numbers_do_not_collide():
    # Numbered directly, both pairs would become the same 64 bits.
    pairs = Constraints.from_pairs([(0, 2**62 - 1), (2, 2**62 - 1)])
    assert len(pairs) == 2


def test_union_keeps_larger_weight():
    light = Constraints.from_pairs([(0, 1)], must_link_weight=0.5)
    heavy = Constraints.from_pairs([(1, 0)], must_link_weight=2)
    assert (light | heavy).weight.tolist() == [2]


def test_equality_ignores_order_and_side_but_not_weight():
    pairs = Constraints.from_pairs([(0, 1), (2, 3)])
    assert pairs == Constraints.from_pairs([(3, 2), (0, 1)])
    assert pairs != Constraints.from_pairs([(3, 2), (0, 1)], must_link_weight=2)
    assert pairs != Constraints.from_pairs(cannot_link=[(0, 1), (2, 3)])
    assert pairs != "pairs"


def test_operators_refuse_what_is_no_constraints():
    pairs = Constraints.from_pairs([(0, 1)])
    for operate in (lambda: pairs | {1}, lambda: pairs & {1}, lambda: pairs - {1}):
        with pytest.raises(TypeError, match="unsupported operand"):
            operate()


def test_membership_takes_pairs_with_and_without_link():
    pairs = Constraints.from_pairs([(0, 1)], [(2, 3)])
    assert (1, 0) in pairs
    assert (3, 2, False) in pairs
    assert (3, 2, True) not in pairs
    assert (0, 2) not in pairs
    assert "x" not in pairs


def test_indexing_selects_pairs():
    pairs = Constraints.from_pairs([(0, 1), (2, 3)], [(4, 5)])
    assert pairs[1] == Pair(2, 3, True, 1.0)
    assert pairs[-1] == (4, 5, False, 1.0)
    assert pairs[1:].left.tolist() == [2, 4]
    assert pairs[[2, 0]].left.tolist() == [4, 0]
    assert pairs[pairs.is_must_link] == pairs.must_links
    assert pairs.cannot_links.left.tolist() == [4]
    assert isinstance(pairs[:1], Constraints)
    assert len(pairs[[]]) == 0
    with pytest.raises(IndexError):
        pairs[3]


def test_constraints_cannot_be_changed_not_even_through_the_arrays_they_came_from():
    left = np.array([0, 1])
    pairs = Constraints.from_arrays(left, [2, 3], [True, False])
    left[0] = 7
    assert pairs.left[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        pairs.left[0] = 7
    with pytest.raises(AttributeError):
        pairs.left = left


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies_are_equal_and_read_only(duplicate):
    pairs = Constraints.from_pairs([(0, 1), (1, 0)], [(4, 5)])
    other = duplicate(pairs)
    assert other == pairs
    assert other.n_duplicates == 1
    assert not other.weight.flags.writeable


def test_constraints_are_not_hashable():
    with pytest.raises(TypeError, match="unhashable"):
        hash(Constraints.from_pairs())


def test_constructor_refuses_arrays_of_different_lengths():
    with pytest.raises(ValueError, match="must be of one length"):
        Constraints([0], [1, 2], [True], [1.0], [0])


def test_validate_names_first_pair_out_of_range_by_its_row():
    pairs = Constraints.from_arrays([0, 5, 9], [1, 2, 3], [1, 1, 0], source_row=[2, 3, 4])
    pairs.validate(10)
    message = (
        r"^constraints: row 3 of the pairs links rows 5 and 2, but there are only 5 rows "
        r"\(0 to 4\); 2 of 3 pairs are out of range\. Row numbers count from 0\.$"
    )
    with pytest.raises(InvalidConstraintsError, match=message):
        pairs.validate(5)
    with pytest.raises(InvalidConstraintsError, match="but there is no row"):
        pairs.validate(0)
    with pytest.raises(InvalidParameterError, match="n_rows must be a whole number"):
        pairs.validate(2.5)


def test_validate_names_entailed_pair_by_its_position():
    pairs = Constraints.from_pairs([(0, 1), (1, 2)]).closure()
    with pytest.raises(InvalidConstraintsError, match="pair 0 links rows 0 and 2"):
        pairs[2:].validate(2)


def test_repr_counts_links():
    pairs = Constraints.from_pairs([(0, 1)], [(4, 5), (6, 7)])
    assert repr(pairs) == "Constraints(3 pairs: 1 must-link, 2 cannot-link)"
