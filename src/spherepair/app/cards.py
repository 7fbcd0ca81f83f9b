"""Cards for many people at once: the next items are searched for in the background."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.asking.situation import Situation
from spherepair.asking.strategies import QUICK_ITEMS, Cards, open_part


class SharedCards(Cards):
    """Keeps the items found so far, and searches for more in the background before they are used up."""

    def __init__(self) -> None:
        super().__init__()
        self._spare: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._of: Any = None  # items of the model that they were found with; each model has its own
        # A pool of one: the interpreter waits for it at its end, which a thread that uses torch needs.
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="items")
        self._search_beside: Future[Sequence[int]] | None = None

    def close(self) -> None:
        """Look for no more items."""
        self._beside.shutdown(wait=False, cancel_futures=True)

    def _more_items(self, now: Situation) -> Sequence[int]:
        if self._of is not now.snapshot.queue:
            self._of, self._spare, self._search_beside = now.snapshot.queue, self._spare[:0], None
        if self._search_beside is not None and self._search_beside.done():
            beside, self._search_beside = self._search_beside, None
            self._spare = np.concatenate([self._spare, np.array(beside.result(), dtype=np.int64)])
        self._spare = self._spare[now.is_open(self._spare)]
        if not len(self._spare):
            self._spare = np.array(super()._more_items(now), dtype=np.int64)
        if len(self._spare) <= QUICK_ITEMS // 2 and self._search_beside is None:
            self._look_ahead(now)
        spare: list[int] = self._spare.tolist()
        return spare

    def _look_ahead(self, now: Situation) -> None:
        part = open_part(now, but=self._spare)
        random = np.random.default_rng(now.random.integers(2**31))
        with suppress(RuntimeError):  # the project was closed meanwhile
            self._search_beside = self._beside.submit(self._search, part, random)
