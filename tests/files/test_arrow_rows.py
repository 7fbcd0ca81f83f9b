"""Arrow data as rows of numbers: vectors in columns, streams of batches."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spherepair import Constraints, SpherePair
from spherepair.errors import InvalidDataError
from spherepair.files import arrow_rows
from spherepair.files.arrow_rows import side_by_side, widen

rng = np.random.default_rng(0)
y = np.arange(120) % 3
X = (rng.normal(size=(120, 4)) + 5 * np.eye(4)[y]).astype(np.float32)


def vectors(rows: Any, *, fixed: bool = True) -> Any:
    if fixed:
        return pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])
    return pa.array(rows.tolist(), pa.list_(pa.float32()))


@pytest.fixture(scope="module")
def model() -> SpherePair:
    pairs = Constraints.from_labels(y, n_pairs=200, random_state=0)
    table = pa.table({"a": X[:, 0], "v": vectors(X[:, 1:])})
    return SpherePair(3, hidden_dims=(8,), pretraining=None, max_epochs=2, batch_size=64, random_state=0).fit(
        table, constraints=pairs
    )


@pytest.mark.parametrize("entries", [1, 8, 10**6])
def test_columns_become_rows_however_many_are_turned_together(
    entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_rows, "_TURNED_ENTRIES", entries)
    blocks = [np.arange(7), X[:7, :2], X[:7, 3], np.arange(14).reshape(7, 2) > 3]
    found = side_by_side(blocks)
    np.testing.assert_array_equal(found, np.column_stack(blocks))
    assert found.dtype == np.column_stack(blocks).dtype
    assert found.flags.c_contiguous
    assert found.flags.writeable


def test_one_column_of_numbers_is_one_feature() -> None:
    assert widen(pa.table({"a": [1.0, 2.0]}))[0].tolist() == [[1.0], [2.0]]


def test_a_column_of_vectors_is_one_feature_for_each_entry(model: SpherePair) -> None:
    assert list(model.feature_names_in_) == ["a", "v[0]", "v[1]", "v[2]"]
    wide = pa.table({name: X[:, place] for place, name in enumerate(model.feature_names_in_)})
    np.testing.assert_array_equal(model.predict(wide), model.labels_)


@pytest.mark.parametrize("fixed", [True, False])
def test_values_are_those_of_the_vectors(fixed: bool) -> None:
    table = pa.table({"v": vectors(X, fixed=fixed)})
    for part, rows in ((table, X), (table.slice(7, 20), X[7:27]), (pa.concat_tables([table] * 2), None)):
        found, names = widen(part)
        assert names == ["v[0]", "v[1]", "v[2]", "v[3]"]
        np.testing.assert_array_equal(found, np.concatenate([X, X]) if rows is None else rows)


def test_streams_are_predicted_batch_by_batch(model: SpherePair) -> None:
    table = pa.table({"a": X[:, 0], "v": vectors(X[:, 1:])})
    np.testing.assert_array_equal(model.predict(table.to_reader(max_chunksize=7)), model.labels_)
    np.testing.assert_array_equal(model.predict(table.to_batches()[0]), model.labels_)
    np.testing.assert_allclose(
        model.transform(table.to_reader(max_chunksize=50)), model.embedding_, atol=1e-6
    )


def test_a_relation_of_duckdb_is_a_stream(model: SpherePair) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.register("rows", pa.table({"a": X[:, 0], "v": vectors(X[:, 1:]), "n": np.arange(120)}))
        found = model.predict(connection.sql("select a, v from rows order by n"))
    np.testing.assert_array_equal(found, model.labels_)


def test_a_fit_takes_a_stream(model: SpherePair) -> None:
    table = pa.table({"a": X[:, 0], "v": vectors(X[:, 1:])})
    again = model.__sklearn_clone__().fit(table.to_reader(), constraints=model.constraints_)
    np.testing.assert_array_equal(again.labels_, model.labels_)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([[1.0, 2.0], [1.0]]), "a vector of 1 numbers in row 1, but of 2 in row 0"),
        (pa.array([[1.0, 2.0], None]), "no vector in row 1"),
    ],
)
def test_vectors_of_other_lengths_are_refused(model: SpherePair, column: Any, message: str) -> None:
    with pytest.raises(InvalidDataError, match=message):
        model.predict(pa.table({"v": column}))


def test_other_vectors_than_those_of_the_fit_are_refused(model: SpherePair) -> None:
    with pytest.raises(InvalidDataError, match="feature names"):
        model.predict(pa.table({"a": X[:, 0], "v": vectors(X[:, 2:])}))
    with pytest.raises(InvalidDataError, match="no rows"):
        model.predict(pa.table({"a": X[:0, 0]}).to_reader())
