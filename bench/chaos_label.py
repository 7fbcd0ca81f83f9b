"""``spherepair label`` for ``chaos.py``: killed while people answer, and on a full disk."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import label_kills
from chaos_disk import too_little_room
from chaos_trials import Run, Workshop
from label_load import TOKEN, Server, right_reply, write_rows

from spherepair.cli import main as run_command

#: Rows of the project, people who answer, and the longest pause between two kills.
N_ROWS, N_PEOPLE, LONGEST_PAUSE = 20_000, 3, 0.7


class ForkedServer(Server):
    """The server in a fork of a process that has loaded all of it and has no threads."""

    def __init__(self, folder: Path, data: Path, log: Path) -> None:
        self.log, self.process = log, _Process(0)
        self._words = ["label", str(data), "--no-browser", "--port", "0", "--json", "--seed", "0"]
        self._words += ["--projects", str(folder / "projects")]
        self._orders, self._told = _fork_on_order(self._words, log)

    def __enter__(self) -> ForkedServer:
        self.log.write_text("")
        os.write(self._orders, b"\n")
        self.process = _Process(int(os.read(self._told, 20)))
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.is_running:
            said = self.log.read_text()
            if '"link"' in said:
                link = json.loads(said)["link"]
                self.url, _, self.project = link.partition(f"/?token={TOKEN}#/")
                return self
            time.sleep(0.01)
        raise ValueError(self.log.read_text())

    def __exit__(self, *_: object) -> None:
        os.kill(self.process.pid, signal.SIGTERM)
        self.process.wait()

    def close(self) -> None:
        os.close(self._orders)


class _Process:
    """A process of somebody else."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    @property
    def is_running(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def wait(self, timeout: float = 30) -> None:
        end = time.monotonic() + timeout
        while self.is_running and time.monotonic() < end:
            time.sleep(0.005)


def _fork_on_order(words: list[str], log: Path) -> tuple[int, int]:
    """A process that begins the server for every byte it gets, and says its number."""
    orders, mine = os.pipe()
    told, theirs = os.pipe()
    sys.stdout.flush()
    if os.fork() == 0:
        os.close(mine)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the servers
        while os.read(orders, 1):
            pid = os.fork()
            if pid == 0:
                _serve(words, log)
            os.write(theirs, f"{pid}".encode())
        os._exit(0)
    return mine, told


def _serve(words: list[str], log: Path) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    errors = os.open(log.with_suffix(".errors"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(log, os.O_WRONLY), 1)
    os.dup2(errors, 2)
    os._exit(run_command(words))


def _server(workshop: Workshop, folder: Path) -> tuple[ForkedServer, Any]:
    os.environ["SPHEREPAIR_TOKEN"] = TOKEN
    data, y = write_rows(workshop.at / "people.parquet", N_ROWS, 4)
    return ForkedServer(folder, data, workshop.log.with_name("server.txt")), y


def kill_label(workshop: Workshop, kills: int, seed: int) -> Counter[str]:
    """Kill the server or its training while people answer."""
    folder = workshop.at / "label"
    folder.mkdir()
    server, y = _server(workshop, folder)
    options = argparse.Namespace(
        kills=kills, people=N_PEOPLE, seed=seed, database=None, longest_pause=LONGEST_PAUSE
    )
    counts = Counter(label_kills.run_kills(server, y, options))
    with server:  # somebody else begins the same project
        words = ["label", workshop.at / "people.parquet", "--no-browser", "--port", 0]
        second = Run([*words, "--projects", folder / "projects"], workshop.log)
        counts["not a sentence"] = int(second.wait() != 2 or "open in another process" not in second.said)
    server.close()
    left = [path for path in folder.rglob(".*") if path.suffix != ".lock"]
    for path in left[:3]:
        print(f"  left behind: {path}")
    counts["left behind"] = len(left)
    return counts


def label_on_full_disk(workshop: Workshop, disk: Path) -> Counter[str]:
    """Answers while the disk is full are refused with a sentence; with room again they are taken."""
    server, y = _server(workshop, disk)
    counts = Counter[str]()
    with server, server.client("ann") as client:
        card = client.get(f"{server.project}/question").json()
        for is_full in (False, True, False, True, False):
            with too_little_room(disk, 0) if is_full else nullcontext():
                for _ in range(5):
                    body = {"ticket": card["ticket"], "reply": right_reply(card, y), "seconds": 1.0}
                    reply = client.post(f"{server.project}/answers", json=body)
                    counts[f"status {reply.status_code}"] += 1
                    counts["acknowledged"] += reply.is_success
                    counts["not a sentence"] += reply.status_code == 500 or not (
                        reply.is_success or reply.json()["error"].endswith(".")
                    )
                    if reply.is_success and reply.json()["question"]["ticket"]:
                        card = reply.json()["question"]
        log = label_kills.read_log(server)
    counts["lost"] = abs(counts["acknowledged"] - len(log))
    counts["twice"] = len(log) - len({line["number"] for line in log})
    server.close()
    return counts
