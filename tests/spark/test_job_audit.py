"""The tables of an audit: on small logs exactly what is expected, on random ones what plain Python finds."""

from __future__ import annotations

import json
import random

import pytest

from offsetlog.errors import InvalidArgumentError
from offsetlog.spark.jobs import audit
from offsetlog.spark.jobs.effects import with_effects

from .frames import RECORDS, frame, tuples_of

MINUTE = 60_000


def commit(offset, **fields):
    return {"offset": offset, **fields}


def delete(**fields):
    return {"kind": "delete", **fields}


def in_transaction(offset, producer, outcome="committed", marker=None, **fields):
    return {
        "offset": offset,
        "producer_id": producer,
        "producer_epoch": 0,
        "outcome": outcome,
        "marker_offset": marker,
        **fields,
    }


# -------------------------------------------------------------------------------------------------------------- effects


def test_effects(spark):
    rows = [
        commit(1),  # 0
        in_transaction(2, 7, marker=3),  # 1: counts from 3 on
        in_transaction(3, 8, "aborted", 4),  # 2
        # 3 and 4 are markers
        in_transaction(4, 7, marker=7, log_offset=5),  # overtaken by 6
        commit(5, log_offset=6),
        in_transaction(6, 7, marker=12, log_offset=8),  # taken back by the deletion at 10
        in_transaction(7, 7, marker=12, log_offset=9),
        delete(log_offset=10),
        in_transaction(8, 7, marker=12, log_offset=11),
        in_transaction(9, 9, "open", log_offset=13),
        delete(outcome="open", producer_id=9, log_offset=14),
        in_transaction(10, 7, marker=17, log_offset=15),  # of two in one transaction the later counts
        in_transaction(11, 7, marker=17, log_offset=16),
        in_transaction(12, 7, marker=20, log_offset=18, partition=1),
    ]
    found = tuples_of(with_effects(frame(spark, rows)), "log_offset", "effective_at")
    assert dict(found) == {
        0: 0, 1: 3, 2: None, 5: None, 6: 6, 8: None, 9: None, 10: 10, 11: 12, 13: None, 14: 14, 15: None, 16: 17,
        18: 20,
    }  # fmt: skip


def test_effects_cost_what_there_is(spark):
    # With a frame that has no end Spark goes through the rest of a position for each of its commits.
    plan = with_effects(frame(spark, [commit(1)]))._jdf.queryExecution().executedPlan().toString()
    assert "unboundedpreceding" in plan
    assert "unboundedfollowing" not in plan


# -------------------------------------------------------------------------------------------------------------- rewinds


def test_rewinds(spark):
    rows = [
        commit(10),
        commit(20),
        commit(20),
        commit(5, metadata="by hand"),  # 3: down by 15
        in_transaction(3, 7, "aborted", 9),  # never counted
        commit(6, log_offset=5),
        delete(log_offset=6),
        commit(0, log_offset=7),  # after a deletion
        commit(100, partition=1, log_offset=8),
        commit(1, group="h", log_offset=10),
        commit(9, log_offset=11, log_partition=1),
    ]
    names = [
        "partition",
        "from_offset",
        "to_offset",
        "distance",
        "log_offset",
        "from_log_offset",
        "from_at",
        "at",
        "after_delete",
        "metadata",
    ]
    assert tuples_of(audit.rewinds(audit.prepared(frame(spark, rows))), *names) == [
        (0, 6, 0, 6, 7, 5, 5000, 7000, True, ""),
        (0, 20, 5, 15, 3, 2, 2000, 3000, False, "by hand"),
    ]


def test_the_largest_numbers_are_audited(spark):
    most = 2**63 - 1
    rows = [commit(most, timestamp=most), commit(-5, timestamp=most), commit(most, timestamp=most - 1)]
    commits = audit.prepared(frame(spark, rows))
    assert tuples_of(audit.rewinds(commits), "from_offset", "to_offset", "distance") == [(most, -5, most)]
    assert tuples_of(audit.over_time(commits, 1000), "bucket", "commits") == [(most - most % 1000, 3)]
    assert tuples_of(audit.rates(commits), "group", "most") == [("g", 3), (None, 3)]


def test_a_transaction_goes_back_when_it_ends(spark):
    rows = [
        commit(10),
        in_transaction(8, 7, marker=5, log_offset=1),
        in_transaction(12, 8, marker=3, log_offset=2),  # newer, and ended earlier: the other never counts
        commit(11, log_offset=4),
    ]
    found = tuples_of(audit.rewinds(audit.prepared(frame(spark, rows))), "from_offset", "to_offset", "effective_at")
    assert found == [(12, 11, 4)]


# --------------------------------------------------------------------------------------------------------------- stalls


def test_stalls(spark):
    at = [0, 1, 2, 30, 31, 32, 33, 70]
    rows = [
        commit(offset, timestamp=minute * MINUTE) for offset, minute in zip([1, 2, 2, 2, 3, 4, 4, 5], at, strict=True)
    ]
    rows += [commit(7, partition=1, timestamp=MINUTE), delete(partition=1, timestamp=40 * MINUTE)]
    rows += [commit(8, partition=2, timestamp=50 * MINUTE), commit(8, partition=2, timestamp=66 * MINUTE)]
    prepared = audit.prepared(frame(spark, rows)).persist()
    names = ["partition", "offset", "since", "until", "commits", "ongoing", "kind"]
    minutes = [
        (partition, offset, since // MINUTE, until // MINUTE, *rest)
        for partition, offset, since, until, *rest in tuples_of(audit.stalls(prepared, 15 * MINUTE), *names)
    ]
    assert minutes == [
        (0, 2, 1, 31, 3, False, "repeated"),
        (0, 4, 32, 70, 2, False, "repeated"),
        (1, 7, 1, 40, 1, False, "silent"),
        (2, 8, 50, 70, 2, True, "repeated"),
    ]
    # Looked at later, what ends the log rests as well; but for what was deleted.
    later = tuples_of(audit.stalls(prepared, 15 * MINUTE, 100 * MINUTE), "partition", "offset", "stalled_ms", "ongoing")
    assert [row for row in later if row[3]] == [(0, 5, 30 * MINUTE, True), (2, 8, 50 * MINUTE, True)]
    assert tuples_of(audit.stalls(prepared, 31 * MINUTE), "offset") == [(4,), (7,)]
    prepared.unpersist()


def test_what_has_no_time_ends_a_stall_as_well(spark):
    # Old brokers' deletions carry none.
    rows = [
        commit(1, timestamp=0),
        commit(1, timestamp=20 * MINUTE),
        delete(timestamp=-1),
        commit(2, timestamp=0, partition=1),
        commit(3, timestamp=-1, partition=1),
        commit(9, timestamp=60 * MINUTE, partition=2),
    ]
    found = audit.stalls(audit.prepared(frame(spark, rows)), 15 * MINUTE)
    assert tuples_of(found, "partition", "stalled_ms", "commits", "ongoing") == [(0, 20 * MINUTE, 2, False)]


def test_positions_that_are_deleted_or_pending_do_not_stall(spark):
    rows = [
        commit(1, group="deleted", timestamp=0),
        delete(group="deleted", timestamp=20 * MINUTE),
        in_transaction(2, 7, "open", group="pending", timestamp=MINUTE),
        in_transaction(3, 8, "aborted", 4, group="aborted", timestamp=MINUTE),
        *[commit(number, group="busy", timestamp=number * MINUTE) for number in range(0, 100, 2)],
    ]
    prepared = audit.prepared(frame(spark, rows))
    found = tuples_of(audit.stalls(prepared, 15 * MINUTE), "group", "since", "until", "ongoing")
    assert found == [("deleted", 0, 20 * MINUTE, False)]
    found = tuples_of(audit.silences(prepared, 15 * MINUTE), "group", "since", "until", "ongoing", "others")
    # Until the deletion; the 11 are the commits of others in the whole seconds between.
    assert found == [("deleted", 0, 20 * MINUTE, False, 11)]
    assert tuples_of(audit.silences(prepared, 21 * MINUTE), "group") == []
    # Where one position of a group is left, the group goes on being silent.
    kept = audit.prepared(frame(spark, [*rows, commit(1, group="deleted", timestamp=0, partition=1)]))
    assert tuples_of(audit.silences(kept, 21 * MINUTE), "group", "until", "ongoing") == [("deleted", 98 * MINUTE, True)]


@pytest.mark.parametrize("stall_ms", [0, -1])
def test_a_stall_of_no_time_is_refused(spark, tmp_path, stall_ms):
    prepared = audit.prepared(frame(spark, [commit(1)]))
    refused = f"with a shortest stall of {stall_ms} ms, every commit would be a stall"
    with pytest.raises(InvalidArgumentError, match=refused):
        audit.audit(prepared, stall_ms=stall_ms)
    with pytest.raises(InvalidArgumentError, match=refused):
        audit.run(spark, tmp_path, stall_ms=stall_ms)


def test_silences(spark):
    rows = [commit(minute, timestamp=minute * MINUTE) for minute in range(0, 60, 2)]
    # The broker's deletions are no actions of a group.
    rows += [delete(group="h", timestamp=minute * MINUTE) for minute in (20, 40)]
    rows += [commit(1, group="h", timestamp=minute * MINUTE) for minute in (0, 10, 30)]
    rows += [commit(1, group="none", timestamp=-1)]
    prepared = audit.prepared(frame(spark, rows))
    silences = audit.silences(prepared, 15 * MINUTE)
    found = tuples_of(silences, "group", "since", "until", "silent_ms", "ongoing", "others")
    assert found == [
        ("h", 10 * MINUTE, 30 * MINUTE, 20 * MINUTE, False, 9),
        ("h", 30 * MINUTE, 58 * MINUTE, 28 * MINUTE, True, 14),
    ]
    # Where nobody commits anything nobody is silent.
    alone = audit.prepared(frame(spark, [commit(1), commit(2, timestamp=60 * MINUTE)]))
    assert tuples_of(audit.silences(alone, MINUTE), "group") == []


# -------------------------------------------------------------------------------------------------------------- zombies


def test_zombies(spark):
    rows = [
        commit(10, leader_epoch=3),
        commit(20, leader_epoch=5),
        commit(30, leader_epoch=4),  # 2: went on, with an old epoch
        commit(15, leader_epoch=4),  # 3: went back
        commit(40, leader_epoch=-1),
        commit(50, leader_epoch=5),
        delete(),
        commit(1, leader_epoch=0),  # 7: a new topic
        in_transaction(5, 9, producer_epoch=4, marker=11, partition=1, log_offset=8),
        in_transaction(6, 9, producer_epoch=3, marker=12, partition=1, log_offset=9),
        in_transaction(6, 9, producer_epoch=3, marker=12, partition=1, log_offset=10, log_partition=1),
    ]
    names = ["reason", "log_offset", "epoch", "newer_epoch", "offset", "offset_below"]
    assert tuples_of(audit.zombies(audit.prepared(frame(spark, rows))), *names) == [
        ("leader epoch", 2, 4, 5, 30, False),
        ("leader epoch", 3, 4, 5, 15, True),
        ("producer epoch", 9, 3, 4, 6, None),
    ]


def test_an_epoch_that_ended_a_transaction_is_not_to_come_again(spark):
    fields = {"kind": "offset_commit", "partition": 1, "key": b"k", "value": b"v"}
    end = {"kind": "control", "group": None, "topic": None, "partition": None, "producer_id": 9, "control": "ABORT"}
    rows = [
        in_transaction(5, 9, "aborted", 1, producer_epoch=3, **fields),
        {**end, "producer_epoch": 4},  # its time was over
        in_transaction(6, 9, "open", producer_epoch=3, **fields),  # 2
        in_transaction(7, 8, "open", producer_epoch=3, **fields),
        {**end, "producer_epoch": 3},  # 4: no commit
    ]
    records = frame(spark, rows, RECORDS)
    names = ["reason", "partition", "log_offset", "epoch", "newer_epoch", "offset"]
    commits = audit.prepared(audit.commits_of(records))
    assert tuples_of(audit.zombies(commits, records), *names) == [("producer epoch", 1, 2, 3, 4, 6)]
    assert tuples_of(audit.zombies(commits), *names) == []


def group_record(generation, members=1, **fields):
    value = {"generation": generation, "members": [{"memberId": "m"}] * members}
    told_fields = {"key": {"group": "g"}, "value": value}
    return {"kind": "group_metadata", "group": None, "fields": json.dumps(told_fields), **fields}


def test_generations(spark):
    gone = {
        "kind": "group_metadata",
        "group": None,
        "value": None,
        "fields": json.dumps({"key": {"group": "g"}, "value": None}),
    }
    plain = {"kind": "offset_commit", "offset": 1}
    rows = [
        plain,
        group_record(5),
        plain,
        group_record(6, members=0),
        plain,  # 4
        plain,  # 5
        {**plain, "value": None},
        in_transaction(1, 7, kind="offset_commit"),
        group_record(4),  # 8: below 6
        plain,
        gone,
        plain,
        group_record(1),
    ]
    names = ["group", "reason", "generation", "newer_generation", "log_offset", "last_log_offset", "commits"]
    assert tuples_of(audit.generations(frame(spark, rows, RECORDS)), *names) == [
        ("g", "generation", 4, 6, 8, None, None),
        ("g", "no member", 6, None, 4, 5, 2),
    ]


# --------------------------------------------------------------------------------------------------- counts and rates


def test_counts(spark):
    rows = [
        commit(1, key=b"k" * 10, value=b"v" * 5, kind="offset_commit"),
        commit(2, key=b"k" * 10, value=b"v" * 25, kind="offset_commit", partition=1),
        {"kind": "offset_commit", "key": b"k" * 10, "value": None},
        in_transaction(3, 7, "aborted", 9, key=b"k", kind="offset_commit"),
        in_transaction(3, 7, "open", key=b"k", kind="offset_commit", group="h", log_offset=12),
        {"kind": "group_metadata", "group": None},
        {"kind": "control", "group": None},
    ]
    commits = audit.prepared(audit.commits_of(frame(spark, rows, RECORDS))).persist()
    names = [
        "group",
        "commits",
        "deletes",
        "without_effect",
        "aborted",
        "open",
        "first_at",
        "last_at",
        "bytes",
        "positions",
    ]
    assert tuples_of(audit.groups(commits), *names) == [
        ("g", 3, 1, 1, 1, 0, 0, 3000, 61, 1),
        ("h", 1, 0, 1, 0, 1, 4000, 4000, 1, 0),
    ]
    assert tuples_of(audit.totals(commits), "commits", "deletes", "groups", "positions", "bytes", "log_partitions") == [
        (4, 1, 2, 1, 62, 1)
    ]
    assert tuples_of(audit.positions(commits), "group", "partition", "offset") == [
        ("g", 0, None),
        ("g", 1, 2),
        ("h", 0, None),
    ]
    assert [row.group for row in audit.top_talkers(audit.groups(commits), "bytes", 1).collect()] == ["g"]
    assert tuples_of(audit.transactions(commits), "outcome", "first_offset", "marker_offset", "commits", "groups") == [
        ("aborted", 3, 9, 1, ["g"]),
        ("open", 12, None, 1, ["h"]),
    ]
    commits.unpersist()


def test_nothing_is_audited_as_well(spark):
    found = audit.audit(audit.prepared(frame(spark, [])), frame(spark, [], RECORDS))
    assert tuples_of(found.totals, "commits", "bytes", "first_at") == [(0, 0, None)]
    for name, table in found.tables().items():
        if name != "totals":
            assert table.collect() == [], name


def test_rates(spark):
    times = [0, 100, 900, 1000, 5000, 5001, 5002, 5999]
    rows = [commit(1, timestamp=time) for time in times] + [commit(1, group="h", timestamp=1500)]
    rows += [delete(timestamp=7000) for _ in range(9)]
    found = tuples_of(
        audit.rates(audit.prepared(frame(spark, rows))),
        "group",
        "p50",
        "most",
        "active_seconds",
        "span_seconds",
        "mean",
    )
    assert found == [("g", 3.0, 4, 3, 6, 8 / 6), ("h", 1.0, 1, 1, 1, 1.0), (None, 3.0, 4, 3, 6, 9 / 6)]


def test_over_time(spark):
    rows = [commit(1, timestamp=time) for time in (0, 999, 1000)] + [delete(timestamp=1001)]
    found = tuples_of(audit.over_time(audit.prepared(frame(spark, rows)), 1000), "bucket", "commits", "deletes")
    assert found == [(0, 2, 0), (1000, 1, 1)]
    with pytest.raises(InvalidArgumentError):
        audit.over_time(frame(spark, rows), 0)


@pytest.mark.parametrize("span", [0, 1, 120_000, 121_000, 86_400_000, 10**13])
def test_buckets_are_few(span):
    width = audit.bucket_for(span)
    assert width >= max(1000, span / 120)


# ------------------------------------------------------------------------------------------------------- random logs


def replayed(rows):
    """log offset -> effective_at, as a reader that goes through the log record by record finds it."""
    state, pending, effective = {}, {}, {}
    events = sorted(
        [(row["log_offset"], 0, row) for row in rows]
        + [(m, 1, None) for m in {row["marker_offset"] for row in rows} - {None}],
        key=lambda event: event[:2],
    )
    for offset, is_marker, row in events:
        if is_marker:
            for key, (at, mine) in list(pending.items()):
                if mine["marker_offset"] == offset:
                    del pending[key]
                    if mine["outcome"] == "committed" and state.get(key[1], -1) < at:
                        state[key[1]], effective[at] = at, offset
            continue
        key = (row["partition"],)
        if row["kind"] == "delete":
            state.pop(key, None)
            for each in [each for each in pending if each[1] == key]:
                del pending[each]
            effective[offset] = offset
        elif row["outcome"] == "plain":
            state[key], effective[offset] = offset, offset
        else:
            pending[row["producer_id"], key] = (offset, row)
    return effective


def random_rows(seed):
    chance = random.Random(seed)
    rows, open_, offset, count = [], {}, 0, 0
    while count < 300:
        action = chance.random()
        if open_ and action < 0.25:
            producer = chance.choice(sorted(open_))
            outcome = chance.choice(["committed", "committed", "aborted"])
            for row in open_.pop(producer):
                row["outcome"], row["marker_offset"] = outcome, offset
        else:
            partition = chance.randrange(4)
            if action < 0.35:
                rows.append(delete(partition=partition, log_offset=offset))
            elif action < 0.65:
                producer = chance.randrange(4)
                rows.append(
                    in_transaction(chance.randrange(50), producer, "open", partition=partition, log_offset=offset)
                )
                open_.setdefault(producer, []).append(rows[-1])
            else:
                rows.append(commit(chance.randrange(50), partition=partition, log_offset=offset))
            rows[-1].setdefault("kind", "commit")
            rows[-1].setdefault("outcome", "plain")
            rows[-1].setdefault("marker_offset", None)
            rows[-1]["timestamp"] = offset * 500
            rows[-1]["group"] = f"g{seed}"
            count += 1
        offset += 1
    return rows


def test_random_logs(spark):
    # All seeds in one frame: a query costs more than its rows.
    rows = [row for seed in range(10) for row in random_rows(seed)]
    prepared = audit.prepared(frame(spark, rows)).persist()
    expected_rewinds = []
    for seed in range(10):
        mine = [row for row in rows if row["group"] == f"g{seed}"]
        effective = replayed(mine)
        of_group = prepared.where(f"group = 'g{seed}'")
        found = dict(tuples_of(of_group, "log_offset", "effective_at")) if seed == 0 else None
        assert found is None or {at: when for at, when in found.items() if when is not None} == effective
        last = {}
        for row in sorted(
            (row for row in mine if row["log_offset"] in effective), key=lambda row: effective[row["log_offset"]]
        ):
            if row["kind"] == "delete":
                continue
            before = last.get(row["partition"])
            if before is not None and before > row["offset"]:
                expected_rewinds.append(
                    (row["group"], row["partition"], before, row["offset"], effective[row["log_offset"]])
                )
            last[row["partition"]] = row["offset"]
    names = ("group", "partition", "from_offset", "to_offset", "effective_at")
    assert tuples_of(audit.rewinds(prepared), *names) == sorted(expected_rewinds)
    prepared.unpersist()
