"""Persons, times and values are checked, and travel with the pairs wherever these go."""

from __future__ import annotations

import copy
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherepair.constraints import Constraints
from spherepair.errors import InvalidConstraintsError

DAY = "2026-03-31T09:30:00+00:00"
PAIRS = Constraints.from_pairs(
    [(0, 1), (1, 2)],
    [(2, 3), (4, 5)],
    by=["ann", "bob", "", "ann"],
    time=[DAY, "", "", "2026-04-01"],
    value=[0.9, 1.0, 0.2, 0.0],
)


def details(pairs):
    return list(zip(pairs.by.tolist(), pairs.time.tolist(), pairs.value.tolist(), strict=True))


def test_by_default_nobody_is_known_and_answers_are_sure():
    pairs = Constraints.from_pairs([(0, 1)], [(2, 3)])
    assert details(pairs) == [("", "", 1.0), ("", "", 0.0)]
    assert pairs.by.shape == pairs.time.shape == pairs.value.shape == (2,)
    assert tuple(pairs.details) == (None, None, None)


def test_one_person_and_one_time_stand_for_all_pairs():
    pairs = Constraints.from_arrays([0, 1], [2, 3], [1, 0], by="ann", time=DAY)
    assert details(pairs) == [("ann", DAY, 1.0), ("ann", DAY, 0.0)]


def test_what_says_nothing_is_not_stored():
    pairs = Constraints.from_arrays([0, 1], [2, 3], [1, 0], by=["", None], time=["", np.nan], value=[1, 0])
    assert tuple(pairs.details) == (None, None, None)


def test_slices_masks_and_properties_keep_them():
    assert details(PAIRS[1:3]) == details(PAIRS)[1:3]
    assert details(PAIRS[[3, 0]]) == [details(PAIRS)[3], details(PAIRS)[0]]
    assert details(PAIRS.must_links) == details(PAIRS)[:2]
    assert details(PAIRS.cannot_links) == details(PAIRS)[2:]
    assert details(PAIRS - PAIRS.must_links) == details(PAIRS)[2:]
    assert details(PAIRS & PAIRS.must_links) == details(PAIRS)[:2]
    assert details(PAIRS[[]]) == []


def test_union_keeps_those_of_both_also_where_one_has_none():
    plain = Constraints.from_pairs([(7, 8)], [(8, 9)])
    assert details(PAIRS | plain) == [*details(PAIRS), ("", "", 1.0), ("", "", 0.0)]
    assert details(plain | PAIRS) == [("", "", 1.0), ("", "", 0.0), *details(PAIRS)]


def test_repeated_answer_keeps_its_first_time_and_value_and_is_counted():
    pairs = Constraints.from_arrays(
        [0, 1, 0], [1, 0, 5], [1, 1, 0], weight=[1, 3, 1], by=["ann", "ann", "cem"], value=[0.7, 1, 0]
    )
    assert details(pairs) == [("ann", "", 0.7), ("cem", "", 0.0)]
    assert pairs.weight.tolist() == [3, 1]
    assert pairs.n_duplicates == 1


def test_dropped_conflicts_take_theirs_along():
    pairs = Constraints.from_pairs([(0, 1)], [(0, 1), (2, 3)], by=["ann", "bob", "cem"])
    assert details(pairs.drop_conflicts()) == [("ann", "", 1.0), ("cem", "", 0.0)]


def test_entailed_pairs_are_nobodys_and_no_surer_than_what_they_follow_from():
    closed = PAIRS.closure()
    assert details(closed)[:4] == details(PAIRS)
    found = {(p.left, p.right): v for p, v in zip(closed[4:], closed.value[4:], strict=True)}
    assert found == {(0, 2): pytest.approx(0.9), (0, 3): 0.2, (1, 3): 0.2}
    assert set(closed.by[4:]) == set(closed.time[4:]) == {""}


def test_doubt_about_a_must_link_reaches_the_entailed_cannot_links():
    closed = Constraints.from_pairs([(0, 1)], [(1, 2)], value=[0.6, 0.1]).closure()
    assert closed[2][:3] == (0, 2, False)
    assert closed.value[2] == pytest.approx(0.4)


def test_closure_of_sure_pairs_stores_no_values():
    assert Constraints.from_pairs([(0, 1), (1, 2)], by="ann").closure().details.value is None


@pytest.mark.parametrize(
    "changed",
    [
        {"by": ["ann", "eve", "", "ann"]},
        {"time": ["", "", "", ""]},
        {"value": [1.0, 1.0, 0.2, 0.0]},
    ],
)
def test_equality_compares_them_in_any_order(changed):
    own = {"by": PAIRS.by, "time": PAIRS.time, "value": PAIRS.value}
    same = Constraints.from_arrays(PAIRS.right, PAIRS.left, PAIRS.is_must_link, **own)
    other = Constraints.from_arrays(PAIRS.right, PAIRS.left, PAIRS.is_must_link, **(own | changed))
    assert same == PAIRS[[2, 0, 3, 1]]
    assert other != PAIRS


def test_repr_counts_people_and_unsure_answers():
    assert repr(PAIRS) == "Constraints(4 pairs: 2 must-link, 2 cannot-link; by 2 people; 2 unsure)"
    assert repr(PAIRS[:1]) == "Constraints(1 pairs: 1 must-link, 0 cannot-link; by 1 person; 1 unsure)"


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies_keep_them_read_only(duplicate):
    other = duplicate(PAIRS)
    assert other == PAIRS
    for name in ("by", "time", "value"):
        assert not getattr(other, name).flags.writeable


def test_they_cannot_be_changed():
    for pairs in (PAIRS, Constraints.from_pairs([(0, 1)])):
        for name, new in (("by", "eve"), ("time", DAY), ("value", 0.5)):
            with pytest.raises(ValueError, match="read-only"):
                getattr(pairs, name)[0] = new


def test_constructor_refuses_details_of_another_length():
    with pytest.raises(ValueError, match="must be of one length"):
        Constraints([0], [1], [True], [1.0], [0], details=PAIRS.details)


def test_pairs_without_persons_need_no_memory_for_them():
    n = 100_000
    left = np.arange(n)
    tracemalloc.start()
    try:
        pairs = Constraints.from_arrays(left, left + n, np.ones(n, bool))
        before = tracemalloc.get_traced_memory()[0]
        assert pairs.by[-1] == pairs.time[-1] == ""
        assert tracemalloc.get_traced_memory()[0] - before < 10_000
        assert before < n * (8 + 8 + 1 + 4 + 8) + 100_000
    finally:
        tracemalloc.stop()


entry = st.tuples(
    st.integers(0, 6),
    st.integers(7, 12),
    st.booleans(),
    st.sampled_from(["", "ann", "bob"]),
    st.floats(0, 0.5),
)


@given(st.lists(entry, max_size=15), st.lists(entry, max_size=15))
def test_union_knows_what_each_person_first_said_of_a_pair(first, second):
    def make(entries):
        left, right, link, by, doubt = (
            (list(column) for column in zip(*entries, strict=True)) if entries else [[]] * 5
        )
        value = np.abs(np.array(link, float) - doubt)
        return Constraints.from_arrays(left, right, np.array(link, bool), by=by, value=value)

    expected = {}
    for left, right, link, by, doubt in first + second:
        expected.setdefault((left, right, link, by), abs(link - doubt))
    pairs = make(first) | make(second)
    found = zip(pairs, pairs.by, pairs.value, strict=True)
    assert {(*pair[:3], by): value for pair, by, value in found} == expected


@pytest.mark.parametrize(
    ("details", "message"),
    [
        ({"by": ["ann"]}, r"by must be one text or one per pair, of shape \(2,\); got 1"),
        ({"time": ["", "yesterday"]}, r"pair 1 has time 'yesterday'; a time must be written as in 2026"),
        ({"time": ["7.9", ""]}, r"pair 0 has time '7\.9'; .* Rename a column"),
        ({"value": [1.0]}, r"value must be one number per pair, of shape \(2,\); got shape \(1,\)"),
        ({"value": ["x", 0]}, "value must be numbers; could not"),
        ({"value": [1.0, -0.1]}, r"pair 1 has value -0\.1; a value must be between 0 \(surely diff"),
        ({"value": [1.5, 0]}, r"pair 0 has value 1\.5"),
        ({"value": [np.nan, 0]}, "pair 0 has value nan"),
        ({"value": [0.4, 0]}, r"pair 0 is a must-link of value 0\.4; .* must be 0\.5 or more"),
        ({"value": [1, 0.6]}, r"pair 1 is a cannot-link of value 0\.6; .* must be 0\.5 or less"),
    ],
)
def test_bad_persons_times_and_values_are_named(details, message):
    with pytest.raises(InvalidConstraintsError, match=message):
        Constraints.from_arrays([0, 1], [2, 3], [True, False], **details)


def test_from_pairs_names_the_list_and_the_place():
    with pytest.raises(InvalidConstraintsError, match=r"cannot_link\[1\] has value 2"):
        Constraints.from_pairs([(0, 1)], [(2, 3), (4, 5)], value=[1, 0, 2])
    with pytest.raises(InvalidConstraintsError, match=r"must_link\[0\] has time 'noon'"):
        Constraints.from_pairs([(0, 1)], [(2, 3)], time=["noon", ""])


def test_half_sure_is_allowed_on_both_sides():
    assert Constraints.from_pairs([(0, 1)], [(2, 3)], value=[0.5, 0.5]).value.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("time", ["2026-03-31", "2026-03-31T09:30Z", "2026-03-31 09:30:00.5+02:00"])
def test_usual_forms_of_times_are_taken_as_they_are(time):
    assert Constraints.from_pairs([(0, 1)], time=time).time.tolist() == [time]


def test_persons_may_be_numbers_or_missing_and_spaces_around_them_do_not_count():
    pd = pytest.importorskip("pandas")
    by = pd.Series([7, pd.NA, " ann ", None, np.nan], dtype=object)
    pairs = Constraints.from_pairs([(0, k + 1) for k in range(5)], by=by)
    assert pairs.by.tolist() == ["7", "", "ann", "", ""]


def test_persons_that_no_file_could_hold_are_mended(tmp_path):
    pytest.importorskip("pyarrow")
    pairs = Constraints.from_pairs([(0, 1)], by="ann\ud800")
    pairs.write(tmp_path / "pairs.csv")
    assert Constraints.read(tmp_path / "pairs.csv") == pairs
