"""Server-sent events: what happens in a project, told to every page that is open on it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from secrets import token_hex
from typing import Any

#: A page that was disconnected for a moment gets up to so many missed events.
KEPT_EVENTS = 200
#: A quiet connection gets a line after so many seconds, so that no proxy closes it.
HEARTBEAT = 15.0


class Stream:
    """Events of one project; publishing is possible from any thread and never waits."""

    def __init__(self) -> None:
        self._start = token_hex(4)  # numbers of an earlier start mean nothing
        self._number = 0
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=KEPT_EVENTS)
        self._listeners: set[Callable[[bytes], None]] = set()
        self._lock = threading.Lock()

    @property
    def is_heard(self) -> bool:
        """Whether some page listens."""
        return bool(self._listeners)

    def publish(self, event: str, content: dict[str, Any]) -> None:
        """Tell all pages."""
        with self._lock:
            self._number += 1
            text = f"id: {self._start}-{self._number}\nevent: {event}\ndata: {json.dumps(content)}\n\n"
            message = text.encode()
            self._kept.append((self._number, message))
            listeners = list(self._listeners)
        for listen in listeners:
            listen(message)

    async def listen(self, last: str | None, first: bytes) -> AsyncIterator[bytes]:
        """Messages as they come, those after ``last`` first; ``first`` where nothing is known of it."""
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[bytes](maxsize=1000)

        def hear(message: bytes) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_put, queue, message)

        with self._lock:
            missed = self._missed(last)
            self._listeners.add(hear)
        try:
            for message in [first] if missed is None else [*missed, first]:
                yield message
            while True:
                try:
                    yield await asyncio.wait_for(queue.get(), HEARTBEAT)
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            with self._lock:
                self._listeners.discard(hear)

    def message(self, event: str, content: dict[str, Any]) -> bytes:
        """A message for one page."""
        return f"event: {event}\ndata: {json.dumps(content)}\n\n".encode()

    def _missed(self, last: str | None) -> list[bytes] | None:
        start, _, number = (last or "").partition("-")
        if start != self._start or not number.isdecimal() or len(number) > 20:
            return None
        return [message for place, message in self._kept if place > int(number)]


def _put(queue: asyncio.Queue[bytes], message: bytes) -> None:
    """A page that does not read loses its oldest messages; the next state tells it all it needs."""
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(message)
