"""A failed write keeps the old file, leaves no temporary, and names the file that was meant."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from spherepair.files import (
    _exchange,
    _temporary_name,
    atomic_folder,
    atomic_write,
    atomic_write_bytes,
    atomic_write_text,
    left_behind,
    try_to_create,
)

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_half(path: Path, failure: BaseException) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text("half")
        raise failure


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "result.txt"
    path.write_text("old")
    return path


def test_what_is_written_replaces_the_old_file_and_nothing_else_is_left(old: Path) -> None:
    atomic_write_text(old, "né \udcff")
    assert old.read_bytes() == "né ?".encode()
    atomic_write_bytes(str(old), b"\x00\r\n")
    assert old.read_bytes() == b"\x00\r\n"
    assert names(old.parent) == ["result.txt"]


def test_until_the_block_ends_the_old_file_is_there(old: Path) -> None:
    with atomic_write(old) as temporary:
        temporary.write_text("new")
        assert old.read_text() == "old"
        assert temporary.parent == old.parent
        assert temporary.name.startswith(".result.txt.")
        assert temporary.suffix == ".tmp"
    assert old.read_text() == "new"


@pytest.mark.parametrize("failure", [ValueError("no"), KeyboardInterrupt(), FULL])
def test_failing_write_keeps_the_old_file_and_leaves_no_temporary(old: Path, failure: BaseException) -> None:
    with pytest.raises(type(failure)):
        write_half(old, failure)
    assert old.read_text() == "old"
    assert names(old.parent) == ["result.txt"]


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_full_disk_keeps_the_old_file_and_names_it(
    old: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(self: Path, content: bytes) -> int:
        with self.open("wb") as stream:
            stream.write(content[:2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if step == "write":
        monkeypatch.setattr(Path, "write_bytes", fill)
    else:
        monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space left") as caught:
        atomic_write_text(old, "new and longer")
    monkeypatch.undo()
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(old)
    assert old.read_text() == "old"
    assert names(old.parent) == ["result.txt"]


def test_content_is_on_the_disk_before_it_gets_its_name(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda number: (steps.append("fsync"), fsync(number)))
    monkeypatch.setattr(os, "replace", lambda *paths: (steps.append("replace"), replace(*paths)))
    atomic_write_text(old, "new")
    assert steps == ["fsync", "replace", "fsync"]  # the last one is the folder's, which holds the name


def test_errors_name_the_target_whoever_writes(tmp_path: Path) -> None:
    target = tmp_path / "nowhere" / "result.csv"
    with pytest.raises(FileNotFoundError) as caught:
        atomic_write_text(target, "new")
    assert str(caught.value) == f"[Errno 2] No such file or directory: '{target}'"
    with pytest.raises(FileNotFoundError) as caught, atomic_write(target) as temporary:
        pa_csv.write_csv(pa.table({"a": [1]}), temporary)  # Arrow puts the name into its sentence
    assert str(caught.value) == f"[Errno 2] No such file or directory: '{target}'"
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        atomic_write_text(tmp_path / "folder", "new")
    assert caught.value.filename == str(tmp_path / "folder")
    assert caught.value.filename2 is None


def test_sentences_without_a_number_name_the_target_too(old: Path) -> None:
    with pytest.raises(OSError, match=f"^cannot write {old}$"), atomic_write(old) as temporary:
        raise OSError(f"cannot write {temporary}")


def test_error_about_another_file_is_left_as_it_is(old: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, atomic_write(old) as temporary:
        temporary.write_bytes((old.parent / "input.txt").read_bytes())
    assert caught.value.filename == str(old.parent / "input.txt")


def test_fixed_temporary_name_overwrites_what_a_killed_process_left(old: Path) -> None:
    (old.parent / ".result.txt.tmp").write_text("half")
    with atomic_write(old, unique=False) as temporary:
        assert temporary.name == ".result.txt.tmp"
        temporary.write_text("new")
    assert names(old.parent) == ["result.txt"]


def test_temporary_name_may_have_the_ending_that_a_writer_goes_by(old: Path) -> None:
    with atomic_write(old, suffix=".gif") as temporary:
        assert temporary.suffix == ".gif"
        temporary.write_text("new")
    assert old.read_text() == "new"


def fill_folder(folder: Path, text: str) -> None:
    with atomic_folder(folder) as temporary:
        (temporary / "a.txt").write_text(text)
        (temporary / "b.txt").write_text(text)


def test_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    fill_folder(tmp_path / "model", "old")
    fill_folder(tmp_path / "model", "new")
    assert names(tmp_path) == ["model"]
    assert [(tmp_path / "model" / name).read_text() for name in ("a.txt", "b.txt")] == ["new", "new"]


@pytest.mark.parametrize("n_renames", [0, 1])
def test_full_disk_keeps_the_old_folder(
    tmp_path: Path, n_renames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_folder(tmp_path / "model", "old")
    replace, done = os.replace, []

    def fail(source: Path, target: Path) -> None:
        if len(done) == n_renames:
            done.append("failed")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(source))
        done.append("renamed")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    monkeypatch.setattr("spherepair.files._exchange", lambda *_: False)  # as where it cannot be had
    with pytest.raises(OSError, match="No space left"):
        fill_folder(tmp_path / "model", "new")
    assert names(tmp_path) == ["model"]
    assert (tmp_path / "model" / "a.txt").read_text() == "old"


def test_error_inside_a_folder_names_the_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, atomic_folder(tmp_path / "model") as temporary:
        (temporary / "missing" / "a.txt").write_text("new")
    assert caught.value.filename == str(tmp_path / "model")
    assert names(tmp_path) == []


def test_a_folder_is_exchanged_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_folder(tmp_path / "model", "old")
    if not _exchange(tmp_path / "model", tmp_path / "model"):
        pytest.skip("this system cannot exchange two folders")
    monkeypatch.setattr(os, "replace", None)  # no moment without a folder of that name
    fill_folder(tmp_path / "model", "new")
    assert names(tmp_path) == ["model"]
    assert (tmp_path / "model" / "b.txt").read_text() == "new"


def test_what_killed_writers_left_is_swept_and_what_others_write_is_not(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    mine = _temporary_name(tmp_path / "model", ".tmp").name
    dead = mine.replace(f"-{os.getpid()}-", f"-{ended.pid}-")
    elsewhere = dead.replace(mine[7:15], "00000000")
    for name in (mine, dead, dead.replace(".tmp", ".old"), elsewhere):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("half")
    (tmp_path / dead.replace("model", "note")).write_text("half")
    fill_folder(tmp_path / "model", "new")
    atomic_write_text(tmp_path / "note", "new")
    assert names(tmp_path) == sorted([mine, elsewhere, "model", "note"])


def test_trials_leave_nothing_even_if_they_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    record = tmp_path / "answers.jsonl"
    record.write_text("one\n")
    left = _temporary_name(record, ".tmp").name.replace(f"-{os.getpid()}-", f"-{ended.pid}-")
    (tmp_path / left).touch()
    try_to_create(record)  # the record is only appended to: no other write would sweep
    assert names(tmp_path) == ["answers.jsonl"]

    def die(_path: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "unlink", die)
    monkeypatch.setattr(Path, "rmdir", die)
    for folder in (False, True):
        with pytest.raises(KeyboardInterrupt):
            try_to_create(tmp_path / "model", folder=folder)
    assert not (tmp_path / "model").exists()


def test_a_trial_keeps_the_only_copy_of_a_folder_that_was_being_replaced(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    mine = _temporary_name(tmp_path / "model", ".old").name
    old = tmp_path / mine.replace(f"-{os.getpid()}-", f"-{ended.pid}-")
    old.mkdir()
    try_to_create(tmp_path / "model", folder=True)
    assert left_behind(tmp_path / "model") == old
    fill_folder(tmp_path / "model", "new")
    assert names(tmp_path) == ["model"]


def test_trials_name_the_file_that_was_meant(tmp_path: Path) -> None:
    for name in ("x" * 300, "a.txt/model"):
        (tmp_path / "a.txt").touch()
        with pytest.raises(OSError, match=f"{name}|a.txt"):
            try_to_create(tmp_path / name)
    assert names(tmp_path) == ["a.txt"]


def test_links_are_followed_and_pipes_are_written_to(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    atomic_write_text(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE, text=True) as reader:
        atomic_write_text(tmp_path / "pipe", "through")
        assert reader.communicate(timeout=10)[0] == "through"
    assert (tmp_path / "pipe").is_fifo()
    atomic_write_text("/dev/null", "away")
    assert not Path("/dev/null").is_file()


def test_a_name_as_long_as_a_name_may_be_can_be_written(tmp_path: Path) -> None:
    for name in ("x" * 255, "ä" * 127):
        atomic_write_text(tmp_path / name, "new")
        fill_folder(tmp_path / f"{name[:-1]}m", "new")
    assert len(names(tmp_path)) == 4
