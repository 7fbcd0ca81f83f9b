"""What runs the parts of a job: processes of this machine, or a Ray cluster.

An engine takes what is to be done and the parts, and gives their outcomes as they come. Parts are independent
and may be done twice without harm: joblib and Ray schedule them, and do those again whose worker died.
"""

from __future__ import annotations

import os
import socket
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from spherepair.errors import InvalidParameterError, MissingDependencyError, PartError

#: How often a part is started again after its process died.
RETRIES = 3
#: Oldest Ray that is known to work.
OLDEST_RAY = (2, 60)
#: How the address of a cluster begins that is reached from outside, through its client server.
CLIENT = "ray://"
#: Type of the frame with which both sides of an HTTP/2 connection begin.
SETTINGS = 4
#: Seconds to wait for a machine that does not answer.
CONNECT_SECONDS = 5.0


@dataclass(frozen=True)
class Task:
    """What is done with every part.

    Attributes
    ----------
    do : callable
        Takes a part, and on another machine what was shared; it has to be picklable.
    name : callable
        Name of a part in messages.
    share : callable or None
        Reads on this machine what all others need.
    device : str
        "cpu" where no GPU is wanted.
    """

    do: Callable[..., Any]
    name: Callable[[Any], str] = str
    share: Callable[[], Any] | None = None
    device: str = "auto"


#: What is done, the parts, how many at a time, and where.
Engine = Callable[[Task, Sequence[Any], int | None, str | None], Iterator[Any]]


def run_local(task: Task, parts: Sequence[Any], workers: int | None, address: str | None) -> Iterator[Any]:
    """Processes of this machine with one thread each; a single worker is this process with all threads."""
    import joblib

    n_workers = min(workers or joblib.cpu_count(), len(parts))
    if n_workers <= 1:
        yield from map(task.do, parts)
        return
    left = dict(enumerate(parts))
    for attempt in range(RETRIES + 1):
        try:
            for place, outcome in _in_processes(task, left, n_workers):
                del left[place]
                yield outcome
        except joblib.externals.loky.process_executor.TerminatedWorkerError as error:
            if attempt == RETRIES:
                first = task.name(next(iter(left.values())))
                raise PartError(
                    f"a worker process died {RETRIES + 1} times at part {first} or one of the next "
                    f"{n_workers - 1}, perhaps for lack of memory; take fewer workers."
                ) from error
        else:
            return


def _in_processes(task: Task, parts: dict[int, Any], n_workers: int) -> Iterator[tuple[int, Any]]:
    from joblib import Parallel, delayed, parallel_config

    # The variable and not torch.set_num_threads, which leaves some pools as they are.
    with parallel_config(backend="loky", inner_max_num_threads=1):
        pool = Parallel(n_jobs=n_workers, return_as="generator_unordered", batch_size=1)
        found = pool(delayed(_numbered)(task.do, place, part) for place, part in list(parts.items()))
        try:
            for outcome in found:  # noqa: UP028 - "yield from" would close it where warnings are shown
                yield outcome
        finally:
            # After an error nobody wants the other parts; joblib would warn that they are not used.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found.close()


def _numbered(do: Callable[..., Any], place: int, part: Any) -> tuple[int, Any]:
    return place, do(part)


def run_ray(task: Task, parts: Sequence[Any], workers: int | None, address: str | None) -> Iterator[Any]:
    """Tasks of Ray, one for each part; Ray begins those again whose worker or machine died.

    What is shared travels with the job. Inputs and outputs have to be reachable from every machine.
    """
    ray = _import_ray()
    is_ours = not ray.is_initialized()
    if is_ours:
        _connect(ray, address, workers)
    try:
        yield from _as_tasks(ray, task, parts)
    finally:
        if is_ours:
            ray.shutdown()


def _as_tasks(ray: Any, task: Task, parts: Sequence[Any]) -> Iterator[Any]:
    on_gpu = task.device != "cpu" and ray.cluster_resources().get("GPU", 0) >= 1
    kinds = ("RaySystemError", "WorkerCrashedError", "NodeDiedError", "OutOfMemoryError", "ObjectLostError")
    lost = tuple(getattr(ray.exceptions, kind) for kind in kinds)
    remote = ray.remote(
        num_cpus=1,
        num_gpus=1 if on_gpu else 0,
        max_retries=RETRIES,
        retry_exceptions=[*lost],  # the model may be lost while a task fetches it
        runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}},
    )(_do)
    # Within a list, and so fetched by the task: an argument itself stays in the cluster's memory after its
    # driver was killed, and new tasks wait for that memory without end.
    common = [ray.put(what) for what in (task.do, *(() if task.share is None else (task.share(),)))]
    running = {remote.remote(part, common): part for part in parts}
    try:
        while running:
            done, _ = ray.wait(list(running), num_returns=1)
            part = running.pop(done[0])
            try:
                yield ray.get(done[0])
            except lost as error:
                raise _lost(task.name(part), error) from error
    finally:
        for unasked in running:  # after an error, on a cluster that goes on
            ray.cancel(unasked)


def _do(part: Any, common: list[Any]) -> Any:
    import ray

    do, *shared = ray.get(common)
    return do(part, *shared)


def _lost(name: str, error: Exception) -> PartError:
    reason = str(error).strip().splitlines()[0].rstrip(".")
    return PartError(f"part {name} was begun {RETRIES + 1} times and never finished: {reason}.")


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingDependencyError(
            'engine="ray" needs Ray; pip install "spherepair[ray]", on every machine of the cluster.'
        ) from error
    found = tuple(int(number) for number in ray.__version__.split(".")[:2])
    if found < OLDEST_RAY:
        oldest = ".".join(map(str, OLDEST_RAY))
        raise MissingDependencyError(f"Ray {ray.__version__} is too old; install {oldest} or newer.")
    return ray


def _connect(ray: Any, address: str | None, workers: int | None) -> None:
    """Join the cluster at an address, at that of RAY_ADDRESS, or start Ray on this machine."""
    place = _reachable_place(address)
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if place is None or place == "local":
            ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
        else:
            ray.init(address=place, **({} if place.startswith(CLIENT) else quiet))
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        ray.shutdown()  # a client that failed would be asked by the next call
        raise InvalidParameterError(
            f"no Ray of this version answers at {place or 'this machine'} ({_reason(error)}); start one with "
            "ray start --head, or leave the address out to start Ray on this machine."
        ) from error


def _reason(error: Exception) -> str:
    """What an error says in one line; of a traceback from a server its last line."""
    said, _, traceback = str(error).partition("Traceback (most recent call last):")
    words = [*said.split(), *"".join(traceback.strip().splitlines()[-1:]).split()]
    return " ".join(words)[:200].rstrip(".")


def check_engine(engine: str, address: str | None) -> None:
    """Refuse an engine that does not exist, is not installed, or does not answer."""
    if engine not in ENGINES:
        raise InvalidParameterError(f"engine must be one of {', '.join(ENGINES)}, got {engine!r} instead.")
    if engine == "ray" and not _import_ray().is_initialized():
        _reachable_place(address)
    elif engine == "local" and address is not None:
        raise InvalidParameterError("an address is for engine='ray'; the engine 'local' has none.")


def _reachable_place(address: str | None) -> str | None:
    """The address of a cluster, which answers; ``None`` for one to be started on this machine."""
    place = address or os.environ.get("RAY_ADDRESS")
    if (place or "").startswith(CLIENT) and find_spec("grpc") is None:
        raise MissingDependencyError(f'{place} needs Ray\'s client; pip install "ray[client]".')
    _refuse_unreachable(place)
    return place


def _refuse_unreachable(place: str | None) -> None:
    """Say at once what Ray itself finds out after half a minute, or after 20 for a cluster that died here."""
    latest = Path(os.environ.get("RAY_TMPDIR", tempfile.gettempdir()), "ray", "ray_current_cluster")
    if place == "auto" and latest.is_file():
        place = latest.read_text(encoding="utf-8").strip()
    host, mark, port = (place or "").removeprefix(CLIENT).rpartition(":")
    if not (mark and port.isdecimal()):
        if place is not None and place.startswith(CLIENT):
            raise InvalidParameterError(f"{place} has no port; write {CLIENT}HOST:10001.")
        return  # auto, local
    try:
        _greet(host, int(port))
    except OSError as error:
        raise InvalidParameterError(
            f"no Ray answers at {place} ({error}); check the address, or start Ray there: ray start --head."
        ) from error


def _greet(host: str, port: int) -> None:
    """Refuse a port where nobody, or something else than gRPC, answers the beginning of HTTP/2."""
    with socket.create_connection((host, port), timeout=CONNECT_SECONDS) as connection:
        if os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
            return  # behind TLS nobody answers this
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]))
        if connection.recv(4)[3:] != bytes([SETTINGS]):
            raise ConnectionError("something else is at that port")


ENGINES: dict[str, Engine] = {"local": run_local, "ray": run_ray}


def carrier(
    engine: str, workers: int | None = None, address: str | None = None
) -> Callable[[Callable[[Any], Any], Sequence[Any]], Iterator[Any]]:
    """A function that does something with each of several parts, by an engine.

    Examples
    --------
    >>> list(carrier("local", workers=1)(len, ["a", "bcd"]))
    [1, 3]
    """
    check_engine(engine, address)
    return partial(_carry, engine, workers, address)


def _carry(
    engine: str, workers: int | None, address: str | None, do: Callable[[Any], Any], parts: Sequence[Any]
) -> Iterator[Any]:
    return ENGINES[engine](Task(do), parts, workers, address)
