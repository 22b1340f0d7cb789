"""Moments mean the same in commands, in the library, in Spark's options and in its jobs: one table for all of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

import offsetlog
from offsetlog import TopicPartition, arguments, moments
from offsetlog.errors import InvalidArgumentError

KEY = TopicPartition("orders", 0)
HOURS_2 = timedelta(hours=2)

#: Text -> a time, how long before now, a log offset; None for now.
RIGHT: dict[str, datetime | timedelta | int | None] = {
    "2026-03-01T02:30": datetime(2026, 3, 1, 2, 30, tzinfo=UTC),
    "2026-03-01 02:30:00.250": datetime(2026, 3, 1, 2, 30, 0, 250_000, tzinfo=UTC),
    "2026-03-01T02:30Z": datetime(2026, 3, 1, 2, 30, tzinfo=UTC),
    "2026-03-01 02:30:00.250 UTC": datetime(2026, 3, 1, 2, 30, 0, 250_000, tzinfo=UTC),
    "2026-03-01T02:30+01:00": datetime(2026, 3, 1, 1, 30, tzinfo=UTC),
    "2026-03-01": datetime(2026, 3, 1, tzinfo=UTC),
    "  2026-03-01  ": datetime(2026, 3, 1, tzinfo=UTC),
    "1772332200000": datetime(2026, 3, 1, 2, 30, tzinfo=UTC),
    "1000000000000": datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC),
    "2h ago": HOURS_2,
    "2 hours ago": HOURS_2,
    "120 min ago": HOURS_2,
    "-7200 seconds": HOURS_2,
    "-2h": HOURS_2,
    "- 2h": HOURS_2,
    " 120m ago ": HOURS_2,
    "7200s ago": HOURS_2,
    "0.5d ago": timedelta(hours=12),
    "2H ago": HOURS_2,
    "1w ago": timedelta(days=7),
    "1500ms ago": timedelta(milliseconds=1500),
    "-0": timedelta(0),
    "offset:12": 12,
    "offset:0": 0,
    "now": None,
}
#: Texts that no caller accepts as a moment.
WRONG = [
    "",
    "yesterday",
    "2h",
    "-",
    "-x",
    "x ago",
    " ago",
    "2y ago",
    "1M ago",
    "-1M",
    "-2h ago",
    "2026-13-01",
    "2026-03-01T25:00",
    "2026-03-01T02:30+01:00 UTC",
    "2h ago UTC",
    "20260301 UTC",
    "1712010100000 UTC",
    "2026-13-01 UTC",
    "offset:",
    "offset:-1",
    "offset:x",
    "offset: 5",
    "9" * 20,
    "99999999999w ago",
]
#: Short numbers: Spark's option has always taken them for ms, nobody else guesses what they are.
SHORT = ["12", "20260301", "17723322000", "202603010230"]


def by_parser(text: str) -> datetime | int | None:
    return moments.parse_moment(text)


def by_library(text: str) -> datetime | int | None:
    return arguments.parsed_moment("at", text)


def by_option(text: str) -> datetime | int | None:
    options = pytest.importorskip("offsetlog.spark.scan.options")
    moment = options.parse_moment(text)
    if moment is None:
        return None
    if moment.timestamp is None:
        return moment.offsets[0][1]
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=moment.timestamp)


def by_job(text: str) -> datetime | int | None:
    options = pytest.importorskip("offsetlog.spark.scan.options")
    fixed = options.fixed_moment(text)
    assert fixed is None or options.fixed_moment(fixed) == fixed
    return None if fixed is None else by_option(fixed)


def by_command_of_a_job(text: str) -> datetime | int | None:
    pytest.importorskip("typer")
    given = pytest.importorskip("offsetlog.cli.spark.options").moment_option(text)
    return None if given is None else by_option(given)


READERS = [by_parser, by_library, by_option, by_job, by_command_of_a_job]
every_reader = pytest.mark.parametrize("read", READERS, ids=lambda each: each.__name__)


@every_reader
@pytest.mark.parametrize("text", RIGHT)
def test_a_moment_is_accepted_everywhere(read: Callable[[str], datetime | int | None], text):
    expected = RIGHT[text]
    before = datetime.now(UTC)
    found = read(text)
    if isinstance(expected, timedelta):
        assert before - timedelta(seconds=1) <= found + expected <= datetime.now(UTC) + timedelta(seconds=1)
    else:
        assert (found, type(found)) == (expected, type(expected))


@every_reader
@pytest.mark.parametrize("text", WRONG)
def test_anything_else_is_refused_everywhere(read, text):
    with pytest.raises(InvalidArgumentError) as refused:
        read(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize("text", SHORT)
def test_a_short_number_is_a_time_for_spark_alone(text):
    for read in (by_parser, by_library, by_command_of_a_job):
        with pytest.raises(InvalidArgumentError, match="ms since 1970"):
            read(text)
    assert by_option(text) == by_job(text) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=int(text))


@pytest.mark.parametrize("text", RIGHT)
def test_times_alone_are_read_alike(text):
    if isinstance(RIGHT[text], int):
        with pytest.raises(InvalidArgumentError, match="is not a time"):
            moments.parse_time(text)
        return
    expected = RIGHT[text] or timedelta(0)
    found = moments.parse_time(text)
    expected = expected if isinstance(expected, datetime) else datetime.now(UTC) - expected
    assert abs(found - expected) < timedelta(seconds=1)


@pytest.fixture
def store(tmp_path):
    with offsetlog.open(tmp_path, partitions=1, durability="process") as store:
        store.commit("g", {KEY: 1})
        store.commit("g", {KEY: 2})
        yield store


def test_calls_of_a_store_take_text(store):
    assert store.fetch("g", at="offset:0") == {}
    assert store.fetch("g", at="1h ago") == {}
    assert store.fetch("g", at="2020-01-01") == {}
    assert store.fetch("g", at="now")[KEY].offset == 2
    assert [change.before for change in store.diff("1h ago", "now")] == [None]
    assert store.diff("now", None) == []
    assert store.deletions("g", since="-2h") == []
    assert store.restore("g", "-2h", dry_run=True, delete_all=True)[0].after is None
    store.restore("g", "2h ago", delete_all=True)
    assert store.fetch("g") == {}
    assert [deletion.group for deletion in store.deletions("g", since="1h ago")] == ["g"]
    store.undelete("g", since="1 h ago")
    assert store.fetch("g")[KEY].offset == 2


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda store: store.fetch("g", at="yesterday"), "at='yesterday' is not a moment; write 2026-03-01T02:30"),
        (lambda store: store.restore("g", "now"), "at='now' is not in the past"),
        (lambda store: store.undelete("g", at="now"), "at='now' is not in the past"),
        (lambda store: store.diff("soon"), "a='soon' is not a moment"),
        (lambda store: store.diff("1h ago", "soon"), "b='soon' is not a moment"),
        (lambda store: store.diff("offset:1"), "a=1 is a log offset, and each log partition has its own log offsets"),
        (lambda store: store.deletions(since="offset:1"), "since='offset:1' is not a time"),
        (lambda store: store.restore("g", "1M ago"), "24h or 7d; 1m is a minute, and a month is 30d"),
        (lambda store: store.undelete("g", since="x ago"), "since='x ago': 'x' is not a duration; write it as 500ms"),
    ],
)
def test_an_error_names_the_argument(store, call, says):
    with pytest.raises(InvalidArgumentError) as refused:
        call(store)
    assert says in str(refused.value)


def test_a_refused_moment_names_the_fault():
    for text, fault in (
        ("2026-02-30T00:00", "is not in the calendar"),
        ("2026-02-30", "is not in the calendar"),
        ("2026-02-28T25:00Z", "is not in the calendar"),
        ("2h", "for a time in the past, write -2h or '2h ago'"),
        ("20:30", "is not a moment; write 2026-03-01T02:30"),
    ):
        with pytest.raises(InvalidArgumentError, match=re.escape(fault)):
            moments.parse_moment(text)
