from __future__ import annotations

import numpy as np
import pytest

from spherepair.constraints import Constraints
from spherepair.errors import InvalidConstraintsError


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"must_link": [(0, 1), (4, 4)]},
            r"constraints: must_link\[1\] links row 4 with itself; a row cannot be linked with it",
        ),
        ({"cannot_link": [(0, 1), (2, -3)]}, r"cannot_link\[1\] holds the row number -3"),
        (
            {"must_link": [(0, 1), (2, 2.5)]},
            r"must_link\[1\] holds 2\.5; row numbers must be whole",
        ),
        ({"must_link": [(0, 1), (2, float("nan"))]}, r"must_link\[1\] holds nan"),
        ({"must_link": [(0, 1), (2, float("inf"))]}, r"must_link\[1\] holds inf"),
        ({"must_link": [(0, 1), (2, "b")]}, r"must_link\[1\] holds 'b'"),
        ({"must_link": [(0, 1), (None, 2)]}, r"must_link\[1\] holds None"),
        ({"must_link": [(0, 1), (2, 2**70)]}, r"must_link\[1\] holds 1180591620717411303424"),
        ({"must_link": np.array([[0, 2**63]], np.uint64)}, r"must_link\[0\] holds 92233720368547"),
        ({"must_link": np.array([[True, False]])}, r"must_link\[0\] holds True"),
        ({"must_link": [0, 1]}, r"must_link must be pairs .* got shape \(2,\)"),
        ({"cannot_link": [(0, 1, 2)]}, r"cannot_link must be pairs .* got shape \(1, 3\)"),
        ({"cannot_link": [(0, 1), (2,)]}, r"cannot_link must be pairs .* got shape \(2,\)"),
        ({"must_link": 3}, r"must_link must be pairs .* got shape \(\)"),
        (
            {"must_link": [(0, 1), (2, 9), (9, 3)], "n_rows": 5},
            r"must_link\[1\] links rows 2 and 9, but there are only 5 rows \(0 to 4\); 2 of 3",
        ),
        (
            {"must_link": [(0, 1)], "must_link_weight": [1, 2]},
            r"must_link_weight .* got shape \(2,",
        ),
        ({"must_link": [(0, 1)], "must_link_weight": [-1]}, r"must_link\[0\] has weight -1\.0"),
        ({"must_link": [(0, 1)], "must_link_weight": np.nan}, r"must_link\[0\] has weight nan"),
        ({"cannot_link": [(0, 1)], "cannot_link_weight": 1e39}, r"cannot_link\[0\] has weight 1e"),
        ({"cannot_link": [(0, 1)], "cannot_link_weight": "x"}, r"cannot_link_weight must be numb"),
    ],
)
def test_bad_pairs_are_named(arguments, message):
    with pytest.raises(InvalidConstraintsError, match=message):
        Constraints.from_pairs(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0], [1, 2], [True]), "left and right must be of one length; got 1 and 2"),
        (([0], [1], [True, False]), r"is_must_link must be of shape \(1,\); got \(2,\)"),
        (([0, 1], [1, 2], [1, 2]), r"is_must_link\[1\] is .*2.*; it must be True or 1"),
        (([0, 1], [1, 2], ["must", "must"]), r"is_must_link\[0\] is"),
        (([0, 3], [1, 3], [1, 0]), "pair 1 links row 3 with itself"),
        (([0, 1], [1, 0.5], [1, 0]), "pair 1 holds 0.5"),
        (([[0]], [[1]], [1]), r"one-dimensional; got shape \(1, 1\)"),
    ],
)
def test_bad_arrays_are_named(arguments, message):
    with pytest.raises(InvalidConstraintsError, match=message):
        Constraints.from_arrays(*arguments)


def test_source_row_must_be_whole_numbers():
    with pytest.raises(InvalidConstraintsError, match="source_row must be whole numbers"):
        Constraints.from_arrays([0], [1], [True], source_row=[0.5])
