"""How long people wait for the next card of ``spherepair label``: many at once, while a model is trained.

    python bench/label_load.py [--people 50] [--rows 200000] [--seconds 60] [--think 8] [--first 60]

One person answers the ``--first`` cards and waits until a model knows the groups, so that all kinds of card
are asked. Then all answer. Prints the time from an answer to the next card (one request), in milliseconds,
what training did, and the memory of the server with its worker (pages that both hold are counted once).
``--checks``: the people answer for as long as all tests of the page take that run beside them (in a browser
too); exit code 1 if one fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

TOKEN = "load"
#: Seconds that a first model may take.
LONGEST_TRAINING = 900


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=50)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--think", type=float, default=8.0, help="mean seconds before an answer")
    parser.add_argument("--first", type=int, default=60, help="cards before the model that is waited for")
    parser.add_argument("--database", help="URL; by default SQLite")
    parser.add_argument("--checks", action="store_true", help="run the tests of the page meanwhile")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data, y = write_rows(Path(folder) / "rows.parquet", options.rows, options.groups)
        started = time.monotonic()
        with Server(Path(folder), data, options.database) as server:
            print(f"{options.rows:,} rows imported and open after {time.monotonic() - started:.1f} s")
            at_open = memory(server.process.pid)
            if options.first:
                print(f"first model with groups after {prepare(server, y, options.first):.0f} s more")
            checks = start_checks() if options.checks else None
            try:
                waits, kinds, states = answer_at_once(server, y, options, checks)
            finally:
                if checks is not None and checks.poll() is None:
                    checks.kill()
            at_end = memory(server.process.pid)
    print(
        f"{at_open:.0f} MiB when open, {at_end:.0f} MiB at the end; the rows are {y.size * 128 / 2**20:.0f}"
    )
    waits = 1000 * np.sort(waits)
    print(f"{len(waits)} answers of {options.people} people")
    for name, share in (("median", 50), ("90 %", 90), ("99 %", 99), ("longest", 100)):
        print(f"{name:>8}  {np.percentile(waits, share):7.1f} ms")
    print(", ".join(f"{count} {kind} cards" for kind, count in sorted(Counter(kinds).items())))
    running = sum(state["training"]["status"] == "running" for state in states)
    print(f"training ran at {running} of {len(states)} looks; now {states[-1]['training']}")
    raise SystemExit(0 if checks is None else int(checks.returncode != 0))


def memory(process: int) -> float:
    """MiB that a process and its children hold, each page shared among those that hold it."""
    held = int(re.search(r"Pss:\s+(\d+)", Path(f"/proc/{process}/smaps_rollup").read_text())[1]) / 1024
    children = [thread.read_text().split() for thread in Path(f"/proc/{process}/task").glob("*/children")]
    return held + sum(memory(int(child)) for some in children for child in some)


def write_rows(path: Path, n_rows: int, n_groups: int) -> tuple[Path, np.ndarray]:
    """Clouds in 32 dimensions."""
    random = np.random.default_rng(0)
    centers = random.normal(size=(n_groups, 32)) * 1.5
    y = random.integers(n_groups, size=n_rows)
    X = (centers[y] + random.normal(size=(n_rows, 32))).astype(np.float32)
    pq.write_table(pa.table({f"x{column}": X[:, column] for column in range(32)}), path)
    return path, y


class Server:
    """``spherepair label`` in a process of its own."""

    def __init__(self, folder: Path, data: Path, database: str | None = None) -> None:
        words = [sys.executable, "-m", "spherepair", "label", str(data), "--no-browser", "--port", "0"]
        words += ["--projects", str(folder / "projects"), "--json"]
        words += [] if database is None else ["--database", database]
        self._words, self._environment = words, {**os.environ, "SPHEREPAIR_TOKEN": TOKEN}

    def __enter__(self) -> Server:
        self.process = subprocess.Popen(
            self._words, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        link = json.loads(self.process.stdout.readline())["link"]
        self.url, _, self.project = link.partition("/?token=load#/")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(timeout=20)

    def client(self, person: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {TOKEN}", "X-Person": person}
        return httpx.Client(base_url=f"{self.url}/api/projects/", headers=headers, timeout=60, verify=False)


def start_checks() -> subprocess.Popen[bytes]:
    """The tests of the page, in a process of their own."""
    tests = Path(__file__).resolve().parent.parent / "tests" / "app"
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)]
    return subprocess.Popen(words, cwd=tests.parent.parent, env={**os.environ, "OMP_NUM_THREADS": "1"})


def prepare(server: Server, y: np.ndarray, count: int) -> float:
    """Answer some cards, wait for a model that has learned from them; the seconds that it took."""
    started = time.monotonic()
    with server.client("first") as client:
        card = client.get(f"{server.project}/question").json()
        for _ in range(count):
            body = {"ticket": card["ticket"], "reply": right_reply(card, y), "seconds": 5.0}
            card = client.post(f"{server.project}/answers", json=body).raise_for_status().json()["question"]
        client.post(f"{server.project}/train")
        while sum(group["size"] for group in client.get(f"{server.project}/groups").json()) < len(y):
            if time.monotonic() - started > LONGEST_TRAINING:
                raise SystemExit(f"no model with groups after {LONGEST_TRAINING} s")
            time.sleep(1)
    return time.monotonic() - started


def answer_at_once(
    server: Server, y: np.ndarray, options: argparse.Namespace, checks: subprocess.Popen[bytes] | None
) -> tuple[list[float], list[str], list[dict]]:
    """Waits in seconds, kinds of card and looks at the state; until the time is over and the checks are."""
    waits: list[float] = []
    kinds: list[str] = []
    is_over, end = threading.Event(), time.monotonic() + options.seconds

    def person(number: int) -> None:
        random = np.random.default_rng(number)
        with server.client(f"person {number}") as client:
            time.sleep(random.uniform(0, options.think))
            card = client.get(f"{server.project}/question").json()
            while not is_over.is_set() and card["kind"] != "done":
                time.sleep(random.exponential(options.think) if options.think else 0.0)
                body = {"ticket": card["ticket"], "reply": right_reply(card, y), "seconds": options.think}
                started = time.monotonic()
                reply = client.post(f"{server.project}/answers", json=body)
                waits.append(time.monotonic() - started)
                kinds.append(card["kind"])
                card = (
                    reply.json()["question"]
                    if reply.is_success
                    else client.get(f"{server.project}/question").json()
                )

    threads = [threading.Thread(target=person, args=(number,)) for number in range(options.people)]
    for thread in threads:
        thread.start()
    states = []
    with server.client("watcher") as client:
        while time.monotonic() < end or (checks is not None and checks.poll() is None):
            states.append(client.get(server.project).json()["state"])
            time.sleep(2)
    is_over.set()
    for thread in threads:
        thread.join()
    return waits, kinds, states


def right_reply(card: dict, y: np.ndarray) -> object:
    """What a person who knows the groups says."""
    if card["kind"] == "choice":
        item = y[card["item"]["row"]]
        rows = [exemplar["item"]["row"] for exemplar in card["exemplars"]]
        return next((row for row in rows if y[row] == item), "none")
    if card["kind"] == "pair":
        return "same" if y[card["left"]["row"]] == y[card["right"]["row"]] else "different"
    first, *rows = [item["row"] for item in card["items"]]
    return [row for row in rows if y[row] != y[first]]


if __name__ == "__main__":
    main()
