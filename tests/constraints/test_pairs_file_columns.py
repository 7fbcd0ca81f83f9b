"""Persons, times and values in files; columns and pairs that are not used."""

from __future__ import annotations

import datetime
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spherepair.constraints import Constraints
from spherepair.errors import ConstraintWarning, InvalidConstraintsError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def read(tmp_path):
    """Read text as a csv file of pairs."""

    def from_text(text, **options):
        (tmp_path / "pairs.csv").write_text(text)
        return Constraints.read(tmp_path / "pairs.csv", **options)

    return from_text


persons = st.text(max_size=8)
times = st.datetimes(timezones=st.sampled_from([None, datetime.UTC])).map(datetime.datetime.isoformat)
answer = st.tuples(st.booleans(), persons, st.one_of(st.just(""), times), st.floats(0, 0.5))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    answers=st.lists(answer, max_size=6),
    suffix=st.sampled_from(["csv", "csv.gz", "jsonl", "parquet"]),
    named=st.booleans(),
)
def test_persons_times_and_values_are_read_back_exactly(tmp_path, answers, suffix, named):
    pairs = Constraints.from_arrays(
        range(len(answers)),
        range(10, 10 + len(answers)),
        [int(same) for same, *_ in answers],
        by=[by for _, by, _, _ in answers],
        time=[time for _, _, time, _ in answers],
        value=[1 - doubt if same else doubt for same, _, _, doubt in answers],
    )
    ids = [f"row {k}" for k in range(20)] if named else None
    pairs.write(tmp_path / f"pairs.{suffix}", ids=ids)
    found = Constraints.read(tmp_path / f"pairs.{suffix}", ids=ids)
    assert list(found) == list(pairs)
    for name in ("by", "time", "value"):
        assert getattr(found, name).tolist() == getattr(pairs, name).tolist()


def test_only_what_is_known_is_written(tmp_path):
    Constraints.from_pairs([(0, 1)]).write(tmp_path / "plain.csv")
    Constraints.from_pairs([(0, 1)], by="ann").write(tmp_path / "by.csv")
    assert (tmp_path / "plain.csv").read_text().splitlines()[0] == "left,right,link,weight"
    assert (tmp_path / "by.csv").read_text().splitlines()[0] == "left,right,link,weight,by"


@pytest.mark.parametrize("name", ["by", "who", "annotator", " Annotator "])
def test_the_person_has_several_names(read, name):
    assert read(f"left,right,link,{name}\n0,1,ml, ann \n2,3,cl,\n").by.tolist() == ["ann", ""]


def test_blank_values_and_times_mean_the_defaults(read):
    pairs = read("left,right,link,value,time\n0,1,ml,,\n2,3,cl, ,2026-03-31\n4,5,ml,+.75,\n")
    assert pairs.value.tolist() == [1.0, 0.0, 0.75]
    assert pairs.time.tolist() == ["", "2026-03-31", ""]


def test_columns_of_other_types_in_json_and_parquet(tmp_path):
    noon = datetime.datetime(2026, 3, 31, 12, tzinfo=datetime.UTC)
    table = {"left": [0, 2], "right": [1, 3], "link": [1, 0], "by": [7, None], "time": [noon, None]}
    pq.write_table(pa.table({**table, "value": [0.5, None]}), tmp_path / "pairs.parquet")
    pairs = Constraints.read(tmp_path / "pairs.parquet")
    assert pairs.by.tolist() == ["7", ""]
    assert [datetime.datetime.fromisoformat(text) for text in pairs.time[:1]] == [noon]
    assert "T" in pairs.time[0]
    assert pairs.value.tolist() == [0.5, 0.0]
    lines = [{"left": 0, "right": 1, "link": 1, "value": 1, "who": "ann"}, {"left": 0, "right": 2, "link": 0}]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert Constraints.read(tmp_path / "pairs.jsonl").by.tolist() == ["ann", ""]


def test_a_link_may_be_a_number_or_unsure(read):
    pairs = read("left,right,link,weight\n0,1,0.8,2\n2,3,1,1\n4,5,.2,1\n6,7,0,1\n8,9, Unsure ,1\n1,9,0.5,1\n")
    assert pairs.value.tolist() == [0.8, 1.0, 0.2, 0.0, 0.5, 0.5]
    assert pairs.is_must_link.tolist() == [True, True, False, False, False, False]
    assert pairs.weight.tolist() == [2.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert pairs.is_decided.tolist() == [True, True, True, True, False, False]
    both = read("left,right,link,value\n0,1,0.8,\n2,3,ml,0.9\n4,5,0.3,0.3\n")
    assert both.value.tolist() == [0.8, 0.9, 0.3]


def test_graded_links_in_parquet(tmp_path):
    pq.write_table(
        pa.table({"left": [0, 2], "right": [1, 3], "link": [0.25, 1.0]}), tmp_path / "pairs.parquet"
    )
    assert Constraints.read(tmp_path / "pairs.parquet").value.tolist() == [0.25, 1.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("left,right,link\n0,1,1.5\n", "row 2 has the link '1.5'; .* a number from 0 "),
        ("left,right,link\n0,1,nan\n", "row 2 has the link 'nan'"),
        (
            "left,right,link,value\n0,1,ml,1\n2,3,0.8,0.6\n",
            "row 3 has the link 0.8 and the value 0.6; leave one",
        ),
        ("left,right,link,value\n0,1,ml,1\n2,3,ml,much\n", r"row 3 has value 'much'; a value must be a num"),
        ("left,right,link,value\n0,1,ml,1.5\n", r"pairs\.csv row 2 has value 1\.5; .* between 0 \(surely"),
        ("left,right,link,value\n0,1,ml,nan\n", r"row 2 has value nan"),
        ("left,right,link,value\n0,1,cl,1\n", r"row 2 is a cannot-link of value 1\.0; .* 0\.5 or less"),
        ("left,right,link,time\n0,1,ml,7.9\n", r"row 2 has time '7\.9'; a time must be written as in"),
        ("left,right,link,by,who\n0,1,ml,a,b\n", "has the columns by and who, which mean the same"),
        ("left,right,link,by,By\n0,1,ml,a,b\n", "has the column by more than once"),
    ],
)
def test_bad_columns_are_named_with_their_row(read, text, message):
    with pytest.raises(InvalidConstraintsError, match=message):
        read(text)


def test_rows_are_named_right_also_after_pairs_without_an_answer(read):
    with (
        pytest.warns(ConstraintWarning, match="1 of 2 pairs left out"),
        pytest.raises(InvalidConstraintsError, match=r"row 3 has value 2\.0"),
    ):
        read("left,right,link,value\n0,1,,\n2,3,ml,2\n")


def test_a_column_that_is_not_used_is_named(read):
    with pytest.warns(ConstraintWarning, match=r"pairs\.csv: column 'Foo' is not used\.") as said:
        assert len(read("left,right,link,Foo\n0,1,ml,x\n")) == 1
    assert len(said) == 1
    with pytest.warns(ConstraintWarning, match=r"columns 'a', 'b' are not used\."):
        read("a,left,right,link,b\n,0,1,ml,x\n")
    many = ",".join(f"c{k}" for k in range(10))
    with pytest.warns(ConstraintWarning, match=r"'c7' and 2 more are not used\."):
        read(f"left,right,link,{many}\n0,1,ml{',' * 10}\n")


def test_warnings_point_at_the_caller(read):
    with pytest.warns(ConstraintWarning) as said:
        read("left,right,link,foo\n0,1,ml,x\n2,3,skip,x\n")
    assert [warning.filename for warning in said] == [__file__, __file__]


def test_pairs_without_an_answer_are_left_out_and_counted(read):
    text = "left,right,link\n0,1,ml\n2,3,\n,,skip\n4,5, SKIP \n4,x,\n6,7,cl\n"
    with pytest.warns(ConstraintWarning, match="4 of 6 pairs left out, because their link is blank or skip"):
        pairs = read(text)
    assert pairs.source_row.tolist() == [2, 7]
    assert pairs.left.tolist() == [0, 6]


def test_missing_links_of_json_lines_are_blank(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text(
        '{"left": 0, "right": 1, "link": 1}\n{"left": 2, "right": 3}\n{"left": 4, "link": null}\n'
    )
    with pytest.warns(ConstraintWarning, match="2 of 3 pairs left out"):
        assert list(Constraints.read(path)) == [(0, 1, True, 1.0)]
