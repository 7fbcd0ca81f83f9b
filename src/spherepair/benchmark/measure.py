"""One run: draw the pairs, fit, and measure what the experiment asks for.

Runs share their pretraining, as the paper's trials do: one autoencoder for each dataset and embedding size.
Its weights are stored under a key of everything they depend on. The first run that needs them makes them;
other processes wait for it.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F  # noqa: N812

from spherepair.benchmark.runs import (
    DATA_REVISIONS,
    PairChoice,
    RunSpec,
    build_method,
    content_key,
    draw_pairs,
)
from spherepair.clustering import infer_n_clusters
from spherepair.clustering.assigners import resolve_assigner, unit_rows
from spherepair.clustering.tail_angles import tail_angles
from spherepair.constraints import Constraints
from spherepair.errors import ModelFileError, SpherePairError
from spherepair.files import file_lock
from spherepair.metrics import cluster_scores
from spherepair.networks import Autoencoder
from spherepair.persistence import read_tensor_file, write_tensor_file
from spherepair.training import TrainingState
from spherepair.training.pretraining import JointPretraining, StackedPretraining
from spherepair.training.rows import RowSource
from spherepair.training.scaling import learn_scaling
from spherepair.training.session import Session

Record = dict[str, Any]
Arrays = dict[str, NDArray[Any]]
Labels = NDArray[np.int64]

INFERENCE = ("tail-angle", "silhouette", "lifetime", "consensus")
CLUSTERINGS = ("kmeans", "ward")
#: Rows in a t-SNE picture.
PROJECTED_ROWS = 2000
#: Rows in the pictures of training on the sphere.
SNAPSHOT_ROWS = 600


@dataclass(frozen=True, eq=False)
class Rows:
    """Training and test rows with their classes."""

    X_train: Any
    y_train: Labels
    X_test: Any
    y_test: Labels

    @property
    def n_classes(self) -> int:
        """Number of classes in the training part."""
        return len(np.unique(self.y_train))


@dataclass
class Measured:
    """Result of a run: plain values, and rows for pictures."""

    record: Record
    arrays: Arrays = field(default_factory=dict)


def measure_run(spec: RunSpec, rows: Rows, pretrained: Path) -> Measured:
    """Fit and measure one run.

    Parameters
    ----------
    spec : RunSpec
        What to run.
    rows : Rows
        Its dataset.
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
    assert isinstance(spec.pairs, PairChoice)
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
        "pair_satisfaction": model.score_pairs(pairs),
        "times": {**_fit_times(model, shared, fit_seconds), "predict": predict_seconds},
        "epochs": dict(Counter(str(record["stage"]) for record in model.history_)),
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
    """Result of a function, and its seconds."""
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


def _fit_times(model: Any, shared: SharedPretraining | None, fit_seconds: float) -> dict[str, float]:
    """Seconds of pretraining (in whichever run), of epochs on pairs, and of the fit without pretraining."""
    on_pairs = sum(r["seconds"] for r in model.history_ if not r["stage"].startswith("pretraining"))
    if shared is None:
        before = sum(r["seconds"] for r in model.history_ if r["stage"].startswith("pretraining"))
        return {"pretraining": before, "training": on_pairs, "fit": fit_seconds - before}
    here = shared.seconds if shared.was_made_here else 0.0
    return {"pretraining": shared.seconds, "training": on_pairs, "fit": fit_seconds - here}


def _cluster_numbers(model: Any, pairs: Constraints, spec: RunSpec) -> Record:
    """Number of clusters by each method of inference, with its seconds."""

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
    """Curve of tail angles, in radians, for each ρ."""
    apart = pairs.cannot_links
    rows = unit_rows(model.embedding_)
    found = tail_angles(rows, apart.left, right=apart.right, tail_ratios=spec.tail_ratios)
    return {"tail_ratios": list(found.tail_ratios), "curves": found.curves.tolist()}


def _or_error(work: Callable[[str], Record], name: str) -> Record:
    """A method that cannot run here (a missing package) does not spoil the others."""
    try:
        return work(name)
    except SpherePairError as error:
        return {"error": str(error)}


_EXTRAS: dict[str, Callable[[Any, Constraints, RunSpec], Record]] = {
    "n_clusters": _cluster_numbers,
    "clustering": _clustering_times,
    "tail_angles": _tail_curves,
}


def _projection(model: Any, y: Labels, seed: int) -> Arrays:
    """t-SNE of some training rows, with their classes."""
    from sklearn.manifold import TSNE

    chosen = np.random.default_rng(seed).permutation(len(y))[:PROJECTED_ROWS]
    rows = np.asarray(model.embedding_[chosen], dtype=np.float32)
    perplexity = min(30.0, (len(rows) - 1) / 3)
    flat = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(rows)
    return {"projection": flat.astype(np.float32), "projected_classes": y[chosen]}


class Snapshots:
    """Embeddings of some rows after each epoch on pairs.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
    y : array of shape (n_rows,)
        Classes, for the colors.
    """

    def __init__(self, X: Any, y: Labels) -> None:
        self._chosen = np.sort(np.random.default_rng(0).permutation(len(y))[:SNAPSHOT_ROWS])
        self._table, self._classes = X, y[self._chosen]
        self._frames: list[NDArray[np.float32]] = []

    def follow(self, model: Any) -> Callable[[TrainingState], None]:
        """The ``progress`` of an estimator that takes the snapshots."""
        scaling = learn_scaling(self._table, model.scaling)
        rows = torch.from_numpy(np.array(self._table[self._chosen], dtype=np.float32))

        @torch.no_grad()
        def take(state: TrainingState) -> None:
            network: Any = getattr(state.objective, "network", None)
            if state.stage.startswith("pretraining") or network is None:
                return
            device = next(network.parameters()).device
            embedded = network.encode(scaling.on(device)(rows.to(device))).float()
            self._frames.append(F.normalize(embedded, dim=-1, eps=1e-12).cpu().numpy())

        return take

    def arrays(self, pairs: Constraints, model: Any) -> Arrays:
        """Frames (n_epochs, n, D), classes (n,), pairs among these rows, and the centers (K, D)."""
        place = np.full(len(model.labels_), -1)
        place[self._chosen] = np.arange(len(self._chosen))
        ends = place[np.stack([pairs.left, pairs.right])]
        is_shown = (ends >= 0).all(axis=0)
        return {
            "frames": np.stack(self._frames),
            "classes": self._classes,
            "left": ends[0, is_shown],
            "right": ends[1, is_shown],
            "is_must_link": pairs.is_must_link[is_shown],
            "centers": model.cluster_centers_,
        }


@dataclass
class SharedPretraining:
    """A pretraining whose weights are stored in a folder; used as the ``pretraining`` of an estimator.

    Parameters
    ----------
    method : JointPretraining or StackedPretraining
        What makes the weights.
    data : mapping
        Identity of the rows: dataset, classes, scaling.
    folder : Path
        Where the weights are stored.
    seed : int or None, default=None
        Seed of the pretraining, so that fits of other seeds share it. ``None`` uses the seed of the fit;
        the result is then the same as without sharing.

    Attributes
    ----------
    seconds : float
        Seconds it took to make the weights, in whichever run.
    was_made_here : bool
        Whether this fit made them.
    """

    method: JointPretraining | StackedPretraining
    data: Mapping[str, Any]
    folder: Path = field(repr=False)
    seed: int | None = None
    seconds: float = field(default=0.0, init=False, repr=False, compare=False)
    was_made_here: bool = field(default=False, init=False, repr=False, compare=False)

    def run(self, network: Autoencoder, rows: RowSource, session: Session) -> None:
        """Load the stored weights into ``network``, making them first if there are none."""
        identity = self._identity(network, rows, session)
        path = self.folder / f"{content_key(identity)}.safetensors"
        stored = _read_weights(path)
        if stored is None:
            with file_lock(path.with_suffix(".lock"), wait=True):
                stored = _read_weights(path)
                if stored is None:
                    self._make(network, rows, session, identity=identity, path=path)
                    return
        manifest, tensors = stored
        network.load_state_dict(tensors)
        session.history += manifest["history"]
        self.seconds, self.was_made_here = float(manifest["seconds"]), False

    def _make(
        self, network: Autoencoder, rows: RowSource, session: Session, *, identity: dict[str, Any], path: Path
    ) -> None:
        started = time.perf_counter()
        own = Session(network, session.hardware, session.seed if self.seed is None else self.seed)
        self.method.run(network, rows, own)
        session.history += own.history
        self.seconds, self.was_made_here = time.perf_counter() - started, True
        manifest = {"identity": identity, "history": own.history, "seconds": self.seconds}
        write_tensor_file(path, manifest, network.state_dict())

    def _identity(self, network: Autoencoder, rows: RowSource, session: Session) -> dict[str, Any]:
        """All that the weights depend on; the key adds the version of the code."""
        method: Any = self.method
        if isinstance(method, JointPretraining):  # with the values it chooses itself
            epochs, n_steps = method.n_epochs(rows, session), method.n_steps(rows, session)
            batch_size = method.step_rows(rows, session)
            method = replace(method, epochs=epochs, min_steps=n_steps, batch_size=batch_size)
        return {
            "data": dict(self.data),
            "method": repr(method),
            "network": [[name, list(tensor.shape)] for name, tensor in network.state_dict().items()],
            "spherical": bool(getattr(network, "spherical", False)),
            "seed": session.seed if self.seed is None else self.seed,
            # Sums differ between kinds of devices, and much more between precisions.
            "device": session.hardware.device.type,
            "precision": session.hardware.precision,
            # With a seed of its own every layer is drawn anew, so the initial weights do not matter.
            "start": _digest(network) if self.seed is None else None,
        }


def data_identity(dataset: str, classes: tuple[int, ...] | None = None) -> dict[str, Any]:
    """Identity of the rows of a dataset, or of some of its classes, as they are prepared now.

    Examples
    --------
    >>> data_identity("mnist")
    {'dataset': 'mnist', 'classes': None}
    """
    revision = DATA_REVISIONS.get(dataset)
    named = {"dataset": dataset, "classes": classes}
    return named if revision is None else {**named, "revision": revision}


def share_pretraining(model: Any, data: Mapping[str, Any], folder: Path) -> SharedPretraining | None:
    """Let an unfitted estimator share its pretraining, if it has one that can be shared.

    Stacked pretraining, made with seed 0, serves fits of all seeds, as in the authors' code. Joint
    pretraining serves fits of the same seed and changes only the time.
    """
    chosen = model.get_params(deep=False).get("pretraining")
    known = {"joint": JointPretraining, "stacked": StackedPretraining}
    method = known[chosen]() if chosen in ("joint", "stacked") else chosen
    if not isinstance(method, (JointPretraining, StackedPretraining)):
        return None
    seed = 0 if isinstance(method, StackedPretraining) else None
    identity = {**data, "scaling": model.get_params(deep=False).get("scaling")}
    shared = SharedPretraining(method, identity, folder, seed)
    model.set_params(pretraining=shared)
    return shared


def _read_weights(path: Path) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The stored weights; a damaged file counts as none and is written again."""
    if not path.exists():
        return None
    try:
        return read_tensor_file(path)
    except ModelFileError:
        return None


def _digest(network: nn.Module) -> str:
    digest = hashlib.sha256()
    for tensor in network.state_dict().values():
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
