from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spherepair.asking.groups import Groups

links = st.lists(
    st.tuples(st.integers(0, 11), st.integers(0, 11)).filter(lambda p: p[0] != p[1]), max_size=40
)


@given(pairs=links, labels=st.lists(st.integers(0, 3), min_size=12, max_size=12))
def test_what_follows_from_true_links_is_true(pairs: list[tuple[int, int]], labels: list[int]) -> None:
    groups = Groups((a, b, labels[a] == labels[b]) for a, b in pairs)
    assert groups.contradictions == []
    for a in range(12):
        for b in range(12):
            known = groups.relation(a, b)
            assert known is None or known == (labels[a] == labels[b])


@given(pairs=links, labels=st.lists(st.integers(0, 3), min_size=12, max_size=12), seed=st.integers(0, 5))
def test_the_order_of_true_links_does_not_matter(
    pairs: list[tuple[int, int]], labels: list[int], seed: int
) -> None:
    told = [(a, b, labels[a] == labels[b]) for a, b in pairs]
    shuffled = [told[i] for i in np.random.default_rng(seed).permutation(len(told))]
    one, other = Groups(told), Groups(shuffled)
    assert all(one.relation(a, b) == other.relation(a, b) for a in range(12) for b in range(12))


@given(pairs=links, labels=st.lists(st.integers(0, 3), min_size=12, max_size=12))
def test_groups_are_a_lower_bound_on_the_classes(pairs: list[tuple[int, int]], labels: list[int]) -> None:
    groups = Groups((a, b, labels[a] == labels[b]) for a, b in pairs)
    assert len(groups) <= len(set(labels))
    roots = groups.roots
    assert all(groups.relation(a, b) is False for a in roots for b in roots if a != b)


def test_joining_two_components_joins_what_they_differ_from() -> None:
    groups = Groups([(0, 1, False), (2, 3, False), (0, 2, True)])
    assert groups.relation(2, 1) is False
    assert groups.relation(0, 3) is False
    assert groups.relation(1, 3) is None


def test_a_contradiction_is_counted_and_changes_nothing() -> None:
    groups = Groups([(0, 1, True), (1, 2, True)])
    groups.add([(0, 2, False)])
    assert groups.contradictions == [(0, 2, False)]
    assert groups.relation(0, 2) is True


def test_placed_rows_carry_the_number_of_their_group() -> None:
    groups = Groups([(0, 1, True), (2, 3, True), (0, 2, False), (9, 0, False)])
    rows, numbers = groups.placed()
    assert dict(zip(rows.tolist(), numbers.tolist(), strict=True))[1] == groups.group_of(0)
    assert groups.group_of(9) is None  # nobody has compared it with the other group yet
