from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from spherepair.app.shown_groups import changes_since, view_of
from spherepair.app.versions import (
    NO_GROUP,
    Placed,
    Version,
    earlier_versions,
    latest_version,
    version_before,
    write_version,
)
from spherepair.app.versions.maps import match_groups, place_discs
from spherepair.asking.groups import Groups

ANGLES = np.linspace(0, 2 * np.pi, 5)[:-1]
CENTERS = np.column_stack([np.cos(ANGLES), np.sin(ANGLES), np.zeros(4)]).astype(np.float32)


def fake_model(labels: np.ndarray, n_groups: int) -> SimpleNamespace:
    random = np.random.default_rng(0)
    embedding = CENTERS[labels] + 0.1 * random.normal(size=(len(labels), 3)).astype(np.float32)
    embedding /= np.linalg.norm(embedding, axis=1, keepdims=True)

    def save(folder: Path) -> None:
        Path(folder).mkdir()

    return SimpleNamespace(
        embedding_=embedding, labels_=labels, cluster_centers_=CENTERS[:n_groups], save=save
    )


def placed(rows: list[int], numbers: list[int], ids: tuple[str, ...]) -> Placed:
    return Placed(np.array(rows), np.array(numbers), ids)


@pytest.fixture
def first(tmp_path: Path) -> Version:
    """Three groups of forty rows, one row of each placed."""
    labels = np.repeat([0, 1, 2], 40)
    people = placed([0, 40, 80], [0, 1, 2], ("a", "b", "c"))
    before = latest_version(tmp_path, 120)
    write_version(tmp_path, 1, fake_model(labels, 3), n_answers=30, placed=people, before=before)
    return latest_version(tmp_path, 120)


def next_version(tmp_path: Path, first: Version, labels: np.ndarray, people: Placed) -> Version:
    n_groups = int(labels.max()) + 1
    write_version(tmp_path, 2, fake_model(labels, n_groups), n_answers=60, placed=people, before=first)
    return latest_version(tmp_path, 120)


def test_a_version_without_answers_has_a_map_and_no_groups(tmp_path):
    labels = np.repeat([0, 1, 2], 40)
    people = placed([], [], ())
    before = latest_version(tmp_path, 120)
    assert before.number == 0
    write_version(tmp_path, 1, fake_model(labels, 3), n_answers=0, placed=people, before=before)
    version = latest_version(tmp_path, 120)
    assert version.groups == ()
    assert (version.labels == NO_GROUP).all()
    assert np.ptp(version.places, axis=0).min() > 0.5


def test_groups_keep_their_ids_whatever_numbers_the_model_gives_them(tmp_path, first):
    people = placed([0, 40, 80], [0, 1, 2], ("a", "b", "c"))
    again = next_version(tmp_path, first, np.repeat([2, 0, 1], 40), people)
    by_id = {group.id: place for place, group in enumerate(again.groups)}
    assert (again.labels == np.repeat([by_id["a"], by_id["b"], by_id["c"]], 40)).all()
    assert {group.id: group.number for group in again.groups} == {g.id: g.number for g in first.groups}
    assert again.rows_moved == 0
    assert [group.came + group.went for group in again.groups] == [0, 0, 0]


def test_the_map_stays_where_it_is(tmp_path, first):
    people = placed([0, 40, 80], [0, 1, 2], ("a", "b", "c"))
    again = next_version(tmp_path, first, np.repeat([2, 0, 1], 40), people)
    moved = np.linalg.norm(again.places - first.places, axis=1)
    assert np.median(moved) < 0.1
    assert np.abs(again.places).max() <= 1


def test_a_split_group_says_where_it_comes_from(tmp_path, first):
    people = placed([0, 40, 80], [0, 1, 2], ("a", "b", "c"))
    labels = np.repeat([0, 1, 2, 3], [40, 40, 25, 15])
    again = next_version(tmp_path, first, labels, people)
    fresh = next(group for group in again.groups if group.id not in "abc")
    assert fresh.split_from == "c"
    assert again.groups_new == 1
    assert again.rows_moved == 15
    assert next(group.went for group in again.groups if group.id == "c") == 15


def test_a_merged_group_says_what_it_took_in(tmp_path, first):
    people = placed([0, 40, 80], [0, 1, 1], ("a", "b"))
    again = next_version(tmp_path, first, np.repeat([0, 1, 1], 40), people)
    assert {group.id for group in again.groups} == {"a", "b"}
    assert next(group.merged_from for group in again.groups if group.id == "b") == ("c",)


def test_rows_that_people_placed_stay_there_whatever_the_model_says(tmp_path, first):
    people = placed([0, 1, 40, 80, 41], [0, 0, 1, 2, 0], ("a", "b", "c"))
    again = next_version(tmp_path, first, np.repeat([0, 1, 2], 40), people)
    by_id = {group.id: place for place, group in enumerate(again.groups)}
    assert again.labels[41] == by_id["a"]
    assert again.labels[42] == by_id["b"]


def test_rows_that_had_no_group_before_have_not_moved(first):
    assert first.rows_moved == 0
    assert [group.came + group.went for group in first.groups] == [0, 0, 0]


def test_a_row_is_listed_once(first):
    for group in first.groups:
        assert len({*group.typical, *group.unsure, *group.odd}) == 18


def test_lists_are_rows_of_their_group(first):
    for place, group in enumerate(first.groups):
        for rows in (group.typical, group.unsure, group.odd):
            assert len(rows) == 6
            assert (first.labels[list(rows)] == place).all()


def test_two_versions_are_kept_and_the_groups_of_twenty_answers_before(tmp_path, first):
    people = placed([0, 40, 80], [0, 1, 2], ("a", "b", "c"))
    for number, n_answers in ((2, 45), (3, 52), (4, 60)):
        model = fake_model(np.repeat([0, 1, 2], 40), 3)
        write_version(tmp_path, number, model, n_answers=n_answers, placed=people, before=first)
    assert sorted(f.name for f in (tmp_path / "versions").iterdir()) == [
        "000001", "000003", "000003.model", "000004", "000004.model",
    ]  # fmt: skip
    kept = earlier_versions(tmp_path)
    found = [version_before(kept, n_answers, 120).number for n_answers in (20, 49, 50, 71, 72, 80)]
    assert found == [0, 0, 1, 1, 3, 4]
    assert version_before(kept, 19, 120) is None
    assert version_before(kept[1:], 49, 120) is None  # nobody knows any more what there was


def test_a_version_that_was_half_removed_is_none(tmp_path, first):
    people = placed([0, 40, 80], [0, 1, 2], ("a", "b", "c"))
    (first.folder / "version.json").unlink()
    assert earlier_versions(tmp_path) == []
    for number in (2, 3):
        model = fake_model(np.repeat([0, 1, 2], 40), 3)
        write_version(tmp_path, number, model, n_answers=60, placed=people, before=first)
    assert [version.number for version in earlier_versions(tmp_path)] == [2, 3]
    assert not first.folder.exists()


def test_changes_are_rows_in_another_group_and_groups_that_were_not_known(first):
    links = [(0, 40, False), (0, 80, False), (40, 80, False), (40, 81, True)]
    same = view_of(first, Groups(links[:3]), {})
    assert changes_since(first, same) == {"rows_moved": 0, "groups_new": 0}
    links += [(90, 95, True), *((90, row, False) for row in (0, 40, 80))]
    corrected = view_of(first, Groups(links), {})
    assert changes_since(first, corrected) == {"rows_moved": 3, "groups_new": 1}
    merged = view_of(first, Groups([(0, 40, True), (0, 80, False)]), {})
    assert changes_since(first, merged) == {"rows_moved": 40, "groups_new": 0}


def test_rows_without_a_group_before_have_not_moved(tmp_path, first):
    before = Version(1, 0, 120)
    view = view_of(first, Groups([(0, 40, False), (0, 80, False), (40, 80, False)]), {})
    assert changes_since(before, view) == {"rows_moved": 0, "groups_new": 3}


def test_answers_since_the_model_are_seen_at_once(first):
    groups = Groups([(0, 40, False), (0, 80, False), (40, 80, False), (40, 81, True)])
    view = view_of(first, groups, {})
    assert view.group_of(81).id == "b"
    assert view.group_of(82).id == "c"
    assert view.sizes.sum() == 120


def test_a_group_that_only_answers_know_is_called_after_its_first_row(first):
    links = [(0, 40, False), (0, 80, False), (40, 80, False), (90, 95, True)]
    links += [(90, row, False) for row in (0, 40, 80)]
    view = view_of(first, Groups(links), {95: 0, 90: 1})
    assert view.group_of(90).id == "r95"
    assert view.groups[-1].number == 4
    assert sorted(view.members(3)) == [90, 95]


def test_merged_groups_are_shown_as_one_before_the_next_model(first):
    view = view_of(first, Groups([(0, 40, True), (0, 80, False)]), {})
    assert sorted(view.sizes.tolist()) == [0, 40, 80]
    assert view.group_of(1).id == view.group_of(41).id


def test_discs_do_not_overlap_and_old_ones_stay():
    start = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 0.0]])
    discs = place_discs(np.array([50, 50, 40]), start, np.array([True, True, False]))
    gaps = [
        np.linalg.norm(discs[i, :2] - discs[j, :2]) - discs[i, 2] - discs[j, 2]
        for i, j in ((0, 1), (0, 2), (1, 2))
    ]
    assert min(gaps) > -0.05
    assert np.abs(discs[:2, :2] - start[:2]).max() < 0.5


def test_matching_ignores_groups_that_share_nothing():
    found, _ = match_groups(np.array([0, 0]), np.array([1, 1]), n_before=2, n_after=2, weight=np.ones(2))
    assert found == {1: 0}
