"""Estimators by the names that experiments use: ``"SpherePair"``, ``"SpherePair.paper"``, ``"CIDEC"``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from spherepair.errors import InvalidParameterError
from spherepair.estimators.loading import ESTIMATORS
from spherepair.training.pretraining import PRETRAINING


def build_method(name: str, n_clusters: int, *, parameters: Mapping[str, Any], seed: int) -> Any:
    """An unfitted estimator.

    Parameters
    ----------
    name : str
        Of an estimator, or of an estimator and its protocol with a dot between them.
    n_clusters : int
        Used unless the parameters give another.
    parameters : mapping
        As written in an experiment.
    seed : int

    Examples
    --------
    >>> model = build_method("SpherePair.paper", 10, parameters={"pretraining": "none"}, seed=0)
    >>> model.pretraining is None, model.stopping
    (True, 'released-code')
    """
    decoded = {key: _decode(key, value) for key, value in parameters.items()}
    settings = {"n_clusters": n_clusters, "random_state": seed, "progress": False, **decoded}
    try:
        return find_method(name)(**settings)
    except TypeError as error:
        raise InvalidParameterError(f"{name} does not take these parameters: {error}.") from error


def find_method(name: str) -> Callable[..., Any]:
    """The class, or the class method, of that name."""
    estimator, _, protocol = name.partition(".")
    if estimator not in ESTIMATORS:
        raise InvalidParameterError(
            f"estimator must be one of {', '.join(sorted(ESTIMATORS))}, got {name!r} instead."
        )
    if protocol not in ("", "paper") or (protocol and not hasattr(ESTIMATORS[estimator], protocol)):
        raise InvalidParameterError(f"{estimator} has no protocol {protocol!r}; write {estimator!r}.")
    found: Callable[..., Any] = ESTIMATORS[estimator]
    return getattr(found, protocol) if protocol else found


def require_known(names: Iterable[str]) -> None:
    """Refuse unknown methods before anything is run."""
    for name in names:
        find_method(name)


def _decode(name: str, value: Any) -> Any:
    """TOML has no None, and no objects: "none", and tables with a kind, stand for them."""
    if name != "pretraining":
        return value
    if isinstance(value, Mapping):
        settings = dict(value)
        kind = settings.pop("kind", None)
        if kind not in PRETRAINING:
            raise InvalidParameterError(
                f"pretraining: kind must be one of {', '.join(PRETRAINING)}, got {kind!r} instead."
            )
        make: Callable[..., Any] = PRETRAINING[kind]
        return make(**settings)
    return None if value == "none" else value
