"""Does a captured step give the numbers of an eager one, and how much faster is it?

    PYTHONPATH=src python bench/capture_check.py [auto] [tf32] [bfloat16] [float32]

Prints, for each stage, the time per step eager and captured, and the largest difference of the loss.
Needs a CUDA GPU.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import torch

from spherepair import Constraints, SpherePair
from spherepair.training import engine
from spherepair.training.pretraining import JointPretraining, StackedPretraining


class _NeverCaptured:
    """Stands in for the captured step and runs it eagerly."""

    def __init__(self, step: object, *_: object) -> None:
        self._step = step

    def discard(self) -> None: ...

    def run(self, n_steps: int) -> None:
        for _ in range(n_steps):
            self._step()  # type: ignore[operator]


def fit(n_pairs: int, pretraining: object, precision: str, *, captured: bool) -> tuple[list[dict], float]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 60_000)
    X = (rng.normal(size=(10, 784))[y] + rng.normal(size=(60_000, 784))).astype(np.float32)
    pairs = Constraints.from_labels(y, n_pairs, random_state=0)
    kept = engine.CapturedStep
    engine.CapturedStep = kept if captured else _NeverCaptured  # type: ignore[misc]
    try:
        model = SpherePair(
            10,
            pretraining=pretraining,
            max_epochs=10,
            stopping="fixed",
            random_state=0,
            precision=precision,
        )
        torch.cuda.synchronize()
        started = time.perf_counter()
        model.fit(X, constraints=pairs)
        torch.cuda.synchronize()
        return model.history_, time.perf_counter() - started
    finally:
        engine.CapturedStep = kept  # type: ignore[misc]


def main() -> None:
    print(torch.__version__, torch.cuda.get_device_name())
    for precision in sys.argv[1:] or ["auto", "float32"]:
        for pretraining in (
            JointPretraining(epochs=4, min_steps=1, batch_size=256),
            StackedPretraining(layer_epochs=4, epochs=4),
        ):
            eager, eager_seconds = fit(10_000, pretraining, precision, captured=False)
            fast, fast_seconds = fit(10_000, pretraining, precision, captured=True)
            name = type(pretraining).__name__
            print(f"{precision} {name}: fit {eager_seconds:.2f} s eager, {fast_seconds:.2f} s captured")
            for stage in dict.fromkeys(record["stage"] for record in eager):
                a = [r for r in eager if r["stage"] == stage]
                b = [r for r in fast if r["stage"] == stage]
                n_steps = 40 if stage == "pairs" else 235
                gap = max(abs(p["loss"] - q["loss"]) / abs(p["loss"]) for p, q in zip(a, b, strict=True))
                us = [1e6 * min(r["seconds"] for r in part[1:]) / n_steps for part in (a, b)]
                speed = f"step {us[0]:7.0f} us eager, {us[1]:7.0f} us captured ({us[0] / us[1]:.1f} times)"
                print(f"  {stage:24s} {speed}, loss differs by {gap:.1e}")


if __name__ == "__main__":
    main()
