"""`lock_timeout`: an open that waits until another process has closed the directory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import offsetlog
from offsetlog import errors
from offsetlog.cli import app
from offsetlog.directory import lock_owner


def call(capsys, *arguments: object) -> tuple[int, str, str]:
    code = app.run([str(argument) for argument in arguments])
    done = capsys.readouterr()
    return code, done.out, done.err


HOLDER = """
    import sys, offsetlog
    with offsetlog.open(sys.argv[1], durability="process") as store:
        store.commit_one("g", "t", 0, 1)
        print("open", flush=True)
        sys.stdin.read()
"""


@contextmanager
def held(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process has the directory open, until its standard input is closed."""
    command = [sys.executable, "-c", textwrap.dedent(HOLDER), str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "open\n"
        yield process


def test_the_holder_is_named(path):
    with held(path) as holder:
        with pytest.raises(errors.LockedError, match=rf"held by process {holder.pid} \(.*python") as refused:
            offsetlog.open(path)
        assert "read_only=True" in str(refused.value)
        assert "pass lock_timeout=30" in str(refused.value)
        with pytest.raises(errors.LockedError, match=rf"process {holder.pid} .*, after 0\.05 s of waiting; to read it"):
            offsetlog.open(path, lock_timeout=0.05)


def test_an_open_waits_for_the_other_process(path):
    with held(path) as holder:
        threading.Timer(0.3, holder.stdin.close).start()
        with offsetlog.open(path, lock_timeout=60) as store:
            assert store.fetch_one("g", "t", 0).offset == 1


def test_an_interrupt_ends_the_wait(path):
    class Interrupt(BaseException):
        pass

    def interrupt(*_):
        raise Interrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with held(path):
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            with pytest.raises(Interrupt):
                offsetlog.open(path, lock_timeout=3600)
    finally:
        signal.signal(signal.SIGUSR1, before)
    offsetlog.open(path).close()


def test_another_store_of_this_process(path):
    first = offsetlog.open(path)
    threading.Timer(0.2, first.close).start()
    begin = time.monotonic()
    offsetlog.open(path, lock_timeout=60).close()
    assert time.monotonic() > begin


@pytest.mark.parametrize(
    ("timeout", "error"),
    [(-1, errors.ConfigError), (float("nan"), errors.ConfigError), (float("inf"), errors.ConfigError)]
    + [(wrong, errors.ArgumentTypeError) for wrong in ("1", True, None)],
)
def test_a_wrong_timeout_is_refused(path, timeout, error):
    with pytest.raises(error, match="lock_timeout"):
        offsetlog.open(path, lock_timeout=timeout)
    assert not path.exists()


def test_commands_that_write_wait(path, capsys):
    with held(path) as holder:
        code, _, err = call(capsys, "commit", path, "g", "t:0=2", "--lock-timeout", "50ms")
        assert code == 2
        assert f"process {holder.pid}" in err
        assert "wait with --lock-timeout TIME" in err
        with offsetlog.open(path.with_name("source"), durability="process") as source:
            source.commit_one("g", "t", 0, 1)
        move = ("migrate", "--from", path.with_name("source"), "--to", path, "--yes", "--lock-timeout", "50ms")
        code, _, err = call(capsys, *move)
        assert code == 2
        assert "after 0.05 s of waiting" in err
        assert "wait with --lock-timeout TIME" in err
        threading.Timer(0.3, holder.stdin.close).start()
        code, _, err = call(capsys, "commit", path, "g", "t:0=2", "--lock-timeout", "60s")
        assert code == 0, err
    for command in ("compact", "snapshot", "delete", "restore", "undelete", "expire", "abort", "repair", "migrate"):
        _, out, _ = call(capsys, command, "--help")
        assert "--lock-timeout" in out


def test_a_process_that_only_tries_for_a_lock_does_not_hold_it(path):
    offsetlog.open(path).close()
    lock = path / ".lock"
    with open(lock, "rb"):
        assert not lock_owner.is_held_here(lock)
        with offsetlog.open(path):
            assert lock_owner.is_held_here(lock)
    assert not lock_owner.is_held_here(lock)
    assert not lock_owner.is_held_here(path / "absent" / ".lock")
