"""Processes and Ray: the same outputs, also when workers or the driver are killed."""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import joblib
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV

from spherepair import Constraints, SpherePair, scale
from spherepair.benchmark import read_experiment, run_grid
from spherepair.constraints import PairFold
from spherepair.errors import InvalidParameterError, MissingDependencyError, PartError
from spherepair.scale import engines

N_PARTS = 24


@pytest.fixture
def one_file(table: Any, tmp_path: Path) -> Path:
    """One file that becomes 24 parts."""
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=240 // N_PARTS)
    return tmp_path / "rows.parquet"


def label(file: Path, folder: Path, out: Path, **options: Any) -> scale.Summary:
    return scale.predict(file, model=folder, out=out, id_column="id", part_rows=240 // N_PARTS, **options)


@pytest.fixture
def expected(one_file: Path, folder: Path, tmp_path: Path) -> dict[str, bytes]:
    label(one_file, folder, tmp_path / "expected", workers=1)
    return outputs(tmp_path / "expected")


def outputs(out: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in out.iterdir()}


def test_processes_give_the_same_files(
    one_file: Path, folder: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    assert label(one_file, folder, tmp_path / "out", workers=2).n_rows == 240
    assert outputs(tmp_path / "out") == expected


def test_a_damaged_part_ends_the_processes_without_a_warning(
    one_file: Path, folder: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    content = bytearray(one_file.read_bytes())
    content[40:100] = bytes(60)
    one_file.write_bytes(content)
    with pytest.raises(PartError, match=r"^part rows.00000.parquet of .* could not be done"):
        label(one_file, folder, tmp_path / "out", workers=2)
    assert [str(warning.message) for warning in recwarn] == []


@dataclass(frozen=True)
class Fragile:
    """A part whose worker is killed the first time, if it is one of those."""

    output: str
    folder: Path
    is_killed: bool


def _do_fragile(part: Fragile) -> Any:
    begun = part.folder / f"{part.output}.begun"
    if part.is_killed and not begun.exists():
        begun.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    with (part.folder / part.output).open("a") as stream:
        stream.write("once")
    return SimpleNamespace(part=part)


def test_parts_of_killed_processes_are_done_again(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    for module in (sys.modules[__name__], engines):  # sent along, so that workers need not load torch
        cloudpickle.register_pickle_by_value(module)
        request.addfinalizer(partial(cloudpickle.unregister_pickle_by_value, module))
    killed = np.random.default_rng(0).permutation(20)[:3]
    parts: Any = [Fragile(f"{place:02d}", tmp_path, place in killed) for place in range(20)]
    task = engines.Task(_do_fragile)
    found = [outcome.part.output for outcome in engines.run_local(task, parts, 2, None)]
    assert sorted(found) == [part.output for part in parts]
    assert len(list(tmp_path.glob("*.begun"))) == 3


def test_processes_that_always_die_end_the_job_with_the_part(
    one_file: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*given: Any) -> Iterator[Any]:
        raise joblib.externals.loky.process_executor.TerminatedWorkerError("killed")
        yield

    monkeypatch.setattr(engines, "_in_processes", die)
    with pytest.raises(PartError, match=r"died 4 times at part rows.00000.parquet or one of the next 1,"):
        label(one_file, folder, tmp_path / "out", workers=2)


def test_a_killed_driver_goes_on_where_it_was(
    one_file: Path, folder: Path, tmp_path: Path, expected: dict[str, bytes], fork: Any
) -> None:
    out = tmp_path / "out"
    done_parts, may_go_on = multiprocessing.Semaphore(0), multiprocessing.Semaphore(5)

    def pause(_: Any) -> None:
        done_parts.release()
        may_go_on.acquire()

    driver = fork(partial(label, one_file, folder, out, workers=1, progress=pause))
    for _ in range(5):
        assert done_parts.acquire(timeout=60)
    driver.kill()
    driver.join()
    kept = {name for name in outputs(out) if name.endswith(".parquet") and not name.startswith(".")}
    assert 5 <= len(kept) < N_PARTS
    done = label(one_file, folder, out, workers=1)
    assert (done.n_kept, done.n_rows) == (len(kept), 240)
    assert outputs(out) == expected


def ray_workers() -> list[int]:
    """Workers of Ray below this process: busy, or between two parts."""
    parents = {}
    named = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if (process / "cmdline").read_bytes().startswith((b"ray::_do", b"ray::IDLE")):
                named.append(int(process.name))
        except OSError:
            continue
    return [pid for pid in named if _is_ours(pid, parents)]


def _is_ours(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        if pid == os.getpid():
            return True
        pid = parents[pid]
    return False


@pytest.mark.ray
def test_ray_gives_the_same_files_though_a_worker_is_killed(
    one_file: Path, folder: Path, tmp_path: Path, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    killed: list[int] = []

    def kill(state: scale.Progress) -> None:
        found = [] if killed else ray_workers()
        if found:
            killed.append(found[0])
            os.kill(found[0], signal.SIGKILL)

    done = label(one_file, folder, tmp_path / "out", engine="ray", workers=1, progress=kill)
    assert killed
    assert done.n_rows == 240
    assert outputs(tmp_path / "out") == expected


@pytest.mark.ray
def test_runs_of_a_benchmark_are_tasks_of_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    asked: dict[str, Any] = {"methods": ("SpherePair (no pretraining)",), "seeds": (1,)}
    done = run_grid(read_experiment("toy"), tmp_path, **asked, carry=engines.carrier("ray", workers=1))
    assert (done.n_runs, done.n_done, done.failures) == (2, 2, ())
    assert len(list((tmp_path / "runs").iterdir())) == 2


@pytest.fixture
def cluster() -> Iterator[str]:
    """A cluster of this machine, and the address of its client server."""
    pytest.importorskip("ray")
    ray, port = Path(sys.executable).parent / "ray", free_port()
    places = (f"--port={free_port()}", f"--ray-client-server-port={port}")
    command = [ray, "start", "--head", "--block", "--num-cpus=1", *places]
    address = f"ray://127.0.0.1:{port}"
    probe = [sys.executable, "-c", f"import ray; ray.init({address!r})"]
    with subprocess.Popen(command) as head:
        # The first clients may be turned away.
        assert any(subprocess.run(probe, check=False).returncode == 0 for _ in range(10))
        yield address
        head.terminate()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.mark.ray
def test_a_cluster_labels_for_a_client_outside(
    one_file: Path, folder: Path, tmp_path: Path, expected: dict[str, bytes], cluster: str
) -> None:
    done = label(one_file, folder, tmp_path / "out", engine="ray", address=cluster)
    assert done.n_rows == 240
    assert outputs(tmp_path / "out") == expected


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "no Ray answers at 127.0.0.1:1"),
        ("auto", "no Ray of this version answers at auto"),
        ("ray://127.0.0.1:1", "no Ray answers at ray://127.0.0.1:1"),
        ("ray://nowhere", "ray://nowhere has no port; write ray://HOST:10001"),
    ],
)
def test_an_address_without_ray_is_said_at_once(
    one_file: Path, folder: Path, tmp_path: Path, address: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))  # no word there of a cluster that was here before
    started = time.monotonic()
    with pytest.raises(InvalidParameterError, match=message):
        label(one_file, folder, tmp_path / "out", engine="ray", address=address)
    assert time.monotonic() - started < 20
    assert not list((tmp_path / "out").glob("*"))


def test_a_port_of_something_else_is_said_at_once(one_file: Path, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.0 400 Bad Request\r\n")

        Thread(target=answer, daemon=True).start()
        with pytest.raises(InvalidParameterError, match=r"^no Ray answers at .* \(something else is at"):
            label(one_file, folder, tmp_path / "out", engine="ray", address=f"127.0.0.1:{port}")


def test_a_cluster_that_died_is_said_at_once(
    one_file: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("127.0.0.1:1\n")
    with pytest.raises(InvalidParameterError, match=r"no Ray answers at 127\.0\.0\.1:1 "):
        label(one_file, folder, tmp_path / "out", engine="ray", address="auto")


def test_a_client_that_is_not_installed_is_said(
    one_file: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "ray\[client\]"'):
        label(one_file, folder, tmp_path / "out", engine="ray", address="ray://127.0.0.1:1")


def test_ray_that_is_missing_or_old_is_said(
    one_file: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "spherepair\[ray\]"'):
        label(one_file, folder, tmp_path / "out", engine="ray")
    old = type("Ray", (), {"__version__": "2.9.1"})
    monkeypatch.setitem(sys.modules, "ray", old)
    with pytest.raises(MissingDependencyError, match=r"Ray 2.9.1 is too old; install 2.60 or newer"):
        label(one_file, folder, tmp_path / "out", engine="ray")


def test_a_cluster_of_another_version_is_said(
    one_file: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(**options: Any) -> None:
        raise RuntimeError(
            "Version mismatch: The cluster was started with:\n    Ray: 2.41.0\n    Python: 3.11"
        )

    ray = SimpleNamespace(__version__="2.60.0", is_initialized=lambda: False, init=init)
    ray.shutdown = lambda: None
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    with pytest.raises(InvalidParameterError, match=r"^no Ray of this version answers at auto .*Ray: 2.41.0"):
        label(one_file, folder, tmp_path / "out", engine="ray", address="auto")
    assert not (tmp_path / "out").exists()


def test_a_client_that_failed_is_told_without_a_traceback_and_given_up(
    one_file: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(**options: Any) -> None:
        raise ConnectionAbortedError(
            "Initialization failure from server:\nTraceback (most recent call last):\n"
            '  File "proxier.py", line 772, in Datapath\nRuntimeError: Starting the server failed.\n'
        )

    given_up: list[bool] = []
    ray = SimpleNamespace(__version__="2.60.0", is_initialized=lambda: False, init=init)
    ray.shutdown = lambda: given_up.append(True)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr("spherepair.scale.engines._refuse_unreachable", lambda place: None)
    said = r"\(Initialization failure from server: RuntimeError: Starting the server failed\); start one"
    with pytest.raises(InvalidParameterError, match=said):
        label(one_file, folder, tmp_path / "out", engine="ray", address="ray://head:10001")
    assert given_up


def test_a_table_of_vectors_is_labeled(table: Any, tmp_path: Path, model: Any) -> None:
    matrix = table.select(["a", "b", "c"]).to_pandas().to_numpy()
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(matrix.reshape(-1)), 3)
    pq.write_table(pa.table({"id": table["id"], "v": vectors}), tmp_path / "v.parquet")
    fresh = model.__sklearn_clone__().fit(pa.table({"v": vectors}), constraints=model.constraints_)
    fresh.save(tmp_path / "model", rows=False)
    scale.predict(tmp_path / "v.parquet", model=tmp_path / "model", out=tmp_path / "out", workers=1)
    assert pq.read_table(tmp_path / "out")["label"].to_pylist() == fresh.labels_.tolist()


@pytest.mark.ray
def test_settings_are_searched_by_joblib_on_ray(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    from ray.util.joblib import register_ray

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    X, y = table.select(["a", "b", "c"]).to_pandas().to_numpy(), table["y"].to_numpy()
    pairs = Constraints.from_labels(y, n_pairs=300, random_state=0)
    model = SpherePair(3, hidden_dims=(8,), pretraining=None, max_epochs=2, batch_size=32, random_state=0)
    folds, given = PairFold(pairs, n_splits=2, random_state=0), pairs.for_rows(len(X))
    asked: dict[str, Any] = {"param_grid": {"omega": [1.5, 2.0]}, "cv": folds, "refit": False}
    with sklearn.config_context(enable_metadata_routing=True):
        model.set_fit_request(constraints=True).set_score_request(constraints=True)
        expected = GridSearchCV(model, **asked).fit(X, constraints=given).cv_results_["mean_test_score"]
        ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
        register_ray()
        try:
            with joblib.parallel_config("ray"):
                found = GridSearchCV(model, **asked).fit(X, constraints=given).cv_results_["mean_test_score"]
        finally:
            ray.shutdown()
    np.testing.assert_array_equal(found, expected)
