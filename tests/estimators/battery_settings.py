"""Small settings of every method for the battery: a new method adds a line to TINY and to LEARNING."""

from __future__ import annotations

from typing import Any

from spherepair.estimators.loading import ESTIMATORS
from spherepair.training.pretraining import JointPretraining

#: Enough for every step of a fit to be taken, and little more.
QUICK: dict[str, Any] = {
    "hidden_dims": (16,),
    "max_epochs": 3,
    "stopping": "fixed",
    "random_state": 0,
    "progress": False,
}
SHORT = {"pretraining": JointPretraining(epochs=2, min_steps=2)}
TINY: dict[str, dict[str, Any]] = {
    "SpherePair": {**SHORT, "min_steps": 2},
    "VanillaDCC": {},
    "VolMaxDCC": {"volume_rows": 50, "batch_size": 256},
    "CIDEC": SHORT,
    "SDEC": SHORT,
    "DCGMM": {"pretraining_epochs": 2},
    "AutoEmbedder": SHORT,
}

#: For 900 digits and 3,000 pairs; floors lie below what seeds 0 to 2 reach, chance at 0.1.
MODEST: dict[str, Any] = {
    "hidden_dims": (64, 64),
    "batch_size": 64,
    "max_epochs": 20,
    "precision": "float32",
    "random_state": 0,
    "progress": False,
}
PREPARED = {"pretraining": JointPretraining(epochs=5, min_steps=300)}
LEARNING: dict[str, tuple[dict[str, Any], float]] = {
    "SpherePair": (PREPARED, 0.85),
    "VanillaDCC": ({}, 0.7),
    "VolMaxDCC": ({"volume_rows": 300, "max_epochs": 30}, 0.7),
    "CIDEC": (PREPARED, 0.6),
    "SDEC": (PREPARED, 0.5),
    "DCGMM": ({"pretraining_epochs": 5}, 0.55),
    "AutoEmbedder": ({**PREPARED, "margin": 10.0}, 0.7),
}

WITHOUT_PAIRS = "without pairs there is nothing to learn, so clusters are those of an untrained network"
READS_TAGS = "asks whatever has predict_proba for a classifier's tags; the battery tests sparse rows itself"
EXPECTED_FAILURES = {
    name: {"check_estimator_sparse_array": READS_TAGS, "check_estimator_sparse_matrix": READS_TAGS}
    for name in ESTIMATORS
}
for untrained in ("VanillaDCC", "VolMaxDCC"):
    EXPECTED_FAILURES[untrained]["check_clustering"] = WITHOUT_PAIRS


def build(name: str, n_clusters: int = 3, **parameters: Any) -> Any:
    return ESTIMATORS[name](n_clusters, **{**QUICK, **TINY[name], **parameters})
