"""Values of options that typer cannot check by itself."""

from __future__ import annotations

import pytest
import typer

from spherepair.cli.options import count_or_auto, layer_sizes


@pytest.mark.parametrize("text", ["0", "-3", "many", "2.5", "", "9" * 5000])
def test_number_of_clusters_must_be_a_count_or_auto(text):
    with pytest.raises(typer.BadParameter, match="at least 1 or 'auto'"):
        count_or_auto(text, "--clusters")


@pytest.mark.parametrize("text", ["huge", "32,", "32,0", "a,b", "9" * 5000])
def test_layer_sizes_must_be_a_name_or_numbers(text):
    with pytest.raises(typer.BadParameter, match="compact"):
        layer_sizes(text)
