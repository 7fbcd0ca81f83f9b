"""One run: fit, predict, and whatever else the experiment asks for."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spherepair.benchmark.grid import RunSpec
from spherepair.benchmark.methods import build_method
from spherepair.benchmark.pretrained import SharedPretraining, data_identity, share_pretraining
from spherepair.benchmark.snapshots import Snapshots
from spherepair.benchmark.store import Arrays, Record
from spherepair.benchmark.workbench import Rows, draw_pairs
from spherepair.clustering.assigners import resolve_assigner
from spherepair.clustering.cluster_number import infer_n_clusters
from spherepair.clustering.number_inputs import unit_rows
from spherepair.clustering.tail_angles import tail_angles
from spherepair.constraints import Constraints
from spherepair.errors import SpherePairError
from spherepair.metrics import cluster_scores

INFERENCE = ("tail-angle", "silhouette", "lifetime", "consensus")
CLUSTERINGS = ("kmeans", "ward")
#: Rows shown in a picture of an embedding.
PICTURED_ROWS = 2000


@dataclass
class Measured:
    """What came out of a run: plain values, and rows for pictures."""

    record: Record
    arrays: Arrays = field(default_factory=dict)


def measure_run(spec: RunSpec, rows: Rows, pretrained: Path) -> Measured:
    """Do a run.

    Parameters
    ----------
    spec : RunSpec
    rows : Rows
        The data set of the run.
    pretrained : Path
        Folder of the shared autoencoders.
    """
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        measured = _measure(spec, rows, pretrained)
    measured.record["times"]["whole"] = time.perf_counter() - started
    measured.record["warnings"] = sorted({str(warning.message) for warning in caught})
    return measured


def _measure(spec: RunSpec, rows: Rows, pretrained: Path) -> Measured:
    pairs = draw_pairs(rows.y_train, spec.pairs, spec.seed)
    model = build_method(spec.estimator, rows.n_classes, parameters=spec.parameters, seed=spec.seed)
    shared = share_pretraining(model, data_identity(spec.dataset, spec.classes), pretrained)
    snapshots = Snapshots(rows.X_train, rows.y_train) if "snapshots" in spec.measure else None
    if snapshots is not None:
        model.set_params(progress=snapshots.follow(model))
    _, fit_seconds = timed(lambda: model.fit(rows.X_train, constraints=pairs))
    found, predict_seconds = timed(lambda: model.predict(rows.X_test))
    record: Record = {
        "n_pairs": len(pairs),
        "n_must_link": int(pairs.is_must_link.sum()),
        "n_classes": rows.n_classes,
        "n_clusters": int(model.n_clusters_),
        "scores": {
            "train": asdict(cluster_scores(rows.y_train, model.labels_)),
            "test": asdict(cluster_scores(rows.y_test, found)),
        },
        "pairs_kept": model.score_pairs(pairs),
        "times": {**_fit_times(model, shared, fit_seconds), "predict": predict_seconds},
        "epochs": _epochs(model.history_),
    }
    measured = Measured(record)
    for name in spec.measure:
        if name in _EXTRAS:
            record[name if name != "n_clusters" else "cluster_number"] = _EXTRAS[name](model, pairs, spec)
    if snapshots is not None:
        measured.arrays |= snapshots.arrays(pairs, model)
    if "projection" in spec.measure:
        measured.arrays |= _projection(model, rows.y_train, spec.seed)
    return measured


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What a piece of work gives, and how many seconds it took."""
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


def _fit_times(model: Any, shared: SharedPretraining | None, fit_seconds: float) -> dict[str, float]:
    """Seconds of pretraining (whoever did it), of the epochs on pairs, and of the fit without the former."""
    on_pairs = sum(r["seconds"] for r in model.history_ if not r["stage"].startswith("pretraining"))
    if shared is None:
        before = sum(r["seconds"] for r in model.history_ if r["stage"].startswith("pretraining"))
        return {"pretraining": before, "training": on_pairs, "fit": fit_seconds - before}
    here = shared.seconds if shared.was_made_here else 0.0
    return {"pretraining": shared.seconds, "training": on_pairs, "fit": fit_seconds - here}


def _epochs(history: list[dict[str, Any]]) -> dict[str, int]:
    stages = [str(record["stage"]) for record in history]
    return {stage: stages.count(stage) for stage in dict.fromkeys(stages)}


def _cluster_numbers(model: Any, pairs: Constraints, spec: RunSpec) -> Record:
    """What each way of inferring the number of clusters says, and how long it takes."""

    def infer(method: Any) -> Record:
        ratio = float(getattr(model, "tail_ratio", 0.05))
        number, seconds = timed(
            lambda: infer_n_clusters(
                model.embedding_, pairs, method=method, tail_ratio=ratio, random_state=spec.seed
            )
        )
        return {**number.to_dict(), "seconds": seconds}

    return {method: _or_error(infer, method) for method in INFERENCE}


def _clustering_times(model: Any, pairs: Constraints, spec: RunSpec) -> Record:
    """Seconds of k-means and Ward on the embedding."""
    device = getattr(getattr(model, "_hardware", None), "device", None)

    def cluster(name: str) -> Record:
        assigner = resolve_assigner(name, device=device)
        _, seconds = timed(lambda: assigner.assign(model.embedding_, model.n_clusters_, seed=spec.seed))
        return {"seconds": seconds}

    return {name: _or_error(cluster, name) for name in CLUSTERINGS}


def _tail_curves(model: Any, pairs: Constraints, spec: RunSpec) -> Record:
    """The curve of tail angles, in radians, for each ρ."""
    apart = pairs.cannot_links
    rows = unit_rows(model.embedding_)
    found = tail_angles(rows, apart.left, right=apart.right, tail_ratios=spec.tail_ratios)
    return {"tail_ratios": list(found.tail_ratios), "curves": found.curves.tolist()}


def _or_error(work: Callable[[str], Record], name: str) -> Record:
    """One way that cannot be gone here (a package that is missing) does not spoil the others."""
    try:
        return work(name)
    except SpherePairError as error:
        return {"error": str(error)}


_EXTRAS: dict[str, Callable[[Any, Constraints, RunSpec], Record]] = {
    "n_clusters": _cluster_numbers,
    "clustering": _clustering_times,
    "tail_angles": _tail_curves,
}


def _projection(model: Any, y: NDArray[np.int64], seed: int) -> Arrays:
    """A map of some training rows by t-SNE, with their classes."""
    from sklearn.manifold import TSNE

    chosen = np.random.default_rng(seed).permutation(len(y))[:PICTURED_ROWS]
    rows = np.asarray(model.embedding_[chosen], dtype=np.float32)
    perplexity = min(30.0, (len(rows) - 1) / 3)
    flat = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(rows)
    return {"projection": flat.astype(np.float32), "projected_classes": y[chosen]}
