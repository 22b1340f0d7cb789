"""Logs in a real server of the S3 protocol: what they say is what the same directory says on a disk.

Without Java, Maven or the packages these tests are skipped, and with OFFSETLOG_REQUIRE_PACKAGES=1 they fail.
"""

from __future__ import annotations

import random
import shutil
import socket
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from depth import by_depth, first_seed

import offsetlog
from offsetlog import errors
from offsetlog.spark.scan.files import resolve
from offsetlog.spark.scan.options import VIEWS, parse
from offsetlog.spark.scan.stream import StreamReader
from offsetlog.spark.scan.uri_files import file_system_of
from offsetlog.spark.scan.views import full_schema
from offsetlog.spark.sink.writer import BatchWriter

from .missing_parts import FAULTS, OFF, SMALL, batch_ends, build, fill, segments_of
from .reading import Row, read_splits, rows_of, splits_of
from .s3_server import BUCKET, S3Server, s3_server, silent_server
from .sinks import batch_of, epoch_writer, positions

# The second tier: a server is started, and its packages may have to be fetched.
pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("log") / "data", "cleaned")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but what the test says: no keys of this machine, and no look for those of a virtual one."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=repr)


def without_place(failure: errors.OffsetLogError) -> tuple[type, int | None, Any, Any]:
    return type(failure), failure.log_partition, failure.lost_from, failure.lost_below


def caught_of(call: Callable[[], object]) -> errors.OffsetLogError | None:
    try:
        call()
    except errors.OffsetLogError as failure:
        return failure
    return None


# -------------------------------------------------------------------------------------------------------------- reading


def test_every_view_is_that_of_the_disk(server: S3Server, log: Path) -> None:
    uri = server.put(log, "whole")
    for view in VIEWS:
        local = in_order(rows_of(log, view=view))
        assert local
        assert in_order(rows_of(uri, view=view, **server.settings)) == local
        assert in_order(rows_of(uri, view=view, minPartitions=3, **server.settings)) == local


def test_ranges_of_a_log(server: S3Server, log: Path) -> None:
    uri, draw = server.put(log, "ranges"), random.Random(first_seed())
    end = 1 + max(row["log_offset"] for row in rows_of(log, view="records"))
    for _ in range(by_depth(gate=4, long=40)):
        first = draw.randrange(end)
        options = {
            "startingOffset": first,
            "endingOffset": draw.randrange(first, end + 10),
            "splitBytes": draw.choice([1, 3000, 64 << 20]),
        }
        found = in_order(rows_of(uri, view="records", **options, **server.settings))
        assert found == in_order(rows_of(log, view="records", **options)), options


def test_a_partition_and_a_segment_by_themselves(server: S3Server, log: Path) -> None:
    uri, segment = server.put(log, "parts"), segments_of(log)[-1]
    for inside in (segment.parent.name, f"{segment.parent.name}/{segment.name}"):
        found = rows_of(f"{uri}/{inside}", view="commits", **server.settings)
        assert in_order(found) == in_order(rows_of(f"{log}/{inside}", view="commits"))


def test_a_stream_follows_what_is_added(server: S3Server, log: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(log, tmp_path / "data"))
    uri = server.put(path, "stream")
    read = parse({"path": uri, "view": "records", **server.settings}, streaming=True)
    reader = StreamReader(read, full_schema(read))
    begun = reader.initialOffset()
    found = []
    for _ in range(2):
        end = reader.latestOffset(begun, None)
        found += [batch for each in reader.partitions(begun, end) for batch in reader.read(each)]
        begun = end
        with offsetlog.open(path, config=SMALL, maintenance=OFF) as store:
            fill(store, 5000, 50)
        server.put(path, "stream")
    end = reader.latestOffset(begun, None)
    found += [batch for each in reader.partitions(begun, end) for batch in reader.read(each)]
    assert in_order(pa.Table.from_batches(found).to_pylist()) == in_order(rows_of(path, view="records"))


# ---------------------------------------------------------------------------------------------------- missing, damaged


@pytest.mark.parametrize("kind", ["closed", "cleaned"])
def test_what_is_missing_is_missing_there_too(server: S3Server, kind: str, tmp_path: Path) -> None:
    whole = build(tmp_path / "whole", kind)
    for fault in FAULTS:
        path = Path(shutil.copytree(whole, tmp_path / fault.__name__))
        fault(path)
        uri = server.put(path, f"missing-{kind}")
        local = caught_of(lambda path=path: rows_of(path, view="offsets"))
        found = caught_of(lambda uri=uri: rows_of(uri, view="offsets", **server.settings))
        assert local is not None, fault.__name__
        assert found is not None, fault.__name__
        assert without_place(found) == without_place(local), fault.__name__
        rows = [
            rows_of(each, view="offsets", mode="permissive", **more)
            for each, more in ((path, {}), (uri, server.settings))
        ]
        for shown in rows:
            assert any(row["problem"] for row in shown), fault.__name__
        kept = [in_order([row for row in shown if row["problem"] is None]) for shown in rows]
        assert kept[0] == kept[1], fault.__name__


def test_damage_is_found_there_too(server: S3Server, log: Path, tmp_path: Path) -> None:
    draw = random.Random(first_seed())
    for number in range(by_depth(gate=3, long=30)):
        path = Path(shutil.copytree(log, tmp_path / f"data-{number}"))
        segment = draw.choice(segments_of(path)[:-1])
        content = bytearray(segment.read_bytes())
        content[draw.choice(batch_ends(segment)) - 3] ^= 0x20
        segment.write_bytes(content)
        uri = server.put(path, "damaged")
        for view in ("records", "offsets"):
            with pytest.raises(errors.CorruptionError) as caught:
                rows_of(uri, view=view, **server.settings)
            assert caught.value.path is not None
            assert f"{BUCKET}/damaged/{segment.parent.name}/{segment.name}" in str(caught.value)
            shown = rows_of(uri, view=view, mode="permissive", **server.settings)
            local = rows_of(path, view=view, mode="permissive")
            assert in_order([row for row in shown if not row["problem"]]) == in_order(
                [row for row in local if not row["problem"]]
            )
            assert sum(bool(row["problem"]) for row in shown) == sum(bool(row["problem"]) for row in local) > 0


# ---------------------------------------------------------------------------------------------------- a log that moves


@pytest.mark.parametrize("view", ["records", "offsets", "history"])
def test_objects_that_a_cleaner_replaced_meanwhile(server: S3Server, view: str, tmp_path: Path) -> None:
    path = build(tmp_path / "data", "closed")
    uri = server.put(path, f"moving-{view}")
    before = rows_of(path, view=view)
    splits = splits_of(uri, view=view, splitBytes=3000, **server.settings) if view == "records" else splits_of(
        uri, view=view, **server.settings
    )  # fmt: skip
    with offsetlog.open(path, config=SMALL, maintenance=OFF) as store:
        fill(store, 9000, 300)
        store.compact()
    server.put(path, f"moving-{view}")
    files, _ = resolve(uri, server.settings)
    found = [
        row for batch in read_splits(splits, uri, files, view=view, **server.settings) for row in batch.to_pylist()
    ]
    after = rows_of(path, view=view)
    if view == "records":
        # The records of the planned range that survived: every row was there, and nothing that survived is left out.
        key = [(row["log_partition"], row["log_offset"]) for row in before]
        survived = [row for row in after if (row["log_partition"], row["log_offset"]) in set(key)]
        names = ("log_partition", "log_offset", "kind", "group", "topic", "partition", "offset")
        assert in_order([{name: row[name] for name in names} for row in found]) == in_order(
            [{name: row[name] for name in names} for row in survived]
        )
    else:
        assert in_order(found) == in_order(after)


# -------------------------------------------------------------------------------------------- what cannot be reached


def check_says_what_to_set(failure: errors.OffsetLogError, server: S3Server) -> None:
    text = "".join(traceback.format_exception(failure))
    assert type(failure) is errors.StorageError
    assert f"{BUCKET}/whole" in str(failure)
    for name in ("fs.s3a.endpoint", "fs.s3a.access.key", "offsetlog.spark.register(spark)", "AWS_ACCESS_KEY_ID"):
        assert name in str(failure)
    for secret in (server.secret_key, "wrong-secret"):
        assert secret not in text


@pytest.mark.parametrize("wrong", [{"fs.s3a.secret.key": "wrong-secret"}, {"fs.s3a.access.key": "nobody"}])
def test_wrong_keys(server: S3Server, log: Path, wrong: dict[str, str]) -> None:
    uri = server.put(log, "whole")
    for view in ("records", "offsets"):
        with pytest.raises(errors.StorageError) as caught:
            rows_of(uri, view=view, **{**server.settings, **wrong})
        check_says_what_to_set(caught.value, server)


def test_no_keys(server: S3Server) -> None:
    settings = {name: value for name, value in server.settings.items() if not name.endswith(".key")}
    with pytest.raises(errors.StorageError) as caught:
        rows_of(f"s3a://{BUCKET}/whole", **settings)
    check_says_what_to_set(caught.value, server)


def test_keys_of_the_environment(server: S3Server, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = server.put(log, "environment")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret_key)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}")
    assert in_order(rows_of(uri)) == in_order(rows_of(log))


def test_nobody_listens(server: S3Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(errors.StorageError) as caught:
        rows_of(f"s3a://{BUCKET}/whole", **{**server.settings, "fs.s3a.endpoint": f"http://127.0.0.1:{port}"})
    check_says_what_to_set(caught.value, server)


def test_a_server_that_never_answers_is_given_up(server: S3Server) -> None:
    with silent_server() as (port, taken), pytest.raises(errors.StorageError) as caught:
        rows_of(f"s3a://{BUCKET}/whole", **{**server.settings, "fs.s3a.endpoint": f"http://127.0.0.1:{port}"})
    check_says_what_to_set(caught.value, server)
    assert 1 <= len(taken) <= 10, "tries"


def test_what_is_not_there(server: S3Server) -> None:
    for uri in (f"s3a://{BUCKET}/nothing", "s3a://no-such-bucket/data"):
        with pytest.raises(errors.MissingFileError, match=uri.removeprefix("s3a://")):
            rows_of(uri, **server.settings)


# -------------------------------------------------------------------------------------------------------------- staging


def written(path: Path, server: S3Server, epoch: int, **options: str) -> BatchWriter:
    return epoch_writer(
        path,
        "query",
        epoch,
        stagingLocation=f"s3a://{BUCKET}/staging",
        keepOpenSeconds="0",
        **{**server.settings, **options},
    )


def test_a_sink_stages_there(server: S3Server, tmp_path: Path) -> None:
    path, rows = tmp_path / "store", [(f"g{number}", "t", number, number) for number in range(500)]
    for epoch in range(2):
        made = written(path, server, epoch)
        messages = [made.write(iter([batch_of(rows[part::2])])) for part in range(2)]
        files, place = file_system_of(f"s3a://{BUCKET}/staging", server.settings)
        staged = files.get_file_info(pa.fs.FileSelector(place, recursive=True))
        assert sum(info.type == pa.fs.FileType.File for info in staged) == 2
        assert not any(info.path.endswith(".partial") for info in staged)
        made.publish(messages)
        staged = files.get_file_info(pa.fs.FileSelector(place, recursive=True, allow_not_found=True))
        assert not any(info.type == pa.fs.FileType.File for info in staged), "what was published is deleted"
    assert positions(path) == {(f"g{number}", "t", number): number for number in range(500)}


def test_a_staging_that_cannot_be_written(server: S3Server, tmp_path: Path) -> None:
    made = written(tmp_path / "store", server, 0, **{"fs.s3a.secret.key": "wrong-secret"})
    with pytest.raises(
        errors.StorageError, match=rf"cannot be written.*fs\.s3a\.secret\.key.*{BUCKET}/staging"
    ) as caught:
        made.write(iter([batch_of([("g", "t", 0, 1)])]))
    assert "wrong-secret" not in "".join(traceback.format_exception(caught.value))
    assert not (tmp_path / "store").exists()
