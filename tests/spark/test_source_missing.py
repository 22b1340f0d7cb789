"""A log that is not whole is never read as if it were: what was acknowledged and is gone is an error, or a row."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.fs
import pytest
from conformance.scenarios import SCENARIOS, Scenario

import offsetlog
from offsetlog import errors
from offsetlog._native.files import FileSystem
from offsetlog.directory.log_directory import (
    CLEAN_MARKER,
    HIGH_WATERMARKS,
    PROPERTIES,
    RECOVERY_POINTS,
    TOPIC,
    LogDirectory,
)
from offsetlog.spark.jobs.repartition import check_ends
from offsetlog.spark.scan import completeness
from offsetlog.spark.scan.files import Files
from offsetlog.spark.scan.options import VIEWS, parse
from offsetlog.spark.scan.plan import open_source
from offsetlog.spark.scan.stream import StreamProblems, StreamReader, make_stream_reader
from offsetlog.verify.directory import verify
from tests.depth import by_depth, first_seed

from .missing_parts import (
    FAULTS,
    HIT,
    OFF,
    SMALL,
    batch_ends,
    build,
    directory_of,
    fill,
    lose_half_of_the_end,
    segments_of,
)
from .reading import Row, in_this_process, rows_of

# The second tier: every loss in every view.
pytestmark = pytest.mark.ci

KINDS = ("closed", "killed", "cleaned")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: build(tmp_path_factory.mktemp(kind) / "data", kind) for kind in KINDS}


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=repr)


def losses_of(path: Path, **options: object) -> list[errors.CorruptionError]:
    read = parse({"path": str(path), **{name: str(value) for name, value in options.items()}})
    return completeness.find_losses(open_source(read), read)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_missing_of_a_whole_log(whole, kind):
    assert losses_of(whole[kind]) == []
    for number in range(2):
        assert losses_of(whole[kind] / f"__consumer_offsets-{number}") == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_every_view_refuses_what_is_not_whole(whole, tmp_path, kind, fault: Callable[[Path], None]):
    log = Path(shutil.copytree(whole[kind], tmp_path / "data"))
    fault(log)
    for view in VIEWS:
        with pytest.raises(errors.CorruptionError, match="mode=permissive") as refused:
            rows_of(log, view=view)
        assert refused.value.log_partition == HIT
        assert refused.value.path
        rows = rows_of(log, view=view, mode="permissive")
        problems = [row for row in rows if row["problem"] is not None]
        assert any(row["log_partition"] == HIT for row in problems), "the loss is no row"
        # The other log partition is there as it was.
        kept = in_order([row for row in rows if row["log_partition"] != HIT])
        other = rows_of(whole[kind], view=view, partitions=1 - HIT)
        assert kept == in_order([{**row, "problem": None} for row in other])
        assert in_order(rows_of(log, view=view, partitions=1 - HIT)) == in_order(other)


@pytest.mark.parametrize("kind", KINDS)
def test_random_faults_are_never_silent(whole, tmp_path, kind):
    """One file cut after a batch, emptied or removed: every row is as before, or the loss is reported."""
    seed = first_seed()
    drawn = random.Random(f"{seed} {kind}")
    before = in_order(rows_of(whole[kind], view="offsets"))
    reported = 0
    for number in range(by_depth(gate=30, long=1000)):
        log = Path(shutil.copytree(whole[kind], tmp_path / "data"))
        files = sorted(each for each in log.rglob("*") if each.is_file())
        logs = [each for each in files if each.suffix == ".log"]
        file = drawn.choice(logs if drawn.random() < 0.7 else files)
        how = drawn.choice(("cut", "empty", "remove"))
        content = file.read_bytes()
        if how == "remove":
            file.unlink()
        else:
            file.write_bytes(content[: drawn.randrange(len(content))] if how == "cut" and content else b"")
        try:
            after = in_order(rows_of(log, view="offsets"))
        except errors.OffsetLogError:
            reported += 1
        else:
            assert after == before, f"seed {seed}, fault {number}: {how} of {file.relative_to(log)}"
        shutil.rmtree(log)
    assert reported > 0


def test_what_is_missing_elsewhere_concerns_nobody(whole, tmp_path):
    log = Path(shutil.copytree(whole["closed"], tmp_path / "data"))
    lose_half_of_the_end(log)
    [loss] = losses_of(log)
    assert isinstance(loss, errors.DataLossError)
    assert losses_of(log, endingOffset=loss.lost_from) == []
    assert losses_of(log, endingOffset=loss.lost_from + 1) != []
    assert losses_of(log, startingOffset=loss.lost_below) == []
    assert losses_of(log, view="offsets", at=f'{{"{HIT}": {loss.lost_from}}}') == []
    assert losses_of(directory_of(log)) != []


def test_beside_a_writer_nothing_is_taken_for_lost(tmp_path):
    with offsetlog.open(tmp_path / "data", partitions=2, config=SMALL, maintenance=OFF) as store:
        fill(store, 0, 100)

        def write() -> None:
            for turn in range(1, by_depth(gate=5, long=50)):
                fill(store, 100 * turn, 100)
                store.compact()

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            while not writing.done():
                assert losses_of(store.path) == []
            writing.result()
        assert losses_of(store.path) == []


def test_of_an_open_store_only_what_is_gone_is_lost(tmp_path):
    with offsetlog.open(tmp_path / "data", partitions=2, config=SMALL, maintenance=OFF) as store:
        for turn in range(5):
            fill(store, 100 * turn, 100)
            assert losses_of(store.path) == []
        store.compact()
        assert losses_of(store.path) == []
        segments_of(Path(store.path))[0].unlink()
        assert [type(each) for each in losses_of(store.path)] == [errors.DataLossError]


@in_this_process
def test_a_missing_witness_is_looked_for_once(whole, tmp_path, caplog, monkeypatch):
    log = Path(shutil.copytree(whole["closed"], tmp_path / "data"))
    (directory_of(log) / "offsetlog.manifest").unlink()
    looks, look = [], completeness._look
    monkeypatch.setattr(completeness, "_look", lambda *given: looks.append(1) or look(*given))
    assert losses_of(log) == []
    assert len(looks) == 1
    assert caplog.text.count("the manifest is missing") == 1
    lose_half_of_the_end(log)
    assert losses_of(log) != []
    assert len(looks) == 1 + completeness.LOOKS


@in_this_process
def test_a_missing_witness_is_a_warning(whole, tmp_path, caplog):
    log = Path(shutil.copytree(whole["closed"], tmp_path / "data"))
    (directory_of(log) / "offsetlog.manifest").unlink()
    before = in_order(rows_of(whole["closed"], view="offsets"))
    assert in_order(rows_of(log, view="offsets")) == before
    assert "the manifest is missing" in caplog.text


def test_other_file_systems_are_asked_too(whole, tmp_path):
    log = Path(shutil.copytree(whole["closed"], tmp_path / "data"))
    files = Files(pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem()))
    assert in_order(rows_of("data", files, view="offsets")) == in_order(rows_of(log, view="offsets"))
    lose_half_of_the_end(log)
    with pytest.raises(errors.DataLossError):
        rows_of("data", files, view="offsets")


def stream_of(path: Path, **options: str):
    from pyspark.sql.types import StringType, StructField, StructType

    names = ["group", "topic", *(["problem"] if options.get("mode") == "permissive" else [])]
    schema = StructType([StructField(name, StringType()) for name in names])
    read = parse({"path": str(path), "columns": "group,topic", **options}, streaming=True)
    return make_stream_reader(read, schema)


def problems_between(
    reader: StreamReader, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]
) -> list[str]:
    return [
        row["problem"]
        for split in reader.partitions(start, end)
        for batch in reader.read(split)
        for row in batch.to_pylist()
        if row["problem"] is not None
    ]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_stream_asks_as_it_starts(whole, tmp_path, fault: Callable[[Path], None], caplog):
    log = Path(shutil.copytree(whole["closed"], tmp_path / "data"))
    fault(log)
    with pytest.raises(errors.CorruptionError):
        stream_of(log).initialOffset()
    # After a restart, too, unless it is past the loss.
    with pytest.raises(errors.CorruptionError):
        stream_of(log).latestOffset({"__consumer_offsets": {"0": 0, "1": 0}})
    reader = stream_of(log, failOnDataLoss="false")
    reader.latestOffset(reader.initialOffset())
    assert "reads the rest" in caplog.text
    assert "nothing was read" not in caplog.text
    caplog.clear()
    reader = stream_of(log, mode="permissive")
    start = reader.initialOffset()
    end = reader.latestOffset(start)
    assert "reads the rest" in caplog.text
    problems = problems_between(reader, start, end)
    assert problems
    # They are of the first batch, however often it is planned, and not of each.
    assert problems_between(reader, start, end) == problems
    assert not any(isinstance(each, StreamProblems) for each in reader.partitions(end, end))
    assert problems_between(reader, start, end) == problems


def test_a_stream_of_nothing_new_says_what_is_missing(whole, tmp_path, caplog):
    log = Path(shutil.copytree(whole["closed"], tmp_path / "data"))
    lose_half_of_the_end(log)
    reader = stream_of(log, mode="permissive", startingOffsets="latest")
    start = reader.initialOffset()
    assert reader.latestOffset(start) == start  # Spark plans no batch
    assert "says" in caplog.text or "is missing" in caplog.text, caplog.text


def test_a_loss_of_no_log_partition_is_none_of_the_first(whole, tmp_path, monkeypatch):
    loss = errors.PossibleLossError("the files of the directory cannot be read", path=whole["closed"])
    monkeypatch.setattr(completeness, "find_losses", lambda *_: [loss])
    reader = stream_of(whole["closed"], mode="permissive")
    start = reader.initialOffset()
    splits = reader.partitions(start, reader.latestOffset(start))
    [found] = [each for each in splits if isinstance(each, StreamProblems)]
    assert [number for number, _ in found.problems] == [-1]


def reached_of(log: Path) -> dict[int, int]:
    """The log partitions of which a recovery point says more than 0."""
    entries = LogDirectory(log, FileSystem()).read_checkpoint(RECOVERY_POINTS)
    return {number: offset for (topic, number), offset in entries.items() if topic == TOPIC and offset > 0}


#: Without those that were killed before they wrote a checkpoint, which says 0 of every log.
CHECKPOINTED = [each for each in SCENARIOS if reached_of(each.log)]


@pytest.mark.parametrize("scenario", CHECKPOINTED, ids=lambda each: each.name)
def test_a_directory_of_a_broker_that_lost_something(scenario: Scenario, tmp_path: Path):
    """It has no manifest: its checkpoints speak."""
    log = Path(shutil.copytree(scenario.log, tmp_path / "data"))
    assert losses_of(log) == []
    number, reached = next(iter(reached_of(log).items()))
    last = sorted((log / f"{TOPIC}-{number}").glob("*.log"))[-1]
    last.write_bytes(b"")
    if int(last.stem) < reached:
        with pytest.raises(errors.DataLossError, match="says that it reaches log offset") as refused:
            rows_of(log, view="offsets")
        assert refused.value.log_partition == number
    shutil.rmtree(log / f"{TOPIC}-{number}")
    with pytest.raises(errors.DataLossError, match="the directory of the log partition is missing"):
        rows_of(log, view="offsets")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_a_directory_of_a_broker_that_was_killed_is_whole(scenario: Scenario, tmp_path: Path):
    """Without the marker of a clean stop, and with a tail that is no batch, nothing is missing."""
    log = Path(shutil.copytree(scenario.log, tmp_path / "data"))
    (log / CLEAN_MARKER).unlink(missing_ok=True)
    assert losses_of(log) == []
    for directory in log.glob(f"{TOPIC}-*"):
        with sorted(directory.glob("*.log"))[-1].open("ab") as file:
            file.write(bytes(40))
    assert losses_of(log) == []
    assert not verify(log).problems


def test_an_end_within_a_batch_below_the_high_watermark_is_no_whole_log(tmp_path: Path):
    """The copy of a running broker's directory that was not finished, or what a crash of its machine left."""
    [scenario] = [each for each in SCENARIOS if each.name == "kafka-4.3.0/groups"]
    log = Path(shutil.copytree(scenario.log, tmp_path / "data"))
    (log / CLEAN_MARKER).unlink(missing_ok=True)
    (log / RECOVERY_POINTS).unlink()
    segment = max(log.glob(f"{TOPIC}-*/*.log"), key=lambda each: each.stat().st_size)
    number = int(segment.parent.name.rpartition("-")[2])
    before = len(rows_of(log, view="records", partitions=number))
    ends = batch_ends(segment)
    content = segment.read_bytes()
    for left in (ends[len(ends) // 4] + 20, ends[-2] + 20):
        segment.write_bytes(content[:left])
        for view in VIEWS:
            with pytest.raises(errors.PossibleLossError, match=f"but {HIGH_WATERMARKS} says") as refused:
                rows_of(log, view=view)
            assert refused.value.log_partition == number
        rows = rows_of(log, view="records", partitions=number, mode="permissive")
        problems = [row["problem"] for row in rows if row["problem"] is not None]
        assert [text.partition(":")[0] for text in problems] == ["PossibleLossError"]
        assert len(rows) - 1 < before
        # So does what `verify` and `repartition` ask.
        [problem] = verify(log).problems
        assert (problem.kind, problem.log_partition) == ("checkpoint", number)
        with pytest.raises(errors.CorruptionError, match="nothing was written"):
            check_ends([problem])


def test_a_crash_of_our_own_store_leaves_a_whole_log(whole, tmp_path: Path):
    """The torn part lies above the recovery point and the high watermark."""
    log = Path(shutil.copytree(whole["killed"], tmp_path / "data"))
    with segments_of(log)[-1].open("ab") as file:
        file.write(bytes(range(40)))
    assert losses_of(log) == []
    assert rows_of(log, view="offsets") == rows_of(whole["killed"], view="offsets")
    with offsetlog.open(log, config=SMALL, maintenance=OFF) as store:
        fill(store, 300, 20)
    (log / CLEAN_MARKER).unlink()
    last = segments_of(log)[-1]
    with last.open("ab") as file:
        file.write(bytes(range(40)))
    assert losses_of(log) == []
    assert not verify(log).problems


@in_this_process
@pytest.mark.parametrize("name", [RECOVERY_POINTS, HIGH_WATERMARKS, PROPERTIES])
@pytest.mark.parametrize("content", [None, b"", b"no checkpoint\n"])
def test_a_witness_of_the_directory_that_is_gone_is_a_warning(whole, tmp_path, caplog, name, content):
    [scenario] = [each for each in SCENARIOS if each.name == "kafka-4.3.0/groups"]
    for kind, log in (("ours", whole["closed"]), ("broker", scenario.log)):
        if not (log / name).exists():
            continue
        caplog.clear()
        rows = in_order(rows_of(log, view="offsets"))
        assert not caplog.records
        hit = Path(shutil.copytree(log, tmp_path / kind))
        (hit / name).unlink()
        if content is not None:
            (hit / name).write_bytes(content)
        assert in_order(rows_of(hit, view="offsets")) == rows
        assert any(str(hit / name) in each.getMessage() for each in caplog.records), kind


def test_the_witnesses_of_a_link_are_those_of_its_log(whole, tmp_path):
    log = Path(shutil.copytree(whole["closed"], tmp_path / "data"))
    links = [tmp_path / "elsewhere" / directory_of(log).name, tmp_path / "elsewhere" / "named otherwise"]
    links[0].parent.mkdir()
    for link in links:
        link.symlink_to(directory_of(log))
        assert losses_of(link) == []
    lose_half_of_the_end(log)
    for link in links:
        with pytest.raises(errors.DataLossError):
            rows_of(link, view="offsets")
    # A partition that is kept on another disk belongs to the directory of its link.
    kept = tmp_path / "disk" / directory_of(log).name
    kept.parent.mkdir()
    directory_of(log).rename(kept)
    directory_of(log).symlink_to(kept)
    with pytest.raises(errors.DataLossError):
        rows_of(directory_of(log), view="offsets")


@pytest.mark.parametrize("view", VIEWS)
def test_a_chosen_log_partition_that_was_removed_is_missing(whole, tmp_path, view):
    log = Path(shutil.copytree(whole["closed"], tmp_path / "data"))
    shutil.rmtree(directory_of(log))
    with pytest.raises(errors.DataLossError):
        rows_of(log, view=view, partitions=HIT)
    [row] = rows_of(log, view=view, partitions=HIT, mode="permissive")
    assert row["log_partition"] == HIT
    assert row["problem"].startswith("DataLossError: ")
    for mode in ("failfast", "permissive"):
        with pytest.raises(errors.MissingFileError, match="does not hold log partition 7"):
            rows_of(log, view=view, partitions=7, mode=mode)
