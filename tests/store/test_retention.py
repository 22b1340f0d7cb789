"""Retention: what expires and what does not, when the clock is believed, and reports.

Source: docs/format/coordinator.md §5.13.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import offsetlog
from offsetlog import MaintenanceConfig, OffsetAndMetadata, OffsetStore, TopicPartition, errors
from offsetlog._native.encoding import encode_batch, encode_key, encode_value
from offsetlog._native.records import SegmentReader
from offsetlog.maintenance import retention as retention_module
from offsetlog.maintenance.retention import ClockGuard, Expirer, Retention, expire, expiring
from offsetlog.retention import listed
from offsetlog.types import Expiring, ExpiryReport

from . import expiry_reference as reference
from .conftest import tree
from .expiry_reference import Committed, Group, classic_value
from .test_clock_guard import Clocks

HOUR = 3_600_000
DAY = 24 * HOUR
NOW = time.time_ns() // 1_000_000

Rules = dict[str, int | None]


# ---------------------------------------------------------------------------------------------------- logs made by hand


class Log:
    """A log of one partition, made by hand: what no call of a store writes."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self._batches: list[bytes] = []
        self._end = 0

    def _group(self, name: str) -> Group:
        return self.groups.setdefault(name, Group())

    def _append(self, key: bytes, value: bytes | None, producer: int = -1) -> None:
        epoch = -1 if producer < 0 else 0
        self._batches.append(
            encode_batch(self._end, NOW - 30 * DAY, [(key, value)], producer_id=producer, producer_epoch=epoch)
        )
        self._end += 1

    def commit(self, group: str, topic: str, partition: int, at: int, expire: int = -1, *, pending: int = -1) -> None:
        key = encode_key(1, {"group": group, "topic": topic, "partition": partition})
        fields: dict[str, Any] = {"offset": 7, "metadata": "", "commitTimestamp": at}
        fields |= {"expireTimestamp": expire} if expire >= 0 else {"leaderEpoch": -1}
        self._append(key, encode_value(1, 1 if expire >= 0 else 3, fields), pending)
        if pending < 0:
            self._group(group).positions[topic, partition] = Committed(at, expire)
        else:
            self._group(group).pending.add((topic, partition))

    def record(self, group: str, kind: int, value: bytes = b"\0\0", member: str = "") -> None:
        names = {"group": group} if kind == 2 else {"groupId": group}
        if kind == 16:
            names["regularExpression"] = member
        elif kind in reference.MEMBER_TYPES:
            names["memberId"] = member
        self._append(encode_key(kind, names), value)
        self._group(group).records[kind, member] = value
        self._group(group).newest_type = kind

    def classic(self, group: str, protocol_type: str, state: int, members: int = 0, version: int = 3) -> None:
        self.record(group, 2, classic_value(version, protocol_type, state, members))

    def write(self, path: Path) -> Path:
        folder = path / "__consumer_offsets-0"
        folder.mkdir(parents=True)
        (folder / f"{0:020}.log").write_bytes(b"".join(self._batches))
        return path

    def open(self, path: Path) -> OffsetStore:
        return offsetlog.open(self.write(path), 1, "process")


def at(now: int, default: int | None, groups: Rules | None = None) -> Expirer:
    """Checks at a time of our own."""
    return Expirer(Retention(default, groups), ClockGuard(lambda: now, lambda: 0))


def check(store: OffsetStore, default: int | None, groups: Rules | None = None, now: int = NOW) -> ExpiryReport:
    return expire(store._open_core, at(now, default, groups), None, trust_clock=True)


def due(store: OffsetStore, default: int | None, groups: Rules | None = None, now: int = NOW) -> list[Expiring]:
    return listed(expiring(store._open_core, at(now, default, groups), 0))


def slots(store: OffsetStore) -> set[tuple[str, str, int]]:
    columns = store.to_arrow().select(["group", "topic", "partition"]).to_pydict()
    return set(zip(columns["group"], columns["topic"], columns["partition"], strict=True))


def compare(store: OffsetStore, log: Log, default: int | None, rules: Rules, now: int = NOW) -> ExpiryReport:
    """A dry run and a check do what the reference says; returns the check's report."""
    wanted = reference.check(log.groups, default, rules, now)
    before = slots(store)
    rows = due(store, default, rules, now)
    assert {(row.group, row.topic, row.partition) for row in rows if row.topic is not None} == wanted.expired
    assert {row.group for row in rows if row.topic is None} == wanted.removed
    for row in rows:
        rule, retention_ms = reference.rule_of(row.group, default, rules)
        assert (row.rule, row.retention_ms) == (rule, retention_ms)
        if row.topic is not None and row.partition is not None and retention_ms is not None:
            group = log.groups[row.group]
            assert row.expires_at == reference.expires_at(group, (row.topic, row.partition), retention_ms)
    assert slots(store) == before
    report = check(store, default, rules, now)
    assert slots(store) == before - wanted.expired
    with_positions = {group for group, _, _ in before - wanted.expired}
    assert (
        set(store.groups())
        == with_positions | {name for name, group in log.groups.items() if group.records} - wanted.removed
    )
    assert (report.positions_expired, report.groups_removed) == (len(wanted.expired), len(wanted.removed))
    assert report.positions_pending == wanted.protected
    return report


# ------------------------------------------------------------------------------------------------------------ the table

WEEK = 7 * DAY


def _empty(log: Log) -> None:
    log.commit("g", "t", 0, NOW - 10 * DAY)
    log.classic("g", "consumer", NOW - 6 * DAY)


def _empty_long(log: Log) -> None:
    log.commit("g", "t", 0, NOW - DAY)
    log.classic("g", "consumer", NOW - WEEK)


def _empty_unknown(log: Log) -> None:
    log.commit("g", "t", 0, NOW - 10 * DAY)
    log.classic("g", "consumer", -1)


def _empty_old(log: Log, version: int) -> None:
    log.commit("g", "t", 0, NOW - 10 * DAY)
    log.classic("g", "consumer", 0, version=version)


def _simple(log: Log) -> None:
    log.commit("g", "t", 0, NOW - 10 * DAY)


def _simple_recorded(log: Log) -> None:
    log.commit("g", "t", 0, NOW - 10 * DAY)
    log.classic("g", "", NOW - DAY)


def _simple_young(log: Log) -> None:
    log.commit("g", "t", 0, NOW - WEEK + 1)


def _stable(log: Log, protocol_type: str = "consumer") -> None:
    log.commit("g", "t", 0, NOW - 20 * DAY)
    log.commit("g", "t", 1, NOW - 20 * DAY, NOW - 10 * DAY)
    log.classic("g", protocol_type, NOW - 20 * DAY, members=2)


def _other_type(log: Log) -> None:
    log.commit("g", "t", 0, NOW - 10 * DAY)
    log.classic("g", "connect", NOW - WEEK)


def _consumer(log: Log, *, members: bool) -> None:
    log.commit("g", "t", 0, NOW - WEEK)
    for kind in (3, 6):
        log.record("g", kind)
    for kind in (5, 7, 8) if members else ():
        log.record("g", kind, member="m")


def _streams(log: Log, *, members: bool) -> None:
    log.commit("g", "t", 0, NOW - WEEK)
    for kind in (17, 20, 23):
        log.record("g", kind)
    if members:
        log.record("g", 19, member="m")


def _share(log: Log) -> None:
    for kind in (11, 12, 15):
        log.record("g", kind)


def _own_time(log: Log, time_ms: int) -> None:
    log.commit("g", "t", 0, NOW - 10 * DAY, time_ms)


def _bare(log: Log, kinds: tuple[int, ...]) -> None:
    for kind in kinds:
        log.record("g", kind)


def _bare_classic(log: Log) -> None:
    log.classic("g", "consumer", NOW)


def _pending(log: Log) -> None:
    log.commit("g", "t", 0, NOW - 10 * DAY)
    log.commit("g", "t", 1, NOW - 10 * DAY)
    log.commit("g", "t", 1, NOW, pending=5)
    log.classic("g", "", NOW)


def _pending_only(log: Log) -> None:
    log.classic("g", "consumer", NOW - 30 * DAY)
    log.commit("g", "t", 0, NOW, pending=5)


TABLE = {
    "trap 21: empty since 6 days, committed 10 days ago": (_empty, 0, False),
    "empty for long enough, committed yesterday": (_empty_long, 1, True),
    "empty since a time nobody knows": (_empty_unknown, 1, True),
    "a value of version 0": (lambda log: _empty_old(log, 0), 1, True),
    "a value of version 1": (lambda log: _empty_old(log, 1), 1, True),
    "trap 21: the same data in a simple group": (_simple, 1, True),
    "a simple group with a record of its own": (_simple_recorded, 1, True),
    "a simple group, a millisecond too young": (_simple_young, 0, False),
    "another protocol, empty": (_other_type, 1, True),
    "trap 22: members": (_stable, 0, False),
    "trap 22: members of another protocol": (lambda log: _stable(log, "connect"), 0, False),
    "a consumer group": (lambda log: _consumer(log, members=True), 0, False),
    "a consumer group without members": (lambda log: _consumer(log, members=False), 1, True),
    "a streams group": (lambda log: _streams(log, members=True), 0, False),
    "a streams group without members": (lambda log: _streams(log, members=False), 1, True),
    "a share group": (_share, 0, False),
    "the record's own time has come": (lambda log: _own_time(log, NOW), 1, True),
    "the record's own time is still to come": (lambda log: _own_time(log, NOW + 1), 0, False),
    "trap 23: empty, without positions": (_bare_classic, 0, True),
    "a consumer group without anything": (lambda log: _bare(log, (3, 6)), 0, True),
    "a streams group without anything": (lambda log: _bare(log, (17, 20, 23)), 0, True),
    "pending": (_pending, 1, False),
    "nothing but pending": (_pending_only, 0, False),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_table_of_what_expires(tmp_path: Path, name: str) -> None:
    make, expired, removed = TABLE[name]
    log = Log()
    make(log)
    with log.open(tmp_path / "data") as store:
        report = compare(store, log, WEEK, {})
        assert (report.positions_expired, report.groups_removed) == (expired, int(removed))
        assert store._open_core.attached()[0].group_records() == [] or not removed
        assert check(store, WEEK).positions_expired == 0
        digest = store.digest(physical=True)
        assert store.verify() == []
    with offsetlog.open(tmp_path / "data", read_only=True) as again:
        assert again.digest(physical=True) == digest


def test_a_modern_group_is_deleted_in_the_order_of_a_broker(tmp_path: Path) -> None:
    log = Log()
    _consumer(log, members=False)
    log.record("g", 16, member="a.*")
    log.record("g", 4)
    with log.open(tmp_path / "data") as store:
        check(store, WEEK)
    # The log rolled: what was made by hand is old.
    newest = max((tmp_path / "data" / "__consumer_offsets-0").glob("*.log"))
    with SegmentReader(newest) as reader:
        found = reader.read()
    assert found is not None
    tombstones = [(int(record["key"]["type"]), record["value"]) for record in found[1]]
    assert tombstones == [(kind, None) for kind in (1, 6, 16, 4, 3)]


def test_a_transaction_that_ends_lets_go(tmp_path: Path) -> None:
    log = Log()
    _pending(log)
    with log.open(tmp_path / "data") as store:
        check(store, WEEK)
        assert slots(store) == {("g", "t", 1)}
        store.abort_transaction(5)
        report = check(store, WEEK)
        assert (report.positions_expired, report.groups_removed) == (1, 1)
        assert store.groups() == []


# -------------------------------------------------------------------------------------------------- against a reference

TIMES = st.sampled_from([-1, 0, 5 * HOUR, DAY - 1, DAY, DAY + 1, 3 * DAY, WEEK, 10 * DAY]).map(lambda age: NOW - age)
MOMENTS = st.sampled_from([NOW, NOW + HOUR, NOW + 5 * DAY])
NAMES = st.sampled_from(["a", "ab", "abc", "b", "ba", ""])
TIMEOUTS = st.sampled_from([None, 0, HOUR, DAY, 3 * DAY, 30 * DAY])
POSITIONS = st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 5), TIMES, st.one_of(st.just(-1), TIMES))
RULES = st.dictionaries(st.sampled_from(["a", "a*", "ab", "ab*", "b*", "*", ""]), TIMEOUTS)
KINDS = st.sampled_from([2, 2, 2, 3, 4, 5, 6, 7, 8, 11, 15, 16, 17, 19, 20, 23])


@st.composite
def logs(draw: st.DrawFn) -> Log:
    log = Log()
    for name in draw(st.sets(NAMES)):
        for topic, partition, committed, expires in draw(st.lists(POSITIONS, max_size=8)):
            log.commit(name, topic, partition, max(0, committed), expires)
        for kind in draw(st.lists(KINDS, max_size=3, unique=True)):
            if kind == 2:
                protocol_type = draw(st.sampled_from(["", "consumer", "connect"]))
                version, members = draw(st.integers(0, 3)), draw(st.sampled_from([0, 0, 0, 1]))
                log.classic(name, protocol_type, draw(st.one_of(st.just(-1), TIMES)), members, version)
            else:
                log.record(name, kind, member="m" if kind in reference.MEMBER_TYPES or kind == 16 else "")
        for topic, partition in draw(st.sets(st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 5)), max_size=2)):
            log.commit(name, topic, partition, NOW, pending=draw(st.integers(1, 2)))
    return log


@settings(max_examples=100, deadline=None)
@given(log=logs(), default=TIMEOUTS, rules=RULES, moments=st.lists(MOMENTS, min_size=1, max_size=2).map(sorted))
def test_checks_do_what_the_reference_says(
    tmp_path_factory: pytest.TempPathFactory, log: Log, default: int | None, rules: Rules, moments: list[int]
) -> None:
    path = tmp_path_factory.mktemp("retention")
    with log.open(path / "data") as store:
        for now in moments:
            wanted = reference.check(log.groups, default, rules, now)
            compare(store, log, default, rules, now)
            for name, topic, partition in wanted.expired:
                del log.groups[name].positions[topic, partition]
            for name in wanted.removed:
                del log.groups[name]
        digest = store.digest(physical=True)
    with offsetlog.open(path / "data", read_only=True) as again:
        assert again.digest(physical=True) == digest


# ------------------------------------------------------------------------------------------------------- rules and off


def committed(store: OffsetStore, group: str, age: int, *keys: tuple[str, int], expire: int = -1) -> None:
    value = OffsetAndMetadata(7, commit_timestamp=NOW - age, expire_timestamp=expire)
    store.commit(group, dict.fromkeys((TopicPartition(*key) for key in keys or (("t", 0),)), value))


def test_by_itself_nothing_expires(store: OffsetStore) -> None:
    committed(store, "g", 1000 * DAY)
    committed(store, "own", 1000 * DAY, expire=1)
    before = store.digest(physical=True)
    report = store.expire()
    assert (report.groups, report.groups_never, report.positions_expired) == (2, 2, 0)
    assert store.expiring(timedelta(days=36500)).num_rows == 0
    assert store.digest(physical=True) == before


def test_groups_and_prefixes(store: OffsetStore) -> None:
    for group in ("bill", "billing", "billing-eu", "billing-us", "audit", "other"):
        committed(store, group, 2 * DAY)
    rules = {"billing": None, "billing-*": 3 * DAY, "billing-us*": DAY, "bill*": DAY, "audit": 10 * DAY}
    report = store.expire(retention_ms=DAY, retention=rules)
    assert store.groups() == ["audit", "billing", "billing-eu"]
    assert (report.positions_expired, report.groups_removed, report.groups_never) == (3, 3, 1)
    rows = listed(store.expiring(timedelta(days=20), retention_ms=DAY, retention=rules))
    assert {row.group: row.rule for row in rows} == {"audit": "audit", "billing-eu": "billing-*"}
    # Only what is named.
    assert store.expire(retention={"audit": 0}).positions_expired == 1
    assert store.groups() == ["billing", "billing-eu"]


def test_never_holds_also_where_a_record_says_when(store: OffsetStore) -> None:
    committed(store, "g", DAY, expire=NOW - 1)
    assert store.expire(retention_ms=0, retention={"g": None}).positions_expired == 0
    # A retention beyond all times leaves it to the records.
    assert store.expire(retention_ms=2**62).positions_expired == 1


def test_an_open_store_checks_by_itself_where_asked(path: Path) -> None:
    config = MaintenanceConfig(retention_ms=DAY, retention={"kept*": None}, retention_check_interval_ms=20)
    with offsetlog.open(path, 2, "process", maintenance=config) as store:
        for group in ("old", "kept", "kept too"):
            committed(store, group, 2 * DAY)
        deadline = time.monotonic() + 60
        while "old" in store.groups() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert store.groups() == ["kept", "kept too"]
        # A call without arguments follows the settings.
        assert store.expire().positions_expired == 0
        assert store.expire(retention={"kept": 0}).positions_expired == 1
    config = MaintenanceConfig(retention_ms=0, enabled=False, retention_check_interval_ms=1)
    with offsetlog.open(path, durability="process", maintenance=config) as store:
        time.sleep(0.1)
        assert store.groups() == ["kept too"]
        assert store.expire().positions_expired == 1


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"retention_ms": -1}, errors.ConfigError),
        ({"retention_ms": 1.5}, errors.ArgumentTypeError),
        ({"retention_ms": True}, errors.InvalidArgumentError),
        ({"retention": {"g": -1}}, errors.ConfigError),
        ({"retention": {3: 1}}, errors.ConfigError),
        ({"retention": ["g"]}, errors.ConfigError),
        ({"retention": {"\ud800": 1}}, errors.GroupError),
        ({"retention_ms": 1, "durability": "sometimes"}, errors.InvalidArgumentError),
    ],
)
def test_what_is_no_retention_is_refused(store: OffsetStore, arguments: dict[str, Any], kind: type[Exception]) -> None:
    committed(store, "g", DAY)
    with pytest.raises(errors.InvalidArgumentError) as caught:
        store.expire(**arguments)
    assert isinstance(caught.value, (kind, errors.ConfigError))
    assert store.groups() == ["g"]


def test_within_is_a_time_from_now(store: OffsetStore) -> None:
    with pytest.raises(errors.ArgumentTypeError):
        store.expiring(24)  # type: ignore[arg-type]
    with pytest.raises(errors.ConfigError):
        store.expiring(timedelta(seconds=-1))
    committed(store, "g", 0)
    assert store.expiring(timedelta.max, retention_ms=DAY).num_rows == 2


def test_what_the_settings_say(store: OffsetStore) -> None:
    config = MaintenanceConfig(retention_ms=DAY, retention={"a*": None, "b": HOUR})
    retention = Retention.of(config)
    assert (retention.default_ms, retention.groups, retention.shortest_ms) == (DAY, {"a*": None, "b": HOUR}, HOUR)
    assert Retention().shortest_ms is None
    assert repr(Retention(5, {"g": None})) == "Retention(5, {'g': None})"


# ------------------------------------------------------------------------------------------------------------- reports


def test_what_will_expire_is_reported(store: OffsetStore) -> None:
    committed(store, "soon", 6 * DAY, ("t", 0), ("t", 1))
    committed(store, "late", 0)
    # Long runs come here an hour after the clock was read for NOW.
    expires = NOW + 20 * HOUR
    committed(store, "own", 9 * DAY, expire=expires)
    before = store.digest(physical=True)
    table = store.expiring(timedelta(hours=25), retention_ms=WEEK)
    assert table.column_names == list(Expiring._fields)
    rows = listed(table)
    assert [(row.group, row.topic, row.partition, row.reason) for row in rows] == [
        ("own", "t", 0, "expire_timestamp"),
        ("own", None, None, "group"),
        ("soon", "t", 0, "commit"),
        ("soon", "t", 1, "commit"),
        ("soon", None, None, "group"),
    ]
    assert [row.expires_at for row in rows] == [expires] * 2 + [NOW + DAY] * 3
    assert [row.counted_from for row in rows] == [expires, None, NOW - 6 * DAY, NOW - 6 * DAY, None]
    assert {row.offset for row in rows} == {7, None}
    places = {row.group: row.log_partition for row in rows}
    assert places == {group: store._open_core.number_of(group) for group in ("own", "soon")}
    assert {row.rule for row in rows} == {None}
    assert store.digest(physical=True) == before
    assert store.expiring(retention_ms=WEEK).num_rows == 0


def test_a_dry_run_counts_what_a_check_does(store: OffsetStore) -> None:
    for number in range(300):
        committed(store, f"g{number}", (number % 10) * DAY, ("t", 0), ("u", 3))
    planned = store.expire(retention_ms=5 * DAY, dry_run=True)
    assert planned.dry_run
    done = store.expire(retention_ms=5 * DAY)
    assert done._replace(dry_run=True, timestamp=planned.timestamp, seconds=planned.seconds) == planned
    assert (done.positions_expired, done.groups, done.partitions) == (300, 300, 50)


def test_a_read_only_store_tells_and_deletes_nothing(store: OffsetStore, path: Path) -> None:
    committed(store, "g", DAY)
    store.close()
    before = tree(path)
    with offsetlog.open(path, read_only=True) as reader:
        assert reader.expiring(retention_ms=0).num_rows == 2
        assert reader.expire(retention_ms=0, dry_run=True).positions_expired == 1
        with pytest.raises(errors.ReadOnlyError):
            reader.expire(retention_ms=0)
    assert tree(path) == before


def test_a_closed_store_refuses(store: OffsetStore) -> None:
    store.close()
    with pytest.raises(errors.ClosedError):
        store.expire(retention_ms=0)
    with pytest.raises(errors.ClosedError):
        store.expiring(retention_ms=0)


def test_a_check_stops_when_the_store_is_closed(store: OffsetStore) -> None:
    committed(store, "g", DAY)
    expirer = at(NOW, 0)
    expirer.stop()
    with pytest.raises(errors.ClosedError):
        expire(store._open_core, expirer, None, trust_clock=True)
    with pytest.raises(errors.ClosedError):
        expiring(store._open_core, expirer, 0)
    assert store.groups() == ["g"]


def test_what_expired_is_on_disk(path: Path) -> None:
    with offsetlog.open(path, 1, "disk") as store:
        committed(store, "g", DAY)
        store.expire(retention_ms=0)
        facts = store._open_core.attached()[0].log_facts()
        assert facts["flushed"] == facts["end"]


def test_damage_elsewhere_keeps_nothing(tmp_path: Path) -> None:
    with offsetlog.open(tmp_path / "data", 4, "process") as store:
        groups: dict[int, str] = {}
        for number in range(100):
            groups.setdefault(store._open_core.number_of(f"g{number}"), f"g{number}")
        for group in groups.values():
            committed(store, group, DAY)
            committed(store, group, DAY, ("t", 1))
    file = tmp_path / "data" / "__consumer_offsets-2" / f"{0:020}.log"
    damaged = bytearray(file.read_bytes())
    damaged[70] ^= 1
    file.write_bytes(damaged)
    with pytest.warns(offsetlog.errors.CorruptionWarning):
        store = offsetlog.open(tmp_path / "data", durability="process")
    with store:
        with pytest.raises(errors.ReadOnlyError) as caught:
            store.expire(retention_ms=0)
        assert store.groups() == [groups[2]]
    assert caught.value.__notes__ == ["6 positions expired in 3 other log partitions"]


# ------------------------------------------------------------------------------------------------------------ the clock


def test_a_store_refuses_a_clock_that_jumped(store: OffsetStore) -> None:
    committed(store, "g", DAY)
    clocks = Clocks(wall=retention_module.wall_ms() + 1000)
    expirer = Expirer(Retention(WEEK), clocks.guard())
    before = store.digest(physical=True)
    clocks.wall += 30 * DAY
    with pytest.raises(errors.ClockError):
        expire(store._open_core, expirer, None)
    clocks.wall -= 60 * DAY
    with pytest.raises(errors.ClockError, match="newest record"):
        expire(store._open_core, expirer, None)
    # A dry run is believed whatever it says.
    assert expire(store._open_core, expirer, None, dry_run=True).positions_expired == 0
    assert store.digest(physical=True) == before
    clocks.wall += 60 * DAY
    assert expire(store._open_core, expirer, None, trust_clock=True).positions_expired == 1


def test_a_record_of_the_future_is_met_after_a_restart(tmp_path: Path) -> None:
    log = Log()
    log.commit("g", "t", 0, NOW - 10 * DAY)
    key = encode_key(1, {"group": "h", "topic": "t", "partition": 0})
    value = {"offset": 1, "leaderEpoch": -1, "metadata": "", "commitTimestamp": NOW}
    log._batches.append(encode_batch(1, NOW + 30 * DAY, [(key, encode_value(1, 3, value))]))
    with log.open(tmp_path / "data") as store:
        with pytest.raises(errors.ClockError, match="newest record"):
            store.expire(retention_ms=DAY)
        assert store.expire(retention_ms=DAY, trust_clock=True).positions_expired == 1


# --------------------------------------------------------------------------------------------------------------- races


@pytest.fixture
def racing() -> Iterator[list[threading.Thread]]:
    threads: list[threading.Thread] = []
    yield threads
    for thread in threads:
        thread.join()


def test_what_is_committed_meanwhile_survives(store: OffsetStore, racing: list[threading.Thread]) -> None:
    """Each position is committed old, then new: whatever a check saw, the new one stays."""
    keys = [TopicPartition("t", number) for number in range(20)]
    done = threading.Event()

    def commit(group: str) -> None:
        for turn in range(60):
            store.commit(group, dict.fromkeys(keys, OffsetAndMetadata(turn, commit_timestamp=NOW - 10 * DAY)))
            store.commit(group, dict.fromkeys(keys[: turn % len(keys) + 1], turn))
        store.commit(group, dict.fromkeys(keys, 1000))
        if group == "g0":
            done.set()

    racing.extend(threading.Thread(target=commit, args=(f"g{number}",)) for number in range(3))
    for thread in racing:
        thread.start()
    expired = 0
    while not done.is_set():
        expired += store.expire(retention_ms=5 * DAY).positions_expired
    for thread in racing:
        thread.join()
    store.expire(retention_ms=5 * DAY)
    for number in range(3):
        assert {key: value.offset for key, value in store.fetch(f"g{number}").items()} == dict.fromkeys(keys, 1000)
    assert store.verify() == []


def test_two_checks_at_once_write_each_tombstone_once(store: OffsetStore, racing: list[threading.Thread]) -> None:
    for number in range(500):
        committed(store, f"g{number}", DAY)
    reports: list[ExpiryReport] = []
    racing.extend(threading.Thread(target=lambda: reports.append(store.expire(retention_ms=0))) for _ in range(3))
    for thread in racing:
        thread.start()
    for thread in racing:
        thread.join()
    assert sum(report.positions_expired for report in reports) == 500
    assert store.groups() == []
    ends = sum(partition.log_facts()["end"] for partition in store._open_core.attached())
    assert ends == 1000
