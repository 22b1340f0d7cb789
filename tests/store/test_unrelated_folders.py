"""`create`: a new log is not made among files that have nothing to do with one, unless somebody insists."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import offsetlog
from offsetlog import errors
from offsetlog.directory.listing import TOPIC
from offsetlog.lifecycle import open_directory

REAL = Path(__file__).parents[1] / "data/kafka-4.3.0/groups/log"
COUNT = len(list(REAL.glob(f"{TOPIC}-*")))


@pytest.mark.parametrize("names", [("notes.txt",), ("a", "b", "photos-2019/one.jpg"), (".git/HEAD",)])
@pytest.mark.parametrize("lock", [(), (".lock",)])
def test_an_unrelated_folder_is_refused_and_left_as_it_is(path, names, lock):
    # A file ".lock" is another program's as well as ours, and no sign of a log.
    for name in [*names, *lock]:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(b"x")
    before = sorted(path.rglob("*"))
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    with pytest.raises(errors.InvalidArgumentError, match=rf"contains files \('.*'{more}\).*create=\"anywhere\""):
        offsetlog.open(path)
    assert sorted(path.rglob("*")) == before
    with offsetlog.open(path, create="anywhere") as store:
        store.commit_one("g", "t", 0, 1)
    with offsetlog.open(path) as store:  # by now it is ours
        assert store.fetch_one("g", "t", 0).offset == 1


@pytest.mark.parametrize(
    "names",
    [
        (),
        ("lost+found/",),
        (".gitkeep",),
        ("meta.properties",),
        ("recovery-point-offset-checkpoint", "orders-0/"),
        (".kafka_cleanshutdown", "anything"),
        (".lock",),
        ("offsetlog.properties.tmp", "lost+found/"),
        ("orders-0/00000000000000000000.log",),
    ],
)
def test_an_empty_folder_and_that_of_a_log_are_taken(path, names):
    path.mkdir(exist_ok=True)
    for name in names:
        if name.endswith("/"):
            (path / name).mkdir()
        else:
            (path / name).parent.mkdir(exist_ok=True)
            (path / name).touch()
    offsetlog.open(path).close()


def test_a_broker_directory_is_taken(path):
    shutil.copytree(REAL, path)
    (path / "notes.txt").touch()
    offsetlog.open(path, COUNT).close()


def test_an_open_that_failed_at_its_beginning_is_begun_again(path, monkeypatch):
    def fail(*_):
        raise errors.DiskFullError("full")

    with monkeypatch.context() as patched:
        patched.setattr(open_directory.LogDirectory, "begin_writing", fail)
        with pytest.raises(errors.DiskFullError):
            offsetlog.open(path)
    assert path.exists()
    offsetlog.open(path).close()


@pytest.mark.parametrize(("create", "error"), [("always", errors.ConfigError), (True, errors.ArgumentTypeError)])
def test_a_wrong_value_is_refused(path, create, error):
    with pytest.raises(error, match='create must be "never", "new" or "anywhere"'):
        offsetlog.open(path, create=create)
    assert not path.exists()


@pytest.mark.parametrize("names", [None, (), ("lost+found/",), ("meta.properties",), (".lock",)])
def test_never_makes_no_log(path, names):
    for name in names or ():
        (path / name).mkdir(parents=True) if name.endswith("/") else (path.mkdir(), (path / name).touch())
    before = sorted(path.rglob("*"))
    reason = "there is no log in this directory" if path.exists() else "there is no such directory"
    with pytest.raises(errors.MissingFileError, match=f'{reason}, and create="never" forbids creating a log'):
        offsetlog.open(path, create="never")
    assert sorted(path.rglob("*")) == before
    with pytest.raises(errors.MissingFileError, match="there is no log in this directory"):
        offsetlog.open(Path(__file__).parent, create="never")


def test_never_opens_a_log(path, tmp_path):
    offsetlog.open(path).close()
    offsetlog.open(path, create="never").close()  # nothing was committed yet
    shutil.copytree(REAL, tmp_path / "broker")
    offsetlog.open(tmp_path / "broker", COUNT, create="never").close()
