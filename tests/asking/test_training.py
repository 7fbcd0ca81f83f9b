"""Refits beside the questions."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

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


def test_a_stream_of_rows_is_read_once(blobs):
    X, _ = blobs
    rows = pa.table({f"x{k}": column for k, column in enumerate(X.T)}).to_reader(50)
    model = SpherePair(hidden_dims=(8,), max_epochs=2, random_state=0, progress=False)
    talks = [Interview(given, model=model) for given in (X, rows)]
    for talk in talks:
        talk.answer(talk.ask(PairQuestion(0, 1)), "same")
        talk.answer(talk.ask(PairQuestion(0, 2)), "different")
        talk.refit()
    np.testing.assert_array_equal(talks[1].model.labels_, talks[0].model.labels_)
