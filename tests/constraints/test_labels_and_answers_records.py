from __future__ import annotations

import gzip
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spherepair.asking import record
from spherepair.constraints import Constraints, labels_and_answers
from spherepair.errors import InvalidConstraintsError

HEADER = {"format": "spherepair answers", "version": 1, "rows": "0123"}
DAY = "2026-03-31T09:30:00+00:00"


def answer(number, *links, by="ann", time=DAY, **more):
    return {
        "event": "answer",
        "number": number,
        "links": [list(link) for link in links],
        "by": by,
        "time": time,
        **more,
    }


EVENTS = [
    HEADER,
    answer(0, (0, 4, 1), (0, 9, 0), kind="choice", item=0, seconds=7.9),
    answer(1, (3, 7, 1), by="bob"),
    {"event": "undo", "number": 1, "time": DAY},
    answer(3, by="bob"),
    answer(4, (3, 7, 0), by="", time=""),
]


@pytest.fixture
def put(tmp_path):
    def write(*lines, name="answers.jsonl", end="\n"):
        text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + end
        data = text.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return tmp_path / name

    return write


@pytest.mark.parametrize("name", ["answers.jsonl", "answers.ndjson", "answers.jsonl.gz"])
def test_pairs_of_all_answers_that_stand_with_person_and_time(put, name):
    pairs = Constraints.read(put(*EVENTS, name=name))
    assert [pair[:3] for pair in pairs] == [(0, 4, True), (0, 9, False), (3, 7, False)]
    assert pairs.by.tolist() == ["ann", "ann", ""]
    assert pairs.time.tolist() == [DAY, DAY, ""]
    assert pairs.source_row.tolist() == [2, 2, 6]


def test_writer_begins_with_the_line_that_tells_a_record(tmp_path):
    with record.FileRecord(tmp_path / "answers.jsonl", fingerprint="0123"):
        pass
    assert json.loads((tmp_path / "answers.jsonl").read_text()) == HEADER


def test_what_the_writer_wrote_is_read(tmp_path):
    with record.FileRecord(tmp_path / "answers.jsonl", fingerprint="x") as file:
        for event in EVENTS[1:]:
            file.append(event)
    assert len(Constraints.read(tmp_path / "answers.jsonl")) == 3


def test_half_written_last_line_is_ignored(put):
    for part in ('{"event": "ans', ""):
        assert len(Constraints.read(put(*EVENTS, part, end=""))) == 3


def test_whole_last_line_counts_though_its_end_is_gone(put):
    undo = '{"event": "undo", "number": 0}'
    assert len(Constraints.read(put(*EVENTS, undo, end=""))) == len(Constraints.read(put(*EVENTS, undo)))


def test_record_without_answers_has_no_pairs(put):
    assert len(Constraints.read(put(HEADER))) == 0


def test_repeated_answer_is_kept_once_and_counted(put):
    pairs = Constraints.read(put(HEADER, answer(0, (1, 2, 1)), answer(1, (2, 1, 1))))
    assert (len(pairs), pairs.n_duplicates, pairs.by.tolist()) == (1, 1, ["ann"])


def test_a_pair_of_which_nobody_could_tell_has_the_value_one_half(put):
    unsure = answer(0, kind="pair", left=5, right=2) | {"answer": "unsure"}
    skipped = answer(1, kind="pair", left=5, right=3) | {"answer": "skip"}
    pairs = Constraints.read(put(HEADER, unsure, skipped, answer(2, (3, 7, 1))))
    assert pairs.value.tolist() == [0.5, 1.0]
    assert (pairs.left[0], pairs.right[0], pairs.by[0]) == (5, 2, "ann")
    with pytest.raises(InvalidConstraintsError, match="line 2 is not part of a record"):
        Constraints.read(put(HEADER, unsure | {"left": "x"}))


def test_the_same_answer_of_two_people_is_two_answers(put):
    pairs = Constraints.read(put(HEADER, answer(0, (1, 2, 1)), answer(1, (2, 1, 1), by="bob")))
    assert (len(pairs), pairs.n_duplicates, pairs.by.tolist()) == (2, 0, ["ann", "bob"])


def test_rows_are_numbers_also_where_ids_are_given(put):
    pairs = Constraints.read(put(*EVENTS), ids=[f"row {k}" for k in range(10)])
    assert pairs.right.tolist() == [4, 9, 7]
    with pytest.raises(
        InvalidConstraintsError, match=r"answers\.jsonl line 2 links rows 0 and 9, but there are"
    ):
        Constraints.read(put(*EVENTS), ids=["a", "b", "c", "d", "e", "f", "g", "h"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("", "it is not JSON"),
        ("[1]", "it is not a JSON object"),
        ({"event": "answer", "number": 1}, r"links must be a list of \[row, row, 1 or 0\]"),
        (answer(1, (1, 2)), "links must be a list"),
        (answer(1, (1, 2, 2)), "links must be a list"),
        (answer(1, (1, "2", 1)), "links must be a list"),
        (answer(1, (1, True, 1)), "links must be a list"),
        (answer(1, (1, 2**70, 1)), "links must be a list"),
        (answer(1, (1, 2, [1])), "links must be a list"),
        (answer(1, (1, 2, 1), by=7), "by and time must be text"),
        (answer("1", (1, 2, 1)), "it is no new answer and takes back no earlier one"),
        (answer(0, (1, 2, 1)), "it is no new answer"),
        ({"event": "undo", "number": 5}, "takes back no earlier one"),
        ({"event": "undo", "number": [0]}, "takes back no earlier one"),
        ({"event": "dance", "number": 5}, "it is no new answer"),
        (HEADER, "it is no new answer"),
    ],
)
def test_damage_is_named_with_its_line(put, line, message):
    with pytest.raises(
        InvalidConstraintsError, match=rf"answers\.jsonl line 3 is not part of .*: .*{message}"
    ):
        Constraints.read(put(HEADER, answer(0, (0, 1, 1)), line))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (answer(1, (2, 2, 1)), "line 3 links row 2 with itself"),
        (answer(1, (2, -1, 1)), "line 3 holds the row number -1"),
        (answer(1, (2, 50, 1)), "line 3 links rows 2 and 50, but there are only 10 rows"),
        (answer(1, (2, 5, 1), time="noon"), "line 3 has time 'noon'"),
    ],
)
def test_impossible_pairs_are_named_with_their_line(put, line, message):
    with pytest.raises(InvalidConstraintsError, match=message):
        Constraints.read(put(HEADER, answer(0, (0, 1, 1)), line), n_rows=10)


def test_endless_line_is_refused(put, monkeypatch):
    monkeypatch.setattr(labels_and_answers, "LONGEST_LINE", 200)
    with pytest.raises(InvalidConstraintsError, match="line 3 is not part of a record"):
        Constraints.read(put(HEADER, answer(0, (0, 1, 1)), answer(1, note="x" * 1000)))


def test_record_of_another_version_is_refused(put):
    with pytest.raises(InvalidConstraintsError, match=r"line 1 is not part of .* its version is 2, not 1"):
        Constraints.read(put({**HEADER, "version": 2}))


def test_truncated_archive_is_refused(put):
    path = put(*EVENTS, *(answer(5 + k, (k, k + 1, 1)) for k in range(3000)), name="answers.jsonl.gz")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InvalidConstraintsError, match="cannot be read as gzip"):
        Constraints.read(path)


def test_nothing_in_a_record_is_executed(put):
    marker = f"__import__('os').environ.__setitem__('SPHEREPAIR_HACKED', '{os.getpid()}')"
    assert Constraints.read(put(HEADER, answer(0, (0, 1, 1), by=marker))).by.tolist() == [marker]
    assert "SPHEREPAIR_HACKED" not in os.environ


@given(
    st.lists(
        st.one_of(st.none(), st.tuples(st.integers(0, 5), st.integers(6, 9), st.booleans())), max_size=20
    )
)
def test_undone_answers_leave_no_trace(tmp_path_factory, steps):
    lines, standing = [HEADER], []
    for number, step in enumerate(steps):
        if step is not None:
            lines.append(answer(number, (*step[:2], int(step[2]))))
            standing.append((number, step))
        elif standing:
            lines.append({"event": "undo", "number": standing.pop()[0]})
    path = tmp_path_factory.mktemp("record") / "answers.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert {pair[:3] for pair in Constraints.read(path)} == {step for _, step in standing}
