from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import spherepair

#: What must not be needed beyond the core dependencies; scikit-learn itself may load some of them.
OPTIONAL = ["pandas", "polars", "pyarrow", "typer", "rich", "matplotlib", "plotly", "jinja2", "fastcluster"]


FIT_WITHOUT_OPTIONAL = """
import os, sys
source, *optional = sys.argv[1:]
sys.path.insert(0, source)
before = dict(os.environ)
import spherepair
assert dict(os.environ) == before
class Block:  # importing one of them now fails
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in optional:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
import numpy as np
from spherepair import Constraints, SpherePair
pairs = Constraints.from_labels(np.arange(20) % 2, 150, random_state=0)
model = SpherePair(hidden_dims=(4,), max_epochs=1, pretraining=None, batch_size=100)
print(model.fit_predict(np.eye(20), constraints=pairs).shape)
# scikit-learn sets KMP_ variables when it is loaded.
print([name for name in {**os.environ} if name not in before and name[:4] != "KMP_"])
"""


def test_public_names_are_those_of_the_design() -> None:
    names = {
        "ClusterNumber",
        "Constraints",
        "Interview",
        "Schedule",
        "SpherePair",
        "Terms",
        "infer_n_clusters",
        "load",
    }
    assert set(spherepair.__all__) == {*names, "__version__"}
    assert all(hasattr(spherepair, name) for name in spherepair.__all__)


def test_everything_public_has_a_docstring() -> None:
    documented = [getattr(spherepair, name) for name in spherepair.__all__ if name != "__version__"]
    for thing in (*documented, spherepair):
        assert thing.__doc__


def test_methods_of_the_design_exist() -> None:
    methods = ["fit", "predict", "transform", "fit_predict", "fit_transform"]
    methods += ["score_pairs", "refine", "save", "paper"]
    assert all(callable(getattr(spherepair.SpherePair, name)) for name in methods)
    methods = ["from_pairs", "from_labels", "from_groups", "read", "write", "closure", "conflicts"]
    assert all(callable(getattr(spherepair.Constraints, name)) for name in methods)


def test_defaults_are_those_of_the_design() -> None:
    parameters = spherepair.SpherePair().get_params()
    expected = {
        "n_clusters": "auto",
        "embedding_dim": "auto",
        "hidden_dims": "auto",
        "omega": 2.0,
        "reconstruction_weight": 0.02,
        "terms": None,
        "pretraining": "joint",
        "scaling": "auto",
        "clustering": "kmeans",
        "tail_ratio": 0.05,
        "batch_size": 256,
        "max_epochs": 45,
        "learning_rate": 1e-3,
        "stopping": "settled",
        "schedule": None,
        "wrong_answers": "auto",
        "encoder": None,
        "device": "auto",
        "precision": "auto",
        "random_state": None,
        "progress": "auto",
    }
    assert parameters == expected
    assert spherepair.Terms() == spherepair.Terms("auto", 0.2, 0.5)
    assert spherepair.Schedule() == spherepair.Schedule("auto", "auto", True)


def test_the_core_runs_without_any_optional_package_and_leaves_the_environment_unchanged() -> None:
    source = str(Path(spherepair.__file__).parents[1])
    command = [sys.executable, "-c", FIT_WITHOUT_OPTIONAL, source, *OPTIONAL]
    ours = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "MIMALLOC_PURGE_DELAY")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    answer = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=120)
    assert answer.stdout.splitlines() == ["(20,)", "[]"]
