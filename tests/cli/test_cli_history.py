"""`history`, `diff`, `restore` and `undelete`: what they show, what they write, and what they refuse."""

from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("typer")

from test_cli_read import DATA, call, on_terminal

import offsetlog
from offsetlog import MaintenanceConfig, StoreConfig, TopicPartition
from offsetlog._native.codec import partition_for
from offsetlog.cli.rewinds import rows_by_group
from offsetlog.config import KAFKA_PARTITIONS_DEFAULT, PARTITIONS_DEFAULT
from offsetlog.errors import InvalidArgumentError, PartitionCountError
from offsetlog.history.rewinds import Rewind
from offsetlog.moments import parse_moment, parse_time

ORDERS = [TopicPartition("orders", number) for number in range(4)]


@pytest.fixture
def data(tmp_path) -> Path:
    """orders:0 was 42, is 50 and 51 was aborted; orders:1 was 7 and is deleted; orders:2 is 9.  Offsets 0 to 7."""
    path = tmp_path / "data"
    with offsetlog.open(path, partitions=2, durability="process") as store:
        store.commit("billing", {ORDERS[0]: 42, ORDERS[1]: 7})
        store.commit("billing", {ORDERS[0]: offsetlog.OffsetAndMetadata(50, "a\tж", 3), ORDERS[2]: 9})
        store.delete("billing", [ORDERS[1]])
        with store.transaction("billing", 11) as transaction:
            transaction.commit({ORDERS[0]: 51})
            transaction.abort()
        store.commit("audit", {ORDERS[0]: 1})
    return path


def rows(capsys, *arguments: object, code: int = 0) -> list[dict[str, object]]:
    found, out, _ = call(capsys, *arguments, "--format=json")
    assert found == code
    return [json.loads(line) for line in out.splitlines()]


def offsets(path: Path, group: str = "billing") -> dict[int, int]:
    with offsetlog.open(path, read_only=True) as store:
        return {key.partition: value.offset for key, value in store.fetch(group).items()}


# -------------------------------------------------------------------------------------------------------------- moments


def test_moments_are_parsed():
    assert parse_moment("now") is None
    assert parse_moment("offset:12") == 12
    assert (
        parse_moment("2026-03-01T02:30") == parse_moment("2026-03-01 02:30Z") == datetime(2026, 3, 1, 2, 30, tzinfo=UTC)
    )
    assert parse_moment("2026-03-01T02:30+01:00") == datetime(2026, 3, 1, 1, 30, tzinfo=UTC)
    assert parse_time("2026-03-01") == datetime(2026, 3, 1, tzinfo=UTC)
    for text in ("-2h", "2h ago", " 120m ago ", "- 2h"):
        ago = datetime.now(UTC) - parse_moment(text)
        assert timedelta(hours=1, minutes=59) < ago < timedelta(hours=2, minutes=1)


@pytest.mark.parametrize(
    "text", ["", "yesterday", "offset:", "offset:-1", "offset:x", "2h", "-", "-x", "x ago", "12", "2026-13-01"]
)
def test_what_is_no_moment_is_refused(text):
    with pytest.raises(InvalidArgumentError):
        parse_moment(text)


# -------------------------------------------------------------------------------------------------------------- history


def test_history_of_a_position(data, capsys):
    found = rows(capsys, "history", data, "billing", "orders", 0)
    assert [(row["kind"], row["offset"], row["outcome"], row["effective_at"]) for row in found] == [
        ("commit", 42, "plain", found[0]["log_offset"]),
        ("commit", 50, "plain", found[1]["log_offset"]),
        ("commit", 51, "aborted", None),
    ]
    assert (found[1]["metadata"], found[1]["leader_epoch"], found[2]["producer_id"]) == ("a\tж", 3, 11)
    assert rows(capsys, "history", data, "billing", "orders:0") == found
    assert [row["kind"] for row in rows(capsys, "history", data, "billing", "orders:1")] == ["commit", "delete"]
    code, out, err = call(capsys, "history", data, "billing", "orders", 0)
    assert (code, err) == (0, "")
    assert out.splitlines()[2].split("\t")[1:5] == ["commit", "50", "3", "a\\tж"]


def test_history_since_a_time(data, capsys):
    found = rows(capsys, "history", data, "billing")
    times = [row["timestamp"] for row in found]
    for since in {*times, times[-1] + 1}:
        code = 0 if since <= times[-1] else 1
        younger = rows(capsys, "history", data, "billing", "--since", since, code=code)
        assert younger == [row for row in found if row["timestamp"] >= since]
    assert len(rows(capsys, "history", data, "billing", "--since", "-1h")) == len(found)
    code, out, err = call(capsys, "history", data, "billing", "orders:0", "--since", "now")
    assert (code, out) == (1, "")
    assert err == "offsetlog: the log holds no record of orders:0 for group billing since now\n"
    assert call(capsys, "history", data, "nobody", "--since", "-1h")[0] == 1
    assert "not a time" in call(capsys, "history", data, "billing", "--since", "offset:3")[2]


def test_history_of_nothing(data, capsys):
    code, out, err = call(capsys, "history", data, "billing", "orders", 9)
    assert (code, out) == (1, "")
    assert err == "offsetlog: the log holds no record of orders:9 for group billing\n"
    assert rows(capsys, "history", data, "nobody", "orders", 0, code=1) == []
    assert call(capsys, "history", data.parent / "nowhere", "billing", "orders", 0)[0] == 2


def test_history_of_a_group_and_of_a_topic(data, capsys):
    """The rows of all positions in the order of the log, each as its own history shows it."""
    with offsetlog.open(data, durability="process") as store:
        store.commit("billing", {TopicPartition("bills", 3): 1, ORDERS[2]: 10})
    found = rows(capsys, "history", data, "billing")
    assert [row["log_offset"] for row in found] == sorted(row["log_offset"] for row in found)
    places = {(row["topic"], row["partition"]) for row in found}
    assert places == {("orders", 0), ("orders", 1), ("orders", 2), ("bills", 3)}
    for topic, partition in places:
        alone = rows(capsys, "history", data, "billing", topic, partition)
        named = [{"topic": topic, "partition": partition, **row} for row in alone]
        assert [row for row in found if (row["topic"], row["partition"]) == (topic, partition)] == named
    assert rows(capsys, "history", data, "billing", "orders") == [row for row in found if row["topic"] == "orders"]
    code, _, err = call(capsys, "history", data, "billing", "letters")
    assert (code, err) == (1, "offsetlog: the log holds no record of topic letters for group billing\n")


def test_a_partition_that_is_taken_for_a_topic_is_explained(data, capsys):
    before = offsets(data)
    code, _, err = call(capsys, "restore", data, "billing", "orders", 0, "--at", "offset:2", "--yes")
    assert code == 1
    assert "has no committed offset of 0, neither now nor at" in err
    assert err.endswith("; a partition is written TOPIC:PARTITION\n")
    assert offsets(data) == before


def test_a_topic_may_contain_a_colon(data, capsys):
    with offsetlog.open(data, durability="process") as store:
        store.commit("billing", {TopicPartition("s3:bucket", 1): 5})
    assert [row["offset"] for row in rows(capsys, "history", data, "billing", "s3:bucket", 1)] == [5]
    code, _, err = call(capsys, "history", data, "billing", "orders:0", 1)
    assert (code, err.count("give the partition once: TOPIC PARTITION or TOPIC:PARTITION")) == (1, 1)


def test_history_on_a_terminal(data):
    code, shown = on_terminal("history", data, "billing", "orders", 0, columns=100)
    assert code == 0
    assert "effective_at" in shown
    assert "aborted" in shown


def test_a_change_that_only_hidden_fields_show_is_counted(data):
    with offsetlog.open(data, durability="process") as store:
        last = store.commit("billing", {ORDERS[0]: 50, ORDERS[2]: 10}).log_offset
    moment = f"offset:{last - 1}"
    # The offset of orders:0 stays 50, but its leader epoch and metadata are gone.
    for columns, counted in ((60, True), (250, False)):
        code, shown = on_terminal("diff", data, moment, "--group", "billing", columns=columns)
        assert (code, "1 row differs only in fields that are not shown" in shown) == (0, counted), shown


@pytest.fixture
def cleaned(tmp_path) -> Path:
    path = tmp_path / "cleaned"
    config = StoreConfig(segment_bytes=16 << 10)
    with offsetlog.open(
        path, partitions=1, durability="process", config=config, maintenance=MaintenanceConfig(enabled=False)
    ) as store:
        store.commit("billing", {ORDERS[1]: 7})
        store.delete("billing", [ORDERS[1]])
        for number in range(500):
            store.commit_one("billing", "orders", 0, number)
        store.compact()
        store.commit("billing", {ORDERS[0]: 1000})
    return path


def test_what_was_cleaned_is_said(cleaned, capsys):
    code, out, err = call(capsys, "history", cleaned, "billing", "orders", 0)
    assert (code, len(out.splitlines())) == (0, 3)
    assert "complete from log offset 502, 20" in err
    for arguments in (
        ("diff", cleaned, "-1d"),
        ("restore", cleaned, "billing", "--at", "offset:100", "--yes"),
        ("fetch", cleaned, "billing", "--at", "-1d"),
    ):
        code, out, err = call(capsys, *arguments)
        assert (code, out) == (1, "")
        assert "commits before log offset 502 of log partition 0 were cleaned away; the oldest time" in err
    assert rows(capsys, "fetch", cleaned, "billing", "--at", "offset:502")[0]["offset"] == 499
    code, out, err = call(capsys, "undelete", cleaned, "billing", "--yes")
    assert (code, out) == (1, "nothing came back\n")
    assert err == "offsetlog: orders:1 of group billing is lost: it was cleaned away\n"
    assert [(row["partition"], row["recoverable"]) for row in rows(capsys, "undelete", cleaned)] == [(1, False)]


# ---------------------------------------------------------------------------------------------------------- diff, fetch


def test_diff_between_moments(data, capsys):
    found = rows(capsys, "diff", data, "offset:2", "--group", "billing")
    assert [(row["partition"], row["offset_before"], row["offset_after"], row["step"]) for row in found] == [
        (0, 42, 50, 8),
        (1, 7, None, None),
        (2, None, 9, None),
    ]
    assert rows(capsys, "diff", data, "offset:2", "offset:2", "--group=billing") == []
    assert len(rows(capsys, "diff", data, "-1h")) == 3
    assert len(rows(capsys, "diff", data, "1h ago", "now")) == 3
    assert len(rows(capsys, "diff", data, "-1m", "now", "--group", "audit")) == 1
    assert rows(capsys, "diff", data, "now", "now") == []


def test_diff_refuses(data, capsys):
    code, _, err = call(capsys, "diff", data, "offset:2")
    assert (code, "needs --group" in err) == (2, True)
    assert call(capsys, "diff", data, "offset:99", "--group", "billing")[0] == 2
    assert call(capsys, "diff", data, "never")[0] == 2
    assert call(capsys, "diff", data, "--grup", "billing", "now")[0] == 2


def test_fetch_at_a_moment(data, capsys):
    found = rows(capsys, "fetch", data, "billing", "--at", "offset:2")
    assert [(row["partition"], row["offset"]) for row in found] == [(0, 42), (1, 7)]
    code, out, err = call(capsys, "fetch", data, "billing", "--at", "-1h")
    assert (code, out) == (1, "")
    assert re.fullmatch(r"offsetlog: no offset of group billing was committed by then \(20.* UTC\)\n", err)


# -------------------------------------------------------------------------------------------------------------- restore


def test_restore_and_its_dry_run(data, capsys):
    before = offsets(data)
    code, out, err = call(capsys, "restore", data, "billing", "--at", "offset:2", "--dry-run")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "would restore group billing to log offset 2: commit 2 offsets and delete 1 offset"
    assert offsets(data) == before
    done = rows(capsys, "restore", data, "billing", "--at", "offset:2", "--yes")
    assert [(row["partition"], row["offset_before"], row["offset_after"], row["undo_at"]) for row in done] == [
        (0, 50, 42, 8),
        (1, None, 7, 8),
        (2, 9, None, 8),
    ]
    assert offsets(data) == {0: 42, 1: 7}
    code, out, _ = call(capsys, "restore", data, "billing", "--at", "offset:2", "--yes")
    assert (code, out) == (0, "nothing to do: the offsets of group billing are already those of log offset 2\n")
    assert rows(capsys, "restore", data, "billing", "--at", "offset:2") == []


@pytest.mark.parametrize("selection", [[], ["orders:1", "orders:2"]])
def test_a_restore_prints_how_to_undo_it(data, capsys, selection):
    before = offsets(data)
    out = call(capsys, "restore", data, "billing", *selection, "--at", "offset:2", "--yes")[1]
    done, undo = out.splitlines()[-2:]
    assert done.startswith("restored group billing to log offset 2: ")
    named = "the same topics" if selection else "the group"
    assert undo == f"to undo these changes, restore {named} with --at offset:8"
    assert offsets(data) != before
    # Later commits to other positions stay if only the same ones are restored.
    with offsetlog.open(data) as store:
        store.commit("billing", {("payments", 9): 5})
    assert call(capsys, "restore", data, "billing", *selection, "--at=offset:8", "--yes")[0] == 0
    assert offsets(data) == before | ({9: 5} if selection else {})


def test_the_undo_of_a_restored_group_that_was_deleted_names_force(data, capsys):
    assert call(capsys, "delete", data, "billing", "--yes")[0] == 0
    out = call(capsys, "restore", data, "billing", "--at", "offset:2", "--yes")[1]
    undo = out.splitlines()[-1]
    assert undo.endswith(" (add --force if the group then has no offsets)")
    moment = undo.partition("--at ")[2].partition(" ")[0]
    assert call(capsys, "restore", data, "billing", "--at", moment, "--yes")[0] == 1
    assert call(capsys, "restore", data, "billing", "--at", moment, "--yes", "--force")[0] == 0
    assert offsets(data) == {}


def test_restore_of_some(data, capsys):
    assert call(capsys, "restore", data, "billing", "orders:1", "orders:2", "--at", "offset:2", "--yes")[0] == 0
    assert offsets(data) == {0: 50, 1: 7}
    assert call(capsys, "restore", data, "billing", "invoices", "--at", "offset:2", "--yes")[:2] == (1, "")
    assert call(capsys, "restore", data, "billing", "orders:1", "--at", "offset:2", "--yes")[1].startswith(
        "nothing to do"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("restore", "billing"),
        ("restore", "billing", "--at", "now"),
        ("restore", "billing", "--at", "offset:99"),
        ("restore", "billing", ":0", "--at", "offset:0"),
        ("undelete", "--at", "offset:0"),
        ("undelete", "billing", "--at", "offset:0", "--since", "-1d"),
        ("undelete", "--since", "offset:1"),
    ],
)
def test_wrong_usage_changes_nothing(data, capsys, arguments):
    before = {file: file.read_bytes() for file in data.rglob("*.log")}
    command, *rest = arguments
    code, out, err = call(capsys, command, data, *rest)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert {file: file.read_bytes() for file in data.rglob("*.log")} == before


# ------------------------------------------------------------------------------------------------------------- undelete


def test_undelete_lists_and_brings_back(data, capsys):
    listed = rows(capsys, "undelete", data)
    assert [(row["group"], row["partition"], row["offset"], row["recoverable"]) for row in listed] == [
        ("billing", 1, 7, True)
    ]
    assert rows(capsys, "undelete", data, "billing", "--list") == listed
    assert rows(capsys, "undelete", data, "audit", "--list") == []
    assert rows(capsys, "undelete", data, "billing", "orders:0", "--list") == []
    assert rows(capsys, "undelete", data, "--since", "-1d") == listed
    assert rows(capsys, "undelete", data, "--since", "-0s") == []
    code, out, _ = call(capsys, "undelete", data, "billing", "--dry-run")
    assert code == 0
    assert out.splitlines()[-1].startswith("would commit 1 deleted offset of group billing again, deleted 20")
    assert offsets(data) == {0: 50, 2: 9}
    code, out, err = call(capsys, "undelete", data, "billing", "--yes")
    assert (code, err) == (0, "")
    assert out.splitlines()[-2:] == [
        "committed 1 offset of billing again",
        "to undo these changes, restore the group with --at offset:8 (add --force if the group then has no offsets)",
    ]
    assert offsets(data) == {0: 50, 1: 7, 2: 9}
    assert call(capsys, "undelete", data, "billing") == (0, "nothing came back\n", "")
    assert rows(capsys, "undelete", data) == []
    # The undo deletes it again.
    assert call(capsys, "restore", data, "billing", "--at=offset:8", "--yes")[0] == 0
    assert offsets(data) == {0: 50, 2: 9}


def test_undelete_with_the_values_of_a_moment(data, capsys):
    call(capsys, "delete", data, "billing", "--yes")
    done = rows(capsys, "undelete", data, "billing", "orders:0", "--at", "offset:2", "--yes")
    assert [(row["partition"], row["offset_after"], row["undo_at"]) for row in done] == [(0, 42, 10)]
    assert rows(capsys, "undelete", data, "billing", "--yes")[0]["offset_after"] == 7
    assert offsets(data) == {0: 42, 1: 7, 2: 9}


def test_a_list_of_nothing_on_a_terminal(tmp_path):
    with offsetlog.open(tmp_path, partitions=1) as store:
        store.commit("billing", {ORDERS[0]: 1})
    code, shown = on_terminal("undelete", tmp_path)
    assert (code, "the log holds no deletion" in shown) == (0, True)


def test_what_a_broker_deleted_comes_back(tmp_path, capsys):
    path = tmp_path / "log"
    shutil.copytree(DATA / "groups" / "log", path)
    listed = rows(capsys, "undelete", path, "--partitions", 8)
    assert len(listed) > 30
    for row in listed[::5]:
        place = f"{row['topic']}:{row['partition']}"
        done = rows(capsys, "undelete", path, row["group"], place, "--partitions", 8, "--yes", "--force")
        assert [each["offset_after"] for each in done] == [row["offset"]]


# --------------------------------------------------------------------------------------- a part of a broker's directory


@pytest.fixture
def part(tmp_path) -> Path:
    path = tmp_path / "part"
    shutil.copytree(DATA / "txn" / "log", path)
    for number in (6, 7):
        shutil.rmtree(path / f"__consumer_offsets-{number}")
    return path


LOOKING_BACK = [
    ["fetch", "c08-audit1"],
    ["history", "c08-audit1", "txn-topic:0"],
    ["diff", "2001-01-01"],
    ["undelete"],
    ["undelete", "c08-audit1", "--dry-run"],
    ["restore", "c08-audit1", "--at=2001-01-01", "--dry-run"],
]


@pytest.mark.parametrize("arguments", LOOKING_BACK, ids="-".join)
def test_where_the_number_of_partitions_is_unknown_nothing_is_said(part, capsys, arguments):
    code, out, err = call(capsys, arguments[0], part, *arguments[1:])
    assert (code, out) == (2, "")
    assert "cannot tell how many partitions" in err
    assert "--partitions" in err
    code, out, err = call(capsys, arguments[0], part, *arguments[1:], "--partitions=7")
    assert (code, out) == (2, "")
    assert "with partitions=7 the group" in err
    code, _, err = call(capsys, arguments[0], part, *arguments[1:], "--partitions=8")
    assert "partitions" not in err
    assert code in (0, 1)


@pytest.mark.parametrize("wait", [True, False])
def test_a_number_is_guessed_only_where_it_can_be(part, tmp_path, wait):
    with pytest.raises(PartitionCountError, match="cannot tell how many partitions"):
        offsetlog.open(part, read_only=True, wait=wait)
    with pytest.raises(PartitionCountError, match="the group"):
        offsetlog.open(part, 9, read_only=True, wait=wait)
    with offsetlog.open(DATA / "txn" / "log", read_only=True, wait=wait) as store:
        assert store.partitions == 8


def group_of_the_first(partitions: int, *, but_not_of: int) -> str:
    """A group that lies in the first of so many log partitions, and not in the first of another number."""
    names = map(str, range(9999))
    return next(
        name
        for name in names
        if partition_for(name.encode(), partitions) == 0 and partition_for(name.encode(), but_not_of) != 0
    )


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize(
    ("count", "other"),
    [(KAFKA_PARTITIONS_DEFAULT, PARTITIONS_DEFAULT), (PARTITIONS_DEFAULT, KAFKA_PARTITIONS_DEFAULT)],
)
def test_one_partition_of_a_default_number_is_not_taken_for_all(tmp_path, wait, count, other):
    path = tmp_path / "one"
    with offsetlog.open(path, count, "process") as store:
        store.commit_one(group_of_the_first(count, but_not_of=other), "t", 0, 1)
    for name in ("offsetlog.properties", "offsetlog.checkpoints"):
        (path / name).unlink()
    with pytest.raises(PartitionCountError, match=f"fit both 1 and {count}"):
        offsetlog.open(path, read_only=True, wait=wait)


def test_the_default_of_offsetlog_is_not_looked_for_in_a_broker_s_directory(tmp_path):
    """A cluster may have a single partition, and a group of it often fits four as well."""
    path = tmp_path / "one"
    group = group_of_the_first(PARTITIONS_DEFAULT, but_not_of=KAFKA_PARTITIONS_DEFAULT)
    with offsetlog.open(path, 1, "process") as store:
        store.commit_one(group, "t", 0, 1)
    for file in (*path.glob("offsetlog.*"), *path.glob("*/offsetlog*")):
        file.unlink()
    with offsetlog.open(path, read_only=True) as store:
        assert store.partitions == 1


@pytest.mark.parametrize("moment", ["99999999999d ago", "999999d ago", "9" * 400 + "d ago"])
def test_a_moment_before_the_calendar_is_refused(data, capsys, moment):
    code, out, err = call(capsys, "diff", data, moment)
    assert (code, out) == (2, "")
    assert "before the year 1" in err or "not a duration" in err


@pytest.mark.parametrize("dry_run", [[], ["--dry-run"]])
@pytest.mark.parametrize("names", ["typo", "billing typo", "billing orders:99", "billing orders typo"])
def test_restore_of_what_there_never_was(data, capsys, names, dry_run):
    before = offsets(data)
    code, out, err = call(capsys, "restore", data, *names.split(), "--at=-0s", *dry_run)
    assert (code, out) == (1, "")
    assert ("there is no group typo in " if names == "typo" else "no committed offset") in err
    assert offsets(data) == before
    assert call(capsys, "restore", data, "billing", "--at=-0s", *dry_run)[0] == 0


FUTURE = [
    ["restore", "billing", "--at=YEAR", "--yes"],
    ["restore", "billing", "--at=YEAR", "--dry-run"],
    ["undelete", "billing", "--at=YEAR", "--yes"],
    ["undelete", "billing", "--since=YEAR", "--yes"],
    ["undelete", "--since=YEAR"],
    ["fetch", "billing", "--at=YEAR"],
    ["diff", "YEAR"],
    ["diff", "-1h", "YEAR", "--group=billing"],
]


@pytest.mark.parametrize("arguments", FUTURE, ids=" ".join)
def test_a_mistyped_year_does_not_look_like_success(data, capsys, arguments):
    before = {file: file.read_bytes() for file in data.rglob("*.log")}
    command, *rest = (each.replace("YEAR", "2162-03-01T02:30+01:00") for each in arguments)
    code, out, err = call(capsys, command, data, *rest)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "=2162-03-01T01:30:00.000 lies in the future: this machine's clock says " in err
    assert {file: file.read_bytes() for file in data.rglob("*.log")} == before


# -------------------------------------------------------------------------------------------------------------- rewinds


def test_rewinds_name_group_place_and_time(data, capsys):
    assert rows(capsys, "rewinds", data) == []
    with offsetlog.open(data) as store:
        store.commit("billing", {ORDERS[0]: 3})
        entry = store.history("billing", "orders", 0)[-1]
    [row] = rows(capsys, "rewinds", data, "--since", "-1d", "--group", "billing")
    assert row == {
        "group": "billing",
        "topic": "orders",
        "partition": 0,
        "timestamp": entry.timestamp,
        "offset_before": 50,
        "offset_after": 3,
        "step": -47,
        "log_partition": row["log_partition"],
        "log_offset": entry.log_offset,
        "effective_at": entry.log_offset,
        "restore_at": entry.log_offset,
    }
    assert rows(capsys, "rewinds", data, "--group", "audit") == []
    # The log offset is the moment before the accident.
    call(capsys, "restore", data, "billing", "--at", f"offset:{row['log_offset']}", "--yes")
    assert offsets(data) == {0: 50, 2: 9}
    assert "went back" in on_terminal("rewinds", data, "--since", "-0s")[1]


def test_the_moment_before_a_rewind_can_be_restored(tmp_path, capsys):
    """Also if the first record of the commit did not go back, or if a transaction made the change."""
    path = tmp_path / "data"
    with offsetlog.open(path, partitions=1, durability="process") as store:
        store.commit("g", {ORDERS[0]: 0, ORDERS[1]: 100, ORDERS[2]: 200})
        store.commit("g", dict.fromkeys(ORDERS[:3], 0))
        with store.transaction("t", 7) as transaction:
            transaction.commit({ORDERS[0]: 5})
        with store.transaction("t", 7) as transaction:
            transaction.commit({ORDERS[1]: 9, ORDERS[0]: 1})
            store.commit("g", {ORDERS[3]: 1})
    found = rows(capsys, "rewinds", path)
    assert [(row["group"], row["partition"], row["log_offset"], row["restore_at"]) for row in found] == [
        ("g", 1, 4, 3), ("g", 2, 5, 3), ("t", 0, 9, 11),
    ]
    summary = {row["group"]: row for row in rows(capsys, "rewinds", path, "--by-group")}
    assert [(name, row["rewound_offsets"], row["restore_at"]) for name, row in summary.items()] == [
        ("g", 2, 3), ("t", 1, 11),
    ]
    for group, before in (("g", {0: 0, 1: 100, 2: 200}), ("t", {0: 5})):
        moment = summary[group]["restore_at"]
        assert call(capsys, "restore", path, group, "--at", f"offset:{moment}", "--yes")[0] == 0
        assert offsets(path, group) == before


def _rewound(group: str, partition: int, timestamp: int, restore_at: int | None) -> Rewind:
    value = offsetlog.OffsetAndMetadata(1)
    return Rewind(group, "orders", partition, timestamp, value, value, 3, 9, 9, restore_at)


def test_rewinds_of_a_group_without_a_moment_before_all_of_them():
    """A batch of a broker may have the commit before one of them; then the lowest of the others is too late."""
    found = [_rewound("a", 0, 5, 9), _rewound("b", 0, 6, 4), _rewound("a", 1, 7, None), _rewound("b", 0, 8, 2)]
    assert [tuple(row.values()) for row in rows_by_group(found)] == [("a", 2, 5, 7, 3, None), ("b", 1, 6, 8, 3, 2)]


@pytest.mark.parametrize("command", [["delete"], ["undelete"], ["restore", "--at=offset:0"]])
def test_a_mistyped_group_changes_no_file_of_a_broker(tmp_path, capsys, command):
    log = tmp_path / "log"
    shutil.copytree(DATA / "groups" / "log", log)
    before = {path: path.read_bytes() for path in log.rglob("*") if path.is_file()}
    name, *options = command
    code, _, err = call(capsys, name, log, "nobody", *options, "--yes", "--partitions", 8)
    assert (code, err) == (1, f"offsetlog: there is no group nobody in {log}\n")
    assert {path: path.read_bytes() for path in log.rglob("*") if path.is_file()} == before


@pytest.mark.filterwarnings("ignore::offsetlog.errors.CorruptionWarning")
def test_rewinds_say_where_the_log_is_not_complete(data, cleaned, capsys):
    code, out, err = call(capsys, "rewinds", cleaned)
    assert (code, len(out.splitlines())) == (0, 1)
    assert err.startswith("offsetlog: log partition 0 was cleaned below log offset ")
    segment = max(data.glob("*/*.log"), key=lambda file: file.stat().st_size)
    content = bytearray(segment.read_bytes())
    content[70] ^= 1
    segment.write_bytes(content)
    code, _, err = call(capsys, "rewinds", data)
    assert code == 1
    assert "cannot be read from log offset 0 to " in err


def test_rewinds_of_kafkas_directory_need_no_number_of_partitions(capsys):
    found = rows(capsys, "rewinds", DATA / "txn" / "log")
    assert found
    assert all(row["offset_after"] < row["offset_before"] for row in found)
    assert [row["timestamp"] for row in found] == sorted(row["timestamp"] for row in found)


def test_moments_in_the_wrong_order_are_named(data, capsys):
    code, _, err = call(capsys, "diff", data, "offset:4", "offset:2", "--group", "billing")
    remark = "offset:4 is later than offset:2: the columns `*_before` show the later state"
    assert (code, err) == (0, f"offsetlog: {remark}\n")
    assert call(capsys, "diff", data, "now", "-0s", "--group", "billing")[2].count("later") == 2
    assert call(capsys, "diff", data, "offset:2", "offset:4", "--group", "billing")[2] == ""


def test_fetch_names_the_moment_at_which_nothing_was_committed(data, capsys):
    err = call(capsys, "fetch", data, "billing", "--at", "2001-09-10")[2]
    assert err == "offsetlog: no offset of group billing was committed by then (2001-09-10 00:00:00.000 UTC)\n"


def test_verify_of_some_partitions_asks_for_their_number(tmp_path, capsys):
    shutil.copytree(DATA / "groups" / "log", tmp_path / "part", ignore=shutil.ignore_patterns("*-[567]"))
    code, out, _ = call(capsys, "verify", tmp_path / "part")
    assert code == 1
    assert "of a topic with 5 partitions (as many as this directory has; if the topic has more, give their" in out
    assert call(capsys, "verify", tmp_path / "part", "--partitions", 8)[0] == 0
