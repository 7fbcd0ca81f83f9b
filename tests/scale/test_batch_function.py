"""A saved model as a plain function of batches."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spherepair import SpherePair, scale
from spherepair.errors import InvalidDataError


@pytest.fixture(scope="module")
def function(folder: Path) -> Any:
    return pickle.loads(pickle.dumps(scale.predict_fn(folder, id_column="id")))


def test_a_pickle_of_it_does_not_hold_the_model(function: Any) -> None:
    assert len(pickle.dumps(function)) < 2000


def test_tables_of_all_kinds(function: Any, table: Any, model: SpherePair) -> None:
    for given in (table, table.to_pandas(), table.combine_chunks().to_batches()[0]):
        found = function(given)
        assert type(found) is type(given)
        np.testing.assert_array_equal(found["label"], model.labels_)
        assert list(found["id"])[3] in ("item-3", pa.scalar("item-3"))


def test_a_stream_of_batches_gives_a_stream(function: Any, table: Any, model: SpherePair) -> None:
    schema = function.schema(pa.string())
    given = [*table.to_batches(max_chunksize=50), pa.RecordBatch.from_pylist([], schema=table.schema)]
    found = pa.Table.from_batches(function(iter(given)), schema=schema)
    assert schema.names == ["id", "label", "confidence"]
    np.testing.assert_array_equal(found["label"], model.labels_)


def test_nothing_in_gives_nothing_of_the_same_kind(function: Any, folder: Path, table: Any) -> None:
    more = scale.predict_fn(folder, id_column="id", embedding=True, false_alarms=0.01)
    for label in (function, more):
        for given in (table, table.combine_chunks().to_batches()[0]):
            found, expected = label(given.slice(0, 0)), label(given)
            assert (type(found), found.num_rows) == (type(given), 0)
            assert found.schema == expected.schema
        frame = table.to_pandas()
        for empty in (frame.iloc[:0], frame.iloc[:0].astype({"id": object, "a": object})):
            found, expected = label(empty), label(frame)
            assert len(found) == 0
            assert found.dtypes.to_dict() == expected.dtypes.to_dict()
    with pytest.raises(InvalidDataError, match="no column 'b'"):
        function(table.drop_columns(["b"]).slice(0, 0))


def test_a_stream_of_pandas_gives_pandas_and_keeps_its_index(
    function: Any, table: Any, model: SpherePair
) -> None:
    frame = table.to_pandas().sample(frac=1, random_state=0)
    found = list(function(iter([frame[:50], frame[50:50], frame[50:]])))
    assert [part.index.tolist() for part in found] == [frame.index[:50].tolist(), frame.index[50:].tolist()]
    assert all((part["label"] == model.labels_[part.index]).all() for part in found)
    (whole,) = function([table])
    assert isinstance(whole, pa.Table)


@pytest.mark.parametrize("given", [np.zeros((3, 3), np.float32), None, 5])
def test_what_is_no_batch_is_refused_at_once(function: Any, given: Any) -> None:
    with pytest.raises(InvalidDataError, match="a batch is a pandas table, an Arrow table or a record batch"):
        function(given)


def test_a_missing_column_is_named(function: Any, table: Any) -> None:
    with pytest.raises(InvalidDataError, match="no column 'b'"):
        function(table.drop_columns(["b"]))
    with pytest.raises(InvalidDataError, match="no column 'id'"):
        function(table.drop_columns(["id"]))


def test_duckdb_reads_what_comes_back(function: Any, table: Any, model: SpherePair) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        batches = connection.cursor().from_arrow(table).to_arrow_reader(50)  # one open result each
        labeled = pa.RecordBatchReader.from_batches(function.schema(pa.string()), function(batches))
        connection.register("labeled", labeled)
        counted = connection.sql("select label, count(*) from labeled group by label order by label")
        assert [count for _, count in counted.fetchall()] == np.bincount(model.labels_).tolist()
