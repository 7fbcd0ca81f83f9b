"""Entailed pairs: by themselves, and in a fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from spherepair import Constraints
from spherepair.errors import InvalidConstraintsError
from spherepair.estimators.entailed_pairs import with_entailed
from spherepair.training.batches import PairTensors


def tensors(pairs: Constraints) -> PairTensors:
    parts = (pairs.left, pairs.right, pairs.is_must_link, pairs.weight)
    return PairTensors(*(torch.tensor(part) for part in parts))


#: 0, 1 and 2 are one; 3 is another: (0, 2) must, (0, 3) and (1, 3) cannot.
CHAIN = Constraints.from_pairs(must_link=[(0, 1), (1, 2)], cannot_link=[(2, 3)], must_link_weight=[1.0, 0.5])


def test_given_pairs_come_first_and_what_follows_is_weighted() -> None:
    found = with_entailed(tensors(CHAIN), CHAIN, 0.5)
    ends = {(int(a), int(b)) for a, b in zip(found.left[3:], found.right[3:], strict=True)}
    assert torch.equal(found.left[:3], torch.tensor(CHAIN.left))
    assert torch.equal(found.weight[:3], torch.tensor(CHAIN.weight))
    assert {tuple(sorted(pair)) for pair in ends} == {(0, 2), (0, 3), (1, 3)}
    assert int(found.is_must_link[3:].sum()) == 1
    assert found.weight[3:].tolist() == [0.25] * 3  # half of the lightest pair they rest on


def test_without_weight_the_pairs_are_the_very_same() -> None:
    given = tensors(CHAIN)
    assert with_entailed(given, CHAIN, 0.0) is given


def test_where_nothing_follows_nothing_is_added() -> None:
    pairs = Constraints.from_pairs(must_link=[(0, 1)], cannot_link=[(2, 3)])
    assert len(with_entailed(tensors(pairs), pairs, 1.0)) == 2


def test_contradictions_are_explained() -> None:
    pairs = Constraints.from_pairs(must_link=[(0, 1), (1, 2)], cannot_link=[(0, 2)])
    with pytest.raises(InvalidConstraintsError):
        with_entailed(tensors(pairs), pairs, 1.0)


def test_in_a_fit_they_count_as_given_pairs_do(make: Any, X: Any, y: Any) -> None:
    """Of the parameters that look at the given pairs alone, all are switched off."""
    pairs = Constraints.from_labels(y, 80, random_state=0)
    alone = {"neighbor_weight": 0.0, "pseudo_pair_weight": 0.0, "max_epochs": 3, "batch_size": 32}
    plain = make(**alone).fit(X, constraints=pairs)
    entailed = make(entailed_weight=1.0, **alone).fit(X, constraints=pairs)
    closed = make(**alone).fit(X, constraints=pairs.closure())
    assert np.array_equal(entailed.embedding_, closed.embedding_)
    assert not np.array_equal(entailed.embedding_, plain.embedding_)
    assert len(entailed.constraints_) == 80
