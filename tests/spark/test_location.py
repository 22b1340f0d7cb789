"""A path or a URI: which of them a text is, decided in one place, and every place that takes one agrees."""

from __future__ import annotations

import ast
import pickle
import re
from pathlib import Path

import pyarrow.fs
import pytest

from offsetlog import errors
from offsetlog.spark.checkpoints import read_checkpoint
from offsetlog.spark.jobs import lag_ends, places
from offsetlog.spark.location import Location
from offsetlog.spark.scan.files import resolve
from offsetlog.spark.scan.uri_files import file_system_of
from offsetlog.spark.sink.options import checked_options
from offsetlog.spark.targets import StoreTarget, make_target

PACKAGE = Path(__file__).parent.parent.parent / "offsetlog"

#: A text -> the path on this machine that it names, where the working directory is /here; None for a URI.
PLACES = {
    "/data/log": "/data/log",
    "/data/log/": "/data/log",
    "/": "/",
    "//data/log": "/data/log",
    "/data/./x/../log": "/data/log",
    "/data/a b": "/data/a b",
    "/data/a%20b": "/data/a%20b",
    "/data/ts=10%3A00": "/data/ts=10%3A00",
    "/data/s3://bucket": "/data/s3:/bucket",
    "/data/é?#": "/data/é?#",
    "log": "/here/log",
    "./log/": "/here/log",
    "../log": "/log",
    ".": "/here",
    "a:b": "/here/a:b",
    "a:b/c": "/here/a:b/c",
    "kafka:9092": "/here/kafka:9092",
    "C:": "/here/C:",
    "C:/data": "/here/C:/data",
    "C:data": "/here/C:data",
    "./s3:/x": "/here/s3:/x",
    "./file:x": "/here/file:x",
    "3s://x": "/here/3s:/x",
    "file:/data/log": "/data/log",
    "file:///data/log/": "/data/log",
    "file:////data/log": "/data/log",
    "file://localhost/data/log": "/data/log",
    "FILE:/data/log": "/data/log",
    "file:/": "/",
    "file:/data/a b": "/data/a b",
    "file:///data/a%20b": "/data/a%20b",
    "file:/data/a?b#c": "/data/a?b#c",
    "file:/data/a:b": "/data/a:b",
    "s3://bucket/log": None,
    "s3a://bucket/a b": None,
    "S3://bucket": None,
    "hdfs:/log": None,
    "hdfs://host:8020/log": None,
    "abfss://box@account.dfs.core.windows.net/log": None,
    "gs://anonymous@bucket/log": None,
    "git+x.y-z://x": None,
}


@pytest.fixture(autouse=True)
def in_work(monkeypatch):
    monkeypatch.setattr("os.getcwd", lambda: "/here")


@pytest.mark.parametrize(("text", "path"), PLACES.items(), ids=repr)
def test_a_text_is_a_path_or_a_uri(text, path):
    found = Location.of(text)
    assert (found.text, found.path, found.here) == (text, path, None if path is None else Path(path))
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(("text", "path"), PLACES.items(), ids=repr)
def test_everyone_who_takes_one_agrees(text, path, tmp_path):
    given = {"path": text, "report": text}
    if path is None:
        with pytest.raises(
            errors.ConfigError, match="must be a directory on the driver's machine: a store is opened by the driver"
        ):
            checked_options({"path": text}, stream=False, overwrite=False)
        with pytest.raises(
            errors.ConfigError, match="must be a directory on the driver's machine: a report is written by the driver"
        ):
            checked_options({**given, "path": "x"}, stream=False, overwrite=False)
        for refused in (places.store_path, lambda text: places.local_path(text, "target")):
            with pytest.raises(errors.InvalidArgumentError, match="must be a directory"):
                refused(text)
        with pytest.raises(errors.InvalidArgumentError, match="must be a directory"):
            lag_ends.of_directories(None, [text])
        with pytest.raises(errors.ConfigError, match="a store must be a directory on this machine"):
            make_target(text)
        places.check_file(text)
        return
    assert resolve(text)[1] == path
    assert resolve(text)[0].arrow is None
    chosen = checked_options(given, stream=False, overwrite=False)
    assert (chosen.path, chosen.report) == (path, path)
    assert chosen.staging_location == f"{path.rstrip('/')}/.offsetlog-staging"
    assert places.store_path(text) == places.local_path(text, "target") == Path(path)
    if text != "kafka:9092":
        target = make_target(text)
        assert isinstance(target, StoreTarget)
        assert str(target) == f"the store in {path}"
    if not Path(path).exists():
        with pytest.raises(errors.MissingFileError) as caught:
            read_checkpoint(text)
        assert caught.value.path == path
        with pytest.raises(errors.MissingFileError):
            places.check_log(text)


@pytest.mark.parametrize("text", ["file:", "file:log", "file://", "file://host/log", "file:./log", "File:x"])
def test_a_file_uri_is_absolute_and_of_this_machine(text):
    with pytest.raises(errors.ConfigError, match="an absolute path on this machine, as 'file:/data/log' does"):
        Location.of(text)


@pytest.mark.parametrize("given", ["", "a\0b", 7, None, b"/data", Path("a\0b")])
def test_what_is_no_text_is_no_place(given):
    with pytest.raises(errors.ArgumentTypeError):
        Location.of(given)


def test_a_path_object_is_read_as_its_text():
    assert Location.of(Path("/data/log")) == Location.of("/data/log")
    assert Location.of(Path("a:b")).path == "/here/a:b"


def test_a_directory_with_a_colon_is_read(tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a:b").mkdir()
    (tmp_path / "a:b" / "x y%20z").write_bytes(b"1")
    for text in ("a:b", "./a:b", f"file:{tmp_path}/a:b", f"file://{tmp_path}/a:b/"):
        files, path = resolve(text)
        assert [entry.path for entry in files.list(path)] == [str(tmp_path / "a:b" / "x y%20z")]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("s3://bucket/a b/c?region=us-east-1", "bucket/a b/c"),
        ("s3://bucket/ts=10%3A00/?region=us-east-1", "bucket/ts=10%3A00"),
        ("s3://bucket/a%20b?region=us-east-1", "bucket/a%20b"),
        ("s3://bucket/é#1?region=us-east-1", "bucket/é#1"),
        ("s3://bucket?region=us-east-1", "bucket"),
        ("mock:///a%20b", "a%20b"),
        ("mock:/a b", "a b"),
    ],
)
def test_pyarrow_gets_the_path_as_spark_reads_it(text, path):
    _, found = file_system_of(text)
    assert found == path
    assert resolve(text)[1] == path


def test_a_local_path_has_the_local_file_system():
    system, path = file_system_of("file:/data/a%20b")
    assert isinstance(system, pyarrow.fs.LocalFileSystem)
    assert path == "/data/a%20b"


@pytest.mark.parametrize("text", ["gopher://x/y", "s3:/no-bucket", "memory:/x"])
def test_a_file_system_that_is_not_known_is_named(text):
    for asked in (lambda: file_system_of(text), lambda: resolve(text), lambda: read_checkpoint(text)):
        with pytest.raises(errors.ConfigError, match=f"{re.escape(text)}.*pyarrow cannot open it"):
            asked()


def test_a_password_is_in_no_message():
    for text in ("s3n://key:secret@bucket/x", "s3://key:secret@/x"):
        assert "secret" not in str(Location.of(text))
        with pytest.raises(errors.ConfigError) as caught:
            file_system_of(text)
        assert "secret" not in f"{caught.value} {caught.value!r}"
    with pytest.raises(errors.ConfigError) as caught:
        make_target("s3://key:secret@bucket/x")
    assert "secret" not in str(caught.value)
    assert "secret" not in str(Location.of("s3://bucket/x?access=a")) + str(Location.of("hdfs://user@host/x"))


@pytest.mark.parametrize(
    ("target", "log", "apart"),
    [
        ("/data/log/x", "file:/data/log", False),
        ("file:///data", "/data/log", False),
        ("s3://bucket/log/x", "S3://bucket/log", False),
        ("s3://bucket/log", "s3a://bucket/log", True),
        ("s3://bucket/log2", "s3://bucket/log", True),
        ("/data/log2", "/data/log", True),
        ("/bucket/log", "s3://bucket/log", True),
    ],
)
def test_one_place_in_another_is_found_however_they_are_written(target, log, apart):
    if apart:
        places.check_apart(target, log)
        return
    with pytest.raises(errors.InvalidArgumentError, match="must be outside the log"):
        places.check_apart(target, log)


@pytest.mark.source_tree
def test_nobody_else_decides_it():
    """No other module of the package for Spark splits URIs, or asks pyarrow for the file system of one."""
    wrong = []
    for path in [*(PACKAGE / "spark").rglob("*.py"), *(PACKAGE / "cli" / "spark").rglob("*.py")]:
        if path.name in ("location.py", *_OF_URIS):
            continue
        tree = ast.parse(path.read_text())
        docstrings = {
            ast.get_docstring(node, clean=False)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        }
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            named = getattr(node, "attr", getattr(node, "id", ""))
            is_pattern = text not in docstrings and re.search(r"://|:/\"|^file:|\bfile:\(", text) is not None
            if (is_pattern and path.name not in _NO_PLACE) or named in ("from_uri", "urlparse", "urlsplit"):
                wrong.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert wrong == []


#: The names of a cluster's listeners, as SASL_SSL://host:9092, and Spark's masters; texts of messages.
_NO_PLACE = {"targets.py", "machine.py", "reach.py", "hadoop_files.py"}
#: They find the file system of what `Location` has found to be a URI.
_OF_URIS = {"uri_files.py", "hadoop_settings.py"}
