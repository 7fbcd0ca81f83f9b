"""Attraction between neighbors: the literal formula, and a table that is made once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs
from sklearn.neighbors import NearestNeighbors
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from spherepair import Constraints, Schedule
from spherepair.errors import ConstraintWarning
from spherepair.losses import angular_losses
from spherepair.metrics import clustering_accuracy
from spherepair.terms import row_terms
from spherepair.terms.row_terms import N_NEIGHBORS, NeighborAttraction, term_rows
from spherepair.training.batches import Batch

CPU = torch.device("cpu")
NO_ENDS = torch.empty(0, dtype=torch.int64)


def loss_of(term: Any, batch: Batch, z: Tensor) -> Tensor:
    """The term as the objective has it."""
    (loss,) = angular_losses([term.pairs(batch, z)])
    return loss


def make_term(n_rows: int, *, weight: float = 0.3, seed: int = 0) -> NeighborAttraction:
    rows = term_rows(n_rows, NO_ENDS, seed=seed, device=CPU)
    return NeighborAttraction(rows, weight=weight, seed=seed)


def make_batch(n_rows: int) -> Batch:
    """A step of rows alone."""
    none = torch.zeros(0)
    index = torch.arange(n_rows)
    return Batch(torch.zeros(n_rows, 2), none.bool(), none, torch.ones(n_rows), index)


def on_circle(degrees: Any) -> Tensor:
    angles = torch.deg2rad(torch.as_tensor(degrees, dtype=torch.float64))
    return torch.stack([angles.cos(), angles.sin()], dim=1)


class Embedding:
    """Unit vectors by position; notes how often it was asked."""

    def __init__(self, z: Tensor) -> None:
        self.z, self.n_calls = z, 0

    def __call__(self, index: Tensor) -> Tensor:
        self.n_calls += 1
        return self.z[index]


def random_embedding(n: int, seed: int = 0) -> Embedding:
    return Embedding(F.normalize(torch.randn(n, 4, generator=torch.Generator().manual_seed(seed)), dim=1))


def test_loss_is_the_mean_of_the_literal_formula_over_anchors_and_companions():
    angles = [0.0, 20.0, 40.0]
    z = torch.cat([on_circle([0.0, 90.0, 180.0]), on_circle([0.0, 110.0, 220.0])])
    literal = sum(-math.log((math.cos(math.radians(a)) + 1) / 2) for a in angles) / 3
    assert loss_of(make_term(10, weight=0.3), make_batch(6), z).item() == pytest.approx(0.3 * literal)


def test_the_row_in_the_middle_of_an_odd_number_takes_no_part():
    z = on_circle([0.0, 90.0, 77.0, 10.0, 100.0]).requires_grad_()
    loss_of(make_term(10), make_batch(5), z).backward()
    assert torch.equal(z.grad[2], torch.zeros(2, dtype=torch.float64))
    assert (z.grad[[0, 1, 3, 4]].norm(dim=1) > 0).all()


def test_each_anchor_is_coupled_with_its_own_companion_alone():
    z = on_circle([0.0, 90.0, 10.0, 100.0])

    def gradient(rows: Tensor) -> Tensor:
        rows = rows.clone().requires_grad_()
        loss_of(make_term(10), make_batch(4), rows).backward()
        return rows.grad

    moved = torch.cat([z[:1], on_circle([45.0]), z[2:]])
    assert torch.allclose(gradient(z)[[0, 2]], gradient(moved)[[0, 2]])
    assert not torch.allclose(gradient(z)[3], gradient(moved)[3])


def test_a_step_pulls_neighbors_together():
    z = on_circle([0.0, 30.0]).requires_grad_()
    loss_of(make_term(10), make_batch(2), z).backward()
    stepped = F.normalize(z - 0.1 * z.grad, dim=1)
    assert stepped[0] @ stepped[1] > z[0] @ z[1]


@pytest.mark.parametrize(("n_pairs", "factor"), [(300, 1.0), (1000, 1.0), (5000, 0.2), (10_000, 0.1)])
def test_neighbors_in_different_clusters_weigh_less_where_pairs_are_many(n_pairs, factor):
    z = torch.cat([on_circle([0.0, 90.0]), on_circle([20.0, 130.0])])
    seen = []

    def differ(left, right):
        seen.append((left.tolist(), right.tolist()))
        return torch.tensor([False, True])

    term = make_term(10, weight=0.3)
    term.weaken_where(differ, n_pairs)
    near, far = (-math.log((math.cos(math.radians(a)) + 1) / 2) for a in (20.0, 40.0))
    found = loss_of(term, make_batch(4), z).item()
    assert found == pytest.approx(0.3 * (near + factor * far) / 2)
    assert seen == ([] if n_pairs <= 1000 else [([0, 1], [2, 3])])


def test_a_step_with_a_single_row_costs_nothing():
    z = on_circle([30.0]).requires_grad_()
    loss = loss_of(make_term(10), make_batch(1), z)
    loss.backward()
    assert loss.item() == 0.0
    assert torch.equal(z.grad, torch.zeros_like(z))


def test_before_the_first_epoch_rows_stand_for_their_own_neighbors():
    assert torch.equal(make_term(9).table, torch.arange(9)[:, None].repeat(1, 1 + N_NEIGHBORS))


@pytest.mark.parametrize("n_rows", [3, 5, 6, 100])
def test_the_table_holds_the_nearest_rows(n_rows):
    term, embed = make_term(n_rows), random_embedding(n_rows)
    term.on_epoch_start(0, embed)
    k = min(N_NEIGHBORS, n_rows - 1)
    nearest = (embed.z @ embed.z.T - 9 * torch.eye(n_rows)).topk(k, dim=1).indices
    assert torch.equal(term.table[:, 0], torch.arange(n_rows))
    assert torch.equal(term.table[:, 1:], nearest)


def test_neighbors_are_looked_up_before_the_first_epoch_only():
    term, embed = make_term(50), random_embedding(50)
    term.on_epoch_start(0, embed)
    before = term.table.clone()
    for epoch in range(1, 30):
        term.on_epoch_start(epoch, random_embedding(50, seed=epoch))
    assert embed.n_calls == 1
    assert torch.equal(term.table, before)


def test_the_table_keeps_its_place_in_memory():
    """The batches hold on to it."""
    term = make_term(50)
    table = term.table
    term.on_epoch_start(0, random_embedding(50))
    assert table is term.table
    assert (table[:, 1] != table[:, 0]).all()


def test_the_table_comes_back_with_the_state_of_a_checkpoint():
    term, other = make_term(50), make_term(50)
    term.on_epoch_start(0, random_embedding(50))
    held = other.table
    other.load_state_dict(term.state_dict())
    assert set(term.state_dict()) == {"table"}
    assert torch.equal(held, term.table)


def test_the_same_seed_gives_the_same_table():
    tables = []
    for _ in range(2):
        term = make_term(700, seed=5)
        term.on_epoch_start(0, random_embedding(700))
        tables.append(term.table)
    assert torch.equal(*tables)


def test_of_a_large_table_a_sample_has_neighbors_within_the_sample(monkeypatch):
    monkeypatch.setattr(row_terms, "MAX_ROWS", 40)
    term, embed = make_term(1000), random_embedding(1000)
    term.on_epoch_start(0, embed)
    rows = term.table[:, 0]
    assert term.table.shape == (40, 1 + N_NEIGHBORS)
    assert torch.equal(rows, rows.unique())
    assert torch.isin(term.table, rows).all()
    z = embed.z[rows]
    nearest = rows[(z @ z.T - 9 * torch.eye(40)).topk(N_NEIGHBORS, dim=1).indices]
    assert torch.equal(term.table[:, 1:], nearest)


def test_sampled_rows_are_all_rows_while_there_are_few():
    assert term_rows(7, NO_ENDS, seed=0, device=CPU).tolist() == list(range(7))


def test_sampled_rows_are_different_in_order_and_depend_on_the_seed(monkeypatch):
    monkeypatch.setattr(row_terms, "MAX_ROWS", 100)
    rows = term_rows(1000, NO_ENDS, seed=0, device=CPU)
    assert (rows.diff() > 0).all()
    assert 0 <= int(rows[0]) < int(rows[-1]) < 1000
    assert len(rows) == 100
    assert torch.equal(rows, term_rows(1000, NO_ENDS, seed=0, device=CPU))
    assert not torch.equal(rows, term_rows(1000, NO_ENDS, seed=1, device=CPU))


@pytest.mark.parametrize(("n_ends", "n_taken"), [(30, 30), (300, 100)])
def test_rows_in_pairs_are_sampled_first(n_ends, n_taken, monkeypatch):
    monkeypatch.setattr(row_terms, "MAX_ROWS", 100)
    ends = torch.arange(0, 1000, 3)[:n_ends]
    rows = term_rows(1000, ends.repeat(2), seed=0, device=CPU)
    assert len(rows.unique()) == 100
    assert int(torch.isin(rows, ends).sum()) >= n_taken


#: A fit in which pseudo-pairs, which are made among the same rows, take part as well.
LONGER = {"hidden_dims": (16,), "max_epochs": 22, "stopping": "fixed"}


@pytest.mark.parametrize(("n_rows", "further"), [(2, {"pseudo_pairs"}), (3, {"neighbors", "pseudo_pairs"})])
def test_two_and_three_rows_are_enough(n_rows: int, further: set[str], make: Any) -> None:
    pairs = Constraints.from_pairs(cannot_link=[(0, 1)])
    with pytest.warns(ConstraintWarning):
        model = make(2, **LONGER).fit(np.eye(n_rows, 4, dtype=np.float32), constraints=pairs)
    assert further | {"pairs", "reconstruction"} == set(model.history_[-1]) - {
        "stage",
        "epoch",
        "loss",
        "seconds",
    }
    assert model.labels_[0] != model.labels_[1]


@pytest.mark.parametrize("reconstruction_rows", [1, 3, "all"])
def test_any_number_of_rows_in_a_step_will_do(
    reconstruction_rows: Any, make: Any, X: Any, y: Any, pairs: Any
) -> None:
    schedule = Schedule(min_steps=4, reconstruction_rows=reconstruction_rows)
    model = make(**LONGER, schedule=schedule).fit(X, constraints=pairs)
    assert clustering_accuracy(y, model.labels_) == 1.0


def test_a_fit_on_a_sample_of_the_rows_has_all_of_them_labelled(
    make: Any, X: Any, y: Any, pairs: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(row_terms, "MAX_ROWS", 40)
    model = make(**LONGER).fit(X, constraints=pairs)
    assert clustering_accuracy(y, model.labels_) == 1.0


@pytest.mark.parametrize(
    ("n_rows", "n_pairs", "is_different"),
    [(900, 900, False), (900, 1500, True), (90, 1500, False)],  # of 90 rows, most pairs follow from others
)
def test_what_clusters_say_of_neighbors_counts_in_a_fit_where_informative_pairs_are_many(
    n_rows: int, n_pairs: int, is_different: bool, make: Any, monkeypatch: Any
) -> None:
    X, y = make_blobs(n_rows, centers=3, n_features=4, random_state=0)
    pairs = Constraints.from_labels(y, n_pairs, random_state=0)

    def embedding(*, all_differ: bool) -> Any:
        answer = torch.full((1,), all_differ)
        monkeypatch.setattr(row_terms.PseudoPairs, "differ", lambda self, left, right: answer)
        return make(3, hidden_dims=(8,), max_epochs=2).fit(X, constraints=pairs).embedding_

    same = np.array_equal(embedding(all_differ=False), embedding(all_differ=True))
    assert same is not is_different


def test_pairs_win_where_neighbors_lie(make: Any) -> None:
    """What the eye sees are three blobs; the classes are the two sides of a weak feature."""
    blobs, _ = make_blobs(300, centers=3, n_features=4, random_state=0)
    side = np.random.default_rng(0).choice([-1.0, 1.0], 300)
    X, y = np.column_stack([blobs, 0.2 * side + 0.2 * blobs[:, 0]]).astype(np.float32), side > 0
    nearest = NearestNeighbors(n_neighbors=5).fit(X).kneighbors(return_distance=False)
    assert (y[nearest] == y[:, None]).mean() < 0.6
    pairs = Constraints.from_labels(y, 1000, random_state=0)
    settings = LONGER | {"max_epochs": 25, "hidden_dims": (128,), "batch_size": 64, "scaling": "none"}
    model = make(2, **settings).fit(X, constraints=pairs)
    assert clustering_accuracy(y, model.labels_) > 0.95
