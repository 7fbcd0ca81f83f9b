"""The training loop: named terms, history, clipping, stopping, resuming, divergence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import spherepair
from spherepair.errors import TrainingDivergedError
from spherepair.training import Objective, Plan, Recipe, train
from spherepair.training.batches import Batches, PairTensors
from spherepair.training.hardware import Hardware
from spherepair.training.optimization import Adam, ReleasedCodeRule, SettledRule
from spherepair.training.rows import ResidentRows, Scaling

CPU = Hardware(torch.device("cpu"), "float32")


class Quadratic(Objective):
    """Two named terms in one parameter; the minimum of their sum is at 1."""

    def __init__(self, start: float = 5.0) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor(start))
        self.epochs: list[int] = []

    def on_epoch_start(self, epoch, state):
        self.epochs.append(epoch)

    def terms(self, batch):
        return {"pull": (self.value - 1.0).square(), "tax": 0.0 * batch.x.sum()}


def make_batches(n_steps: int = 4) -> Batches:
    rows = ResidentRows(torch.ones(10, 2), Scaling.identity())
    return Batches(
        rows, PairTensors.none(), pairs_per_step=0, rows_per_step=2, n_steps=n_steps, seed=0, stream="x"
    )


def run(objective, **kwargs):
    options = {
        "stage": "test",
        "max_epochs": 5,
        "hardware": CPU,
        "seed": 0,
    }
    return train(Plan(objective, (make_batches(),), Recipe(learning_rate=0.1)), **(options | kwargs))


def test_records_name_every_term_and_the_loss_is_their_sum():
    records = run(Quadratic())
    assert [r["epoch"] for r in records] == [0, 1, 2, 3, 4]
    for record in records:
        assert set(record) == {"stage", "epoch", "loss", "pull", "tax", "seconds"}
        assert record["loss"] == pytest.approx(record["pull"] + record["tax"])
    assert records[-1]["loss"] < records[0]["loss"]


def test_the_objective_is_told_of_every_epoch():
    objective = Quadratic()
    run(objective)
    assert objective.epochs == [0, 1, 2, 3, 4]


def test_a_step_is_plain_gradient_descent():
    objective = Quadratic(start=5.0)
    plan = Plan(objective, (make_batches(1),), Recipe("sgd", learning_rate=0.1))
    train(plan, stage="s", max_epochs=1, hardware=CPU, seed=0)
    assert objective.value.item() == pytest.approx(5.0 - 0.1 * 2 * (5.0 - 1.0))


def test_gradients_are_clipped_to_the_norm():
    objective = Quadratic(start=5.0)
    plan = Plan(objective, (make_batches(1),), Recipe("sgd", learning_rate=0.1, clip_norm=1.0))
    train(plan, stage="s", max_epochs=1, hardware=CPU, seed=0)
    assert objective.value.item() == pytest.approx(5.0 - 0.1, rel=1e-5)


def test_the_rate_decays_in_steps():
    recipe = Recipe("sgd", learning_rate=0.1, decay_every=2)
    assert [recipe.rate(e) for e in range(5)] == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001])


def test_the_rate_rises_at_first_where_that_is_wanted():
    recipe = Recipe(learning_rate=0.4, warm_up=4)
    assert [recipe.rate(e) for e in range(6)] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.4])


def test_a_rule_on_a_term_ends_training():
    rule = SettledRule(min_epochs=1, settled=1.0, patience=1, watches="pull")
    records = run(Quadratic(), max_epochs=100, stopping=rule)
    assert records[-1]["pull"] < 1.0
    assert all(r["pull"] >= 1.0 for r in records[:-1])


def test_a_rule_on_the_objective_sees_it_before_the_epoch():
    seen = []

    class Spy(ReleasedCodeRule):
        def should_stop(self, values):
            seen.append(list(values))
            return False

    run(Quadratic(start=5.0), max_epochs=2, stopping=Spy())
    assert seen[0] == pytest.approx([16.0])
    assert len(seen[1]) == 2


def test_the_objective_is_the_weighted_mean_over_pairs_plus_that_over_rows(monkeypatch):
    """However the blocks are cut: here most would hold no pair at all."""
    monkeypatch.setattr("spherepair.training.batches.BLOCK_ROWS", {"cpu": 4})

    class Sums(Quadratic):
        def terms(self, batch):
            left, _, rows = batch.split(batch.x[:, 0])
            on_pairs = (left * batch.pair_weight).sum() / batch.pair_weight.sum().clamp(min=1e-12)
            on_rows = (rows * batch.row_weight).sum() / batch.row_weight.sum().clamp(min=1e-12)
            return {"pairs": on_pairs + 0 * self.value, "rows": on_rows}

    rows = ResidentRows(torch.arange(10.0)[:, None], Scaling.identity())
    left = torch.tensor([1, 5, 9])
    pairs = PairTensors(left, left - 1, torch.ones(3, dtype=torch.bool), torch.tensor([1.0, 2.0, 5.0]))
    batches = Batches(rows, pairs, pairs_per_step=3, rows_per_step=2, n_steps=1, seed=0, stream="x")
    seen = []

    class Spy(ReleasedCodeRule):
        def should_stop(self, values):
            seen.append(values[-1])
            return True

    objective = Sums()
    plan = Plan(objective, (batches,), Recipe())
    train(plan, stage="s", stopping=Spy(), max_epochs=1, hardware=CPU, seed=0)
    assert seen == [pytest.approx((1 * 1 + 5 * 2 + 9 * 5) / 8 + 4.5)]


def test_evaluating_the_objective_leaves_batch_statistics_alone():
    class Normed(Quadratic):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(2)

        def terms(self, batch):
            return {"pull": self.norm(batch.x).sum() * 0 + (self.value - 1).square()}

    objective = Normed()
    run(objective, max_epochs=2, stopping=ReleasedCodeRule())
    assert objective.norm.num_batches_tracked.item() == 2 * make_batches().n_steps


def test_monitors_see_the_state_after_every_epoch():
    seen = []
    run(Quadratic(), monitors=[lambda state: seen.append((state.stage, state.epoch))])
    assert seen == [("test", n) for n in range(1, 6)]


def test_divergence_is_an_error_that_says_what_to_do():
    class Broken(Quadratic):
        def terms(self, batch):
            return {"pull": self.value * float("nan")}

    with pytest.raises(TrainingDivergedError, match="lower learning_rate"):
        run(Broken())


def test_there_is_one_training_loop_in_the_package():
    root = Path(spherepair.__file__).parent
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(r"\.backward\(\)|optimizer\.step\(\)", path.read_text(encoding="utf-8"))
    }
    assert {name for name in found if name != "training/__init__.py"} == set()


class Leaving(Quadratic):
    """Notes how things stand when training is over."""

    def on_end(self, state):
        self.left = (state.epoch, state.stage, self.training, self.value.item())
        with torch.no_grad():
            self.value.fill_(42.0)


def test_the_objective_has_the_last_word_after_the_last_epoch():
    objective, seen = Leaving(), []
    run(objective, monitors=[lambda state: seen.append(state.objective.value.item())])
    assert objective.left == (5, "test", True, seen[-1])
    assert objective.value.item() == 42.0
    assert not objective.training


def test_the_objective_is_told_of_the_end_where_a_rule_stops_early():
    objective = Leaving()
    records = run(objective, max_epochs=100, stopping=SettledRule(min_epochs=3, settled=1e9, watches="pull"))
    assert len(records) == objective.left[0] == 3


def test_the_objective_is_not_told_of_an_end_that_was_an_interruption():
    def interrupt(state):
        raise KeyboardInterrupt

    objective = Leaving()
    with pytest.raises(KeyboardInterrupt):
        run(objective, monitors=[interrupt])
    assert not hasattr(objective, "left")


def test_a_stage_that_was_resumed_after_its_last_epoch_only_ends():
    objective = Leaving()
    records = run(objective, resume=lambda state: state.records.extend({"loss": 1.0} for _ in range(5)))
    assert len(records) == objective.left[0] == 5
    assert objective.epochs == []


class Dying(Objective):
    """A parameter that has a gradient in the very first step only, like a unit that dies."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor([5.0, 5.0]))
        self.register_buffer("alive", torch.tensor([1.0, 1.0]))

    def terms(self, batch):
        alive = self.alive.clone()
        self.alive[1] = 0.0
        return {"pull": (self.value * alive).sum()}


@pytest.mark.parametrize("shape", [(300, 4), (2, 850)], ids=["short epochs", "long epochs"])
@pytest.mark.parametrize("recipe", [Recipe(), Recipe("sgd", momentum=0.9)], ids=["adam", "sgd"])
def test_moments_that_die_away_never_become_denormal_numbers(recipe, shape):
    first_moments = []

    def look(state):
        first_moments.append(state.optimizer.tensors()[f"0.{state.optimizer.moment_names[0]}"].clone())

    n_epochs, n_steps = shape
    options = {"stage": "test", "max_epochs": n_epochs, "hardware": CPU, "seed": 0, "monitors": [look]}
    train(Plan(Dying(), (make_batches(n_steps),), recipe), **options)
    alive, dead = torch.stack(first_moments).abs().T
    assert (alive > 0).all()
    assert dead[-1] == 0
    assert not ((dead > 0) & (dead < torch.finfo(torch.float32).tiny)).any()


def test_moments_that_count_are_kept():
    optimizer = Adam([([nn.Parameter(torch.ones(3))], 1.0)], CPU.device)
    (state,) = optimizer.state.values()
    state["exp_avg"].copy_(torch.tensor([1e-24, -1e-26, -2.0]))
    optimizer.flush_denormals()
    assert state["exp_avg"].tolist() == [pytest.approx(1e-24), 0.0, -2.0]
