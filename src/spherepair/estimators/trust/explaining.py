"""Names of clusters, and why a row is in its cluster: typical rows, answers, influential values or words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from spherepair import validation
from spherepair.encoders.shown import only_texts, shown_content
from spherepair.encoders.text import TextEncoder, as_texts
from spherepair.errors import InvalidDataError, InvalidParameterError
from spherepair.estimators.job import encode_rows, takes_raw_rows
from spherepair.estimators.trust.profiles import Profiles, profile_columns
from spherepair.files.arrow_rows import as_table
from spherepair.training.rows import open_rows

#: Rows whose words and values name groups, words and columns of a name, and how far out these must be, in
#: standard deviations.
NAMING_ROWS, NAME_PARTS, LEAST_DIFFERENCE = 4096, 3, 0.5
#: Columns, the most unusual ones, and words of a row that are taken out one at a time.
MOST_COLUMNS, MOST_WORDS = 256, 60
_TINY = 1e-12


@dataclass(frozen=True)
class Answer:
    """A pair of the fit near a row: positions of its rows, and "must-link" or "cannot-link"."""

    left: int
    right: int
    link: str


@dataclass(frozen=True)
class Influence:
    """A value or word of a row, and how much it speaks for the label: the change of log-odds without it."""

    name: str
    effect: float


@dataclass(frozen=True)
class Explanation:
    """Why a row is in a cluster.

    Attributes
    ----------
    label : int
    name : str
        Name of the cluster.
    confidence, novelty : float
        Probability that the label is right, and share of the training rows that lie less far out.
    runner_up : int
        The next probable cluster; -1 if there is only one.
    typical_rows : tuple of int
        Training rows of the cluster that are most like it, among those near the center.
    answers : tuple of Answer
        Pairs of the fit whose rows are most like it: they decided where such rows go.
    influences : tuple of Influence
        Values or words that mattered, the most important first.
    """

    label: int
    name: str
    confidence: float
    novelty: float
    runner_up: int
    typical_rows: tuple[int, ...]
    answers: tuple[Answer, ...]
    influences: tuple[Influence, ...]


class ExplainedClusterer:
    """Names of the clusters, and explanations of labels."""

    group_names_: list[str]

    def name_groups(
        self: Any,
        names: Mapping[int, str] | Sequence[str] | None = None,
        *,
        X: Any = None,
        feature_names: Sequence[str] | None = None,
    ) -> Any:
        """Give clusters names; the others keep theirs, or get them from words and values.

        ``fit`` proposes names where columns have names or rows are texts: what sets a group apart. They are
        in ``group_names_`` and saved with the model.

        Parameters
        ----------
        names : dict of int to str, or sequence of K str, optional
            Names by number of the cluster.
        X : the rows of the fit, optional
            To propose names for all clusters that are not in ``names``.
        feature_names : sequence of str, optional
            Names of the columns of ``X``, such as the words of a tf-idf matrix.

        Returns
        -------
        self

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from spherepair import Constraints, SpherePair
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> pairs = Constraints.from_labels(y, n_pairs=300, random_state=0)
        >>> model = SpherePair(3, hidden_dims=(16,), max_epochs=10, random_state=0).fit(X, constraints=pairs)
        >>> small = model.labels_[0]
        >>> print(model.group_names_[small])
        low petal length (cm), low petal width (cm), low sepal length (cm)
        >>> print(model.name_groups({small: "setosa"}).group_names_[small])
        setosa
        """
        check_is_fitted(self)
        found = list(self.group_names_)
        if X is not None:
            X = as_table(X)
            if (X.shape[0] if hasattr(X, "shape") else len(X)) != len(self.labels_):
                raise InvalidDataError(f"X must hold the {len(self.labels_)} rows of the fit to name groups.")
            found = propose_names(self, X, feature_names=feature_names)
        given = names.items() if isinstance(names, Mapping) else enumerate(names or ())
        for number, name in given:
            if not 0 <= number < self.n_clusters_:
                raise InvalidParameterError(
                    f"names: there is no cluster {number}; there are {self.n_clusters_}, counted from 0."
                )
            found[number] = str(name)
        self.group_names_ = found
        return self

    def explain(
        self: Any, X: Any, *, n_examples: int = 5, feature_names: Sequence[str] | None = None
    ) -> Explanation:
        """Why a row is in its cluster.

        Parameters
        ----------
        X : as in fit, with a single row
        n_examples : int, default=5
            Typical rows, answers and influences to name.
        feature_names : sequence of str, optional
            Names of the columns where ``X`` has none.

        Returns
        -------
        Explanation

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from spherepair import Constraints, SpherePair
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> pairs = Constraints.from_labels(y, n_pairs=300, random_state=0)
        >>> model = SpherePair(3, hidden_dims=(16,), max_epochs=10, random_state=0).fit(X, constraints=pairs)
        >>> why = model.explain(X[:1])
        >>> bool(why.label == model.labels_[0]), len(why.typical_rows), len(why.influences)
        (True, 5, 4)
        """
        found = self.assess(X)
        if len(found.labels) != 1:
            raise InvalidDataError(f"explain takes one row at a time, got {len(found.labels)} instead.")
        label = int(found.labels[0])
        x = _scaled(self, encode_rows(self, X, reset=False))
        with torch.no_grad():
            z = self._embed(self.network_, x).cpu().numpy()
        order = np.argsort(-self._probabilities()(torch.from_numpy(z).to(x.device))[0].cpu().numpy())
        others = order[order != label]
        distance = np.linalg.norm(self.embedding_ - z, axis=1)
        influences = _influences(self, X, x, label, feature_names)
        return Explanation(
            label=label,
            name=self.group_names_[label],
            confidence=float(found.confidence[0]),
            novelty=float(found.novelty[0]),
            runner_up=int(others[0]) if len(others) else -1,
            typical_rows=_typical_rows(self, label, distance, n_examples),
            answers=_answers(self, distance, n_examples),
            influences=tuple(influences[:n_examples]),
        )

    def _keep_names(self: Any) -> None:
        """Names after a refinement: clusters keep theirs, new ones are numbered."""
        known = self.group_names_[: self.n_clusters_]
        self.group_names_ = known + default_names(self.n_clusters_)[len(known) :]


def default_names(n_clusters: int) -> list[str]:
    """Names where nothing is known.

    Examples
    --------
    >>> default_names(2)
    ['group 0', 'group 1']
    """
    return [f"group {number}" for number in range(n_clusters)]


def propose_names(
    model: Any, X: Any, table: Any = None, *, feature_names: Sequence[str] | None = None
) -> list[str]:
    """Names of the clusters from words and values that set them apart, (K,).

    Parameters
    ----------
    model : fitted estimator
    X : rows of the fit as the user has them
    table : ndarray or CSR matrix of shape (n_rows, n_features), optional
        The same as numbers; ``X`` where there is no encoder.
    feature_names : sequence of str, optional
    """
    n_clusters, labels = model.n_clusters_, model.labels_
    rows = np.unique(np.linspace(0, len(labels) - 1, NAMING_ROWS).astype(np.int64))
    names, shown = feature_names or getattr(model, "feature_names_in_", None), table
    if takes_raw_rows(model):
        content = shown_content(model.encoder_, _some_rows(X, rows)) if _has_words(model.encoder_) else None
        if content is None:
            return default_names(n_clusters)
        shown, names = content[:2]
    elif names is None:
        return default_names(n_clusters)
    else:
        shown = validation.check_table(model, X, reset=False)[rows] if table is None else table[rows]
    profiles = profile_columns(shown, labels[rows], n_clusters=n_clusters)
    is_flag = _are_flags(shown)
    found = [_name(profiles, k, [str(name) for name in names], is_flag) for k in range(n_clusters)]
    # Two groups of one name could not be told apart.
    return [
        default if not name else f"{name} ({number})" if found.count(name) > 1 else name
        for number, (name, default) in enumerate(zip(found, default_names(n_clusters), strict=True))
    ]


def _name(profiles: Profiles, cluster: int, names: list[str], is_flag: bool) -> str:
    """Words that a group has more often than others, or columns in which it is high or low."""
    z = profiles.standardized(profiles.cluster_means[cluster] - profiles.mean)
    if is_flag:
        z = np.maximum(z, 0.0)  # that a word is missing is no name
    places = np.argsort(-np.abs(z), kind="stable")[:NAME_PARTS]
    places = places[np.abs(z[places]) >= min(LEAST_DIFFERENCE, np.abs(z).max(initial=0.0) - _TINY)]
    parts = [names[k] if is_flag else f"{'high' if z[k] > 0 else 'low'} {names[k]}" for k in places.tolist()]
    return ", ".join(parts)


def _are_flags(table: Any) -> bool:
    """Whether a table says which words are there: zeros mostly, and nothing below."""
    values = table[: min(64, table.shape[0])]
    dense = np.asarray(values.toarray() if hasattr(values, "toarray") else values)
    return bool(dense.min(initial=0.0) >= 0 and np.mean(dense == 0) > 0.5)


def _has_words(encoder: Any) -> bool:
    """Whether raw rows hold more than pictures, which name nothing."""
    if not hasattr(encoder, "used_columns"):
        return isinstance(encoder, TextEncoder)
    return len(encoder.used_columns("image")) < len(encoder.used_columns())


def _some_rows(X: Any, rows: NDArray[np.int64]) -> Any:
    """Some rows of whatever an encoder takes."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "take"):  # Arrow tables, arrays
        return X.take(rows) if hasattr(X, "schema") else np.asarray(X)[rows]
    return X[rows.tolist()] if hasattr(X, "columns") else [X[row] for row in rows.tolist()]


def _scaled(model: Any, encoded: Any) -> Tensor:
    table = validation.check_table(model, encoded, reset=False)
    return open_rows(table, model._scaling, model._hardware.device, keep=False).block(0, table.shape[0])


def _typical_rows(model: Any, label: int, distance: NDArray[Any], count: int) -> tuple[int, ...]:
    members = np.flatnonzero(model.labels_ == label)
    from_center = np.linalg.norm(model.embedding_[members] - model.cluster_centers_[label], axis=1)
    central = members[from_center <= np.median(from_center)] if len(members) else members
    return tuple(central[np.argsort(distance[central], kind="stable")][:count].tolist())


def _answers(model: Any, distance: NDArray[Any], count: int) -> tuple[Answer, ...]:
    pairs = model._trusted_pairs()
    nearness = np.minimum(distance[pairs.left], distance[pairs.right])
    chosen = pairs[np.argsort(nearness, kind="stable")[:count]]
    return tuple(
        Answer(pair.left, pair.right, "must-link" if pair.is_must_link else "cannot-link") for pair in chosen
    )


def _influences(
    model: Any, X: Any, x: Tensor, label: int, feature_names: Sequence[str] | None
) -> list[Influence]:
    """What the label loses, in log-odds, without each word or value; the most important first."""
    texts = only_texts(model.encoder_, X) if takes_raw_rows(model) else None
    if texts is not None:
        names, without = _without_words(model, X, as_texts(texts)[0])
    else:
        names, without = _without_values(model, x, feature_names)
    if not names:
        return []
    with torch.no_grad():
        odds = _log_odds(model, torch.cat([x, without]), label)
    found = [Influence(name, float(odds[0] - odd)) for name, odd in zip(names, odds[1:], strict=True)]
    return sorted(found, key=lambda influence: -abs(influence.effect))


def _log_odds(model: Any, x: Tensor, label: int) -> NDArray[np.float64]:
    p = model._probabilities()(model._embed(model.network_, x))[:, label].double()
    odds: NDArray[np.float64] = (p.clamp(_TINY, 1 - 1e-7) / (1 - p).clamp(min=1e-7)).log().cpu().numpy()
    return odds


def _without_words(model: Any, X: Any, text: str) -> tuple[list[str], Tensor]:
    words = list(dict.fromkeys(re.findall(r"\w+", text)))[:MOST_WORDS]
    shorter = [re.sub(rf"\b{re.escape(word)}\b", " ", text).strip() for word in words]
    kept = [(word, rest) for word, rest in zip(words, shorter, strict=True) if re.search(r"\w", rest)]
    if not kept:
        return [], torch.empty(0)
    rows: Any = [rest for _, rest in kept]
    if hasattr(model.encoder_, "used_columns"):
        import pyarrow as pa

        rows = pa.table({model.encoder_.used_columns()[0]: rows})
    return [word for word, _ in kept], _scaled(model, encode_rows(model, rows, reset=False))


def _without_values(model: Any, x: Tensor, feature_names: Sequence[str] | None) -> tuple[list[str], Tensor]:
    """The row with one column after the other as in a mean row."""
    mean = model.novelty_scale_.region.mean.to(x.device)
    groups = _columns(model, x.shape[1], feature_names)
    far = np.array([float((x[0, places] - mean[places]).abs().sum()) for _, places in groups])
    chosen = [groups[place] for place in np.argsort(-far, kind="stable")[:MOST_COLUMNS]]
    without = x.repeat(len(chosen), 1)
    for line, (_, places) in enumerate(chosen):
        without[line, places] = mean[places]
    return [name for name, _ in chosen], without


def _columns(model: Any, n_columns: int, feature_names: Sequence[str] | None) -> list[tuple[str, list[int]]]:
    """Columns as people know them, and where their numbers stand."""
    encoder: Any = getattr(model, "encoder_", None)
    if hasattr(encoder, "plans_"):
        stops = np.cumsum([len(plan.outputs) for plan in encoder.plans_])
        return [
            (plan.name, list(range(int(stop) - len(plan.outputs), int(stop))))
            for plan, stop in zip(encoder.plans_, stops, strict=True)
            if plan.outputs
        ]
    names = feature_names or getattr(model, "feature_names_in_", None)
    if names is None:
        names = [f"column {place}" for place in range(n_columns)]
    return [(str(name), [place]) for place, name in enumerate(names)]
