from __future__ import annotations

import gzip
import json
import os
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spherepair.constraints import Constraints, Pair
from spherepair.constraints.pairs_file import read_questions
from spherepair.errors import InvalidConstraintsError, MissingDependencyError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

SUFFIXES = ["csv", "csv.gz", "jsonl", "jsonl.gz", "ndjson", "parquet", "pq"]
MUST_WORDS = ["must-link", "MUST_LINK", "Must", "ml", "SAME", "1", "1.0", "true", "True", "yes"]
CANNOT_WORDS = [
    *("cannot-link", "cannot_link", "Cannot", "CL", "different"),
    *("0", "0.0", "-1", "-1.0", "false", "False", "NO"),
]
PAIRS = Constraints.from_pairs(
    [(3, 0), (1, 2)], [(0, 7)], must_link_weight=[0.1, 2.5], cannot_link_weight=1e-30
)


@pytest.fixture
def put(tmp_path):
    """Write text under a name, and return the path."""

    def write(text, name="pairs.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def put_parquet(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_written_is_read_back_exactly(tmp_path, suffix):
    path = tmp_path / f"pairs.{suffix}"
    PAIRS.write(path)
    assert list(Constraints.read(path)) == list(PAIRS)
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_pairs_are_written_and_read_back(tmp_path, suffix):
    Constraints.from_pairs().write(tmp_path / f"pairs.{suffix}")
    assert len(Constraints.read(tmp_path / f"pairs.{suffix}")) == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(
    weight=st.lists(st.floats(0, width=32, allow_infinity=False), min_size=1, max_size=5),
    suffix=st.sampled_from(["csv", "jsonl", "parquet"]),
)
def test_weights_survive_to_the_last_bit(tmp_path, weight, suffix):
    pairs = Constraints.from_pairs([(0, k + 1) for k in range(len(weight))], must_link_weight=weight)
    pairs.write(tmp_path / f"pairs.{suffix}")
    assert np.array_equal(Constraints.read(tmp_path / f"pairs.{suffix}").weight, pairs.weight)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize(
    "ids",
    [
        [f"row {k}" for k in range(8)],
        ["007", "7", 'say "hi"', "a,b", "ü", " 7", "x", "line\n\nbreak"],
        np.arange(8) * 100 - 300,
        np.array([f"r{k}" for k in range(8)], dtype=object),
        [1, "b", 2.5, "d", 3, "f", 4, "h"],
    ],
)
def test_pairs_written_with_ids_are_read_back_with_ids(tmp_path, suffix, ids):
    path = tmp_path / f"pairs.{suffix}"
    PAIRS.write(path, ids=ids)
    assert list(Constraints.read(path, ids=ids)) == list(PAIRS)


def test_ids_may_be_a_table_column(tmp_path):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    names = [f"r{k}" for k in range(8)]
    PAIRS.write(tmp_path / "pairs.csv", ids=pd.Series(names))
    for ids in (pd.Series(names), pl.Series(names), pd.Index(names), pa.array(names)):
        assert Constraints.read(tmp_path / "pairs.csv", ids=ids) == PAIRS


@pytest.mark.parametrize("suffix", ["csv.gz", "parquet"])
def test_same_pairs_give_the_same_bytes(tmp_path, suffix):
    for name in "ab":
        PAIRS.write(tmp_path / f"{name}.{suffix}")
    assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "pairs.csv"
    PAIRS.write(path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        PAIRS[:1].write(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["pairs.csv"]


@pytest.mark.parametrize(
    ("word", "is_must_link"),
    [
        *((word, True) for word in MUST_WORDS),
        *((word, False) for word in CANNOT_WORDS),
    ],
)
def test_link_words(put, word, is_must_link):
    assert Constraints.read(put(f"left,right,link\n0,1, {word} \n")).is_must_link == is_must_link


@pytest.mark.parametrize("must", [True, 1, 1.0, "must", "1"])
def test_links_of_other_types_in_json_and_parquet(put, tmp_path, must):
    path = put(json.dumps({"left": 0, "right": 1, "link": must}), "pairs.jsonl")
    assert Constraints.read(path).is_must_link.tolist() == [True]
    path = put_parquet(tmp_path / "pairs.parquet", left=[0], right=[1], link=[must])
    assert Constraints.read(path).is_must_link.tolist() == [True]


def test_numbers_minus_one_and_zero_are_cannot_links(tmp_path):
    path = tmp_path / "pairs.parquet"
    for links in ([1, 0, -1], [1.0, -0.0, -1.0], ["ml", "cl", "no"]):
        put_parquet(path, left=[0, 1, 2], right=[3, 4, 5], link=links)
        assert Constraints.read(path).is_must_link.tolist() == [True, False, False]


def test_csv_may_have_mark_crlf_quotes_spaces_and_blank_lines(put):
    text = (
        '\ufeff"left", Right ,who,link,weight\r\n'
        '0,1,"x, y",must,2\r\n'
        "\r\n"
        ' 2 ," 3",z,"cannot",\r\n'
        "4.0,+5,z,cannot,1e-1"
    )
    pairs = Constraints.read(put(text))
    assert [(p.left, p.right, p.is_must_link) for p in pairs] == [
        (0, 1, True),
        (2, 3, False),
        (4, 5, False),
    ]
    assert pairs.weight.tolist() == [2, 1, np.float32(0.1)]
    assert pairs.by.tolist() == ["x, y", "z", "z"]
    assert pairs.source_row.tolist() == [2, 4, 5]


def test_csv_may_begin_with_blank_lines_and_end_in_upper_case(put):
    pairs = Constraints.read(put("\n\nleft,right,link\n0,1,ml\n", "PAIRS.CSV"))
    assert pairs.source_row.tolist() == [4]


def test_rows_of_csv_are_lines_of_the_file_also_after_quoted_line_breaks(put):
    text = 'who,left,right,link\n"a\n\nb",0,1,ml\n\n"5 "" pipe",2,3,ml\n'
    assert Constraints.read(put(text)).source_row.tolist() == [2, 6]


def test_rows_of_csv_are_records_where_lines_cannot_be_told(put):
    text = 'left,right,link,who\n0,1,ml,5" pipe\n2,3,ml,short\n'
    assert Constraints.read(put(text)).source_row.tolist() == [2, 3]


def test_rows_of_json_lines_count_blank_lines(put):
    lines = ['{"left": 0, "right": 1, "link": "ml"}', " ", '{"link": 0, "left": 4, "right": 2}']
    pairs = Constraints.read(put("\r\n".join(lines), "pairs.jsonl"))
    assert list(pairs) == [Pair(0, 1, True, 1.0), Pair(4, 2, False, 1.0)]
    assert pairs.source_row.tolist() == [1, 3]


def test_rows_of_parquet_count_from_one_and_types_may_vary(tmp_path):
    path = put_parquet(
        tmp_path / "pairs.parquet",
        left=pa.array([0, 2], pa.int16()),
        right=pa.array([1.0, 3.0]),
        link=pa.array(["ml", "cl"]).dictionary_encode(),
        weight=pa.array([None, 2.0], pa.float32()),
    )
    pairs = Constraints.read(path)
    assert list(pairs) == [Pair(0, 1, True, 1.0), Pair(2, 3, False, 2.0)]
    assert pairs.source_row.tolist() == [1, 2]


def test_repeated_rows_are_kept_once_and_counted(put):
    pairs = Constraints.read(put("left,right,link\n0,1,ml\n1,0,ml\n0,1,cl\n"))
    assert len(pairs) == 2
    assert pairs.n_duplicates == 1
    assert pairs.conflicts()[0].explain() == (
        "cannot-link (0, 1) at row 4 of the pairs contradicts must-link 0 - 1 (row 2)"
    )


@pytest.mark.parametrize("text", ["", "\n"])
def test_csv_without_even_a_header_is_refused(put, text):
    """More likely a failed export than no pairs."""
    with pytest.raises(InvalidConstraintsError, match=r"pairs.csv is empty"):
        Constraints.read(put(text, "pairs.csv"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pairs.csv", "left,right,link"),
        ("pairs.csv", "left,right,link,weight\r\n"),
        ("pairs.jsonl", ""),
        ("pairs.jsonl", "\n \n"),
    ],
)
def test_file_without_pairs_gives_none(put, name, text):
    assert len(Constraints.read(put(text, name))) == 0


HEAD = "left,right,link\n0,1,ml\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "4,4,ml\n", r"pairs\.csv row 3 links row 4 with itself"),
        (HEAD + "\n4,-4,ml\n", r"pairs\.csv row 4 holds the row number -4"),
        (HEAD + "4,40,ml\n", r"pairs\.csv row 3 links rows 4 and 40, but there are only 10 rows"),
        (HEAD + "4,x,ml\n", r"pairs\.csv row 3 holds 'x'; row numbers must be whole .* Give ids="),
        (HEAD + "4,1.5,ml\n", r"pairs\.csv row 3 holds '1\.5'"),
        (HEAD + "4,,ml\n", r"pairs\.csv row 3 holds ''"),
        (HEAD + "4,99999999999999999999,ml\n", r"pairs\.csv row 3 holds '9999"),
        (HEAD + "4,5,maybe\n", r"pairs\.csv row 3 has the link 'maybe'; it must be must-link"),
        (HEAD + "4,5,1.7\n", r"pairs\.csv row 3 has the link '1\.7'; .* or a number from 0"),
        (HEAD + "\n4,5\n", r"pairs\.csv row 4 has 2 values, but the header names 3 columns"),
        (HEAD + "4,5,ml,9\n", r"pairs\.csv row 3 has 4 values"),
        (HEAD.encode() + b"4,5,\xff\n", r"pairs\.csv row 3 is not text in UTF-8"),
        (
            "a,b,link\n0,1,ml\n",
            r"pairs\.csv has no column left and no column right; it has 'a', 'b', 'l",
        ),
        ("left/right/link\n0/1/ml\n", r"has no column left .* it has 'left/right/link'"),
        ("left,right,link,Left\n0,1,ml,2\n", r"pairs\.csv has the column left more than once"),
        (
            "left,right,link,weight\n0,1,ml,heavy\n",
            r"row 2 has weight 'heavy'; .* must be a number",
        ),
        ("left,right,link,weight\n0,1,ml,-1\n", r"pairs\.csv row 2 has weight -1\.0; .* finite"),
        ("left,right,link,weight\n0,1,ml,NaN\n", r"pairs\.csv row 2 has weight nan"),
        ("left,right,link,weight\n0,1,ml,Inf\n", r"pairs\.csv row 2 has weight inf"),
        ("left,right,link,weight\n0,1,ml,1e300\n", r"pairs\.csv row 2 has weight 1e\+300"),
    ],
)
def test_bad_csv_is_named_with_its_row(put, text, message):
    with pytest.raises(InvalidConstraintsError, match=message):
        Constraints.read(put(text), n_rows=10)


GOOD = '{"left": 0, "right": 1, "link": "ml"}\n\n'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"left": 2, "right": ', r"pairs\.jsonl row 3 is not JSON"),
        ("[" * 100_000, r"pairs\.jsonl row 3 is not JSON"),
        ("[2, 3]", r"pairs\.jsonl row 3 is not a JSON object"),
        ('{"left": 2, "link": 1}', r"pairs\.jsonl row 3 has no right"),
        ('{"left": null, "right": 3, "link": 1}', r"pairs\.jsonl row 3 has no left"),
        ('{"left": "x", "right": 3, "link": "ml"}', r"pairs\.jsonl row 3 holds 'x'"),
        ('{"left": 2.5, "right": 3, "link": "ml"}', r"pairs\.jsonl row 3 holds 2\.5"),
        ('{"left": true, "right": 3, "link": "ml"}', r"pairs\.jsonl row 3 holds 'True'"),
        ('{"left": [2], "right": 3, "link": "ml"}', r"pairs\.jsonl row 3 holds '\[2\]'"),
        ('{"left": 99999999999999999999, "right": 3, "link": "ml"}', r"row 3 holds '9999999"),
        ('{"left": 2, "right": 2, "link": "ml"}', r"pairs\.jsonl row 3 links row 2 with itself"),
        ('{"left": 2, "right": 3, "link": ["ml"]}', r"pairs\.jsonl row 3 has the link"),
        ('{"left": 2, "right": 3, "link": 2}', r"pairs\.jsonl row 3 has the link"),
        ('{"left": 2, "right": 3, "link": "ml", "weight": [1]}', r"row 3 has weight"),
        ('{"left": 2, "right": 3, "link": "ml", "weight": "x"}', r"row 3 has weight 'x'"),
    ],
)
def test_bad_json_line_is_named_with_its_row(put, line, message):
    with pytest.raises(InvalidConstraintsError, match=message):
        Constraints.read(put(GOOD + line + "\n", "pairs.jsonl"))


def test_json_lines_without_a_column_are_refused(put):
    path = put('{"left": 0, "to": 1}\n', "pairs.jsonl")
    with pytest.raises(InvalidConstraintsError, match="no column right and no column link; it has"):
        Constraints.read(path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"left": [0, 2], "right": [1, 2], "link": [1, 0]},
            r"pairs\.parquet row 2 links row 2 with",
        ),
        ({"left": [0, None], "right": [1, 2], "link": [1, 0]}, r"pairs\.parquet row 2 has no left"),
        ({"left": [0, 2], "right": [1, 2.5], "link": [1, 0]}, r"pairs\.parquet row 2 holds 2\.5"),
        ({"left": [0, 2], "right": [1, 3], "link": [1, 7]}, r"pairs\.parquet row 2 has the link 7"),
        (
            {"left": [0, 2], "link": [1, 7]},
            r"pairs\.parquet has no column right; it has 'left', 'link'",
        ),
    ],
)
def test_bad_parquet_is_named_with_its_row(tmp_path, columns, message):
    path = put_parquet(tmp_path / "pairs.parquet", **columns)
    with pytest.raises(InvalidConstraintsError, match=message):
        Constraints.read(path)


def test_truncated_and_garbage_files_are_refused(tmp_path, put):
    PAIRS.write(tmp_path / "whole.parquet")
    half = (tmp_path / "whole.parquet").read_bytes()[:-20]
    packed = gzip.compress(b"left,right,link\n" + b"0,1,ml\n" * 1000)[:-12]
    for data, name in [(half, "a.parquet"), (b"no", "b.pq"), (packed, "c.csv.gz"), (b"", "d.pq")]:
        with pytest.raises(
            InvalidConstraintsError, match=f"{name} cannot be read as .*; write or copy the file"
        ):
            Constraints.read(put(data, name))


def test_missing_file_folder_and_unknown_kind_are_refused(tmp_path):
    with pytest.raises(InvalidConstraintsError, match=r"none\.csv does not exist; check the path"):
        Constraints.read(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InvalidConstraintsError, match="is a folder, not a file"):
        Constraints.read(str(tmp_path / "folder.csv"))
    (tmp_path / "pairs.txt").write_text("")
    with pytest.raises(InvalidConstraintsError, match=r"unknown kind; its name must end in \.csv, "):
        Constraints.read(tmp_path / "pairs.txt")
    with pytest.raises(InvalidConstraintsError, match=r"the folder of .* does not exist"):
        PAIRS.write(tmp_path / "nowhere" / "pairs.csv")


def test_unknown_id_is_named_with_its_row_and_count(put):
    path = put("left,right,link\na,b,ml\na, c,ml\na,zz,ml\nb,yy,cl\n")
    message = r"pairs\.csv row 4 holds the id 'zz', which no row has; 2 of 4 ids in this column"
    with pytest.raises(InvalidConstraintsError, match=message):
        Constraints.read(path, ids=["a", "b", "c"])


def test_ids_must_be_unique_and_there(put):
    path = put("left,right,link\na,b,ml\n")
    with pytest.raises(InvalidConstraintsError, match=r"the id 'b' stands for 3 rows; .* 1 of them"):
        Constraints.read(path, ids=["a", "b", "b", "b"])
    with pytest.raises(InvalidConstraintsError, match=r"ids\[1\] is missing"):
        Constraints.read(path, ids=["a", None])


def test_two_ids_of_one_row_cannot_be_linked(put):
    path = put("left,right,link\na,b,ml\na, a,ml\n")
    with pytest.raises(InvalidConstraintsError, match=r"pairs\.csv row 3 links row 0 with itself"):
        Constraints.read(path, ids=["a", "b"])


def test_whole_number_ids_are_found_however_they_are_written(put):
    path = put("left,right,link\n 30,10.0,ml\n")
    assert list(Constraints.read(path, ids=[10, 20, 30])) == [Pair(2, 0, True, 1.0)]
    with pytest.raises(InvalidConstraintsError, match="row 2 holds the id ' 30', which no row has"):
        Constraints.read(path, ids=[10, 20])


def test_write_refuses_rows_without_an_id(tmp_path):
    with pytest.raises(InvalidConstraintsError, match="links rows 3 and 0, but there are only 3 rows"):
        PAIRS.write(tmp_path / "pairs.csv", ids=["a", "b", "c"])
    assert not os.listdir(tmp_path)


def test_without_pyarrow_the_remedy_is_named(put, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "spherepair\[files\]"'):
        Constraints.read(put(HEAD))


def test_questions_are_pairs_whatever_their_links(tmp_path):
    path = tmp_path / "again.csv"
    path.write_text("left,right,link,reason\nc,a,,doubtful\na,c,must-link,again\nb,c,cannot,\n")
    left, right = read_questions(path, ids=["a", "b", "c"])
    assert (left.tolist(), right.tolist()) == ([2, 1], [0, 2])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("left,link\n0,must\n", "has no column right"),
        ("left,right\n0,7\n", "again.csv row 2 links rows 0 and 7"),
    ],
)
def test_questions_that_cannot_be_asked_are_named(tmp_path, text, message):
    path = tmp_path / "again.csv"
    path.write_text(text)
    with pytest.raises(InvalidConstraintsError, match=message):
        read_questions(path, n_rows=3)
