"""A server, a browser and people in front of it."""

from __future__ import annotations

import re
import signal
import socket
import time
from pathlib import Path

import numpy as np
import pytest
from tests.forked_command import ForkedCommand

TOPICS = {
    "card": "card stolen lost block replace plastic chip",
    "loan": "loan interest rate repay borrow mortgage month",
    "travel": "travel abroad currency exchange airport hotel trip",
    "password": "password login forgot reset app phone screen",
}
#: The views, by the last word of their links, and what shows that they are there.
VIEWS = {
    "answer": ".card h1",
    "look": ".map",
    "disagreements": "#people",
    "take": ".files",
    "open": ".projects",
}
#: The first model has seen no answers.
LEARNED = "() => +document.querySelector('.progress').dataset.version > 1"


def write_messages(path: Path, count: int = 120) -> None:
    """Messages about four topics; the first word says which."""
    rng = np.random.default_rng(0)
    topics = (list(TOPICS)[row % len(TOPICS)] for row in range(count))
    lines = (
        f"m{row},{one} {' '.join(rng.choice(TOPICS[one].split(), 5))} {row}" for row, one in enumerate(topics)
    )
    path.write_text("\n".join(["id,message", *lines]), encoding="utf-8")


class Server:
    """``spherepair label`` in a process of its own, on a port that stays the same."""

    def __init__(self, home: Path, data: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.home, self.data = home, data
        self.start()

    def start(self) -> None:
        options = f"--text message --id id --projects {self.home} --no-browser --port {self.port}".split()
        self.process = ForkedCommand("label", self.data, *options, COLUMNS="300")
        self.link = self._link()

    def _link(self) -> str:
        for _ in range(1800):  # a busy machine takes minutes
            if found := re.search(rf"http://127\.0\.0\.1:{self.port}/\S*", self.process.out):
                return found.group(0)
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise AssertionError("\n".join(self.process.communicate()))

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(20)

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        _, said = self.process.communicate(20)
        assert "a bug of spherepair" not in said, said


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("label")
    write_messages(folder / "messages.csv")
    running = Server(folder / "home", folder / "messages.csv")
    yield running
    running.close()


@pytest.fixture
def large_server(tmp_path):
    """One with so many messages that hundreds of answers leave some to ask about."""
    write_messages(tmp_path / "messages.csv", 1000)
    running = Server(tmp_path / "home", tmp_path / "messages.csv")
    yield running
    running.close()


class Person:
    """Somebody with a browser who reads the page, and nothing else."""

    def __init__(self, browser, server, name, **options):
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(15_000)
        self.complaints = []
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(server.link)
        self.page.locator("#person").fill(name)
        self.page.keyboard.press("Enter")
        self.page.locator(".card[data-ticket]:not([data-ticket=''])").wait_for()

    def _hear(self, message):
        # Chromium itself complains of WebGL without a graphics card.
        if "GL Driver Message" not in message.text:
            self.complaints.append(f"{message.text} {message.location.get('url', '')}")

    views = tuple(VIEWS)

    def see(self, view):
        self.page.locator("a.home" if view == "open" else f"nav a[href$='/{view}']").click()
        self.page.locator(VIEWS[view]).wait_for()

    @property
    def ticket(self):
        return self.page.locator(".card").get_attribute("data-ticket")

    @property
    def answers(self):
        return int(self.page.locator(".counter strong").inner_text())

    def wait_for_groups(self):
        """Wait until the page has learned from answers, and see to it that there are some."""
        self.see("answer")
        if int(self.page.locator(".progress").get_attribute("data-version")) < 2:
            while self.answers < 10:
                self.answer()
            self.page.get_by_role("button", name="Learn now").click(timeout=180_000)
            self.page.wait_for_function(LEARNED, timeout=180_000)

    def place_of_an_item(self, x, y):
        """A place on the map, near another one, at which the page shows an item."""
        for dx in range(-40, 41, 8):
            for dy in range(-40, 41, 8):
                self.page.mouse.move(x + dx, y + dy)
                if self.page.locator(".tip").count():
                    return x + dx, y + dy
        raise AssertionError("no item there")

    def touch(self, *fingers):
        """Put fingers on the map and move each along its line of places."""
        touch = self.context.new_cdp_session(self.page)
        for step, places in enumerate(zip(*fingers, strict=True)):
            points = [{"x": x, "y": y, "id": finger} for finger, (x, y) in enumerate(places)]
            kind = "touchMove" if step else "touchStart"
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    def wait_for_another_card(self, ticket, timeout=15_000):
        self.page.locator(f".card:not([data-ticket='{ticket}'])").wait_for(timeout=timeout)

    def reply(self):
        """The keys that answer this card rightly."""
        card = self.page.locator(".card")
        large = [text.split()[0] for text in card.locator(".item.large .words").all_inner_texts()]
        small = [text.split()[0] for text in card.locator(".item.small .words").all_inner_texts()]
        kind = card.get_attribute("data-kind")
        if kind == "pair":
            return ["1" if large[0] == large[1] else "2"]
        if kind == "choice":
            return [str(small.index(large[0]) + 1) if large[0] in small else "0"]
        return [str(k + 1) for k, topic in enumerate(small) if topic != large[0]] + ["Enter"]

    def answer(self, by="keyboard"):
        ticket, keys = self.ticket, self.reply()
        for key in keys:
            if by == "keyboard":
                self.page.keyboard.press(key)
            else:
                button = f"[aria-keyshortcuts='{key}'], .members label:has(kbd:text-is('{key}'))"
                found = self.page.locator(button).first
                found.tap() if by == "touch" else found.click()
        self.wait_for_another_card(ticket)


@pytest.fixture
def person(browser, server):
    """Let people come, and send them home."""
    came = []

    def come(name="ann", *, at=server, **options):
        came.append(Person(browser, at, name, **options))
        return came[-1]

    yield come
    for one in came:
        one.context.close()
