"""Ray for ``scale.py``: several raylets on this machine as nodes, and what happens when they are lost.

Called by ``scale.py --only ray-faults`` and ``--only engines``. The head has no CPU, every other
node has one. Jobs are started by this process, so that Ray's workers stay; only the driver that is killed
is another one.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import scale_faults
from chaos_disk import small_disk, too_little_room
from scale_faults import N_FILES, Trial

from spherepair import scale
from spherepair.errors import SpherePairError
from spherepair.scale.engines import carrier


@contextmanager
def raylets(n_nodes: int) -> Iterator[Any]:
    """A cluster of so many nodes with one CPU each."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(n_nodes):
            cluster.add_node(num_cpus=1)
        yield cluster
    finally:
        cluster.shutdown()


def measure_scheduling(show: Callable[[str], None], seconds: float = 0.5, parts: int = 30) -> None:
    """Parts that only sleep, so that more nodes than cores can be had: what handing them out costs."""
    import ray

    show(f"Ray, parts that sleep {seconds} s, {parts} a node; times are those after a fifth")
    for n_nodes in (1, 2, 4, 8):
        with raylets(n_nodes) as cluster:
            ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
            try:
                asleep = [seconds] * (parts * n_nodes)
                ends = [time.monotonic() for _ in carrier("ray")(time.sleep, asleep)]
            finally:
                ray.shutdown()
            first = len(ends) // 5
            took = ends[-1] - ends[first - 1]
            speed = seconds * (len(ends) - first) / took
            show(
                f"  {n_nodes} nodes: {speed:.2f} times one part after another ({speed / n_nodes:.2f} a node)"
            )


@dataclass
class RayTrial(Trial):
    """A job that this process hands to a cluster."""

    cluster: Any = None

    def run(self, workers: int = 2, limit: int | None = None) -> tuple[int, str]:
        """Do the job to its end."""
        given = {"model": self.model, "out": self.out, "id_column": "id", "engine": "ray"}
        try:
            done = scale.predict(str(self.rows), **given)
        except SpherePairError as error:
            return 2, str(error)
        return 0, f"{done.n_kept} {done.n_rows}"

    def run_with(self, fault: Callable[[], bool]) -> bool:
        """Do the job while something happens after some parts; whether all is as it should be."""
        is_over, n_there = threading.Event(), [0]

        def disturb() -> None:
            so_many = scale_faults.wait_until_midway(self, is_over.is_set)
            n_there[0] = so_many if fault() else 0  # nothing has happened, so nothing is shown

        disturber = threading.Thread(target=disturb)
        disturber.start()
        code, said = self.run()
        is_over.set()
        disturber.join()
        print(f"    after {n_there[0]} of {N_FILES} parts; then: {said}", flush=True)
        is_told = "part " in said and "Traceback" not in said
        is_good = (code == 0 and self.is_done()) or (code != 0 and is_told and self.is_whole())
        return 0 < n_there[0] < N_FILES and is_good


def kill_worker(trial: RayTrial) -> bool:
    def kill() -> bool:
        while len(trial.outputs()) < N_FILES:
            workers = [one.pid for one in scale_faults.processes_below(os.getpid()) if _is_busy(one.pid)]
            if workers:
                os.kill(trial.source.choice(workers), signal.SIGKILL)
                return True
        return False

    return trial.run_with(kill)


def _is_busy(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::_do")
    except OSError:
        return False


def remove_node(trial: RayTrial) -> bool:
    node = trial.source.choice(sorted(trial.cluster.worker_nodes, key=lambda node: node.unique_id))

    def remove() -> bool:
        trial.cluster.remove_node(node, allow_graceful=False)
        return True

    is_good = trial.run_with(remove)
    trial.cluster.add_node(num_cpus=1)
    return is_good


def kill_driver(trial: RayTrial) -> bool:
    """A driver of its own, which is not this process."""
    known = {field.name: getattr(trial, field.name) for field in fields(Trial)}
    return scale_faults.kill_driver(Trial(**known))


def fill_disk(trial: RayTrial) -> bool:
    """The outputs lie on a small disk that is full after some of them."""
    with small_disk(None) as (disk, is_disk):
        if not is_disk:
            raise SystemExit("a small disk cannot be mounted here; only root can.")
        small = replace(trial, folder=disk)
        small.out.mkdir()
        most = sum(map(len, trial.expected.values()))
        with too_little_room(disk, trial.source.randrange(most // 10, most // 2)):
            code, said = small.run()
            n_there, is_whole = len(small.outputs()), small.is_whole()
        print(f"    full with {n_there} of {N_FILES} parts; then: {said}", flush=True)
        is_named = code != 0 and "part " in said and "Traceback" not in said
        code, _ = small.run()
        return is_named and is_whole and 0 < n_there < N_FILES and code == 0 and small.is_done()


FAULTS: dict[str, Callable[[RayTrial], bool]] = {
    "worker killed": kill_worker,
    "node removed": remove_node,
    "disk full": fill_disk,
    "input damaged": scale_faults.damage_part,
    "driver killed, started again": kill_driver,
}


def measure(plain: Trial, kinds: Sequence[str], trials: int, show: Callable[[str], None]) -> None:
    """Do faults of these kinds so many times on two nodes and say how often all was as it should be."""
    import ray

    with raylets(0) as cluster:
        # Before there are other nodes: this process must not be on one that is removed.
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        known = {field.name: getattr(plain, field.name) for field in fields(Trial)}
        trial = RayTrial(**{**known, "address": cluster.address}, cluster=cluster)
        show("the same on Ray, two nodes")
        try:
            chosen = {name: fault for name, fault in FAULTS.items() if name.split()[0] in kinds}
            scale_faults.repeat(trial, chosen, trials, show)
        finally:
            ray.shutdown()
            shutil.rmtree(trial.folder, ignore_errors=True)
