"""Requests to the holder of a directory's lock: of its own user only, and bounded."""

from __future__ import annotations

import socket
import struct
import threading
from pathlib import Path

import pytest

from offsetlog import errors
from offsetlog.directory import lock_holder
from offsetlog.directory.lock_holder import LockHolder, Requests, ask


@pytest.fixture
def lock_file(tmp_path: Path) -> Path:
    path = tmp_path / ".lock"
    path.touch()
    return path


class Answering(threading.Thread):
    """Answers requests until the holder is closed, with what they said in capital letters."""

    def __init__(self, holder: LockHolder) -> None:
        super().__init__()
        self.holder = holder
        self.seen: list[bytes | None] = []

    def run(self) -> None:
        while True:
            try:
                request = self.holder.wait(30)
            except OSError:
                return
            self.seen.append(None if request is None else request.content)
            if request is not None:
                request.answer(request.content.upper())

    def end(self) -> None:
        self.holder.close()
        self.join(60)
        assert not self.is_alive()


@pytest.fixture
def answering(lock_file):
    thread = Answering(LockHolder(lock_file))
    thread.start()
    yield thread
    thread.end()


def test_a_request_is_answered(lock_file, answering):
    large = b"x" * 3_000_000
    assert ask(lock_file, b"release") == b"RELEASE"
    assert ask(lock_file, large) == large.upper()
    assert answering.seen == [b"release", large]


def test_nobody_answers_where_nobody_holds_the_lock(lock_file, answering):
    assert ask(lock_file.with_name("other"), b"release") is None
    other = lock_file.with_name("other")
    other.touch()
    assert ask(other, b"release") is None
    answering.end()
    assert ask(lock_file, b"release") is None


def test_one_process_listens_for_a_lock(lock_file, answering):
    with pytest.raises(errors.StorageError, match="cannot listen for requests") as refused:
        LockHolder(lock_file)
    assert refused.value.path == str(lock_file)
    answering.end()
    LockHolder(lock_file).close()


def test_the_holder_of_another_user_is_not_asked(lock_file, answering, monkeypatch):
    own = lock_holder.os.geteuid()
    asking = threading.current_thread()
    user = lambda: own + (threading.current_thread() is asking)  # noqa: E731
    monkeypatch.setattr(lock_holder.os, "geteuid", user)
    assert ask(lock_file, b"release") is None


def test_another_user_gets_no_answer(lock_file, answering, monkeypatch):
    own = lock_holder.os.geteuid()
    user = lambda: own + (threading.current_thread() is answering)  # noqa: E731
    monkeypatch.setattr(lock_holder.os, "geteuid", user)
    assert ask(lock_file, b"release") is None
    monkeypatch.undo()
    assert ask(lock_file, b"release") == b"RELEASE"
    assert answering.seen == [None, b"release"]


@pytest.mark.parametrize(
    "sent", [b"", b"\0\0", struct.pack(">I", 100) + b"cut short", struct.pack(">I", lock_holder.MESSAGE_BYTES_MAX + 1)]
)
def test_a_request_that_is_none_gets_no_answer(lock_file, answering, sent):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(60)
        peer.connect(lock_holder._address(lock_file))
        peer.sendall(sent)
        peer.shutdown(socket.SHUT_WR)
        assert peer.recv(100) == b""
    assert ask(lock_file, b"release") == b"RELEASE"
    assert answering.seen == [None, b"release"]


def test_a_wait_ends_after_its_time(lock_file):
    holder = LockHolder(lock_file)
    assert holder.wait(0.01) is None
    holder.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        holder.wait(0.01)


def test_a_request_that_memory_does_not_hold_ends_no_answers(lock_file, monkeypatch):
    def without_memory(peer: socket.socket) -> bytes:
        monkeypatch.setattr(lock_holder, "_receive", receive)
        raise MemoryError

    receive = lock_holder._receive
    requests = Requests(lock_file)
    monkeypatch.setattr(lock_holder, "_receive", without_memory)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(60)
        peer.connect(lock_holder._address(lock_file))
        assert peer.recv(1) == b""
    answered = threading.Thread(target=lambda: requests.next(60).answer(b"done"))
    answered.start()
    assert ask(lock_file, b"commit") == b"done"
    answered.join(60)
    requests.close()


def test_a_holder_that_says_nothing_is_not_waited_for(lock_file, monkeypatch):
    monkeypatch.setattr(lock_holder, "_SILENT_SECONDS", 0.05)
    holder = LockHolder(lock_file)
    assert ask(lock_file, b"commit") is None
    assert not lock_holder.release(lock_file)
    holder.close()


def test_whoever_waits_for_a_lock_is_let_know_when_its_holder_ends(lock_file):
    requests = Requests(lock_file)
    asked: dict[bytes, object] = {}
    askers = [
        threading.Thread(target=lambda: asked.update(release=lock_holder.release(lock_file))),
        threading.Thread(target=lambda: asked.update(commit=ask(lock_file, b"commit"))),
    ]
    for asker in askers:
        asker.start()
    first = requests.next(60)
    assert first is not None
    assert first.is_waiting()
    while len(requests._waiting) < 2:
        assert requests.next(60) is first
    requests.close()
    for asker in askers:
        asker.join(60)
    # A commit is its asker's to make now.
    assert asked == {"release": True, "commit": None}
    assert requests.next(60) is None
    assert not lock_holder.release(lock_file)
