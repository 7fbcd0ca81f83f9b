"""``spherepair clusters``: the number, why, how sure, and the curve."""

from __future__ import annotations

import numpy as np
import pytest

from spherepair.cli.charts import bar_chart


def test_number_confidence_and_curve_are_given(call, example):
    done = call("clusters", example.model, "--constraints", example.numbered_pairs, "--json")
    assert done.code == 0
    result = done.json
    assert result["value"] == 3
    assert 0 <= result["confidence"] <= 1
    assert len(result["curve"]) == len(result["curve_spread"]) == 32
    assert sum(candidate["weight"] for candidate in result["candidates"]) == pytest.approx(1)
    text = call("clusters", example.model, "--constraints", example.numbered_pairs).out
    assert result["explanation"] in text
    assert "candidates  3 (" in text
    assert "<- 3 clusters" in text


def test_pairs_of_the_fit_are_used_when_none_are_given(call, example):
    given = call("clusters", example.model, "-h").out
    assert "those of the fit when missing" in " ".join(given.replace("│", " ").split())
    mine = call("clusters", example.model, "--json").json
    theirs = call("clusters", example.model, "--constraints", example.numbered_pairs, "--json").json
    assert mine == theirs


def test_ids_are_looked_up_in_the_data(call, example):
    named = call(
        *("clusters", example.model, "--constraints", example.pairs),
        *("--data", example.rows, "--id", "name", "--json"),
    )
    assert named.json == call("clusters", example.model, "--json").json
    alone = call("clusters", example.model, "--constraints", example.pairs)
    assert alone.code == 2
    assert "Give --id COLUMN if the file names rows by an id." in alone.err


@pytest.mark.parametrize("method", ["tail-angle", "silhouette", "lifetime"])
def test_every_method_draws_its_curve(call, example, tmp_path, method):
    picture = tmp_path / "curve.png"
    done = call("clusters", example.model, "--method", method, "--plot", picture)
    assert done.code == 0
    assert "<- 3 clusters" in done.out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_picture_of_an_unknown_kind_is_refused(call, example, tmp_path):
    done = call("clusters", example.model, "--plot", tmp_path / "curve.gif")
    assert done.code == 2
    assert "must end in .png, .svg, .pdf" in done.err


def test_pairs_beyond_the_fitted_rows_are_refused(call, example, tmp_path):
    (tmp_path / "pairs.csv").write_text("left,right,link\n0,120,cannot\n")
    done = call("clusters", example.model, "--constraints", tmp_path / "pairs.csv")
    assert done.code == 2
    assert "there are only 120 rows" in done.err


def test_bars_are_as_long_as_their_values():
    lines = bar_chart(["a", "b", "c"], [2.0, 1.0, -1.0], width=10)
    assert [line.count("█") for line in lines] == [10, 5, 0]
    assert bar_chart(["a"], [0.0]) == ["a   0.0 "]
    assert bar_chart([], []) == []
    assert np.all([len(line) <= 24 for line in lines])
