"""Settings for all tests."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import warnings
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

# GPU kernels are tested in Triton's interpreter, which has to be asked for before Triton is loaded.
os.environ.setdefault("TRITON_INTERPRET", "1")

# A process that is forked off waits forever for the threads that OpenMP had started before.
os.environ.setdefault("OMP_NUM_THREADS", "1")

try:
    from hypothesis import settings
except ImportError:  # a machine with a GPU that has only what `make test-gpu` needs
    pass
else:
    # Busy machines are slow at times; a test fails for what it finds, not for when it finds it.
    settings.register_profile("spherepair", deadline=None)
    settings.load_profile("spherepair")


#: The longest tests begin first, so that at the end of a run no worker waits for another.
LONGEST = (
    "tests/docs/test_site.py::test_site",
    "tests/app/page/",
    "tests/app/test_server.py",
    "tests/report/test_browser.py",
    "tests/examples/",
    "README.md",
    "tests/cli/test_bench_commands.py",
    "tests/fuzz/test_routes.py",
)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The folder of the test as a bucket: another file system finds what lies in it."""
    from pyarrow import fs

    from spherepair.files import places

    store = fs.SubTreeFileSystem(str(tmp_path.parent), fs.LocalFileSystem())
    find_here = places.find_place

    def find_place(source: str | os.PathLike[str]) -> tuple[object, str]:
        text = os.fspath(source)
        return (store, text.removeprefix("s3://")) if text.startswith("s3://") else find_here(source)

    monkeypatch.setattr(places, "find_place", find_place)
    return f"s3://{tmp_path.name}"


def pytest_collection(session: pytest.Session) -> None:
    """Look for no garbage while modules are loaded: next to none of it is."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was loaded stays for good: a search for garbage goes through what tests make, and less often."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let modules go at the end: some complain of what is left."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Expected failures are told in brief: to quote the sources of scikit-learn takes half a second each."""
    style = item.config.option.tbstyle
    if item.get_closest_marker("xfail"):
        item.config.option.tbstyle = "native"
    try:
        return (yield)
    finally:
        item.config.option.tbstyle = style


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest tests first; skip those of a GPU that cannot be run here."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
    _skip_without_gpu([item for item in items if item.get_closest_marker("gpu")])


def _skip_without_gpu(of_gpu: list[pytest.Item]) -> None:
    """Skip tests of a GPU where there is none, or where its kernels are interpreted."""
    if not of_gpu:
        return
    import torch

    if not torch.cuda.is_available():
        reason = "needs a CUDA device"
    elif os.environ["TRITON_INTERPRET"] == "1":
        reason = "needs compiled kernels: make test-gpu"
    else:
        return
    for item in of_gpu:
        item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def fork() -> Callable[..., multiprocessing.process.BaseProcess]:
    """Start a function in a process of its own, without the seconds that a fresh interpreter takes."""
    from tests.forked_command import fork_process

    return fork_process


CHROMIUM_OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("Chromium is not on this machine")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with playwright.sync_playwright() as running:
            chromium = running.chromium.launch(executable_path=program, args=list(CHROMIUM_OPTIONS))
            yield chromium
            chromium.close()
