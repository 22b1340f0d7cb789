"""Wrong arguments are refused as what they are."""

from __future__ import annotations

import pytest

from offsetlog._native.change_feed import ChangeFeed
from offsetlog._native.row_blocks import RowBlocks
from offsetlog.errors import InternalError, InvalidArgumentError

from .managers import KEYS, leading


def test_a_generation_that_is_none_is_not_blamed_on_a_position(tmp_path):
    with leading(tmp_path / "data") as manager:
        for generation in (-2, 2**31):
            with pytest.raises(InvalidArgumentError) as refused:
                manager.commit("g", {KEYS[0]: 1}, generation=generation)
            assert str(refused.value).startswith("the generation must be")


def test_a_feed_that_was_not_started_reads_nothing():
    feed = ChangeFeed(0)
    with pytest.raises(InternalError):
        feed.is_current()
    with pytest.raises(InternalError):
        feed.read(RowBlocks("changes", None), 10, False)
