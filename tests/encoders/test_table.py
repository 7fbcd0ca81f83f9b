"""Every kind of column becomes numbers, none drowns the others, and what was made of it is said."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from spherepair.encoders import TableEncoder, pack_encoder, unpack_encoder
from spherepair.encoders.table import parse_kinds
from spherepair.errors import (
    InvalidDataError,
    InvalidParameterError,
    MissingDependencyError,
    UnusableColumnsError,
)

#: Checks that feed what a table of columns takes otherwise than a matrix, and why.
EXPECTED = {
    "check_dataframe_column_names_consistency": "further columns of a table are ignored, columns go by name",
}


@parametrize_with_checks([TableEncoder()], expected_failed_checks=lambda _: EXPECTED)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_each_column_is_described_in_one_line(table: pd.DataFrame) -> None:
    encoder = TableEncoder({"zip": "category"}, text_model="tfidf").fit(table)
    lines = dict(line.split(maxsplit=1) for line in encoder.describe().splitlines())
    assert list(lines) == list(table.columns)
    assert lines["age"] == "number, 1 missing"
    assert lines["income"] == "number"
    assert lines["city"] == "category of 3 values, 1 missing"
    assert lines["zip"].startswith("category of 4")
    assert lines["since"] == "date, 1 missing"
    assert lines["vip"] == "number"
    assert lines["same"] == "left out: the same value in all rows"
    assert lines["nothing"] == "left out: it is empty"
    assert lines["email"].startswith("left out: a different value in every row, like an id")
    assert lines["street"].startswith("words, ")
    assert lines["note"].startswith("text, tf-idf of ")


def test_no_column_drowns_the_others(table: pd.DataFrame) -> None:
    encoder = TableEncoder(text_model="tfidf")
    rows = encoder.fit_transform(table)
    variance = _variance_by_column(encoder, rows)
    fields = [variance[name] for name in ("age", "income", "city", "zip", "vip", "street")]
    assert np.allclose(fields, fields[0], rtol=1e-3)
    assert variance["since"] == pytest.approx(fields[0], rel=0.01)
    assert variance["note"] == pytest.approx(7 * fields[0], rel=0.02)  # as much as the seven other columns
    assert rows.std() == pytest.approx(1.0, abs=0.02)
    # A fortune of a hundred times the median is not a hundred times as far away.
    income = rows[:, list(encoder.get_feature_names_out()).index("income")]
    assert np.abs(income).max() < 5 * income.std()


def test_one_missing_value_is_no_outlier(table: pd.DataFrame) -> None:
    rows = TableEncoder(columns=["age", "since"]).fit_transform(table)
    assert np.linalg.norm(rows[0]) < 3 * np.median(np.linalg.norm(rows, axis=1))


def _variance_by_column(encoder: TableEncoder, rows: Any) -> dict[str, float]:
    found, start = {}, 0
    for plan in encoder.plans_:
        found[plan.name] = float(rows[:, start : start + len(plan.outputs)].var(axis=0).sum())
        start += len(plan.outputs)
    assert start == rows.shape[1] == len(encoder.get_feature_names_out())
    return found


def test_missing_values_are_data(table: pd.DataFrame) -> None:
    rows = TableEncoder(columns=["age", "city"]).fit_transform(table)
    assert np.isfinite(rows).all()
    assert rows.shape[1] == 2 + 4  # the age and whether it is missing; three cities and no city


@pytest.mark.parametrize("convert", [pl.from_pandas, pa.Table.from_pandas], ids=["polars", "pyarrow"])
def test_tables_of_all_libraries_give_the_same(table: pd.DataFrame, convert: Any) -> None:
    encoder = TableEncoder(text_model="tfidf")
    expected = encoder.fit_transform(table)
    other = convert(table)
    assert np.allclose(encoder.transform(other), expected, atol=1e-4)
    assert np.allclose(TableEncoder(text_model="tfidf").fit_transform(other), expected, atol=1e-4)


def test_fit_and_transform_is_fit_transform(table: pd.DataFrame) -> None:
    rows = TableEncoder(text_model="tfidf").fit_transform(table)
    assert np.array_equal(TableEncoder(text_model="tfidf").fit(table).transform(table), rows)


def test_a_saved_encoder_encodes_as_before(table: pd.DataFrame) -> None:
    encoder = TableEncoder({"zip": "category"}, drop=["vip"]).fit(table)
    content, arrays = pack_encoder(encoder)
    again = unpack_encoder(json.loads(json.dumps(content)), {k: v.copy() for k, v in arrays.items()})
    assert np.array_equal(again.transform(table), encoder.transform(table))
    assert again.get_params() == encoder.get_params()
    assert again.describe() == encoder.describe()


def test_every_kind_of_column_can_be_saved() -> None:
    n = 60
    frame = pd.DataFrame(
        {
            "rare": [0.0] * (n - 1) + [1.0],  # its quartiles are equal
            "took": pd.to_timedelta(np.arange(n) % 7, unit="h"),
            "at": pd.date_range("2024-01-01 10:00", periods=n, freq="37min", tz="UTC"),
            "kind": pd.Categorical(["a", "b", None] * (n // 3)),
            "yes": pd.array([True, None, False] * (n // 3), dtype="boolean"),
            "mixed": [1, "a", None] * (n // 3),
        }
    )
    encoder = TableEncoder().fit(frame)
    content, arrays = pack_encoder(encoder)
    again = unpack_encoder(json.loads(json.dumps(content)), arrays)
    rows = again.transform(frame)
    assert np.array_equal(rows, encoder.transform(frame))
    assert np.isfinite(rows).all()
    assert again.used_columns() == list(frame.columns)


def test_new_rows_may_hold_what_was_never_seen(table: pd.DataFrame) -> None:
    encoder = TableEncoder(drop=["note"]).fit(table)
    new = pd.DataFrame({name: ["never seen"] * 2 for name in table.columns})
    rows = encoder.transform(new)
    assert rows.shape == (2, len(encoder.get_feature_names_out()))
    assert np.isfinite(rows).all()


def test_a_column_keeps_its_kind_when_a_file_is_read_otherwise(table: pd.DataFrame) -> None:
    dated = table.assign(since=pd.date_range("2020-01-01", periods=len(table)))
    encoder = TableEncoder(columns=["age", "since", "city"]).fit(dated)
    read = dated.assign(since=dated["since"].astype(str), age=dated["age"].astype("str"))
    assert np.allclose(encoder.transform(read), encoder.transform(dated), atol=1e-4)


def test_codes_read_as_numbers_can_be_categories() -> None:
    codes = pd.DataFrame({"code": [7.0, 8.0, None, 7.0, 9.0] * 10})
    encoder = TableEncoder(["category:code"])
    assert encoder.fit_transform(codes).shape[1] == 4
    texts = codes["code"].map({7.0: "7", 8.0: "8", 9.0: "9"}).to_frame()
    assert np.array_equal(encoder.transform(texts), encoder.transform(codes))


def test_dates_can_be_asked_for() -> None:
    days = pd.DataFrame({"day": [20240101 + day for day in range(28)], "n": range(28)})
    assert "date" in TableEncoder(["date:day"]).fit(days).describe().splitlines()[0]


def test_all_columns_with_typing_errors_are_named_at_once(table: pd.DataFrame) -> None:
    table["age"] = table["age"].astype(object)
    table.loc[40, "age"] = "fourty"
    table["income"] = table["income"].astype(object)
    table.loc[[50, 60], "income"] = "much"
    with pytest.raises(UnusableColumnsError) as caught:
        TableEncoder().fit(table)
    message = str(caught.value)
    assert "column 'age': 1 of 119 values are no numbers, the first 'fourty' in row 40" in message
    assert "column 'income': 2 of 120 values are no numbers, the first 'much' in row 50" in message
    assert [problem[:2] for problem in caught.value.problems] == [("age", 40), ("income", 50)]
    as_numbers = TableEncoder({"age": "number", "income": "number"}, text_model="tfidf").fit(table)
    assert "age      number, 2 missing" in as_numbers.describe()


def test_columns_that_are_not_there_are_named(table: pd.DataFrame) -> None:
    with pytest.raises(InvalidDataError, match="no column 'agee'"):
        TableEncoder(drop=["agee"]).fit(table)
    with pytest.raises(InvalidDataError, match="no column 'zipp'"):
        TableEncoder({"zipp": "category"}).fit(table)
    encoder = TableEncoder(columns=["age", "city", "vip"]).fit(table)
    with pytest.raises(InvalidDataError, match=r"lacks 2 of the 3 columns .*: 'city', 'vip'"):
        encoder.transform(table[["age", "zip"]])
    with pytest.raises(InvalidDataError, match="no column can be used: same"):
        TableEncoder(columns=["same"]).fit(table)


@pytest.mark.parametrize("wrong", [["zip"], ["colour:zip"], {"zip": "colour"}, ["category:"]])
def test_an_unknown_kind_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidParameterError, match="such as 'category:zip'"):
        parse_kinds(wrong)


def test_what_to_install_is_said(table: pd.DataFrame, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "skrub", None)
    with pytest.raises(MissingDependencyError, match=r'needs skrub; pip install "spherepair\[tables\]"'):
        TableEncoder().fit(table)


def test_texts_alone_need_no_skrub(texts: list[str], monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "skrub", None)
    encoder = TableEncoder(["text:message"], text_model="tfidf")
    rows = encoder.fit_transform(pa.table({"message": texts}))
    assert rows.std() == pytest.approx(1.0, abs=0.01)


def test_an_empty_text_is_named_with_its_column(texts: list[str]) -> None:
    frame = pd.DataFrame({"message": [*texts, ""]})
    with pytest.raises(
        InvalidDataError, match=r"column 'message': 1 of 81 texts are empty, the first at row 80"
    ):
        TableEncoder(["text:message"]).fit(frame)
    kept = TableEncoder(["text:message"], keep_empty=True, text_model="tfidf").fit_transform(frame)
    assert np.isfinite(kept).all()


def test_bytes_are_taken_for_the_text_that_they_say() -> None:
    words, ages = ["red", "blue", "red", "green"] * 3, list(range(12))
    said = TableEncoder().fit_transform(pa.table({"color": words, "age": ages}))
    written = pa.table({"color": pa.array(words).cast(pa.binary()), "age": ages})
    np.testing.assert_array_equal(TableEncoder().fit_transform(written), said)
    pictures = pa.table({"picture": [b"\xff\xd8%d" % age for age in ages], "age": ages})
    with pytest.raises(InvalidDataError, match="column 'picture' holds bytes that are no text in UTF-8"):
        TableEncoder().fit(pictures)


def test_clone_and_unfitted() -> None:
    encoder = clone(TableEncoder({"a": "number"}, drop=["b"]))
    assert encoder.get_params()["drop"] == ["b"]
    with pytest.raises(NotFittedError):
        encoder.transform(pd.DataFrame({"a": [1]}))
