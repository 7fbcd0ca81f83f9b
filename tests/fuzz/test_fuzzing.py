"""A short run of the fuzzer with a fixed seed, and all inputs that were ever found."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.app.conftest import postgresql  # noqa: F401
from tests.fuzz import fuzzing
from tests.fuzz.fuzzing import corpus, inputs, try_input
from tests.fuzz.postgresql import SERVER
from tests.fuzz.targets import TARGETS

from spherepair.errors import InvalidDataError
from spherepair.files.untrusted import decoding

#: Inputs of each target in a test; ``make fuzz`` reads many more.
COUNTS = {
    "data": 120,
    "parts": 100,
    "pairs": 150,
    "models": 60,
    "encoders": 100,
    "checkpoints": 25,
    "interviews": 150,
    "databases": 60,
    "results": 60,
    "servers": 25,
    "uploads": 60,
}
CORPUS = corpus()


@pytest.fixture
def ready(target: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server, where the target needs one."""
    if target == "servers":
        monkeypatch.setenv(SERVER, str(request.getfixturevalue("postgresql")))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.usefixtures("ready")
@pytest.mark.filterwarnings("ignore::spherepair.errors.SpherePairWarning")
def test_altered_files_give_a_result_or_an_error_of_ours(target: str, tmp_path: Path) -> None:
    outcomes = {
        try_input(target, files, tmp_path / "input") for files in islice(inputs(target, 0), COUNTS[target])
    }
    assert len(outcomes) > 1  # some are refused, some are not


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.usefixtures("ready")
@pytest.mark.filterwarnings("ignore::spherepair.errors.SpherePairWarning")
def test_whole_files_are_read(target: str, tmp_path: Path) -> None:
    for files in TARGETS[target].seeds():
        assert try_input(target, files, tmp_path / "input") == "read"


@pytest.mark.parametrize(("target", "files"), CORPUS, ids=[f"{t}-{'-'.join(f)}" for t, f in CORPUS])
def test_what_was_found_once_is_refused(target: str, files: dict[str, bytes], tmp_path: Path) -> None:
    assert try_input(target, files, tmp_path / "input") != "read"


def test_an_input_that_takes_too_long_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def hang(*_: object) -> str:
        with suppress(InvalidDataError), decoding("a table", InvalidDataError):
            time.sleep(30)
        return "refused"

    monkeypatch.setattr(fuzzing, "LONGEST", 1)
    monkeypatch.setattr(fuzzing, "try_input", hang)
    monkeypatch.setattr(fuzzing, "inputs", lambda *_: iter([{}]))
    told: list[tuple[str, object, object]] = []
    handler = signal.getsignal(signal.SIGALRM)
    fuzzing.work("data", 0, 60.0, 1024, tmp_path, SimpleNamespace(send=told.append))
    signal.signal(signal.SIGALRM, handler)
    assert [kind for kind, *_ in told] == ["trying", "found", "end"]
    assert "longer than 1 s" in str(told[1][2])
