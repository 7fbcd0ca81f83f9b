"""One hook plans a training: it is told the stage, and its parts get what they share as values."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.estimators.battery_settings import build

from spherepair import SpherePair
from spherepair.estimators import ESTIMATORS
from spherepair.estimators.job import FIT, Job, Refinement, Stage
from spherepair.terms import NEIGHBORS, PSEUDO_PAIRS
from spherepair.terms.row_terms import FIRST_EPOCH
from spherepair.training.rows import open_rows
from spherepair.training.session import Session

REFINING = Stage("refining", Refinement(0.5, np.eye(3, 10, dtype=np.float32)))


def job_of(model: Any, X: Any, pairs: Any) -> Job:
    session = Session(model.network_, model._hardware, model._seed)
    rows = open_rows(X, model._scaling, model._hardware.device)
    return Job(rows, pairs, model.network_, session)


@pytest.mark.parametrize("stage", [FIT, REFINING])
def test_batches_show_the_neighbors_of_the_neighbor_term(
    stage: Stage, fitted: SpherePair, X: Any, pairs: Any
) -> None:
    plan = fitted._plan(job_of(fitted, X, pairs), stage)
    (batches,) = plan.batches
    assert batches._neighbor_table is plan.objective.further[NEIGHBORS].table


def neighbor_loss(model: SpherePair, X: Any, pairs: Any) -> float:
    history = model.fit(X, constraints=pairs).history_
    return next(record[NEIGHBORS] for record in history if record["stage"] == FIT.name)


def test_neighbors_cost_little_from_the_first_epoch_on(make: Any, X: Any, pairs: Any) -> None:
    """Where batches do not show the neighbors that the term expects, it must-links random rows."""
    true_loss = neighbor_loss(make(), X, pairs)

    class Unplanned(SpherePair):
        def _batches(self, job: Job, stage: Stage, *, neighbor_table: Any) -> Any:
            return super()._batches(job, stage, neighbor_table=None)

    random_loss = neighbor_loss(Unplanned(**make().get_params()), X, pairs)
    assert true_loss < 0.01
    assert random_loss > 3 * true_loss


def test_the_stage_decides_and_not_whether_the_model_is_fitted(
    fitted: SpherePair, X: Any, pairs: Any
) -> None:
    job = job_of(fitted, X, pairs)
    fit, refining = (fitted._plan(job, stage).objective.further[PSEUDO_PAIRS] for stage in (FIT, REFINING))
    assert (fit._first, refining._first) == (FIRST_EPOCH, 0)
    assert fit._start_centers is None
    assert torch.equal(refining._start_centers, torch.eye(3, 10))
    assert fitted._max_epochs(job, FIT) == fitted.max_epochs
    assert fitted._max_epochs(job, REFINING) < fitted.max_epochs


def test_a_refinement_has_neighbors_where_the_fit_had_no_pretraining(make: Any, X: Any, pairs: Any) -> None:
    model = make(pretraining=None).fit(X, constraints=pairs)
    job = job_of(model, X, pairs)
    assert NEIGHBORS not in model._plan(job, FIT).objective.further
    assert NEIGHBORS in model._plan(job, REFINING).objective.further


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_plan_is_the_same_however_often_it_is_made(name: str, X: Any, pairs: Any) -> None:
    """Nothing is left on the job or the model that another call would read."""
    model = build(name).fit(X, constraints=pairs)
    job = job_of(model, X, pairs)
    before = set(vars(model))
    first, second = (model._plan(job, FIT) for _ in range(2))
    assert set(vars(model)) == before
    assert first.recipe == second.recipe
    assert [part.part for part in first.batches] == [part.part for part in second.batches]
    for one, other in zip(first.batches, second.batches, strict=True):
        one.start_epoch(0)
        other.start_epoch(0)
        assert torch.equal(one.index_plan, other.index_plan)


def test_jobs_stages_and_plans_are_frozen(fitted: SpherePair, X: Any, pairs: Any) -> None:
    job = job_of(fitted, X, pairs)
    plan = fitted._plan(job, FIT)
    for thing, field in ((job, "pairs"), (FIT, "refinement"), (plan, "batches")):
        with pytest.raises(FrozenInstanceError):
            setattr(thing, field, None)
    assert replace(plan, batches=()).objective is plan.objective
