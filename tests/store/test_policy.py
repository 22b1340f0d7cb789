"""The decisions of maintenance, as tables: Kafka's selection with docs/format/traps.md traps 26 and 27
(docs/format/cleaner.md §8.1), and what goes beyond."""

from __future__ import annotations

import dataclasses
import random

import pytest

from offsetlog.config import MIB, MaintenanceConfig
from offsetlog.maintenance import policy
from offsetlog.maintenance.policy import LogFacts, Segment, Tail, decide, decide_asked, filthiest_first, measure

NOW = 1_700_000_000_000
HOUR = 3_600_000
CONFIG = MaintenanceConfig()
ANY_SIZE = MaintenanceConfig(min_cleanable_bytes=0)
BUSY = 0
IDLE = 10 * HOUR


def log(*segments: tuple[int, int], end: int, **facts) -> LogFacts:
    """A log of segments (base offset, bytes), of which the last is active."""
    *closed, active = [Segment(base, size) for base, size in segments]
    listed = (*closed, active._replace(active=True))
    given = {"number": 0, "start": segments[0][0], "end": end, "stable": end, "entries": 1, **facts}
    return LogFacts(segments=listed, **given)


# ---------------------------------------------------------------------------------------------------- Kafka's selection


@pytest.mark.parametrize(
    ("checkpoint", "dirty", "is_reset"),
    [
        (None, 100, False),
        (100, 100, False),
        (150, 150, False),
        (300, 300, False),
        (301, 100, True),
        (99, 100, True),
        (0, 100, True),
        (2**63 - 1, 100, True),
    ],
)
def test_a_checkpoint_outside_of_the_log_is_reset(checkpoint, dirty, is_reset):
    facts = log((100, 10), (200, 10), end=300, checkpoint=checkpoint)
    plan = measure(facts, CONFIG, NOW)
    assert (plan.first_dirty, plan.is_reset) == (dirty, is_reset)


@pytest.mark.parametrize(
    ("checkpoint", "stable", "limit", "uncleanable", "clean", "cleanable"),
    [
        # Bases 0, 100, 200, 300 of 10, 20, 40 and 80 bytes; the last is active and ends at 400.
        (None, 400, policy.NO_LIMIT, 300, 0, 70),
        (100, 400, policy.NO_LIMIT, 300, 10, 60),
        (300, 400, policy.NO_LIMIT, 300, 70, 0),
        (400, 400, policy.NO_LIMIT, 300, 150, 0),
        # In the middle of a segment: it is counted on both sides.
        (150, 400, policy.NO_LIMIT, 300, 30, 60),
        # A segment with the first unstable offset in its middle is left out as a whole; at its base, it alone.
        (None, 250, policy.NO_LIMIT, 200, 0, 30),
        (None, 200, policy.NO_LIMIT, 200, 0, 30),
        (None, 199, policy.NO_LIMIT, 100, 0, 10),
        (None, 50, policy.NO_LIMIT, 0, 0, 0),
        (None, 350, policy.NO_LIMIT, 300, 0, 70),
        # History is kept the same way.
        (None, 400, 250, 200, 0, 30),
        (100, 400, 120, 100, 10, 0),
        # The uncleanable part begins below the part that is clean already.
        (250, 50, policy.NO_LIMIT, 200, 70, 0),
    ],
)
def test_what_can_be_cleaned(checkpoint, stable, limit, uncleanable, clean, cleanable):
    facts = log((0, 10), (100, 20), (200, 40), (300, 80), end=400, checkpoint=checkpoint, stable=stable, limit=limit)
    plan = measure(facts, CONFIG, NOW)
    assert (plan.uncleanable, plan.clean_bytes, plan.cleanable_bytes) == (uncleanable, clean, cleanable)
    assert plan.ratio == (cleanable / (clean + cleanable) if clean + cleanable else 0)


def test_trap_26_the_active_segment_is_not_cleanable():
    facts = log((0, 90 * MIB), end=1_000_000, entries=1)
    plan = measure(facts, CONFIG, NOW)
    assert (plan.cleanable_bytes, plan.ratio) == (0, 0)
    # Kafka would leave it at that; here it is closed, and cleaned.
    assert decide(facts, CONFIG, NOW).action == "roll"


@pytest.mark.parametrize(("dirty", "action"), [(50, "none"), (51, "clean"), (49, "none")])
def test_trap_27_the_ratio_has_to_be_above(dirty, action):
    facts = log((0, 100 - dirty), (100, dirty), (200, 0), end=200, checkpoint=100)
    plan = decide(facts, ANY_SIZE, NOW)
    assert plan.ratio == dirty / 100
    assert plan.action == action


@pytest.mark.parametrize(("ratio", "action"), [(0.0, "clean"), (0.29, "clean"), (0.3, "none"), (1.0, "none")])
def test_the_ratio_is_a_setting(ratio, action):
    config = MaintenanceConfig(min_cleanable_dirty_ratio=ratio, min_cleanable_bytes=0)
    assert decide(log((0, 70), (100, 30), (200, 0), end=200, checkpoint=100), config, NOW).action == action


def test_an_empty_log_is_left_alone():
    plan = decide(log((0, 0), end=0, entries=0), ANY_SIZE, NOW)
    assert (plan.action, plan.ratio) == ("none", 0)
    assert "nothing was written" in plan.reason


def aged(*timestamps: tuple[int, int]) -> LogFacts:
    """Segments of 10 bytes and 100 offsets, with the ages of their first and their youngest batch."""
    facts = log(*((100 * index, 10) for index in range(len(timestamps))), end=100 * len(timestamps))
    segments = tuple(
        segment._replace(first_timestamp=NOW - first, largest_timestamp=NOW - youngest)
        for segment, (first, youngest) in zip(facts.segments, timestamps, strict=True)
    )
    return dataclasses.replace(facts, segments=segments)


@pytest.mark.parametrize(
    ("lag", "uncleanable"), [(0, 200), (HOUR, 200), (2 * HOUR, 200), (2 * HOUR + 1, 100), (9 * HOUR, 0)]
)
def test_what_is_young_is_not_cleaned(lag, uncleanable):
    facts = aged((9 * HOUR, 8 * HOUR), (8 * HOUR, 2 * HOUR), (HOUR, 0))
    config = MaintenanceConfig(min_compaction_lag_ms=lag)
    assert measure(facts, config, NOW).uncleanable == uncleanable


def test_young_segments_after_the_first_young_one_do_not_matter():
    facts = aged((9 * HOUR, 0), (8 * HOUR, 8 * HOUR), (HOUR, 0))
    config = MaintenanceConfig(min_compaction_lag_ms=HOUR)
    assert measure(facts, config, NOW).uncleanable == 0
    assert measure(dataclasses.replace(facts, checkpoint=100), config, NOW).uncleanable == 200


@pytest.mark.parametrize(("lag", "action"), [(8 * HOUR, "none"), (8 * HOUR - 1, "clean")])
def test_what_is_old_is_cleaned_whatever_the_ratio(lag, action):
    facts = dataclasses.replace(aged((9 * HOUR, 9 * HOUR), (8 * HOUR, 8 * HOUR), (HOUR, 0)), checkpoint=100)
    assert facts.checkpoint == 100
    plan = decide(facts, MaintenanceConfig(max_compaction_lag_ms=lag), NOW)
    assert (plan.action, plan.ratio) == (action, 0.5)


def test_what_is_old_and_active_is_closed():
    plan = decide(aged((HOUR, 0)), MaintenanceConfig(max_compaction_lag_ms=HOUR - 1), NOW)
    assert plan.action == "roll"
    assert decide(aged((HOUR, 0)), MaintenanceConfig(max_compaction_lag_ms=HOUR), NOW).action == "none"


def test_the_filthiest_comes_first():
    plans = [
        decide(log((0, 100 - dirty), (100, dirty), (200, 0), end=200, checkpoint=100, number=number), ANY_SIZE, NOW)
        for number, dirty in enumerate([60, 90, 10, 60, 70])
    ]
    assert [plan.number for plan in filthiest_first(plans)] == [1, 4, 0, 3]


# --------------------------------------------------------------------------------------------------------- beyond Kafka


@pytest.mark.parametrize(
    ("size", "entries", "idle_ms", "action"),
    [
        # 1,000,000 records in the active segment, so `entries` of them are live.
        (90 * MIB, 10_000, IDLE, "roll"),
        (90 * MIB, 10_000, CONFIG.idle_roll_ms, "roll"),
        (90 * MIB, 10_000, CONFIG.idle_roll_ms - 1, "roll"),
        (15 * MIB, 10_000, CONFIG.idle_roll_ms, "roll"),
        (15 * MIB, 10_000, CONFIG.idle_roll_ms - 1, "none"),
        (15 * MIB, 499_999, IDLE, "roll"),
        (15 * MIB, 500_000, IDLE, "none"),
        (90 * MIB, 499_999, BUSY, "roll"),
        (90 * MIB, 500_000, BUSY, "none"),
        (90 * MIB, 500_000, IDLE, "none"),
        (90 * MIB, 1_000_000, IDLE, "none"),
        (MIB, 1, IDLE, "roll"),
        (MIB - 1, 1, IDLE, "none"),
        (0, 0, IDLE, "none"),
    ],
)
def test_an_active_segment_is_closed_where_it_pays(size, entries, idle_ms, action):
    facts = log((0, size), end=1_000_000, entries=entries, idle_ms=idle_ms)
    assert decide(facts, CONFIG, NOW).action == action


def test_a_segment_that_could_not_be_cleaned_is_not_closed():
    facts = log((0, 90 * MIB), end=1_000_000, idle_ms=IDLE)
    assert decide(facts, CONFIG, NOW).action == "roll"
    held = decide(dataclasses.replace(facts, stable=999_999), CONFIG, NOW)
    assert (held.action, "a transaction has been open since log offset" in held.reason) == ("none", True)
    kept = decide(dataclasses.replace(facts, limit=10), CONFIG, NOW)
    assert (kept.action, "the history is kept from log offset 10 on" in kept.reason) == ("none", True)
    young = MaintenanceConfig(min_compaction_lag_ms=HOUR)
    segment = facts.active._replace(largest_timestamp=NOW)
    assert decide(dataclasses.replace(facts, segments=(segment,)), young, NOW).action == "none"


def test_a_segment_is_not_closed_where_the_log_would_not_be_dirty_enough():
    facts = log((0, 60 * MIB), (100, 20 * MIB), end=1_000_000, entries=1, checkpoint=100, idle_ms=IDLE)
    assert decide(facts, CONFIG, NOW).action == "none"


def test_closed_segments_are_cleaned_while_the_active_one_stays():
    facts = log((0, 60 * MIB), (600_000, 2 * MIB), end=620_000, entries=100_000, idle_ms=BUSY)
    plan = decide(facts, CONFIG, NOW)
    assert (plan.action, plan.uncleanable) == ("clean", 600_000)
    assert decide(dataclasses.replace(facts, idle_ms=IDLE), CONFIG, NOW).action == "roll"


@pytest.mark.parametrize(("dirty", "action"), [(MIB - 1, "none"), (MIB, "clean")])
def test_little_is_not_worth_the_while(dirty, action):
    facts = log((0, dirty), (100, 0), end=100)
    assert decide(facts, CONFIG, NOW).action == action


@pytest.mark.parametrize("live_records", [1_000, 10_000, 100_000, 1_000_000])
@pytest.mark.parametrize("fed", [100, 37, 3])
def test_a_log_that_rests_is_small(live_records, fed):
    # The promise of the defaults: at most three times the live bytes, and one segment.
    record, per_segment = 120, 873_000
    total = fed * live_records
    bases = [*range(0, total, per_segment)]
    sizes = [record * min(per_segment, total - base) for base in bases]
    facts = log(*zip(bases, sizes, strict=True), end=total, entries=live_records, idle_ms=IDLE)
    for _ in range(10):
        plan = decide(facts, CONFIG, NOW)
        if plan.action == "none":
            break
        left = live_records * record
        segments = [(0, left), (plan.uncleanable, facts.size - plan.clean_bytes - plan.cleanable_bytes)]
        facts = log(*segments, end=total, entries=live_records, idle_ms=IDLE, checkpoint=plan.uncleanable)
    assert plan.action == "none"
    assert facts.size <= max(3 * live_records * record, 2 * CONFIG.min_cleanable_bytes)


DAY = CONFIG.delete_retention_ms


@pytest.mark.parametrize(
    ("size", "entries", "record_bytes", "rested_ms", "action"),
    [
        (50 * MIB, 1000, 100.0, DAY, "again"),
        (50 * MIB, 1000, 100.0, DAY - 1, "none"),
        (50 * MIB, 1000, 100.0, -1, "none"),
        (50 * MIB, 1000, 0.0, DAY, "none"),
        (50 * MIB, 0, 100.0, DAY, "again"),
        (MIB, 0, 100.0, DAY, "none"),
        (MIB + 1, 0, 100.0, DAY, "again"),
        (21 * MIB, 100_000, 104.8576, DAY, "none"),
        (21 * MIB + 1, 100_000, 104.8576, DAY, "again"),
    ],
)
def test_what_was_deleted_goes_also_where_nothing_is_committed_any_more(size, entries, record_bytes, rested_ms, action):
    facts = log((0, size), (1000, 0), end=1000, checkpoint=1000, entries=entries, idle_ms=IDLE)
    facts = dataclasses.replace(facts, record_bytes=record_bytes, rested_ms=rested_ms)
    assert decide(facts, CONFIG, NOW).action == action


#: Bytes that are replayed in the time that a replay may take.
REPLAYED = MaintenanceConfig().snapshot_replay_ms * policy.REPLAYED_BYTES_PER_SECOND // 1000


@pytest.mark.parametrize(
    ("tails", "due"),
    [
        ([], set()),
        ([Tail(0, REPLAYED, 0)], set()),
        ([Tail(0, REPLAYED + 1, 0)], {0}),
        # All share the time, and the longest goes first.
        ([Tail(0, REPLAYED // 2, 0), Tail(1, REPLAYED // 2 + 2, 0)], {1}),
        ([Tail(number, REPLAYED // 2, 0) for number in range(4)], {0, 1}),
        # A snapshot that is large beside what was written waits.
        ([Tail(0, REPLAYED + 1, 2 * (REPLAYED + 1))], {0}),
        ([Tail(0, REPLAYED + 1, 2 * (REPLAYED + 1) + 1)], set()),
        # Where nothing is loaded, the log says how large it may be.
        ([Tail(0, REPLAYED + 1, -1, 4 * REPLAYED)], {0}),
        ([Tail(0, REPLAYED + 1, -1, 5 * REPLAYED)], set()),
    ],
)
def test_snapshots_are_due_where_a_replay_would_take_too_long(tails, due):
    assert policy.snapshots_due(tails, CONFIG) == due
    assert policy.snapshots_due(tails, MaintenanceConfig(snapshots=False)) == set()
    assert policy.snapshots_due(tails, MaintenanceConfig(snapshot_replay_ms=10**9)) == set()


def test_a_number_of_bytes_is_that_of_each_log():
    config = MaintenanceConfig(snapshot_tail_bytes=5000)
    tails = [Tail(0, 4999, 0), Tail(1, 5000, 10**9), Tail(2, 2**40, 0)]
    assert policy.snapshots_due(tails, config) == {1, 2}


@pytest.mark.parametrize("seed", range(200))
def test_what_snapshots_leave_is_replayed_in_time(seed):
    draw = random.Random(seed)
    tails = [
        Tail(number, int(REPLAYED * draw.random() ** 3), draw.randrange(72_000_000))
        for number in range(draw.randrange(60))
    ]
    due = policy.snapshots_due(tails, CONFIG)
    worth = {tail.number for tail in tails if tail.bytes * policy.SNAPSHOT_TIMES_MAX >= tail.snapshot_bytes}
    left = sum(tail.bytes for tail in tails if tail.number not in due)
    assert due <= worth
    assert left <= REPLAYED or due == worth
    # Not one more than that takes, and the longest.
    chosen = [tail.bytes for tail in tails if tail.number in due]
    assert not chosen or left + min(chosen) > REPLAYED
    assert all(tail.bytes <= min(chosen) for tail in tails if chosen and tail.number in worth - due)


@pytest.mark.parametrize("seed", range(30))
def test_no_snapshot_is_due_before_as_much_is_written_as_was_said(seed):
    draw = random.Random(seed)
    logs = range(draw.randrange(1, 9))
    tails = [Tail(number, draw.randrange(12_000_000), draw.randrange(72_000_000)) for number in logs]
    left = policy.bytes_until_due(tails, CONFIG)
    assert (left == 0) == bool(policy.snapshots_due(tails, CONFIG)) or sum(tail.bytes for tail in tails) == REPLAYED
    for number in range(len(tails)):
        grown = [tail._replace(bytes=tail.bytes + (left - 1 if tail.number == number else 0)) for tail in tails]
        assert left == 0 or not policy.snapshots_due(grown, CONFIG), f"seed {seed}"


def test_how_much_can_be_written_before_a_snapshot_may_be_due():
    assert policy.bytes_until_due([], CONFIG) == REPLAYED
    assert policy.bytes_until_due([Tail(0, 10, 0), Tail(1, 20, 0)], CONFIG) == REPLAYED - 30
    assert policy.bytes_until_due([Tail(0, REPLAYED + 1, 0)], CONFIG) == 0
    # The tails are too long together, and none is worth its snapshot yet: of one that has 100 MB, half.
    large = [Tail(0, REPLAYED, 100_000_000), Tail(1, 10, 5_000)]
    assert policy.bytes_until_due(large, CONFIG) == 2_490
    assert policy.bytes_until_due([*large, Tail(2, 7, 15)], CONFIG) == 1
    assert policy.bytes_until_due([*large, Tail(2, 7, 14)], CONFIG) == 0
    by_log = MaintenanceConfig(snapshot_tail_bytes=5000)
    assert policy.bytes_until_due([Tail(0, 100, 0), Tail(1, 4000, 0)], by_log) == 1000
    assert policy.bytes_until_due([Tail(0, 5000, 0)], by_log) == 0


@pytest.mark.parametrize(
    ("left", "grown", "elapsed_ms", "again_ms"),
    [
        (REPLAYED, 0, 1000, 2000),
        (REPLAYED, -5, 1000, 2000),     # it was cut, or got a snapshot
        (0, 0, 1000, 2000),
        (1000, 1, 1000, 2000),
        (1000, 1000, 500, 500),         # as long again
        (1000, 4000, 1000, 250),
        (1000, 10**9, 1000, policy.SNAPSHOT_CHECK_MS_MIN),
        (0, 1, 1000, policy.SNAPSHOT_CHECK_MS_MIN),
    ],
)
def test_the_faster_logs_grow_the_sooner_snapshots_are_checked_again(left, grown, elapsed_ms, again_ms):
    assert policy.check_again_ms(left, grown, elapsed_ms, 2000) == again_ms


@pytest.mark.parametrize("mb_per_second", [1, 15, 45, 120, 250])
def test_under_a_steady_load_what_is_replayed_is_bounded_by_the_time_that_snapshots_take(mb_per_second):
    # Four logs, each with a table of 27 MB, of which a snapshot takes a fifth of a second; one is written at a time.
    rate, table, seconds, logs = mb_per_second * 1_000_000, 27_000_000, 0.2, 4
    now, known, checked, wait_ms, worst = 0.0, 0, 0.0, 2000, 0
    written = [0.0] * logs      # up to where the log of each is in its snapshot, as a time

    def tails() -> list[Tail]:
        return [Tail(number, int((now - since) * rate / logs), table) for number, since in enumerate(written)]

    while now < 60:
        now += wait_ms / 1000
        grown, elapsed_ms = sum(tail.bytes for tail in tails()) - known, (now - checked) * 1000
        done: set[int] = set()
        while due := policy.snapshots_due(tails(), CONFIG) - done:
            number = max(due, key=lambda each: tails()[each].bytes)
            begun, now = now, now + seconds
            worst = max(worst, sum(tail.bytes for tail in tails()) if now > 5 else 0)
            written[number] = begun
            done.add(number)
        known, checked = sum(tail.bytes for tail in tails()), now
        wait_ms = policy.check_again_ms(policy.bytes_until_due(tails(), CONFIG), grown, elapsed_ms, 2000)
    # A snapshot waits until it is worth its bytes, and each for those of the others.
    assert worst <= max(REPLAYED, logs * table // policy.SNAPSHOT_TIMES_MAX) + rate * seconds * logs


@pytest.mark.parametrize(("snapshot", "loses"), [(-1, False), (0, True), (199, True), (200, False), (250, False)])
def test_cleaning_takes_a_snapshot_away_that_ends_below_it(snapshot, loses):
    facts = log((0, 1000), (100, 1000), (200, 1000), end=300, snapshot=snapshot)
    assert policy.loses_snapshot(facts, measure(facts, CONFIG, NOW)) == loses


def test_live_bytes_are_those_of_late_records():
    # 10 bytes a record before, 100 since it was cleaned.
    facts = log((0, 1000), (100, 10_000), end=200, entries=30, checkpoint=100)
    assert measure(facts, CONFIG, NOW).live_bytes == 3000
    assert measure(dataclasses.replace(facts, checkpoint=None), CONFIG, NOW).live_bytes == 30 * 55
    assert measure(dataclasses.replace(facts, entries=10_000), CONFIG, NOW).live_bytes == 11_000
    assert measure(dataclasses.replace(facts, checkpoint=150), CONFIG, NOW).live_bytes == 3000
    # Where nothing was written since, what is there is what is live.
    rested = log((0, 1000), (100, 0), end=100, entries=3, checkpoint=100)
    assert measure(rested, CONFIG, NOW).live_bytes == 1000


# -------------------------------------------------------------------------------------------------------- asked by hand


@pytest.mark.parametrize(
    ("facts", "roll", "ratio", "action"),
    [
        (log((0, 100), end=10, entries=1), True, 0.0, "roll"),
        (log((0, 100), end=10, entries=1), False, 0.0, "none"),
        (log((0, 100), end=10, entries=10), True, 0.0, "none"),
        (log((0, 0), end=0, entries=0), True, 0.0, "none"),
        (log((0, 100), (10, 0), end=10, entries=10), True, 0.0, "clean"),
        (log((0, 100), (10, 5), end=11, checkpoint=10, entries=1), True, 0.0, "roll"),
        (log((0, 100), (10, 5), end=11, checkpoint=11, entries=1), True, 0.0, "none"),
        (log((0, 100), (10, 0), end=10, checkpoint=10), True, 0.0, "none"),
        (log((0, 70), (5, 30), (10, 0), end=10, checkpoint=5), True, 0.29, "clean"),
        (log((0, 70), (5, 30), (10, 0), end=10, checkpoint=5), True, 0.3, "none"),
        (log((0, 70), (5, 30), end=10, entries=1, stable=7), True, 0.0, "clean"),
        (log((0, 70), (5, 30), end=10, entries=1, stable=3), True, 0.0, "none"),
    ],
)
def test_who_asks_gets_it_whatever_the_size(facts, roll, ratio, action):
    assert decide_asked(facts, CONFIG, NOW, roll=roll, ratio=ratio).action == action


# ------------------------------------------------------------------------------------------------------------- the rest


def test_patterns():
    assert policy.split_pattern("group") == ("group", False)
    assert policy.split_pattern("audit-*") == ("audit-", True)
    assert policy.split_pattern("*") == ("", True)
    assert policy.split_pattern("") == ("", False)


def test_only_longer_histories_count():
    config = MaintenanceConfig(min_history_ms=10, min_history={"a": 11, "b": 10, "c*": 9})
    assert policy.longer_histories(config) == {"a": 11}


def test_what_a_transaction_pins():
    facts = log((0, 10), (100, 20), (200, 40), end=300)
    assert [policy.pinned_bytes(facts, offset) for offset in (0, 99, 100, 250)] == [70, 70, 60, 40]


# ---------------------------------------------------------------------------------------------------- replicas


def test_a_log_whose_entries_nobody_knows_is_cleaned_and_neither_rolled_for_them_nor_cleaned_again():
    facts = log((0, 20 * MIB), (1000, 40 * MIB), end=2000, entries=-1, idle_ms=IDLE)
    assert decide(facts, CONFIG, NOW).action == "clean"
    cleaned = dataclasses.replace(facts, checkpoint=1000)
    assert decide(cleaned, CONFIG, NOW).action == "none"
    assert decide(dataclasses.replace(cleaned, entries=10), CONFIG, NOW).action == "roll"
    empty = facts.segments[1]._replace(size=0)
    again = dataclasses.replace(
        cleaned, idle_ms=BUSY, record_bytes=1.0, rested_ms=10**12, segments=(facts.segments[0], empty)
    )
    assert decide(again, CONFIG, NOW).action == "none"
    assert decide(dataclasses.replace(again, entries=10), CONFIG, NOW).action == "again"
