"""A simulated person in front of the page of ``spherepair label``: how right after so many cards, how fast?

    python bench/label_page.py --data banking77.parquet --text text --truth intent --groups 20 --cards 120
    python bench/label_page.py --cards 10000 --rapid     # made-up messages, as fast as the page takes answers

The person reads only the page: which items are on the card; what they truly are is looked up by their IDs.
The seconds that a person would think are simulated with the clock of the browser. The training is given as
much time as it would have had, not more. Needs Chromium and playwright.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from playwright.sync_api import Page, sync_playwright

from spherepair.metrics import clustering_accuracy

OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
#: Cards after which memory is looked at.
MEMORY_EVERY = 500


def messages(n: int) -> pd.DataFrame:
    """Made-up messages about eight topics."""
    rng = np.random.default_rng(0)
    topics = rng.integers(0, 8, n)
    words = [" ".join(f"word{topic}{rng.integers(12)}" for _ in range(7)) for topic in topics]
    return pd.DataFrame({"text": words, "truth": topics})


def table_of(args: argparse.Namespace) -> pd.DataFrame:
    """The rows with columns id, text and truth."""
    if args.data is None:
        table = messages(args.rows)
    else:
        read = pd.read_parquet if args.data.suffix == ".parquet" else pd.read_csv
        table = read(args.data)[[args.text, args.truth]]
        table.columns = pd.Index(["text", "truth"])
    if args.groups is not None:
        first = table["truth"].drop_duplicates().sort_values()[: args.groups]
        table = table[table["truth"].isin(first)]
    table = table.reset_index(drop=True)
    return table.assign(id=[f"r{row}" for row in range(len(table))])


def start_server(folder: Path, table: pd.DataFrame) -> tuple[subprocess.Popen[bytes], str]:
    """The server on these rows, without their truth, and its link."""
    table[["id", "text"]].to_csv(folder / "rows.csv", index=False)
    command = [
        sys.executable,
        "-m",
        "spherepair",
        "label",
        str(folder / "rows.csv"),
        "--text",
        "text",
        "--id",
        "id",
    ]
    command += ["--projects", str(folder / "home"), "--no-browser", "--port", "0"]
    log = folder / "log"
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    while not (found := re.search(r"http://127\.0\.0\.1:\d+/\S*", log.read_text())):
        if process.poll() is not None:
            raise SystemExit(log.read_text())
        time.sleep(0.1)
    return process, found.group(0)


def keys_for(card: dict[str, Any], truth: dict[str, Any]) -> list[str]:
    """The keys that answer a card rightly."""
    large, small = ([truth[item] for item in card[size]] for size in ("large", "small"))
    if card["kind"] == "pair":
        return ["1" if large[0] == large[1] else "2"]
    if card["kind"] == "choice":
        return [str(small.index(large[0]) + 1) if large[0] in small else "0"]
    return [str(k + 1) for k, one in enumerate(small) if one != large[0]] + ["Enter"]


READ = """() => {
  const card = document.querySelector('.card');
  const ids = (size) => [...card.querySelectorAll(`.item.${size}`)].map((item) => item.dataset.item);
  return {kind: card.dataset.kind, ticket: card.dataset.ticket, large: ids('large'), small: ids('small')};
}"""
NEXT = "ticket => document.querySelector('.card').dataset.ticket !== ticket"
RESTS = "() => document.querySelector('.progress').dataset.training === 'idle'"


def answer_cards(page: Page, truth: dict[str, Any], args: argparse.Namespace, server: int) -> list[float]:
    """Answer, and return the milliseconds from the last key to the next card."""
    waits: list[float] = []
    for number in range(args.cards):
        if number % MEMORY_EVERY == 0:
            late = f", cards after {np.median(waits[-MEMORY_EVERY:]):.0f} ms" if waits else ""
            print(f"{number} cards: {memory(page, server)}{late}", flush=True)
        card = page.evaluate(READ)
        if card["kind"] == "done":
            break
        if not args.rapid:
            think(page, args.seconds, patient=args.patient)
        *marks, last = keys_for(card, truth)
        for key in marks:
            page.keyboard.press(key)
        started = time.perf_counter()
        page.keyboard.press(last)
        page.wait_for_function(NEXT, arg=card["ticket"], polling=5)
        waits.append(1000 * (time.perf_counter() - started))
    return waits


def memory(page: Page, server: int) -> str:
    """What the server and the page hold."""
    held = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{server}/status").read_text())
    inspector = page.context.new_cdp_session(page)
    inspector.send("HeapProfiler.collectGarbage")
    inspector.send("Performance.enable")
    told = {one["name"]: one["value"] for one in inspector.send("Performance.getMetrics")["metrics"]}
    inspector.detach()
    shown = "?" if held is None else f"{int(held.group(1)) / 1024:.0f}"
    return f"server {shown} MiB, page {told['JSHeapUsedSize'] / 2**20:.1f} MiB and {told['Nodes']:.0f} nodes"


def think(page: Page, seconds: float, *, patient: bool) -> None:
    """The browser sees the seconds pass; a training that runs gets them for real, or as long as it takes."""
    started = time.perf_counter()
    while not page.evaluate(RESTS) and (patient or time.perf_counter() - started < seconds):
        page.wait_for_timeout(50)
    page.clock.fast_forward(max(0, round(1000 * (seconds - (time.perf_counter() - started)))))


def labels_from(page: Page) -> pd.DataFrame:
    """The labels, as the person takes them away."""
    page.get_by_role("link", name="Take away").click()
    with page.expect_download() as saved:
        page.get_by_role("link", name=re.compile("as a table")).click()
    return pd.read_csv(saved.value.path())


def main() -> None:
    """Answer cards and print how right the labels are and how long cards took to come."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="parquet or csv; made-up messages when left out")
    parser.add_argument("--text", default="text")
    parser.add_argument("--truth", default="label")
    parser.add_argument("--groups", type=int, help="only the first so many true groups")
    parser.add_argument("--rows", type=int, default=2000, help="of the made-up messages")
    parser.add_argument("--cards", type=int, default=120)
    parser.add_argument("--seconds", type=float, default=8.0, help="that the person thinks about a card")
    parser.add_argument(
        "--patient", action="store_true", help="wait for trainings: for a machine that is busy otherwise"
    )
    parser.add_argument("--rapid", action="store_true", help="no thinking")
    args = parser.parse_args()
    table = table_of(args)
    truth = dict(zip(table["id"], table["truth"], strict=True))
    folder = Path(tempfile.mkdtemp(prefix="label-page-"))
    server, link = start_server(folder, table)
    try:
        with sync_playwright() as running:
            program = shutil.which("chromium") or shutil.which("chromium-browser")
            page = running.chromium.launch(executable_path=program, args=OPTIONS).new_page()
            page.set_default_timeout(300_000)
            page.clock.install()
            page.goto(link)
            page.locator("#person").fill("simulated")
            page.keyboard.press("Enter")
            page.locator(".card[data-kind]:not([data-kind=''])").wait_for()
            waits = answer_cards(page, truth, args, server.pid)
            counted = int(page.locator(".counter strong").inner_text())
            p50, p99 = np.percentile(waits, [50, 99])
            print(f"{len(table)} rows, {len(waits)} cards, {counted} on the counter")
            print(f"next card after {p50:.0f} ms (median), {p99:.0f} ms (99th percentile)", flush=True)
            page.wait_for_timeout(3000)
            page.wait_for_function(RESTS, timeout=3_600_000)
            labels = labels_from(page)
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder)
    found = labels.set_index("id").loc[table["id"], "cluster"].to_numpy()
    accuracy = clustering_accuracy(pd.factorize(table["truth"])[0], pd.factorize(found)[0])
    print(f"{100 * accuracy:.1f} % right")


if __name__ == "__main__":
    main()
