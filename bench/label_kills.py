"""Kills ``spherepair label`` at random moments and counts what became of the answers.

    python bench/label_kills.py [--kills 100] [--people 4] [--database postgresql+psycopg://…]

People answer all the time and send an answer again until the server has taken it. Meanwhile the server, its
training process or (PostgreSQL) the database are killed. At the end every answer that was
acknowledged must be in the log exactly once, with the number that was told. Exit code 1 if not.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
import numpy as np
from label_load import Server, right_reply, write_rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--people", type=int, default=4)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--database")
    parser.add_argument("--longest-pause", type=float, default=2.0, help="seconds between two kills, at most")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data, y = write_rows(Path(folder) / "rows.parquet", options.rows, 8)
        outcome = run_kills(Server(Path(folder), data, options.database), y, options)
    print(outcome)
    return int(any(outcome[what] for what in ("lost", "twice", "renumbered", "nobody answered")))


class People:
    """Threads that answer; an answer is sent until its number comes back."""

    def __init__(self, server: Server, y: np.ndarray, count: int) -> None:
        self.server, self._y = server, y
        self.acknowledged: dict[str, int] = {}
        self.renumbered = 0
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._answer, args=(number,)) for number in range(count)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _answer(self, number: int) -> None:
        random = np.random.default_rng(number)
        while not self._is_over.is_set():
            try:
                with self.server.client(f"person {number}") as client:
                    self._answer_with(client, random)
            except (httpx.HTTPError, ValueError, KeyError):
                time.sleep(0.1)

    def _answer_with(self, client: httpx.Client, random: np.random.Generator) -> None:
        card = client.get(f"{self.server.project}/question").json()
        while not self._is_over.is_set():
            body = {"ticket": card["ticket"], "reply": right_reply(card, self._y), "seconds": 1.0}
            reply = client.post(f"{self.server.project}/answers", json=body)
            if reply.status_code == 409:  # the card is gone: another one is asked
                card = client.get(f"{self.server.project}/question").json()
                continue
            content = reply.raise_for_status().json()
            before = self.acknowledged.setdefault(card["ticket"], content["number"])
            self.renumbered += before != content["number"]
            if random.random() < 0.2:  # a person who clicks twice
                again = client.post(f"{self.server.project}/answers", json=body).raise_for_status().json()
                self.renumbered += again["number"] != before
            card = content["question"]
            time.sleep(random.exponential(0.05))


def run_kills(server: Server, y: np.ndarray, options: argparse.Namespace) -> dict[str, int]:
    """Kill again and again; what became of the answers."""
    random = np.random.default_rng(options.seed)
    counts = {"server": 0, "worker": 0, "database": 0}
    n_before = n_quiet = 0
    people = People(server, y, options.people)
    server.__enter__()
    people.start()
    try:
        for number in range(options.kills):
            time.sleep(random.uniform(0.1, 1.0) * options.longest_pause)
            victims = ["server", "worker"] + (["database"] if options.database else [])
            victim = str(random.choice(victims))
            counts[victim] += 1
            {"server": kill_server, "worker": kill_worker, "database": kill_database}[victim](server, options)
            if number % 10 == 9:
                print(f"{number + 1} kills, {len(people.acknowledged)} answers acknowledged", flush=True)
                n_quiet += len(people.acknowledged) == n_before  # these ten kills have shown nothing
                n_before = len(people.acknowledged)
        time.sleep(3)
        people.stop()
        log = read_log(server)
    finally:
        people.stop()
        server.__exit__()
    numbers = [line["number"] for line in log]
    told = list(people.acknowledged.values())
    return {
        **counts,
        "answers": len(log),
        "acknowledged": len(told),
        "lost": len(set(told) - set(numbers)),
        "twice": len(numbers) - len(set(numbers)) + len(told) - len(set(told)),
        "renumbered": people.renumbered,
        "nobody answered": n_quiet,
    }


def kill_server(server: Server, options: argparse.Namespace) -> None:
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    for attempt in range(5):
        try:
            server.__enter__()
            return
        except ValueError:  # it was killed while another process still held the project
            time.sleep(1 + attempt)
    raise RuntimeError("the server does not start again")


def kill_worker(server: Server, options: argparse.Namespace) -> None:
    words = ["pgrep", "-P", str(server.process.pid)]
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    for pid in found.stdout.split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue


def kill_database(server: Server, options: argparse.Namespace) -> None:
    """Kill a process of PostgreSQL, which has to be on this machine: all of it crashes and recovers."""
    import psycopg

    while True:
        try:
            with psycopg.connect(options.database.replace("+psycopg", "")) as connection:
                os.kill(connection.info.backend_pid, signal.SIGKILL)
                return
        except psycopg.OperationalError:  # it still recovers from the last time
            time.sleep(0.1)


def read_log(server: Server) -> list[dict]:
    lines: list[dict] = []
    with server.client("reader") as client:
        while True:
            page = client.get(f"{server.project}/answers", params={"offset": len(lines), "limit": 500}).json()
            lines += page["answers"]
            if len(lines) >= page["total"] or not page["answers"]:
                return lines


if __name__ == "__main__":
    sys.exit(main())
