"""A short run of the fuzzer with a fixed seed, and all inputs that were ever found."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from tests.app.conftest import postgresql  # noqa: F401
from tests.fuzz.fuzzing import corpus, inputs, try_input
from tests.fuzz.postgresql import SERVER
from tests.fuzz.targets import TARGETS

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
