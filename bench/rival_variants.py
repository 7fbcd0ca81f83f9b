"""Where a rival's accuracy comes from: the paper's settings, changed in one respect at a time.

    PYTHONPATH=src SPHEREPAIR_DATA=folder python bench/rival_variants.py SDEC --data fashion_mnist \
        --pairs 1000 10000 --seeds 0 1 2 --out folder [--variants paper unclipped] [--every 5]

One line a fit: test accuracy, epochs, seconds, and the way there, written every few epochs as
``epoch: accuracy on 10,000 training rows / clusters in use / spread of the embedding / share of rows that
had changed their cluster before the epoch / terms of the loss``. The stacked autoencoder is made once
under ``--out`` and shared. All of it goes to ``METHOD.jsonl`` there as well.
"""

from __future__ import annotations

import spherepair  # noqa: F401  # isort: skip  # before torch: it asks OpenMP not to spin for long

import argparse
import json
import time
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from sklearn.cluster import AgglomerativeClustering, KMeans
from torch import Tensor

from spherepair.benchmark.grid import PairChoice
from spherepair.benchmark.pretrained import data_identity, share_pretraining
from spherepair.benchmark.workbench import draw_pairs
from spherepair.clustering.assigners import KMeansAssigner
from spherepair.datasets import load_dataset
from spherepair.errors import TrainingDivergedError
from spherepair.estimators import anchored, mixture_start, sdec, volmax_dcc
from spherepair.estimators.cidec import ROWS
from spherepair.estimators.loading import ESTIMATORS
from spherepair.losses.pair_likelihood import weighted_mean
from spherepair.metrics import clustering_accuracy
from spherepair.networks.mlp import linear_layers
from spherepair.training.batches import row_batches
from spherepair.training.embedding import map_rows
from spherepair.training.engine import TrainingState
from spherepair.training.hardware import choose_hardware
from spherepair.training.rows import open_rows
from spherepair.training.scaling import learn_scaling

N_WATCHED = 10_000
#: The paper's choices for single data sets.
CHOSEN: dict[tuple[str, str], dict[str, Any]] = {
    ("VolMaxDCC", "mnist"): {"volume_weight": 1e-2},
    ("AutoEmbedder", "fashion_mnist"): {"margin": 50.0},
}


class Unclipped:
    def _recipe(self) -> Any:
        return replace(super()._recipe(), clip_norm=None)


class ExactTraining:
    """The pretrained weights of ``paper``, then float32."""

    def _train(self, job: Any, *rest: Any) -> None:
        self._hardware = job.session.hardware = replace(self._hardware, precision="float32")
        super()._train(job, *rest)


def other_autoencoder(seed: int) -> type:
    """Start from the autoencoder of another seed."""

    class OtherAutoencoder:
        def _pretrain(self, job: Any) -> None:
            self.pretraining.seed = seed
            super()._pretrain(job)

    return OtherAutoencoder


class SklearnStart:
    @torch.no_grad()
    def _initialise(self, job: Any) -> None:
        network = job.network.eval()
        z = map_rows(lambda x: self._embed(network, x), job.rows, self._hardware)
        found = KMeans(self.n_clusters, n_init=20, random_state=self._seed % 2**32).fit(z)
        network.centers.copy_(torch.from_numpy(found.cluster_centers_))


class TrueStart:
    """The mixture of the true classes, which nobody has, to see what the start decides."""

    @torch.no_grad()
    def _initialise(self, job: Any) -> None:
        network, y = job.network.eval(), self.true_labels
        z = map_rows(lambda x: self._embed(network, x), job.rows, self._hardware)
        classes = [z[y == label] for label in np.unique(y)]
        network.centers.copy_(torch.from_numpy(np.stack([rows.mean(axis=0) for rows in classes])))
        network.log_variances.copy_(torch.from_numpy(np.log([rows.var(axis=0) for rows in classes])))


def shared_start(number: int) -> type:
    """All trials from one autoencoder and mixture, as where a method loads what it once made."""

    class SharedStart:
        def _build_network(self, n_features: int, embedding_dim: int, seed: int) -> Any:
            return super()._build_network(n_features, embedding_dim, number)

        def _pretrain(self, job: Any) -> None:
            with patch.object(job.session, "seed", number):
                super()._pretrain(job)

        def _initialise(self, job: Any) -> None:
            with patch.object(self, "_seed", number):
                super()._initialise(job)

    return SharedStart


class KnownStart:
    """Looks how many rows are right before pairs are trained on, where clusters are known by then."""

    start_accuracy: float | None = None

    @torch.no_grad()
    def _initialise(self, job: Any) -> None:
        super()._initialise(job)
        network = job.network.eval()
        if hasattr(network, "centers"):
            logits = map_rows(lambda x: network.logits(self._embed(network, x)), job.rows, self._hardware)
            self.start_accuracy = float(clustering_accuracy(self.true_labels, logits.argmax(axis=1)))


class Shrunk:
    """The same embedding at a third of its size, where pairs push nine times less hard."""

    def _pretrain(self, job: Any) -> None:
        super()._pretrain(job)
        last = list(linear_layers(job.network.autoencoder.encoder))[-1]
        last.weight.data /= 3
        last.bias.data /= 3


def replacing(module: Any, name: str, value: Any) -> type:
    """Train with something else in the place of a function or constant of a module."""

    class Replacing:
        def _train(self, job: Any, *rest: Any) -> None:
            with patch.object(module, name, value):
                super()._train(job, *rest)

    return Replacing


def guarded_divergence(logits: Tensor, target: Tensor, *, weight: Tensor) -> Tensor:
    q = logits.float().softmax(dim=1)
    return weighted_mean((torch.xlogy(target, target) - target * (q + 1e-6).log()).sum(dim=1), weight)


def first_volume(logits: Tensor, *, weight: Tensor) -> Tensor:
    """log det as float32 has it; where rounding leaves no positive determinant, a constant."""
    q = logits.double().softmax(dim=1)
    gram = (q.T @ q).float()  # the product of a GPU's float32 may have three digits only
    is_positive = torch.linalg.slogdet(gram.detach()).sign > 0
    # Both branches have a gradient, so the one that is not taken must be harmless.
    harmless = torch.where(is_positive, gram, torch.eye(len(gram), device=gram.device))
    return torch.where(is_positive, torch.linalg.slogdet(harmless).logabsdet, np.log(1e-6))


GUARDED = replacing(anchored, "target_divergence", guarded_divergence)
FIRST_VOLUME = replacing(volmax_dcc, "log_volume", first_volume)
UNBOUNDED = replacing(sdec.SDECObjective, "_farthest", lambda _: float("inf"))
ALL_ROWS_START = replacing(mixture_start, "SAMPLE_ROWS", 10**9)


class ShuffledRows:
    def _sweeps(self, job: Any, stage: str) -> Any:
        drawn = {"batch_size": self.batch_size, "seed": job.session.seed, "stream": f"{stage} {ROWS}"}
        return [row_batches(job.rows, part=ROWS, **drawn), *super()._sweeps(job, stage)[1:]]


class RowsLast:
    """Epochs that end with the rows: the authors' last step falls into a sweep over them."""

    def _sweeps(self, job: Any, stage: str) -> Any:
        return super()._sweeps(job, stage)[::-1]


@dataclass(frozen=True)
class Variant:
    """What is changed, and the question it answers."""

    why: str
    settings: dict[str, Any] = field(default_factory=dict)
    parts: tuple[type, ...] = ()


BASE = {
    "paper": Variant("what all others are compared with"),
    "float32": Variant("are products in bfloat16 to blame?", {"precision": "float32"}),
    "float32-training": Variant("the same, with the autoencoder of paper", parts=(ExactTraining,)),
}
NO_STOP = Variant("does it stop too early?", {"stopping": "fixed", "max_epochs": 300})
OTHERS = {
    f"autoencoder-{seed}": Variant(
        "all trials share one autoencoder: what would another give?", parts=(other_autoencoder(seed),)
    )
    for seed in (1, 2, 3)
}
CLASSIFIER = {
    **BASE,
    "no-stop": NO_STOP,
    "batch-norm": Variant("the network of the authors' first commit", {"batch_norm": True}),
    "unclipped": Variant("the paper's text has no clipping", parts=(Unclipped,)),
}
ANCHORED = {
    **BASE,
    "no-stop": NO_STOP,
    **OTHERS,
    "start": Variant("k-means on the autoencoder, no training", {"max_epochs": 1, "learning_rate": 1e-12}),
    "sklearn-start": Variant("is our k-means a worse start?", parts=(SklearnStart,)),
    "exponent-1": Variant("memberships as DEC has them", {"exponent": 1.0}),
    "guarded": Variant("q + 1e-6 in the logarithm, as in the authors' code", parts=(GUARDED,)),
}
WEIGHTS = {
    f"weight-{value:g}": Variant("does the volume matter?", {"volume_weight": value})
    for value in (0.0, 1e-4, 1e-3, 1e-2)
}
VARIANTS: dict[str, dict[str, Variant]] = {
    "VanillaDCC": CLASSIFIER,
    "VolMaxDCC": {
        **CLASSIFIER,
        **WEIGHTS,
        "first-volume": Variant("the ridge stops the pull on empty clusters", parts=(FIRST_VOLUME,)),
        "first-commit": Variant("both changes of the first commit", {"batch_norm": True}, (FIRST_VOLUME,)),
        "first-commit-unclipped": Variant(
            "and was there clipping?", {"batch_norm": True}, (Unclipped, FIRST_VOLUME)
        ),
        "all-rows": Variant("the paper's text has all rows in the volume", {"volume_rows": 10**9}),
    },
    "CIDEC": {
        **ANCHORED,
        "clustering-1": Variant("without IDEC's factor 0.1", {"clustering_weight": 10.0}),
        "shuffled": Variant("rows in a fresh order", parts=(ShuffledRows,)),
    },
    "SDEC": {
        **ANCHORED,
        "shrunk": Variant("is it the scale of the embedding?", parts=(Shrunk,)),
        "unclipped": Variant("as in the authors' code", parts=(Unclipped,)),
        "published": Variant("neither end nor clip to the push", parts=(Unclipped, UNBOUNDED)),
        "dec": Variant("is it the pairs at all?", {"pair_weight": 0.0}),
        "weight-1e-6": Variant("how much less push is enough?", {"pair_weight": 1e-6}),
        "rate-1e-3": Variant("is the step too large?", {"learning_rate": 1e-3}),
        "one-epoch": Variant("the rule may stop as soon as this", {"max_epochs": 1}),
    },
    "DCGMM": {
        **BASE,
        "epochs-100": Variant("how many epochs does it need?", {"max_epochs": 100}),
        "epochs-300": Variant("how many epochs does it need?", {"max_epochs": 300}),
        "vade": Variant("what do pairs add?", {"pair_weight": 0.0}),
        "gaussian": Variant("the other likelihood", {"likelihood": "gaussian"}),
        "all-rows-start": Variant("the mixture starts from all rows", parts=(ALL_ROWS_START,)),
        "true-start": Variant("the mixture starts from the true classes", parts=(TrueStart,)),
        "rate-3e-4": Variant("is the step too large?", {"learning_rate": 3e-4}),
        "rate-1e-4": Variant("is the step too large?", {"learning_rate": 1e-4}),
        "pairs-1000": Variant("do pairs weigh too much?", {"pair_weight": 1000.0}),
        **{
            f"start-{number}": Variant(
                "one start for all trials, none of their own", parts=(shared_start(number),)
            )
            for number in range(12)
        },
        "start-by-pairs": Variant("would pairs choose a better start?", {"start": "pairs"}),
        "rows-last": Variant("is it looked at just after the pairs have torn at it?", parts=(RowsLast,)),
        "batch-256": Variant(
            "what the authors' command has unless told otherwise", {"batch_size": 256, "max_epochs": 1000}
        ),
    },
    "AutoEmbedder": {
        **BASE,
        **OTHERS,
        "epochs-100": Variant("when the paper's printed rule stops", {"max_epochs": 100}),
        "tied": Variant("one encoder for both ends", {"tied": True}),
        "margin-50": Variant("how much does the margin decide?", {"margin": 50.0}),
        "margin-500": Variant("how much does the margin decide?", {"margin": 500.0}),
        "sklearn-kmeans": Variant("as the authors' code", {"clustering": KMeans(n_init=50)}),
        "ward": Variant("the paper's other table", {"clustering": AgglomerativeClustering()}),
    },
}


class Watch:
    """Looks at some training rows while the network trains."""

    def __init__(self, X: Any, y: Any, every: int, model: Any) -> None:
        chosen = np.random.default_rng(0).permutation(len(y))[:N_WATCHED]
        self._hardware = choose_hardware(model.device, model.precision)
        self._rows = open_rows(X[chosen], learn_scaling(X, model.scaling), self._hardware.device)
        self._y, self._k, self._every = y[chosen], int(model.n_clusters), every
        self.points: list[dict[str, Any]] = []
        self.spent = 0.0

    def __call__(self, state: TrainingState) -> None:
        if state.stage != "pairs" or (state.epoch > 1 and state.epoch % self._every):
            return
        started = time.perf_counter()
        network = state.objective.network
        network.eval()
        z = map_rows(lambda x: network.encode(x).float(), self._rows, self._hardware)
        labels = self._labels(network, z)
        network.train()
        terms = {k: v for k, v in state.records[-1].items() if k not in ("stage", "epoch", "seconds")}
        self.points.append(
            {
                "epoch": state.epoch,
                "acc": float(clustering_accuracy(self._y, labels)),
                "used": len(np.unique(labels)),
                "spread": float(np.sqrt(z.var(axis=0).sum())),
                "changed": state.monitored[-1] if state.monitored else None,
                **terms,
            }
        )
        self.spent += time.perf_counter() - started

    def _labels(self, network: Any, z: Any) -> Any:
        if not hasattr(network, "logits"):
            assigner = KMeansAssigner(5, self._hardware.device, spherical=False)
            return assigner.assign(z, self._k, seed=0).labels
        with torch.no_grad():
            logits = network.logits(torch.from_numpy(z).to(self._hardware.device))
        return logits.argmax(dim=1).cpu().numpy()


def fit(method: str, name: str, data: Any, job: dict[str, Any], *, every: int, out: Path) -> dict[str, Any]:
    """Fit one variant and say how it went."""
    variant, n_pairs, seed = VARIANTS[method][job["variant"]], job["pairs"], job["seed"]
    kind = type(method, (KnownStart, *variant.parts, ESTIMATORS[method]), {})
    settings = CHOSEN.get((method, name), {}) | variant.settings | job["settings"]
    n_clusters = len(np.unique(data.y_train))
    model = kind.paper(n_clusters, random_state=seed, **settings)
    model.true_labels = data.y_train  # for variants that cheat to find out
    shared = share_pretraining(model, data_identity(name), out / "pretrained")
    watch = Watch(data.X_train, data.y_train, every, model)
    model.set_params(progress=watch)
    pairs = draw_pairs(
        data.y_train, PairChoice(n_pairs), seed if job["pair_seed"] is None else job["pair_seed"]
    )
    result = {"method": method, "data": name, **job, "why": variant.why, "points": watch.points}
    started = time.perf_counter()
    try:
        model.fit(data.X_train, constraints=pairs)
    except TrainingDivergedError as error:
        return {**result, "error": str(error)}
    made = shared.seconds if shared is not None and shared.was_made_here else 0.0
    return {
        **result,
        "seconds": time.perf_counter() - started - watch.spent - made,
        "epochs": sum(record["stage"] == "pairs" for record in model.history_),
        "start": model.start_accuracy,
        "acc": float(clustering_accuracy(data.y_test, model.predict(data.X_test))),
    }


def line(result: dict[str, Any]) -> str:
    """A result in one line."""
    head = f"{result['method']} {result['variant']} {result['data']} {result['pairs']} seed {result['seed']}"
    if result["pair_seed"] is not None:
        head += f" pairs of seed {result['pair_seed']}"
    way = " | ".join(_point(point) for point in result["points"])
    if "error" in result:
        return f"{head}: {result['error']} | {way}"
    end = f"ACC {100 * result['acc']:.1f}, {result['epochs']} epochs, {result['seconds']:.1f} s"
    if result["start"] is not None:
        end += f", from a start with {100 * result['start']:.1f} % of training rows"
    return f"{head}: {end} | {way}"


def _point(point: dict[str, Any]) -> str:
    known = ("epoch", "acc", "used", "spread", "changed")
    changed = "" if point["changed"] is None else f"/{100 * point['changed']:.2f}%"
    terms = " ".join(f"{name}={value:.3g}" for name, value in point.items() if name not in known)
    return (
        f"{point['epoch']}: {100 * point['acc']:.1f}/{point['used']}/{point['spread']:.3g}{changed} {terms}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("method", choices=sorted(VARIANTS))
    parser.add_argument("--data", nargs="+", default=["digits"])
    parser.add_argument("--pairs", nargs="+", type=int, default=[1000])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument(
        "--pair-seed", type=int, help="the same pairs for all seeds, which else draw their own"
    )
    parser.add_argument("--variants", nargs="+", help="all of the method unless given")
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--settings", type=json.loads, default={}, help="JSON for all variants")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    (args.out / "pretrained").mkdir(parents=True, exist_ok=True)
    for name in args.data:
        data = load_dataset(name)
        for variant, n_pairs, seed in product(args.variants or VARIANTS[args.method], args.pairs, args.seeds):
            job = {"variant": variant, "pairs": n_pairs, "seed": seed}
            job |= {"pair_seed": args.pair_seed, "settings": args.settings}
            result = fit(args.method, name, data, job, every=args.every, out=args.out)
            print(line(result), flush=True)
            with (args.out / f"{args.method}.jsonl").open("a") as stream:
                stream.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
