from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spherepair.training import session


def test_a_callable_sees_every_epoch_of_every_stage(make: Any, X: Any, pairs: Any) -> None:
    seen: list[tuple[str, int]] = []
    model = make(progress=lambda state: seen.append((state.stage, state.epoch))).fit(X, constraints=pairs)
    assert seen == [(record["stage"], record["epoch"] + 1) for record in model.history_]


def test_the_line_on_the_terminal_is_cleared_at_the_end(
    make: Any, X: Any, pairs: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(session, "REFRESH_SECONDS", 0.0)
    make(progress=True).fit(X, constraints=pairs)
    shown = capsys.readouterr()
    assert "pairs: epoch 4/4, loss" in shown.err
    assert shown.err.endswith("\r\x1b[K")
    assert shown.out == ""


@pytest.mark.parametrize("quiet", [False, "auto"])
def test_nothing_is_shown_where_nobody_watches(
    quiet: Any, make: Any, X: Any, pairs: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    make(progress=quiet).fit(X, constraints=pairs)
    shown = capsys.readouterr()
    assert shown.err == shown.out == ""


def test_short_fits_show_nothing_even_on_request(
    make: Any, X: Any, pairs: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session, "QUIET_SECONDS", 3600.0)
    make(progress=True).fit(X, constraints=pairs)
    assert capsys.readouterr().err == ""


def test_the_line_is_written_ten_times_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(session.time, "monotonic", lambda: now)
    written: list[str] = []
    stream = SimpleNamespace(write=written.append, flush=lambda: None)
    show = session.TerminalProgress(stream)
    for epoch in range(5000):  # of a millisecond each: two seconds in which nothing is shown, and three more
        now = 100.0 + 0.001 * epoch
        show(SimpleNamespace(stage="pairs", epoch=epoch, max_epochs=9000, records=[{"loss": 0.5}]))
    assert 25 <= len(written) <= 31
