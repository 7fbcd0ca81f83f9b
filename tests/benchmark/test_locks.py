"""Locks between processes."""

from __future__ import annotations

import multiprocessing
import threading
import time
from pathlib import Path

import pytest
from spherepair.benchmark.locks import file_lock


def test_lock_is_free_again_after_its_block(tmp_path):
    for _ in range(2):
        with file_lock(tmp_path / "work") as locked:
            assert locked
    assert list(tmp_path.iterdir()) == []


def test_lock_is_free_again_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), file_lock(tmp_path / "work"):
        raise ZeroDivisionError
    with file_lock(tmp_path / "work") as locked:
        assert locked


def hold_lock(path, pipe):
    with file_lock(path) as locked:
        pipe.send(locked)
        time.sleep(60)


def test_killed_process_holds_nothing(tmp_path, fork):
    path = tmp_path / "work"
    here, there = multiprocessing.Pipe()
    holder = fork(hold_lock, path, there)
    assert here.recv() is True
    assert str(holder.pid) in path.read_text()
    with file_lock(path) as locked:
        assert not locked
    holder.kill()
    holder.join()
    assert path.exists()
    with file_lock(path) as locked:
        assert locked


def test_of_many_who_try_at_once_one_wins(tmp_path):
    inside, most = [0], [0]
    path, guard = tmp_path / "work", threading.Lock()

    def work() -> None:
        for _ in range(50):
            with file_lock(path, wait=True) as locked:
                assert locked
                with guard:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                time.sleep(0.0001)
                with guard:
                    inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_whoever_waits_gets_the_lock_once_it_is_free(tmp_path: Path):
    order = []

    def second() -> None:
        with file_lock(tmp_path / "work", wait=True) as locked:
            order.append(("second", locked))

    with file_lock(tmp_path / "work"):
        waiting = threading.Thread(target=second)
        waiting.start()
        time.sleep(0.1)
        order.append(("first", True))
    waiting.join()
    assert order == [("first", True), ("second", True)]
