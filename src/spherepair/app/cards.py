"""Cards for many people at once: nobody waits while the next items are looked for."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from spherepair.asking.situation import Situation, Snapshot
from spherepair.asking.strategies import QUICK_ITEMS, Cards, open_part


class SharedCards(Cards):
    """Items found in a hurry are kept until they are used up; before they are, more are looked for beside."""

    def __init__(self) -> None:
        super().__init__()
        self._spare: list[int] = []
        self._of: Any = None  # the model that they were found with
        # A pool of one: the interpreter waits for it at its end, which a thread that uses torch needs.
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="items")
        self._search_beside: Future[None] | None = None

    def _more_items(self, now: Situation) -> Sequence[int]:
        if self._of is not now.snapshot.centers:
            self._of, self._spare = now.snapshot.centers, []
        is_open = now.is_open(np.array(self._spare, dtype=np.int64)).tolist()
        for row in [row for row, stays in zip(self._spare, is_open, strict=False) if not stays]:
            self._spare.remove(row)
        if not self._spare:
            self._spare += super()._more_items(now)
        if len(self._spare) <= QUICK_ITEMS // 2:
            self._look_ahead(now)
        return list(self._spare)

    def _look_ahead(self, now: Situation) -> None:
        if self._search_beside is None or self._search_beside.done():
            task = self._spare, open_part(now), np.random.default_rng(now.random.integers(2**31))
            self._search_beside = self._beside.submit(self._add_items, *task)

    def _add_items(self, spare: list[int], part: Snapshot, random: np.random.Generator) -> None:
        """Appends to the list that it was started for: the items of an older model are of no use."""
        spare.extend(self._search(part, random))
