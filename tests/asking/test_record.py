from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from spherepair.asking.record import FileRecord
from spherepair.errors import RecordError


def test_events_come_back_in_order(tmp_path: Path) -> None:
    with FileRecord(tmp_path / "answers.jsonl", fingerprint="abc") as record:
        record.append({"event": "answer", "number": 0})
        record.append({"event": "undo", "number": 0})
    with FileRecord(tmp_path / "answers.jsonl", fingerprint="abc") as record:
        assert [event["event"] for event in record] == ["answer", "undo"]


def test_a_record_of_other_rows_is_refused(tmp_path: Path) -> None:
    FileRecord(tmp_path / "a.jsonl", fingerprint="abc").close()
    with pytest.raises(RecordError, match="other rows"):
        FileRecord(tmp_path / "a.jsonl", fingerprint="xyz")


def test_a_half_written_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with FileRecord(path, fingerprint="abc") as record:
        record.append({"event": "answer", "number": 0})
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"event": "ans')
    with FileRecord(path, fingerprint="abc") as record:
        assert len(list(record)) == 1
        record.append({"event": "answer", "number": 1})
    assert path.read_bytes().startswith(whole)
    assert len(path.read_text().splitlines()) == 3


@pytest.mark.parametrize(
    "content", [b"\n", b"[]\n", b"hello\n", b'{"format": "other"}\n', b"[" * 5000 + b"\n"]
)
def test_a_file_that_is_no_record_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(RecordError):
        FileRecord(path, fingerprint="abc")
    assert path.read_bytes() == content


def test_the_second_process_is_told(tmp_path: Path, fork: Any) -> None:
    path = tmp_path / "a.jsonl"

    def open_too() -> None:
        with pytest.raises(RecordError, match="in use by another process"):
            FileRecord(path, fingerprint="abc")

    with FileRecord(path, fingerprint="abc"):
        other = fork(open_too)
        other.join(60)
    assert other.exitcode == 0


def test_a_killed_process_loses_no_answer(tmp_path: Path, fork: Any) -> None:
    path = tmp_path / "a.jsonl"

    def write_and_die() -> None:
        record = FileRecord(path, fingerprint="abc")
        for number in range(5):
            record.append({"event": "answer", "number": number})
        os.kill(os.getpid(), signal.SIGKILL)

    other = fork(write_and_die)
    other.join(60)
    assert other.exitcode == -signal.SIGKILL
    with FileRecord(path, fingerprint="abc") as record:
        assert [event["number"] for event in record] == [0, 1, 2, 3, 4]


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    with FileRecord(path, fingerprint="abc") as record:
        record.append({"event": "answer", "number": 0})
        before = path.read_bytes()

        def full(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(RecordError, match="No space left"):
            record.append({"event": "answer", "number": 1})
        monkeypatch.undo()
        assert path.read_bytes() == before
        record.append({"event": "answer", "number": 1})
    assert [json.loads(line).get("number") for line in path.read_text().splitlines()] == [None, 0, 1]
