"""A staging that executors do not share with the driver is refused before a row is staged."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from offsetlog import errors
from offsetlog.spark import machine, source
from offsetlog.spark.sink import staging
from offsetlog.spark.sink.writer import BatchWriter, StreamWriter, batch_writer, stream_writer

from .sinks import batch_of, positions

KINDS = {"group": StringType(), "topic": StringType(), "partition": IntegerType(), "offset": LongType()}
COLUMNS = StructType([StructField(name, kind) for name, kind in KINDS.items()])


@pytest.mark.parametrize(
    ("master", "one"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[2,4]", True),
        ("local-cluster[2,1,1024]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077,127.0.0.2:7078", True),
        ("spark://[::1]:7077", True),
        ("spark://host:7077", False),
        ("spark://localhost:7077,host:7077", False),
        ("spark://localhost.example.com:7077", False),
        ("spark://127.0.0.1.example.com:7077", False),
        ("yarn", False),
        ("k8s://https://127.0.0.1:6443", False),
        ("localhost", False),
        ("", False),
    ],
)
def test_which_masters_are_on_one_machine(master, one):
    assert machine.is_one_machine(master) == one


@pytest.mark.parametrize("make", [batch_writer, stream_writer])
def test_the_default_staging_is_refused_on_a_cluster(tmp_path, make):
    path = tmp_path / "store"
    with pytest.raises(errors.ConfigError, match="to a directory that driver and executors share") as error:
        make({"path": str(path)}, COLUMNS, overwrite=False, one_machine=False)
    assert f"stagingLocation={path}/.offsetlog-staging" in str(error.value)
    assert not path.exists()
    # A place that is named is taken: a shared directory, a URI, and what the error proposes.
    for named in (str(tmp_path / "shared"), "s3://bucket/staging", f"{path}/.offsetlog-staging"):
        writer = make({"path": str(path), "stagingLocation": named}, COLUMNS, overwrite=False, one_machine=False)
        assert writer._options.staging_location == named
        assert writer._options.machine is None
    make({"path": str(path)}, COLUMNS, overwrite=False)


def test_the_source_knows_where_executors_are(tmp_path):
    class OnACluster(source.OffsetlogDataSource):
        one_machine = False

    here, elsewhere = source.OffsetlogDataSource({"path": str(tmp_path)}), OnACluster({"path": str(tmp_path)})
    assert isinstance(here.writer(COLUMNS, False), BatchWriter)
    assert isinstance(here.streamWriter(COLUMNS, False), StreamWriter)
    for make in (elsewhere.writer, elsewhere.streamWriter):
        with pytest.raises(errors.ConfigError, match="stagingLocation"):
            make(COLUMNS, False)


ROWS = [("g", "t", 0, 7)]


def test_a_task_elsewhere_stages_nothing(tmp_path, monkeypatch):
    """Where nobody could know before: a source that Spark found by itself."""
    path = tmp_path / "store"
    made = batch_writer({"path": str(path)}, COLUMNS, overwrite=False)
    monkeypatch.setattr(staging, "this_machine", lambda: "another kernel mnt:[1]")
    with pytest.raises(
        errors.ConfigError, match=f"do not see the driver's default staging directory, {path}/.offsetlog-staging"
    ):
        pickle.loads(pickle.dumps(made)).write(iter([batch_of(ROWS)]))
    assert not path.exists()
    named = {"path": str(path), "stagingLocation": str(tmp_path / "shared")}
    made = batch_writer(named, COLUMNS, overwrite=False)
    made.commit([pickle.loads(pickle.dumps(made)).write(iter([batch_of(ROWS)]))])
    assert positions(path) == {("g", "t", 0): 7}


def test_a_task_on_this_machine_stages(tmp_path):
    assert machine.this_machine().count("mnt:[") == 1
    made = batch_writer({"path": str(tmp_path)}, COLUMNS, overwrite=False)
    made.commit([pickle.loads(pickle.dumps(made)).write(iter([batch_of(ROWS)]))])
    assert positions(tmp_path) == {("g", "t", 0): 7}


def test_a_session_of_a_cluster_is_refused_before_tasks(spark, tmp_path, monkeypatch):
    rows = spark.createDataFrame(ROWS, COLUMNS)
    writing = rows.write.format("offsetlog").mode("append")
    # The session itself is local; what register makes of its master travels to the process that plans.
    monkeypatch.setattr(source, "is_one_machine", lambda master: False)
    source.register(spark)
    try:
        with pytest.raises(Exception, match="set stagingLocation"):
            writing.save(str(tmp_path / "store"))
        assert not (tmp_path / "store").exists()
        writing.option("stagingLocation", str(tmp_path / "shared")).save(str(tmp_path / "store"))
        assert positions(tmp_path / "store") == {("g", "t", 0): 7}
    finally:
        monkeypatch.undo()
        source.register(spark)
