"""Fits on answers of which some are wrong."""

from __future__ import annotations

import copy
import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris, make_blobs

from spherepair import Constraints, SpherePair, load
from spherepair.baselines import CIDEC, DCGMM, AutoEmbedder
from spherepair.clustering.answer_errors import Judge
from spherepair.errors import InvalidParameterError
from spherepair.estimators import judging
from spherepair.estimators.job import Job
from spherepair.estimators.reweighing import Reweighing
from spherepair.metrics import clustering_accuracy
from spherepair.training.batches import PairTensors
from spherepair.training.pretraining import JointPretraining

FAST = {
    "hidden_dims": (32,),
    "pretraining": JointPretraining(epochs=3, min_steps=60),
    "max_epochs": 12,
    "batch_size": 128,
    "random_state": 0,
    "device": "cpu",
    "progress": False,
    "wrong_answers": "auto",
}
#: Where the number of clusters is unknown, whole batches tell it apart from others in so few epochs.
UNKNOWN = FAST | {"batch_size": 256}


@pytest.fixture(scope="module")
def data() -> Any:
    return make_blobs(500, centers=5, n_features=6, cluster_std=2.0, random_state=3)


@pytest.fixture(scope="module")
def right(data: Any) -> Constraints:
    return Constraints.from_labels(data[1], 500, random_state=0)


@pytest.fixture(scope="module")
def wrong(right: Constraints) -> Any:
    return np.random.default_rng(1).random(len(right)) < 0.25


@pytest.fixture(scope="module")
def noisy(right: Constraints, wrong: Any) -> Constraints:
    return replace(right, is_must_link=right.is_must_link ^ wrong)


@pytest.fixture(scope="module")
def judged(data: Any, noisy: Constraints) -> SpherePair:
    return SpherePair(5, **FAST).fit(data[0], constraints=noisy)


@pytest.fixture(scope="module")
def judged_unknown(data: Any, noisy: Constraints) -> SpherePair:
    """The number of clusters is unknown."""
    return SpherePair(**UNKNOWN).fit(data[0], constraints=noisy)


def test_right_answers_give_the_plain_fit_bit_for_bit(data: Any, right: Constraints) -> None:
    model = SpherePair(5, **FAST).fit(data[0], constraints=right)
    plain = SpherePair(5, **FAST | {"wrong_answers": None}).fit(data[0], constraints=right)
    assert np.array_equal(model.embedding_, plain.embedding_)
    assert (model.pair_weights_ == 1.0).all()
    assert model.wrong_answers_.share < 0.01
    assert plain.wrong_answers_ is None


def test_wrong_answers_are_found_and_left_out(
    judged: SpherePair, data: Any, noisy: Constraints, wrong: Any
) -> None:
    assert judged.wrong_answers_.share == pytest.approx(wrong.mean(), abs=0.05)
    assert np.mean(judged.pair_weights_[wrong] < 0.5) > 0.85
    assert np.mean(judged.pair_weights_[~wrong] < 0.5) < 0.02
    plain = SpherePair(5, **FAST | {"wrong_answers": None}).fit(
        data[0], constraints=noisy, on_conflict="keep"
    )
    accuracy, before = (clustering_accuracy(data[1], model.labels_) for model in (judged, plain))
    assert accuracy > 0.95
    assert accuracy >= before
    assert len(judged.constraints_) == len(noisy)


def test_what_was_found_is_said(data: Any, noisy: Constraints, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, logger="spherepair"):
        SpherePair(5, **FAST | {"max_epochs": 4}).fit(data[0], constraints=noisy)
    assert "% of the answers are wrong" in caplog.text


def test_a_given_share_is_believed(data: Any, right: Constraints) -> None:
    model = SpherePair(5, **FAST | {"wrong_answers": 0.2, "max_epochs": 2}).fit(data[0], constraints=right)
    assert "weighed pairs" in {record["stage"] for record in model.history_}


def _interrupt_at(stage: str, epoch: int) -> Any:
    """What `progress` is told raises as Ctrl-C does, once that epoch is trained."""

    def stop(state: Any) -> None:
        if (state.stage, state.epoch) == (stage, epoch):
            raise KeyboardInterrupt

    return stop


def test_small_tables_are_pretrained_further_where_answers_are_wrong(
    data: Any, noisy: Constraints, monkeypatch: Any, tmp_path: Any
) -> None:
    # On a CPU a table of so few rows has 300 steps by default.
    steps = []
    monkeypatch.setattr(JointPretraining, "n_steps", lambda self, *_: steps.append(self.min_steps) or 10)
    quick = FAST | {"pretraining": "joint", "max_epochs": 5}
    right = Constraints.from_labels(data[1], 300, random_state=0)
    model = SpherePair(5, **quick).fit(data[0], constraints=right)
    plain = SpherePair(5, **quick | {"wrong_answers": None}).fit(data[0], constraints=right)
    assert set(steps) == {None}
    assert np.array_equal(model.embedding_, plain.embedding_)
    model.fit(data[0], constraints=noisy)
    assert 900 in steps
    assert "further pretraining" in {record["stage"] for record in model.history_}

    for stage in ("further pretraining", "weighed pairs"):  # the same fit, interrupted twice
        halted = SpherePair(5, **quick | {"progress": _interrupt_at(stage, 1)})
        with pytest.raises(KeyboardInterrupt):
            halted.fit(data[0], constraints=noisy, checkpoint=tmp_path)
    resumed = SpherePair(5, **quick).fit(data[0], constraints=noisy, checkpoint=tmp_path)
    assert np.array_equal(resumed.embedding_, model.embedding_)
    assert resumed.suspects(None) == model.suspects(None)
    assert [r["stage"] for r in resumed.history_] == [r["stage"] for r in model.history_]


def test_with_time_for_it_a_draft_comes_before_the_second_training_and_can_be_interrupted(
    data: Any, noisy: Constraints, wrong: Any, monkeypatch: Any, tmp_path: Any
) -> None:
    # On a CPU a table of so few rows has none.
    monkeypatch.setattr(SpherePair, "_has_time_for_draft", lambda *_: True)
    quick = FAST | {"max_epochs": 10}
    model = SpherePair(5, **quick).fit(data[0], constraints=noisy)
    stages = [record["stage"] for record in model.history_]
    assert stages.count("weighed pairs, draft") == 6
    first, again = (
        model.history_[stages.index(name)]["loss"] for name in ("weighed pairs, draft", "weighed pairs")
    )
    assert again > 0.5 * first  # from the pretrained weights again; what the draft has learned leaves a fifth
    assert np.mean(model.pair_weights_[wrong] < 0.5) > 0.9

    # The same fit, interrupted three times. An epoch that is halted is not in the checkpoint: of the last
    # two, one holds the whole draft, one more.
    for place in (("weighed pairs, draft", 3), ("weighed pairs", 1), ("weighed pairs", 3)):
        halted = SpherePair(5, **quick | {"progress": _interrupt_at(*place)})
        with pytest.raises(KeyboardInterrupt):
            halted.fit(data[0], constraints=noisy, checkpoint=tmp_path)
    resumed = SpherePair(5, **quick).fit(data[0], constraints=noisy, checkpoint=tmp_path)
    assert np.array_equal(resumed.embedding_, model.embedding_)
    assert [r["stage"] for r in resumed.history_] == stages


def test_answers_are_judged_anew_every_other_epoch_and_what_they_are_worth_is_trained_on() -> None:
    """What the neighbors say is half of what they have said before; ``worth`` is the array that is given."""
    said = {2: np.array([1.0, 0.0, 0.5]), 4: np.array([1.0, 1.0, 0.0])}
    worth = np.ones(3, np.float32)
    trained_on: list[list[float]] = []
    judge = SimpleNamespace(asked=np.arange(4), worth=lambda same, done: (same * (1 - done)).astype("f4"))
    reweighing = Reweighing(
        judge,  # type: ignore[arg-type]
        np.zeros(3),
        worth,
        max_epochs=8,
        ask=lambda z, epoch: said[epoch],
        weigh=lambda objective: trained_on.append(worth.tolist()),
    )
    objective: Any = SimpleNamespace(embed=lambda rows: rows)
    for epoch in range(6):
        reweighing(objective, epoch)
    assert trained_on == [[1.0, 1.0, 1.0], [0.375, 0.0, 0.1875], [0.375, 0.25, 0.0625]]


def test_the_protocol_of_the_paper_judges_nothing() -> None:
    assert SpherePair.paper(3).wrong_answers is None


def test_suspects_are_ranked_and_have_reasons(judged: SpherePair, noisy: Constraints, wrong: Any) -> None:
    found = judged.suspects(40)
    assert [s.probability for s in found] == sorted((s.probability for s in found), reverse=True)
    places = [s.source_row for s in found]
    assert np.mean(wrong[places]) > 0.95
    assert all("neighbors" in s.reason for s in found)
    first = found[0]
    assert (first.left, first.right) == (noisy.left[places[0]], noisy.right[places[0]])
    assert len(judged.suspects(None)) == judged.wrong_answers_.n_suspects


def test_a_contradiction_is_a_reason(data: Any, right: Constraints) -> None:
    X, y = data
    group = np.flatnonzero(y == 0)[:4]
    other = np.flatnonzero(y == 1)[0]
    more = Constraints.from_pairs(
        must_link=[(group[0], group[1]), (group[1], other), (group[0], group[2])],
        cannot_link=[(group[0], other), (group[2], other)],
    )
    model = SpherePair(5, **FAST | {"wrong_answers": 0.1, "max_epochs": 4}).fit(X, constraints=right | more)
    suspect = next(s for s in model.suspects(5) if {s.left, s.right} == {group[1], other})
    assert f"cannot-link ({group[0]}, {other}) contradicts it" in suspect.reason


def test_without_judgment_suspects_are_refused(data: Any, right: Constraints) -> None:
    model = SpherePair(5, **FAST | {"wrong_answers": None, "max_epochs": 1}).fit(data[0], constraints=right)
    with pytest.raises(InvalidParameterError, match="were not judged"):
        model.suspects()


def test_a_saved_model_knows_its_suspects(judged: SpherePair, tmp_path: Any) -> None:
    judged.save(tmp_path / "model")
    loaded = load(tmp_path / "model", device="cpu")
    assert loaded.suspects(10) == judged.suspects(10)
    assert loaded.wrong_answers_ == judged.wrong_answers_
    assert np.array_equal(loaded.pair_weights_, judged.pair_weights_)


def test_a_refined_model_keeps_what_answers_are_worth(judged: SpherePair, data: Any) -> None:
    model = copy.deepcopy(judged)
    new = Constraints.from_labels(data[1], 40, random_state=9) - judged.constraints_
    model.refine(new, data[0])
    n_old = len(judged.constraints_)
    assert len(model.pair_weights_) == len(model.constraints_) == n_old + len(new)
    assert np.array_equal(model.pair_weights_[:n_old], judged.pair_weights_)
    assert (model.pair_weights_[n_old:] == 1.0).all()
    assert clustering_accuracy(data[1], model.labels_) > 0.95
    assert model.suspects(5) == judged.suspects(5)


#: The answers are looked at in the third epoch; an epoch that is halted is lost.
FEW = FAST | {"max_epochs": 10}


@pytest.fixture(scope="module")
def whole(data: Any, noisy: Constraints) -> SpherePair:
    return SpherePair(5, **FEW).fit(data[0], constraints=noisy)


@pytest.mark.parametrize(("stage", "left"), [("pairs", 6), ("weighed pairs", 7)])
def test_an_interrupted_fit_goes_on_where_it_was_and_ends_as_an_undisturbed_one(
    data: Any, noisy: Constraints, whole: SpherePair, tmp_path: Any, stage: str, left: int
) -> None:
    seen: list[str] = []

    def stop(state: Any) -> None:
        seen.append(state.stage)
        if seen.count(stage) == (2 if stage == "pairs" else 4):
            raise KeyboardInterrupt

    halted = SpherePair(5, **FEW | {"progress": stop})
    with pytest.raises(KeyboardInterrupt):
        halted.fit(data[0], constraints=noisy, checkpoint=tmp_path)
    assert not hasattr(halted, "labels_")
    seen = []
    resumed = SpherePair(5, **FEW | {"progress": lambda state: seen.append(state.stage)})
    resumed.fit(data[0], constraints=noisy, checkpoint=tmp_path)
    assert np.array_equal(resumed.embedding_, whole.embedding_)
    assert resumed.suspects(None) == whole.suspects(None)
    assert "pretraining" not in seen
    assert seen.count(stage) == left
    assert [r["stage"] for r in resumed.history_] == [r["stage"] for r in whole.history_]


def test_the_first_training_ends_where_answers_are_wrong(judged: SpherePair) -> None:
    stages = [record["stage"] for record in judged.history_]
    assert (stages.count("pairs"), stages.count("weighed pairs")) == (7, 12)  # the seventh begins with a look


@pytest.mark.parametrize("rival", [DCGMM, CIDEC, AutoEmbedder], ids=lambda rival: rival.__name__)
def test_rivals_leave_out_wrong_answers_too(data: Any, noisy: Constraints, wrong: Any, rival: Any) -> None:
    settings = {name: FAST[name] for name in ("hidden_dims", "random_state", "device", "progress")}
    if "pretraining" in rival().get_params():
        settings["pretraining"] = FAST["pretraining"]
    model = rival(5, robust=True, max_epochs=20, **settings).fit(data[0], constraints=noisy)
    assert {"pairs", "weighed pairs"} <= {record["stage"] for record in model.history_}
    assert np.mean(model.pair_weights_[wrong] < 0.5) > 0.5
    assert np.mean(model.pair_weights_[~wrong] < 0.5) < 0.05
    assert np.mean(wrong[[one.source_row for one in model.suspects(20)]]) > 0.9


def test_the_number_of_clusters_ignores_wrong_answers(judged_unknown: SpherePair) -> None:
    assert judged_unknown.n_clusters_ == 5
    assert judged_unknown.count_clusters().value == 5


def test_a_graded_pair_aims_for_its_angle() -> None:
    # Two rows alone: tan²(θ / 2) = 1 - value, see the guide.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5)).astype(np.float32)
    value = 0.75
    pairs = Constraints.from_arrays([0], [1], [True], value=[value])
    model = SpherePair(
        2,
        **FAST | {"max_epochs": 50, "stopping": "fixed"},
        reconstruction_weight=0.0,
        terms=SpherePair.paper(2).terms,
    )
    with pytest.warns(UserWarning, match="constraints"):
        model.fit(X, constraints=pairs)
    cosine = float(model.embedding_[0] @ model.embedding_[1])
    assert cosine == pytest.approx(value / (2 - value), abs=0.03)


def test_sure_answers_are_the_pairs_of_the_paper(right: Constraints) -> None:
    tensors = PairTensors.of(right)
    assert len(tensors) == len(right)
    assert (tensors.weight == 1).all()


@pytest.mark.parametrize("n_pairs", [100, 300])
def test_answers_are_right_where_the_rows_form_other_groups_by_themselves(n_pairs: int) -> None:
    """Six blobs, of which two and two are one group: k-means joins those that are near each other."""
    X, blob = make_blobs(240, centers=6, n_features=6, random_state=2)
    group = np.array([0, 1, 0, 1, 2, 2])[blob]  # of two that are far from each other
    pairs = Constraints.from_labels(group, n_pairs, random_state=2)
    model = SpherePair(3, hidden_dims=(32,), max_epochs=20, batch_size=64, random_state=2, progress=False)
    model.fit(X.astype(np.float32), constraints=pairs)
    assert clustering_accuracy(group, model.labels_) > 0.95
    assert model.wrong_answers_.n_suspects == 0


@pytest.mark.parametrize("most", [0, 2**27])
def test_neighbors_are_those_of_the_rows_in_pairs(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(judging, "MOST_COMPARED", most)
    monkeypatch.setattr(judging, "COMPARED_AT_ONCE", 300)
    x = torch.from_numpy(make_blobs(100, 5, random_state=0)[0]).float()
    lines = torch.tensor([3, 50, 99])
    found = judging._neighbors_of(x, lines, torch.Generator().manual_seed(0))
    distance = torch.cdist(x, x).fill_diagonal_(torch.inf)[lines]
    assert torch.equal(found, distance.argsort(dim=1)[:, : judging.N_WITNESSES])


def test_rows_in_pairs_beyond_a_sample_have_neighbors_of_their_own(
    monkeypatch: pytest.MonkeyPatch, noisy: Constraints
) -> None:
    """Neighbors of clear clusters are rows of the same cluster; those of the row beside it are not."""
    judges: list[Judge] = []

    def keep(*arguments: Any) -> Judge:
        judges.append(Judge(*arguments))
        return judges[-1]

    X, y = make_blobs(500, centers=5, n_features=6, cluster_std=0.1, random_state=3)
    monkeypatch.setattr("spherepair.terms.row_terms.MAX_ROWS", 60)
    monkeypatch.setattr(judging, "Judge", keep)
    SpherePair(5, **FAST | {"max_epochs": 1}).fit(X, constraints=noisy)
    ends = np.unique([noisy.left, noisy.right])
    assert len(ends) > 400
    neighbors = judges[0].asked[judges[0].witnesses.neighbors]
    assert (y[neighbors] == y[ends][:, None]).mean() > 0.95


def test_an_answer_that_says_nothing_is_trained_on_and_is_no_evidence(data: Any, noisy: Constraints) -> None:
    value = np.where(np.arange(500) < 60, 0.5, noisy.is_must_link)
    unsure = Constraints.from_arrays(
        noisy.left, noisy.right, noisy.is_must_link & (value != 0.5), value=value
    )
    model = SpherePair(5, **FAST).fit(data[0], constraints=unsure)
    assert (model.pair_weights_[:60] == 1.0).all()
    assert all(suspect.source_row >= 60 for suspect in model.suspects(None))
    assert len(Job(None, unsure, None, None).trusted) == 440
    assert PairTensors.of(unsure).weight[:60].tolist() == [0.5] * 60


def test_who_tosses_a_coin_is_not_trained_on(data: Any, right: Constraints) -> None:
    rng = np.random.default_rng(0)
    by = np.array(["ann", "bob", "cem", "dee"])[rng.integers(4, size=len(right))]
    is_wrong = rng.random(len(right)) < np.where(by == "dee", 0.5, 0.1)
    pairs = Constraints.from_arrays(right.left, right.right, right.is_must_link ^ is_wrong, by=by)
    model = SpherePair(5, **FAST).fit(data[0], constraints=pairs)
    assert (model.pair_weights_[by == "dee"] == 0).all()
    assert (model.pair_weights_[(by != "dee") & ~is_wrong] > 0.5).mean() > 0.95
    assert "those of dee say nothing" in str(model.wrong_answers_)
    assert clustering_accuracy(data[1], model.labels_) > 0.95


def test_right_answers_give_the_plain_fit_where_the_number_is_unknown(data: Any, right: Constraints) -> None:
    model, plain = (
        SpherePair(**UNKNOWN | {"wrong_answers": trust}).fit(data[0], constraints=right)
        for trust in ("auto", None)
    )
    assert np.array_equal(model.embedding_, plain.embedding_)
    assert np.array_equal(model.labels_, plain.labels_)
    assert model.n_clusters_ == plain.n_clusters_
    assert (model.pair_weights_ == 1.0).all()


def test_answers_are_judged_during_training_where_the_number_is_unknown(
    judged_unknown: SpherePair, data: Any, noisy: Constraints, wrong: Any, tmp_path: Any
) -> None:
    model = judged_unknown
    stages = [record["stage"] for record in model.history_]
    assert stages.count("pairs") < 12
    assert np.mean(model.pair_weights_[wrong] < 0.5) > 0.8
    assert np.mean(model.pair_weights_[~wrong] < 0.5) < 0.03
    assert model.n_clusters_ == 5
    assert clustering_accuracy(data[1], model.labels_) > 0.95

    halted = SpherePair(**UNKNOWN | {"progress": _interrupt_at("weighed pairs", 4)})
    with pytest.raises(KeyboardInterrupt):
        halted.fit(data[0], constraints=noisy, checkpoint=tmp_path)
    resumed = SpherePair(**UNKNOWN).fit(data[0], constraints=noisy, checkpoint=tmp_path)
    assert np.array_equal(resumed.embedding_, model.embedding_)
    assert resumed.n_clusters_ == 5


def test_false_cannot_links_add_no_clusters() -> None:
    """Irises: 3 kinds; all answers, taken for right, ask for 12 clusters, and prove 4."""
    X, y = load_iris(return_X_y=True)
    right = Constraints.from_labels(y, 300, random_state=1)
    wrong = np.random.default_rng(1001).random(300) < 0.1
    pairs = replace(right, is_must_link=right.is_must_link ^ wrong)
    short = {
        "hidden_dims": (64, 64),
        "pretraining": JointPretraining(epochs=5, min_steps=100),
        "max_epochs": 30,
    }
    model = SpherePair(**short, device="cpu", random_state=1, progress=False).fit(X, constraints=pairs)
    assert model.n_clusters_ == 3
    assert model.cluster_number_.proved <= 3
    assert clustering_accuracy(y, model.labels_) > 0.95


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_answers_that_all_say_nothing_are_not_judged(data: Any) -> None:
    rows = np.arange(60)
    pairs = Constraints.from_arrays(rows, rows + 60, rows < 30, value=np.full(60, 0.5))
    model = SpherePair("auto", **FAST | {"max_epochs": 2, "batch_size": 32}).fit(data[0], constraints=pairs)
    assert model.wrong_answers_ is None


def test_an_interrupted_fit_that_looks_for_the_number_ends_as_an_undisturbed_one(
    judged_unknown: SpherePair, data: Any, noisy: Constraints, tmp_path: Any
) -> None:
    seen: list[str] = []

    def stop(state: Any) -> None:
        seen.append(state.stage)
        if seen.count("pairs") == 4:  # after the first look, before the second
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SpherePair("auto", **UNKNOWN | {"progress": stop}).fit(
            data[0], constraints=noisy, checkpoint=tmp_path
        )
    again = SpherePair("auto", **UNKNOWN).fit(data[0], constraints=noisy, checkpoint=tmp_path)
    assert np.array_equal(again.embedding_, judged_unknown.embedding_)
    assert again.n_clusters_ == judged_unknown.n_clusters_ == 5
