"""`offsets --at` and `--topic`, and `OffsetStore.to_arrow(at=...)`."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("typer")

from conformance.scenarios import BUNDLED
from test_cli_read import call

import offsetlog
from offsetlog import TopicPartition
from offsetlog.errors import HistoryError, InvalidArgumentError

KAFKA = BUNDLED / "kafka-4.3.0" / "groups" / "log"


@pytest.fixture
def data(tmp_path) -> tuple[Path, str]:
    """A directory, and the time before its last commits."""
    path = tmp_path / "data"
    with offsetlog.open(path, partitions=3, durability="process") as store:
        for group in ("billing", "audit", "a b"):
            store.commit(group, {TopicPartition("orders", 0): 42, TopicPartition("orders", 1): 7})
        store.commit("billing", {TopicPartition("inv:oices", 3): offsetlog.OffsetAndMetadata(3, "m\tж", 5)})
        time.sleep(0.02)
        then = datetime.now(UTC).isoformat()
        time.sleep(0.02)
        store.commit("billing", {TopicPartition("orders", 0): 50})
        store.delete("audit", [TopicPartition("orders", 1)])
    return path, then


def rows(capsys, *arguments: object, code: int = 0) -> list[dict[str, object]]:
    found, out, _ = call(capsys, "offsets", *arguments, "--format", "json")
    assert found == code
    return [json.loads(line) for line in out.splitlines()]


def short(found: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return [(row["group"], row["topic"], row["partition"], row["offset"]) for row in found]


BEFORE = [
    ("a b", "orders", 0, 42),
    ("a b", "orders", 1, 7),
    ("audit", "orders", 0, 42),
    ("audit", "orders", 1, 7),
    ("billing", "inv:oices", 3, 3),
    ("billing", "orders", 0, 42),
    ("billing", "orders", 1, 7),
]


def test_positions_at_a_time(data, capsys):
    path, then = data
    found = rows(capsys, path, "--at", then)
    assert short(found) == BEFORE
    now = rows(capsys, path)
    assert rows(capsys, path, "--at", "now") == rows(capsys, path, "--at", "-0") == now
    # A position that did not change is the same row, field by field.
    assert [row for row in found if row in now] == [row for row in now if row in found] != []
    assert found[4] == next(row for row in now if row["topic"] == "inv:oices")
    assert rows(capsys, path, "--at", "1h ago") == []
    assert short(rows(capsys, path, "--at", then, "--group", "billing")) == BEFORE[4:]
    assert call(capsys, "offsets", path, "--at", then, "--group", "nobody")[2] == (
        f"offsetlog: there is no group nobody in {path}\n"
    )


def test_topics_are_picked(data, capsys):
    path, then = data
    assert short(rows(capsys, path, "--topic", "inv:oices:3")) == [("billing", "inv:oices", 3, 3)]
    assert short(rows(capsys, path, "--topic", "orders:1", "--at", then)) == [row for row in BEFORE if row[2] == 1]
    assert short(rows(capsys, path, "--topic", "orders", "--at", then)) == [row for row in BEFORE if row[1] == "orders"]
    asked = ["--topic", "orders:1", "--topic", "nothing", "--topic", "orders:9"]
    code, out, err = call(capsys, "offsets", path, *asked)
    assert (code, len(out.splitlines())) == (1, 3)
    assert err.splitlines() == [f"offsetlog: no offset of {name} is committed" for name in ("nothing", "orders:9")]
    assert call(capsys, "offsets", path, "--topic", "orders:x")[0] == 2
    # The group has others: only the topic that was asked for is not there.
    code, _, err = call(capsys, "offsets", path, "--group", "billing", "--topic", "orders:9")
    assert (code, err) == (1, "offsetlog: group billing: no offset of orders:9 is committed\n")
    assert call(capsys, "offsets", path, "--group", "billing", "--topic", "orders:0")[::2] == (0, "")


def test_what_cannot_be_asked(data, capsys):
    path, _ = data
    code, out, err = call(capsys, "offsets", path, "--at", "offset:3")
    assert (code, out) == (2, "")
    assert "offsetlog fetch PATH GROUP --at offset:3" in err
    assert "is not a moment" in call(capsys, "offsets", path, "--at", "soon")[2]
    assert "lies in the future" in call(capsys, "offsets", path, "--at", "2162-01-01")[2]
    (partition,) = [each for each in path.iterdir() if each.name.endswith("-1")]
    assert "name the log directory that contains it" in call(capsys, "offsets", partition, "--at", "-1h")[2]


def test_a_directory_of_a_broker_needs_no_number_of_partitions(capsys):
    now = rows(capsys, KAFKA)
    assert rows(capsys, KAFKA, "--at", "now") == now
    stamps = sorted(row["commit_timestamp"] for row in now)
    found = rows(capsys, KAFKA, "--at", str(stamps[len(stamps) // 2]))
    assert len(found) > 0
    assert short(found) != short(now)


def test_the_table_is_that_of_now_where_nothing_changed(data):
    path, then = data
    with offsetlog.open(path, read_only=True) as store:
        now = store.to_arrow()
        table = store.to_arrow(at="now")
        assert table.schema == now.schema
        order = ["group", "topic", "partition"]

        def plain(each):
            return sorted(each.to_pylist(), key=lambda row: [row[name] for name in order])

        assert plain(table) == plain(now) == table.to_pylist()
        assert store.to_arrow(at=datetime(2020, 1, 1, tzinfo=UTC)).num_rows == 0
        for group in ("billing", "audit", "a b"):
            mine = {
                TopicPartition(row["topic"], row["partition"]): row["offset"]
                for row in store.to_arrow(at=then).to_pylist()
                if row["group"] == group
            }
            assert mine == {key: value.offset for key, value in store.fetch(group, at=then).items()}
        with pytest.raises(InvalidArgumentError, match="at=5 is a log offset of one log partition"):
            store.to_arrow(at=5)


def test_a_cleaned_past_is_refused(tmp_path):
    key = TopicPartition("orders", 0)
    with offsetlog.open(tmp_path, partitions=1, durability="process") as store:
        for offset in range(300):
            store.commit("billing", {key: offset})
        store.compact()
        with pytest.raises(HistoryError, match="were cleaned away"):
            store.to_arrow(at="1h ago")
        assert store.to_arrow(at="now").num_rows == 1
