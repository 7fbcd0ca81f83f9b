"""Batches: fixed shapes, every pair equally often, padding of weight zero."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spherepair.training.batches import Batches, PairTensors, row_batches
from spherepair.training.rows import ResidentRows, Scaling


def make_rows(n: int = 50, n_features: int = 3) -> ResidentRows:
    """Row i holds the number i in every column."""
    table = torch.arange(n, dtype=torch.float32)[:, None].expand(n, n_features).contiguous()
    return ResidentRows(table, Scaling.identity())


def make_pairs(n: int) -> PairTensors:
    left = torch.arange(n)
    return PairTensors(left, left + 1, left % 2 == 0, 1.0 + left.float())


def collect(batches: Batches, epoch: int = 0):
    batches.start_epoch(epoch)
    return [batches.next() for _ in range(batches.n_steps)]


def make_batches(n_pairs: int, n_steps: int, *, pairs_per_step: int = 8, seed: int = 0) -> Batches:
    return Batches(
        make_rows(), make_pairs(n_pairs), pairs_per_step=pairs_per_step, rows_per_step=6,
        n_steps=n_steps, seed=seed, stream="pairs",
    )  # fmt: skip


def test_one_pass_shows_every_pair_once_with_its_link_and_weight():
    seen = []
    for batch in collect(make_batches(20, 3)):
        left, right, _ = batch.split(batch.x[:, 0])
        real = batch.pair_weight > 0
        seen += left[real].tolist()
        assert torch.equal(right[real], left[real] + 1)
        assert torch.equal(batch.is_must_link[real], left[real] % 2 == 0)
        assert torch.equal(batch.pair_weight[real], 1.0 + left[real])
    assert sorted(seen) == list(range(20))


def test_the_short_batch_is_padded_with_weight_zero():
    batches = collect(make_batches(20, 3))
    assert [int((b.pair_weight > 0).sum()) for b in batches] == [8, 8, 4]
    assert {tuple(b.x.shape) for b in batches} == {(22, 3)}


def test_few_pairs_are_shown_equally_often():
    counts = np.zeros(5, dtype=int)
    for batch in collect(make_batches(5, 10, pairs_per_step=4)):
        left, _, _ = batch.split(batch.x[:, 0])
        np.add.at(counts, left[batch.pair_weight > 0].long().numpy(), 1)
    assert counts.tolist() == [8] * 5


def test_rows_of_an_epoch_are_drawn_without_repetition_while_they_last():
    drawn = torch.cat([batch.row_index for batch in collect(make_batches(20, 3))])
    assert len(torch.unique(drawn)) == 18


def test_an_epoch_depends_on_seed_and_number_alone():
    first, again = collect(make_batches(20, 3), 7), collect(make_batches(20, 3), 7)
    assert all(torch.equal(a.x, b.x) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0].x, collect(make_batches(20, 3), 8)[0].x)
    assert not torch.equal(first[0].x, collect(make_batches(20, 3, seed=1), 7)[0].x)


@pytest.mark.parametrize(("n_rows", "batch_size"), [(50, 16), (48, 16), (5, 16)])
def test_row_batches_show_every_row_once(n_rows, batch_size):
    batches = row_batches(make_rows(n_rows), batch_size=batch_size, seed=0, stream="pretraining")
    parts = collect(batches)
    seen = torch.cat([b.row_index[b.row_weight > 0] for b in parts])
    assert sorted(seen.tolist()) == list(range(n_rows))
    assert all(len(b.is_must_link) == 0 for b in parts)


def test_blocks_cover_all_pairs_and_all_rows_in_order(monkeypatch):
    monkeypatch.setattr("spherepair.training.batches.BLOCK_ROWS", {"cpu": 16})
    batches = make_batches(20, 3)
    pairs, rows = list(batches.all_pairs()), list(batches.all_rows())
    assert len(pairs) > 1
    assert len(rows) > 1
    assert torch.cat([b.split(b.x[:, 0])[0] for b in pairs]).tolist() == list(range(20))
    assert torch.cat([b.row_index for b in rows]).tolist() == list(range(50))
    assert all(len(b.row_index) == 0 for b in pairs)
    assert all(len(b.is_must_link) == 0 for b in rows)


def test_padding_is_drawn_like_everything_else():
    """Row 0 in every padded place would shift the statistics of a BatchNorm layer."""
    last = collect(make_batches(20, 3))[-1]
    left, _, _ = last.split(last.x[:, 0])
    assert len(left[last.pair_weight == 0].unique()) > 1


def test_rows_in_the_order_of_the_table_come_in_the_same_order_every_epoch():
    rows = ResidentRows(torch.arange(10.0)[:, None], Scaling.identity())
    batches = Batches(
        rows, PairTensors.none(), pairs_per_step=0, rows_per_step=4, n_steps=3, seed=0, stream="s",
        one_pass=True, shuffled=False,
    )  # fmt: skip
    for epoch in (0, 1):
        batches.start_epoch(epoch)
        steps = [batches.next() for _ in range(3)]
        seen = torch.cat([step.row_index[step.row_weight > 0] for step in steps])
        assert seen.tolist() == list(range(10))


def make_neighbor_table(n_lines: int, n_neighbors: int) -> torch.Tensor:
    """Line i: row 2i, and its neighbors 100 (2i + 1), 100 (2i + 1) + 1, ..."""
    rows = 2 * torch.arange(n_lines)
    return torch.cat([rows[:, None], 100 * (rows[:, None] + 1) + torch.arange(n_neighbors)], dim=1)


def neighbor_batches(table: torch.Tensor | None, rows_per_step: int, *, n_steps: int = 4) -> Batches:
    return Batches(
        make_rows(4000), make_pairs(3), pairs_per_step=3, rows_per_step=rows_per_step, n_steps=n_steps,
        seed=0, stream="pairs", neighbor_table=table,
    )  # fmt: skip


@pytest.mark.parametrize("rows_per_step", [1, 2, 6, 7, 40, 41])
def test_the_second_half_of_the_rows_are_neighbors_of_the_first(rows_per_step):
    table = make_neighbor_table(20, 3)
    for batch in collect(neighbor_batches(table, rows_per_step)):
        anchors, neighbors = batch.anchors(batch.row_index), batch.neighbors(batch.row_index)
        assert len(batch.row_index) == rows_per_step
        assert len(anchors) == len(neighbors) == rows_per_step // 2
        lines = table[anchors // 2]
        assert torch.equal(lines[:, 0], anchors)
        assert (lines[:, 1:] == neighbors[:, None]).any(dim=1).all()
        assert torch.equal(batch.rows[:, 0].long(), batch.row_index)


def test_a_row_in_the_middle_of_an_odd_number_has_no_neighbor():
    for batch in collect(neighbor_batches(make_neighbor_table(20, 3), 7)):
        together = torch.cat([batch.anchors(batch.row_index), batch.neighbors(batch.row_index)])
        assert batch.row_index[3] not in together
        assert batch.row_index[3] in make_neighbor_table(20, 3)[:, 0]


def test_all_anchors_are_used_equally_often():
    steps = collect(neighbor_batches(make_neighbor_table(20, 3), 10, n_steps=12))
    drawn = torch.cat([batch.row_index[:5] for batch in steps]) // 2
    assert torch.bincount(drawn, minlength=20).tolist() == [3] * 20


def test_every_neighbor_has_its_turn():
    table = make_neighbor_table(4, 3)
    drawn = torch.cat([b.neighbors(b.row_index) for b in collect(neighbor_batches(table, 8, n_steps=50))])
    assert set(drawn.tolist()) == set(table[:, 1:].flatten().tolist())


def test_neighbors_of_an_epoch_depend_on_its_number_alone():
    first = collect(neighbor_batches(make_neighbor_table(20, 3), 7), 5)
    again = collect(neighbor_batches(make_neighbor_table(20, 3), 7), 5)
    other = collect(neighbor_batches(make_neighbor_table(20, 3), 7), 6)
    assert all(torch.equal(a.x, b.x) for a, b in zip(first, again, strict=True))
    assert not all(torch.equal(a.x, b.x) for a, b in zip(first, other, strict=True))


def test_neighbors_take_no_pair_away_and_all_rows_count():
    with_them = collect(neighbor_batches(make_neighbor_table(20, 3), 8))
    without = collect(neighbor_batches(None, 8))
    for one, other in zip(with_them, without, strict=True):
        assert torch.equal(one.x[:6], other.x[:6])
        assert torch.equal(one.is_must_link, other.is_must_link)
        assert torch.equal(one.row_weight, torch.ones(8))


def test_a_table_of_neighbors_is_read_anew_for_every_epoch():
    table = make_neighbor_table(20, 3)
    batches = neighbor_batches(table, 8)
    collect(batches, 0)
    table[:, 1:] = 7
    assert all((b.neighbors(b.row_index) == 7).all() for b in collect(batches, 1))
