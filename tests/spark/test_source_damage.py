"""Damage is an error that names file and position, or a row that does, and never a wrong record."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pytest

import offsetlog
from offsetlog import MaintenanceConfig, StoreConfig, TopicPartition, errors
from offsetlog._native.encoding import encode_batch, encode_key, encode_value
from offsetlog.spark.scan.batch import BatchReader
from offsetlog.spark.scan.files import Files
from offsetlog.spark.scan.options import parse
from offsetlog.spark.scan.views import full_schema

from .reading import Row, read_splits, rows_of, splits_of

# The second tier: every kind of damage in every view.
pytestmark = pytest.mark.ci

VIEWS = ("records", "commits", "history", "offsets", "groups")
SMALL = StoreConfig(segment_bytes=8 << 10, index_interval_bytes=512)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of one partition in a few segments; its last one ends with its last batch."""
    path = tmp_path_factory.mktemp("log") / "data"
    config = MaintenanceConfig(enabled=False)
    with offsetlog.open(path, partitions=1, durability="process", config=SMALL, maintenance=config) as store:
        for number in range(240):
            store.commit(f"g{number % 5}", {TopicPartition("t", number % 7): number})
    return path


@pytest.fixture
def log(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "data"))


def batches_of(log: Path) -> list[Row]:
    return rows_of(log, view="batches")


def pieces(view: str) -> list[dict[str, int]]:
    """Options that divide a view in different ways."""
    if view in ("history", "offsets", "groups"):
        return [{"minPartitions": 1}, {"minPartitions": 3}]
    return [{"splitBytes": 1}, {"splitBytes": 2000}, {}]


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=repr)


def segment_of(log: Path, batch: Row) -> Path:
    return log / "__consumer_offsets-0" / batch["segment"]


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x20
    path.write_bytes(content)


@pytest.mark.parametrize("which", [0, 30, 100, -1])
@pytest.mark.parametrize("size", [1, 3000, 64 << 20])
def test_a_corrupt_batch(log: Path, which: int, size: int) -> None:
    batch = batches_of(log)[which]
    whole = rows_of(log, view="records")
    flip(segment_of(log, batch), batch["position"] + batch["size"] - 3)
    for view in VIEWS:
        options = {"splitBytes": size} if view in ("records", "commits") else {"minPartitions": 3}
        with pytest.raises(errors.CorruptionError) as caught:
            rows_of(log, view=view, **options)
        assert (caught.value.path, caught.value.position) == (str(segment_of(log, batch)), batch["position"])
        rows = rows_of(log, view=view, mode="permissive", **options)
        problems = [row for row in rows if row["problem"]]
        assert [row["log_partition"] for row in problems] == [0]
        assert f"({segment_of(log, batch)}, byte {batch['position']}" in problems[0]["problem"]
        assert "CorruptionError" in problems[0]["problem"]
        if view == "records":
            assert [row["log_offset"] for row in rows if not row["problem"]] == [
                row["log_offset"]
                for row in whole
                if not batch["base_offset"] <= row["log_offset"] <= batch["last_offset"]
            ]
    crcs = {(row["segment"], row["position"]): row["crc_ok"] for row in rows_of(log, view="batches", mode="permissive")}
    assert crcs.get((batch["segment"], batch["position"])) is not True
    assert sum(crc is True for crc in crcs.values()) == len(batches_of_sound(whole)) - 1


def batches_of_sound(records: list[Row]) -> set[tuple[str, int]]:
    return {(row["segment"], row["position"]) for row in records}


def test_a_length_that_leads_nowhere(log: Path) -> None:
    batch, following = batches_of(log)[20:22]
    path = segment_of(log, batch)
    content = bytearray(path.read_bytes())
    content[batch["position"] + 8 : batch["position"] + 12] = (2_000_000).to_bytes(4)
    path.write_bytes(content)
    for size in (1, 5000, 64 << 20):
        with pytest.raises(errors.CorruptionError) as caught:
            rows_of(log, view="records", splitBytes=size)
        assert (caught.value.path, caught.value.position) == (str(path), batch["position"])
        rows = rows_of(log, view="records", splitBytes=size, mode="permissive")
        assert len([row for row in rows if row["problem"]]) == 1
        assert [row["position"] for row in rows if row["segment"] == path.name].count(following["position"]) == 1


@pytest.mark.parametrize("tail", [b"", bytes(5000), b"torn", None])
def test_a_tail_that_is_not_written_yet_is_no_damage(log: Path, tail: bytes | None) -> None:
    whole = {view: rows_of(log, view=view) for view in (*VIEWS, "batches")}
    path = sorted(log.rglob("*.log"))[-1]
    batch = batches_of(log)[-1]
    content = path.read_bytes()
    # The head of one more batch, of which the end has not been written.
    tail = content[batch["position"] : batch["position"] + batch["size"] - 5] if tail is None else tail
    path.write_bytes(content + tail)
    for view, rows in whole.items():
        for options in pieces(view):
            assert in_order(rows_of(log, view=view, **options)) == in_order(rows)


@pytest.mark.parametrize("ahead", [0, 5000])
@pytest.mark.parametrize("sealed", [False, True])
def test_a_batch_that_has_no_length_yet_is_no_damage(log: Path, sealed: bool, ahead: int) -> None:
    """A store writes a batch where it will stay, its length last."""
    whole = {view: rows_of(log, view=view) for view in (*VIEWS, "batches")}
    path = sorted(log.rglob("*.log"))[-1]
    batch = encode_batch(len(whole["records"]), 1, [(encode_key(2, {"group": "g"}), None)] * 40)
    begun = batch[:8] + bytes(4) + batch[12:] if sealed else bytes(61) + batch[61:]
    content = path.read_bytes()
    path.write_bytes(content + begun + bytes(ahead))
    for view, rows in whole.items():
        for mode in ("failfast", "permissive"):
            found = rows_of(log, view=view, mode=mode)
            assert all(row.pop("problem", None) is None for row in found)
            assert in_order(found) == in_order(rows)
    path.write_bytes(content + batch + bytes(ahead))
    assert len(rows_of(log, view="records")) == len(whole["records"]) + 40


def test_a_length_of_zero_in_front_of_a_whole_batch_is_damage(log: Path) -> None:
    batch = batches_of(log)[-2]
    path = segment_of(log, batch)
    content = bytearray(path.read_bytes())
    content[batch["position"] + 8 : batch["position"] + 12] = bytes(4)
    path.write_bytes(content)
    with pytest.raises(errors.CorruptionError) as caught:
        rows_of(log, view="records")
    assert (caught.value.path, caught.value.position) == (str(path), batch["position"])


def test_a_closed_segment_that_is_torn(log: Path) -> None:
    path = sorted(log.rglob("*.log"))[1]
    end = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-7])
    last = [batch for batch in rows_of(log, view="batches", mode="permissive") if batch["segment"] == path.name][-1]
    start = last["position"] + last["size"]
    assert start < end
    for view in VIEWS:
        # The manifest knows what is missing; the reader, where.
        with pytest.raises(errors.DataLossError) as lost:
            rows_of(log, view=view)
        assert lost.value.path == str(path)
        with pytest.raises(errors.TornTailError) as caught:
            list(read_splits(splits_of(log, view=view), log, view=view))
        assert (caught.value.path, caught.value.position) == (str(path), start)
        problems = [row["problem"] for row in rows_of(log, view=view, mode="permissive") if row["problem"]]
        assert [each.partition(":")[0] for each in problems] == ["DataLossError", "TornTailError"]


def test_an_index_that_leads_into_a_batch_is_noticed(log: Path) -> None:
    """The bytes of a record may be a whole batch, and a wrong entry of the index may lead there."""
    directory = log / "__consumer_offsets-0"
    for file in directory.iterdir():
        file.unlink()
    inner = encode_batch(500, 1, [(b"x", b"y" * 50)])
    fields = {"memberId": "m", "clientId": "c", "clientHost": "h", "rebalanceTimeout": 1, "sessionTimeout": 1}
    member = {**fields, "groupInstanceId": None, "subscription": inner, "assignment": b""}
    value = {
        "protocolType": "consumer",
        "generation": 1,
        "protocol": "range",
        "leader": "m",
        "currentStateTimestamp": 1,
        "members": [member],
    }
    records = [(encode_key(2, {"group": "g"}), encode_value(2, 3, value))]
    content = encode_batch(0, 1, records) + encode_batch(1000, 1, [(encode_key(2, {"group": "g"}), None)])
    segment = directory / f"{0:020}.log"
    segment.write_bytes(content)
    place = content.index(inner)
    (directory / f"{0:020}.index").write_bytes((500).to_bytes(4) + place.to_bytes(4))
    for mode in ("failfast", "permissive"):
        with pytest.raises(errors.CorruptionError, match=f"byte {place} of the segment") as caught:
            rows_of(log, view="records", splitBytes=20, mode=mode)
        assert caught.value.path == str(segment.with_suffix(".index"))
    assert [row["log_offset"] for row in rows_of(log, view="records")] == [0, 1000]


# -------------------------------------------------------------------------------------------------- other file systems


class Handler(pyarrow.fs.FileSystemHandler):
    """A file system that is none of pyarrow's own: a directory, and files that fail."""

    def __init__(self, broken: str = "") -> None:
        self.broken = broken
        self.local = pyarrow.fs.LocalFileSystem()

    def get_type_name(self) -> str:
        return "tests"

    def get_file_info(self, paths: list[str]) -> list[Any]:
        return self.local.get_file_info(paths)

    def get_file_info_selector(self, selector: Any) -> list[Any]:
        return self.local.get_file_info(selector)

    def open_input_file(self, path: str) -> Any:
        if self.broken and path.endswith(self.broken):
            raise OSError(errno.EIO, "the disk is on fire")
        return self.local.open_input_file(path)

    open_input_stream = open_input_file

    def refuse(self, *_: Any) -> Any:
        raise NotImplementedError

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = refuse
    move = copy_file = open_output_stream = open_append_stream = refuse

    def normalize_path(self, path: str) -> str:
        return path


def test_another_file_system_reads_the_same(log: Path) -> None:
    files = Files(pyarrow.fs.PyFileSystem(Handler()))
    for view in (*VIEWS, "batches"):
        whole = in_order(rows_of(log, view=view))
        for options in pieces(view):
            assert in_order(rows_of(str(log), files, view=view, **options)) == whole


def test_a_file_system_in_memory(log: Path) -> None:
    memory = pyarrow.fs._MockFileSystem()
    memory.create_dir(log.name)
    for path in sorted(log.rglob("*")):
        name = str(path.relative_to(log.parent))
        if path.is_dir():
            memory.create_dir(name)
        else:
            with memory.open_output_stream(name) as file:
                file.write(path.read_bytes())
    for view in VIEWS:
        read = parse({"path": log.name, "view": view})
        # It is of this process, and does not go through pickle.
        reader = BatchReader(read, full_schema(read), Files(memory))
        batches = [batch for split in reader.partitions() for batch in reader.read(split)]
        assert in_order(pa.Table.from_batches(batches).to_pylist()) == in_order(rows_of(log, view=view))


def test_a_file_that_cannot_be_read(log: Path) -> None:
    segments = sorted(log.rglob("*.log"))
    whole = rows_of(log, view="records")
    for broken in (segments[1], segments[-1]):
        files = Files(pyarrow.fs.PyFileSystem(Handler(broken.name)))
        for view in VIEWS:
            with pytest.raises(errors.StorageError) as caught:
                rows_of(str(log), files, view=view)
            assert caught.value.path == str(broken)
            rows = rows_of(str(log), files, view=view, mode="permissive")
            problems = [row["problem"] for row in rows if row["problem"]]
            assert problems
            assert all(str(broken) in problem for problem in problems)
            if view == "records":
                kept = [row["log_offset"] for row in rows if not row["problem"]]
                assert kept == [row["log_offset"] for row in whole if row["segment"] != broken.name]
