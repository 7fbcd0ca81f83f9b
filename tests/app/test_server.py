"""The server as a process: started, killed, started again."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from tests.forked_command import ForkedCommand

from spherepair import load
from spherepair.app.server import give_back_memory
from spherepair.cli import main

TOKEN = "token"


class Server:
    def __init__(self, folder: Path, *words: str) -> None:
        self.words = ["label", *words, "--no-browser", "--port", "0", "--json"]
        self.words += ["--projects", str(folder / "projects")]

    def start(self) -> Server:
        self.process = ForkedCommand(*self.words, SPHEREPAIR_TOKEN=TOKEN)
        link = json.loads(wait_for(lambda: self.process.out))["link"]
        root, _, self.project = link.partition(f"/?token={TOKEN}#/")
        headers = {"Authorization": f"Bearer {TOKEN}", "X-Person": "ann"}
        self.client = httpx.Client(base_url=f"{root}/api/projects/", headers=headers, timeout=60)
        return self

    def get(self, path: str) -> dict:
        return self.client.get(f"{self.project}{path}").raise_for_status().json()

    def answer(self, card: dict, reply: object) -> httpx.Response:
        body = {"ticket": card["ticket"], "reply": reply, "seconds": 1.0}
        return self.client.post(f"{self.project}/answers", json=body)

    def workers(self) -> list[str]:
        words = ["pgrep", "-P", str(self.process.pid)]
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()

    def kill(self) -> None:
        self.client.close()
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=30)

    def stop(self) -> None:
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=30)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three clouds in turn, with a column of words and a missing number."""
    random = np.random.default_rng(0)
    centers = 3 * random.normal(size=(3, 4))
    X = centers[np.arange(150) % 3] + 0.3 * random.normal(size=(150, 4))
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    columns = {f"x{column}": X[:, column] for column in range(4)}
    columns["x0"] = pa.array([None, *X[1:, 0]])
    pq.write_table(
        pa.table({**columns, "paint": np.array(["red", "blue", "green"])[np.arange(150) % 3]}), path
    )
    return path


@pytest.fixture
def server(tmp_path: Path, rows: Path):
    started = Server(tmp_path, str(rows)).start()
    yield started
    if started.process.poll() is None:
        started.stop()


def right(card: dict) -> object:
    if card["kind"] == "choice":
        found = [one["item"]["row"] for one in card["exemplars"]]
        return next((row for row in found if row % 3 == card["item"]["row"] % 3), "none")
    first, *others = [item["row"] for item in card["items"]]
    return [row for row in others if row % 3 != first % 3]


def wait_for(condition, seconds: float = 300.0):  # a busy machine lets the training starve
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def test_answers_survive_kills_and_the_model_is_trained_again(server, tmp_path, rows, capfd):
    card = server.get("/question")
    first = server.answer(card, right(card)).json()
    waiting = first["question"]
    server.kill()  # nothing is flushed by hand
    server.start()
    assert server.answer(card, right(card)).json()["number"] == first["number"]
    taken = server.answer(waiting, right(waiting))  # the card that lay there when the server died
    assert taken.status_code == 200
    assert taken.json()["number"] == 1
    assert main(["label", str(rows), "--no-browser", "--projects", str(tmp_path / "projects")]) == 2
    assert "open in another process" in capfd.readouterr().err
    card = taken.json()["question"]
    for _ in range(11):
        card = server.answer(card, right(card)).json()["question"]
    workers = wait_for(server.workers)
    for pid in workers:
        os.kill(int(pid), signal.SIGKILL)
    server.client.post(f"{server.project}/train")
    state = wait_for(lambda: (now := server.get("")["state"])["training"]["version"] >= 1 and now)
    server.client.post(f"{server.project}/train")
    groups = wait_for(
        lambda: len(found := server.get("/groups")) == 3 and sum(g["size"] for g in found) == 150 and found
    )
    assert state["answers"] == 13
    rows_of = [{item["row"] % 3 for item in group["typical"]} for group in groups]
    assert sorted(map(len, rows_of)) == [1, 1, 1]
    check_what_can_be_taken_away(server, tmp_path, rows)
    server.kill()
    server.start()
    assert {group["id"] for group in server.get("/groups")} == {group["id"] for group in groups}
    assert server.get("/answers")["total"] == 13
    server.client.close()
    server.process.send_signal(signal.SIGINT)
    said = server.process.communicate(timeout=30)[1]
    assert (server.process.poll(), said) == (
        130,
        "interrupted; all answers are kept. Run the same command again to go on.\n",
    )


def check_what_can_be_taken_away(server: Server, tmp_path: Path, rows: Path) -> None:
    files = {"file": ("rows.parquet", rows.read_bytes())}
    told = server.client.post(f"{server.project}/predict", files=files).raise_for_status().content
    names = csv.read_csv(io.BytesIO(told))["cluster"].to_pylist()
    assert [len(set(names[start::3])) for start in range(3)] == [1, 1, 1]
    content = server.client.get(f"{server.project}/export/model").raise_for_status().content
    zipfile.ZipFile(io.BytesIO(content)).extractall(tmp_path)
    model = load(tmp_path / "model")
    assert len(set(model.predict(pq.read_table(rows))[::3])) == 1
    report = server.client.get(f"{server.project}/export/report").raise_for_status().text
    assert "paint: red" in report


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--host", "0.0.0.0"], "give a password"),
        (["--demo", "rows.csv"], "not both"),
        (["nothing.csv"], "does not exist"),
        (["--database", "nonsense"], "must be a URL"),
    ],
)
def test_what_cannot_be_started_is_one_sentence(tmp_path, capfd, words, sentence):
    home = str(tmp_path / "projects")
    assert main(["label", *words, "--no-browser", "--port", "0", "--projects", home]) == 2
    told = capfd.readouterr().err
    assert sentence in told
    assert len(told.strip().splitlines()) <= 3


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_memory_that_reading_took_goes_back_to_the_machine():
    def held() -> int:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf(
            "SC_PAGESIZE"
        )

    before = held()
    tables = [pa.table({"x": np.arange(200_000.0) + number}).combine_chunks() for number in range(60)]
    tables = [pa.concat_tables([one, one]).combine_chunks() for one in tables]  # copied by Arrow
    words = [bytes(5000) for _ in range(10_000)]
    taken = held() - before
    assert taken > 100 * 2**20
    del tables, words
    give_back_memory()
    assert held() - before < taken / 4
