"""Stopping rules as functions of the history."""

from __future__ import annotations

import pytest

from spherepair.errors import InvalidParameterError
from spherepair.training.stopping import (
    FixedEpochs,
    PaperRule,
    ReleasedCodeRule,
    SettledRule,
    resolve_stopping,
)


def stops_at(rule, values):
    """The first number of epochs after which the rule stops, or None."""
    return next((n for n in range(1, len(values) + 1) if rule.should_stop(values[:n])), None)


def test_settled_rule_stops_after_patience_epochs_below_the_threshold():
    values = [0.5] * 30 + [1e-4] * 10
    assert stops_at(SettledRule(min_epochs=5, patience=3), values) == 33


def test_settled_rule_never_stops_in_a_spike():
    values = [1e-4, 1e-4, 0.1] * 20
    assert stops_at(SettledRule(min_epochs=5, patience=3, stale=1000), values) is None


def test_settled_rule_gives_up_on_pairs_that_cannot_be_satisfied():
    values = [1.0, 0.5, 0.3] + [0.31] * 100
    assert stops_at(SettledRule(min_epochs=5, stale=40), values) == 43


def test_settled_rule_waits_for_the_least_number_of_epochs():
    assert stops_at(SettledRule(min_epochs=12), [0.0] * 50) == 12


def test_paper_rule_wants_five_small_changes_after_a_hundred_epochs():
    assert stops_at(PaperRule(), [1.0] * 200) == 101
    restless = [1.0 + 0.5 * (n % 2) for n in range(103)] + [1.0] * 20
    assert stops_at(PaperRule(), restless) == 108


def test_released_code_rule_stops_at_the_first_new_minimum_after_epoch_100():
    falling = [1.0 / (n + 1) for n in range(200)]
    assert stops_at(ReleasedCodeRule(), falling) == 102
    valley = [1.0] * 50 + [0.1] + [0.5] * 80 + [0.05] + [0.04]
    assert stops_at(ReleasedCodeRule(), valley) == 132


def test_fixed_epochs_never_stop():
    assert stops_at(FixedEpochs(), [0.0] * 500) is None


@pytest.mark.parametrize("name", ["settled", "paper", "released-code", "fixed"])
def test_rules_have_names(name):
    assert resolve_stopping(name).should_stop([]) is False


@pytest.mark.parametrize("wrong", ["soon", 3])
def test_unknown_rules_are_refused(wrong):
    with pytest.raises(InvalidParameterError, match="stopping must be"):
        resolve_stopping(wrong)


def test_settled_rule_by_default_waits_for_forty_epochs_and_three_below_a_thousandth():
    assert stops_at(SettledRule(), [0.0] * 100) == 40
    assert stops_at(SettledRule(), [9e-4] * 100) == 40
    assert stops_at(SettledRule(), [0.5 / (n + 1) for n in range(60)] + [9e-4] * 10) == 63
    assert stops_at(SettledRule(), [1.1e-3] * 41) == 41  # the best epoch lies forty behind
    assert stops_at(SettledRule(), [0.1 / (n + 1) for n in range(99)]) is None


def test_settled_rule_looks_at_the_pairs_and_not_at_further_terms():
    assert resolve_stopping("settled").watches == "pairs"
