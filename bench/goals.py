"""How long the main jobs take on this machine, from arrays in memory to labels.

    PYTHONPATH=src SPHEREPAIR_DATA=folder python bench/goals.py --seeds 0 1 2 --stages

FashionMNIST: the paper's whole protocol with 10,000 pairs, default settings with 10,000 (also without the
added terms) and with 1,000 pairs, ``refine`` with 500 more beside fitting again, labels of unseen rows.
Compilation and graph capture count, so the first seed of a fresh process is the slowest. ``--stages`` adds
the time of each stage. On a CPU shared with other work, set OMP_WAIT_POLICY=PASSIVE first.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import clone

import spherepair
from spherepair import Constraints, Schedule, SpherePair, Terms
from spherepair.datasets import load_dataset
from spherepair.metrics import clustering_accuracy

JOBS = ("paper", "default", "plain", "few", "refine", "predict")
#: The default without what research/few-pairs.md is about.
PLAIN = {
    "terms": Terms(must_link_weight=1.0, neighbor_weight=0.0, pseudo_pair_weight=0.0),
    "schedule": Schedule(ema=False),
}


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    result = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return result, time.perf_counter() - started


def resident() -> float:
    """Memory of the process now, in GiB; its peak where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**30
    except OSError:
        return peak()


def peak() -> float:
    """Peak memory of the process, in GiB."""
    unit = 2**30 if sys.platform == "darwin" else 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def stages(model: SpherePair) -> str:
    names = dict.fromkeys(record["stage"] for record in model.history_)
    return ", ".join(
        f"{name} {sum(r['seconds'] for r in model.history_ if r['stage'] == name):.1f} s"
        f" ({sum(r['stage'] == name for r in model.history_)} epochs)"
        for name in names
    )


def fit_and_label(model: SpherePair, data: Any, pairs: Constraints) -> np.ndarray:
    return model.fit(data.X_train, constraints=pairs).predict(data.X_test)


def refine_and_fit_again(model: SpherePair, data: Any, seed: int) -> list[tuple[float, float]]:
    """Test accuracy and seconds of both, with 500 more pairs."""
    more = Constraints.from_labels(data.y_train, 500, random_state=10_000 + seed)
    again = clone(model)
    _, took = timed(lambda: model.refine(more))
    _, took_again = timed(lambda: again.fit(data.X_train, constraints=model.constraints_))
    return [
        (100 * clustering_accuracy(data.y_test, fitted.predict(data.X_test)), seconds)
        for fitted, seconds in ((model, took), (again, took_again))
    ]


def seconds_to_send(rows: np.ndarray | torch.Tensor) -> float:
    """Of a plain copy to the GPU, which also takes longer on a busy host."""
    source = torch.as_tensor(rows)
    return min(timed(lambda: source.to("cuda", copy=True))[1] for _ in range(3))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--stages", action="store_true")
    args = parser.parse_args()
    where = (
        torch.cuda.get_device_name() if torch.cuda.is_available() else f"{torch.get_num_threads()} threads"
    )
    print(f"spherepair {spherepair.__version__}, torch {torch.__version__}, {where}")
    data = load_dataset("fashion_mnist")
    before = resident()

    def report(title: str, scores: list[float], seconds: list[float]) -> None:
        accuracy = f"test ACC {np.mean(scores):.1f} ± {np.std(scores):.1f}"
        print(f"{title:28s} {accuracy}  {', '.join(f'{s:.1f}' for s in seconds)} s", flush=True)

    jobs = [
        ("paper", "paper's protocol, 10k pairs", SpherePair.paper, 10_000),
        ("default", "default, 10k pairs", SpherePair, 10_000),
        ("plain", "without added terms, 10k", partial(SpherePair, **PLAIN), 10_000),
        ("few", "default, 1k pairs", SpherePair, 1000),
    ]
    models: list[SpherePair] = []
    for job, title, build, n_pairs in jobs:
        if job not in args.jobs:
            continue
        scores, seconds = [], []
        models = models if job in ("few", "plain") else []
        for seed in args.seeds:
            pairs = Constraints.from_labels(data.y_train, n_pairs, random_state=seed)
            fresh = build(10, random_state=seed, progress=False)
            labels, took = timed(lambda fresh=fresh, pairs=pairs: fit_and_label(fresh, data, pairs))
            scores.append(100 * clustering_accuracy(data.y_test, labels))
            seconds.append(took)
            models += [] if job in ("few", "plain") else [fresh]
            if args.stages:
                print(f"  seed {seed}: {stages(fresh)}", flush=True)
        report(title, scores, seconds)
    if models and "refine" in args.jobs:
        both = [refine_and_fit_again(m, data, seed) for m, seed in zip(models, args.seeds, strict=True)]
        for place, title in enumerate(("refine with 500 more", "fit again with them")):
            scores, seconds = zip(*(of_seed[place] for of_seed in both), strict=True)
            report(title, list(scores), list(seconds))
        ratios = ", ".join(f"{again / took:.1f}" for (_, took), (_, again) in both)
        print(f"{'refine':28s} {ratios} times faster than fitting again")
    if models and "predict" in args.jobs:
        model = models[-1]
        rows = np.tile(data.X_test, (20, 1))
        kinds = {"float32": rows, "bytes": rows.astype(np.uint8)}
        if torch.cuda.is_available():
            kinds["float32 on the GPU"] = torch.from_numpy(rows).cuda()
        for kind, given in kinds.items():
            model.predict(given)
            took = min(timed(lambda given=given: model.predict(given))[1] for _ in range(3))
            print(f"{'predict, ' + kind:28s} {len(rows) / took:,.0f} rows/s ({len(rows)} x {rows.shape[1]})")
            if torch.cuda.is_available():
                times = took / seconds_to_send(given)
                print(f"{'':28s} {times:.1f} times the time that torch takes to copy them")
    print(f"peak memory of the process {peak():.2f} GiB, before the first fit {before:.2f} GiB")


if __name__ == "__main__":
    main()
