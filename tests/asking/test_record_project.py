"""Tables of any kind, and the fingerprint that tells them apart."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from spherepair.asking import Interview
from spherepair.asking.record import FileRecord, fingerprint_rows
from spherepair.errors import RecordError


def test_arrow_table_is_asked_about_like_an_array(blobs, quick_model):
    pa = pytest.importorskip("pyarrow")
    X, _ = blobs
    table = pa.table({f"f{place}": X[:, place] for place in range(X.shape[1])})
    questions = []
    for rows in (X, table):
        talk = Interview(rows, model=quick_model, random_state=0).refit()
        talk.answer(talk.next(), "none")
        questions.append((talk.next(), talk._fingerprint()))
    assert questions[0] == questions[1]
    assert list(talk.model.feature_names_in_) == table.column_names


def test_sparse_rows_have_one_fingerprint_whatever_their_order():
    X = sparse.csr_matrix(np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]]))
    shuffled = sparse.csr_matrix((X.data[[1, 0, 2]], X.indices[[1, 0, 2]], X.indptr), shape=X.shape)
    assert fingerprint_rows(X) == fingerprint_rows(shuffled)
    assert fingerprint_rows(X) != fingerprint_rows(2 * X)


@pytest.mark.parametrize("rows", [np.arange(30_000.0).reshape(-1, 3), sparse.eye_array(10_000, format="csr")])
def test_one_changed_value_anywhere_is_another_table(rows):
    for place in (1, 5003, rows.shape[0] - 2):
        other = rows.copy()
        values = other.data if sparse.issparse(other) else other[:, 0]
        values[place] = 7.5
        assert fingerprint_rows(other) != fingerprint_rows(rows)
    assert fingerprint_rows(rows) == fingerprint_rows(rows.copy())


def test_records_that_name_a_sample_of_the_rows_are_still_taken(tmp_path):
    rows = np.arange(30.0).reshape(-1, 3)
    sample = fingerprint_rows(rows).partition("-")[0]
    FileRecord(tmp_path / "old.jsonl", fingerprint=sample).close()
    Interview(rows, record=tmp_path / "old.jsonl").close()
    with pytest.raises(RecordError, match="other rows"):
        Interview(rows + 1, record=tmp_path / "old.jsonl")
