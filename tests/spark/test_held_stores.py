"""Stores that stay open between two uses: one handle a process, given up to whoever asks for it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import offsetlog
from offsetlog import OffsetAndMetadata, OffsetStore, TopicPartition, errors, opening
from offsetlog._native.files import FileSystem
from offsetlog.directory import lock_holder
from offsetlog.directory.log_directory import LogDirectory
from offsetlog.errors import OffsetLogError
from offsetlog.spark import held_stores
from offsetlog.spark.held_stores import Opening, use_store
from offsetlog.spark.sink import writer
from offsetlog.spark.sink.options import checked_options
from offsetlog.spark.sink.publishing import MAINTENANCE
from offsetlog.spark.targets import StoreTarget
from tests.spark.sinks import Row, commits_of, epoch_writer, positions, stage_tasks

KEY = TopicPartition("orders", 0)


@pytest.fixture(autouse=True)
def _nothing_stays_held(tmp_path: Path) -> Iterator[None]:
    yield  # tmp_path is removed after this
    held_stores._close_all()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The paths of all stores that were opened to be held."""
    paths: list[Path] = []

    def counted(path, *given, **named):
        paths.append(path)
        return opening.open_with(path, *given, **named)

    monkeypatch.setattr(held_stores, "open_with", counted)
    return paths


def publish(path: Path, epoch: int, rows: list[Row], **options: str) -> int:
    return epoch_writer(path, "q", epoch, **options).publish(stage_tasks(path, "q", epoch, [rows])).rows


def until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_epochs_share_one_open_store(tmp_path, opened):
    for epoch in range(3):
        assert publish(tmp_path, epoch, [("g", "t", 0, epoch)]) == 1
        assert held_stores.is_held(tmp_path)
        assert positions(tmp_path) == {("g", "t", 0): epoch}
    assert opened == [tmp_path]


def test_whoever_opens_a_store_that_rests_gets_it(tmp_path, opened):
    publish(tmp_path, 0, [("g", "t", 0, 1)])
    with offsetlog.open(tmp_path) as store:
        assert not held_stores.is_held(tmp_path)
        assert store.recoveries() is not None
        store.commit("g", {TopicPartition("t", 0): 7})
        with pytest.raises(errors.LockedError):
            publish(tmp_path, 1, [("g", "t", 0, 2)], lockTimeoutSeconds="0")
    assert publish(tmp_path, 1, [("g", "t", 0, 2)]) == 1
    assert len(opened) == 3
    assert set(commits_of(tmp_path, [("g", "t", 0)])) == {("g", "t", 0, 1), ("g", "t", 0, 7), ("g", "t", 0, 2)}


def test_a_store_rests_for_as_long_as_asked(tmp_path):
    publish(tmp_path, 0, [("g", "t", 0, 1)], keepOpenSeconds="0")
    assert not held_stores.is_held(tmp_path)
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    publish(tmp_path, 1, [("g", "t", 0, 2)], keepOpenSeconds="0.05")
    until(lambda: not held_stores.is_held(tmp_path))
    until((tmp_path / ".kafka_cleanshutdown").exists)


def test_a_batch_write_without_an_epoch_closes_its_store(tmp_path):
    for epoch, given, is_held in (
        (0, {}, False),
        (0, {"keepOpenSeconds": "60"}, True),
        (1, {"queryId": "q", "epoch": "1"}, True),
    ):
        chosen = checked_options({"path": str(tmp_path), **given}, stream=False, overwrite=False)
        made = writer.BatchWriter(chosen)
        made.publish(stage_tasks(tmp_path, made._name, epoch, [[("g", "t", 0, 1)]], made._job))
        assert held_stores.is_held(tmp_path) is is_held
        assert (tmp_path / ".kafka_cleanshutdown").exists() is not is_held


def test_a_store_whose_use_failed_is_opened_again(tmp_path, opened):
    with use_store(Opening(tmp_path)) as store:
        store.commit("g", {KEY: 1})
    with pytest.raises(errors.MetadataTooLargeError), use_store(Opening(tmp_path)) as store:
        store.commit("g", {KEY: OffsetAndMetadata(1, "x" * 5000)})
    assert held_stores.is_held(tmp_path)
    with pytest.raises(KeyError), use_store(Opening(tmp_path)):
        raise KeyError("the use failed")
    assert not held_stores.is_held(tmp_path)
    with use_store(Opening(tmp_path)) as again:
        assert again is not store
        assert again.fetch("g")[KEY].offset == 1
    assert len(opened) == 2


def test_uses_that_differ_in_what_they_can_do_without_share_a_store(tmp_path, opened):
    with use_store(Opening(tmp_path, 4)) as store:
        pass
    for other in (Opening(tmp_path), Opening(tmp_path, 4, "process", MAINTENANCE), Opening(tmp_path / ".")):
        with use_store(other) as same:
            assert same is store
    with pytest.raises(errors.PartitionCountError), use_store(Opening(tmp_path, 5)):
        pass
    assert store.closed


@pytest.mark.parametrize("durability", ["disk", "process"])
@pytest.mark.parametrize("listener_first", [True, False])
def test_a_sink_and_a_listener_of_one_process_share_a_store(tmp_path, opened, durability, listener_first):
    target = StoreTarget(tmp_path)
    if listener_first:
        target.commit("g", {KEY: OffsetAndMetadata(0)})
    for epoch in range(3):
        publish(tmp_path, epoch, [("g", "t", 0, epoch)], durability=durability)
        target.commit("g", {KEY: OffsetAndMetadata(epoch)})
    assert opened == [tmp_path]
    target.close()
    assert positions(tmp_path) == {("g", "t", 0): 2, ("g", "orders", 0): 2}


def test_a_store_rests_for_as_long_as_the_uses_say_for_which_it_was_opened(tmp_path):
    held = held_stores._held_at(tmp_path)
    target = StoreTarget(tmp_path)
    target.commit("g", {KEY: OffsetAndMetadata(0)})
    publish(tmp_path, 0, [("g", "t", 0, 0)])
    assert held._rests_until is None
    target.close()
    # Nothing is cleaned in one that the sink has opened, once no epoch comes any more.
    publish(tmp_path, 1, [("g", "t", 0, 1)], keepOpenSeconds="60")
    until_then = held._rests_until
    target.commit("g", {KEY: OffsetAndMetadata(1)})
    assert held._rests_until == until_then
    publish(tmp_path, 2, [("g", "t", 0, 2)], keepOpenSeconds="60")
    assert held._rests_until > until_then


def test_a_child_made_by_fork_holds_nothing(tmp_path):
    publish(tmp_path, 0, [("g", "t", 0, 1)])
    child = os.fork()
    if child == 0:
        try:
            fine = not held_stores.is_held(tmp_path) and publish(tmp_path, 1, [("g", "t", 0, 2)]) == 1
            held_stores._close_all()
            os._exit(0 if fine else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not held_stores.is_held(tmp_path)
    assert positions(tmp_path) == {("g", "t", 0): 2}


class FailedStore:
    """A store of which the disk has failed: nothing is committed, and closing fails, or does not."""

    closed = False

    def __init__(self, store: OffsetStore, *, closes: bool) -> None:
        self._store = store
        self._closes = closes

    def commit(self, *given, **named):
        raise errors.StorageError("the disk failed")

    def close(self) -> None:
        self._store.close()
        if not self._closes:
            raise errors.StorageError("it cannot be closed")


@pytest.mark.parametrize("closes", [True, False])
def test_a_store_that_fails_in_a_commit_of_another_process_is_opened_again(tmp_path, opened, closes):
    hold_failed_store(tmp_path, closes=closes)
    with pytest.raises(errors.StorageError, match="the disk failed") as failure:
        held_stores.commit_elsewhere(tmp_path, "g", {KEY: OffsetAndMetadata(2)}, None)
    assert ("it cannot be closed" in str(failure.value)) is not closes
    assert not held_stores.is_held(tmp_path)
    with use_store(Opening(tmp_path)) as store:
        store.commit("g", {KEY: 2})
    assert len(opened) == 2


def test_the_first_failure_of_a_use_is_seen_where_closing_fails_too(tmp_path):
    hold_failed_store(tmp_path, closes=False)
    with pytest.raises(KeyError, match="first") as failure, use_store(Opening(tmp_path)):
        raise KeyError("the first")
    assert failure.value.__notes__ == ["closing the store failed, too: it cannot be closed"]
    assert not held_stores.is_held(tmp_path)


def hold_failed_store(path: Path, *, closes: bool) -> None:
    with use_store(Opening(path)) as store:
        store.commit("g", {KEY: 1})
    held_stores._held_at(path).store = FailedStore(store, closes=closes)


class SlowStore:
    """A store that is closed when it may be."""

    closed = False

    def __init__(self, store: OffsetStore) -> None:
        self._store = store
        self.is_closing, self.may_close = threading.Event(), threading.Event()

    def close(self) -> None:
        self.is_closing.set()
        assert self.may_close.wait(60)
        self._store.close()


class Opener(threading.Thread):
    """Opens a store for writing."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.failure: OffsetLogError | None = None
        self.start()

    def run(self) -> None:
        try:
            offsetlog.open(self.path).close()
        except OffsetLogError as failure:
            self.failure = failure

    def end(self) -> None:
        self.join(60)
        assert not self.is_alive()
        assert self.failure is None


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The requests of which the asker was let know that the holder is at work, which happens often."""
    found: list[bytes] = []

    def counted(request: lock_holder.Request) -> bool:
        found.append(request.content)
        return say(request)

    say = lock_holder.Request.say_working
    monkeypatch.setattr(lock_holder.Request, "say_working", counted)
    monkeypatch.setattr(lock_holder, "_SAY_SECONDS", 0.01)
    return found


def test_whoever_opens_a_store_that_is_being_closed_waits_for_it(tmp_path, said):
    with use_store(Opening(tmp_path)) as store:
        pass
    slow = SlowStore(store)
    held_stores._held_at(tmp_path).store = slow
    closing = threading.Thread(target=held_stores.let_go, args=(tmp_path,))
    closing.start()
    assert slow.is_closing.wait(60)
    opener = Opener(tmp_path)
    until(lambda: len(said) > 3 or not opener.is_alive())
    slow.may_close.set()
    closing.join(60)
    opener.end()


def test_whoever_opens_a_store_in_use_waits_for_as_long_as_that_takes(tmp_path, said):
    with use_store(Opening(tmp_path)):
        opener = Opener(tmp_path)
        until(lambda: len(said) > 20 or not opener.is_alive())
        assert opener.is_alive()
    opener.end()


def test_a_publication_waits_for_a_store_in_use_elsewhere_as_long_as_it_may(tmp_path, said):
    publish(tmp_path, 0, [("g", "t", 0, 1)], keepOpenSeconds="0")
    directory = LogDirectory(tmp_path, FileSystem())
    directory.lock()
    at_work = held_stores._requests_for(tmp_path / ".lock")
    for seconds in ("0", "0.05"):
        with pytest.raises(errors.LockedError, match=f"still has the store open after {seconds} s"):
            publish(tmp_path, 1, [("g", "t", 0, 2)], lockTimeoutSeconds=seconds)
    assert said
    # An asker that has left is forgotten.
    until(lambda: at_work.next(0) is None)
    directory.unlock()
    at_work.close()
    assert publish(tmp_path, 1, [("g", "t", 0, 2)]) == 1


def test_a_request_whose_asker_has_left_is_not_followed(tmp_path, said):
    with use_store(Opening(tmp_path), None) as store:
        with pytest.raises(errors.LockedError), ThreadPoolExecutor(1) as other:
            other.submit(opening.open_with, tmp_path, lock_seconds=0.05).result()
        commit = b'{"commit": "g", "positions": [["orders", 0, 1]], "durability": null}'
        assert ask_elsewhere(tmp_path, commit, 0.05) is None
        assert said
    assert ask_elsewhere(tmp_path, b"{}", None) is not None  # all before were handled
    assert held_stores.is_held(tmp_path)
    assert not store.closed
    assert store.fetch("g") == {}


def ask_elsewhere(path: Path, content: bytes, seconds: float | None) -> bytes | None:
    with ThreadPoolExecutor(1) as other:
        return other.submit(lock_holder.ask, path / ".lock", content, seconds).result()


def test_a_thread_does_not_wait_for_its_own_use(tmp_path):
    with use_store(Opening(tmp_path)), pytest.raises(errors.LockedError):
        offsetlog.open(tmp_path)


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b'{"commit": ["g"], "positions": [], "durability": null}', b"[1]", b"\xff"]
)
def test_no_request_ends_the_answers(tmp_path, content):
    with use_store(Opening(tmp_path)):
        pass
    answer = lock_holder.ask(tmp_path / ".lock", content)
    assert answer is not None
    assert b'"error": ' in answer
    assert held_stores.is_held(tmp_path)
    offsetlog.open(tmp_path).close()
    assert not held_stores.is_held(tmp_path)


def test_a_store_whose_thread_dies_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    monkeypatch.setattr(held_stores._HeldStore, "_answer", lambda *given: 1 / 0)
    with use_store(Opening(tmp_path), None):
        pass
    offsetlog.open(tmp_path).close()
    assert not held_stores.is_held(tmp_path)


@pytest.mark.parametrize("target", ["_work", "_take_in"])
def test_a_store_without_a_thread_is_closed_after_its_use(tmp_path, monkeypatch, target):
    def start(thread: threading.Thread) -> None:
        if thread._target.__name__ == target:
            raise RuntimeError("can't start new thread")
        really_start(thread)

    really_start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", start)
    with use_store(Opening(tmp_path), None) as store:
        assert not store.closed
    assert not held_stores.is_held(tmp_path)
    offsetlog.open(tmp_path).close()


@pytest.mark.parametrize("asked", [None, "disk"])
def test_a_commit_survives_what_its_asker_wants_whoever_holds_the_store(tmp_path, asked, monkeypatch):
    monkeypatch.setattr(held_stores, "is_held", lambda path: False)  # as in another process
    with use_store(Opening(tmp_path, 1, "process"), None) as store:
        pass
    StoreTarget(tmp_path, durability=asked).commit("g", {KEY: OffsetAndMetadata(1)})
    assert not store.closed
    facts = store._open_core.partition(0).log_facts()
    assert (facts["end"], facts["flushed"]) == (1, 1)


HOLDER = """
import sys
from pathlib import Path
from offsetlog.spark import held_stores
path = Path(sys.argv[1])
with held_stores.use_store(held_stores.Opening(path, 2), None):
    pass
print("held", flush=True)
sys.stdin.readline()
print(held_stores.is_held(path), flush=True)
"""


@pytest.fixture
def holder(tmp_path) -> Iterator[subprocess.Popen[str]]:
    """Another process, which holds the store in `tmp_path`, and says at the end whether it does still."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "held\n"
        yield running


def still_held(holder: subprocess.Popen[str]) -> str:
    return holder.communicate("end\n", timeout=60)[0].strip()


def test_a_commit_is_handed_to_the_process_that_holds_the_store(tmp_path, holder, opened):
    target = StoreTarget(tmp_path, durability="process")
    value = OffsetAndMetadata(5, "by hand", 3, 1_700_000_000_123)
    assert target.commit("g", {KEY: value, TopicPartition("orders", 1): OffsetAndMetadata(6)}) == {}
    with offsetlog.open(tmp_path, read_only=True) as store:
        found = store.fetch("g")
        assert found[KEY] == value
        assert found["orders", 1].offset == 6
    with pytest.raises(errors.MetadataTooLargeError, match="UTF-16"):
        target.commit("g", {KEY: OffsetAndMetadata(1, "x" * 5000)})
    target.close()
    assert opened == []
    assert still_held(holder) == "True"


def test_a_publication_takes_the_store_from_another_process(tmp_path, holder, opened):
    assert publish(tmp_path, 0, [("g", "t", 0, 1)], partitions="2") == 1
    assert held_stores.is_held(tmp_path)
    assert still_held(holder) == "False"
    # And now there is nobody to hand a commit to.
    assert not held_stores.commit_elsewhere(tmp_path / "none", "g", {KEY: OffsetAndMetadata(1)}, None)
    StoreTarget(tmp_path).commit("g", {KEY: OffsetAndMetadata(3)})
    assert positions(tmp_path) == {("g", "t", 0): 1, ("g", "orders", 0): 3}


def test_a_request_that_cannot_be_read_is_refused(tmp_path, holder):
    answer = held_stores.lock_holder.ask(tmp_path / ".lock", b'{"commit": "g"}')
    assert answer is not None
    assert b"InvalidArgumentError" in answer
    assert still_held(holder) == "True"
