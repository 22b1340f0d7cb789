from __future__ import annotations

import json
import os
import signal
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
from depth import by_depth, first_seed

import offsetlog
from offsetlog import MaintenanceConfig, StoreConfig, TopicPartition, errors
from offsetlog.spark.sink import epochs, publishing, writer
from offsetlog.spark.sink.options import checked_options
from offsetlog.spark.sink.staging import RESERVED_PREFIX
from tests.spark.sinks import Row, commits_of, epoch_writer, positions, stage_tasks

# The second tier: a process for each stop.
pytestmark = pytest.mark.ci

TASKS: list[list[Row]] = [
    [(f"group-{number}", "orders", part, 100 + number) for number in range(8) for part in range(2)],
    [],
    [(f"group-{number}", "returns", 0, 7) for number in range(4)],
]
WANTED = {(group, topic, part): offset for rows in TASKS for group, topic, part, offset in rows}


def publish(path: Path, epoch: int = 0, tasks: list[list[Row]] = TASKS, **options: str) -> publishing.Published:
    return epoch_writer(path, "q", epoch, **options).publish(stage_tasks(path, "q", epoch, tasks))


def test_an_epoch_is_committed_once(tmp_path):
    assert publish(tmp_path).rows == len(WANTED)
    again = publish(tmp_path)
    assert again.skipped
    assert again.rows == 0
    assert positions(tmp_path) == WANTED
    assert set(commits_of(tmp_path, WANTED).values()) == {1}
    assert publish(tmp_path, 1, [[("group-1", "orders", 0, 5)]]).rows == 1
    assert publish(tmp_path, 0).skipped
    assert positions(tmp_path) == {**WANTED, ("group-1", "orders", 0): 5}
    assert not (tmp_path / ".offsetlog-staging").exists()


def test_what_was_published_is_known_after_cleaning(tmp_path):
    with offsetlog.open(tmp_path, partitions=4, config=StoreConfig(segment_bytes=1 << 20)):
        pass
    for epoch in range(3):
        publish(tmp_path, epoch, [[(group, topic, part, offset + epoch) for group, topic, part, offset in TASKS[0]]])
    with offsetlog.open(tmp_path) as store:
        store.compact()
        store.compact(again=True, delete_retention_ms=0)
        assert store.verify() == []
    assert all(publish(tmp_path, epoch).skipped for epoch in range(3))
    assert positions(tmp_path) == {key: offset + 2 for key, offset in WANTED.items() if key[1] == "orders"}


def test_a_store_that_only_the_sink_writes_stays_small(tmp_path, monkeypatch):
    config = MaintenanceConfig(enabled=False, min_cleanable_bytes=0, roll_bytes=4096)
    monkeypatch.setattr(publishing, "MAINTENANCE", config)
    sizes = {}
    for clean in ("true", "false"):
        for epoch in range(20):
            rows: list[Row] = [("g", "t", part, epoch) for part in range(200)]
            publish(tmp_path / clean, epoch, [rows], clean=clean)
        with offsetlog.open(tmp_path / clean) as store:
            sizes[clean] = sum(partition.log_facts()["size_bytes"] for partition in store._open_core.attached())
            assert store.verify() == []
        assert all(publish(tmp_path / clean, epoch).skipped for epoch in range(20))
    assert sizes["true"] < sizes["false"] / 3


def test_the_reserved_positions_never_expire(tmp_path):
    publish(tmp_path)
    with offsetlog.open(tmp_path) as store:
        reserved = [group for group in store.groups() if group.startswith(RESERVED_PREFIX)]
        assert len(reserved) == 1 + len({store._open_core.number_of(key[0]) for key in WANTED})
        time.sleep(0.01)
        soon = store.expiring(timedelta(days=365), retention_ms=1)
        assert not set(soon["group"].to_pylist()) & set(reserved)
        store.expire(retention_ms=1)
        assert store.groups() == reserved
        assert store.fetch_one(epochs.FINISHED, "q", 0).offset == 1
    assert publish(tmp_path).skipped


def test_of_rows_with_one_key_the_last_wins(tmp_path):
    publish(tmp_path, 0, [[("g", "t", 0, 1), ("g", "t", 0, 2)], [("g", "t", 0, 9), ("g", "t", 0, 3)]])
    assert positions(tmp_path) == {("g", "t", 0): 3}


def test_a_group_larger_than_a_piece_is_one_transaction(tmp_path):
    rows: list[list[Row]] = [[("g", "t", part, part) for part in range(start, start + 40_000)] for start in (0, 40_000)]
    publish(tmp_path, 0, rows)
    with offsetlog.open(tmp_path) as store:
        assert len(store.fetch("g")) == 80_000
        ends = {store.history("g", "t", part)[0].marker_offset for part in (0, 39_999, 40_000, 79_999)}
        assert len(ends) == 1
        assert None not in ends
        assert store.verify() == []


class Stopped(Exception):
    pass


def steps_of(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []
    with monkeypatch.context() as patched:
        patched.setattr(publishing, "reached", seen.append)
        publish(path)
    return seen


def test_a_publication_that_fails_anywhere_goes_on(tmp_path, monkeypatch):
    steps = steps_of(tmp_path / "whole", monkeypatch)
    assert {"opened", "written", "marked", "ended", "durable", "finished", "cleaned"} == set(steps)
    for stop in range(len(steps)):
        path = tmp_path / str(stop)
        seen: list[str] = []

        def reached(step: str, seen: list[str] = seen, stop: int = stop) -> None:
            seen.append(step)
            if len(seen) == stop + 1:
                raise Stopped(step)

        with monkeypatch.context() as patched:
            patched.setattr(publishing, "reached", reached)
            with pytest.raises(Stopped) as failure:
                publish(path)
        ended = seen.count("ended")
        if ended > 0 and "finished" not in seen:
            assert f"the write is committed in {ended} log partitions" in failure.value.__notes__[0]
        with offsetlog.open(path) as store:
            assert store.transactions() == []
            assert len({store._open_core.number_of(group) for group, *_ in positions_of(store)}) == ended
        publish(path)
        check_whole(path)


def positions_of(store: offsetlog.OffsetStore) -> set[tuple[str, str, int]]:
    rows = store.to_arrow().select(["group", "topic", "partition"]).to_pylist()
    return {tuple(row.values()) for row in rows if not row["group"].startswith(RESERVED_PREFIX)}


def check_whole(path: Path) -> None:
    assert positions(path) == WANTED
    assert set(commits_of(path, WANTED).values()) == {1}
    with offsetlog.open(path) as store:
        assert store.transactions() == []
        assert store.verify() == []
        assert store.fetch_one(epochs.FINISHED, "q", 0).offset == 1
    assert publish(path).skipped


def publish_and_die(path: Path, steps: int) -> None:
    """Publishes in a process that ends at a step of this number."""
    left = iter(range(steps))

    def reached(step: str) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    publishing.reached = reached
    publish(path)


def exit_code(path: Path, steps: int) -> int:
    """A child made by fork has the modules loaded, which takes longer than all that is tested."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            publish_and_die(path, steps)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_publication_that_is_killed_anywhere_goes_on(tmp_path, monkeypatch):
    count = len(steps_of(tmp_path / "whole", monkeypatch))
    step = by_depth(gate=4, long=1)
    for stop in range(first_seed() % step, count, step):
        path = tmp_path / str(stop)
        assert exit_code(path, stop) == -signal.SIGKILL
        # Killed again while it goes on: what was left open is aborted, and one log partition more may be there.
        assert exit_code(path, 3) in (0, -signal.SIGKILL)
        publish(path)
        check_whole(path)


def test_a_log_partition_that_was_published_keeps_what_came_after(tmp_path, monkeypatch):
    def reached(step: str) -> None:
        if step == "ended":
            raise Stopped(step)

    with monkeypatch.context() as patched:
        patched.setattr(publishing, "reached", reached)
        with pytest.raises(Stopped):
            publish(tmp_path)
    [key, *_] = sorted(positions(tmp_path))
    with offsetlog.open(tmp_path) as store:
        store.commit(key[0], {key[1:]: 5_000})
    publish(tmp_path)
    assert positions(tmp_path) == {**WANTED, key: 5_000}


def test_a_staged_file_that_changed_is_refused(tmp_path):
    messages = stage_tasks(tmp_path, "q", 0, TASKS)
    staged = messages[2].rows
    assert staged is not None
    content = bytearray(Path(staged.path).read_bytes())
    content[len(content) // 2] ^= 1
    Path(staged.path).write_bytes(content)
    with pytest.raises(errors.CorruptionError, match="was changed after its task wrote it") as refused:
        epoch_writer(tmp_path, "q", 0).commit(messages)
    assert refused.value.path == staged.path
    Path(staged.path).unlink()
    with pytest.raises(errors.MissingFileError, match="stagingLocation") as missing:
        epoch_writer(tmp_path, "q", 0).commit(messages)
    assert missing.value.path == staged.path
    assert positions(tmp_path) == {}


def test_files_of_other_attempts_do_not_count_and_go(tmp_path):
    stage_tasks(tmp_path, "q", 0, [[("stale", "t", 0, 1)]])
    stage_tasks(tmp_path, "q", 1, [[("crashed run", "t", 0, 1)]], "earlier")
    stage_tasks(tmp_path, "q", 1, [[("other attempt", "t", 0, 1)]])
    ahead = stage_tasks(tmp_path, "q", 2, [[("ahead", "t", 0, 1)]])
    publish(tmp_path, 1)
    assert positions(tmp_path) == WANTED
    assert [path.name for path in (tmp_path / ".offsetlog-staging" / "q").iterdir()] == ["2"]
    epoch_writer(tmp_path, "q", 2).abort([*ahead, None])
    assert not (tmp_path / ".offsetlog-staging").exists()


def test_a_publisher_that_outlives_its_driver_disturbs_nobody(tmp_path):
    outlived = stage_tasks(tmp_path, "q", 0, TASKS, "run")
    restarted = stage_tasks(tmp_path, "q", 0, TASKS, "restarted")
    assert epoch_writer(tmp_path, "q", 0).publish(outlived).rows == len(WANTED)
    assert [path.name for path in (tmp_path / ".offsetlog-staging" / "q" / "0").iterdir()] == ["restarted"]
    again = epoch_writer(tmp_path, "q", 0)
    again._job = "restarted"
    assert again.publish(restarted).skipped
    assert not (tmp_path / ".offsetlog-staging").exists()
    # Also where its files are gone.
    assert again.publish(restarted).skipped
    assert set(commits_of(tmp_path, WANTED).values()) == {1}


def test_a_store_that_is_open_elsewhere_is_waited_for(tmp_path):
    with offsetlog.open(tmp_path, partitions=4):
        begun = time.monotonic()
        with pytest.raises(errors.LockedError, match=r"another process still has the store open.*0\.3 s") as refused:
            publish(tmp_path, lockTimeoutSeconds="0.3")
        assert 0.3 <= time.monotonic() - begun < 5
        assert refused.value.path == str(tmp_path)
    store = offsetlog.open(tmp_path)
    timer = threading.Timer(0.3, store.close)
    timer.start()
    try:
        assert publish(tmp_path).rows == len(WANTED)
    finally:
        timer.join()


def test_another_number_of_partitions_is_refused(tmp_path):
    publish(tmp_path)
    with pytest.raises(errors.PartitionCountError):
        publish(tmp_path, 1, partitions="5")


def stream_of(path: Path, **options: str) -> writer.StreamWriter:
    return writer.StreamWriter(checked_options({"path": str(path), **options}, stream=True, overwrite=False))


def stream_messages(path: Path, query: str, epoch: int, spark_query: str) -> list[writer.StagedMessage]:
    messages = stage_tasks(path, query, epoch, TASKS)
    for message in messages:
        message.query = spark_query
    return messages


def test_a_stream_is_known_by_its_checkpoint(tmp_path):
    done = stream_of(tmp_path).publish(stream_messages(tmp_path, "id-1", 0, "id-1"), 0)
    assert done.rows == len(WANTED)
    assert stream_of(tmp_path).publish(stream_messages(tmp_path, "id-1", 0, "id-1"), 0).skipped
    # Another checkpoint is another query, whose epochs begin again.
    assert stream_of(tmp_path).publish(stream_messages(tmp_path, "id-2", 0, "id-2"), 0).rows == len(WANTED)
    with offsetlog.open(tmp_path, read_only=True) as store:
        assert {key.topic: value.offset for key, value in store.fetch(epochs.FINISHED).items()} == {
            "id-1": 1,
            "id-2": 1,
        }


def test_the_name_of_another_stream_is_refused(tmp_path):
    named = stream_of(tmp_path, queryId="daily")
    named.commit(stream_messages(tmp_path, "daily", 0, "id-1"), 0)
    with pytest.raises(errors.StateError, match="another checkpoint"):
        named.commit(stream_messages(tmp_path, "daily", 0, "id-2"), 0)
    named.commit(stream_messages(tmp_path, "daily", 1, "id-1"), 1)
    with offsetlog.open(tmp_path) as store:  # a position written there by hand names no stream
        store.commit(epochs.FINISHED, {TopicPartition("daily", 0): offsetlog.OffsetAndMetadata(2, "by hand")})
    assert named.publish(stream_messages(tmp_path, "daily", 1, "id-2"), 1).skipped


def test_a_plain_write_is_remembered_nowhere(tmp_path):
    plain = writer.BatchWriter(
        checked_options({"path": str(tmp_path), "partitions": "4"}, stream=False, overwrite=False)
    )
    for _ in range(2):
        assert plain.publish(stage_tasks(tmp_path, plain._name, 0, TASKS)).rows == len(WANTED)
    assert set(commits_of(tmp_path, WANTED).values()) == {2}
    with offsetlog.open(tmp_path, read_only=True) as store:
        assert not [group for group in store.groups() if group.startswith(RESERVED_PREFIX)]


def test_refused_rows_fail_the_write_or_leave_their_groups_out(tmp_path):
    tasks: list[list[Row]] = [[("bad", "t", 0, 5), ("good", "t", 0, 6)], [("bad", "t", 1, -5), ("worse", "", 0, 1)]]
    with pytest.raises(errors.InvalidArgumentError) as refused:
        publish(tmp_path, 0, tasks, report=str(tmp_path / "reports"))
    assert "2 rows were refused" in str(refused.value)
    assert "group 'bad', topic 't', partition 1: the offset is negative" in str(refused.value)
    assert refused.value.item == ("t", 1)
    refusals = json.loads((tmp_path / "reports" / "offsetlog-refused-q-0.json").read_text())
    assert (refusals["mode"], refusals["committed_rows"], refusals["refused_rows"]) == ("failfast", 0, 2)
    done = publish(tmp_path, 0, tasks, mode="permissive")
    assert (done.rows, done.refused_rows, done.refused_groups) == (1, 2, 2)
    assert done.report == tmp_path / "offsetlog-refused-q-0.json"
    refusals = json.loads(done.report.read_text())
    assert (refusals["committed_rows"], refusals["refused_rows"], refusals["left_out_rows"]) == (1, 2, 1)
    assert refusals["groups"][0] == {
        "group": "bad",
        "refused_rows": 1,
        "left_out_rows": 1,
        "first": {"group": "bad", "topic": "t", "partition": 1, "offset": -5, "reason": "the offset is negative"},
    }
    assert positions(tmp_path) == {("good", "t", 0): 6}
    with offsetlog.open(tmp_path) as store:  # the report beside the logs disturbs nobody
        assert store.verify() == []
        assert store.problems() == []
