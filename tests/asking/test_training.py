"""Refits beside the questions."""

from __future__ import annotations

import time

from spherepair import SpherePair
from spherepair.asking import Interview, PairQuestion


def test_closing_without_waiting_ends_a_refit_under_way(blobs):
    X, _ = blobs
    talk = Interview(X, model=SpherePair(hidden_dims=(64,), max_epochs=10_000, progress=False))
    talk.answer(talk.ask(PairQuestion(0, 1)), "same")
    talk.start_refit()
    started = time.monotonic()
    talk.close(wait=False)
    assert time.monotonic() - started < 20
    assert talk.model is None
