from __future__ import annotations

import numpy as np
import pytest

from spherepair.constraints import Constraints, labels_and_answers
from spherepair.errors import ConstraintWarning, InvalidConstraintsError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

GROUPS = ["cat", None, "dog", "cat", None, "cow", "dog", "cat"]
PAIRS = Constraints.from_groups(GROUPS, random_state=0)


@pytest.fixture
def read(tmp_path):
    def from_text(text, **options):
        (tmp_path / "labels.csv").write_text(text)
        return Constraints.read(tmp_path / "labels.csv", **options)

    return from_text


def labels_csv(head="row,label", names=range(8)):
    return "\n".join([head, *(f"{name},{group or ''}" for name, group in zip(names, GROUPS, strict=True))])


@pytest.mark.parametrize("head", ["row,label", "id,label", "number,Label", " Row , LABEL "])
def test_labels_become_the_pairs_of_from_groups(read, head):
    assert read(labels_csv(head)) == PAIRS
    assert read(labels_csv(head), n_rows=8) == PAIRS


@pytest.mark.parametrize("head", ["id,label", "name,label", "row,label"])
def test_rows_may_be_named_by_their_ids(read, head):
    names = [f"n{k}" for k in range(8)]
    assert read(labels_csv(head, names), ids=names) == PAIRS


def test_order_and_unlabeled_rows_do_not_matter(read):
    lines = labels_csv().splitlines()
    assert read("\n".join([lines[0], *lines[:0:-1]])) == PAIRS
    assert read("\n".join(line for line in lines if not line.endswith(","))) == PAIRS


def test_json_lines_and_parquet_hold_labels_too(tmp_path):
    known = [(row, group) for row, group in enumerate(GROUPS) if group]
    path = tmp_path / "labels.jsonl"
    path.write_text("".join(f'{{"row": {row}, "label": "{group}"}}\n' for row, group in known))
    assert Constraints.read(path) == PAIRS
    numbers = [{"cat": 0, "dog": 2, "cow": 1, None: -1}[group] for group in GROUPS]
    pq.write_table(pa.table({"row": range(8), "label": numbers}), tmp_path / "labels.parquet")
    assert Constraints.read(tmp_path / "labels.parquet") == PAIRS
    with_nan = pa.array([np.nan if number < 0 else number for number in numbers], from_pandas=True)
    pq.write_table(pa.table({"row": range(8), "label": with_nan}), tmp_path / "labels.parquet")
    assert Constraints.read(tmp_path / "labels.parquet") == PAIRS


def test_with_both_columns_ids_decide(read):
    text = "row,id,label\n0,b,cat\n1,a,cat\n2,c,dog\n"
    with pytest.warns(ConstraintWarning, match="column 'id' is not used"):
        assert (0, 1, True) in read(text)
    with pytest.warns(ConstraintWarning, match="column 'row' is not used"):
        assert (1, 2, True) in read(text, ids=["c", "b", "a"])


def test_pairs_come_from_the_line_of_their_left_row(read):
    pairs = read("row,label\n\n5,cat\n3,cat\n")
    assert pairs.source_row.tolist() == [{5: 3, 3: 4}[int(pairs.left[0])]]


@pytest.mark.parametrize("text", ["row,label\n", "row,label\n0,\n1,-1\n", "row,label\n0,cat\n"])
def test_labels_that_tell_nothing_make_no_pairs(read, text):
    assert len(read(text)) == 0


def test_same_label_again_does_no_harm(read):
    assert len(read("row,label\n0,cat\n0,cat\n1,cat\n")) == 1


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "row,label\n0,cat\n0,dog\n",
            {},
            r"row 3 gives row 0 the label 'dog', but labels\.csv row 2 gives it 'cat'",
        ),
        ("row,label\n0,cat\n9,dog\n", {"n_rows": 9}, r"labels\.csv row 3 labels row 9, but there are 9 rows"),
        ("row,label\n0,cat\n-4,dog\n", {}, r"row 3 labels row -4; row numbers count from 0"),
        ("row,label\n0,cat\nx,dog\n", {}, r"row 3 holds 'x'; row numbers must be whole .* Give ids="),
        ("row,label\n0,cat\n1.5,dog\n", {}, r"row 3 holds '1\.5'"),
        ("id,label\na,cat\nzz,dog\n", {"ids": ["a", "b"]}, r"row 3 holds the id 'zz', which no row has"),
        ("label\ncat\ndog\n", {}, "no column that says which row a label belongs to; add a column row"),
        ("label,row,label\na,0,b\n", {}, "has the column label more than once"),
        ("row,right,link\n0,1,ml\n", {}, "has no column left; .* or row and label"),
    ],
)
def test_bad_labels_are_named_with_their_row(read, text, options, message):
    with pytest.raises(InvalidConstraintsError, match=message):
        read(text, **options)


def test_label_without_a_row_is_refused(tmp_path):
    path = tmp_path / "labels.jsonl"
    path.write_text('{"row": 0, "label": "cat"}\n{"label": "dog"}\n')
    with pytest.raises(InvalidConstraintsError, match=r"labels\.jsonl row 2 has a label but no row"):
        Constraints.read(path)


def test_very_large_row_numbers_cost_nothing(read):
    pairs = read(f"row,label\n{10**15},cat\n3,cat\n")
    assert {pairs.left[0], pairs.right[0]} == {3, 10**15}


@pytest.mark.parametrize("most", [20, 35])
def test_too_many_pairs_are_drawn_and_every_labeled_row_stays(read, monkeypatch, most):
    monkeypatch.setattr(labels_and_answers, "MOST_PAIRS", most)
    labels = np.arange(30) % 3
    text = "row,label\n" + "".join(f"{row},{label}\n" for row, label in enumerate(labels))
    with pytest.warns(
        ConstraintWarning, match=r"the labels make \d+ pairs; 3\d of them are used, drawn at random"
    ):
        pairs = read(text)
    assert len(pairs) == max(most, 30)
    assert {*pairs.left.tolist(), *pairs.right.tolist()} == set(range(30))
    assert np.array_equal(pairs.is_must_link, labels[pairs.left] == labels[pairs.right])
    with pytest.warns(ConstraintWarning):
        assert read(text) == pairs
