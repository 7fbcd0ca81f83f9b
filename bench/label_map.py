"""How smoothly the map of ``spherepair label`` moves: frames while somebody drags it and zooms.

    python bench/label_map.py [--rows 1000000] [--seconds 5] [--webgl]

Prints the painter that the page chose, the milliseconds between frames, and how long scripts of the page are
busy for one. Without a graphics card the page writes pixels by itself, and paints some of the points while
the map moves. ``--webgl`` makes it paint by WebGL all the same, which then runs on the CPU: what scripts take
is what they take with a graphics card, the rest is not. Needs Chromium and playwright.
"""

from __future__ import annotations

import argparse
import math
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from label_load import TOKEN, Server, write_rows
from label_page import OPTIONS
from playwright.sync_api import CDPSession, Page, sync_playwright

#: Seconds that the first model, and with it the map, may take.
LONGEST_WAIT = 1200
#: Notes when frames are painted.
WATCH = """() => {
  window.frames_at = [];
  const step = (now) => { window.frames_at.push(now); window.watching = requestAnimationFrame(step); };
  window.watching = requestAnimationFrame(step);
}"""
STOP = "() => { cancelAnimationFrame(window.watching); return window.frames_at; }"
FAKE_CARD = "WebGL2RenderingContext.prototype.getParameter = () => 'a card'"
EMPTY = (
    "() => document.querySelector('.map .empty') === null && document.querySelector('.map canvas') !== null"
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--webgl", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        data, _ = write_rows(Path(folder) / "rows.parquet", options.rows, 20)
        with Server(Path(folder), data) as server:
            wait_for_map(server)
            browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=OPTIONS)
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            if options.webgl:
                page.add_init_script(FAKE_CARD)
            page.goto(f"{server.url}/?token={TOKEN}#/{server.project}")
            show_map(page)
            report(page, options.seconds, options.rows)
            browser.close()


def wait_for_map(server: Server) -> None:
    """Until the model that places the rows is there and nothing is trained any more."""
    started = time.monotonic()
    with server.client("first") as client:
        client.post(f"{server.project}/train").raise_for_status()
        while True:
            state = client.get(server.project).json()["state"]
            if state["training"]["version"] > 0 and state["training"]["status"] == "idle":
                break
            if time.monotonic() - started > LONGEST_WAIT or state["training"]["status"] == "failed":
                raise SystemExit(f"no map: {state['training']}")
            time.sleep(1)
    print(f"map after {time.monotonic() - started:.0f} s", flush=True)


def show_map(page: Page) -> None:
    page.locator("#person").fill("ann")
    page.keyboard.press("Enter")
    page.locator("nav a[href$='/look']").click()
    page.wait_for_function(EMPTY, timeout=120_000)
    page.wait_for_timeout(3000)


def report(page: Page, seconds: float, n_rows: int) -> None:
    canvas = page.locator(".map canvas")
    box = canvas.bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    print(f"{n_rows:,} points, painted by {canvas.get_attribute('data-painter')}")
    inspector = page.context.new_cdp_session(page)
    inspector.send("Performance.enable")
    for what, move in (("dragged", drag), ("zoomed", zoom)):
        page.mouse.move(*middle)
        busy = script_seconds(inspector)
        page.evaluate(WATCH)
        started = time.perf_counter()
        move(page, middle, seconds)
        took = time.perf_counter() - started
        frames = np.diff(page.evaluate(STOP))
        busy = 1000 * (script_seconds(inspector) - busy) / max(1, len(frames))
        told = ", ".join(f"{np.percentile(frames, share):.0f} ({share} %)" for share in (50, 90, 99, 100))
        print(
            f"{what}: {len(frames) / took:.0f} frames a second; ms between them {told}; script {busy:.1f} ms"
        )
        page.wait_for_timeout(1500)


def script_seconds(inspector: CDPSession) -> float:
    """Seconds that scripts of the page have taken."""
    told = inspector.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in told if one["name"] == "ScriptDuration"))


def drag(page: Page, middle: tuple[float, float], seconds: float) -> None:
    page.mouse.down()
    end, step = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        step += 1
        page.mouse.move(middle[0] + 150 * math.sin(step / 15), middle[1] + 80 * math.cos(step / 20))
    page.mouse.up()


def zoom(page: Page, middle: tuple[float, float], seconds: float) -> None:
    end, step = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        step += 1
        page.mouse.wheel(0, 60 if step // 20 % 2 else -60)
        page.wait_for_timeout(8)


if __name__ == "__main__":
    main()
