from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy import sparse
from sklearn.exceptions import NotFittedError

from spherepair import Constraints, SpherePair
from spherepair.errors import (
    ConflictError,
    ConstraintWarning,
    EmbeddingDimensionWarning,
    InvalidConstraintsError,
    InvalidDataError,
    InvalidParameterError,
)


def _with(X: np.ndarray, value: float, row: int = 7, column: int = 2) -> np.ndarray:
    X = X.copy()
    X[row, column] = value
    return X


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_bad_values_are_counted_and_located(value: float, word: str, make: Any, X: Any, pairs: Any) -> None:
    bad = _with(_with(X, value), value, row=9, column=2)
    message = (
        rf"X contains {word}: 2 value\(s\) in 2 row\(s\) and 1 column\(s\), the first at row 7, column 2"
    )
    with pytest.raises(InvalidDataError, match=message):
        make().fit(bad, constraints=pairs)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, ">f4"])
def test_bad_values_are_found_in_every_float_type(dtype: Any, make: Any, X: Any) -> None:
    with pytest.raises(InvalidDataError, match="row 7, column 2"):
        make().fit(_with(X, np.nan).astype(dtype))


def test_values_beyond_float32_are_bad_too(make: Any, X: Any) -> None:
    with pytest.raises(InvalidDataError, match=r"too large for float32: 1 value.*row 7, column 2"):
        make().fit(_with(X.astype(np.float64), 1e200))


def test_bad_values_are_located_in_rows_to_label(fitted: SpherePair, X: Any) -> None:
    for value in (np.nan, np.inf, -np.inf):
        with pytest.raises(InvalidDataError, match="row 7, column 2"):
            fitted.predict(_with(X, value))
    both = _with(_with(X, np.inf), -np.inf, row=9)  # cancel each other
    with pytest.raises(InvalidDataError, match=r"2 value\(s\).*row 7, column 2"):
        fitted.transform(both)


def test_rows_whose_sum_overflows_are_not_refused(make: Any, X: Any, pairs: Any) -> None:
    model = make(scaling="none").fit(X, constraints=pairs)
    large = _with(_with(X, 3e38), 3e38, row=9).astype(np.float32)
    others = np.delete(np.arange(len(X)), [7, 9])
    np.testing.assert_array_equal(model.predict(large)[others], model.predict(X)[others])


@pytest.mark.parametrize("method", ["predict", "predict_proba", "transform"])
@pytest.mark.parametrize("scaling", ["auto", "standard"])
def test_rows_that_overflow_once_scaled_are_refused(
    method: str, scaling: str, make: Any, X: Any, pairs: Any
) -> None:
    model = make(scaling=scaling).fit(1e-3 * X, constraints=pairs)
    missing = _with(_with(X, -3.4e38), -3.4e38, row=9).astype(np.float32)  # as rasters mark it
    with pytest.raises(
        InvalidDataError, match=r"2 row\(s\) of X, the first at row 7, .* once they are scaled"
    ):
        getattr(model, method)(missing)


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_nan_in_a_sparse_matrix_is_located(form: Any, make: Any, X: Any) -> None:
    with pytest.raises(InvalidDataError, match=r"NaN: 1 value.*row 7, column 2"):
        make().fit(form(_with(X, np.nan)))


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_a_bad_value_in_a_table_is_located_by_column_name(kind: str, make: Any, X: Any) -> None:
    columns = {f"c{i}": column for i, column in enumerate(_with(X, np.nan).T)}
    table = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[kind](columns)
    with pytest.raises(InvalidDataError, match="row 7, column 'c2'"):
        make().fit(table)


def test_missing_values_of_tables_are_nan(make: Any) -> None:
    columns = {"age": [1, 2, None, 4], "size": [0.5, 1.5, 2.5, 3.5]}
    tables = [pl.DataFrame(columns), pa.table(columns), pd.DataFrame(columns).astype({"age": "Int64"})]
    for table in tables:
        with pytest.raises(InvalidDataError, match=r"NaN: 1 value.*row 2, column 'age'"):
            make(2).fit(table)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_text_column_is_named(kind: Any, make: Any) -> None:
    table = kind({"size": [1.0, 2.0, 3.0], "colour": ["red", "blue", "red"]})
    with pytest.raises(InvalidDataError, match="column 'colour' is not numeric"):
        make(2).fit(table)


def test_a_date_column_is_named(make: Any) -> None:
    table = pd.DataFrame({"size": [1.0, 2.0, 3.0], "day": pd.date_range("2024-01-01", periods=3)})
    with pytest.raises(InvalidDataError, match="column 'day' is not numeric"):
        make(2).fit(table)


def test_text_in_an_array_is_named_by_position(make: Any) -> None:
    for dtype in (object, str):
        table = np.array([[1, 2, "red"], [4, 5, "blue"]], dtype=dtype)
        with pytest.raises(InvalidDataError, match="column 2 is not numeric"):
            make(2).fit(table)


def test_two_columns_of_one_name_are_refused(make: Any) -> None:
    table = pd.DataFrame(np.eye(3), columns=["a", "b", "a"])
    with pytest.raises(InvalidDataError, match="more than one column named 'a'"):
        make(2).fit(table)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.zeros((0, 3)), "0 sample"),
        (np.zeros((1, 3)), "1 sample"),
        (np.zeros((3, 0)), "0 feature"),
        (np.zeros(3), "2D array"),
        (np.zeros((3, 2, 2)), "dim 3"),
        (np.zeros((3, 2), dtype=complex), "[Cc]omplex"),
        (None, "array"),
        ("rows.csv", "array"),
    ],
)
def test_what_is_no_table_is_refused(bad: Any, message: str, make: Any) -> None:
    with pytest.raises(InvalidDataError, match=message):
        make(2).fit(bad)


def test_sparse_tensors_are_refused_with_a_way_out(make: Any) -> None:
    with pytest.raises(InvalidDataError, match="to_dense"):
        make(2).fit(torch.eye(4).to_sparse())


def test_predict_refuses_another_number_of_columns(fitted: SpherePair, X: Any) -> None:
    with pytest.raises(InvalidDataError, match=r"4 features.*expecting 5"):
        fitted.predict(X[:, :4])


def test_predict_refuses_other_column_names(make: Any, X: Any, pairs: Any) -> None:
    table = pd.DataFrame(X, columns=list("abcde"))
    model = make(max_epochs=1).fit(table, constraints=pairs)
    with pytest.raises(InvalidDataError, match="feature names"):
        model.predict(table.rename(columns={"a": "z"}))
    with pytest.raises(InvalidDataError, match="feature names"):
        model.predict(table[list("bacde")])


def test_predict_refuses_nan_and_no_rows(fitted: SpherePair, X: Any) -> None:
    with pytest.raises(InvalidDataError, match="NaN"):
        fitted.predict(_with(X, np.nan))
    with pytest.raises(InvalidDataError, match="0 sample"):
        fitted.predict(X[:0])
    assert fitted.predict(X[:1]).shape == (1,)


@pytest.mark.parametrize("method", ["predict", "transform", "save", "refine", "score_pairs"])
def test_a_model_that_was_not_fitted_says_so(method: str, make: Any, X: Any) -> None:
    with pytest.raises(NotFittedError, match="not fitted"):
        getattr(make(), method)(X)


def test_pairs_out_of_range_are_located(make: Any, X: Any) -> None:
    pairs = Constraints.from_pairs(must_link=[(0, 1), (3, 120)])
    with pytest.raises(InvalidConstraintsError, match=r"rows 3 and 120, but there are only 120 rows"):
        make().fit(X, constraints=pairs)


@pytest.mark.parametrize("bad", [[(0, 1)], {"must_link": [(0, 1)]}, np.zeros((2, 3), int), "pairs.csv"])
def test_what_is_no_constraints_is_refused_with_a_way_out(
    bad: Any, make: Any, fitted: SpherePair, X: Any
) -> None:
    with pytest.raises(InvalidConstraintsError, match=r"constraints must be a Constraints.*from_pairs"):
        make().fit(X, constraints=bad)
    with pytest.raises(InvalidConstraintsError, match=r"constraints must be a Constraints.*from_pairs"):
        fitted.refine(bad)
    with pytest.raises(InvalidConstraintsError, match=r"constraints must be a Constraints.*from_pairs"):
        fitted.score_pairs(bad)


@pytest.mark.parametrize("method", ["fit", "fit_predict", "fit_transform"])
def test_pairs_in_the_place_of_labels_are_refused(method: str, make: Any, X: Any, pairs: Any) -> None:
    with pytest.raises(InvalidConstraintsError, match=r"fit\(X, constraints=pairs\)"):
        getattr(make(), method)(X, pairs)


def test_fit_predict_takes_pairs_by_name(make: Any, X: Any, pairs: Any) -> None:
    expected = make(random_state=0).fit(X, constraints=pairs).labels_
    np.testing.assert_array_equal(make(random_state=0).fit_predict(X, constraints=pairs), expected)


@pytest.fixture
def contradiction() -> Constraints:
    return Constraints.from_pairs(must_link=[(0, 1), (1, 2), (3, 4)], cannot_link=[(0, 2), (0, 3)])


def test_contradictions_are_raised_with_the_chain(make: Any, X: Any, contradiction: Any) -> None:
    with pytest.raises(ConflictError, match=r"0.*1.*2") as caught:
        make().fit(X, constraints=contradiction, on_conflict="raise")
    assert len(caught.value.conflicts) == 1


@pytest.mark.filterwarnings("ignore::spherepair.errors.ConstraintWarning")
@pytest.mark.parametrize(("policy", "n_kept"), [("weigh", 4), ("drop", 4), ("keep", 5)])
def test_contradictions_can_be_weighed_dropped_or_kept(
    policy: str, n_kept: int, make: Any, X: Any, contradiction: Any
) -> None:
    model = make().fit(X, constraints=contradiction, on_conflict=policy)
    assert len(model.constraints_) == n_kept
    assert model.labels_.shape == (120,)


def test_an_unknown_policy_is_named(make: Any, X: Any, contradiction: Any) -> None:
    with pytest.raises(InvalidParameterError, match="on_conflict must be one of"):
        make().fit(X, constraints=contradiction, on_conflict="ignore")


def test_refine_refuses_pairs_that_contradict_the_old_ones(make: Any, X: Any, pairs: Any) -> None:
    model = make(max_epochs=1).fit(X, constraints=pairs)
    must = pairs.must_links
    opposite = Constraints.from_pairs(cannot_link=[(must.left[0], must.right[0])])
    with pytest.raises(ConflictError):
        model.refine(opposite, on_conflict="raise")
    assert len(model.constraints_) == len(pairs)


LOSSES = {
    "none": (None, "no constraints were given"),
    "an empty set": (Constraints.from_pairs(), "no constraints were given"),
    "only must-links": (
        Constraints.from_pairs(must_link=[(0, 1), (2, 3)]),
        "all 2 constraints are must-links",
    ),
    "only cannot-links": (Constraints.from_pairs(cannot_link=[(0, 1)]), "all 1 constraints are cannot-links"),
    "few": (Constraints.from_pairs([(0, 1)], [(0, 2)]), "only 2 constraints.*fewer than 256"),
}


@pytest.mark.parametrize("n_clusters", [3, "auto"])
@pytest.mark.parametrize("case", LOSSES)
def test_poor_constraints_work_with_one_warning_that_says_what_is_lost(
    case: str, n_clusters: Any, make: Any, X: Any
) -> None:
    constraints, message = LOSSES[case]
    with pytest.warns(ConstraintWarning, match=message) as caught:
        model = make(n_clusters).fit(X[:60], constraints=constraints)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert model.labels_.shape == (60,)
    assert np.isfinite(model.embedding_).all()


def test_no_constraints_and_no_pretraining_still_works(make: Any, X: Any) -> None:
    with pytest.warns(ConstraintWarning):
        assert set(make(pretraining=None).fit_predict(X)) <= {0, 1, 2}


def test_pairs_of_weight_zero_do_no_harm(make: Any, X: Any, pairs: Any) -> None:
    nothing = Constraints.from_arrays(
        pairs.left, pairs.right, pairs.is_must_link, weight=np.zeros(len(pairs))
    )
    assert np.isfinite(make().fit(X, constraints=nothing).embedding_).all()


def test_too_small_an_embedding_warns_with_the_bound(make: Any, X: Any, pairs: Any) -> None:
    with pytest.warns(
        EmbeddingDimensionWarning, match=r"embedding_dim=2 is below n_clusters=3.*to 3"
    ) as caught:
        make(embedding_dim=2).fit(X, constraints=pairs)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(embedding_dim=3, max_epochs=1).fit(X, constraints=pairs)
