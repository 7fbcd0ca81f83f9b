"""Make the pictures of the documentation: ``python docs/images/make.py`` (a minute or two).

Digits that ship with scikit-learn on a sphere of three dimensions, with ω = π / arccos(-1/(K-1)), the one
value for which K clusters fit there up to K = 4 (Theorem 4.4 of the paper).
``sphere.png``: four digits, before any pair was seen and after training on 500 random pairs.
``report.png``: the top of a report on digits, and its map; needs playwright and Chromium.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits

from spherepair import Constraints, SpherePair
from spherepair.errors import ConstraintWarning, EmbeddingDimensionWarning
from spherepair.plots import SphereEvolution, plot_sphere, save_figure
from spherepair.plots.evolution import add_legend
from spherepair.plots.style import new_figure
from spherepair.report import ReportOptions, write_report
from spherepair.theory import minimal_omega

N_PAIRS = 500
SHOWN_PAIRS = 14
SEED = 0
FOLDER = Path(__file__).parent


def main() -> None:
    """Train and draw."""
    save_figure(before_and_after(4), FOLDER / "sphere.png")
    picture_report(FOLDER / "report.png")


def before_and_after(n_clusters: int) -> Any:
    """The sphere without pairs beside the sphere with pairs, each turned as a whole."""
    rows, y, pairs = _digits(n_clusters)
    figure = new_figure(7.4, 4.0)
    panels = figure.subplots(1, 2)
    for axes, given in zip(panels, (None, pairs), strict=True):
        found = _fit(rows, given, n_clusters).embedding_.astype(np.float64)
        shown = SphereEvolution([found], y, constraints=pairs, class_names=_names(n_clusters))
        shown = shown.turned(n_pairs=SHOWN_PAIRS)
        plot_sphere(shown.frames[0], y, constraints=shown.constraints, ax=axes)
        axes.set_title("before: features alone" if given is None else f"after: {N_PAIRS} pairs", fontsize=11)
    add_legend(figure, [shown])
    return figure


def picture_report(path: Path) -> None:
    """The top of a report beside its map with one row pointed at, both as a browser shows them."""
    from playwright.sync_api import sync_playwright

    X, y = load_digits(return_X_y=True)
    pairs = Constraints.from_labels(y, 1000, random_state=SEED)
    model = SpherePair(hidden_dims="compact", random_state=SEED, progress=False).fit(X, constraints=pairs)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as running:
        page_path, left, right = (Path(folder) / name for name in ("report.html", "left.png", "right.png"))
        options = ReportOptions(title="Digits: what the clusters look like", image="8x8")
        write_report(model, X, pairs, page_path, options=options)
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = running.chromium.launch(executable_path=program, args=["--no-sandbox"])
        size = {"width": 1000, "height": 1500}
        page = browser.new_page(viewport=size, device_scale_factor=0.75, reduced_motion="reduce")
        page.goto(page_path.as_uri())
        page.screenshot(path=left)
        page.locator("#map-canvas").focus()
        page.keyboard.press("ArrowRight")  # points at a row
        page.locator("#map").evaluate("section => section.scrollIntoView()")
        page.screenshot(path=right)
        browser.close()
        both = Image.new("RGB", (1500, 1125))
        both.paste(Image.open(left), (0, 0))
        both.paste(Image.open(right), (750, 0))
        both.save(path, optimize=True)


def _digits(n_clusters: int) -> tuple[torch.Tensor, NDArray[Any], Constraints]:
    X, y = load_digits(n_class=n_clusters, return_X_y=True)
    return (
        torch.tensor(X / 16, dtype=torch.float32),
        y,
        Constraints.from_labels(y, N_PAIRS, random_state=SEED),
    )


def _names(n_clusters: int) -> list[str]:
    return [f"digit {digit}" for digit in range(n_clusters)]


def _fit(rows: torch.Tensor, pairs: Constraints | None, n_clusters: int, **options: Any) -> SpherePair:
    settings: dict[str, Any] = {
        "embedding_dim": 3,
        "omega": minimal_omega(n_clusters),
        "hidden_dims": "compact",
        "scaling": "none",
        "random_state": SEED,
        "device": "cpu",
        "precision": "float32",
        "progress": False,
    }
    model = SpherePair(n_clusters, **(settings | options))
    with warnings.catch_warnings():
        # Three dimensions are one fewer than advised, and no pairs at all are the point of "before".
        warnings.simplefilter("ignore", EmbeddingDimensionWarning)
        warnings.simplefilter("ignore", ConstraintWarning)
        return model.fit(rows, constraints=pairs)


if __name__ == "__main__":
    main()
