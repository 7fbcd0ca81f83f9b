"""Claims: one holder at a time, and none after death."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from spherepair.benchmark.claims import claim

HOLD = """
import sys, time
from pathlib import Path
from spherepair.benchmark.claims import claim
with claim(Path(sys.argv[1])) as mine:
    print(mine, flush=True)
    time.sleep(60)
"""


def test_claim_is_free_again_after_its_block(tmp_path):
    for _ in range(2):
        with claim(tmp_path / "work") as mine:
            assert mine
    assert list(tmp_path.iterdir()) == []


def test_claim_is_free_again_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), claim(tmp_path / "work"):
        raise ZeroDivisionError
    with claim(tmp_path / "work") as mine:
        assert mine


def test_killed_process_holds_nothing(tmp_path):
    path = tmp_path / "work"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, encoding="utf-8")
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    assert str(holder.pid) in path.read_text()
    with claim(path) as mine:
        assert not mine
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    assert path.exists()
    with claim(path) as mine:
        assert mine


def test_of_many_who_try_at_once_one_wins(tmp_path):
    inside, most = [0], [0]
    path, guard = tmp_path / "work", threading.Lock()

    def work() -> None:
        for _ in range(50):
            with claim(path, wait=True) as mine:
                assert mine
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


def test_whoever_waits_gets_the_claim_once_it_is_free(tmp_path: Path):
    order = []

    def second() -> None:
        with claim(tmp_path / "work", wait=True) as mine:
            order.append(("second", mine))

    with claim(tmp_path / "work"):
        waiting = threading.Thread(target=second)
        waiting.start()
        time.sleep(0.1)
        order.append(("first", True))
    waiting.join()
    assert order == [("first", True), ("second", True)]
