"""Wrong arguments are refused as what they are."""

from __future__ import annotations

import confluent_kafka
import pytest

from offsetlog._native.change_feed import ChangeFeed
from offsetlog._native.row_blocks import RowBlocks
from offsetlog.errors import ArgumentTypeError, InternalError, InvalidArgumentError

from .managers import KEYS, leading


def test_a_generation_that_is_none_is_not_blamed_on_a_position(tmp_path):
    with leading(tmp_path / "data") as manager:
        for generation in (-2, 2**31):
            with pytest.raises(InvalidArgumentError) as refused:
                manager.commit("g", {KEYS[0]: 1}, generation=generation)
            assert str(refused.value).startswith("the generation must be")


@pytest.mark.parametrize("named", [lambda *key: key, confluent_kafka.TopicPartition], ids=["tuple", "object"])
def test_a_tuple_and_an_object_of_another_client_name_a_position(tmp_path, named):
    first, second = (named(*key) for key in KEYS[:2])
    with leading(tmp_path / "data") as manager:
        manager.commit("g", {first: 1, second: (2, "text")})
        manager.commit("g", {first: 3}, expected={first: 1})
        assert [value.offset for value in manager.fetch("g", [first, second]).values()] == [3, 2]
        assert manager.delete("g", [second]) == 1
        manager.fence("g", {first: 4})
        assert {key: value.offset for key, value in manager.fetch("g").items()} == {KEYS[0]: 4}


def test_a_feed_that_was_not_started_reads_nothing():
    feed = ChangeFeed(0)
    with pytest.raises(InternalError):
        feed.is_current()
    with pytest.raises(InternalError):
        feed.read(RowBlocks("changes", None), 10, False)


WRONG_CALLS: dict[str, tuple[str, tuple]] = {
    "a partition that is a float": ("positions", (0.0,)),
    "a state of a float": ("state", (0.0,)),
    "W of a float": ("advance", (0.0, 1, 1)),
    "W of a large partition": ("advance", (2**40, 1, 1)),
    "W of a large epoch": ("advance", (0, 2**40, 1)),
    "W at a large offset": ("advance", (0, 1, 2**70)),
    "W at half an offset": ("advance", (0, 1, 1.5)),
    "no bytes to append": ("append_as_follower", (0, 1, "abc")),
    "bytes that are apart": ("append_as_follower", (0, 1, memoryview(b"abcdef")[::2])),
    "an epoch that is a str": ("append_as_follower", (0, "1", b"")),
    "a large epoch": ("append_as_follower", (0, 2**40, b"")),
    "a cut at a large offset": ("truncate_to", (0, 1, 2**70)),
    "a cut below 0": ("truncate_to", (0, 1, -1)),
    "a beginning below 0": ("restart_at", (0, 1, -1)),
    "the end of a large epoch": ("end_offset_for_epoch", (0, 2**40)),
    "the end of no epoch": ("end_offset_for_epoch", (0, None)),
    "a buffer for reading only": ("read_into", (0, 0, bytes(100))),
    "no buffer": ("read_into", (0, 0, 5)),
    "a read at a large offset": ("read_into", (0, 2**70, bytearray(100))),
    "a file's piece of a negative size": ("file_range", (0, 0, -1)),
    "a file's piece at a large offset": ("file_range", (0, 2**70, 1)),
}


@pytest.mark.parametrize("has_log", [False, True])
@pytest.mark.parametrize("case", WRONG_CALLS)
def test_wrong_arguments_of_replication_are_refused_as_such(tmp_path, case, has_log):
    name, given = WRONG_CALLS[case]
    with leading(tmp_path / "data") as manager:
        if has_log:
            manager.commit("g", {KEYS[0]: 1})
        with pytest.raises(InvalidArgumentError):
            getattr(manager, name)(*given)


@pytest.mark.parametrize("monotonic", ["", 0, 1, None])
def test_monotonic_is_true_or_false_and_nothing_else(tmp_path, monotonic):
    with leading(tmp_path / "data") as manager:
        for commit in (manager.commit, manager.commit_async):
            with pytest.raises(ArgumentTypeError, match="monotonic must be True or False, not "):
                commit("g", {KEYS[0]: 1}, monotonic=monotonic)
