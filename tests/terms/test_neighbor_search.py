"""Approximate neighbors: exact in one leaf, close to exact beyond, and always other rows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from spherepair.terms import neighbor_search
from spherepair.terms.neighbor_search import LEAF_ROWS, nearest_neighbors

#: Around one leaf, one row more than whole leaves, primes, thousands.
ODD_SIZES = [2, 3, 7, 127, 128, 129, 131, 255, 257, 512, 513, 997, 1000, 2049, 4099]
#: The rows of the last leaf: one. The size of a leaf is 65, and 64 places are empty.
LONELY = 128 * 65 - 64


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def blobs(n: int, *, n_clusters: int = 10, n_dims: int = 8, seed: int = 0) -> Tensor:
    generator = seeded(seed)
    centers = 4 * torch.randn(n_clusters, n_dims, generator=generator)
    which = torch.randint(n_clusters, (n,), generator=generator)
    return centers[which] + torch.randn(n, n_dims, generator=generator)


def find(x: Tensor, k: int = 5, *, seed: int = 0) -> Tensor:
    return nearest_neighbors(x, k, generator=seeded(seed))


def distances(x: Tensor) -> Tensor:
    return torch.cdist(x, x).fill_diagonal_(torch.inf)


def assert_other_rows(found: Tensor, n: int, k: int) -> None:
    assert found.shape == (n, k)
    assert found.dtype == torch.int64
    assert 0 <= int(found.min()) <= int(found.max()) < n
    assert not (found == torch.arange(n)[:, None]).any()
    assert (found.sort(dim=1).values.diff(dim=1) > 0).all()


@pytest.mark.parametrize("n", [2, 3, 17, LEAF_ROWS - 1, LEAF_ROWS])
def test_neighbors_are_exact_and_nearest_first_where_all_rows_fit_into_one_leaf(n):
    x, k = blobs(n), min(5, n - 1)
    assert torch.equal(find(x, k), distances(x).topk(k, largest=False).indices)


def test_all_other_rows_can_be_asked_for():
    found = find(blobs(20), 19)
    assert_other_rows(found, 20, 19)


@pytest.mark.parametrize("spherical", [False, True])
def test_neighbors_of_thousands_of_rows_are_nearly_exact(spherical):
    x = blobs(4000)
    x = F.normalize(x, dim=1) if spherical else x
    far, found = distances(x), find(x)
    exact = far.topk(5, largest=False)
    recall = (found[:, :, None] == exact.indices[:, None]).any(dim=2).float().mean()
    assert recall > 0.9
    assert far.gather(1, found).mean() < 1.02 * exact.values.mean()


def test_neighbors_come_nearest_first():
    x = blobs(1500)
    assert (distances(x).gather(1, find(x)).diff(dim=1) >= -1e-4).all()


def test_several_trees_find_more_than_one(monkeypatch):
    x = blobs(4000)
    exact = distances(x).topk(5, largest=False).indices

    def recall(n_trees):
        monkeypatch.setattr(neighbor_search, "TREES", n_trees)
        return (find(x)[:, :, None] == exact[:, None]).any(dim=2).float().mean()

    assert recall(4) > recall(1) + 0.1


def test_neighbors_of_separate_clusters_stay_within_them():
    which = torch.arange(3000) % 3
    x = 100.0 * F.one_hot(which, 3) + torch.randn(3000, 3, generator=seeded())
    assert (which[find(x)] == which[:, None]).float().mean() > 0.99


@pytest.mark.parametrize("n", ODD_SIZES)
def test_neighbors_are_other_rows_and_all_different(n):
    k = min(5, n - 1)
    assert_other_rows(find(blobs(n), k), n, k)


@pytest.mark.parametrize("n", [5, 129, 1000])
def test_identical_rows_are_neighbors_of_each_other(n):
    assert_other_rows(find(torch.ones(n, 4), 4), n, 4)


def test_a_row_that_is_alone_in_the_leaf_of_every_tree_gets_rows_that_exist():
    """Identical rows are parted in the same way by every tree, and the last one is then alone."""
    found = find(torch.ones(LONELY, 4))
    assert int(found.max()) < LONELY


def test_leaves_hold_every_row_once():
    for n in [*ODD_SIZES, LONELY]:
        padded = torch.cat([blobs(n), torch.zeros(1, 8)])
        trees = neighbor_search._leaves(padded, 2, seeded())
        assert trees.shape[2] <= LEAF_ROWS
        for leaves in trees:
            rows = leaves[leaves < n]
            assert torch.equal(rows.sort().values, torch.arange(n))


def test_the_same_seed_finds_the_same_neighbors():
    x = blobs(1000)
    assert torch.equal(find(x, seed=3), find(x, seed=3))


def test_the_global_generator_is_left_alone():
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    find(blobs(300))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_how_leaves_are_cut_into_chunks_changes_nothing(monkeypatch):
    x = blobs(2000)
    whole = find(x)
    monkeypatch.setattr(neighbor_search, "CHUNK_ENTRIES", {"cpu": 3 * 125 * (125 + 8)})
    assert torch.equal(find(x), whole)


@pytest.mark.parametrize("at_once", [1, 3])
def test_trees_may_be_grown_a_few_at_a_time(at_once, monkeypatch):
    x, grown, leaves = blobs(4000), [], neighbor_search._leaves
    monkeypatch.setattr(neighbor_search, "GROWN_ENTRIES", at_once * x.numel() + 1)
    monkeypatch.setattr(neighbor_search, "_leaves", lambda x, n, g: grown.append(n) or leaves(x, n, g))
    exact = distances(x).topk(5, largest=False).indices
    assert (find(x)[:, :, None] == exact[:, None]).any(dim=2).float().mean() > 0.9
    assert grown == {1: [1, 1, 1, 1], 3: [3, 1]}[at_once]


def test_rows_are_not_changed():
    x = blobs(500)
    before = x.clone()
    find(x)
    assert torch.equal(x, before)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 5), (5, 6)])
def test_more_neighbors_than_other_rows_are_refused(n, k):
    with pytest.raises(ValueError, match=rf"must be below the number of rows, {n}, got {k} instead"):
        find(blobs(n), k)
