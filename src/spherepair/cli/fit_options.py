"""The options of ``spherepair fit``, and the estimator they describe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from spherepair.cli.options import (
    PAIR_KINDS,
    Clustering,
    OnConflict,
    Preset,
    Pretraining,
    count_or_auto,
    layer_sizes,
)
from spherepair.estimators.spherepair import SpherePair

ConstraintsOption = Annotated[
    Path, typer.Option("--constraints", "-c", metavar="PAIRS", help=f"Pairs: {PAIR_KINDS}.")
]
ModelOption = Annotated[Path, typer.Option("--out", "-o", metavar="MODEL", help="Folder for the model.")]
ClustersOption = Annotated[
    str, typer.Option("--clusters", "-k", metavar="K|auto", help="Number of clusters.")
]
LabelsOption = Annotated[
    Path | None,
    typer.Option("--labels-out", metavar="FILE", help="Also write the labels of the rows."),
]
ConflictOption = Annotated[
    OnConflict, typer.Option("--on-conflict", help="What to do with contradictory pairs.")
]
CheckpointOption = Annotated[
    Path | None,
    typer.Option("--checkpoint", metavar="DIR", help="Folder from which an interrupted fit goes on."),
]
PresetOption = Annotated[Preset, typer.Option("--preset", help="Settings to start from.")]
DimensionOption = Annotated[
    str, typer.Option("--embedding-dim", metavar="D|auto", help="Dimensions of the embedding.")
]
HiddenOption = Annotated[
    str | None,
    typer.Option("--hidden-dims", metavar="SIZES", help="compact, standard, deep or such as 500,500,2000."),
]
EpochsOption = Annotated[
    int | None, typer.Option("--max-epochs", metavar="N", min=1, help="Most epochs on pairs.")
]
ClusteringOption = Annotated[
    Clustering | None, typer.Option("--clustering", help="What cuts the embedding into clusters.")
]
PretrainingOption = Annotated[
    Pretraining | None, typer.Option("--pretraining", help="How the network is prepared.")
]


def build_model(
    clusters: str,
    preset: Preset,
    *,
    embedding_dim: str,
    hidden_dims: str | None,
    pretraining: Pretraining | None,
    **settings: Any,
) -> SpherePair:
    """The estimator; what is not given is left to the preset.

    Examples
    --------
    >>> build_model("3", Preset.PAPER, embedding_dim="auto", hidden_dims=None, pretraining=None).n_clusters
    3
    """
    settings["embedding_dim"] = count_or_auto(embedding_dim, "--embedding-dim")
    settings["hidden_dims"] = None if hidden_dims is None else layer_sizes(hidden_dims)
    given = {name: value for name, value in settings.items() if value is not None}
    if pretraining is not None:
        given["pretraining"] = None if pretraining is Pretraining.NONE else pretraining.value
    make = SpherePair.paper if preset is Preset.PAPER else SpherePair
    return make(count_or_auto(clusters, "--clusters"), **given)
