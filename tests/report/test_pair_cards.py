"""Violated constraints and questions: which pairs, in which order, and in which words."""

from __future__ import annotations

import numpy as np

from spherepair import Constraints
from spherepair.report import build_report
from spherepair.report.cluster_cards import measure_membership
from spherepair.report.pair_cards import choose_questions, pick_violated


def test_worst_violated_constraints_come_first():
    embedding = np.array([[0.0, 0], [0.1, 0], [5, 0], [9, 0]])
    pairs = Constraints.from_pairs(must_link=[(0, 2), (0, 3), (0, 1)], cannot_link=[(2, 3), (0, 3)])
    broken = pick_violated(embedding, np.array([0, 0, 1, 1]), constraints=pairs, limit=2)
    assert list(zip(broken.left.tolist(), broken.right.tolist(), strict=True)) == [(0, 3), (0, 2)]
    assert broken.is_must_link.all()


def test_questions_are_new_and_about_borders_gaps_and_thin_clusters(blobs):
    _, labels, model = blobs
    rows = np.vstack([model.embedding_, [[5.0, 4.9]]])
    membership = measure_membership(rows, np.append(labels, 0), centers=model.cluster_centers_)
    pairs = Constraints.from_pairs(cannot_link=[(0, 1), (0, 2)])
    asked = choose_questions(rows, membership, centers=model.cluster_centers_, constraints=pairs, count=99)
    ends = [frozenset((question.left, question.right)) for question in asked]
    assert len(set(ends)) == len(ends)
    assert frozenset((0, 1)) not in ends
    assert (asked[0].left, membership.labels[asked[0].right]) == (90, 1)
    apart = [question for question in asked if "No cannot-link" in question.reason]
    assert [{*membership.labels[[q.left, q.right]].tolist()} for q in apart] == [{1, 2}]
    thin = [question for question in asked if "No must-link" in question.reason]
    assert [membership.labels[q.left] == membership.labels[q.right] for q in thin] == [True] * 3
    assert (
        len(choose_questions(rows, membership, centers=model.cluster_centers_, constraints=pairs, count=2))
        == 2
    )


def reasons(model, X, pairs, **links):
    report = build_report(model, X, Constraints.from_pairs(**links) | pairs)
    return {question.reason for question in report.questions}


def test_question_about_a_thin_cluster_says_how_many_must_links_hold_it_together(blobs):
    X, _, model = blobs
    none = Constraints.from_pairs(cannot_link=[(0, 1), (1, 2), (0, 2)])
    found = reasons(model, X, none, must_link=[(0, 3), (1, 4), (1, 7)])
    assert "Only one must-link holds cluster 0 together; these rows are at its two ends." in found
    assert "Only 2 must-links hold cluster 1 together; these rows are at its two ends." in found
    assert "No must-link holds cluster 2 together yet; these rows are at its two ends." in found


def test_question_about_two_clusters_says_that_nothing_separates_them(blobs):
    X, _, model = blobs
    found = reasons(model, X, Constraints.from_pairs(), cannot_link=[(0, 1), (1, 2)])
    assert "No cannot-link separates clusters 0 and 2 yet; these rows are typical of them." in found


def test_violated_pair_says_whether_to_doubt_the_clusters_or_the_constraint(blobs, plain_model):
    _, labels, model = blobs
    X = np.vstack([np.pad(model.embedding_, ((0, 0), (0, 3))), [[5.0, 4.9, 0, 0, 0], [4.9, 5.0, 0, 0, 0]]])
    pairs = Constraints.from_pairs(must_link=[(0, 1), (0, 91), (90, 91)], cannot_link=[(0, 3)])
    model = plain_model().fit(X, np.append(labels, [0, 1]), centers=model.cluster_centers_, constraints=pairs)
    said = {(c.left.row, c.right.row): c.reason for c in build_report(model, X).satisfaction.violated}
    assert said == {
        (0, 1): "Both rows lie well inside their clusters: check the constraint first.",
        (0, 3): "Both rows lie well inside the cluster: check the constraint first.",
        (0, 91): "Borderline: row 91 is almost in cluster 0.",
        (90, 91): "Both rows are borderline: the clusters may be wrong here.",
    }
