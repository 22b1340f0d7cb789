"""The file of topics: what each change writes, what a crash leaves, and what is refused."""

from __future__ import annotations

import asyncio
import json
import random

import pytest
import xxhash

from offsetlog._native.files import FileSystem
from offsetlog.directory import checked_journal
from offsetlog.errors import CorruptionError, StorageError
from offsetlog.server.metadata_store import FILE, FileMetadataStore, Topic, new_offsets_topic
from tests.depth import by_depth, first_seed

OFFSETS = new_offsets_topic(bytes(range(16)), 50, 1 << 20)


class _CountingFiles(FileSystem):
    """Counts the bytes that are written, and refuses them on demand."""

    def __init__(self):
        self.written = 0
        self.replaced = 0
        self.failing = False

    def append_to_file(self, path, position, content):
        if self.failing:
            # As after a flush that failed: the bytes may be there.
            super().append_to_file(path, position, content)
            raise StorageError("the disk has failed")
        super().append_to_file(path, position, content)
        self.written += len(content)

    def replace_file(self, path, content):
        super().replace_file(path, content)
        self.written += len(content)
        self.replaced += 1


def opened(path, fs=None) -> FileMetadataStore:
    return FileMetadataStore(path, fs or FileSystem(), node_id=1, cluster_id=None, offsets_topic=OFFSETS)


def topic(number: int, partitions: int = 1, **configs: str) -> Topic:
    return Topic(f"topic-{number}", number.to_bytes(16, "big"), partitions, configs)


def state(store: FileMetadataStore):
    topics = {name: (each.topic_id, each.partitions, dict(each.configs)) for name, each in store.topics().items()}
    return topics, store.cluster_id, store.node_id, store._next_producer_id


def test_many_topics_made_one_at_a_time_write_what_they_are(tmp_path):
    fs = _CountingFiles()
    store = opened(tmp_path, fs)

    async def make_all() -> None:
        for number in range(1, 5001):
            await store.put_topics((topic(number),))

    asyncio.run(make_all())
    size = (tmp_path / FILE).stat().st_size
    assert fs.written < 4 * size
    assert fs.replaced < 5
    assert state(opened(tmp_path)) == state(store)


def test_the_file_does_not_outgrow_what_it_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(checked_journal, "CHANGES_BYTES_MIN", 2000)
    store = opened(tmp_path)

    async def change_one() -> None:
        for number in range(500):
            await store.put_topics((topic(7, number + 1),))
            assert (tmp_path / FILE).stat().st_size < 4000

    asyncio.run(change_one())
    asyncio.run(store.remove_topic("topic-7"))
    assert state(opened(tmp_path)) == state(store)


def test_any_changes_are_there_after_a_restart(tmp_path):
    seed = first_seed()
    for draw in map(random.Random, range(seed, seed + by_depth(gate=5, long=100))):
        path = tmp_path / str(draw.random())
        path.mkdir()
        store = opened(path)
        for _ in range(60):
            what = draw.randrange(5)
            if what == 0:
                asyncio.run(store.remove_topic(f"topic-{draw.randrange(10)}"))
            elif what == 1:
                asyncio.run(store.reserve_producer_ids(draw.randrange(1, 100), draw.randrange(100)))
            elif what == 2:
                before, store = state(store), opened(path)
                assert state(store) == before, f"OL_SEED={seed}"
            else:
                numbers = draw.sample(range(10), draw.randrange(1, 4))
                asyncio.run(store.put_topics([topic(each, draw.randrange(1, 9), note="ä\n\0") for each in numbers]))


def test_a_file_of_the_first_format_is_read_and_goes_on_in_the_present_one(tmp_path):
    content = {
        "cluster_id": "abcdefghijklmnopqrstuv", "node_id": 4, "next_producer_id": 1000,
        "topics": [{"name": "orders", "topic_id": "AAAAAAAAAAAAAAAAAAAABw", "partitions": 3, "configs": {}}],
    }
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    whole = {"format": 1, "checksum": xxhash.xxh3_64_hexdigest(text.encode()), "content": content}
    (tmp_path / FILE).write_text(json.dumps(whole, indent=1))
    for _ in range(2):
        store = opened(tmp_path)
        assert (store.cluster_id, store.node_id) == ("abcdefghijklmnopqrstuv", 4)
        assert store.topics()["orders"].partitions == 3
    assert asyncio.run(store.reserve_producer_ids(10, 0)) == 1000
    assert json.loads((tmp_path / FILE).read_bytes().split(b"\n")[0])["format"] == 2
    (tmp_path / FILE).write_text(json.dumps(whole, indent=1)[:-20])
    with pytest.raises(CorruptionError):
        opened(tmp_path)


def _with_three_topics(path) -> bytes:
    store = opened(path)
    for number in range(1, 4):
        asyncio.run(store.put_topics((topic(number),)))
    return (path / FILE).read_bytes()


def test_a_change_that_a_crash_cut_is_dropped_and_reported(tmp_path, caplog):
    data = _with_three_topics(tmp_path)
    last = data.rindex(b"\n", 0, -1) + 1
    for size in range(last + 1, len(data)):
        for tail in (data[last:size], data[last:size] + bytes(5), bytes(size - last), bytes(size - last) + b"\n"):
            caplog.clear()
            (tmp_path / FILE).write_bytes(data[:last] + tail)
            store = opened(tmp_path)
            assert sorted(store.topics()) == ["__consumer_offsets", "topic-1", "topic-2"]
            assert f"dropped the last {len(tail)} bytes" in caplog.text
    # The next change does not follow what was left.
    asyncio.run(store.put_topics((topic(9),)))
    assert "topic-9" in opened(tmp_path).topics()


@pytest.mark.parametrize("page", [512, 4096])
def test_an_append_of_which_any_pages_were_lost_is_dropped_as_a_whole(tmp_path, caplog, page):
    store = opened(tmp_path)
    asyncio.run(store.put_topics((topic(1),)))
    before = state(store)
    size = (tmp_path / FILE).stat().st_size
    asyncio.run(store.put_topics([topic(number, note="y" * 60) for number in range(2, 100)]))
    data = (tmp_path / FILE).read_bytes()
    assert state(opened(tmp_path)) == state(store)
    starts = range(size - size % page, len(data), page)
    assert len(starts) > 2
    draw = random.Random(first_seed())
    lost = [[start] for start in starts] + [draw.sample(starts, draw.randrange(2, len(starts))) for _ in range(20)]
    for pages in lost:
        torn = bytearray(data)
        for start in pages:
            # The earlier content of the page stays: the file grew, and its new bytes are zeros.
            begin, end = max(start, size), min(start + page, len(data))
            torn[begin:end] = bytes(end - begin)
        (tmp_path / FILE).write_bytes(torn)
        caplog.clear()
        assert state(opened(tmp_path)) == before, pages
        assert "dropped" in caplog.text


def test_durable_changes_that_became_zeros_are_damage(tmp_path):
    data = _with_three_topics(tmp_path)
    last = data.rindex(b"\n", 0, -1) + 1
    before = data.rindex(b"\n", 0, last - 1) + 1
    harmed = bytearray(data)
    harmed[before + 10 : last - 10] = bytes(last - before - 20)
    harmed[last + 10 : last + 20] = bytes(10)
    (tmp_path / FILE).write_bytes(harmed)
    with pytest.raises(CorruptionError, match="line 3"):
        opened(tmp_path)


def test_damage_before_the_end_is_refused_at_every_byte(tmp_path):
    data = _with_three_topics(tmp_path)
    last = data.rindex(b"\n", 0, -1) + 1
    for position in range(last - 1):
        harmed = bytearray(data)
        harmed[position] ^= 1
        (tmp_path / FILE).write_bytes(harmed)
        with pytest.raises(CorruptionError, match=FILE):
            opened(tmp_path)


def test_damage_of_the_last_change_is_not_taken_for_a_crash(tmp_path):
    data = _with_three_topics(tmp_path)
    last = data.rindex(b"\n", 0, -1) + 1
    for position in range(last, len(data) - 1):
        harmed = bytearray(data)
        harmed[position] ^= 1
        (tmp_path / FILE).write_bytes(harmed)
        with pytest.raises(CorruptionError):
            opened(tmp_path)


def test_a_change_that_failed_is_not_there_after_the_next_one(tmp_path):
    fs = _CountingFiles()
    store = opened(tmp_path, fs)
    asyncio.run(store.put_topics((topic(1),)))
    fs.failing = True
    with pytest.raises(StorageError):
        asyncio.run(store.put_topics((topic(2), topic(3))))
    fs.failing = False
    assert sorted(store.topics()) == ["__consumer_offsets", "topic-1"]
    asyncio.run(store.put_topics((topic(4),)))
    assert sorted(opened(tmp_path).topics()) == ["__consumer_offsets", "topic-1", "topic-4"]


def test_a_change_that_the_next_start_could_not_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(checked_journal, "FILE_BYTES_MAX", 20_000)
    monkeypatch.setattr(checked_journal, "CHANGES_BYTES_MIN", 1_000)
    store = opened(tmp_path)

    async def make_until_refused() -> None:
        for number in range(1000):
            await store.put_topics([topic(number, **{"retention.ms": str(number)})])

    with pytest.raises(StorageError, match="delete topics that are not needed"):
        asyncio.run(make_until_refused())
    assert len(store.topics()) > 50
    assert state(opened(tmp_path)) == state(store)
    asyncio.run(store.remove_topic("topic-0"))
    assert "topic-0" not in opened(tmp_path).topics()
