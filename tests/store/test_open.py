from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import uuid
import warnings
from pathlib import Path

import pytest

import offsetlog
from offsetlog import StoreConfig, TopicPartition, errors
from offsetlog._native.codec import partition_for
from offsetlog.directory import checkpoint_record
from offsetlog.lifecycle import refresh

from .conftest import tree

REAL = Path(__file__).parents[1] / "data/kafka-4.3.0/groups/log"


def run_python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(call, capture_output=True, text=True, timeout=60)


def test_a_closed_store_is_opened_again(path):
    with offsetlog.open(path, partitions=7, durability="disk") as store:
        for number in range(100):
            store.commit_one(f"g{number}", "t", number, number, "m", durability="process")
        digest = store.digest(physical=True)
        assert store.partitions == 7
        assert not store.closed
    assert store.closed
    with offsetlog.open(path) as store:
        assert store.partitions == 7
        assert store.digest(physical=True) == digest
        assert store.verify() == []
        assert not any(found["recovered"] for found in store.recoveries().values())


def test_a_new_store_has_four_partitions_and_an_old_one_keeps_its_number(path):
    with offsetlog.open(path / "new") as store:
        assert store.partitions == 4
    offsetlog.open(path / "old", partitions=50).close()
    with offsetlog.open(path / "old") as store:
        assert store.partitions == 50


def test_directories_appear_when_they_are_needed(path):
    with offsetlog.open(path, partitions=50) as store:
        assert not list(path.glob("__consumer_offsets-*"))
        assert store.fetch("g") == {}
        assert store.fetch_one("g", "t", 0) is None
        assert store.groups() == []
        assert not list(path.glob("__consumer_offsets-*"))
        store.commit_one("testGroup", "t", 0, 1)
        assert [folder.name for folder in path.glob("__consumer_offsets-*")] == ["__consumer_offsets-49"]
    assert sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) < 4096


def test_a_store_that_was_never_written_to_is_opened_again(path):
    offsetlog.open(path, partitions=3).close()
    with offsetlog.open(path) as store:
        assert store.partitions == 3
        store.commit_one("g", "t", 0, 1)


def test_missing_parents_are_made(tmp_path):
    with offsetlog.open(tmp_path / "a" / "b" / "c") as store:
        store.commit_one("g", "t", 0, 1)


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("wait", [False, True])
def test_a_file_is_no_log_directory(tmp_path, read_only, wait):
    file = tmp_path / "file"
    file.write_bytes(b"kept")
    with pytest.raises(errors.InvalidArgumentError, match="this is a file, not a log directory"):
        offsetlog.open(file, read_only=read_only, wait=wait)
    assert file.read_bytes() == b"kept"


def test_trap_38_another_number_of_partitions_is_refused(path):
    with offsetlog.open(path, partitions=50) as store:
        store.commit_one("g", "t", 0, 1)
    before = tree(path)
    for read_only in (False, True):
        with pytest.raises(errors.PartitionCountError) as caught:
            offsetlog.open(path, partitions=60, read_only=read_only)
        assert (caught.value.asked, caught.value.actual) == (60, 50)
    assert tree(path) == before
    offsetlog.open(path, partitions=50).close()


@pytest.mark.parametrize("partitions", [0, -1, 10**9])
def test_a_number_of_partitions_that_cannot_be(path, partitions):
    with pytest.raises(errors.ConfigError):
        offsetlog.open(path, partitions=partitions)
    assert not path.exists()


@pytest.mark.parametrize("partitions", ["50", 5.0, True])
def test_partitions_of_a_wrong_type(path, partitions):
    with pytest.raises(errors.ArgumentTypeError):
        offsetlog.open(path, partitions=partitions)


@pytest.mark.parametrize("durability", ["replicas", "none", 1])
def test_a_wrong_durability_leaves_no_lock(path, durability):
    with pytest.raises(errors.ConfigError):
        offsetlog.open(path, durability=durability)
    offsetlog.open(path).close()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"durability": "x"}, '"process" or "disk"'),
        ({"durability": None}, 'durability must be "process" or "disk", not None'),
        ({"config": {}}, "StoreConfig"),
        ({"topic_id": "text"}, "UUID"),
        ({"topic_id": b"0123456789abcdef"}, "UUID"),
        ({"cluster_id": 5}, "cluster_id must be a str"),
        ({"cluster_id": ""}, "cluster_id"),
        ({"cluster_id": "a\nb"}, "cluster_id"),
        ({"cluster_id": "c", "node_id": "1"}, "node_id must be an int"),
        ({"cluster_id": "c", "node_id": -1}, "node_id must be from 0"),
        ({"partitions": "5"}, "partitions must be an int"),
    ],
)
def test_wrong_arguments_leave_nothing(path, wrong, says):
    for read_only in (False, True):
        with pytest.raises(errors.InvalidArgumentError, match=says):
            offsetlog.open(path, read_only=read_only, **wrong)
    assert not path.exists()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [(b"x", "fsdecode"), (5, "not int"), (None, "not None"), ("", "must not be empty or contain a NUL")],
)
def test_paths_of_a_wrong_type(wrong, says):
    with pytest.raises(errors.ArgumentTypeError, match=says):
        offsetlog.open(wrong)


def test_an_id_that_is_refused_does_not_take_the_marker_away(path):
    offsetlog.open(path, topic_id=uuid.uuid4()).close()
    with pytest.raises(errors.ConfigError):
        offsetlog.open(path, topic_id=uuid.uuid4())
    assert (path / ".kafka_cleanshutdown").exists()


def test_the_lock_is_held_against_this_process(path):
    with offsetlog.open(path) as store:
        store.commit_one("g", "t", 0, 1)
        with pytest.raises(errors.LockedError):
            offsetlog.open(path)
        store.commit_one("g", "t", 0, 2)
    offsetlog.open(path).close()


def test_who_holds_the_lock_is_reported_where_the_system_tells(path):
    offsetlog.open(path).close()
    code = """
        import fcntl, sys
        file = open(sys.argv[1], "r+b")
        fcntl.lockf(file, fcntl.LOCK_EX)
        print("locked", flush=True)
        sys.stdin.read()
    """
    call = [sys.executable, "-c", textwrap.dedent(code), str(path / ".lock")]
    advice = "to read it nevertheless, open it with read_only=True"
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout.readline() == "locked\n"
        with pytest.raises(errors.LockedError, match=rf"by process {broker.pid}; {advice}"):
            offsetlog.open(path)
    with (
        offsetlog.open(path),
        pytest.raises(errors.LockedError, match=r"by another store of this process; .*; to write, use that store"),
    ):
        offsetlog.open(path)


def test_the_lock_is_held_against_other_processes(path):
    code = """
        import sys, offsetlog
        try:
            offsetlog.open(sys.argv[1]).close()
        except offsetlog.errors.LockedError:
            print("locked")
    """
    with offsetlog.open(path):
        assert run_python(code, path).stdout == "locked\n"
    assert run_python(code, path).stdout == ""


def without_extension(files: dict[str, bytes]) -> dict[str, bytes]:
    """Without the zeros by which a writer's background extends its segments ahead."""
    return {name: data.rstrip(b"\0") if name.endswith(".log") else data for name, data in files.items()}


def test_a_read_only_store_reads_what_a_writer_holds_and_changes_nothing(path):
    # The writer's own flush by time would change the sidecar meanwhile.
    config = StoreConfig(flush_interval_ms=None)
    with offsetlog.open(path, durability="process", config=config) as writer:
        for number in range(50):
            writer.commit_one(f"g{number}", "t", 0, number)
        before = without_extension(tree(path))
        with offsetlog.open(path, read_only=True) as reader:
            assert reader.read_only
            assert reader.digest(physical=True) == writer.digest(physical=True)
            assert reader.groups() == writer.groups()
            assert reader.to_arrow().num_rows == 50
            assert reader.verify() == []
            digest = reader.digest()
            for refused in (
                lambda: reader.commit_one("g0", "t", 0, 1),
                lambda: reader.commit("g0", {TopicPartition("t", 0): 1}),
                lambda: reader.commit_one("no such directory", "t", 0, 1),
                lambda: reader.delete("g0"),
                lambda: reader.delete("g0", [TopicPartition("t", 0)]),
                lambda: reader.transaction("g0", 1),
                lambda: reader.abort_transaction(1),
            ):
                with pytest.raises(errors.ReadOnlyError):
                    refused()
            assert reader.digest() == digest
        assert without_extension(tree(path)) == before
        writer.commit_one("g0", "t", 0, 7)
        with offsetlog.open(path, read_only=True) as reader:
            assert reader.fetch_one("g0", "t", 0).offset == 7


def test_a_read_only_store_is_refreshed(path):
    with offsetlog.open(path, partitions=5, durability="process") as writer:
        writer.commit_one("g", "t", 0, 1)
        with offsetlog.open(path, read_only=True) as reader:
            fetch_one = reader.fetch_one
            for number in range(2, 30):
                writer.commit_one("g", "t", 0, number)
                writer.commit_one(f"h{number}", "t", 0, number)
                assert fetch_one("g", "t", 0).offset == number - 1
                reader.refresh()
                assert fetch_one("g", "t", 0).offset == number
                assert reader.digest(physical=True) == writer.digest(physical=True)
            writer.refresh()
            shutil.move(path, path.with_name("away"))
            with pytest.raises(errors.MissingFileError):
                reader.refresh()
            assert fetch_one("g", "t", 0).offset == 29
            shutil.move(path.with_name("away"), path)
        with pytest.raises(errors.ClosedError):
            reader.refresh()


def test_of_two_refreshes_the_later_one_wins(path, monkeypatch):
    with offsetlog.open(path, durability="process") as writer:
        writer.commit_one("g", "t", 0, 1)
        with offsetlog.open(path, read_only=True) as reader:
            has_read, may_go_on = threading.Event(), threading.Event()
            read = refresh.open_read_only

            def read_slowly(*given):
                opened = read(*given)
                if not has_read.is_set():
                    has_read.set()
                    may_go_on.wait(30)
                return opened

            monkeypatch.setattr(refresh, "open_read_only", read_slowly)
            first, second = (threading.Thread(target=reader.refresh) for _ in range(2))
            first.start()
            assert has_read.wait(30)
            writer.commit_one("g", "t", 0, 2)
            second.start()
            second.join(0.2)
            may_go_on.set()
            first.join()
            second.join()
            assert reader.fetch_one("g", "t", 0).offset == 2


def test_readers_see_all_that_was_or_all_that_is(path):
    groups = [f"g{number}" for number in range(20)]
    failures = []
    with offsetlog.open(path, partitions=7, durability="process") as writer:
        for group in groups:
            writer.commit_one(group, "t", 0, 0)
        with offsetlog.open(path, read_only=True) as reader:
            end = threading.Event()

            def read():
                while not end.is_set():
                    try:
                        seen = set(reader.fetch_arrow(groups)["offset"].to_pylist())
                        if len(seen) != 1 or reader.groups() != sorted(groups):
                            failures.append(seen)
                        reader.fetch_one(groups[0], "t", 0)
                    except Exception as failure:
                        failures.append(failure)

            threads = [threading.Thread(target=read) for _ in range(2)]
            for thread in threads:
                thread.start()
            for number in range(1, 40):
                for group in groups:
                    writer.commit_one(group, "t", 0, number)
                reader.refresh()
            end.set()
            for thread in threads:
                thread.join()
    assert failures == []


def test_reading_what_is_not_there(path):
    with pytest.raises(errors.MissingFileError):
        offsetlog.open(path, read_only=True)
    path.mkdir()
    with pytest.raises(errors.MissingFileError):
        offsetlog.open(path, read_only=True)
    assert list(path.iterdir()) == []


def test_everything_of_a_closed_store_is_refused(path):
    store = offsetlog.open(path)
    store.commit_one("g", "t", 0, 1)
    key = TopicPartition("t", 0)
    ticket = store.commit_async("g", {key: 2})
    late = store.transaction("g", 5)
    commit_one, fetch_one = store.commit_one, store.fetch_one
    store.close()
    store.close()
    for refused in (
        lambda: store.commit("g", {key: 1}),
        lambda: store.commit_async("g", {key: 1}),
        lambda: commit_one("g", "t", 0, 1),
        lambda: commit_one("another", "t", 0, 1),
        lambda: fetch_one("g", "t", 0),
        lambda: store.fetch("g"),
        lambda: store.fetch("g", [key]),
        lambda: store.fetch_arrow(["g"]),
        lambda: store.delete("g"),
        lambda: store.delete("g", [key]),
        store.groups,
        store.digest,
        store.memory,
        store.verify,
        store.flush,
        store.to_arrow,
        lambda: store.partitions,
        lambda: store.transaction("g", 1),
        lambda: store.abort_transaction(1),
        lambda: late.commit({key: 1}),
        store.__enter__,
    ):
        with pytest.raises(errors.ClosedError):
            refused()
    assert ticket.done()
    assert ticket.result() == ticket.position
    assert "closed" in repr(store)


def test_a_forgotten_store_warns_and_closes(path):
    store = offsetlog.open(path)
    store.commit_one("g", "t", 0, 1)
    kept = [store]
    del store
    with pytest.warns(ResourceWarning, match="was not closed"):
        kept.clear()
    with offsetlog.open(path) as store:
        assert store.fetch_one("g", "t", 0).offset == 1
        assert not any(found["recovered"] for found in store.recoveries().values())


def test_a_method_of_a_store_that_nobody_kept(path):
    with pytest.warns(ResourceWarning, match="was not closed"):
        assert offsetlog.open(path).commit_one("g", "t", 0, 1) == 0
    with pytest.warns(ResourceWarning, match="was not closed"):
        assert offsetlog.open(path).fetch_one("g", "t", 0).offset == 1
    with pytest.warns(ResourceWarning, match="was not closed"):
        offsetlog.open(path).commit("g", {TopicPartition("t", 0): 2})
    with pytest.warns(ResourceWarning, match="was not closed"):
        ticket = offsetlog.open(path).commit_async("g", {TopicPartition("t", 0): 3})
    assert ticket.result() == ticket.position
    commit_one = offsetlog.open(path).commit_one
    for number in range(10):
        commit_one("g", "t", 0, number, durability="process")
    with pytest.raises(errors.LockedError):
        offsetlog.open(path)
    with pytest.warns(ResourceWarning, match="was not closed"):
        del commit_one
    with offsetlog.open(path) as store:
        assert store.fetch_one("g", "t", 0).offset == 9
        assert not any(found["recovered"] for found in store.recoveries().values())


def test_a_method_does_not_keep_a_store_open_that_was_closed(path):
    with offsetlog.open(path) as store:
        fetch_one = store.fetch_one
    del store
    with pytest.raises(errors.ClosedError):
        fetch_one("g", "t", 0)
    offsetlog.open(path).close()


def test_a_store_that_the_interpreter_ends_with(path):
    code = """
        import sys, warnings, offsetlog
        warnings.simplefilter("default")
        store = offsetlog.open(sys.argv[1])
        commit_one = store.commit_one
        commit_one("g", "t", 0, 1)
    """
    assert "was not closed" in run_python(code, path).stderr
    with offsetlog.open(path) as store:
        assert store.fetch_one("g", "t", 0).offset == 1
        assert not any(found["recovered"] for found in store.recoveries().values())


def test_a_closed_store_does_not_warn(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = offsetlog.open(path)
        store.close()
        del store
        gc.collect()


def test_a_forked_child_cannot_damage_the_store(path):
    store = offsetlog.open(path, durability="process")
    store.commit_one("g", "t", 0, 1)
    transaction = store.transaction("g", 5)
    transaction.commit({TopicPartition("t", 1): 1})
    child = os.fork()
    if child == 0:
        refused = 0
        for call in (
            lambda: store.commit_one("g", "t", 0, 99),
            lambda: store.fetch_one("g", "t", 0),
            lambda: store.commit("new group", {("t", 0): 1}),
            lambda: transaction.commit({("t", 1): 2}),
            store.flush,
            store.groups,
        ):
            try:
                call()
            except errors.ClosedError:
                refused += 1
        store.close()
        del store, transaction
        gc.collect()
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 6
    store.commit_one("g", "t", 0, 2)
    transaction.abort()
    with pytest.raises(errors.LockedError):
        offsetlog.open(path)
    assert store.verify() == []
    store.close()
    with offsetlog.open(path) as store:
        assert store.fetch_one("g", "t", 0).offset == 2


def test_the_lock_ends_with_the_parent_though_a_child_lives_on(path):
    store = offsetlog.open(path)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    store.close()
    offsetlog.open(path).close()
    os.close(write)
    os.waitpid(child, 0)
    os.close(read)


def test_what_survives_a_kill(path):
    code = """
        import os, signal, sys, offsetlog
        store = offsetlog.open(sys.argv[1], durability="process")
        for number in range(1000):
            store.commit_one("g", "t", number % 10, number)
        print(store.digest(physical=True), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    killed = run_python(code, path)
    assert not (path / ".kafka_cleanshutdown").exists()
    with offsetlog.open(path) as store:
        assert f"{store.digest(physical=True)}\n" == killed.stdout
        assert store.verify() == []
    assert (path / ".kafka_cleanshutdown").exists()


def test_the_marker_of_a_clean_stop_is_away_while_the_store_is_open(path):
    with offsetlog.open(path) as store:
        store.commit_one("g", "t", 0, 1)
    marker = path / ".kafka_cleanshutdown"
    assert marker.read_bytes() == b'{"version":0,"brokerEpoch":-1}'
    with offsetlog.open(path):
        assert not marker.exists()
    assert marker.exists()
    marker.unlink()
    (path / "other-0").mkdir()
    # Somebody has to recover the other topic's log, so the marker must not say that all is well.
    offsetlog.open(path).close()
    assert not marker.exists()


def test_checkpoints_of_a_clean_stop(path):
    foreign = "0\n1\nother 3 77\n"
    path.mkdir()
    (path / "recovery-point-offset-checkpoint").write_text(foreign)
    with offsetlog.open(path, partitions=1) as store:
        for number in range(5):
            store.commit_one("g", "t", 0, number)
    assert sorted((path / "recovery-point-offset-checkpoint").read_text().splitlines()) == [
        "0", "2", "__consumer_offsets 0 5", "other 3 77",
    ]  # fmt: skip
    assert (path / "replication-offset-checkpoint").read_text() == "0\n1\n__consumer_offsets 0 5\n"


def test_the_ids_of_a_cluster(path):
    topic_id = uuid.UUID("01020304-0506-4708-890a-0b0c0d0e0f10")
    with offsetlog.open(path, partitions=2, topic_id=topic_id, cluster_id="5L6g3nShT-eMCtK--X86sw", node_id=3) as store:
        store.commit_one("g", "t", 0, 1)
        store.commit_one("h", "t", 0, 1)
    for metadata in path.glob("__consumer_offsets-*/partition.metadata"):
        assert metadata.read_bytes() == b"version: 0\ntopic_id: AQIDBAUGRwiJCgsMDQ4PEA"
    lines = (path / "meta.properties").read_text().splitlines()
    assert {"version=1", "node.id=3", "cluster.id=5L6g3nShT-eMCtK--X86sw"} < set(lines)
    offsetlog.open(path, cluster_id="5L6g3nShT-eMCtK--X86sw").close()
    with pytest.raises(errors.ConfigError):
        offsetlog.open(path, cluster_id="another")
    with pytest.raises(errors.ConfigError):
        offsetlog.open(path, topic_id=uuid.uuid4())
    offsetlog.open(path).close()


def test_new_directories_take_the_id_of_their_siblings(path):
    with offsetlog.open(path, partitions=50, durability="process") as store:
        for number in range(20):
            store.commit_one(f"g{number}", "t", 0, 1)
    (path / "offsetlog.properties").unlink()
    (path / checkpoint_record.NAME).unlink()
    with offsetlog.open(path, partitions=50, durability="process") as store:
        for number in range(60):
            store.commit_one(f"g{number}", "t", 0, 1)
    ids = {file.read_bytes() for file in path.glob("*/partition.metadata")}
    assert len(ids) == 1


@pytest.mark.parametrize("known_from", ["properties", "sibling", "record", "nowhere", "nowhere but zeros"])
def test_a_damaged_topic_id_is_that_of_the_topic(path, known_from):
    with offsetlog.open(path, partitions=2) as store:
        for number in range(20):
            store.commit_one(f"g{number}", "t", 0, number)
    folder = path / "__consumer_offsets-0"
    metadata = folder / "partition.metadata"
    right = metadata.read_bytes()
    metadata.write_bytes(b"version: x\n")
    (folder / "offsetlog.manifest").write_bytes(b"damaged")
    if known_from != "properties":
        (path / "offsetlog.properties").unlink()
    other = path / "__consumer_offsets-1" / "partition.metadata"
    if known_from == "record":
        other.unlink()
    else:
        (path / checkpoint_record.NAME).unlink()
    if known_from.startswith("nowhere"):
        other.unlink()
        if known_from.endswith("zeros"):
            other.write_bytes(b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA")
        (path / "__consumer_offsets-1" / "offsetlog.manifest").unlink()
        with pytest.raises(errors.CorruptionError, match=r"partition\.metadata"):
            offsetlog.open(path, partitions=2)
        assert metadata.read_bytes() == b"version: x\n"
        return
    with pytest.warns(errors.CorruptionWarning), offsetlog.open(path, partitions=2) as store:
        assert [store.fetch_one(f"g{number}", "t", 0).offset for number in range(20)] == list(range(20))
    assert metadata.read_bytes() == right
    assert (folder / "partition.metadata.damaged").read_bytes() == b"version: x\n"


@pytest.mark.parametrize(
    "content",
    [b"", b"format=1\n", b"format=1\npartitions=x\n", b"format=1\npartitions=0\n", b"format=2\npartitions=5\n"],
)
def test_a_properties_file_that_cannot_be_understood(path, content):
    with offsetlog.open(path) as store:
        store.commit_one("g", "t", 0, 1)
    (path / "offsetlog.properties").write_bytes(content)
    (path / checkpoint_record.NAME).unlink()
    before = tree(path)
    with pytest.raises(errors.CorruptionError):
        offsetlog.open(path)
    assert tree(path) == before


def test_settings_are_checked_before_anything_is_made(path):
    with pytest.raises(errors.ConfigError):
        offsetlog.open(path, config=StoreConfig(segment_bytes=1))
    assert not path.exists()


@pytest.fixture
def damaged(path):
    with offsetlog.open(path, partitions=4) as store:
        for number in range(40):
            store.commit_one(f"g{number}", "t", 0, number)
    segment = path / "__consumer_offsets-2" / f"{0:020}.log"
    content = bytearray(segment.read_bytes())
    content[70] ^= 1
    segment.write_bytes(content)
    return segment


@pytest.mark.parametrize("read_only", [False, True])
def test_damage_is_reported_when_the_store_is_opened(path, damaged, read_only):
    with pytest.warns(errors.CorruptionWarning) as warned:
        store = offsetlog.open(path, read_only=read_only)
    assert len(warned) == 1
    assert warned[0].filename == __file__
    text = str(warned[0].message)
    for part in ("1 of 4 partitions", str(damaged), "byte 0", "store.problems()", "offsetlog verify"):
        assert part in text
    assert store.problems()[0].message in text
    assert "1 of 4 partitions damaged" in repr(store)
    store.close()


def test_a_commit_to_a_damaged_partition_says_why_it_is_refused(path, damaged):
    groups = {partition_for(f"g{number}", 4): f"g{number}" for number in range(40)}
    with pytest.warns(errors.CorruptionWarning):
        store = offsetlog.open(path)
    with store:
        store.commit_one(groups[1], "t", 0, 100)
        for refused in (
            lambda: store.commit_one(groups[2], "t", 0, 100),
            lambda: store.commit(groups[2], {TopicPartition("t", 0): 100}),
        ):
            with pytest.raises(errors.ReadOnlyError) as caught:
                refused()
            assert caught.value.path == str(damaged.parent)
            assert store.problems()[0].message in str(caught.value)
            assert f"{0:020}.log at byte 0" in str(caught.value)


def test_a_warning_that_is_an_error_leaves_nothing_open(path, damaged):
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(errors.CorruptionWarning):
                offsetlog.open(path)


def test_a_brokers_directory_is_taken_over(tmp_path):
    path = tmp_path / "kafka"
    shutil.copytree(REAL, path)
    before = tree(path)
    with pytest.raises(errors.PartitionCountError):
        offsetlog.open(path)
    with offsetlog.open(path, read_only=True) as store:
        count = store.partitions
        groups = store.groups()
        digest = store.digest(physical=True)
        assert store.verify() == []
    assert groups
    for wrong in (count + 1, 50):
        with pytest.raises(errors.PartitionCountError):
            offsetlog.open(path, partitions=wrong)
    assert {name: content for name, content in tree(path).items() if name != ".lock"} == {
        name: content for name, content in before.items() if name != ".lock"
    }
    with offsetlog.open(path, partitions=count) as store:
        assert store.digest(physical=True) == digest
        assert store.verify() == []
        store.commit_one(groups[0], "new", 0, 1)
        after = store.digest(physical=True)
    with offsetlog.open(path) as store:
        assert store.partitions == count
        assert store.digest(physical=True) == after


@pytest.mark.parametrize("name", ["read_only", "wait"])
@pytest.mark.parametrize("value", ["no", 0, None])
def test_a_flag_is_true_or_false_and_nothing_else(path, name, value):
    with pytest.raises(errors.ArgumentTypeError, match=f"{name} must be True or False, not "):
        offsetlog.open(path, **{name: value})
    assert not path.exists()
