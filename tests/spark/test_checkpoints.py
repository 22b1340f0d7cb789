"""Checkpoint directories: those that Spark wrote, and those that nobody should have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs as arrow_fs

import offsetlog
from offsetlog import TopicPartition, errors
from offsetlog.spark import checkpoints, import_checkpoint, read_checkpoint, source_topic

from .shaped_source import ShapedSource

CONF = '{"batchWatermarkMs":5,"batchTimestampMs":1795305274224,"conf":{"spark.sql.shuffle.partitions":"1"}}'


@pytest.fixture
def store(tmp_path):
    with offsetlog.open(tmp_path / "data", partitions=2, durability="process") as opened:
        yield opened


def written(path: Path, offsets: dict[int, str], commits: list[int], *, query_id: str | None = "7-8") -> Path:
    """A checkpoint directory by hand; offsets is batch -> the lines of the sources."""
    (path / "offsets").mkdir(parents=True)
    (path / "commits").mkdir()
    for batch, lines in offsets.items():
        (path / "offsets" / str(batch)).write_text(f"v1\n{CONF}\n{lines}")
    for batch in commits:
        (path / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    if query_id is not None:
        (path / "metadata").write_text(json.dumps({"id": query_id}))
    return path


# ------------------------------------------------------------------------------------------------------ Spark's own


def run_once(frame, checkpoint: Path) -> str:
    """Runs a query over what is there; returns its id."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return query.id


@pytest.fixture
def inputs(tmp_path) -> Path:
    directory = tmp_path / "in"
    directory.mkdir()
    (directory / "1.txt").write_text("a\n")
    return directory


def test_checkpoints_of_spark_are_read_and_imported(spark, inputs, tmp_path, store):
    spark.dataSource.register(ShapedSource)
    files = spark.readStream.format("text").load(str(inputs))
    both = files.union(spark.readStream.format("shaped").load())
    query_id = run_once(both, tmp_path / "ck")
    (inputs / "2.txt").write_text("b\n")
    assert run_once(both, tmp_path / "ck") == query_id

    found = read_checkpoint(tmp_path / "ck")
    assert (found.query_id, found.planned) == (query_id, None)
    assert (found.committed.batch, found.committed.version, len(found.committed.sources)) == (1, 1, 2)
    assert found.committed.timestamp > 1_700_000_000_000
    first, second = found.committed.sources
    assert (first.name, first.read.shape, first.read.positions) == ("0", "files", {TopicPartition("source-0", 0): 2})
    assert second.read.positions == {TopicPartition("orders", 0): 7, TopicPartition("orders", 1): 9}

    topic = source_topic(f"FileStreamSource[file:{inputs}]")
    report = import_checkpoint(store, "lake", tmp_path / "ck", topics={0: topic})
    assert (report.batch, report.planned, report.left_out) == (1, None, {})
    committed = store.fetch("lake")
    assert {key: value.offset for key, value in committed.items()} == {
        TopicPartition(topic, 0): 2,
        TopicPartition("orders", 0): 7,
        TopicPartition("orders", 1): 9,
    }
    metadata = committed[TopicPartition("orders", 0)].metadata
    assert json.loads(metadata) == {"id": query_id, "batch": 1}


def test_a_batch_that_was_begun_is_reported_and_not_imported(spark, inputs, tmp_path, store):
    files = spark.readStream.format("text").load(str(inputs))
    run_once(files, tmp_path / "ck")
    (inputs / "2.txt").write_text("b\n")
    run_once(files, tmp_path / "ck")
    # As after a crash between the batch and its commit.
    (tmp_path / "ck" / "commits" / "1").unlink()
    found = read_checkpoint(str(tmp_path / "ck"))
    assert (found.committed.batch, found.planned.batch) == (0, 1)
    report = import_checkpoint(store, "g", tmp_path / "ck")
    assert (report.batch, report.planned) == (0, 1)
    assert store.fetch_one("g", "source-0", 0).offset == 1


def test_sources_with_names_are_read(spark, inputs, tmp_path, store):
    """Version 2 of the offsets: what Spark 4.2 writes where sources may be named."""
    version = tuple(int(part) for part in spark.version.split(".")[:2])
    if version < (4, 2):
        pytest.skip("sources have names from Spark 4.2 on")
    spark.dataSource.register(ShapedSource)
    setting = {
        "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
        "spark.sql.streaming.offsetLog.formatVersion": "2",
    }
    for key, value in setting.items():
        spark.conf.set(key, value)
    try:
        files = spark.readStream.format("text").name("incoming").load(str(inputs))
        both = files.union(spark.readStream.format("shaped").name("orders_in").load())
        run_once(both, tmp_path / "ck")
    finally:
        for key in setting:
            spark.conf.unset(key)
    found = read_checkpoint(tmp_path / "ck").committed
    assert found.version == 2
    sources = {source.name: source.read.positions for source in found.sources}
    assert sources == {
        "incoming": {TopicPartition("source-incoming", 0): 1},
        "orders_in": {TopicPartition("orders", 0): 7, TopicPartition("orders", 1): 9},
    }
    import_checkpoint(store, "g", tmp_path / "ck", topics={"incoming": "files"})
    assert store.fetch_one("g", "files", 0).offset == 1


# ------------------------------------------------------------------------------------------------------ by hand


def test_what_else_lies_there_is_not_read(tmp_path):
    path = written(tmp_path / "ck", {8: '{"orders":{"0":8}}', 9: '{"orders":{"0":9}}'}, [8, 9])
    for name in ("offsets/.10.crc", "offsets/10.tmp", "commits/.9.crc", "commits/10.tmp", "commits/x"):
        (path / name).write_text("?")
    (path / "commits" / "11").mkdir()
    assert read_checkpoint(path).committed.batch == 9


def test_a_source_without_an_offset_has_none(tmp_path, store):
    path = written(tmp_path / "ck", {0: '-\n{"orders":{"0":8}}\n{"orders":{"0":6,"1":2}}\n{"index":-1}\n'}, [0])
    first, *_, last = read_checkpoint(path).committed.sources
    assert (first.offset, first.read.shape, last.read.shape) == (None, "nothing", "unknown")
    report = import_checkpoint(store, "g", path)
    assert {key.partition: value.offset for key, value in report.committed.items()} == {0: 6, 1: 2}
    assert set(report.left_out) == {"0", "3"}


@pytest.mark.parametrize("made", [str, lambda path: f"file://{path}", lambda path: f"file:{path}"])
def test_a_path_may_be_a_uri(tmp_path, made):
    path = written(tmp_path / "c k", {0: "5"}, [0])
    assert read_checkpoint(made(path)).committed.sources[0].offset == "5"


def test_a_file_system_may_be_given(tmp_path):
    written(tmp_path / "ck", {0: "5"}, [0])
    inside = arrow_fs.SubTreeFileSystem(str(tmp_path), arrow_fs.LocalFileSystem())
    assert read_checkpoint("ck", filesystem=inside).committed.batch == 0


def test_version_2_leaves_out_a_source_without_an_offset(tmp_path, store):
    path = written(tmp_path / "ck", {0: ""}, [0])
    (path / "offsets" / "0").write_text(f'v2\n{CONF}\n1:{{"orders": {{"0": 7}}}}')
    [source] = read_checkpoint(path).committed.sources
    assert (source.name, source.read.positions) == ("1", {TopicPartition("orders", 0): 7})
    (path / "offsets" / "0").write_text(f"v2\n{CONF}")
    assert read_checkpoint(path).committed.sources == ()
    with pytest.raises(errors.StateError, match="no source has a position"):
        import_checkpoint(store, "g", path)


def test_a_query_that_committed_nothing(tmp_path, store):
    path = written(tmp_path / "ck", {0: "5"}, [], query_id=None)
    found = read_checkpoint(path)
    assert (found.committed, found.planned.batch, found.query_id) == (None, 0, None)
    with pytest.raises(errors.StateError, match="no batch"):
        import_checkpoint(store, "g", path)
    assert store.groups() == []


def test_a_source_that_is_not_there_is_refused(tmp_path, store):
    path = written(tmp_path / "ck", {0: "5"}, [0])
    with pytest.raises(errors.InvalidArgumentError, match="does not have"):
        import_checkpoint(store, "g", path, topics={1: "t"})
    with pytest.raises(errors.StateError, match="no source has a position"):
        import_checkpoint({"bootstrap.servers": "127.0.0.1:1"}, "g", path)


def broken(path: Path, name: str, content: bytes | None) -> Path:
    written(path, {0: '{"orders":{"0":8}}'}, [0])
    if content is None:
        (path / name).unlink()
    else:
        (path / name).write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("name", "content", "kind", "says"),
    [
        ("offsets/0", None, errors.MissingFileError, "no such file"),
        ("offsets/0", b"", errors.TornTailError, "empty"),
        ("offsets/0", b"v1", errors.TornTailError, "first source"),
        ("offsets/0", b"v1\n{}\n", errors.TornTailError, "first source"),
        ("offsets/0", b"v3\n{}\n5", errors.UnsupportedVersionError, "version 3"),
        ("offsets/0", b"v99999999999999999999\n{}\n5", errors.CorruptionError, "is not a version"),
        ("offsets/0", b"v0\n{}\n5", errors.CorruptionError, "is not a version"),
        ("offsets/0", b"PAR1\n{}\n5", errors.CorruptionError, "is not a version"),
        ("offsets/0", b"\xff\xfe", errors.CorruptionError, "not UTF-8"),
        ("offsets/0", b"v1\n[]\n5", errors.CorruptionError, "must be a JSON object"),
        ("offsets/0", b"v1\n{" + b"[" * 50_000 + b"\n5", errors.CorruptionError, "not JSON"),
        ("offsets/0", b'v1\n{}\n{"orders":{"0":8', errors.CorruptionError, "not JSON"),
        ("offsets/0", b'v1\n{}\n{"orders":{"0":-9999999999999999999999}}', errors.CorruptionError, "is not an offset"),
        ("offsets/0", b"v1\n{}\n" + b"1\n" * 20_000, errors.LimitError, "20000 sources"),
        ("offsets/0", b"v2\n{}\n5", errors.CorruptionError, "name and offset"),
        ("offsets/0", b"v2\n{}\na:5\na:6", errors.CorruptionError, "two sources have the same name"),
        ("commits/0", b"", errors.TornTailError, "empty"),
        ("commits/0", b"v1", errors.TornTailError, "after its version"),
        ("commits/0", b"{}", errors.CorruptionError, "is not a version"),
        ("metadata", b"", errors.TornTailError, "empty"),
        ("metadata", b"{}", errors.CorruptionError, "the id of the query, must be a text"),
        ("metadata", b'{"id":7}', errors.CorruptionError, "the id of the query, must be a text"),
        ("metadata", json.dumps({"id": "7" * 500}).encode(), errors.CorruptionError, "must be a text of 1 to 200"),
    ],
)
def test_what_is_broken_is_named(tmp_path, store, name, content, kind, says):
    path = broken(tmp_path / "ck", name, content)
    with pytest.raises(kind, match=says) as caught:
        import_checkpoint(store, "g", path)
    assert caught.value.path == str(path / name)
    assert store.groups() == []


@settings(deadline=None)
@given(content=st.binary(max_size=200), version=st.sampled_from([b"", b"v1\n{}\n", b"v2\n{}\nsource:", b"v1\n"]))
def test_no_content_does_more_than_fail(tmp_path_factory, content, version):
    path = broken(tmp_path_factory.mktemp("fuzz") / "ck", "offsets/0", version + content)
    named = None
    try:
        assert read_checkpoint(path).committed.version in {1, 2}
    except errors.OffsetLogError as error:
        named = error.path
    assert named in {None, str(path / "offsets" / "0")}


def test_sizes_are_bounded(tmp_path, monkeypatch):
    path = written(tmp_path / "ck", {0: "5", 1: "6"}, [0, 1])
    monkeypatch.setattr(checkpoints, "FILES_MAX", 1)
    with pytest.raises(errors.LimitError, match="2 files"):
        read_checkpoint(path)
    monkeypatch.setattr(checkpoints, "FILES_MAX", 10)
    monkeypatch.setattr(checkpoints, "FILE_BYTES_MAX", 30)
    with pytest.raises(errors.LimitError, match="larger than the limit of 30 bytes") as caught:
        read_checkpoint(path)
    assert caught.value.path == str(path / "offsets" / "1")


def test_what_is_no_checkpoint_is_reported(tmp_path):
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "nothing"):
        with pytest.raises(errors.MissingFileError, match="not a Spark checkpoint"):
            read_checkpoint(path)
    with pytest.raises(errors.ConfigError, match="pyarrow cannot open it"):
        read_checkpoint("gopher://x/y")
    for path in ("", "a\0b", 7):
        with pytest.raises(errors.ArgumentTypeError):
            read_checkpoint(path)
