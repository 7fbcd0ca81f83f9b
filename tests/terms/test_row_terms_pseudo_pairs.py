"""Pseudo-pairs: the literal formula, balanced confidence, and no word against the true pairs."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from spherepair import Constraints, Schedule, Terms
from spherepair.losses import angular_losses
from spherepair.metrics import clustering_accuracy
from spherepair.terms import row_terms
from spherepair.terms.row_terms import EVERY, KNOWN, UNKNOWN, PseudoPairs, confident_labels
from spherepair.training.batches import Batch, PairTensors
from spherepair.training.pretraining import JointPretraining

CPU = torch.device("cpu")
OMEGA = 2.0
ALL = torch.ones(3, 3, dtype=torch.bool)


def loss_of(term: Any, batch: Batch, z: Tensor) -> Tensor:
    """The term as the objective has it."""
    (loss,) = angular_losses([term.pairs(batch, z)], omega=OMEGA)
    return loss


def make_pairs(must: Any = (), cannot: Any = ()) -> PairTensors:
    ends = torch.tensor([*must, *cannot], dtype=torch.int64).reshape(-1, 2)
    is_must_link = torch.arange(len(ends)) < len(must)
    return PairTensors(ends[:, 0], ends[:, 1], is_must_link, torch.ones(len(ends)))


def make_term(n_rows: int, pairs: PairTensors | None = None, **options: Any) -> PseudoPairs:
    settings = {"weight": 0.5, "n_clusters": 3, "first_epoch": 0, "seed": 0, "device": CPU}
    rows = options.pop("rows", torch.arange(n_rows))
    return PseudoPairs(n_rows, rows, pairs or make_pairs(), **(settings | options))


def make_batch(index: Any) -> Batch:
    none = torch.zeros(0)
    index = torch.as_tensor(index)
    return Batch(torch.zeros(len(index), 2), none.bool(), none, torch.ones(len(index)), index)


def labelled(labels: list[int], agrees: Tensor | None = None, **options: Any) -> PseudoPairs:
    """A term that has looked at the clusters already."""
    term = make_term(len(labels), **options)
    term.weight = 0.5  # as beside pairs enough
    term.labels.copy_(torch.tensor(labels))
    term.clusters.copy_(torch.tensor(labels))
    term.agrees.copy_(ALL if agrees is None else agrees)
    return term


def random_rows(n: int, seed: int = 0) -> Tensor:
    return torch.randn(n, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def slow_loss(z: Tensor, labels: list[int], agrees: Tensor, weight: float = 0.5) -> Tensor:
    """Every pair by itself, after Eq. 1 of the paper."""
    total, n = z.new_zeros(()), 0
    for i in range(len(labels)):
        for j in range(len(labels)):
            if i == j or labels[i] < 0 or labels[j] < 0 or not agrees[labels[i], labels[j]]:
                continue
            theta = F.cosine_similarity(z[i], z[j], dim=0).acos()
            if labels[i] == labels[j]:
                total = total - ((theta.cos() + 1) / 2).log()
            else:
                total = total - (1 - ((OMEGA * theta).clamp(max=math.pi).cos() + 1) / 2).log()
            n += 1
    return weight * total / n


LABELS = [0, 0, 1, UNKNOWN, 1, 2, 0, UNKNOWN, 2, 1]
SOME = ALL.clone()
SOME[0, 1] = SOME[1, 0] = SOME[2, 2] = False


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("agrees", [ALL, SOME])
def test_loss_equals_a_slow_double_loop_in_value_and_gradient(agrees, device, monkeypatch):
    """The first half of a step's rows are those among which pairs are made, on a GPU as on a CPU."""
    term, batch = labelled(LABELS, agrees), make_batch([*range(10), *[0] * 10])
    if device == "cuda":
        monkeypatch.setattr(term, "_only_known", term._all)
    fast, slow = random_rows(20).requires_grad_(), random_rows(20).requires_grad_()
    value, literal = loss_of(term, batch, fast), slow_loss(slow[:10], LABELS, agrees)
    value.backward()
    literal.backward()
    assert value.item() == pytest.approx(literal.item(), rel=1e-6)
    assert torch.allclose(fast.grad, slow.grad, rtol=1e-6, atol=1e-12)


def test_there_are_no_pairs_before_the_clusters_are_known():
    group = labelled([UNKNOWN] * 10).pairs(make_batch([*range(10), *[0] * 10]), random_rows(20))
    assert [len(part) for part in group] == [0, 0, 0, 0]


def test_labels_are_those_of_the_rows_in_the_batch():
    index = [9, 4, 5, 3, 0, 8, 2]
    found = loss_of(labelled(LABELS), make_batch(index + [0] * 7), random_rows(14))
    literal = slow_loss(random_rows(14)[:7], [LABELS[i] for i in index], ALL)
    assert found.item() == pytest.approx(literal.item(), rel=1e-6)


def test_unknown_rows_and_companions_get_no_gradient():
    z = random_rows(20).requires_grad_()
    loss_of(labelled(LABELS), make_batch([*range(10), *[0] * 10]), z).backward()
    silent = torch.tensor([label == UNKNOWN for label in LABELS] + [True] * 10)
    assert torch.equal(z.grad[silent], torch.zeros_like(z.grad[silent]))
    assert (z.grad[~silent].norm(dim=1) > 0).all()


def test_a_row_is_not_paired_with_itself():
    """With the diagonal the mean would be smaller: a row is at no angle to itself."""
    z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    loss = loss_of(labelled([0, 0, 0, 0]), make_batch([0, 1, 2, 3]), z)
    assert loss.item() == pytest.approx(0.5 * math.log(2))


@pytest.mark.parametrize(
    ("labels", "agrees"),
    [
        ([UNKNOWN] * 8, ALL),
        ([0, *[UNKNOWN] * 7], ALL),
        ([0, 0, 1, 1] * 2, ~ALL),
    ],
)
@pytest.mark.parametrize("identical", [False, True])
def test_where_nothing_is_known_the_loss_is_zero_with_gradients_of_zero(labels, agrees, identical):
    z = (torch.ones(8, 3) if identical else random_rows(8).float()).requires_grad_()
    loss = loss_of(labelled(labels, agrees), make_batch(range(8)), z)
    loss.backward()
    assert loss.item() == 0.0
    assert torch.equal(z.grad, torch.zeros(8, 3))


@pytest.mark.parametrize("z", [torch.ones(8, 3), torch.zeros(8, 3)])
def test_gradients_are_finite_where_all_rows_coincide(z):
    z = z.clone().requires_grad_()
    loss = loss_of(labelled([0, 1, 0, 1] * 2), make_batch(range(8)), z)
    loss.backward()
    assert math.isfinite(loss.item())
    assert torch.isfinite(z.grad).all()


def test_pairs_are_made_among_so_many_anchors_at_most(monkeypatch):
    monkeypatch.setattr(row_terms, "MAX_ROWS_OF_STEP", 3)
    found = loss_of(labelled(LABELS), make_batch([*range(10), *[0] * 10]), random_rows(20))
    literal = slow_loss(random_rows(20)[:3], LABELS[:3], ALL)
    assert found.item() == pytest.approx(literal.item(), rel=1e-6)


@pytest.mark.parametrize(("n_pairs", "weight"), [(0, 0.0), (300, 0.15), (1000, 0.5), (10_000, 0.05)])
def test_the_weight_is_full_beside_a_thousand_pairs_and_less_beside_fewer_or_more(n_pairs, weight):
    pairs = make_pairs(must=[(0, 1)] * n_pairs)
    assert make_term(10, pairs, weight=0.5).weight == pytest.approx(weight)


def test_pairs_that_follow_from_others_do_not_change_the_weight():
    pairs = make_pairs(must=[(0, 1)] * 10_000)
    assert make_term(10, pairs, weight=0.5, n_informative=1000).weight == pytest.approx(0.5)


def test_rows_differ_where_they_are_seen_in_clusters_that_the_pairs_agree_are_different():
    agrees = torch.tensor([[True, True, False], [True, True, True], [False, True, True]])
    term = labelled([0, 0, 1, 2, UNKNOWN], agrees)
    left, right = torch.tensor([0, 0, 0, 2, 0, 4]), torch.tensor([1, 2, 3, 3, 4, 4])
    assert term.differ(left, right).tolist() == [False, True, False, True, False, False]


def test_a_look_leaves_the_cluster_of_every_row():
    z = F.normalize(random_rows(60), dim=1)
    term = make_term(60, first_epoch=0)
    term.on_epoch_start(0, lambda index: z[index])
    known = term.labels != UNKNOWN
    assert (term.clusters >= 0).all()
    assert torch.equal(term.clusters[known], term.labels[known])
    assert 0 < known.sum() < 60


def test_before_the_first_look_nothing_is_known():
    term = make_term(10, first_epoch=10)
    assert (term.labels == UNKNOWN).all()
    assert loss_of(term, make_batch(range(10)), random_rows(10)).item() == 0.0


def random_similarity(n: int, n_clusters: int, seed: int = 0) -> Tensor:
    return torch.rand(n, n_clusters, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.7, 1.0])
def test_the_same_share_of_every_cluster_is_known(share):
    """However unequal the clusters, and however much surer one of them is."""
    similarity = random_similarity(1000, 4)
    similarity[:, 0] += 0.4  # the largest cluster
    similarity[similarity.argmax(dim=1) == 0, 0] += 1.0  # and the most confident by far
    labels, known = similarity.argmax(dim=1), confident_labels(similarity, share)
    sizes = torch.bincount(labels, minlength=4)
    assert torch.equal(torch.bincount(known[known >= 0], minlength=4), (share * sizes).ceil().long())
    assert torch.equal(known[known >= 0], labels[known >= 0])


def test_the_rows_that_are_known_lead_by_more_than_those_that_are_not():
    similarity = random_similarity(500, 3)
    best = similarity.topk(2, dim=1)
    labels, lead = best.indices[:, 0], best.values[:, 0] - best.values[:, 1]
    known = confident_labels(similarity, 0.6)
    for cluster in range(3):
        within = labels == cluster
        assert lead[within & (known >= 0)].min() >= lead[within & (known < 0)].max()


def test_of_rows_that_are_equally_sure_the_first_are_known():
    similarity = torch.tensor([[1.0, 0.0]]).repeat(10, 1)
    assert confident_labels(similarity, 0.7).tolist() == [0] * 7 + [UNKNOWN] * 3


def test_an_empty_cluster_does_no_harm():
    similarity = random_similarity(50, 3)
    similarity[:, 1] = -1.0
    known = confident_labels(similarity, 0.5)
    assert set(known.tolist()) == {UNKNOWN, 0, 2}


def test_a_cluster_of_one_row_is_known():
    similarity = torch.tensor([[0.9, 0.1], [0.8, 0.1], [0.7, 0.1], [0.49, 0.5]])
    assert confident_labels(similarity, 0.3).tolist() == [0, UNKNOWN, UNKNOWN, 1]


def circle(degrees: Any, spread: float = 3.0, n_each: int = 20) -> Tensor:
    """So many rows around each of the given directions, on a circle."""
    around = torch.as_tensor(degrees, dtype=torch.float32).repeat_interleave(n_each)
    noise = spread * torch.randn(len(around), generator=torch.Generator().manual_seed(0))
    angles = torch.deg2rad(around + noise)
    return torch.stack([angles.cos(), angles.sin()], dim=1)


def look(z: Tensor, pairs: PairTensors, n_clusters: int, **options: Any) -> PseudoPairs:
    """The term after its first look at an embedding."""
    term = make_term(len(z), pairs, n_clusters=n_clusters, **options)
    term.on_epoch_start(0, lambda index: z[index])
    return term


def label_of(term: PseudoPairs, group: int, n_each: int = 20) -> int:
    """The one cluster of the known rows of a group."""
    found = term.labels[group * n_each : (group + 1) * n_each]
    return int(found[found != UNKNOWN].unique().item())


def test_clusters_that_everybody_agrees_on_are_believed():
    z = circle([0, 120, 240])
    pairs = make_pairs(must=[(0, 1), (20, 21), (40, 41)], cannot=[(0, 20), (20, 40), (1, 41)])
    term = look(z, pairs, 3)
    assert term.agrees.all()
    assert len({label_of(term, group) for group in range(3)}) == 3
    assert int((term.labels >= 0).sum()) == 3 * math.ceil(KNOWN * 20)


def test_without_pairs_the_clusters_are_believed():
    assert look(circle([0, 120, 240]), make_pairs(), 3).agrees.all()


def test_a_class_that_is_cut_in_two_is_not_pushed_apart():
    """Groups 0 and 1 are one class, as must-links between them say."""
    z = circle([0, 60, 180])
    pairs = make_pairs(must=[(0, 20), (1, 21), (2, 22), (0, 1)], cannot=[(0, 40), (20, 41)])
    term = look(z, pairs, 3)
    one, other, third = (label_of(term, group) for group in range(3))
    assert not term.agrees[one, other]
    assert not term.agrees[other, one]
    assert term.agrees[one, third]
    assert term.agrees[[one, other, third], [one, other, third]].all()


def test_a_class_that_is_cut_in_two_gets_no_gradient_from_the_cut():
    z = circle([0, 60])
    term = look(z, make_pairs(must=[(0, 20), (1, 21), (2, 22)]), 2)
    rows = z[[0, 20, 0, 0]].clone().requires_grad_()
    term.labels[[0, 20]] = torch.tensor([0, 1], dtype=torch.int32)
    loss_of(term, make_batch([0, 20, 0, 0]), rows).backward()
    assert torch.equal(rows.grad, torch.zeros_like(rows))


def test_a_cluster_that_holds_two_classes_is_not_pulled_together():
    """Groups 0 and 1 lie so close that two clusters do not tell them apart; cannot-links do."""
    z = circle([0, 20, 180])
    pairs = make_pairs(must=[(0, 1), (40, 41)], cannot=[(0, 20), (1, 21), (2, 22), (0, 40)])
    term = look(z, pairs, 2)
    mixed, pure = label_of(term, 0), label_of(term, 2)
    assert label_of(term, 1) == mixed
    assert not term.agrees[mixed, mixed]
    assert term.agrees[pure, pure]
    assert term.agrees[mixed, pure]


def next_in_group(rows: Any, n_each: int = 20) -> Tensor:
    """A table of neighbours: the ten rows that come next in the group, but never one of its first three."""
    rows = torch.as_tensor(rows)
    places = rows % n_each
    further = 3 + (places[:, None] + torch.arange(10)) % (n_each - 3)
    return torch.cat([rows[:, None], (rows - places)[:, None] + further], dim=1)


def learned_by_heart() -> tuple[Tensor, PairTensors]:
    """Groups 0 and 1 lie in one cluster but for three rows of group 1, whose cannot-links are kept."""
    z = circle([0, 20, 180])
    z[20:23] = z[40:43]
    return z, make_pairs(must=[(0, 1), (40, 41)], cannot=[(0, 20), (1, 21), (2, 22), (0, 40)])


def test_neighbors_object_where_the_rows_of_pairs_have_been_put_where_they_belong():
    z, pairs = learned_by_heart()
    alone, asked = look(z, pairs, 2), look(z, pairs, 2, neighbors=next_in_group(range(60)))
    mixed, pure = label_of(asked, 0), label_of(asked, 2)
    assert alone.agrees.all()
    assert not asked.agrees[mixed, mixed]
    assert asked.agrees[pure, pure]
    assert asked.agrees[mixed, pure]


def test_rows_without_neighbors_speak_for_themselves():
    z, pairs = learned_by_heart()
    others = torch.arange(23, 60)  # none of the cannot-linked rows of group 1
    assert look(z, pairs, 2, neighbors=next_in_group(others)).agrees.all()


def test_neighbors_are_looked_up_anew_at_every_look():
    z, pairs = learned_by_heart()
    table = torch.arange(60)[:, None].repeat(1, 11)  # as before neighbours are known
    term = look(z, pairs, 2, neighbors=table)
    assert term.agrees.all()
    table.copy_(next_in_group(range(60)))
    term.on_epoch_start(EVERY, lambda index: z[index])
    assert not term.agrees.all()


@pytest.mark.parametrize("has_table", [False, True])
def test_of_a_large_table_pairs_outside_the_sample_are_heard(has_table):
    """Every third row has neighbours; ends beside those, and beyond the last, are looked at besides."""
    z, rows = circle([0, 60, 180]), torch.arange(0, 58, 3)
    must = [(i, 20 + i) for i in range(20)]
    pairs = make_pairs(must=must, cannot=[(0, 40), (20, 59)])
    neighbors = torch.stack([rows, rows], dim=1) if has_table else None
    term = look(z, pairs, 3, rows=rows, neighbors=neighbors)
    one, other, third = (int(term.clusters[place]) for place in (0, 20, 59))
    assert len({one, other, third}) == 3
    assert not term.agrees[one, other]
    assert term.agrees[other, third]


@pytest.mark.parametrize(
    ("n_wrong", "is_believed"), [(0, True), (1, True), (3, True), (4, False), (10, False)]
)
def test_a_few_pairs_may_object(n_wrong, is_believed):
    """With one that agrees for free, about two thirds of eleven must agree."""
    z = circle([0, 180])
    must = [(i, 20 + i) for i in range(n_wrong)]
    cannot = [(i, 20 + i) for i in range(n_wrong, 10)]
    assert bool(look(z, make_pairs(must, cannot), 2).agrees[0, 1]) is is_believed


def test_the_side_on_which_a_row_stands_in_a_pair_does_not_matter():
    z, must, cannot = circle([0, 60, 180]), [(0, 20), (21, 1), (2, 22)], [(0, 40), (41, 20)]
    one = look(z, make_pairs(must, cannot), 3)
    other = look(z, make_pairs([(b, a) for a, b in must], [(b, a) for a, b in cannot]), 3)
    assert torch.equal(one.agrees, other.agrees)
    assert torch.equal(one.agrees, one.agrees.T)


def test_clusters_are_looked_at_every_few_epochs_after_the_first():
    z, asked = circle([0, 120, 240]), []
    term = make_term(60, make_pairs(must=[(0, 1)]), first_epoch=4)

    def embed(index: Tensor) -> Tensor:
        asked.append(epoch)
        return z[index]

    for epoch in range(3 * EVERY):
        term.on_epoch_start(epoch, embed)
    assert sorted(set(asked)) == [4, 4 + EVERY, 4 + 2 * EVERY]


def test_a_later_look_replaces_the_first_in_the_same_place():
    """Captured steps read from these addresses."""
    z = circle([0, 120, 240])
    term = look(z, make_pairs(), 3)
    labels, agrees = term.labels, term.agrees
    before = labels.clone()
    term.on_epoch_start(EVERY, lambda index: z.flip(0)[index])
    assert term.labels is labels
    assert term.agrees is agrees
    assert not torch.equal(before, labels)


def test_of_a_large_table_a_sample_is_known():
    rows = torch.arange(0, 60, 2)
    term = look(circle([0, 120, 240]), make_pairs(must=[(0, 1)]), 3, rows=rows)
    assert torch.isin((term.labels >= 0).nonzero()[:, 0], rows).all()
    assert 21 <= int((term.labels >= 0).sum()) <= 24


def test_what_was_seen_comes_back_with_the_state_of_a_checkpoint():
    term = look(circle([0, 60, 180]), make_pairs(must=[(0, 20), (1, 21), (2, 22)]), 3)
    other = make_term(60)
    other.load_state_dict(term.state_dict())
    assert set(term.state_dict()) == {"labels", "clusters", "agrees"}
    assert torch.equal(other.labels, term.labels)
    assert torch.equal(other.clusters, term.clusters)
    assert torch.equal(other.agrees, term.agrees)


@pytest.mark.parametrize("n_clusters", [4, 9])
def test_an_embedding_survives_a_wrong_number_of_clusters(n_clusters: int, make: Any) -> None:
    """Six classes, cut into six afterwards: pairs have a veto, however much pseudo-pairs weigh."""
    X, y = make_blobs(300, centers=6, n_features=6, cluster_std=2.5, random_state=1)
    pairs = Constraints.from_labels(y, 150, random_state=0)
    settings = {"embedding_dim": 10, "max_epochs": 35, "batch_size": 64, "stopping": "fixed"}
    settings["wrong_answers"] = None
    settings["pretraining"] = JointPretraining(epochs=2, min_steps=5)
    settings["schedule"] = Schedule(min_steps=8)
    plain = make(n_clusters, terms=Terms(pseudo_pair_weight=0.0), **settings).fit(X, constraints=pairs)
    model = make(n_clusters, terms=Terms(pseudo_pair_weight=30.0), **settings).fit(X, constraints=pairs)
    assert model.score_pairs(pairs) > plain.score_pairs(pairs) - 0.03
    cut = KMeans(6, n_init=5, random_state=0).fit_predict(model.embedding_)
    assert clustering_accuracy(y, cut) > 0.97


def test_a_small_class_keeps_its_cluster(make: Any) -> None:
    """Ten rows beside three hundred, and pairs in proportion."""
    X, y = make_blobs([200, 100, 10], n_features=5, centers=None, cluster_std=1.5, random_state=3)
    pairs = Constraints.from_labels(y, 600, random_state=0)
    model = make(3, hidden_dims=(16,), max_epochs=40, stopping="fixed").fit(X, constraints=pairs)
    assert clustering_accuracy(y, model.labels_) == 1.0


@pytest.mark.parametrize(("neighbor_weight", "n_voters"), [(0.2, 5), (0.0, 1)])
def test_in_a_fit_and_a_refinement_neighbors_are_known_before_the_first_look(
    neighbor_weight: float, n_voters: int, make: Any, monkeypatch: Any
) -> None:
    X, y = make_blobs(90, centers=3, n_features=4, random_state=0)
    heard, true_voters = [], PseudoPairs._voters

    def witnesses(self: PseudoPairs, ends: Tensor) -> Tensor:
        found = true_voters(self, ends)
        heard.append((tuple(found.shape), bool((found == ends[:, None]).any())))
        return found

    monkeypatch.setattr(PseudoPairs, "_voters", witnesses)
    settings = {"hidden_dims": (8,), "max_epochs": 12, "batch_size": 32, "stopping": "fixed"}
    model = make(3, terms=Terms(neighbor_weight=neighbor_weight), **settings)
    model.fit(X, constraints=Constraints.from_labels(y, 50, random_state=0))
    first = len(heard)
    model.refine(Constraints.from_labels(y, 10, random_state=1))
    shapes, are_ends = zip(*heard, strict=True)
    assert set(shapes[:first]) == {(2 * 50, n_voters)}
    assert len(shapes) > first > 0
    assert set(are_ends) == {neighbor_weight == 0.0}


def test_clusters_that_are_known_at_the_start_are_not_looked_for(monkeypatch):
    z = circle([0, 120, 240])
    centers, n_cuts = F.normalize(z[[45, 5, 25]], dim=1), []
    monkeypatch.setattr(row_terms, "kmeans", lambda *args, **kwargs: n_cuts.append(1) or centers.flip(0))
    term = look(z, make_pairs(), 3, centers=centers)
    assert not n_cuts
    assert [label_of(term, group) for group in range(3)] == [1, 2, 0]
    term.on_epoch_start(EVERY, lambda index: z[index])
    assert n_cuts == [1]
    assert [label_of(term, group) for group in range(3)] == [1, 0, 2]


@pytest.mark.parametrize(("n_clusters", "n_cuts"), [(3, 0), (4, 1), (2, 1)])
def test_a_refinement_starts_from_the_clusters_it_has_unless_it_shall_have_others(
    n_clusters: int, n_cuts: int, make: Any, monkeypatch: Any
) -> None:
    X, y = make_blobs(90, centers=3, n_features=4, random_state=0)
    settings = {"hidden_dims": (8,), "max_epochs": 12, "batch_size": 32, "stopping": "fixed"}
    model = make(3, **settings).fit(X, constraints=Constraints.from_labels(y, 50, random_state=0))
    cuts, true_kmeans = [], row_terms.kmeans
    started_from, true_centers = [], PseudoPairs._centers
    monkeypatch.setattr(
        row_terms, "kmeans", lambda x, k, **options: cuts.append(k) or true_kmeans(x, k, **options)
    )
    monkeypatch.setattr(
        PseudoPairs,
        "_centers",
        lambda self, epoch, z: started_from.append(true_centers(self, epoch, z)) or started_from[-1],
    )
    before = torch.from_numpy(model.cluster_centers_)
    model.set_params(n_clusters=n_clusters).refine(Constraints.from_labels(y, 10, random_state=1))
    assert cuts == [n_clusters] * n_cuts
    assert len(started_from) == 1
    assert torch.equal(started_from[0], before) is (n_cuts == 0)
    assert model.n_clusters_ == n_clusters


def test_a_fit_counts_informative_pairs(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = make_blobs(60, centers=3, n_features=4, random_state=0)
    pairs = Constraints.from_labels(y, 60 * 59 // 2, random_state=0)
    seen: list[float] = []
    original = PseudoPairs.on_epoch_start
    monkeypatch.setattr(
        PseudoPairs,
        "on_epoch_start",
        lambda self, *args: (seen.append(self.weight), original(self, *args))[1],
    )
    make(3, max_epochs=1, terms=Terms(pseudo_pair_weight=0.5)).fit(X, constraints=pairs)
    assert seen[0] == pytest.approx(0.5 * (3 * 57 + 3) / 1000)
