"""A base offset that was changed, which no CRC covers, is damage in every view, and costs no other batch."""

from __future__ import annotations

import random
import shutil
import struct
from collections import Counter
from pathlib import Path

import pytest

import offsetlog
from offsetlog import MaintenanceConfig, StoreConfig, TopicPartition, errors

from .reading import Row, rows_of

# The second tier: every view in splits of several sizes.
pytestmark = pytest.mark.ci

VIEWS = ("records", "commits", "history", "offsets", "groups")
RUNS = ("records", "commits", "batches")
SMALL = StoreConfig(segment_bytes=8 << 10, index_interval_bytes=512)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of one partition in a few segments, without gaps; its last one ends with its last batch."""
    path = tmp_path_factory.mktemp("log") / "data"
    config = MaintenanceConfig(enabled=False)
    with offsetlog.open(path, partitions=1, durability="process", config=SMALL, maintenance=config) as store:
        for number in range(240):
            offsets = {TopicPartition("t", number % 7 + each): number for each in range(1 + number % 3)}
            store.commit(f"g{number % 5}", offsets)
    return path


@pytest.fixture
def log(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "data"))


def moved(log: Path, batch: Row, base_offset: int) -> str:
    """Writes another base offset into a batch; returns where that is, as an error names it."""
    path = log / "__consumer_offsets-0" / batch["segment"]
    with path.open("r+b") as file:
        file.seek(batch["position"])
        file.write(struct.pack(">q", base_offset))
    return f"({path}, byte {batch['position']}"


def options_of(view: str) -> list[dict[str, int]]:
    if view in RUNS:
        return [{}, {"splitBytes": 1}, {"splitBytes": 1500}]
    return [{}, {"minPartitions": 3}]


def expect_damage(log: Path, view: str, place: str, whole: list[Row], batch: Row) -> None:
    """Each way to read the view fails at the place, and with mode=permissive misses the records of one batch alone."""
    for options in options_of(view):
        with pytest.raises(errors.CorruptionError) as caught:
            rows_of(log, view=view, **options)
        assert place in str(caught.value)
        rows = rows_of(log, view=view, mode="permissive", **options)
        problems = [row.pop("problem") for row in rows]
        assert [place in each for each in problems if each] == [True]
        rows = [row for row, problem in zip(rows, problems, strict=True) if not problem]
        if view in ("records", "commits", "history"):
            own = range(batch["base_offset"], batch["last_offset"] + 1)
            kept = sorted(row["log_offset"] for row in whole if row["log_offset"] not in own)
            assert sorted(row["log_offset"] for row in rows) == kept


def wrong_offsets(batches: list[Row], which: int) -> list[int]:
    """Base offsets that a batch cannot have: one bit in either direction, in the log and far outside."""
    base, end = batches[which]["base_offset"], batches[-1]["last_offset"] + 1
    far = [base ^ 0x1000, base + 2**31, 2**53 + base]
    return [*far, (base + end) // 2] if base < end // 2 else [*far, base // 2]


@pytest.mark.parametrize("view", VIEWS)
def test_a_base_offset_that_cannot_be_right(log: Path, view: str) -> None:
    whole, batches = rows_of(log, view=view), rows_of(log, view="batches")
    firsts = [at for at in range(1, len(batches)) if batches[at]["segment"] != batches[at - 1]["segment"]]
    for which in (0, 30, firsts[0] - 1, firsts[1] - 1, 100):
        batch = batches[which]
        for offset in wrong_offsets(batches, which):
            place = moved(log, batch, offset)
            expect_damage(log, view, place, whole, batch)
        moved(log, batch, batch["base_offset"])
    assert rows_of(log, view=view) == whole


def test_borders_of_splits_are_no_way_past_a_wrong_base_offset(log: Path) -> None:
    """They come from batches, and from an index."""
    draw = random.Random(4)
    batches = rows_of(log, view="batches")
    for _ in range(15):
        batch = batches[draw.randrange(1, len(batches) - 1)]
        lower, upper = draw.randrange(batch["base_offset"]), batch["base_offset"] + draw.randrange(1, 3000)
        place = moved(log, batch, draw.choice([lower, upper]))
        for size in (1, draw.randrange(200, 4000)):
            with pytest.raises(errors.CorruptionError) as caught:
                rows_of(log, view="records", splitBytes=size)
            rows = rows_of(log, view="records", splitBytes=size, mode="permissive")
            assert [row["problem"] for row in rows if row["problem"]]
            assert str(log) in str(caught.value), place
        moved(log, batch, batch["base_offset"])


# --------------------------------------------------------------------------------------------------------- any question


def content(rows: list[Row]) -> Counter[str]:
    """Returns the contents of the log but for log offsets, which are wrong in a batch moved to a possible place."""
    ours = {"log_offset", "base_offset", "last_offset", "marker_offset", "effective_at", "problem", "last_log_offset"}
    return Counter(str({name: row[name] for name in row if name not in ours}) for row in rows if not row.get("problem"))


def question(draw: random.Random, batches: list[Row], which: int) -> dict[str, object]:
    """A view, and options that ask for a part of it that ends or begins at a batch, or anywhere."""
    view = draw.choice(VIEWS)
    batch, end = batches[which], batches[-1]["last_offset"] + 1
    near = [batch["base_offset"], batch["last_offset"], batch["last_offset"] + 1, draw.randrange(end + 1)]
    asked: dict[str, object] = {"view": view, "mode": draw.choice(["failfast", "permissive"])}
    if view in RUNS:
        asked["splitBytes"] = draw.choice([1, 300, 1500, 1 << 20])
    elif draw.random() < 0.5:
        asked["minPartitions"] = 3
    if view in ("offsets", "groups"):
        moment = draw.choice(["", f"offset:{min(draw.choice(near), end)}", str(draw.choice(batches)["max_timestamp"])])
        return asked | ({"at": moment} if moment else {})
    first, until = sorted(draw.choices(near, k=2))
    return asked | draw.choice(
        [{}, {"startingOffset": first}, {"endingOffset": until}, {"startingOffset": first, "endingOffset": until}]
    )


def small_log(path: Path, draw: random.Random) -> Path:
    """A log with transactions, cleaned or not, and an index of any density."""
    config = StoreConfig(segment_bytes=4 << 10, index_interval_bytes=draw.choice([0, 1, 300, 4096]))
    maintenance = MaintenanceConfig(enabled=False)
    with offsetlog.open(path, partitions=1, durability="process", config=config, maintenance=maintenance) as store:
        for number in range(90):
            offsets = {TopicPartition("t", number % 7 + each): number for each in range(1 + number % 3)}
            store.commit(f"g{number % 5}", offsets)
            if number % 11 == 3:
                with store.transaction(f"g{number % 5}", 900 + number % 2) as transaction:
                    transaction.commit({TopicPartition("t", number % 9): number})
        if draw.random() < 0.4:
            store.compact()
    return path


def can_be(log: Path, batches: list[Row], which: int, base_offset: int) -> bool:
    """Whether the log alone could be one in which the batch has that base offset."""
    batch = batches[which]
    last_offset = base_offset + batch["last_offset"] - batch["base_offset"]
    bases = [int(path.stem) for path in sorted((log / "__consumer_offsets-0").glob("*.log"))]
    base = int(batch["segment"].removesuffix(".log"))
    before = batches[which - 1]["last_offset"] + 1 if which else 0
    after = batches[which + 1]["base_offset"] if which + 1 < len(batches) else base + 2**31
    return max(before, base) <= base_offset and last_offset < min([after, *(each for each in bases if each > base)])


@pytest.mark.parametrize("seed", range(4))
def test_no_question_is_answered_silently_without_a_batch_that_was_moved(tmp_path: Path, seed: int) -> None:
    """Any base offset in any batch: an answer is the sound one, or says that it is not; what can be is not refused."""
    draw = random.Random(seed)
    log = small_log(tmp_path / "data", draw)
    batches = rows_of(log, view="batches")
    reported = 0
    for _ in range(60):
        which = draw.choice([0, len(batches) - 1, *draw.choices(range(len(batches)), k=5)])
        asked = question(draw, batches, which)
        base = batches[which]["base_offset"]
        near, far = base + draw.randrange(-12, 12), base ^ 1 << draw.randrange(40)
        wrong = max(draw.choice([near, far, draw.randrange(base + 1), base + 2**31, base + 2**53]), 0)
        if wrong == base:
            continue
        is_possible = can_be(log, batches, which, wrong)
        if is_possible:
            asked = {name: asked[name] for name in asked if name in ("view", "mode", "splitBytes", "minPartitions")}
        try:
            sound = content(rows_of(log, **asked))
        except (errors.HistoryError, errors.InsideCommitError):
            continue  # the moment was cleaned away, or is none
        moved(log, batches[which], wrong)
        try:
            rows = rows_of(log, **asked)
            is_told = any(row.get("problem") for row in rows)
            assert is_told or content(rows) == sound, (seed, which, wrong, asked)
        except (errors.CorruptionError, errors.OffsetOutOfRangeError, errors.InsideCommitError):
            is_told = True
        assert not (is_told and is_possible), (seed, which, wrong, asked)
        reported += is_told
        moved(log, batches[which], base)
    assert reported > 20


def test_headers_alone_do_not_end_at_a_wrong_base_offset(log: Path) -> None:
    batches = rows_of(log, view="batches")
    for offset in (2**53, batches[30]["base_offset"] + 100):
        moved(log, batches[30], offset)
        for size in (1, 1500, 64 << 20):
            rows = rows_of(log, view="batches", splitBytes=size)
            assert [row["position"] for row in rows] == [row["position"] for row in batches]
            assert rows[30]["base_offset"] == offset


def test_a_moment_and_a_range_do_not_end_at_a_wrong_base_offset(log: Path) -> None:
    batches = rows_of(log, view="batches")
    place = moved(log, batches[30], 2**40)
    later = batches[90]["base_offset"]
    for options in ({"at": f"offset:{later}"}, {"view": "records", "endingOffset": later}):
        with pytest.raises(errors.CorruptionError) as caught:
            rows_of(log, **{"view": "offsets", **options})
        assert place in str(caught.value)
    # Neither concerns whoever reads other records.
    before = batches[29]["base_offset"]
    since = next(each["base_offset"] for each in batches if each["segment"] > batches[30]["segment"])
    assert len(rows_of(log, view="records", endingOffset=before)) == before
    assert rows_of(log, view="records", startingOffset=since)[0]["log_offset"] == since


def test_a_log_whose_last_batch_goes_back_does_not_end_there(log: Path) -> None:
    batches = rows_of(log, view="batches")
    place = moved(log, batches[-1], 5)
    for view in VIEWS:
        with pytest.raises(errors.CorruptionError) as caught:
            rows_of(log, view=view)
        assert place.partition(",")[0] in str(caught.value)
        assert "base offset 5 is below" in str(caught.value)
